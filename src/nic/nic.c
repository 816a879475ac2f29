/* SPDX-License-Identifier: BSD-2-Clause */
/* nic.c - the process's one NIC: made at the first open, taken apart at the last close,
 * left behind by fork. rooms.c builds it. */
#include "nic/nic.h"

#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cm/cm.h"
#include "core/core.h"
#include "core/device.h"
#include "core/event.h"
#include "core/qp.h"
#include "direct/share.h"
#include "ib/ib.h"
#include "iwarp/iwarp.h"
#include "link/pcap.h"
#include "nic/nic_own.h"
#include "nic/registry.h"
#include "nic/route.h"
#include "packet/packet.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/conf.h"
#include "sys/guard.h"
#include "sys/live.h"

static pthread_mutex_t nic_lock = PTHREAD_MUTEX_INITIALIZER;
static struct nic *the_nic; /* protected by nic_lock */

uint64_t nic_now(void)
{
	return clock_ns();
}

struct core *nic_core(struct nic *nic)
{
	return &nic->core;
}

const struct transport *nic_packets(struct nic *nic)
{
	(void)nic;
	return &packet_transport;
}

const struct transport *nic_transport(struct nic *nic, const struct device *dev)
{
	(void)nic;
	return dev->kind == &device_iwarp ? &iwarp_transport : &ib_transport;
}

struct link *nic_link(struct nic *nic, const struct device *dev)
{
	struct nic_link *l = links_of(&nic->links, dev);

	return l ? l->link : NULL;
}

/* --- fork ---------------------------------------------------------------- */

static int fork_cancel; /* of the forking thread; protected by nic_lock */

/* Takes all locks, so that no other thread holds one while the process is copied.
 * Cancellation is held off too, since fork() is no cancellation point. */
NO_TSA static void before_fork(void)
{
	int cancel = cancel_hold();

	share_copy();
	pthread_mutex_lock(&nic_lock);
	fork_cancel = cancel;
	share_before_fork();
	registry_hold();
	guard_hold();
	if (the_nic) {
		turn_take(&the_nic->core.turn);
		lock_take(&the_nic->core.lock);
		mkeys_hold(&the_nic->core.mkeys);
	}
	live_hold();
}

NO_TSA static void fork_parent(void)
{
	int cancel = fork_cancel;

	live_let_go();
	if (the_nic) {
		mkeys_let_go(&the_nic->core.mkeys);
		lock_give(&the_nic->core.lock);
		turn_give(&the_nic->core.turn);
	}
	guard_let_go();
	registry_let_go();
	share_parent();
	pthread_mutex_unlock(&nic_lock);
	cancel_let(cancel);
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
 * of its own. Registered memory comes first: the NIC may lie in a region, whose pages
 * are still shared with the parent. */
NO_TSA static void fork_child(void)
{
	struct nic *nic = the_nic;
	int cancel = fork_cancel;

	share_child();
	live_let_go();
	if (nic) {
		struct engine *e = &nic->engine;

		if (!engine_lost(e))
			close_all(e);
		list_for(n, &nic->core.contexts) container_of(n, struct context, node)
			->dead = true;
		nic->core.dead = true;
		atomic_store(&e->broken, true);
		e->thread.started = false;
		the_nic = NULL;
		turn_forked(&nic->core.turn);
		lock_init(&nic->core.xrc.opening); /* another thread may have held it */
		mkeys_let_go(&nic->core.mkeys);
		lock_give(&nic->core.lock);
		turn_give(&nic->core.turn);
	}
	guard_let_go();
	registry_forked();
	pthread_mutex_unlock(&nic_lock);
	cancel_let(cancel);
}

static void watch_once(void)
{
	pthread_atfork(before_fork, fork_parent, fork_child);
}

static void watch_forks(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, watch_once);
}

int nic_devices(struct device ***out, int *n)
{
	watch_forks();
	return registry_devices(out, n);
}

/* --- using it ------------------------------------------------------------ */

