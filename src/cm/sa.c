/* SPDX-License-Identifier: BSD-2-Clause */
/* sa.c - the path to a port of InfiniBand, which the subnet's administrator knows: asked
 * by QP1, at the subnet manager's LID, again and again until there is an answer or the
 * asker's patience ends. */
#include <errno.h>
#include <stdlib.h>

#include "cm/cm_int.h"
#include "core/core.h"
#include "core/device.h"
#include "core/timeout.h"
#include "sys/log.h"

static const uint64_t FIRST_NS = 100000000; /* then twice as long each time */

struct query {
	struct list node; /* cm->queries */
	struct heap_node timer;
	struct cm_owner *owner;
	uint64_t tid, until, wait_ns;
	struct cm_route route;
	uint16_t pkey;
};

static void end(struct cm *cm, struct query *q)
{
	heap_del(&cm->query_timers, &q->timer);
	list_del(&q->node);
	free(q);
}

/* A subnet manager may come, or move, between two tries. */
static void ask(struct cm *cm, const struct query *q)
{
	const struct port port = device_port(cm->ib.dev);
	struct cm_route to = q->route;
	struct sa_path want = { .pkey = q->pkey };
	uint8_t mad[MAD_LEN];

	if (!port.sm_lid)
		return;
	memcpy(want.sgid, q->route.src, sizeof(want.sgid));
	memcpy(want.dgid, q->route.dst, sizeof(want.dgid));
	sa_path_ask(mad, q->tid, &want);
	to.dlid = port.sm_lid;
	to.sl = port.sm_sl;
	(void)gsi_ask(cm, &to, mad); /* a full QP1 has lost it */
}

static void set_timer(struct cm *cm, struct query *q, uint64_t now)
{
	uint64_t at = now + q->wait_ns < q->until ? now + q->wait_ns : q->until;

	q->wait_ns *= 2;
	(void)heap_set(&cm->query_timers, &q->timer, at); /* reserved */
}

int cm_path(struct cm *cm, const struct cm_route *route, uint64_t patience_ns,
	    struct cm_owner *owner, uint64_t now)
{
	struct query *q;

	if (!cm->ib.qp1)
		return -ENODEV;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	if (heap_reserve(&cm->query_timers, cm->query_timers.n + 1)) {
		free(q);
		return -ENOMEM;
	}
	q->owner = owner;
	q->route = *route;
	q->pkey = qp1_pkey(cm->ib.qp1, route->pkey_index);
	q->tid = (uint64_t)cm->core->slot << TID_SLOT_SHIFT |
		 rand_u64(&cm->rng) >> QPN_SLOT_BITS;
	q->until = now + patience_ns;
	q->wait_ns = FIRST_NS;
	list_add_tail(&cm->queries, &q->node);
	ask(cm, q);
	set_timer(cm, q, now);
	return 0;
}

/* The owner without memory for the event is told again when the next answer comes. */
static void tell(struct cm *cm, struct query *q, int status, const struct sa_path *path)
{
	struct cm_event ev = { .type = CM_EV_PATH, .status = status, .path = path };

	if (q->owner->event(q->owner, &ev) || status == -ETIMEDOUT)
		end(cm, q);
}

static bool is_of(const struct query *q, const struct sa_path *path)
{
	return !memcmp(path->sgid, q->route.src, sizeof(path->sgid)) &&
	       !memcmp(path->dgid, q->route.dst, sizeof(path->dgid));
}

bool sa_input(struct cm *cm, uint16_t slid, const uint8_t *mad, size_t len)
{
	const struct mad_hdr *h = (const struct mad_hdr *)mad;
	struct sa_path path;
	uint64_t tid;
	int rc;

	if (len != MAD_LEN || h->class != MAD_SA)
		return false;
	if (slid != device_port(cm->ib.dev).sm_lid)
		return true; /* anybody could say so */
	rc = sa_path_answer(&path, mad);
	tid = get_be64(h->tid);
	list_for_safe(n, &cm->queries)
	{
		struct query *q = container_of(n, struct query, node);

		if (q->tid == tid && rc != -EPROTO && (rc || is_of(q, &path))) {
			tell(cm, q, rc, rc ? NULL : &path);
			break;
		}
	}
	return true;
}

void sa_run(struct cm *cm, uint64_t now)
{
	struct heap_node *top;

	while ((top = heap_top(&cm->query_timers)) &&
	       silent_until(cm->core, top->at, now)) {
		struct query *q = container_of(top, struct query, timer);

		if (q->until <= now) {
			log_warn("the subnet's SA does not answer: is there a subnet "
				 "manager (opensm)?");
			tell(cm, q, -ETIMEDOUT, NULL);
			continue;
		}
		ask(cm, q);
		set_timer(cm, q, now);
	}
}

void sa_close(struct cm *cm)
{
	list_for_safe(n, &cm->queries) end(cm, container_of(n, struct query, node));
	heap_fini(&cm->query_timers);
}

void cm_path_forget(struct cm *cm, const struct cm_owner *owner)
{
	list_for_safe(n, &cm->queries)
	{
		struct query *q = container_of(n, struct query, node);

		if (q->owner == owner)
			end(cm, q);
	}
}
