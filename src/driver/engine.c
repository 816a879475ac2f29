/* SPDX-License-Identifier: BSD-2-Clause */
/* engine.c - one bounded turn of the engine. */
#include "driver/engine.h"

#include <assert.h>
#include <errno.h>

#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/cq.h"
#include "verbs/due.h"
#include "verbs/event.h"
#include "verbs/qp.h"
#include "verbs/round.h"
#include "verbs/share.h"
#include "verbs/transport.h"

static void put_last(struct sources *list, bool has, struct source *s)
{
	struct source **v = list->v;

	if (!has)
		return;
	while (*v)
		v++;
	assert(v < list->v + SOURCES_MAX);
	*v = s;
}

void engine_add(struct engine *e, struct source *s)
{
	const struct source_ops *ops = s->ops;

	assert(ops->kind != SOURCE_RINGS || !ops->input || ops->sleeps);
	if (ops->kind == SOURCE_RINGS && ops->input)
		e->glanceable =
			ops->brief && (e->glanceable || !*e->by.input[ops->kind].v);
	put_last(&e->by.all, true, s);
	put_last(&e->by.input[ops->kind], ops->input, s);
	put_last(&e->by.run, ops->run, s);
	put_last(&e->by.flush, ops->flush, s);
	put_last(&e->by.sleep, ops->sleeps, s);
	put_last(&e->by.fds, ops->fds, s);
}

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
	share_break(e->core);
}

/* Checks one descriptor: a program that closes one of ours closes this one, too. */
bool engine_lost(const struct engine *e)
{
	return atomic_load(&e->broken) || !fd_is(e->thread.kick_tx, &e->thread.kick_id);
}

static void wake_due_timers(struct engine *e, uint64_t now) REQUIRES(e->core->turn)
{
	struct heap_node *top;

	while ((top = heap_top(&e->timers)) && top->at <= now) {
		heap_del(&e->timers, top);
		due_add(e->core, container_of(top, struct qp, sched.timer));
	}
}

static bool stays_locked(const struct cq *cq)
{
	return cq && !brief_comes_free(&cq->lock);
}

/* The program ends, perhaps in the middle of a call: locks that it holds stay held, and
 * nobody wants completions any more, though some output completes requests. */
static void last_turn(struct engine *e, struct qp *qp, uint64_t now)
	REQUIRES(e->core->turn)
{
	if (stays_locked(qp->send_cq) || stays_locked(qp->recv_cq) ||
	    !lock_try(&qp->lock))
		return;
	(void)out_ask(&e->out, qp, now);
	lock_give(&qp->lock);
}

/* Returns when qp may send again, ns: its link, or its way within the host, was full. */
static uint64_t full_until(const struct qp *qp)
{
	const struct link *link = qp->transport->stream ? NULL : qp->ctx->link;

	return link && link->full_until > qp->sched.full_until ? link->full_until
							       : qp->sched.full_until;
}

static bool qp_turn(struct engine *e, struct qp *qp, uint64_t now) REQUIRES(e->core->turn)
{
	bool more = false;
	uint64_t next, full;

	lock_take(&qp->lock);
	next = qp->transport->run(qp, now);
	full = full_until(qp);
	if (full > now) {
		if (full < next)
			next = full;
	} else {
		more = out_ask(&e->out, qp, now);
		if (!qp->sched.planned) /* otherwise commit() checks the time */
			next = qp->transport->run(qp, now);
	}
	lock_give(&qp->lock);
	due_at(e->core, qp, next);
	return more;
}

static uint64_t first_of(const struct sources *list, uint64_t at)
{
	each_source(s, list) if (source_at(*s) < at) at = source_at(*s);
	return at;
}

uint64_t engine_deadline(struct engine *e)
{
	struct heap_node *top = heap_top(&e->timers);

	return due_any(e->core) || e->own ? 0
					  : first_of(&e->by.all, top ? top->at : NEVER);
}

/* Only a thread that sleeps must be told of deadlines: it sets its flags with the turn
 * held and then checks the deadline itself. */
static bool is_asleep(const struct engine *e)
{
	return atomic_load_explicit(&e->thread.sleeping, memory_order_relaxed) &&
	       atomic_load_explicit(&e->thread.watching, memory_order_relaxed);
}

/* Wakes the processes that output is for. Returns true if some of it is for this process;
 * got: takes that in. */
static bool wake_peers(struct engine *e, struct source_got *got, uint64_t now)
	REQUIRES(e->core->turn)
{
	bool own = false;

	each_source(s, &e->by.flush)
	{
		if (!(*s)->ops->flush(*s))
			continue;
		own = true;
		if (got)
			(*s)->ops->input(*s, SOURCE_TURN, got, now);
	}
	e->own = own && !got;
	return own;
}

