/* SPDX-License-Identifier: BSD-2-Clause */
/* wait.c - a thread of the program that waits for an event drives the NIC meanwhile, and
 * sleeps on the NIC's descriptors: what its peer sends wakes one thread, or none.
 * docs/dev/driver.md, "A thread that waits for an event".
 */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <time.h>

#include "driver/nic.h"
#include "driver/nic_own.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/inside.h"
#include "verbs/event.h"

/* Sleeps on fd and on the sources' descriptors until `until` (ns). Returns 0 or -errno.
 */
static int sleep_on(const struct engine *e, struct bed *b, int fd, uint64_t until)
{
	uint64_t now = clock_ns(), most = until > now ? until - now : 0;
	struct timespec t = { .tv_nsec = (long)most };
	struct inside in;
	int rc;

	b->p[0] = (struct pollfd){ .fd = fd, .events = POLLIN };
	b->p[1] = (struct pollfd){ .fd = -1 };
	bed_make(b, e, false);
	/* A signal handler may make any call: nothing is held. */
	in = inside_pause();
	rc = ppoll(b->p, b->n, &t, NULL) < 0 ? -errno : 0;
	inside_resume(in);
	return rc;
}

/* --- an event of rdma_cm ------------------------------------------------------------ */

/* Takes in what has come, and sends what is due. b: what the thread has slept on. Returns
 * false if another thread does so now. */
static bool take_look(struct nic *nic, const struct bed *b)
{
	struct engine *e = &nic->engine;
	struct engine_did did;
	uint64_t now;

	if (!turn_try(&nic->core.turn)) {
		atomic_store_explicit(&e->pollers.polled, true, memory_order_relaxed);
		return false;
	}
	now = clock_ns();
	atomic_store_explicit(&e->pollers.last, now, memory_order_relaxed);
	turn_is_held(e->core);
	bed_ready(b, true);
	did = engine_turn(e, now, false);
	bed_ready(b, false);
	turn_give(&nic->core.turn);
	engine_settle(e, now, did.next);
	return true;
}

/* Looks for an event for a while, unless another thread looks. Returns has(arg). */
static bool look_for(struct nic *nic, struct bed *b, bool (*has)(void *arg), void *arg)
{
	const uint64_t until = clock_ns() + WAKE_UP_NS;
	bool alone;

	do {
		alone = take_look(nic, b);
		if (alone)
			b->n = BED_SOURCES;
		if (has(arg))
			return true;
	} while (alone && clock_ns() < until);
	return false;
}

int nic_await(struct core *core, int fd, bool (*has)(void *arg), void *arg)
{
	struct nic *nic = nic_of_core(core);
	struct engine *e = &nic->engine;
	const uint64_t until = clock_ns() + WATCH_LOOK_NS;
	struct bed b;
	int rc = 0;

	b.n = BED_SOURCES;
	for (;;) {
		if (look_for(nic, &b, has, arg))
			return 1;
		if (rc || clock_ns() >= until ||
		    atomic_load_explicit(&e->broken, memory_order_relaxed))
			break;
		rc = sleep_on(e, &b, fd, until);
	}
	engine_watch(e);
	return rc;
}

/* --- an event of a completion channel ------------------------------------------------
 */

/* Several threads wait, or others poll: for a while the engine's thread serves them all.
 */
static void is_crowded(struct engine *e, uint64_t now)
{
	atomic_store_explicit(&e->waits.alone_at, now + WAIT_CROWD_NS,
			      memory_order_relaxed);
}

/* May a thread that waits for an event of ch serve the NIC? */
static bool may_serve(const struct engine *e, const struct channel *ch, uint64_t now)
{
	return atomic_load_explicit(&e->waits.alone_at, memory_order_relaxed) <= now &&
	       !atomic_load_explicit(&e->broken, memory_order_relaxed) &&
	       wait_how(atomic_load_explicit(&ch->waited.ns, memory_order_relaxed), 0) !=
		       WAIT_AWAY;
}

void nic_armed(struct nic *nic, const struct channel *ch)
{
	struct engine *e = &nic->engine;

	/* If the thread does not come to wait, the input is late by 1 ms or two, as that
	 * of a program that stops polling. */
	if (!ch || !may_serve(e, ch, clock_ns()))
		engine_watch(e);
}

