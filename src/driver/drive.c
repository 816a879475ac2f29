/* SPDX-License-Identifier: BSD-2-Clause */
/* drive.c - the program's own threads run the engine, in posts and in polls.
 *
 * They read the clock with the turn held, so time never goes back from one turn to the
 * next, whichever thread has the turn and however long it waited.
 */
#include <errno.h>
#include <sched.h>
#include <time.h>

#include "direct/direct.h"
#include "driver/nic.h"
#include "driver/nic_own.h"
#include "shm/peers.h"
#include "sys/clock.h"
#include "verbs/due.h"
#include "verbs/qp.h"
#include "verbs/transport.h"

/* Runs output and gives the turn back. Returns false if one call has done enough. */
static bool output_and_give(struct nic *nic, struct qp *first) RELEASES(nic->core.turn)
{
	struct engine *e = &nic->engine;
	uint64_t now = clock_ns();
	struct engine_did did;

	turn_is_held(e->core); /* tells clang that this is the NIC's turn */
	did = engine_output(e, first, now, ENGINE_INLINE);
	turn_give(&nic->core.turn);
	engine_settle(e, now, did.next);
	return did.output < ENGINE_INLINE &&
	       !atomic_load_explicit(&e->broken, memory_order_relaxed);
}

/* Takes the turn, waiting a little for the thread to finish. (A program that spins on
 * memory posts its answer while the thread that wrote the question there still has the
 * turn.) */
static bool turn_soon(struct nic *nic) TRY_ACQUIRES(true, nic->core.turn)
{
	int i = 0;

	if (turn_try_brief(&nic->core.turn))
		return true;
	while (i < TURN_SPINS &&
	       atomic_load_explicit(&nic->engine.thread.serving, memory_order_relaxed)) {
		lock_pause();
		i++;
	}
	return i > 0 && turn_try_brief(&nic->core.turn);
}

/* Like output_and_give(), starting from a brief turn. */
static bool prolonged(struct nic *nic, struct qp *qp) RELEASES(nic->core.turn)
{
	turn_prolong(&nic->core.turn);
	return output_and_give(nic, qp);
}

static void serve_all_due(struct nic *nic)
{
	while (due_any(&nic->core) && turn_try(&nic->core.turn))
		if (!output_and_give(nic, NULL))
			return;
	/* The turn is taken. Not every holder looks at the due list afterwards (control
	 * calls, fork), so the thread has to. */
	if (due_any(&nic->core))
		engine_settle(&nic->engine, clock_ns(), 0);
}

/* Serves QPs that have become due while the turn was taken. */
static inline void serve_due(struct nic *nic)
{
	if (__builtin_expect(due_any(&nic->core), 0))
		serve_all_due(nic);
}

void nic_called(struct nic *nic, bool nested)
{
	if (nested)
		engine_kick(&nic->engine);
	else
		serve_due(nic);
}

/* What a transport has left to do that posts without the turn. */
static void after_post(struct nic *nic, struct qp *qp, enum post_left left)
{
	struct engine *e = &nic->engine;

	if (left == POST_ECHO && !engine_takes_echo(e))
		return;
	if (left == POST_ECHO && turn_try_brief(&nic->core.turn)) {
		e->piped = clock_ns();
		(void)peers_loopback(peers_of(&nic->core), e->piped);
		turn_give(&nic->core.turn);
	} else {
		due_add(&nic->core, qp);
	}
}

/* The transport, which another thread may just be changing: it looks again itself. */
static const struct transport *transport_of(const struct qp *qp)
{
	return __atomic_load_n(&qp->transport, __ATOMIC_ACQUIRE);
}

/* Are so many of qp's requests under way that what was just posted can wait for the next
 * turn of a thread that polls?  Then it leaves in one buffer with what is posted until
 * then. */