static void run_sources(struct engine *e, uint64_t now) REQUIRES(e->core->turn)
{
	each_source(s, &e->by.run) if (source_at(*s) <= now)(*s)->ops->run(*s, now);
}

static void flush(struct engine *e, uint64_t now) REQUIRES(e->core->turn)
{
	e->core->round.spent += e->out.batch.n;
	if (!out_flush(&e->out, e->core, now))
		engine_break(e, "sending");
}

static void serve(struct engine *e, struct qp *qp, uint64_t now) REQUIRES(e->core->turn)
{
	if (qp->sched.planned)
		flush(e, now);
	if (e->core->leaving)
		last_turn(e, qp, now);
	else if (qp_turn(e, qp, now))
		due_add(e->core, qp);
	if (out_nearly_full(&e->out))
		flush(e, now);
}

static bool has_done(const struct engine *e, unsigned limit)
{
	return e->out.batch.n + e->core->round.spent >= limit;
}

/* Serves QPs that are due. A turn must not last as long as a thousand QPs want: the rest
 * stay due. */
static void serve_due(struct engine *e, uint64_t now, unsigned limit)
	REQUIRES(e->core->turn)
{
	struct qp *qp;

	while (!has_done(e, limit) && (qp = due_next(e->core)))
		serve(e, qp, now);
	flush(e, now);
}

static struct engine_did output(struct engine *e, struct qp *first, uint64_t now,
				unsigned limit) REQUIRES(e->core->turn)
{
	struct source_got got = { 0 };
	bool takes, own;

	if (atomic_load_explicit(&e->broken, memory_order_relaxed))
		return (struct engine_did){ .next = NEVER };
	e->core->round.spent = e->out.refused = 0;
	if (first)
		serve(e, first, now);
	do {
		serve_due(e, now, limit);
		takes = !has_done(e, limit) && !e->core->leaving;
		own = wake_peers(e, takes ? &got : NULL, now);
	} while (own && takes);
	return (struct engine_did){
		.output = e->core->round.spent,
		.refused = e->out.refused,
		.one_sided = got.one_sided,
		.next = !is_asleep(e) ? NEVER
			: own	      ? 0
				      : engine_deadline(e),
	};
}

/* Runs output, including output that belongs to no QP. */
static struct engine_did output_all(struct engine *e, uint64_t now, unsigned limit)
	REQUIRES(e->core->turn)
{
	if (!atomic_load_explicit(&e->broken, memory_order_relaxed))
		run_sources(e, now);
	return output(e, NULL, now, limit);
}

struct engine_did engine_output(struct engine *e, struct qp *first, uint64_t now,
				unsigned limit)
{
	return first ? output(e, first, now, limit) : output_all(e, now, limit);
}

struct engine_did engine_flush(struct engine *e, uint64_t now)
{
	struct engine_did did;

	e->core->round.hurry = true;
	wake_due_timers(e, now + FLUSH_NS);
	did = engine_output(e, NULL, now, ENGINE_TX);
	e->core->round.hurry = false;
	return did;
}

static unsigned take_input(struct engine *e, enum source_kind kind,
			   enum source_depth depth, struct source_got *got, uint64_t now)
	REQUIRES(e->core->turn)
{
	unsigned n = 0;

	each_source(s, &e->by.input[kind]) n += (*s)->ops->input(*s, depth, got, now);
	if (got->broken)
		engine_break(e, "receiving");
	return n;
}

static bool is_recent(uint64_t at, uint64_t now)
{
	return now - at < WAKE_UP_NS;
}

/* A look at sockets is a system call, a look at pipes is not. While pipes are busy the
 * sockets wait for a few turns. */
static bool skips_sockets(struct engine *e, uint64_t now)
{
	e->looks += TURN_LOOKS;
	if (is_recent(e->piped, now) && e->looks < SOCKET_LOOKS)
		return true;
	e->looks = 0;
	return false;
}

bool engine_may_glance(const struct engine *e)
{
	return e->glances && !due_any(e->core) && !e->core->round.must_hear &&
	       !is_asleep(e) && !e->core->leaving &&
	       !atomic_load_explicit(&e->broken, memory_order_relaxed);
}

bool engine_is_quiet(struct engine *e)
{
	e->glances--;
	e->looks++;
	each_source(s, &e->by.input[SOURCE_RINGS]) if ((*s)->ops->input(*s, SOURCE_QUICK,
									NULL,
									0)) return false;
	return true;
}

bool engine_is_late(const struct engine *e)
{
	return e->glances % CLOCK_LOOKS == 0 && !is_recent(e->whole, clock_ns());
}

struct engine_did engine_take_rings(struct engine *e, uint64_t now)
{
	struct engine_did did = { .next = NEVER };
	struct source_got got = { 0 };
	const unsigned n = take_input(e, SOURCE_RINGS, SOURCE_TURN, &got, now);

