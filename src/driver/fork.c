/* SPDX-License-Identifier: BSD-2-Clause */
/* fork.c - what a fork leaves behind: the handlers of pthread_atfork().
 *
 * Before a fork they take all locks that guard what the child goes on to use, so that no
 * other thread is in the middle of a change while the process is copied.
 *
 * A signal handler may fork, too, and may have interrupted one of our calls, which holds
 * some of the locks, or one that the holder of another lock waits for (the engine waits
 * with the turn for the lock of rdma_cm's channels).  Then nothing is
 * waited for without end: a lock that may be the thread's own is tried once, another for
 * some milliseconds.  The child makes a lock that it has not got anew.  What it guards
 * can be read at every instruction of the thread that changes it, or the thread blocks
 * signals meanwhile (nic_open(), nic_close(), the registry, the runs of direct/).
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "direct/share.h"
#include "driver/nic_own.h"
#include "driver/registry.h"
#include "driver/sysfs.h"
#include "sys/cancel.h"
#include "sys/guard.h"
#include "sys/held.h"
#include "sys/inside.h"
#include "sys/live.h"
#include "verbs/core.h"
#include "verbs/cq.h"
#include "verbs/event.h"

/* What the forking thread has taken or changed. */
static _Thread_local struct {
	sigset_t signals;
	int cancel;
	struct nic *nic; /* the NIC at the fork */
	bool nic_lock, share, registry, guard, turn, core, keys, live, copy;
} has __attribute__((tls_model("initial-exec")));

/* mine: how to take locks that this thread may have already; other: the others. */
NO_TSA static void take_all(enum lock_how mine, enum lock_how other)
{
	has.nic_lock = lock_get(&nic_lock, other);
	has.nic = the_nic;
	has.share = share_hold(mine);
	has.registry = registry_hold(other);
	has.guard = guard_hold(mine);
	has.turn = has.nic && turn_get(&has.nic->core.turn, other);
	has.core = has.nic && lock_get(&has.nic->core.lock, mine);
	has.keys = has.nic && mkeys_hold(&has.nic->core.mkeys, mine);
	has.live = live_hold(mine);
}

/* Cancellation is held off too, since fork() is no cancellation point. */
static void before_fork(void)
{
	const bool nested = inside_calls > 0 || held.depth > 0;
	sigset_t signals;
	int cancel = cancel_hold();

	if (!nested)
		share_prepare();
	signals_hold(&signals);
	has.signals = signals;
	has.cancel = cancel;
	if (nested)
		take_all(LOCK_IF_FREE, LOCK_BRIEFLY);
	else
		take_all(LOCK_SURELY, LOCK_SURELY);
	has.copy = share_copy();
}

static void end_fork(void)
{
	const sigset_t signals = has.signals;
	const int cancel = has.cancel;

	signals_let(&signals);
	cancel_let(cancel);
}

NO_TSA static void fork_parent(void)
{
	if (has.copy)
		share_copied();
	if (has.live)
		live_let_go();
	if (has.keys)
		mkeys_let_go(&has.nic->core.mkeys);
	if (has.core)
		lock_give(&has.nic->core.lock);
	if (has.turn)
		turn_give(&has.nic->core.turn);
	if (has.guard)
		guard_let_go();
	if (has.registry)
		registry_let_go();
	if (has.share)
		share_let_go();
	if (has.nic_lock)
		lock_give(&nic_lock);
	end_fork();
}

static void close_all(struct engine *e)
{
	engine_close_fds(e);
	for (struct source *const *s = e->by.all.v; *s; s++)
		if ((*s)->ops->forked)
			(*s)->ops->forked(*s);
}

/* The child has the NIC's memory and descriptors but not its thread: names and port
 * would outlive their owner. Its contexts answer EIO from now on; a new open makes a NIC
 * of its own. */
NO_TSA static void leave_nic(struct nic *nic)
{
	struct core *core = &nic->core;
	struct engine *e = &nic->engine;

	if (!engine_lost(e))
		close_all(e);
	list_for(n, &core->contexts) container_of(n, struct context, node)->dead = true;
	core->dead = true;
	atomic_store(&e->broken, true);
	e->thread.started = false;
	turn_forked(&core->turn);
	core_forked(core);
	if (has.turn)
		turn_give(&core->turn);
	else
		lock_init(&core->turn.lock);
}

/* Registered memory comes first: the NIC may lie in a region, whose pages are still
 * shared with the parent. */
NO_TSA static void fork_child(void)
{
	if (has.copy)
		share_copied_to_child();
	share_forked();
	live_forked();
	cq_forked();
	the_nic = NULL;
	if (has.nic)
		leave_nic(has.nic);
	guard_forked();
	registry_forked();
	sysfs_forked();
	lock_init(&nic_lock);
	end_fork();
}

static void watch_once(void)
{
	pthread_atfork(before_fork, fork_parent, fork_child);
}

void nic_watch_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_once);
}
