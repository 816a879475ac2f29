/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_listen.c - iWARP's listeners: TCP connections come in and wait for MPA's request. A
 * listener without room pauses, and the kernel queues what comes meanwhile. */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "cm/iw_int.h"
#include "sys/log.h"

enum {
	ACCEPTS = 16, /* of one listener in a turn */
	/* Least length of the kernel's queue. A SYN that finds it full is repeated after
	 * 1 s. */
	QUEUE = 128,
};

int iw_bind(struct cm_listener *l, bool any_port)
{
	int fd;

	if (!l->cm->iw || l->tcp.fd >= 0)
		return 0;
	fd = iw_sock_bind(&l->service, any_port);
	if (fd < 0)
		return fd;
	l->tcp = (struct iw_watch){ .listener = true, .fd = fd };
	return 0;
}

static void close_socket(struct cm_listener *l)
{
	(void)iw_watch(l->cm, &l->tcp, 0);
	if (l->tcp.fd >= 0)
		close(l->tcp.fd);
	l->tcp.fd = -1;
	l->pauses = false;
}

int iw_listen(struct cm_listener *l)
{
	int rc = iw_bind(l, false);

	if (!rc)
		rc = iw_sock_listen(l->tcp.fd,
				    l->backlog > QUEUE ? (int)l->backlog : QUEUE);
	if (!rc)
		rc = iw_watch(l->cm, &l->tcp, EPOLLIN);
	if (rc)
		close_socket(l);
	return rc;
}

void iw_unlisten(struct cm_listener *l)
{
	list_for_safe(n, &l->cm->iw->all)
	{
		struct iwc *c = container_of(n, struct iwc, node);

		if (c->listener != l)
			continue;
		if (c->state == IWC_AWAITING || c->state == IWC_PARKED)
			iwc_drop(c);
		else
			c->listener = NULL;
	}
	close_socket(l);
}

/* --- room for connections ------------------------------------------------ */

static void rest(struct cm_listener *l)
{
	(void)iw_watch(l->cm, &l->tcp, 0);
	l->pauses = true;
}

static void rest_until(struct cm_listener *l, uint64_t at)
{
	rest(l);
	if (at < l->cm->iw->resume_at)
		l->cm->iw->resume_at = at;
}

void iw_resume(struct cm *cm, uint64_t now)
{
	list_for_safe(n, &cm->iw->half)
	{
		struct iwc *c = container_of(n, struct iwc, half);

		if (c->state == IWC_PARKED && !iwc_is_full(c->listener))
			iwc_tell_request(c, now);
	}
	list_for(n, &cm->listeners)
	{
		struct cm_listener *l = container_of(n, struct cm_listener, node);

		if (!l->pauses || iwc_is_full(l))
			continue;
		if (iw_watch(cm, &l->tcp, EPOLLIN))
			rest_until(l, now + IWC_PAUSE_NS);
		else
			l->pauses = false;
	}
}

static struct cm_listener *fullest(struct cm *cm)
{
	struct cm_listener *most = NULL;

	list_for(n, &cm->listeners)
	{
		struct cm_listener *l = container_of(n, struct cm_listener, node);

		if (!most || l->coming > most->coming)
			most = l;
	}
	return most;
}

/* Ends one half-open connection to make room, as its peer may never send a request: the
 * oldest of the listener that has most. Returns false if none is old enough. */
static bool evict_oldest(struct cm_listener *for_whom, uint64_t now)
{
	struct cm *cm = for_whom->cm;
	struct cm_listener *from = fullest(cm);
	struct iwc *oldest = NULL;

	list_for(n, &cm->iw->half)
	{
		struct iwc *c = container_of(n, struct iwc, half);

		if (c->listener == from && (!oldest || (oldest->state == IWC_PARKED &&
							c->state == IWC_AWAITING)))
			oldest = c;
	}
	if (!oldest || (from == for_whom && now - oldest->since < IWC_EVICT_NS))
		return false;
	cm->counter[CM_IW_EVICTED]++;
	iwc_turn_away(oldest, now);
	return true;
}

/* --- accepting ----------------------------------------------------------- */

/* Handles an error of accept(). Returns false if calling accept() again at once would be
 * useless. */
static bool none_came(struct cm_listener *l, int err, uint64_t now)
{
	switch (err) {
	case EAGAIN:
	case EINTR:
		return false;
	case EMFILE:
	case ENFILE:
	case ENOMEM:
	case ENOBUFS:
		log_info("a TCP connection to port %u waits to be accepted: %s",
			 l->service.port, strerror(err));
		(void)evict_oldest(l, now);
		rest_until(l, now + IWC_PAUSE_NS);
		return false;
	case EBADF:
	case EINVAL:
	case ENOTSOCK:
		log_info("port %u is not served by iWARP any more: %s", l->service.port,
			 strerror(err));
		(void)iw_watch(l->cm, &l->tcp, 0);
		return false;
	default: /* this one connection has failed already */
		return true;
	}
}

void iw_accept(struct cm_listener *l, uint64_t now)
{
	for (int i = 0; i < ACCEPTS; i++) {
		struct cm_target from = { .space = l->service.space, .iwarp = true };
		struct stream *s;
		int fd;

		if (iwc_is_full(l)) {
			rest(l);
			return;
		}
		if (l->cm->iw->half_n >= IWC_HALF_MAX && !evict_oldest(l, now)) {
			rest_until(l, now + IWC_PAUSE_NS);
			return;
		}
		fd = iw_sock_accept(l->tcp.fd, &from);
		if (fd < 0 && !none_came(l, -fd, now))
			return;
		if (fd < 0)
			continue;
		l->cm->counter[CM_IW_ACCEPTED]++;
		if (stream_tcp_open(&s, fd))
			close(fd);
		else
			(void)iwc_come(l, s, &from, now);
	}
}
