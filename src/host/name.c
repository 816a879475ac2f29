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

#include "sys/closer.h"
#include "sys/fd.h"
#include "sys/msg.h"

enum { BACKLOG = 1024, SOCK_BUF = 1 << 20 };

int name_socket(int type)
{
	int fd = fd_socket(AF_UNIX, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	msg_refuse_fds(fd);
	return fd_raise(fd);
}

static int show_senders(int fd, int on)
{
	return setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on));
}

/* Does bind() or connect() with the name. Returns 0 or -errno. */
static int use_name(int (*call)(int, const struct sockaddr *, socklen_t), int fd,
		    const char *name)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(name);

	if (n > sizeof(a.sun_path) - 1)
		return -ENAMETOOLONG;
	memcpy(a.sun_path + 1, name, n);
	n += offsetof(struct sockaddr_un, sun_path) + 1;
	return call(fd, (struct sockaddr *)&a, (socklen_t)n) ? -errno : 0;
}

int name_bind(int fd, const char *name)
{
	int rc = show_senders(fd, true);

	return rc ? -errno : use_name(bind, fd, name);
}

int name_lead(int fd, const char *name)
{
	int rc = use_name(connect, fd, name);

	return rc == -ECONNREFUSED ? -ESRCH : rc;
}

static int make_socket(void)
{
	int size = SOCK_BUF, fd = name_socket(SOCK_SEQPACKET);

	if (fd >= 0)
		setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	return fd;
}

void name_hide_senders(int fd)
{
	show_senders(fd, false);
}

int name_listen_at(const char *name)
{
	int fd = make_socket(), rc;

	if (fd < 0)
		return fd;
	rc = name_bind(fd, name);
	if (!rc && listen(fd, BACKLOG))
		rc = -errno;
	if (!rc)
		return fd;
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
	int fd = make_socket(), rc;

	if (fd < 0)
		return -EAGAIN;
	rc = name_lead(fd, name);
	if (!rc)
		return fd;
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
