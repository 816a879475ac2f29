/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc.c - see xrc.h.
 *
 * A process that has the domain of an inode owns a name (host/service.h) that tells the
 * inode, its user and its slot. Nothing is sent to the name: other processes only look
 * whether it exists.
 */
#include "driver/xrc.h"

#include <inttypes.h>
#include <stdio.h>

#include "driver/nic_own.h"
#include "driver/route.h"
#include "host/host.h"
#include "host/service.h"
#include "ib/xrc.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "verbs/device.h"
#include "verbs/qp.h"
#include "verbs/share.h"
#include "verbs/xrc.h"

enum { NAME_LEN = 108 };

static void put_name(char buf[static NAME_LEN], const struct host *h, unsigned slot,
		     const struct xrc_name *n)
{
	snprintf(buf, NAME_LEN, "urnic/xrcd/%u/%u/%016" PRIx64 "%x/%" PRIx64 ":%" PRIx64,
		 (unsigned)host_uid(h), slot, n->guid, n->number, n->fs, n->inode);
}

static int claim(struct core *core, const struct xrc_name *n, void **out)
{
	struct nic *nic = container_of(core, struct nic, core);
	struct service *s = NULL;
	char name[NAME_LEN];
	int was = cancel_hold(), rc;

	put_name(name, nic->host, host_slot(nic->host), n);
	rc = service_bind(nic->host, name, &s);
	cancel_let(was);
	*out = s;
	return rc;
}

static void unclaim(void *claim)
{
	int was = cancel_hold();

	service_close(claim);
	cancel_let(was);
}

static bool elsewhere(struct core *core, const struct xrc_name *n)
{
	const struct nic *nic = container_of(core, struct nic, core);
	int was = cancel_hold();
	char name[NAME_LEN];
	bool found = false;

	for (unsigned slot = SLOT_FIRST; slot <= SLOT_LAST && !found; slot++) {
		put_name(name, nic->host, slot, n);
		found = slot != core->slot && service_exists(name);
	}
	cancel_let(was);
	return found;
}

/* Something has become due: perhaps not now, but run() finds out when. */
static void settle(void *arg)
{
	struct nic *nic = arg;

	source_sooner(&nic->guest.source, 0);
	engine_settle(&nic->engine, clock_ns(), 0);
}

static int pass(void *arg, uint16_t slot, const struct iovec *part, unsigned n)
{
	struct nic *nic = arg;
	int rc = host_say(nic->host, slot, HOST_XRC, part, n, NULL, 0);

	/* The turn may be a verb's, so the engine's thread has to retry what waits. */
	if (rc == -EAGAIN)
		settle(nic);
	return rc;
}

/* --- target QPs that others have opened ------------------------------------------- */

/* Makes ready what verbs make ready for a caller's own QP: packets for its address must
 * reach this process. (The fault guard was armed when memory was registered.) The caller
 * that modifies the QP reports errors of the path. */
static int prepare(void *arg, struct qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	struct nic *nic = arg;
	struct gid_entry e;
	int was = cancel_hold(), rc = 0;

	if (mask & IBV_QP_STATE && attr->qp_state == IBV_QPS_RTR && mask & IBV_QP_AV &&
	    !device_query_gid(qp->dev, attr->ah_attr.port_num,
			      attr->ah_attr.grh.sgid_index, &e) &&
	    e.used) {
		(void)route(nic, qp, attr->ah_attr.grh.dgid.raw, 0);
		rc = links_listen(&nic->links, qp->dev, e.gid.raw);
	}
	cancel_let(was);
	return rc;
}

static void await(void *arg, struct lock_cond *c, uint32_t seen)
{
	settle(arg);
	lock_await(c, seen);
}

static const struct share_ops share_ops = {
	.pass = pass,
	.prepare = prepare,
	.settle = settle,
	.wait = await,
	.now = clock_ns,
};

/* --- messages, and what is to be said again ------------------------------------------
 */

static void heard(struct nic *nic, uint16_t slot, const void *buf, size_t len)
{
	source_sooner(&nic->guest.source, 0);
	if (!share_heard(&nic->core, slot, buf, len))
		ib_xrc_heard(&nic->core, slot, buf, len, clock_ns());
}

static void gone(struct nic *nic, uint16_t slot)
{
	source_sooner(&nic->guest.source, 0);
	ib_xrc_gone(&nic->core, slot, clock_ns());
	share_gone(&nic->core, slot);
}

static void run(struct source *s, uint64_t now)
{
	struct core *core = &container_of(s, struct nic, guest.source)->core;
	uint64_t ib, share;

	if (ib_xrc_deadline(core, now) <= now)
		ib_xrc_run(core);
	share_run(core, now);
	ib = ib_xrc_deadline(core, now);
	share = share_deadline(core);
	source_set(s, ib < share ? ib : share);
}

int xrc_open(struct nic *nic, const struct conf *conf)
{
	static const struct source_ops ops = { .run = run };
	int rc;

	(void)conf;
	source_init(&nic->guest.source, &ops);
	rc = share_open(&nic->core, &share_ops, nic);
	if (rc)
		return rc;
	/* By the time of the host, in ms: no process begins a thousand lives a second. */
	rc = ib_xrc_open(&nic->core, pass, nic, (uint32_t)(clock_ns() / 1000000));
	if (rc) {
		share_close(&nic->core);
		return rc;
	}
	nic->core.xrc.claim = claim;
	nic->core.xrc.unclaim = unclaim;
	nic->core.xrc.elsewhere = elsewhere;
	nic->guest.heard = heard;
	nic->guest.gone = gone;
	return 0;
}

void xrc_close(struct nic *nic)
{
	nic->guest.heard = NULL;
	nic->guest.gone = NULL;
	share_close(&nic->core);
	ib_xrc_close(&nic->core);
}