/* A turn has ended. */
static void note_bulk(struct nic_wait *w, const struct engine_did *did)
{
	if (did->bulk)
		w->busy = clock_ns();
}

/* Takes in what has come, as a poller. Returns false if another thread has the turn. */
static bool look_once(struct nic_wait *w)
{
	struct nic *nic = w->nic;
	struct engine *e = &nic->engine;
	struct engine_did did;
	uint64_t now;

	if (!turn_try(&nic->core.turn))
		return false;
	turn_is_held(e->core); /* tells clang that this is the NIC's turn */
	now = clock_ns();
	atomic_store_explicit(&e->waits.last, now, memory_order_relaxed);
	did = engine_turn(e, now, true);
	turn_give(&nic->core.turn);
	engine_settle(e, now, did.next);
	note_bulk(w, &did);
	return true;
}

/* Looks for an event until WAKE_UP_NS after *from, unless another thread wants the
 * processor: a thread that has slept gets it sooner than one that has run. Returns
 * whether there is one. */
static bool look_for_event(struct nic_wait *w, const uint64_t *from)
{
	uint64_t now = clock_ns();

	sched_yield();
	if (clock_ns() - now > SPIN_YIELD_MAX_NS)
		return false;
	do {
		if (!look_once(w))
			lock_pause();
		if (event_queue_any(&w->ch->queue))
			return true;
		now = clock_ns();
	} while (now - *from < WAKE_UP_NS && now - w->since < WATCH_LOOK_NS);
	return false;
}

/* Much goes by the rings, and more follows: to sleep and be woken takes longer. */
static bool look_for_more(struct nic_wait *w)
{
	const bool found = look_for_event(w, &w->busy);

	w->busy = 0;
	return found;
}

/* The thread gets up, with the turn held: the rings are left to pollers again, unless the
 * engine's thread watches them. */
static void get_up(struct engine *e) REQUIRES(e->core->turn)
{
	atomic_store_explicit(&e->waits.asleep, false, memory_order_relaxed);
	if (e->thread.watch[SOURCE_RINGS].left)
		(void)engine_mark_rings(e, false);
}

/* The thread lies down, with the turn held. Returns until when it may sleep. */
static uint64_t lie_down(struct engine *e, uint64_t until) REQUIRES(e->core->turn)
{
	uint64_t at;

	atomic_store_explicit(&e->waits.asleep, true, memory_order_relaxed);
	if (engine_mark_rings(e, true))
		return 0;
	at = engine_deadline(e);
	return at < until ? at : until;
}

/* Takes in what has come. Returns until when the thread may sleep then; 0: not at all.
 * done: there is an event, or the time is up, and it does not sleep. */
static uint64_t serve_once(struct nic_wait *w, const struct bed *b, bool *done)
{
	struct nic *nic = w->nic;
	struct engine *e = &nic->engine;
	const uint64_t until = w->since + WATCH_LOOK_NS;
	struct engine_did did = { .next = NEVER };
	uint64_t now, at = 0;

	turn_take(&nic->core.turn);
	turn_is_held(e->core); /* tells clang that this is the NIC's turn */
	now = clock_ns();
	atomic_store_explicit(&e->waits.last, now, memory_order_relaxed);
	bed_ready(b, true);
	/* Who has an event posts soon, or polls until there is nothing: what the input
	 * asks for goes out then, and wakes the peer once for both. If neither happens,
	 * the engine's thread sends it, unless it sleeps until it is kicked. */
	if (!atomic_load_explicit(&e->thread.watching, memory_order_relaxed))
		engine_hear(e, now);
	*done = event_queue_any(&w->ch->queue);
	if (!*done)
		did = engine_whole_turn(e, now);
	bed_ready(b, false);
	note_bulk(w, &did);
	*done |= event_queue_any(&w->ch->queue) || now >= until ||
		 atomic_load_explicit(&e->broken, memory_order_relaxed) ||
		 atomic_load_explicit(&e->waits.alone_at, memory_order_relaxed) > now;
	if (*done || w->busy)
		get_up(e);
	else
		at = lie_down(e, until);
	turn_give(&nic->core.turn);
	engine_settle(e, now, did.next);
	return at;
}

