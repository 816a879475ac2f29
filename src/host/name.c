/* SPDX-License-Identifier: BSD-2-Clause */
/* name.c - see name.h. */
#include "host/name.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sys/fd.h"

enum { BACKLOG = 1024, SOCK_BUF = 1 << 20 };

static socklen_t set_name(struct sockaddr_un *a, uint16_t slot)
{
	int n;

	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	n = snprintf(a->sun_path + 1, sizeof(a->sun_path) - 1, "urnic/%u", slot);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
}

static int make_socket(void)
{
	int size = SOCK_BUF;
	int fd = fd_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	return fd_raise(fd);
}

int name_listen(uint16_t slot)
{
	struct sockaddr_un a;
	socklen_t len = set_name(&a, slot);
	int fd = make_socket(), rc;

	if (fd < 0)
		return fd;
	if (bind(fd, (struct sockaddr *)&a, len) == 0 && listen(fd, BACKLOG) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

int name_connect(uint16_t slot)
{
	struct sockaddr_un a;
	socklen_t len = set_name(&a, slot);
	int fd = make_socket(), rc;

	if (fd < 0)
		return -EAGAIN;
	if (connect(fd, (struct sockaddr *)&a, len) == 0)
		return fd;
	rc = errno == ECONNREFUSED ? -ESRCH : -errno;
	close(fd);
	return rc;
}

int name_cred(int fd, uid_t *uid, pid_t *pid)
{
	struct ucred c;
	socklen_t len = sizeof(c);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &len))
		return -errno;
	*uid = c.uid;
	*pid = c.pid;
	return 0;
}
