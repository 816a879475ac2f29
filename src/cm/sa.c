/* SPDX-License-Identifier: BSD-2-Clause */
/* sa.c - asks the subnet's administrator (SA) for the path to an InfiniBand port.
 * Questions go by QP1 to the subnet manager's LID, again and again until there is an
 * answer or the asker's patience ends. */
#include <errno.h>
#include <stdlib.h>

#include "cm/cm_int.h"
#include "sys/alloc.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/round.h"

/* The delay doubles each time, up to the longest. */
static const uint64_t FIRST_NS = 100000000, LONGEST_NS = 6400000000;

struct query {
	struct list node; /* in cm->queries */
	struct sa_ask ask;
	struct cm_owner *owner;
	struct cm_route route;
	uint16_t pkey;
};

/* --- questions until there is an answer ---------------------------------- */

int sa_ask_init(struct cm *cm, struct sa_ask *a, const struct sa_ask_ops *ops)
{
	if (heap_reserve(&cm->sa_timers, cm->sa_asks + 1))
		return -ENOMEM;
	cm->sa_asks++;
	a->ops = ops;
	return 0;
}

static void set_timer(struct cm *cm, struct sa_ask *a, uint64_t now)
{
	uint64_t at = now + a->wait_ns < a->until ? now + a->wait_ns : a->until;

	if (a->wait_ns < LONGEST_NS)
		a->wait_ns *= 2;
	(void)heap_set(&cm->sa_timers, &a->timer, at); /* sa_ask_init() reserved it */
}

void sa_ask_begin(struct cm *cm, struct sa_ask *a, uint64_t patience_ns, uint64_t now)
{
	a->tid = sa_tid(cm);
	a->until = now + patience_ns;
	a->wait_ns = FIRST_NS;
	a->ops->ask(cm, a);
	set_timer(cm, a, now);
}

void sa_answered(struct cm *cm, struct sa_ask *a)
{
	heap_del(&cm->sa_timers, &a->timer);
}

void sa_ask_end(struct cm *cm, struct sa_ask *a)
{
	sa_answered(cm, a);
	cm->sa_asks--;
}

void sa_run(struct cm *cm, uint64_t now)
{
	struct heap_node *top;

	while ((top = heap_top(&cm->sa_timers)) &&
	       silent_until(&cm->core->round, top->at, now)) {
		struct sa_ask *a = container_of(top, struct sa_ask, timer);

		if (a->until <= now) {
			log_warn("the subnet's SA does not answer: is there a subnet "
				 "manager (opensm)?");
			if (!a->ops->silent(cm, a))
				continue;
			a->until = NEVER;
		}
		a->ops->ask(cm, a);
		set_timer(cm, a, now);
	}
}

uint64_t sa_tid(struct cm *cm)
{
	return (uint64_t)cm->core->slot << TID_SLOT_SHIFT |
	       rand_u64(&cm->rng) >> QPN_SLOT_BITS;
}

/* Looks the subnet manager's LID up at each try: a subnet manager may appear, or move, in
 * between. */
void sa_send(struct cm *cm, const struct cm_route *route, const uint8_t mad[MAD_LEN])
{
	const struct port port = device_port(cm->ib->gsi.dev);
	struct cm_route to = *route;

	if (!port.sm_lid)
		return;
	to.dlid = port.sm_lid;
	to.sl = port.sm_sl;
	(void)gsi_ask(cm, &to, mad); /* a full QP1 loses it; it is sent again */
}

/* --- paths ------------------------------------------------------------------ */

static void end_query(struct cm *cm, struct query *q)
{
	sa_ask_end(cm, &q->ask);
	list_del(&q->node);
	turn_free(q);
}

static void ask_path(struct cm *cm, const struct sa_ask *a)
{
	const struct query *q = container_of(a, const struct query, ask);
	struct sa_path want = { .pkey = q->pkey };
	uint8_t mad[MAD_LEN];

	memcpy(want.sgid, q->route.src, sizeof(want.sgid));
	memcpy(want.dgid, q->route.dst, sizeof(want.dgid));
	sa_path_ask(mad, a->tid, &want);
	sa_send(cm, &q->route, mad);
}

/* If the owner has no memory for the event, the query goes on, and its next answer is
 * reported; but a timeout ends the query even then. */
static void report_path(struct cm *cm, struct query *q, int status,
			const struct sa_path *path)
{
	struct cm_event ev = { .type = CM_EV_PATH, .status = status, .path = path };

	if (q->owner->event(q->owner, &ev) || status == -ETIMEDOUT)
		end_query(cm, q);
}

static bool query_timeout(struct cm *cm, struct sa_ask *a)
{
	report_path(cm, container_of(a, struct query, ask), -ETIMEDOUT, NULL);
	return false;
}

static const struct sa_ask_ops ops = { ask_path, query_timeout };

int cm_path(struct cm *cm, const struct cm_route *route, uint64_t patience_ns,
	    struct cm_owner *owner, uint64_t now)
{
	struct query *q;

	if (!cm->ib)
		return -ENODEV;
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	if (sa_ask_init(cm, &q->ask, &ops)) {
		free(q);
		return -ENOMEM;
	}
	q->owner = owner;
	q->route = *route;
	q->pkey = qp1_pkey(cm->ib, route->pkey_index);
	list_add_tail(&cm->queries, &q->node);
	sa_ask_begin(cm, &q->ask, patience_ns, now);
	return 0;
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
	if (slid != device_port(cm->ib->gsi.dev).sm_lid)
		return true; /* a MAD from another LID is not the SA's: ignored */
	group_input(cm, mad);
	rc = sa_path_answer(&path, mad);
	tid = get_be64(h->tid);
	list_for_safe(n, &cm->queries)
	{
		struct query *q = container_of(n, struct query, node);

		if (q->ask.tid == tid && rc != -EPROTO && (rc || is_of(q, &path))) {
			report_path(cm, q, rc, rc ? NULL : &path);
			break;
		}
	}
	return true;
}

void sa_close(struct cm *cm)
{
	list_for_safe(n, &cm->queries) end_query(cm, container_of(n, struct query, node));
	heap_fini(&cm->sa_timers);
}

void cm_path_forget(struct cm *cm, const struct cm_owner *owner)
{
	list_for_safe(n, &cm->queries)
	{
		struct query *q = container_of(n, struct query, node);

		if (q->owner == owner)
			end_query(cm, q);
	}
}
