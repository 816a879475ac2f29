/* SPDX-License-Identifier: BSD-2-Clause */
/* asleep.c - see asleep.h. */
#include "verbs/asleep.h"

#include "sys/clock.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/cq.h"
#include "verbs/event.h"

enum { STEP_NS = 1000000000, STEPS_MOST = 64 };

/* --- the queues of a channel ---------------------------------------------- */

static uint32_t entries_of(const struct cq *cq)
{
	return atomic_load_explicit(&cq->head, memory_order_relaxed) -
	       atomic_load_explicit(&cq->tail, memory_order_relaxed);
}

static bool is_or_nobody(_Atomic(pthread_t) *thread, pthread_t who)
{
	const pthread_t t = atomic_load_explicit(thread, memory_order_relaxed);

	return !t || t == who;
}

/* What the queues have in common. */
struct found {
	bool any;	   /* one will raise an event, whatever completes */
	bool solicited;	   /* one will raise an event for what is solicited */
	bool fresh;	   /* one has entries that the last look did not find */
	struct cq *forgot; /* nobody polls its entries */
};

/* Will the queue's event come with a solicited entry?  Where it has come so before, the
 * program leaves the others until then. */
static bool awaits_solicited(const struct cq *cq)
{
	return cq_armed(cq) == CQ_SOLICITED &&
	       (!entries_of(cq) || atomic_load(&cq->solicits));
}

/* Remembers the oldest entry of each queue for the next look. */
static struct found look_at_all(struct channel *ch) REQUIRES(ch->queue.lock)
{
	struct asleep *a = &ch->asleep;
	struct found f = { 0 };

	list_for(node, &a->cqs)
	{
		struct cq *cq = container_of(node, struct cq, in_channel);
		const uint32_t n = entries_of(cq),
			       tail = atomic_load_explicit(&cq->tail,
							   memory_order_relaxed);
		const bool had = cq->left && cq->left_at == tail;

		cq->left = n > 0;
		cq->left_at = tail;
		f.any |= !n && cq_armed(cq) == CQ_ANY;
		f.solicited |= awaits_solicited(cq);
		if (!n)
			continue;
		if (!had) {
			f.fresh = true;
		} else if (is_or_nobody(&cq->armer, a->who) &&
			   is_or_nobody(&cq->taker, a->who) &&
			   (!f.forgot || atomic_load(&cq->armer))) {
			f.forgot = cq; /* rather one that has been armed */
		}
	}
	return f;
}

/* Will an event come for the next completion, whatever it is?  Or has one come? */
static bool will_wake(struct channel *ch) REQUIRES(ch->queue.lock)
{
	if (!list_empty(&ch->queue.waiting))
		return true;
	list_for(node, &ch->asleep.cqs)
	{
		const struct cq *cq = container_of(node, struct cq, in_channel);

		if (cq_armed(cq) == CQ_ANY && !entries_of(cq))
			return true;
	}
	return false;
}

static void say_asleep(const struct cq *cq)
{
	const enum cq_wants armed = cq_armed(cq);

	log_hint("completion queue %u: for 1 s a thread has slept in ibv_get_cq_event() "
		 "while %u entries wait to be polled; the queue %s: arm it "
		 "(ibv_req_notify_cq), then poll until it is empty, and then wait",
		 cq->ex.handle, entries_of(cq),
		 armed == CQ_ANY	   ? "has raised its event for them"
		 : armed == CQ_SOLICITED   ? "is armed for solicited entries only"
		 : atomic_load(&cq->armer) ? "is not armed"
					   : "was never armed");
}

/* --- going to sleep -------------------------------------------------------- */

static void watch_channel(struct channel *ch, uint64_t now)
{
	struct core *core = ch->ctx->core;
	struct asleep *a = &ch->asleep;

	lock_take(&core->lock);
	if (!a->watched) {
		a->watched = true;
		list_add_tail(&core->sleepers, &a->node);
		a->step = STEP_NS;
		a->look_at = now + STEP_NS;
		lock_take(&ch->queue.lock);
		a->since = a->sleeps;
		look_at_all(ch);
		lock_give(&ch->queue.lock);
		source_sooner(&core->asleep, a->look_at);
	}
	lock_give(&core->lock);
}

bool asleep_begin(struct channel *ch)
{
	struct asleep *a = &ch->asleep;
	bool wakes;

	lock_take(&ch->queue.lock);
	a->several |= a->who && a->who != pthread_self();
	a->who = pthread_self();
	a->sleeps++;
	atomic_fetch_add_explicit(&a->n, 1, memory_order_relaxed);
	wakes = a->several || will_wake(ch);
	lock_give(&ch->queue.lock);
	if (wakes || log_level < LOG_WARN)
		return false;
	watch_channel(ch, clock_ns());
	return true;
}

/* The program may have destroyed the channel beside the thread, which it then cancels or
 * interrupts. */
void asleep_end(void *channel)
{
	struct channel *ch = channel;
	const void *owner;

	if (live_find(&ch->live, LIVE_CHANNEL, &owner))
		atomic_fetch_sub_explicit(&ch->asleep.n, 1, memory_order_relaxed);
}

static void unwatch(struct asleep *a)
{
	list_del(&a->node);
	a->watched = false;
}

/* --- the look ---------------------------------------------------------------- */

/* Returns when to look at the channel again; NEVER: when a thread goes to sleep again. */
static uint64_t look_once(struct channel *ch, uint64_t now) REQUIRES(ch->queue.lock)
{
	struct asleep *a = &ch->asleep;
	const struct found f = look_at_all(ch);
	const bool again = a->since != a->sleeps;

	a->since = a->sleeps;
	if (!atomic_load(&a->n) || a->several || f.any || !list_empty(&ch->queue.waiting))
		return NEVER;
	if (!again && f.forgot && !f.fresh && !f.solicited) {
		say_asleep(f.forgot);
		return NEVER;
	}
	if (again || f.fresh)
		a->step = STEP_NS;
	else if (a->step < (uint64_t)STEPS_MOST * STEP_NS)
		a->step *= 2;
	return now + a->step;
}

static void look(struct source *s, uint64_t now)
{
	struct core *core = container_of(s, struct core, asleep);
	uint64_t next = NEVER;

	lock_take(&core->lock);
	list_for_safe(node, &core->sleepers)
	{
		struct asleep *a = container_of(node, struct asleep, node);
		struct channel *ch = container_of(a, struct channel, asleep);

		if (a->look_at <= now) {
			lock_take(&ch->queue.lock);
			a->look_at = look_once(ch, now);
			lock_give(&ch->queue.lock);
		}
		if (a->look_at == NEVER)
			unwatch(a);
		else if (a->look_at < next)
			next = a->look_at;
	}
	source_set(s, next);
	lock_give(&core->lock);
}

struct source *asleep_source(struct core *core)
{
	static const struct source_ops ops = { .run = look };

	core->asleep.ops = &ops;
	return &core->asleep;
}
