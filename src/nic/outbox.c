/* SPDX-License-Identifier: BSD-2-Clause */
/* outbox.c - see outbox.h. */
#include "nic/outbox.h"

#include "core/core.h"
#include "core/due.h"
#include "core/qp.h"
#include "core/round.h"
#include "core/transport.h"
#include "nic/engine.h"
#include "sys/cancel.h"
#include "sys/clock.h"

enum {
	RETRY_FULL_NS = 100000, /* ns until a full link is tried again */
	RETRY_PIPE_NS = 20000,	/* ns until a full pipe is tried again */
	COPY_ROOM = 8192,	/* bytes for any copied datagram, MTU 4096 */
};

/* Returns the part of the batch that v[i] belongs to; NULL: it belongs to no QP. */
static struct part *part_of(struct engine *e, unsigned i)
{
	for (struct part *p = e->out.part; p < e->out.part + e->out.parts; p++)
		if (i - p->first < p->n)
			return p;
	return NULL;
}

/* v[i] was not taken, so nothing that its QP has behind v[i] may be sent. */
static void not_taken(struct engine *e, unsigned i)
{
	struct part *p = part_of(e, i);

	e->out.batch.v[i].len = 0;
	for (unsigned j = i; p && j < p->first + p->n; j++)
		e->out.batch.v[j].len = 0;
}

/* Tells each QP how many of its datagrams were taken. */
static void commit(struct engine *e, uint64_t now) REQUIRES(e->core->turn)
{
	const struct batch *b = &e->out.batch;

	for (struct part *p = e->out.part; p < e->out.part + e->out.parts; p++) {
		struct qp *qp = p->qp;
		unsigned taken = 0;
		uint64_t next;

		while (taken < p->n && b->v[p->first + taken].len)
			taken++;
		qp->planned = false;
		lock_take(&qp->lock);
		next = qp->transport->commit(qp, p->first, taken, now);
		lock_give(&qp->lock);
		if (p->retry)
			next = qp->full_until = now + p->retry;
		else if (taken < p->n)
			due_add(e->core, qp);
		engine_timer(e, qp, next);
	}
	e->out.parts = 0;
}

/* Returns the source that carries the run at v[i] within the host; NULL: its link does.
 * (A run has one destination.) */
static struct source *way_of(struct engine *e, unsigned i)
{
	const struct dgram *d = &e->out.batch.v[i];

	if (d->same_host)
		each_source(s, &e->ways) if ((*s)->ops->leads_to(*s, d)) return *s;
	return NULL;
}

static unsigned run_end(const struct batch *b, unsigned i)
{
	while (++i < b->n && b->v[i].seg && b->v[i].len)
		;
	return i;
}

/* There is no room for v[i]: only its QP waits. */
static void no_room(struct engine *e, unsigned i, uint64_t retry)
{
	struct part *p = part_of(e, i);

	if (p)
		p->retry = retry;
	not_taken(e, i);
}

static void send_within(struct engine *e, struct source *way, unsigned i, unsigned end,
			uint64_t now)
{
	for (; i < end; i++) {
		const struct dgram *d = &e->out.batch.v[i];

		if (d->len && !way->ops->send(way, d, now))
			no_room(e, i, RETRY_PIPE_NS);
	}
}

/* A full link is not tried again for a while. */
static void send_linked(struct engine *e, unsigned i, unsigned end, uint64_t now)
	REQUIRES(e->core->turn)
{
	struct dgram *d = &e->out.batch.v[i];
	struct link *link = d->link;
	int was, sent = 0;

	if (link->full_until <= now) {
		was = cancel_hold();
		sent = link->ops->send(link, d, end - i, now);
		cancel_let(was);
		if (sent < 0) {
			engine_break(e, "sending");
			return;
		}
		if ((unsigned)sent < end - i)
			link->full_until = now + RETRY_FULL_NS;
	}
	for (i += (unsigned)sent; i < end; i++)
		no_room(e, i, RETRY_FULL_NS);
}

void out_flush(struct engine *e, uint64_t now)
{
	struct batch *b = &e->out.batch;
	unsigned i = 0, end;
	struct source *way;

	turn_is_held(e->core);
	if (b->n == 0)
		return;
	for (; i < b->n; i = end) {
		end = run_end(b, i);
		if (!b->v[i].len) {
			/* A run is sealed for the places of its datagrams, so without
			 * its first the rest cannot be sent. */
			while (++i < b->n && b->v[i].seg)
				not_taken(e, i);
			end = i;
			continue;
		}
		way = way_of(e, i);
		if (way) {
			send_within(e, way, i, end, now);
			continue;
		}
		while (end < b->n && b->v[end].len && b->v[end].link == b->v[i].link &&
		       !way_of(e, end))
			end = run_end(b, end);
		send_linked(e, i, end, now);
	}
	commit(e, went_out(&e->core->round, now));
	batch_reset(b);
}

bool out_nearly_full(const struct engine *e)
{
	const struct batch *b = &e->out.batch;

	return b->n >= BATCH_MAX / 2 || !batch_has_room(b, DGRAM_IOV_MAX, COPY_ROOM);
}

bool out_ask(struct engine *e, struct qp *qp, uint64_t now)
{
	struct part *p = &e->out.part[e->out.parts];
	bool more;

	*p = (struct part){ .qp = qp, .first = e->out.batch.n };
	more = qp->transport->output(qp, &e->out.batch, now);
	p->n = e->out.batch.n - p->first;
	qp->planned = p->n > 0;
	e->out.parts += qp->planned;
	return more;
}
