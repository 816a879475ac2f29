/* SPDX-License-Identifier: BSD-2-Clause */
/* fd.c - see fd.h. */
#include "sys/fd.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <unistd.h>

enum { FD_HIGH = 768 };

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
