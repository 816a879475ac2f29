/* SPDX-License-Identifier: BSD-2-Clause */
/* service.c - see service.h. */
#include "host/service.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "host/host.h"
#include "host/host_own.h"
#include "sys/closer.h"
#include "sys/fd.h"
#include "sys/rights.h"

enum { RUN_EVENTS = 16, RUN_MSGS = 16 };
static const uid_t NOBODY = (uid_t)-1; /* a sender that the kernel does not name */

struct service {
	struct list node;
	struct host *host;
	int fd;
};

static int set_name(struct sockaddr_un *a, const char *name, socklen_t *len)
{
	size_t n = strlen(name);

	*a = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (n > sizeof(a->sun_path) - 1)
		return -ENAMETOOLONG;
	memcpy(a->sun_path + 1, name, n);
	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + n);
	return 0;
}

static int make_socket(void)
{
	int fd = fd_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	if (fd < 0)
		return -errno;
	rights_refuse(fd);
	return fd_raise(fd);
}

/* --- owning -------------------------------------------------------------- */

static int watch_service(struct host *h, struct service *s)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = s };
	struct services *all = &h->services;

	if (all->epfd < 0) {
		int fd = fd_raise(epoll_create1(EPOLL_CLOEXEC));

		if (fd < 0)
			return -errno;
		if (!host_watch(h, fd, all, true)) {
			close(fd);
			return -ENOMEM;
		}
		all->epfd = fd;
	}
	return epoll_ctl(all->epfd, EPOLL_CTL_ADD, s->fd, &ev) ? -errno : 0;
}

int service_bind(struct host *host, const char *name, struct service **out)
{
	struct service *s;
	struct sockaddr_un a;
	socklen_t len;
	int rc = set_name(&a, name, &len), on = 1;

	if (rc)
		return rc;
	s = calloc(1, sizeof(*s));
	if (!s)
		return -ENOMEM;
	s->host = host;
	s->fd = make_socket();
	if (s->fd < 0) {
		rc = s->fd;
		goto free_service;
	}
	if (setsockopt(s->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)) ||
	    bind(s->fd, (struct sockaddr *)&a, len)) {
		rc = -errno;
		goto close_fd;
	}
	rc = watch_service(host, s);
	if (rc)
		goto close_fd;
	list_add_tail(&host->services.list, &s->node);
	*out = s;
	return 0;

close_fd:
	close(s->fd);
free_service:
	free(s);
	return rc;
}

/* Takes a message in, and hands it on if `serve`. Returns false if there is none. */
static bool take_one(struct service *s, bool serve)
{
	_Alignas(8) uint8_t buf[MSG_SERVICE_MAX];
	struct msg m;
	int rc = msg_recv(s->fd, &host_table, NOBODY, buf, sizeof(buf), &m, false);

	if (!rc && serve && m.type == HOST_SERVICE)
		host_take_dgram(s->host, m.uid, m.pid, buf, m.len);
	else if (rc == -EPROTO || rc == -EPROTONOSUPPORT)
		s->host->stats.refused++;
	msg_drop(&m, true);
	return rc != -EAGAIN && rc != -EIO;
}

/* Empties the socket and closes it here, if possible, so that the name is free at
 * once. */
static void let_go(struct service *s)
{
	shutdown(s->fd, SHUT_RD);
	while (!closer_is_full() && take_one(s, false))
		;
	if (closer_is_full())
		closer_put(NOBODY, s->fd);
	else
		close(s->fd);
	s->fd = -1;
}

/* Safe while s has pending epoll events, because services_run() keeps none between
 * calls. */
void service_close(struct service *s)
{
	list_del(&s->node);
	let_go(s);
	free(s);
}

/* --- sending ------------------------------------------------------------- */

int service_send(struct host *host, const char *name, const struct dgram *d)
{
	struct services *all = &host->services;
	struct {
		struct msg_hello hello;
		struct msg_dgram dgram;
	} head;
	struct iovec part[DGRAM_IOV_MAX + 1] = { { &head, sizeof(head) } };
	struct sockaddr_un a;
	socklen_t len;
	int rc = set_name(&a, name, &len);

	if (rc || d->len > MSG_SERVICE_MAX - sizeof(head))
		return rc ? rc : -EMSGSIZE;
	if (all->tx_fd < 0) {
		all->tx_fd = make_socket();
		if (all->tx_fd < 0)
			return -EAGAIN;
	}
	if (connect(all->tx_fd, (struct sockaddr *)&a, len))
		return errno == ECONNREFUSED || errno == ENOENT ? -ESRCH : -EAGAIN;
	msg_put_hello(&head.hello, host->slot, &host->proof);
	msg_put_dgram(&head.dgram, d);
	memcpy(part + 1, d->iov, d->iovcnt * sizeof(struct iovec));
	rc = msg_send(all->tx_fd, &host_table, HOST_SERVICE, part, d->iovcnt + 1, NULL, 0,
		      false);
	return rc == -EIO ? -ESRCH : rc ? -EAGAIN : 0;
}

bool service_exists(const char *name)
{
	struct sockaddr_un a;
	socklen_t len;
	int fd = make_socket(), rc;

	if (fd < 0)
		return false;
	rc = set_name(&a, name, &len);
	if (!rc)
		rc = connect(fd, (struct sockaddr *)&a, len);
	close(fd);
	return rc == 0;
}

/* --- receiving ----------------------------------------------------------- */

/* Delivered datagrams go into a queue and free no service, so the events stay valid. */
void services_run(struct host *h)
{
	struct services *all = &h->services;
	struct epoll_event ev[RUN_EVENTS];
	int n = (int)syscall(SYS_epoll_pwait, all->epfd, ev, RUN_EVENTS, 0, NULL, 0);

	for (int i = 0; i < n; i++)
		for (int j = 0;
		     j < RUN_MSGS && !closer_is_full() && take_one(ev[i].data.ptr, true);
		     j++)
			;
}

/* --- all ----------------------------------------------------------------- */

void services_init(struct services *s)
{
	list_init(&s->list);
	s->epfd = s->tx_fd = -1;
}

static void close_set(struct services *s)
{
	if (s->epfd >= 0)
		close(s->epfd);
	if (s->tx_fd >= 0)
		close(s->tx_fd);
	s->epfd = s->tx_fd = -1;
}

void services_let_go(struct services *s)
{
	list_for(n, &s->list) let_go(container_of(n, struct service, node));
}

/* Closes a forked child's copies; otherwise the owners close their names. */
void services_forked(struct services *s)
{
	list_for(n, &s->list)
	{
		struct service *one = container_of(n, struct service, node);

		if (one->fd >= 0)
			close(one->fd);
		one->fd = -1;
	}
	close_set(s);
}
