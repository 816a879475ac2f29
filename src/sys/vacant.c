/* SPDX-License-Identifier: BSD-2-Clause */
/* vacant.c - see vacant.h. */
#include "sys/vacant.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/fd.h"

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00) /* Linux 6.1 */
#endif
#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4 /* Linux 5.7 */
#endif

/* By an instruction of our own: the preloaded library takes a syscall() of this number
 * for the program's. */
static int new_by_call(int flags)
{
#if defined(__x86_64__)
	long rc = SYS_userfaultfd;

	__asm__ volatile("syscall"
			 : "+a"(rc)
			 : "D"((long)flags)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long nr __asm__("x8") = SYS_userfaultfd;
	register long rc __asm__("x0") = flags;

	__asm__ volatile("svc 0" : "+r"(rc) : "r"(nr) : "memory");
#else
	long rc = -ENOSYS + 0 * flags;
#endif
	return (int)rc;
}

static int new_by_device(int flags)
{
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), fd;

	if (dev < 0)
		return -errno;
	fd = ioctl(dev, USERFAULTFD_IOC_NEW, flags);
	if (fd < 0)
		fd = -errno;
	close(dev);
	return fd;
}

#ifndef UFFD_FEATURE_WP_HUGETLBFS_SHMEM
#define UFFD_FEATURE_WP_HUGETLBFS_SHMEM (1 << 12) /* Linux 5.19 */
#endif

static int agree(const struct vacant *v, uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };

	return ioctl(v->fd, UFFDIO_API, &api) ? -errno : 0;
}

