/* SPDX-License-Identifier: BSD-2-Clause */
/* fd.c - keeps descriptors out of the program's way; see fd.h. */
#include "sys/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

enum { FD_HIGH = 768 };

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U /* Linux 6.3 */
#endif

#ifndef RWF_NOWAIT
#define RWF_NOWAIT 8 /* not in every C library, nor is preadv2() */
#endif

static int fd_floor(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur / 2 >= FD_HIGH)
		return FD_HIGH;
	return (int)(lim.rlim_cur / 2);
}

int fd_raise(int fd)
{
	int min = fd_floor(), high;

	if (fd < 0 || (fd >= min && fd < FD_SETSIZE))
		return fd;
	high = fcntl(fd, F_DUPFD_CLOEXEC, min);
	if (high < 0)
		return fd;
	if (high >= FD_SETSIZE && high > fd) {
		close(high);
		return fd;
	}
	close(fd);
	return high;
}

int fd_socket(int domain, int type, int protocol)
{
	return (int)syscall(SYS_socket, domain, type, protocol);
}

/* The kernel sends SIGXFSZ to a process that makes a file longer than its limit. */
static bool may_be_long(size_t size)
{
	struct rlimit lim;

	return getrlimit(RLIMIT_FSIZE, &lim) != 0 || lim.rlim_cur >= size;
}

int fd_memory(const char *name, size_t size)
{
	const unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
	int fd, rc;

	if (!may_be_long(size))
		return -EFBIG;
	fd = memfd_create(name, flags | MFD_NOEXEC_SEAL);
	if (fd < 0 && errno == EINVAL)
		fd = memfd_create(name, flags); /* before Linux 6.3 */
	if (fd < 0)
		return -errno;
	if (ftruncate(fd, (off_t)size) == 0)
		return fd_raise(fd);
	rc = -errno;
	close(fd);
	return rc;
}

int fd_try_token(int fd)
{
	uint64_t token;
	struct iovec iov = { &token, sizeof(token) };

	return syscall(SYS_preadv2, fd, &iov, 1L, -1L, -1L, RWF_NOWAIT) < 0 ? -errno : 0;
}

int fd_identify(int fd, struct fd_id *out)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	*out = (struct fd_id){ st.st_dev, st.st_ino };
	return 0;
}

bool fd_is(int fd, const struct fd_id *id)
{
	struct fd_id now;

	return fd_identify(fd, &now) == 0 && fd_same(&now, id);
}

bool fd_has_seals(int fd, int seals)
{
	int has = fcntl(fd, F_GET_SEALS); /* -1: a file that cannot be sealed */

	return has >= 0 && (has & seals) == seals;
}

bool fd_is_sealed(int fd, size_t size, int seals)
{
	struct stat st;

	return fd_has_seals(fd, seals) && fstat(fd, &st) == 0 &&
	       st.st_size == (off_t)size;
}