static bool gathers_post(struct nic *nic, struct qp *qp) REQUIRES(nic->core.turn)
{
	uint32_t under_way, waiting;

	if (atomic_load_explicit(&nic->engine.thread.watching, memory_order_relaxed) ||
	    qp->transport->stream)
		return false;
	lock_take(&qp->lock);
	under_way = qp->sched.asked - qp->sq.tail;
	waiting = qp->sq.head - qp->sched.asked;
	lock_give(&qp->lock);
	return (int32_t)under_way >= GATHER_LEAST && waiting && waiting < GATHER_MOST;
}

static void gather_and_give(struct nic *nic, struct qp *qp) RELEASES(nic->core.turn)
{
	turn_is_held(nic->engine.core); /* tells clang that this is the NIC's turn */
	engine_gather(&nic->engine, qp);
	turn_give(&nic->core.turn);
}

/* Sends what was posted, with the turn if it is free. */
static void post_by_turn(struct nic *nic, struct qp *qp)
{
	if (!turn_soon(nic))
		due_add(&nic->core, qp);
	else if (gathers_post(nic, qp))
		gather_and_give(nic, qp);
	else if (!prolonged(nic, qp))
		return;
	serve_due(nic);
}

void nic_post(struct nic *nic, struct qp *qp, bool nested)
{
	const struct transport *transport = transport_of(qp);

	if (nested) {
		due_add(&nic->core, qp);
		engine_kick(&nic->engine);
		return;
	}
	if (transport && transport->push) {
		enum post_left left = transport->push(qp);

		if (left != POST_DUE) {
			if (left != POST_NOTHING)
				after_post(nic, qp, left);
			serve_due(nic);
			return;
		}
	}
	post_by_turn(nic, qp);
}

/* In a signal handler that has interrupted another call: the turn may be the thread's. */
static int post_nested(struct nic *nic, struct qp *qp, struct ibv_send_wr *wr,
		       struct ibv_send_wr **bad)
{
	int rc = qp_post_nested(qp, wr, bad);

	nic_post(nic, qp, true);
	return rc > 0 ? 0 : rc;
}

int nic_post_send(struct nic *nic, struct qp *qp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad, bool nested)
{
	const struct transport *transport = transport_of(qp);
	enum post_left left = POST_NOTHING;
	int rc;

	if (__builtin_expect(nested, 0))
		return post_nested(nic, qp, wr, bad);
	if (wr && transport && transport->post) {
		wr = transport->post(qp, wr, &left);
		if (left != POST_NOTHING)
			after_post(nic, qp, left);
		serve_due(nic);
		if (!wr)
			return 0;
	}
	rc = qp_post_send(qp, wr, bad);
	if (rc <= 0)
		post_by_turn(nic, qp); /* a post() has left it to the engine */
	return rc > 0 ? 0 : rc;
}

void nic_flush(struct nic *nic)
{
	struct engine_did did;
	uint64_t now;

	turn_take(&nic->core.turn);
	now = clock_ns();
	turn_is_held(nic->engine.core);
	did = engine_flush(&nic->engine, now);
	turn_give(&nic->core.turn);
	engine_settle(&nic->engine, now, did.next);
}

void nic_lost(struct core *core)
{
	struct engine *e = &nic_of_core(core)->engine;

	turn_is_held(e->core);
	engine_break(e, "sending");
}

void nic_leave(struct core *core)
{
	(void)output_and_give(nic_of_core(core), NULL);
}

int nic_fence(struct nic *nic, uint32_t qpn)
{
	int rc = direct_fence(&nic->core, qpn);

	/* While this thread had a QP off the due list, a poster found the list empty. */
	if (due_any(&nic->core))
		engine_settle(&nic->engine, 0, 0);
	return rc;
}

/* Another thread has had the turn for a while: lets it work, see let_others(). */
static void let_work(struct nic *nic)
{
	struct engine *e = &nic->engine;
	unsigned n = atomic_load_explicit(&e->pollers.missed, memory_order_relaxed) + 1;
	uint32_t ended;

	if (spin_asks(n)) {
		ended = turn_ended(&nic->core.turn);
		if (ended != atomic_exchange_explicit(&e->pollers.ended, ended,
						      memory_order_relaxed))
			n = 0;
		if (spin_missed(n) == SPIN_NAP)
			turn_nap(SPIN_MISS_NAP_NS);
		else
			sched_yield();
	}
	atomic_store_explicit(&e->pollers.missed, n, memory_order_relaxed);
}

