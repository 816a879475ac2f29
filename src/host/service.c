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

#include "host/fds.h"
#include "host/host.h"
#include "host/msg.h"
#include "host/services.h"
#include "sys/closer.h"
#include "sys/fd.h"
#include "sys/rights.h"

enum { RUN_EVENTS = 16, RUN_MSGS = 16, BUF = 2048 };
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

static int watch_service(struct services *all, struct service *s)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = s };
	int rc;

	if (all->epfd < 0) {
		int fd = fd_raise(epoll_create1(EPOLL_CLOEXEC));

		if (fd < 0)
			return -errno;
		rc = host_watch(s->host, fd);
		if (rc) {
			close(fd);
			return rc;
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
	rc = watch_service(host_services(host), s);
	if (rc)
		goto close_fd;
	list_add_tail(&host_services(host)->list, &s->node);
	*out = s;
	return 0;

close_fd:
	close(s->fd);
free_service:
	free(s);
	return rc;
}

/* Empties the socket and closes it here, if possible, so that the name is free at
 * once. */
static void let_go(struct service *s)
{
	uint8_t byte;
	struct fds_got got;

	shutdown(s->fd, SHUT_RD);
	while (!closer_is_full() && fds_recv(s->fd, NOBODY, &byte, 1, &got) >= 0)
		fds_let_go(&got, true);
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
	struct services *all = host_services(host);
	struct {
		struct msg_proof proof;
		struct msg_dgram dgram;
	} head = { .proof = *host_proof(host) };
	struct iovec iov[DGRAM_IOV_MAX + 1] = { { &head, sizeof(head) } };
	struct sockaddr_un a;
	struct msghdr m = { .msg_name = &a, .msg_iov = iov, .msg_iovlen = d->iovcnt + 1 };
	int rc = set_name(&a, name, &m.msg_namelen);

	if (rc || d->len > BUF - sizeof(head))
		return rc ? rc : -EMSGSIZE;
	if (all->tx_fd < 0) {
		all->tx_fd = make_socket();
		if (all->tx_fd < 0)
			return -EAGAIN;
	}
	msg_put_dgram(&head.dgram, d, host_slot(host));
	memcpy(iov + 1, d->iov, d->iovcnt * sizeof(struct iovec));
	if (sendmsg(all->tx_fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0)
		return 0;
	return errno == ECONNREFUSED || errno == ENOENT ? -ESRCH : -EAGAIN;
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

static bool take_one(struct service *s)
{
	uint8_t buf[BUF] __attribute__((aligned(8)));
	struct fds_got got;
	ssize_t n = fds_recv(s->fd, NOBODY, buf, sizeof(buf), &got);

	if (n < 0)
		return false;
	if (n > 0 && n <= BUF)
		host_take_dgram(s->host, got.uid, got.pid, buf, (size_t)n);
	fds_let_go(&got, true);
	return true;
}

/* Delivered datagrams go into a queue and free no service, so the events stay valid. */
void services_run(struct host *h)
{
	struct services *all = host_services(h);
	struct epoll_event ev[RUN_EVENTS];
	int n = (int)syscall(SYS_epoll_pwait, all->epfd, ev, RUN_EVENTS, 0, NULL, 0);

	for (int i = 0; i < n; i++)
		for (int j = 0;
		     j < RUN_MSGS && !closer_is_full() && take_one(ev[i].data.ptr); j++)
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
