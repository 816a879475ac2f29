/* SPDX-License-Identifier: BSD-2-Clause */
/* vacant.c - see vacant.h. */
#include "sys/vacant.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
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

/* Write protection is what vacant_look() asks by. */
int vacant_open(struct vacant *v)
{
	const uint64_t least = UFFD_FEATURE_PAGEFAULT_FLAG_WP;
	int rc = new_by_call();

	*v = (struct vacant){ .fd = -1 };
	if (rc == -EPERM && (rc = new_by_device()) < 0)
		return -EPERM;
	if (rc < 0)
		return rc;
	v->fd = fd_raise(rc);
	rc = agree(v, least | UFFD_FEATURE_WP_HUGETLBFS_SHMEM);
	if (rc == -EINVAL)
		rc = agree(v, least);
	if (rc)
		vacant_close(v);
	return rc;
}

static int add(const struct vacant *v, uint64_t lo, uint64_t len, uint64_t mode)
{
	struct uffdio_register r = { { lo, len }, mode | UFFDIO_REGISTER_MODE_WP, 0 };

	if (ioctl(v->fd, UFFDIO_REGISTER, &r))
		return -errno;
	return r.ioctls & UINT64_C(1) << _UFFDIO_WRITEPROTECT ? 0 : -ENOTSUP;
}

static void drop(const struct vacant *v, uint64_t lo, uint64_t len)
{
	struct uffdio_range r = { lo, len };

	(void)ioctl(v->fd, UFFDIO_UNREGISTER, &r);
}

static int protect(const struct vacant *v, uint64_t lo, uint64_t len, uint64_t mode)
{
	struct uffdio_writeprotect p = { { lo, len }, mode };

	return ioctl(v->fd, UFFDIO_WRITEPROTECT, &p) ? -errno : 0;
}

/* Nobody waits yet, at pages that were never touched either. */
int vacant_add(struct vacant *v, uint64_t lo, uint64_t len)
{
	int rc = add(v, lo, len, 0);

	if (rc)
		return rc;
	v->lo = lo;
	v->len = len;
	return 0;
}

int vacant_freeze(const struct vacant *v, uint64_t lo, uint64_t len)
{
	int rc = add(v, lo, len, 0);

	return rc ? rc : protect(v, lo, len, UFFDIO_WRITEPROTECT_MODE_WP);
}

void vacant_thaw(const struct vacant *v, uint64_t lo, uint64_t len)
{
	drop(v, lo, len);
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
		rc = add(v, lo, len, UFFDIO_REGISTER_MODE_MISSING);
	if (rc)
		return rc;
	to = mremap(ptr(lo), len, len, MREMAP_MAYMOVE | MREMAP_DONTUNMAP, NULL);
	if (to == MAP_FAILED)
		return -errno;
	*at = (uintptr_t)to;
	return 0;
}

static void wake(const struct vacant *v, uint64_t lo, uint64_t len)
{
	struct uffdio_range r = { lo, len };

	(void)ioctl(v->fd, UFFDIO_WAKE, &r);
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
	wake(v, lo, len);
}

void vacant_end(const struct vacant *v, uint64_t lo, uint64_t len, uint64_t at)
{
	wake(v, lo, len);
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
		drop(v, v->lo, v->len);
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
