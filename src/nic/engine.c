// SPDX-License-Identifier: BSD-2-Clause
/* engine.c - one bounded turn of the engine. */
#include "nic/engine.h"

#include <errno.h>

#include "cm/cm.h"
#include "core/core.h"
#include "core/due.h"
#include "core/event.h"
#include "core/qp.h"
#include "core/timeout.h"
#include "core/transport.h"
#include "host/host.h"
#include "ib/ib.h"
#include "local/local.h"
#include "nic/conn.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/log.h"

enum {
	RETRY_FULL_NS = 100000, /* a full link is tried again after this */
	RETRY_PIPE_NS = 20000,	/* ... a full pipe */
	FLUSH_NS = 1000000,	/* an ACK waits less than that */
	COPY_ROOM = 8192,	/* for any copied datagram, MTU 4096 */
};

void engine_break(struct engine *e, const char *what)
{
	if (atomic_exchange(&e->broken, true))
		return;
	log_error("%s failed: the program closed descriptors that it does not own; "
		  "its devices are lost, open them again",
		  what);
	e->core->dead = true;
	lock_take(&e->core->lock);
	list_for(n, &e->core->contexts)
	{
		struct context *ctx = container_of(n, struct context, node);

		async_raise(ctx, IBV_EVENT_DEVICE_FATAL, NULL);
		ctx->dead = true;
	}
	lock_give(&e->core->lock);
}

/* Whoever closes one of ours closes this one. */
bool engine_lost(const struct engine *e)
{
	return atomic_load(&e->broken) || !fd_is(e->kick_tx, &e->kick_id);
}

/* A timer that fires early finds nothing due and is set again, so a later
 * deadline need not move it. */
static void set_timer(struct engine *e, struct qp *qp, uint64_t at)
{
	if (at == NEVER || (qp->timer.pos && qp->timer.at <= at))
		return;
	(void)heap_set(&e->timers, &qp->timer, at); /* has room for all QPs */
}

static void wake_due_timers(struct engine *e, uint64_t now)
{
	struct heap_node *top;

	while ((top = heap_top(&e->timers)) && top->at <= now) {
		heap_del(&e->timers, top);
		due_add(e->core, container_of(top, struct qp, timer));
	}
}

/* The part of the batch that v[i] is in; NULL: it is no QP's. */
static struct part *part_of(struct engine *e, unsigned i)
{
	for (struct part *p = e->part; p < e->part + e->parts; p++)
		if (i - p->first < p->n)
			return p;
	return NULL;
}

/* v[i] was not taken, and so nothing that its QP has behind it may be. */
static void not_taken(struct engine *e, unsigned i)
{
	struct part *p = part_of(e, i);

	e->batch.v[i].len = 0;
	for (unsigned j = i; p && j < p->first + p->n; j++)
		e->batch.v[j].len = 0;
}

/* Each QP learns what the link has taken of its part. */
static void commit(struct engine *e, uint64_t now)
{
	const struct batch *b = &e->batch;

	for (struct part *p = e->part; p < e->part + e->parts; p++) {
		struct qp *qp = p->qp;
		unsigned taken = 0;
		uint64_t next;

		while (taken < p->n && b->v[p->first + taken].len)
			taken++;
		qp->planned = false;
		lock_take(&qp->lock);
		next = qp->transport->commit(qp, p->first, taken, now);
		lock_give(&qp->lock);
		if (p->waits)
			next = qp->full_until = now + RETRY_PIPE_NS;
		else if (taken < p->n)
			due_add(e->core, qp);
		set_timer(e, qp, next);
	}
	e->parts = 0;
}

/* The run at v[i] goes by a pipe.  (All of a run have one destination.) */
static bool by_pipe(struct engine *e, unsigned i)
{
	const struct dgram *d = &e->batch.v[i];

	return d->here && local_has_pipe(e->core->local, d->to_slot);
}

static unsigned run_end(const struct batch *b, unsigned i)
{
	while (++i < b->n && b->v[i].seg && b->v[i].len)
		;
	return i;
}

/* A pipe without room holds up the QP alone that writes to it. */
static void send_piped(struct engine *e, unsigned i, unsigned end, uint64_t now)
{
	struct batch *b = &e->batch;

	for (; i < end; i++) {
		const struct dgram *d = &b->v[i];
		struct part *p;

		if (!d->len || local_send(e->core->local, d->to_slot, d, now))
			continue;
		p = part_of(e, i);
		if (p)
			p->waits = true;
		not_taken(e, i);
	}
}

