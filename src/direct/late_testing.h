/* SPDX-License-Identifier: BSD-2-Clause */
/* late_testing.h - for tests: memory with one page that is missing at first. A thread
 * that touches the page blocks until it is given, like a thread that is stopped. */
#ifndef DIRECT_LATE_TESTING_H
#define DIRECT_LATE_TESTING_H

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

enum { LATE_PAGE = 4096, LATE_SIZE = 32 * LATE_PAGE };

struct late {
	uint8_t *at; /* [LATE_SIZE]: the second page is late */
	int fd;
};

/* False: userfaultfd(2) is forbidden. */
static inline bool late_open(struct late *l, uint8_t fill)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_MISSING };

	l->fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY);
	if (l->fd < 0)
		return false;
	l->at = mmap(NULL, LATE_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	if (l->at == MAP_FAILED)
		return false;
	memset(l->at, fill, LATE_SIZE);
	reg.range.start = (uintptr_t)l->at + LATE_PAGE;
	reg.range.len = LATE_PAGE;
	return !madvise(l->at + LATE_PAGE, LATE_PAGE, MADV_DONTNEED) &&
	       !ioctl(l->fd, UFFDIO_API, &api) && !ioctl(l->fd, UFFDIO_REGISTER, &reg);
}

/* Waits until a thread blocks on the page. */
static inline bool late_reached(const struct late *l)
{
	struct uffd_msg msg;

	return read(l->fd, &msg, sizeof(msg)) == sizeof(msg) &&
	       msg.event == UFFD_EVENT_PAGEFAULT;
}

/* Gives the page, so that the thread continues. */
static inline bool late_give(const struct late *l)
{
	struct uffdio_copy copy = { .dst = (uintptr_t)l->at + LATE_PAGE,
				    .src = (uintptr_t)l->at,
				    .len = LATE_PAGE };

	return !ioctl(l->fd, UFFDIO_COPY, &copy);
}

static inline void late_close(const struct late *l)
{
	close(l->fd);
	munmap(l->at, LATE_SIZE);
}

#endif
