/* SPDX-License-Identifier: BSD-2-Clause */
/* nic.c - the process's one NIC: made at the first open, taken apart at the last close,
 * left behind by fork (fork.c). rooms.c builds it. */
#include "driver/nic.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "cm/cm.h"
#include "direct/share.h"
#include "driver/nic_own.h"
#include "driver/registry.h"
#include "driver/route.h"
#include "driver/wraps.h"
#include "ib/ib.h"
#include "iwarp/iwarp.h"
#include "raw/packet.h"
#include "shm/peers.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/conf.h"
#include "sys/guard.h"
#include "sys/inside.h"
#include "sys/lock.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/qp.h"

struct lock nic_lock;
struct nic *the_nic;

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
	switch (dev->kind->id) {
	case KIND_ROCE:
	case KIND_IB:
		break;
	case KIND_IWARP:
		return &iwarp_transport;
	}
	return &ib_transport;
}

struct link *nic_link(struct nic *nic, const struct device *dev)
{
	struct nic_link *l = links_of(&nic->links, dev);

	return l ? l->link : NULL;
}

int nic_devices(struct device ***out, int *n)
{
	nic_watch_forks();
	return registry_devices(true, out, n);
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

/* A signal handler must not fork meanwhile: the child would inherit descriptors that it
 * does not know of. */
static void lock_nic(sigset_t *was) ACQUIRES(nic_lock)
{
	signals_hold(was);
	lock_take(&nic_lock);
}

static void unlock_nic(const sigset_t *was) RELEASES(nic_lock)
{
	lock_give(&nic_lock);
	signals_let(was);
}

int nic_open(struct nic **out)
{
	const struct conf *conf = conf_get();
	struct nic *nic;
	sigset_t was;
	int rc = 0;

	if (!conf)
		return -EINVAL;
	nic_watch_forks();
	lock_nic(&was);
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
	unlock_nic(&was);
	return rc;
}

/* Under the lock throughout: a fork waits, so the child inherits no descriptors that it
 * does not know of. */
void nic_close(struct nic *nic)
{
	sigset_t was;
	bool last;

	lock_nic(&was);
	last = --nic->users == 0;
	if (last && nic == the_nic)
		the_nic = NULL;
	/* A NIC that was lost or forked is not taken apart. */
	if (last && !nic->core.dead && !notice_loss(&nic->engine, "closing"))
		nic_stop(nic);
	unlock_nic(&was);
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

/* A program may end inside one of our calls, so that its thread has the turn itself, or
 * another lock that the turn's holder waits for. */
static NO_TSA bool take_last_turn(struct turn *t) TRY_ACQUIRES(true, *t)
{
	const uint64_t until = clock_ns() + 1000000000;

	do {
		if (turn_get(t, LOCK_BRIEFLY))
			return true;
	} while (!guard_inside() && clock_ns() < until);
	return false;
}

/* Does the same when a program ends with QPs still in use. */
NO_TSA __attribute__((destructor)) static void flush_at_exit(void)
{
	struct nic *nic = the_nic;

	inside_begin(); /* a signal handler may fork meanwhile */
	if (nic && take_last_turn(&nic->core.turn)) {
		nic->core.leaving = true;
		wraps_leave();
		say_goodbye(nic);
		if (!atomic_load(&nic->engine.broken))
			links_forward(&nic->links);
		nic_log_counters(nic);
		turn_give(&nic->core.turn);
	}
	inside_end();
}

int nic_route(struct nic *nic, struct qp *qp, const uint8_t *dgid, uint32_t dest_qp)
{
	int rc;

	turn_take(&nic->core.turn);
	rc = route(nic, qp, dgid, dest_qp);
	turn_give(&nic->core.turn);
	return rc;
}

void nic_begins(struct nic *nic, const struct qp *qp)
{
	struct peers *l = peers_of(&nic->core);

	if (!peers_may_avoid(l))
		return;
	turn_take(&nic->core.turn);
	peers_begins(l, qp->qpn);
	turn_give(&nic->core.turn);
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

int nic_open_port(struct core *core, const uint8_t *ip)
{
	struct nic *nic = nic_of_core(core);
	int rc;

	turn_take(&nic->core.turn);
	rc = links_listen(&nic->links, NULL, ip);
	if (!rc)
		links_ask(&nic->links);
	turn_give(&nic->core.turn);
	return rc;
}

int nic_join(struct nic *nic, struct device *dev, const union ibv_gid *gid, bool join)
{
	int rc;

	turn_take(&nic->core.turn);
	rc = links_join(&nic->links, dev, gid->raw, join);
	turn_give(&nic->core.turn);
	return rc;
}
