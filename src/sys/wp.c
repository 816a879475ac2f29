/* SPDX-License-Identifier: BSD-2-Clause */
/* wp.c - see wp.h. */
#include "sys/wp.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/fd.h"

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00) /* Linux 6.1 */
#endif
#ifndef UFFD_FEATURE_WP_UNPOPULATED
#define UFFD_FEATURE_WP_UNPOPULATED (1 << 13) /* Linux 6.4 */
#endif
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

/* By an instruction of our own: the preloaded library takes a syscall() of this number
 * for the program's. */
static int new_by_call(void)
{
#if defined(__x86_64__)
	long rc = SYS_userfaultfd;

	__asm__ volatile("syscall"
			 : "+a"(rc)
			 : "D"((long)O_CLOEXEC)
			 : "rcx", "r11", "memory");
#elif defined(__aarch64__)
	register long nr __asm__("x8") = SYS_userfaultfd;
	register long rc __asm__("x0") = O_CLOEXEC;

	__asm__ volatile("svc 0" : "+r"(rc) : "r"(nr) : "memory");
#else
	long rc = -ENOSYS;
#endif
	return (int)rc;
}

static int new_by_device(void)
{
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), fd;

	if (dev < 0)
		return -errno;
	fd = ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC);
	if (fd < 0)
		fd = -errno;
	close(dev);
	return fd;
}

static int agree(struct wp *w, uint64_t features)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };

	w->untouched = features & UFFD_FEATURE_WP_UNPOPULATED;
	return ioctl(w->fd, UFFDIO_API, &api) ? -errno : 0;
}

int wp_open(struct wp *w)
{
	const uint64_t least = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
	int rc = new_by_call();

	*w = (struct wp){ .fd = -1 };
	if (rc == -EPERM && (rc = new_by_device()) < 0)
		return -EPERM;
	if (rc < 0)
		return rc;
	w->fd = fd_raise(rc);
	rc = agree(w, least | UFFD_FEATURE_WP_UNPOPULATED);
	if (rc == -EINVAL)
		rc = agree(w, least);
	if (rc)
		wp_close(w);
	return rc;
}

int wp_add(struct wp *w, uint64_t lo, uint64_t len)
{
	struct uffdio_register r = { .range = { lo, len },
				     .mode = UFFDIO_REGISTER_MODE_WP };

	if (ioctl(w->fd, UFFDIO_REGISTER, &r))
		return -errno;
	w->lo = lo;
	w->len = len;
	return r.ioctls & UINT64_C(1) << _UFFDIO_WRITEPROTECT ? 0 : -ENOTSUP;
}

static int set_mode(const struct wp *w, uint64_t lo, uint64_t len, uint64_t mode)
{
	struct uffdio_writeprotect p = { .range = { lo, len }, .mode = mode };

	return ioctl(w->fd, UFFDIO_WRITEPROTECT, &p) ? -errno : 0;
}

int wp_protect(const struct wp *w, uint64_t lo, uint64_t len)
{
	if (!w->untouched && madvise((void *)(uintptr_t)lo, len, MADV_POPULATE_WRITE))
		return -errno;
	return set_mode(w, lo, len, UFFDIO_WRITEPROTECT_MODE_WP);
}

/* To protect what is protected changes nothing, and is refused in other memory; msync()
 * is where there is none. */
int wp_look(const struct wp *w, uint64_t lo, uint64_t len)
{
	if (msync((void *)(uintptr_t)lo, len, MS_ASYNC))
		return -errno;
	return set_mode(w, lo, len, UFFDIO_WRITEPROTECT_MODE_WP);
}

/* Pages that were replaced are not registered any more, and need only the wake. */
void wp_go_on(const struct wp *w, uint64_t lo, uint64_t len)
{
	struct uffdio_range r = { lo, len };

	(void)set_mode(w, lo, len, 0);
	(void)ioctl(w->fd, UFFDIO_WAKE, &r);
}

/* The program may have closed the descriptor, and another file may have its number. */
static bool is_ours(const struct wp *w)
{
	struct uffdio_range none = { 0, 0 };

	return ioctl(w->fd, UFFDIO_WAKE, &none) && errno == EINVAL;
}

/* To close the descriptor is not enough: a child that is about to call exec may have it,
 * too. */
void wp_drop(struct wp *w)
{
	struct uffdio_range r = { w->lo, w->len };

	if (w->len)
		(void)ioctl(w->fd, UFFDIO_UNREGISTER, &r);
	w->len = 0;
}

void wp_close(struct wp *w)
{
	if (w->fd < 0 || !is_ours(w))
		return;
	wp_drop(w);
	close(w->fd);
	w->fd = -1;
}