/* False: the link is full, and everything waits until it has room. */
static bool send_linked(struct engine *e, unsigned i, unsigned end, uint64_t now)
{
	struct dgram *d = &e->batch.v[i];
	int sent = d->link->ops->send(d->link, d, end - i, now);

	if (sent < 0)
		engine_break(e, "sending");
	if (sent < 0 || (unsigned)sent == end - i)
		return true;
	for (i += (unsigned)sent; i < e->batch.n; i++)
		not_taken(e, i);
	e->blocked_until = now + RETRY_FULL_NS;
	return false;
}

static void flush(struct engine *e, uint64_t now)
{
	struct batch *b = &e->batch;
	unsigned i = 0, end;
	int was;

	if (b->n == 0)
		return;
	was = cancel_hold();
	for (; i < b->n; i = end) {
		end = run_end(b, i);
		if (!b->v[i].len) {
			/* A run is sealed for its places in it: without its
			 * head the rest cannot be sent either. */
			while (++i < b->n && b->v[i].seg)
				not_taken(e, i);
			end = i;
			continue;
		}
		if (by_pipe(e, i)) {
			send_piped(e, i, end, now);
			continue;
		}
		while (end < b->n && b->v[end].len && b->v[end].link == b->v[i].link &&
		       !by_pipe(e, end))
			end = run_end(b, end);
		if (!send_linked(e, i, end, now))
			break;
	}
	commit(e, went_out(e->core, now));
	batch_reset(b);
	cancel_let(was);
}

/* A QP that finds no room says that it has more to send: without a flush it
 * would be asked for ever. */
static bool nearly_full(const struct batch *b)
{
	return b->n >= BATCH_MAX / 2 || !batch_has_room(b, DGRAM_IOV_MAX, COPY_ROOM);
}

static bool is_stream(const struct qp *qp)
{
	return !qp->transport->output;
}

static bool qp_output(struct engine *e, struct qp *qp, uint64_t now)
{
	struct part *p = &e->part[e->parts];
	bool more;

	if (is_stream(qp))
		return conns_output(e->conns, qp, now);
	*p = (struct part){ .qp = qp, .first = e->batch.n };
	more = qp->transport->output(qp, &e->batch, now);
	p->n = e->batch.n - p->first;
	qp->planned = p->n > 0;
	e->parts += qp->planned;
	return more;
}

/* The program ends, perhaps in the middle of a call: what it has locked stays
 * locked, and nobody wants completions any more. */
static void last_turn(struct engine *e, struct qp *qp, uint64_t now)
{
	if (!lock_try(&qp->lock))
		return;
	(void)qp_output(e, qp, now);
	lock_give(&qp->lock);
}

static bool qp_turn(struct engine *e, struct qp *qp, uint64_t now)
{
	bool more = false;
	uint64_t next;

	lock_take(&qp->lock);
	next = qp->transport->run(qp, now);
	if (e->blocked_until > now && !is_stream(qp)) {
		more = true;
	} else if (qp->full_until > now) {
		if (qp->full_until < next)
			next = qp->full_until;
	} else {
		more = qp_output(e, qp, now);
		if (!qp->planned) /* else commit() looks at the time */
			next = qp->transport->run(qp, now);
	}
	lock_give(&qp->lock);
	set_timer(e, qp, next);
	return more;
}

/* The next time at which a turn has something to do without input; also for
 * the thread, which may not be asleep yet and so cannot be told. */
static uint64_t next_deadline(struct engine *e, uint64_t now)
{
	uint64_t at = e->port_due, link = e->link->ops->deadline(e->link);
	uint64_t local = local_deadline(e->core->local, now);
	uint64_t cm = cm_deadline(e->core->cm);
	struct heap_node *top = heap_top(&e->timers);

	if (link < at)
		at = link;
	if (local < at)
		at = local;
	if (top && top->at < at)
		at = top->at;
	if (due_any(e->core) && e->blocked_until < at)
		at = e->blocked_until;
	if (cm < at)
		at = cm;
	if (at != atomic_load_explicit(&e->deadline, memory_order_relaxed))
		atomic_store(&e->deadline, at);
	return at;
}

/* One turn may not last for as long as a thousand QPs want: the rest is due
 * still. */
static void put_off(struct engine *e, struct qp *qp)
{
	for (struct qp *next; qp; qp = next) {
		next = qp->due_next;
		due_add(e->core, qp);
	}
}

/* Programs are told of what has happened, by a write. */
static void run_cm(struct engine *e, uint64_t now)
{
	int was;

	if (cm_deadline(e->core->cm) > now)
		return;
	was = cancel_hold();
	cm_run(e->core, now);
	cancel_let(was);
}

static void serve(struct engine *e, struct qp *qp, uint64_t now)
{
	if (qp->planned) {
		e->core->spent += e->batch.n;
		flush(e, now);
	}
	if (e->core->leaving)
		last_turn(e, qp, now);
	else if (qp_turn(e, qp, now))
		due_add(e->core, qp);
	if (nearly_full(&e->batch)) {
		e->core->spent += e->batch.n;
		flush(e, now);
	}
}