static bool notice_loss(struct engine *e, const char *what)
{
	if (!engine_lost(e))
		return false;
	turn_take(&e->core->turn);
	engine_break(e, what);
	turn_give(&e->core->turn);
	return true;
}

int nic_open(struct nic **out)
{
	const struct conf *conf = conf_get();
	struct nic *nic;
	int rc = 0;

	if (!conf)
		return -EINVAL;
	watch_forks();
	pthread_mutex_lock(&nic_lock);
	nic = the_nic;
	if (!nic || notice_loss(&nic->engine, "opening")) {
		nic = calloc(1, sizeof(*nic));
		rc = nic ? nic_start(nic, conf) : -ENOMEM;
		if (rc) {
			free(nic);
			goto unlock;
		}
		the_nic = nic;
	}
	nic->users++;
	*out = nic;
unlock:
	pthread_mutex_unlock(&nic_lock);
	return rc;
}

/* Under the lock throughout: a fork waits, so the child inherits no descriptors that it
 * does not know of. */
void nic_close(struct nic *nic)
{
	bool last;

	pthread_mutex_lock(&nic_lock);
	last = --nic->users == 0;
	if (last && nic == the_nic)
		the_nic = NULL;
	/* A NIC that was lost or forked is not taken apart. */
	if (last && !nic->core.dead && !notice_loss(&nic->engine, "closing"))
		nic_stop(nic);
	pthread_mutex_unlock(&nic_lock);
}

/* Tells each connected peer, in portions; a link that stays full ends this. */
static void say_goodbye(struct nic *nic) REQUIRES(nic->core.turn)
{
	enum { ROUNDS = 400 };
	const struct timespec moment = { 0, 100000 };

	turn_is_held(nic->engine.core);
	(void)engine_flush(&nic->engine, clock_ns()); /* data goes before DREQs */
	for (int i = 0; i < ROUNDS; i++) {
		bool more = cm_leave(nic->cm, clock_ns());

		(void)engine_flush(&nic->engine, clock_ns());
		if (!more)
			return;
		if (links_full(&nic->links, clock_ns()))
			nanosleep(&moment, NULL);
	}
}

/* Does the same when a program ends with QPs still in use. It may end inside one of our
 * calls, so the wait for the turn is limited. */
__attribute__((destructor)) static void flush_at_exit(void)
{
	struct nic *nic = the_nic;

	for (int i = 0; nic && i < 1000; i++) {
		if (!turn_try(&nic->core.turn)) {
			sched_yield();
			continue;
		}
		nic->core.leaving = true;
		pcap_leave();
		say_goodbye(nic);
		if (!atomic_load(&nic->engine.broken))
			links_forward(&nic->links);
		nic_log_counters(nic);
		turn_give(&nic->core.turn);
		break;
	}
}

int nic_route(struct nic *nic, struct qp *qp, const uint8_t *dgid, uint32_t dest_qp)
{
	int rc;

	turn_take(&nic->core.turn);
	rc = route(nic, qp, dgid, dest_qp);
	turn_give(&nic->core.turn);
	return rc;
}

bool nic_same_host(struct nic *nic, struct device *dev, const uint8_t ip[16])
{
	(void)nic;
	return same_host(dev, ip);
}

int nic_listen(struct nic *nic, const struct device *dev, const uint8_t *gid)
{
	int rc;

	turn_take(&nic->core.turn);
	rc = links_listen(&nic->links, dev, gid);
	turn_give(&nic->core.turn);
	return rc;
}

void nic_ask(struct nic *nic)
{
	turn_take(&nic->core.turn);
	links_ask(&nic->links);
	turn_give(&nic->core.turn);
}

int nic_join(struct nic *nic, struct device *dev, const union ibv_gid *gid, bool join)
{
	int rc;

	turn_take(&nic->core.turn);
	rc = links_join(&nic->links, dev, gid->raw, join);
	turn_give(&nic->core.turn);
	return rc;
}
