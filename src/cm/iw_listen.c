/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_listen.c - iWARP's listeners: TCP connections come in and wait for MPA's
 * request.  One that has no room pauses, and the kernel keeps what comes. */
#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "cm/iw_int.h"
#include "cm/iw_sock.h"
#include "sys/log.h"

enum { ACCEPTS = 16 };			/* of one listener in a turn */

int iw_bind(struct cm_listener *l)
{
	int fd;

	if (!l->cm->iw || l->tcp.fd >= 0)
		return 0;
	fd = iw_sock_bind(&l->service);
	if (fd < 0)
		return fd;
	l->tcp = (struct iw_watch){ .listener = true, .fd = fd };
	return 0;
}

int iw_listen(struct cm_listener *l)
{
	int rc = iw_bind(l);

	if (!rc)
		rc = iw_sock_listen(l->tcp.fd, (int)l->backlog);
	if (!rc)
		rc = iw_watch(l->cm, &l->tcp, EPOLLIN);
	return rc;
}

void iw_unlisten(struct cm_listener *l)
{
	list_for_safe(n, &l->cm->iw->all) {
		struct iwc *c = container_of(n, struct iwc, node);

		if (c->listener != l)
			continue;
		c->listener = NULL;
		if (c->state == IWC_AWAITING)
			iwc_drop(c);
	}
	(void)iw_watch(l->cm, &l->tcp, 0);
	if (l->tcp.fd >= 0)
		close(l->tcp.fd);
	l->tcp.fd = -1;
}

static void pause_until(struct cm_listener *l, uint64_t now)
{
	struct iw_cm *iw = l->cm->iw;

	(void)iw_watch(l->cm, &l->tcp, 0);
	if (iw->resume_at == NEVER)
		iw->resume_at = now + IWC_PAUSE_NS;
}

void iw_resume(struct cm *cm)
{
	list_for(n, &cm->listeners) {
		struct cm_listener *l = container_of(n, struct cm_listener, node);

		if (l->owner && l->tcp.fd >= 0 && !l->tcp.events)
			(void)iw_watch(cm, &l->tcp, EPOLLIN);
	}
}

/* Who connects and says nothing makes place for others. */
static bool make_room(struct cm *cm, uint64_t now)
{
	struct iw_cm *iw = cm->iw;
	struct iwc *oldest;

	if (iw->half_n < IWC_HALF_MAX)
		return true;
	oldest = container_of(iw->half.next, struct iwc, half);
	if (now - oldest->since < IWC_EVICT_NS)
		return false;
	cm->counter[CM_IW_EVICTED]++;
	iwc_drop(oldest);
	return true;
}

void iw_accept(struct cm_listener *l, uint64_t now)
{
	for (int i = 0; i < ACCEPTS; i++) {
		struct cm_target from = { .space = l->service.space, .iwarp = true };
		struct stream *s;
		int fd;

		if (iwc_is_full(l) || !make_room(l->cm, now)) {
			l->cm->counter[CM_RX_BACKLOG]++;
			pause_until(l, now);
			return;
		}
		fd = iw_sock_accept(l->tcp.fd, &from);
		if (fd == -EAGAIN || fd == -EINTR)
			return;
		if (fd == -EMFILE || fd == -ENFILE || fd == -ENOMEM || fd == -ENOBUFS) {
			log_info("a TCP connection to port %u waits: errno %d",
				 l->service.port, -fd);
			pause_until(l, now);
			return;
		}
		if (fd < 0)		/* that one is gone already */
			continue;
		l->cm->counter[CM_IW_ACCEPTED]++;
		if (stream_tcp_open(&s, fd))
			close(fd);
		else
			(void)iwc_come(l, s, &from, now);
	}
}
