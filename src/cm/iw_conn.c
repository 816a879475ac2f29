/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_conn.c - iWARP connections while they are set up: their memory, descriptors, timers
 * and events. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "cm/iw_int.h"
#include "sys/alloc.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "verbs/round.h"

/* --- one connection ------------------------------------------------------ */

struct iwc *iwc_new(struct cm *cm)
{
	struct iw_cm *iw = cm->iw;
	struct iwc *c;

	if (heap_reserve(&iw->timers, iw->n + 1))
		return NULL;
	c = turn_alloc(sizeof(*c));
	if (!c)
		return NULL;
	iw->n++;
	c->base.proto = &cm_iw_proto;
	c->cm = cm;
	c->held = true;
	c->watch.fd = -1;
	list_add_tail(&iw->all, &c->node);
	list_init(&c->half);
	list_init(&c->later);
	list_init(&c->noted);
	return c;
}

void iwc_leave_half(struct iwc *c)
{
	if (!list_empty(&c->half)) {
		c->cm->iw->half_n--;
		c->listener->coming--;
	}
	list_del(&c->half);
}

void iwc_room(struct cm_listener *l)
{
	l->asked--;
	l->cm->iw->resume_at = 0;
}

void iwc_timer(struct iwc *c, uint64_t at)
{
	(void)heap_set(&c->cm->iw->timers, &c->timer, at); /* iwc_new() reserved it */
}

void iwc_close_socket(struct iwc *c)
{
	(void)iw_watch(c->cm, &c->watch, 0);
	if (c->stream)
		c->stream->ops->close(c->stream);
	else if (c->watch.fd >= 0)
		close(c->watch.fd);
	c->stream = NULL;
	c->watch.fd = -1;
}

void iwc_put(struct iwc *c)
{
	if (c->held || c->qp || c->state != IWC_OVER)
		return;
	list_del(&c->noted);
	list_del(&c->node);
	c->cm->iw->n--;
	turn_free(c);
}

/* A connection ends only when it has a QP, and it has none while its setup is in the
 * list: `ended` is as it was when c was put there. */
static void leave_later(struct iwc *c)
{
	if (!list_empty(&c->later))
		c->cm->iw->ends -= c->ended;
	list_del(&c->later);
}

void iwc_over(struct iwc *c)
{
	iwc_leave_half(c);
	leave_later(c);
	iwc_close_socket(c);
	iwc_timer(c, NEVER);
	c->state = IWC_OVER;
	iwc_put(c);
}

void iwc_drop(struct iwc *c)
{
	iwc_leave_half(c);
	c->listener = NULL;
	c->held = false;
	iwc_over(c);
}

int iw_watch(struct cm *cm, struct iw_watch *w, uint32_t events)
{
	struct epoll_event e = { .events = events, .data.ptr = w };
	int op = !events ? EPOLL_CTL_DEL : w->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;

	if (w->fd < 0 || w->events == events)
		return 0;
	if (epoll_ctl(cm->iw->epfd, op, w->fd, &e) && events)
		return -errno;
	/* A sleeping thread does not watch an empty set, so it has to be woken. */
	if (!w->events && cm->iw->sockets++ == 0 && cm->site && cm->site->kick)
		cm->site->kick(cm->core);
	cm->iw->sockets -= !events;
	w->events = events;
	return 0;
}

/* --- events -------------------------------------------------------------- */

void iwc_tell(struct iwc *c, enum cm_event_type type, int status,
	      const struct cm_param *peer)
{
	struct cm_event ev = {
		.type = type,
		.status = status,
		.conn = &c->base,
		.from = &c->to,
		.peer = peer,
	};

	if (c->base.owner)
		c->base.owner->event(c->base.owner, &ev);
}

void iw_taken(struct iwc *c)
{
	if (c->listener)
		iwc_room(c->listener);
	c->listener = NULL;
}

/* --- all connections of a NIC -------------------------------------------- */

int iw_open(struct cm *cm)
{
	struct iw_cm *iw = calloc(1, sizeof(*iw));
	int rc;

	if (!iw)
		return -ENOMEM;
	iw->epfd = fd_raise(epoll_create1(EPOLL_CLOEXEC));
	if (iw->epfd < 0) {
		rc = -errno;
		free(iw);
		return rc;
	}
	iw->resume_at = NEVER;
	heap_init(&iw->timers);
	list_init(&iw->all);
	list_init(&iw->half);
	list_init(&iw->later);
	list_init(&iw->noted);
	cm->iw = iw;
	return 0;
}

