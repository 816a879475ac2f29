/* SPDX-License-Identifier: BSD-2-Clause */
/* name.c - see name.h. */
#include "host/name.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/slots.h"
#include "sys/closer.h"
#include "sys/fd.h"
#include "sys/rights.h"

enum { BACKLOG = 1024, SOCK_BUF = 1 << 20 };

static socklen_t set_name(struct sockaddr_un *a, const char *name)
{
	size_t n = strlen(name);

	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	memcpy(a->sun_path + 1, name, n);
	return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
}

static int make_socket(void)
{
	int size = SOCK_BUF;
	int fd = fd_socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	rights_refuse(fd);
	return fd_raise(fd);
}

static int show_senders(int fd, int on)
{
	return setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
}

void name_hide_senders(int fd)
{
	show_senders(fd, false);
}

int name_listen_at(const char *name)
{
	struct sockaddr_un a;
	socklen_t len = set_name(&a, name);
	int fd = make_socket(), rc;

	if (fd < 0)
		return fd;
	if (bind(fd, (struct sockaddr *)&a, len) == 0 && show_senders(fd, true) == 0 &&
	    listen(fd, BACKLOG) == 0)
		return fd;
	rc = -errno;
	close(fd);
	return rc;
}

void name_let_go(int fd)
{
	int conn;

	shutdown(fd, SHUT_RDWR);
	while ((conn = accept4(fd, NULL, NULL, SOCK_CLOEXEC)) >= 0 || errno == EINTR)
		if (conn >= 0)
			closer_hang_up(conn);
	/* no connection waits, and none can come */
	if (errno == EAGAIN || errno == EINVAL)
		close(fd);
	else
		closer_put(geteuid(), fd);
}

int name_connect_to(const char *name)
{
	struct sockaddr_un a;
	socklen_t len = set_name(&a, name);
	int fd = make_socket(), rc;

	if (fd < 0)
		return -EAGAIN;
	if (connect(fd, (struct sockaddr *)&a, len) == 0)
		return fd;
	rc = errno == ECONNREFUSED ? -ESRCH : -errno;
	close(fd);
	return rc;
}

static void name_of(uint16_t slot, char name[NAME_MAX_LEN])
{
	snprintf(name, NAME_MAX_LEN, "urnic/%u", slot);
}

int name_listen(uint16_t slot)
{
	char name[NAME_MAX_LEN];

	assert(slot <= SLOT_NAMED);
	name_of(slot, name);
	return name_listen_at(name);
}

int name_connect(uint16_t slot)
{
	char name[NAME_MAX_LEN];

	assert(slot <= SLOT_NAMED);
	name_of(slot, name);
	return name_connect_to(name);
}
