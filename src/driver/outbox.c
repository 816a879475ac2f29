/* SPDX-License-Identifier: BSD-2-Clause */
/* outbox.c - see outbox.h. */
#include "driver/outbox.h"

#include "driver/tuning.h"
#include "shm/peers.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "verbs/core.h"
#include "verbs/due.h"
#include "verbs/qp.h"
#include "verbs/round.h"
#include "verbs/transport.h"

enum {
	COPY_ROOM = 8192, /* bytes for any copied datagram, MTU 4096 */
};

/* Returns the part of the batch that v[i] belongs to; NULL: it belongs to no QP. */
static struct part *part_of(struct outbox *o, unsigned i)
{
	for (struct part *p = o->part; p < o->part + o->parts; p++)
		if (i - p->first < p->n)
			return p;
	return NULL;
}

/* v[i] was not taken, so nothing that its QP has behind v[i] may be sent. */
static void not_taken(struct outbox *o, unsigned i)
{
	struct part *p = part_of(o, i);

	o->batch.v[i].len = 0;
	for (unsigned j = i; p && j < p->first + p->n; j++)
		o->batch.v[j].len = 0;
}

/* Tells each QP how many of its datagrams were taken. */
static void commit(struct outbox *o, struct core *core, uint64_t now) REQUIRES(core->turn)
{
	const struct batch *b = &o->batch;

	for (struct part *p = o->part; p < o->part + o->parts; p++) {
		struct qp *qp = p->qp;
		unsigned taken = 0;
		uint64_t next;

		while (taken < p->n && b->v[p->first + taken].len)
			taken++;
		qp->sched.planned = false;
		o->refused += p->n - taken;
		lock_take(&qp->lock);
		next = qp->transport->commit(qp, p->first, taken, now);
		lock_give(&qp->lock);
		if (p->retry)
			next = qp->sched.full_until = now + p->retry;
		else if (taken < p->n)
			due_add(core, qp);
		due_at(core, qp, next);
	}
	o->parts = 0;
}

/* Does the run at v[i] go through memory to a process of this host, rather than by its
 * link?  (A run has one destination.) */
static bool stays_here(const struct outbox *o, const struct core *core, unsigned i)
{
	const struct dgram *d = &o->batch.v[i];

	return d->same_host && peers_has_pipe(peers_of(core), d->to_slot);
}

static unsigned run_end(const struct batch *b, unsigned i)
{
	while (++i < b->n && b->v[i].seg && b->v[i].len)
		;
	return i;
}

/* There is no room for v[i]: only its QP waits. */
static void no_room(struct outbox *o, unsigned i, uint64_t retry)
{
	struct part *p = part_of(o, i);

	if (p)
		p->retry = retry;
	not_taken(o, i);
}

static void send_within(struct outbox *o, struct peers *local, unsigned i, unsigned end,
			uint64_t now)
{
	for (; i < end; i++) {
		const struct dgram *d = &o->batch.v[i];

		if (d->len && !peers_send(local, d->to_slot, d, now))
			no_room(o, i, RETRY_PIPE_NS);
	}
}

/* A full link is not tried again for a while. Returns false if the link is broken. */
static bool send_linked(struct outbox *o, unsigned i, unsigned end, uint64_t now)
{
	struct dgram *d = &o->batch.v[i];
	struct link *link = d->link;
	int was, sent = 0;

	if (link->full_until <= now) {
		was = cancel_hold();
		sent = link->ops->send(link, d, end - i, now);
		cancel_let(was);
		link_sent(link);
		if (sent < 0)
			return false;
		if (sent > 0)
			link->took_at = now;
		if ((unsigned)sent < end - i)
			link->full_until = now + LINK_FULL_NS;
	}
	for (i += (unsigned)sent; i < end; i++)
		no_room(o, i, LINK_FULL_NS);
	return true;
}

bool out_flush(struct outbox *o, struct core *core, uint64_t now)
{
	struct batch *b = &o->batch;
	unsigned i = 0, end;
	bool whole = true;

	if (b->n == 0)
		return true;
	for (; i < b->n; i = end) {
		end = run_end(b, i);
		if (!b->v[i].len) {
			/* A run is sealed for the places of its datagrams, so without
			 * its first the rest cannot be sent. */
			while (++i < b->n && b->v[i].seg)
				not_taken(o, i);
			end = i;
			continue;
		}
		if (stays_here(o, core, i)) {
			send_within(o, peers_of(core), i, end, now);
			continue;
		}
		while (end < b->n && b->v[end].len && b->v[end].link == b->v[i].link &&
		       !stays_here(o, core, end))
			end = run_end(b, end);
		whole &= send_linked(o, i, end, now);
	}
	commit(o, core, went_out(&core->round, now));
	batch_reset(b);
	return whole;
}

bool out_nearly_full(const struct outbox *o)
{
	const struct batch *b = &o->batch;

	return b->n >= BATCH_MAX / 2 || !batch_has_room(b, DGRAM_IOV_MAX, COPY_ROOM);
}

bool out_ask(struct outbox *o, struct qp *qp, uint64_t now)
{
	struct part *p = &o->part[o->parts];
	bool more;

	*p = (struct part){ .qp = qp, .first = o->batch.n };
	qp->sched.asked = qp->sq.head;
	more = qp->transport->output(qp, &o->batch, now);
	p->n = o->batch.n - p->first;
	qp->sched.planned = p->n > 0;
	o->parts += qp->sched.planned;
	return more;
}