struct engine_did engine_output(struct engine *e, struct qp *first, uint64_t now,
				unsigned limit)
{
	struct core *core = e->core;
	struct qp *qp, *next;
	unsigned sent;

	if (atomic_load_explicit(&e->broken, memory_order_relaxed))
		return (struct engine_did){ .next = NEVER };
	core->spent = 0;
	run_cm(e, now);
	if (first)
		serve(e, first, now);
	while ((due_any(core) || local_loopback(core->local, now)) &&
	       e->batch.n + core->spent < limit) {
		for (qp = due_take(core); qp; qp = next) {
			next = qp->due_next;
			serve(e, qp, now);
			if (e->batch.n + core->spent >= limit) {
				put_off(e, next);
				next = NULL;
			}
		}
		if (e->blocked_until > now)
			break;
	}
	sent = e->batch.n + core->spent;
	flush(e, now);
	local_flush(e->core->local);
	return (struct engine_did){ .output = sent, .next = next_deadline(e, now) };
}

struct engine_did engine_flush(struct engine *e, uint64_t now)
{
	struct engine_did did;

	e->core->hurry = true;
	wake_due_timers(e, now + FLUSH_NS);
	did = engine_output(e, NULL, now, ENGINE_TX);
	e->core->hurry = false;
	return did;
}

static int take_input(struct engine *e, size_t *bytes, uint64_t now)
{
	int n, was = cancel_hold();

	cm_look(e->core, now);
	n = e->link->ops->recv(e->link, e->in, ENGINE_RX, now);

	if (n < 0)
		engine_break(e, "receiving");
	else
		ib_input_all(e->core, e->in, (unsigned)n, now);
	*bytes = conns_input(e->conns, now);
	if (*bytes)
		n++;
	if (cm_input(e->core, now))
		n++;
	cancel_let(was);
	return n;
}

static void run_port(struct engine *e, uint64_t now)
{
	int was = cancel_hold();

	e->port_due = port_run(e->port, now);
	cancel_let(was);
}

/* To look at sockets is a system call, at pipes it is not: while those are busy
 * the sockets have to wait for a few turns. */
static bool skips_link(struct engine *e, uint64_t now)
{
	enum { BUSY_NS = 50000, EVERY = 8 };

	return now - e->piped < BUSY_NS && ++e->turns % EVERY != 0;
}

/* A timer is to be judged by what has come in until now, and by all of it: so
 * pollers look where else only the thread does. */
static bool begin_to_hear(struct engine *e, uint64_t now)
{
	if (!e->hear_from) {
		e->hear_from = now;
		e->hear_turns = 0;
	}
	local_hear(e->core->local);
	return e->host && host_run(e->host);
}

/* any: there was something, so there may be more.  But no socket or ring holds
 * more than so many turns take in. */
static void have_heard(struct engine *e, bool any)
{
	enum { TURNS = 64 };

	if (any && ++e->hear_turns < TURNS)
		return;
	e->core->heard = e->hear_from;
	e->core->must_hear = false;
	e->hear_from = 0;
}

struct engine_did engine_turn(struct engine *e, uint64_t now, bool later)
{
	const bool hear = e->core->must_hear;
	struct engine_did did;
	bool said = false;
	size_t bytes = 0;
	struct local_got local;
	int n = 0;

	if (atomic_load_explicit(&e->broken, memory_order_relaxed))
		return (struct engine_did){ .next = NEVER };
	if (hear) {
		said = begin_to_hear(e, now);
		later = false;
	}
	if (!later)
		n = take_input(e, &bytes, now);
	local = local_input(e->core->local, now);
	if (local.records)
		e->piped = now;
	if (hear)
		have_heard(e, n > 0 || local.records || said);
	if (e->port_due <= now)
		run_port(e, now);
	wake_due_timers(e, now);
	did = engine_output(e, NULL, now, ENGINE_TX);
	if (later && !skips_link(e, now)) {
		n = take_input(e, &bytes, now);
		did.next = next_deadline(e, now);
	}
	did.socket = n > 0;
	did.ring = local.records;
	did.one_sided = local.one_sided;
	did.bytes = bytes;
	return did;
}

void engine_settle(struct engine *e, uint64_t now, uint64_t next)
{
	uint64_t until;

	/* One that leaves something to pollers wakes by itself, soon. */
	if (!atomic_load(&e->sleeping) ||
	    !atomic_load_explicit(&e->watching, memory_order_relaxed))
		return;
	until = atomic_load_explicit(&e->sleep_until, memory_order_relaxed);
	if (until > now &&
	    (next < until || due_any(e->core) || local_is_hot(e->core->local)))
		engine_kick(e);
}