/* Serves the NIC until there is an event, or the time is up. */
static void serve(struct nic_wait *w)
{
	struct engine *e = &w->nic->engine;
	uint64_t at, slept;
	struct bed b;
	bool done;

	b.n = BED_SOURCES;
	for (;;) {
		at = serve_once(w, &b, &done);
		if (done)
			return;
		slept = clock_ns();
		if (w->busy && look_for_more(w))
			return;
		if (at <= slept)
			b.n = BED_SOURCES;
		else
			(void)sleep_on(e, &b, w->ch->queue.fd, at);
		if (atomic_load_explicit(&e->pollers.last, memory_order_relaxed) > slept)
			is_crowded(e, clock_ns());
	}
}

/* Has a signal come that ends a system call? They are held off. */
static bool is_interrupted(const sigset_t *was)
{
	struct sigaction act;
	sigset_t come;

	if (sigpending(&come))
		return false;
	for (int i = 1; i < NSIG; i++)
		if (sigismember(&come, i) == 1 && sigismember(was, i) == 0 &&
		    !sigaction(i, NULL, &act) && act.sa_handler != SIG_IGN &&
		    act.sa_handler != SIG_DFL && !(act.sa_flags & SA_RESTART))
			return true;
	return false;
}

/* The engine's thread serves from now on. */
static void hand_over(struct engine *e)
{
	atomic_store_explicit(&e->waits.brisk, false, memory_order_relaxed);
	engine_watch(e);
}

static void ends_serving(struct nic_wait *w)
{
	w->serves = false;
	atomic_store(&w->nic->engine.waits.at, NULL);
	signals_let(&w->was);
}

/* Waits for 1 ms at most. */
static void wait_as(struct nic_wait *w, enum wait_how how)
{
	struct past_waits *past = &w->ch->waited;
	bool found = false;

	if (how == WAIT_LOOK) {
		found = look_for_event(w, &w->since);
		past->rests = wait_looked(&past->vain, !found);
	} else if (past->rests) {
		past->rests--;
	}
	if (!found)
		serve(w);
}

int nic_wait_begin(struct nic_wait *w)
{
	struct engine *e = &w->nic->engine;
	struct past_waits *past = &w->ch->waited;
	enum wait_how how = WAIT_AWAY;
	int rc = 0;

	w->since = 0;
	if (event_queue_any(&w->ch->queue)) {
		/* It may be that the program sleeps elsewhere, and reads here. */
		if (atomic_fetch_add_explicit(&past->at_once, 1, memory_order_relaxed) >=
		    WAIT_AT_ONCE)
			atomic_store_explicit(&past->ns, 0, memory_order_relaxed);
		return 0;
	}
	w->since = clock_ns();
	if (atomic_fetch_add(&e->waits.n, 1))
		is_crowded(e, w->since);
	else if (may_serve(e, w->ch, w->since))
		how = wait_how(atomic_load_explicit(&past->ns, memory_order_relaxed),
			       past->rests);
	if (how == WAIT_AWAY || !event_queue_blocks(&w->ch->queue)) {
		hand_over(e);
		return 0;
	}
	signals_hold(&w->was);
	w->serves = true;
	atomic_store(&e->waits.at, w->ch);
	atomic_store_explicit(&e->waits.brisk, true, memory_order_relaxed);
	wait_as(w, how);
	if (!event_queue_any(&w->ch->queue)) {
		hand_over(e);
		rc = is_interrupted(&w->was) ? -EINTR : 0;
	}
	ends_serving(w);
	return rc;
}

void nic_wait_end(struct nic_wait *w)
{
	struct engine *e = &w->nic->engine;
	struct past_waits *past = &w->ch->waited;

	if (!w->since)
		return;
	if (w->serves) { /* it is cancelled in its sleep */
		atomic_store(&e->waits.asleep, false);
		hand_over(e);
		ends_serving(w);
	}
	atomic_fetch_sub(&e->waits.n, 1);
	if (!w->got)
		return;
	atomic_store_explicit(&past->ns, clock_ns() - w->since, memory_order_relaxed);
	atomic_store_explicit(&past->at_once, 0, memory_order_relaxed);
}

void nic_wait_stop(struct nic *nic, const struct channel *ch)
{
	const struct channel *at;

	while ((at = atomic_load(&nic->engine.waits.at)) && (!ch || at == ch))
		turn_nap(WAKE_UP_NS);
}
