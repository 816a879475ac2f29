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
#include <unistd.h>

#include "host/host.h"
#include "host/host_own.h"
#include "host/name.h"
#include "sys/closer.h"
#include "sys/fd.h"

enum { RUN_EVENTS = 16, RUN_MSGS = 16 };
static const uid_t NOBODY = (uid_t)-1; /* a sender that the kernel does not name */

struct service {
	struct list node;
	struct host *host;
	int fd;
};

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
	struct service *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	s->host = host;
	s->fd = name_socket(SOCK_DGRAM);
	rc = s->fd < 0 ? s->fd : name_bind(s->fd, name);
	if (!rc)
		rc = watch_service(host, s);
	if (rc) {
		if (s->fd >= 0)
			close(s->fd);
		free(s);
		return rc;
	}
	list_add_tail(&host->services.list, &s->node);
	*out = s;
	return 0;
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
	int rc;

	if (d->len > MSG_SERVICE_MAX - sizeof(head))
		return -EMSGSIZE;
	if (all->tx_fd < 0) {
		all->tx_fd = name_socket(SOCK_DGRAM);
		if (all->tx_fd < 0)
			return -EAGAIN;
	}
	rc = name_lead(all->tx_fd, name);
	if (rc)
		return rc == -ESRCH || rc == -ENAMETOOLONG ? rc : -EAGAIN;
	msg_put_hello(&head.hello, host->slot, &host->proof);
	msg_put_dgram(&head.dgram, d);
	memcpy(part + 1, d->iov, d->iovcnt * sizeof(struct iovec));
	rc = msg_send(all->tx_fd, &host_table, HOST_SERVICE, part, d->iovcnt + 1, NULL, 0,
		      false);
	return rc == -EIO ? -ESRCH : rc ? -EAGAIN : 0;
}

bool service_exists(const char *name)
{
	int fd = name_socket(SOCK_DGRAM), rc;

	if (fd < 0)
		return false;
	rc = name_lead(fd, name);
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