/* Called when all ids and QPs are gone. */
void iw_close(struct cm *cm)
{
	struct iw_cm *iw = cm->iw;

	list_for_safe(n, &iw->all)
	{
		struct iwc *c = container_of(n, struct iwc, node);

		c->held = false;
		c->qp = NULL;
		iwc_over(c);
	}
	heap_fini(&iw->timers);
	close(iw->epfd);
	free(iw);
}

void iw_forked(struct cm *cm)
{
	struct iw_cm *iw = cm->iw;

	list_for(n, &iw->all)
	{
		struct iwc *c = container_of(n, struct iwc, node);

		if (c->stream)
			stream_forked(c->stream);
		else if (c->watch.fd >= 0)
			close(c->watch.fd);
	}
	list_for(n, &cm->listeners)
	{
		struct cm_listener *l = container_of(n, struct cm_listener, node);

		if (l->tcp.fd >= 0)
			close(l->tcp.fd);
	}
	close(iw->epfd);
}

void iw_leave(struct cm *cm, uint64_t now)
{
	list_for_safe(n, &cm->iw->all)
	{
		struct iwc *c = container_of(n, struct iwc, node);

		if (c->state == IWC_ASKED)
			(void)cm_iw_proto.reject(&c->base, 0, NULL, 0, now);
		else if (c->state == IWC_PARKED || c->state == IWC_AWAITING)
			iwc_turn_away(c, now);
	}
}

static void run_notes(struct cm *cm, uint64_t now)
{
	list_for_safe(n, &cm->iw->noted)
	{
		list_del(n);
		iwc_noted(container_of(n, struct iwc, noted), now);
	}
}

static void put_later(struct iwc *c, bool behind, uint64_t now)
{
	c->behind = behind;
	c->later_at = now;
	c->cm->iw->ends += c->ended;
	list_add_tail(&c->cm->iw->later, &c->later);
	source_sooner(&c->cm->source, 0);
}

void iwc_later(struct iwc *c, uint64_t now)
{
	put_later(c, false, now);
}

/* A client that has ESTABLISHED of one connection, and then asks for the next or ends
 * another, expects its server to be told in that order, as Linux's siw and iw_cm do. But
 * the RTR that establishes, the request and the end come by different sockets, and are
 * not found in the order in which they came. So establishing is told at once, an end when
 * everything has been taken in that came before it, and a request or a reply then, too,
 * behind the ends that turned up meanwhile. */
static void run_later(struct cm *cm, uint64_t now)
{
	struct list *later = &cm->iw->later;

	while (!list_empty(later)) {
		struct iwc *c = container_of(later->next, struct iwc, later);

		if (!silent_until(&cm->core->round, c->later_at, now))
			return;
		leave_later(c);
		if (c->ended)
			iwc_told_end(c);
		else if (!c->behind && cm->iw->ends)
			put_later(c, true, now);
		else
			iwc_settled(c, now);
	}
}

bool iw_input(struct cm *cm, uint64_t now)
{
	struct iw_watch *listener[IWC_EVENTS];
	struct epoll_event ev[IWC_EVENTS];
	int n, listeners = 0;

	run_notes(cm, now);
	if (!cm->iw->sockets || now < cm->iw->look_at)
		return false;
	cm->iw->look_at = now + IWC_LOOK_NS;
	n = epoll_wait(cm->iw->epfd, ev, IWC_EVENTS, 0);
	/* Listeners come last: iw_accept() may evict other connections in this list. */
	for (int i = 0; i < n; i++) {
		struct iw_watch *w = ev[i].data.ptr;

		if (!w->listener)
			iwc_progress(container_of(w, struct iwc, watch), now);
		else
			listener[listeners++] = w;
	}
	for (int i = 0; i < listeners; i++)
		iw_accept(container_of(listener[i], struct cm_listener, tcp), now);
	if (n > 0)
		source_sooner(&cm->source, 0);
	return n > 0;
}

void iw_run(struct cm *cm, uint64_t now)
{
	struct iw_cm *iw = cm->iw;
	struct heap_node *top;

	run_notes(cm, now);
	run_later(cm, now);
	while ((top = heap_top(&iw->timers)) &&
	       silent_until(&cm->core->round, top->at, now)) {
		heap_del(&iw->timers, top);
		iwc_timeout(container_of(top, struct iwc, timer), now);
	}
	if (iw->resume_at <= now) {
		iw->resume_at = NEVER;
		iw_resume(cm, now);
	}
}

uint64_t iw_deadline(const struct cm *cm)
{
	const struct iw_cm *iw = cm->iw;
	uint64_t at = heap_next(&iw->timers);

	if (!list_empty(&iw->noted) || !list_empty(&iw->later))
		return 0;
	return iw->resume_at < at ? iw->resume_at : at;
}