static void *ptr(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

static int open_with(struct vacant *v, int flags)
{
	int rc = new_by_call(flags | O_CLOEXEC);

	*v = (struct vacant){ .fd = -1 };
	if (rc == -EPERM && (rc = new_by_device(flags | O_CLOEXEC)) < 0)
		return -EPERM;
	if (rc < 0)
		return rc;
	v->fd = fd_raise(rc);
	return 0;
}

/* Write protection is what vacant_look() asks by. */
int vacant_open(struct vacant *v)
{
	const uint64_t least = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
	int rc = open_with(v, 0);

	if (rc)
		return rc;
	rc = agree(v, least | UFFD_FEATURE_WP_HUGETLBFS_SHMEM);
	if (rc == -EINVAL)
		rc = agree(v, least);
	if (rc)
		vacant_close(v);
	return rc;
}

/* Only a descriptor that does not block can be polled. */
int vacant_open_forks(struct vacant *v)
{
	int rc = open_with(v, O_NONBLOCK);

	if (rc)
		return rc;
	rc = agree(v, UFFD_FEATURE_PAGEFAULT_FLAG_WP | UFFD_FEATURE_WP_HUGETLBFS_SHMEM |
			      UFFD_FEATURE_EVENT_FORK);
	if (rc)
		vacant_close(v);
	return rc;
}

static int add_range(const struct vacant *v, uint64_t lo, uint64_t len, uint64_t mode)
{
	struct uffdio_register r = { { lo, len }, mode | UFFDIO_REGISTER_MODE_WP, 0 };

	if (ioctl(v->fd, UFFDIO_REGISTER, &r))
		return -errno;
	return r.ioctls & UINT64_C(1) << _UFFDIO_WRITEPROTECT ? 0 : -ENOTSUP;
}

static void drop_range(const struct vacant *v, uint64_t lo, uint64_t len)
{
	struct uffdio_range r = { lo, len };

	(void)ioctl(v->fd, UFFDIO_UNREGISTER, &r);
}

static int protect(const struct vacant *v, uint64_t lo, uint64_t len, uint64_t mode)
{
	struct uffdio_writeprotect p = { { lo, len }, mode };

	return ioctl(v->fd, UFFDIO_WRITEPROTECT, &p) ? -errno : 0;
}

static void wake_waiting(const struct vacant *v, uint64_t lo, uint64_t len)
{
	struct uffdio_range r = { lo, len };

	(void)ioctl(v->fd, UFFDIO_WAKE, &r);
}

/* Nobody waits yet, at pages that were never touched either. */
int vacant_add(struct vacant *v, uint64_t lo, uint64_t len)
{
	int rc = add_range(v, lo, len, 0);

	if (rc)
		return rc;
	v->lo = lo;
	v->len = len;
	return 0;
}

int vacant_freeze(const struct vacant *v, uint64_t lo, uint64_t len)
{
	int rc = add_range(v, lo, len, 0);

	return rc ? rc : protect(v, lo, len, UFFDIO_WRITEPROTECT_MODE_WP);
}

void vacant_thaw(const struct vacant *v, uint64_t lo, uint64_t len)
{
	drop_range(v, lo, len);
}

int vacant_let(const struct vacant *v, uint64_t lo, uint64_t len)
{
	const int rc = protect(v, lo, len, 0);

	if (rc && rc != -EAGAIN)
		wake_waiting(v, lo, len);
	return rc;
}

int vacant_freeze_again(const struct vacant *v, uint64_t lo, uint64_t len)
{
	return protect(v, lo, len, UFFDIO_WRITEPROTECT_MODE_WP);
}

bool vacant_has_news(const struct vacant *v, int ms)
{
	struct pollfd p = { .fd = v->fd, .events = POLLIN };

	return poll(&p, 1, ms) == 1 && p.revents & POLLIN;
}

/* The child's own userfaultfd comes with the event; when it is closed, nothing waits in
 * the child. */
enum vacant_news vacant_news(const struct vacant *v, uint64_t *addr)
{
	struct uffd_msg msg;

	if (read(v->fd, &msg, sizeof(msg)) != sizeof(msg))
		return VACANT_NOTHING;
	if (msg.event == UFFD_EVENT_FORK) {
		close((int)msg.arg.fork.ufd);
		return VACANT_FORK;
	}
	*addr = msg.arg.pagefault.address;
	return VACANT_STORE;
}

/* To take protection away where there is none changes nothing, and is refused in other
 * memory; msync() is where there is none. */
int vacant_look(const struct vacant *v, uint64_t lo, uint64_t len)
{
	if (msync(ptr(lo), len, MS_ASYNC))
		return -ENOENT;
	return protect(v, lo, len, UFFDIO_WRITEPROTECT_MODE_DONTWAKE);
}

int vacant_take(const struct vacant *v, uint64_t lo, uint64_t len, uint64_t *at)
{
	int rc = vacant_look(v, lo, len);
	void *to;

	if (!rc)
		rc = add_range(v, lo, len, UFFDIO_REGISTER_MODE_MISSING);
	if (rc)
		return rc;
	to = mremap(ptr(lo), len, len, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	if (to == MAP_FAILED)
		return -errno;
	*at = (uintptr_t)to;
	return 0;
}

/* Each page that is still ours gets its content. */
static void copy_back(const struct vacant *v, uint64_t lo, uint64_t len, uint64_t at)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

	for (uint64_t i = 0; i < len; i += page) {
		struct uffdio_copy c = { .dst = lo + i, .src = at + i, .len = page };

		(void)ioctl(v->fd, UFFDIO_COPY, &c);
	}
	munmap(ptr(at), len);
}

void vacant_put_back(const struct vacant *v, uint64_t lo, uint64_t len, uint64_t at)
{
	if (vacant_look(v, lo, len) ||
	    mremap(ptr(at), len, len, MREMAP_MAYMOVE | MREMAP_FIXED, ptr(lo)) ==
		    MAP_FAILED)
		copy_back(v, lo, len, at);
	wake_waiting(v, lo, len);
}

void vacant_end(const struct vacant *v, uint64_t lo, uint64_t len, uint64_t at)
{
	wake_waiting(v, lo, len);
	munmap(ptr(at), len);
}

/* The program may have closed the descriptor, and another file may have its number. */
static bool is_ours(const struct vacant *v)
{
	struct uffdio_range none = { 0, 0 };

	return ioctl(v->fd, UFFDIO_WAKE, &none) && errno == EINVAL;
}

/* To close the descriptor is not enough: a child that is about to call exec may have it,
 * too. */
void vacant_drop(struct vacant *v)
{
	if (v->len)
		drop_range(v, v->lo, v->len);
	v->len = 0;
}

void vacant_close(struct vacant *v)
{
	if (v->fd < 0 || !is_ours(v))
		return;
	vacant_drop(v);
	close(v->fd);
	v->fd = -1;
}