	if (n)
		e->piped = now;
	/* A program that polls seldom must not leave out timers and sockets as often as
	 * one that does nothing else. */
	if (!is_recent(e->whole, now)) {
		e->glances = 0;
		e->looks = SOCKET_LOOKS;
	}
	if (due_any(e->core)) {
		turn_prolong(&e->core->turn);
		did = output(e, NULL, now, ENGINE_TX);
	} else if (wake_peers(e, NULL, now)) {
		did.next = 0;
	}
	did.ring = n > 0;
	did.one_sided |= got.one_sided;
	return did;
}

void engine_gather(struct engine *e, struct qp *qp)
{
	e->gathers = true;
	due_at(e->core, qp, 0);
}

bool engine_takes_echo(const struct engine *e)
{
	return is_asleep(e);
}

/* Before a timer expires, all input that came before now must be read. So pollers also
 * look where otherwise only the thread looks. */
static void begin_to_hear(struct engine *e, uint64_t now) REQUIRES(e->core->turn)
{
	if (e->hearing.from)
		return;
	e->hearing.from = now;
	e->hearing.turns = 0;
}

/* any: there was input, so there may be more. But no socket or ring holds more than
 * TURNS turns take in. */
static void have_heard(struct engine *e, bool any) REQUIRES(e->core->turn)
{
	enum { TURNS = 64 };

	if (any && ++e->hearing.turns < TURNS)
		return;
	e->core->round.heard = e->hearing.from;
	e->core->round.must_hear = false;
	e->hearing.from = 0;
}

void engine_hear(struct engine *e, uint64_t now)
{
	struct source_got got = { 0 };

	if (atomic_load_explicit(&e->broken, memory_order_relaxed) ||
	    e->core->round.must_hear)
		return;
	(void)take_input(e, SOURCE_SOCKETS, SOURCE_TURN, &got, now);
	if (take_input(e, SOURCE_RINGS, SOURCE_TURN, &got, now))
		e->piped = now;
}

struct engine_did engine_turn(struct engine *e, uint64_t now, bool later)
{
	struct source_got sockets = { 0 }, rings = { 0 };
	const bool hear = e->core->round.must_hear;
	const enum source_depth depth = hear ? SOURCE_ALL : SOURCE_TURN;
	unsigned by_sockets = 0, by_rings;
	bool gathered = false;
	struct engine_did did;

	if (atomic_load_explicit(&e->broken, memory_order_relaxed))
		return (struct engine_did){ .next = NEVER };
	if (hear) {
		begin_to_hear(e, now);
		later = false;
	}
	if (!later)
		by_sockets = take_input(e, SOURCE_SOCKETS, depth, &sockets, now);
	by_rings = take_input(e, SOURCE_RINGS, depth, &rings, now);
	if (by_rings)
		e->piped = now;
	if (hear)
		have_heard(e, by_sockets || by_rings || sockets.news || rings.news);
	/* A timer that waits for that would only ask again, and there may be thousands.
	 */
	if (!e->core->round.must_hear) {
		gathered = e->gathers;
		e->gathers = false;
		wake_due_timers(e, now);
	}
	did = engine_output(e, NULL, now, ENGINE_TX);
	if (later && !skips_sockets(e, now)) {
		/* The answer to what was just sent may have come; it is not older than
		 * what it answers, so the time is read again. */
		by_sockets =
			take_input(e, SOURCE_SOCKETS, SOURCE_TURN, &sockets,
				   did.output ? went_out(&e->core->round, now) : now);
		did.next = is_asleep(e) ? engine_deadline(e) : NEVER;
	}
	did.gathered = gathered;
	did.bulk = e->core->round.bulk;
	e->core->round.bulk = false;
	e->whole = now;
	e->glances = e->glanceable && is_recent(e->piped, now) ? GLANCES : 0;
	did.socket = by_sockets;
	did.ring = by_rings > 0;
	did.one_sided |= rings.one_sided;
	return did;
}

void engine_settle(struct engine *e, uint64_t now, uint64_t next)
{
	uint64_t until;

	/* A thread that leaves input to pollers wakes up soon by itself. */
	if (!atomic_load(&e->thread.sleeping) ||
	    !atomic_load_explicit(&e->thread.watching, memory_order_relaxed))
		return;
	until = atomic_load_explicit(&e->thread.sleep_until, memory_order_relaxed);
	if (until > now && (next < until || due_any(e->core)))
		engine_kick(e);
}

struct engine_did engine_whole_turn(struct engine *e, uint64_t now)
{
	const struct engine_did first = engine_turn(e, now, false);
	struct engine_did did;

	if (!e->core->round.must_hear)
		return first;
	did = engine_turn(e, now, false);
	did.socket += first.socket;
	did.one_sided |= first.one_sided;
	did.gathered |= first.gathered;
	did.bulk |= first.bulk;
	return did;
}