/* A program that spins for long takes the processor from the processes that it waits
 * for: sixteen senders on two cores are twice as fast if they give it up. */
static void let_others(struct nic *nic, enum spin_next how)
{
	struct spin *spin = &nic->engine.pollers.spin;
	uint64_t before = clock_ns(), after;

	if (how == SPIN_NAP)
		turn_nap(SPIN_NAP_NS);
	else
		sched_yield();
	after = clock_ns();
	if (!turn_try(&nic->core.turn))
		return;
	if (how == SPIN_NAP)
		spin_slept(spin, after);
	else
		spin_yielded(spin, before, after);
	turn_give(&nic->core.turn);
}

/* Pollers share the flag: one that is set already is not written to. */
static void set_flag(atomic_bool *flag)
{
	if (!atomic_load_explicit(flag, memory_order_relaxed))
		atomic_store_explicit(flag, true, memory_order_relaxed);
}

void nic_polled(struct nic *nic)
{
	set_flag(&nic->engine.pollers.polled);
	set_flag(&nic->engine.pollers.got);
}

static bool have_got(struct pollers *p)
{
	return atomic_load_explicit(&p->got, memory_order_relaxed) &&
	       atomic_exchange_explicit(&p->got, false, memory_order_relaxed);
}

/* A poller that meets a full link has found nothing: it waits for whoever makes room, and
 * may hold the processor that makes it. */
static bool have_sent(const struct engine_did *did)
{
	return did->output > did->refused;
}

/* A poller's short turn. Returns false if a whole one is to follow, in the same hold. */
static bool glance(struct nic *nic) REQUIRES(nic->core.turn)
{
	struct engine *e = &nic->engine;
	struct engine_did did;
	uint64_t now;

	turn_is_held(e->core); /* tells clang that this is the NIC's turn */
	if (!engine_may_glance(e))
		return false;
	if (engine_is_quiet(e)) {
		set_flag(&e->pollers.polled);
		return !engine_is_late(e);
	}
	now = clock_ns();
	atomic_store_explicit(&e->pollers.last, now, memory_order_relaxed);
	did = engine_take_rings(e, now);
	return (did.ring || have_sent(&did)) &&
	       spin_polled(&e->pollers.spin, true, now) == SPIN_ON;
}

bool nic_poll(struct nic *nic)
{
	struct engine *e = &nic->engine;
	struct engine_did did;
	uint64_t now;
	enum spin_next next;
	bool found;

	if (!turn_try_brief(&nic->core.turn)) {
		set_flag(&e->pollers.polled);
		let_work(nic);
		return false;
	}
	if (glance(nic)) {
		turn_give(&nic->core.turn);
		return true;
	}
	turn_prolong(&nic->core.turn);
	now = clock_ns();
	atomic_store_explicit(&e->pollers.last, now, memory_order_relaxed);
	turn_is_held(e->core);
	/* If the thread leaves the input to pollers, this caller polls often and may put
	 * ACKs off. */
	did = engine_turn(e, now,
			  !atomic_load_explicit(&e->thread.watching,
						memory_order_relaxed));
	found = did.socket || did.ring || have_sent(&did);
	if (found)
		atomic_store_explicit(&e->pollers.last, clock_ns(), memory_order_relaxed);
	next = spin_polled(&e->pollers.spin, have_got(&e->pollers) || found, now);
	turn_give(&nic->core.turn);
	engine_settle(e, now, did.next);
	if (next != SPIN_ON)
		let_others(nic, next);
	return true;
}

void nic_doubts(struct nic *nic)
{
	engine_kick(&nic->engine);
}
