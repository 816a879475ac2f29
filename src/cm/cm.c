/* SPDX-License-Identifier: BSD-2-Clause */
/* cm.c - see cm.h. */
#include "cm/cm.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm_int.h"
#include "cm/iw_int.h"
#include "host/host.h"
#include "sys/cancel.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/round.h"

struct room_key cm_key;

/* --- as a source --------------------------------------------------------- */

static struct cm *cm_of_source(struct source *s)
{
	return container_of(s, struct cm, source);
}

static unsigned take_input(struct source *s, enum source_depth depth,
			   struct source_got *got, uint64_t now)
{
	struct cm *cm = cm_of_source(s);
	bool any;
	int was;

	(void)got;
	if (cm_fd(cm) < 0)
		return 0;
	was = cancel_hold();
	any = cm_input(cm, depth, now);
	cancel_let(was);
	return any;
}

/* Tells programs what has happened, by a write to their descriptors. */
static void run_timers(struct source *s, uint64_t now)
{
	int was = cancel_hold();

	cm_run(cm_of_source(s), now);
	cancel_let(was);
}

static unsigned list_fds(struct source *s, struct source_fd *fd)
{
	*fd = (struct source_fd){ .fd = cm_fd(cm_of_source(s)), .is = SOURCE_CALL };
	return 1;
}

static void close_forked(struct source *s)
{
	iw_forked(cm_of_source(s));
	listeners_forked(cm_of_source(s));
}

static const struct source_ops source_ops = {
	SOURCE_SOCKETS,	 .input = take_input,	 .run = run_timers,
	.fds = list_fds, .forked = close_forked,
};

struct source *cm_source(struct cm *cm)
{
	return &cm->source;
}

/* --- its beginning and its end ------------------------------------------- */

int cm_open(struct cm **out, struct core *core, struct host *host,
	    const struct cm_site *site, uint64_t seed)
{
	struct cm *cm = calloc(1, sizeof(*cm));
	int rc;

	if (!cm)
		return -ENOMEM;
	source_init(&cm->source, &source_ops);
	cm->core = core;
	cm->host = host;
	cm->site = site;
	cm->held_at = cm->look_at = cm->suspect_at = NEVER;
	rand_seed(&cm->rng, seed);
	cm->first_index = (unsigned)rand_below(&cm->rng, 1u << ID_INDEX_BITS);
	heap_init(&cm->timers);
	list_init(&cm->free);
	list_init(&cm->listeners);
	list_init(&cm->queries);
	heap_init(&cm->sa_timers);
	list_init(&cm->members);
	for (int i = 0; i < PEERS; i++) {
		list_init(&cm->by_peer[i]);
		list_init(&cm->by_qp[i]);
	}
	rc = iw_open(cm);
	if (rc) {
		heap_fini(&cm->timers);
		free(cm);
		return rc;
	}
	room_put(core, &cm_key, cm);
	*out = cm;
	return 0;
}

int cm_use_link(struct cm *cm, struct device *dev, struct link *link, uint16_t udp_port)
{
	if (!dev)
		cm->udp_port = udp_port;
	return qp1_open(cm->core, dev, link, gsi_input, dev ? &cm->ib : &cm->net);
}

void cm_close(struct cm *cm)
{
	if (cm->net)
		qp1_close(cm->net);
	if (cm->ib)
		qp1_close(cm->ib);
	group_close(cm);
	sa_close(cm);
	listeners_free(cm);
	iw_close(cm);
	for (int i = 0; i < CONN_CHUNKS; i++)
		free(cm->chunk[i]);
	heap_fini(&cm->timers);
	room_put(cm->core, &cm_key, NULL);
	free(cm);
}

/* --- turns --------------------------------------------------------------- */

static bool send_by(struct qp1 *q, uint64_t now)
{
	return !q || qp1_run(q, now);
}

void cm_send_mads(struct cm *cm, uint64_t now)
{
	const bool net = send_by(cm->net, now), ib = send_by(cm->ib, now);

	if (!(net && ib) && cm->site && cm->site->lost)
		cm->site->lost(cm->core);
	source_set(&cm->source, cm_deadline(cm));
}

static uint64_t mads_deadline(const struct qp1 *q)
{
	return q ? qp1_deadline(q) : NEVER;
}

void cm_run(struct cm *cm, uint64_t now)
{
	struct heap_node *top;

	forward_run(cm, now);
	gsi_run(cm, now);
	while ((top = heap_top(&cm->timers)) &&
	       silent_until(&cm->core->round, top->at, now))
		conn_timer(container_of(top, struct conn, timer), now);
	peer_run(cm, now);
	sa_run(cm, now);
	iw_run(cm, now);
	cm_send_mads(cm, now);
}

uint64_t cm_deadline(const struct cm *cm)
{
	uint64_t at = heap_next(&cm->timers);
	uint64_t other[] = { cm->held_at,
			     peer_deadline(cm),
			     iw_deadline(cm),
			     heap_next(&cm->sa_timers),
			     mads_deadline(cm->net),
			     mads_deadline(cm->ib) };

	if (cm->boxed)
		return 0;
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
		if (other[i] < at)
			at = other[i];
	return at;
}

int cm_fd(const struct cm *cm)
{
	/* The engine would pay for an empty set at each sleep of a process without
	 * iWARP. */
	return cm->iw->sockets ? cm->iw->epfd : -1;
}

bool cm_input(struct cm *cm, enum source_depth depth, uint64_t now)
{
	if (depth == SOURCE_ALL)
		cm->iw->look_at = 0;
	return iw_input(cm, now);
}

/* --- exit ---------------------------------------------------------------- */

static bool is_full(const struct qp1 *q)
{
	return q && !qp1_has_room(q);
}

bool cm_leave(struct cm *cm, uint64_t now)
{
	for (; cm->left < cm->used; cm->left++) {
		struct conn *c = conn_at(cm, cm->left);

		if (is_full(cm->net) || is_full(cm->ib)) {
			source_sooner(&cm->source, 0);
			return true;
		}
		if (c->state != ST_FREE)
			ibcm_close(&c->base, now); /* sends one MAD at most */
	}
	iw_leave(cm, now);
	source_sooner(&cm->source, 0);
	return false;
}

/* --- requests ------------------------------------------------------------ */

void cm_taken(struct cm *cm, struct cm_conn *base)
{
	struct conn *c = conn_of(base);

	if (base->proto == &cm_iw_proto) {
		iw_taken(iwc_of(base));
		return;
	}
	if (c->listener) {
		c->listener->pending--;
		c->listener = NULL;
	}
	listeners_refill(cm);
}

int cm_accept(struct cm_conn *c, const struct cm_param *self, struct cm_owner *owner,
	      uint64_t now)
{
	int rc = c->proto->accept(c, self, now);

	if (rc)
		return rc;
	c->owner = owner;
	/* Within this turn: once the answer is sent, the peer's RTR may come, and the
	 * peer's next request, which must not be told before the RTR is read. */
	return c->proto->attach ? c->proto->attach(c, now) : 0;
}

/* --- counters ------------------------------------------------------------ */

static const char *const names[CM_COUNTERS] = {
#define COUNTER(value, name) [value] = #name,
#include "cm/counter.def"
#undef COUNTER
};

bool cm_may_tell(struct cm *cm, enum cm_counter why)
{
	return log_level >= LOG_INFO && log_allowed(&cm->said_at[why]);
}

uint64_t cm_counter(const struct cm *cm, enum cm_counter c)
{
	return cm->counter[c];
}

#define COUNTERS_HEAD "connection management:"

/* Length of the longest line: each counter has 20 digits. */
enum {
	COUNTERS_LEN = 0
#define COUNTER(value, name) +sizeof(" " #name " ") - 1 + 20
#include "cm/counter.def"
#undef COUNTER
};

static_assert(sizeof(COUNTERS_HEAD) + COUNTERS_LEN <= LOG_TEXT,
	      "the counters need two lines of the log");

void cm_log_counters(const struct cm *cm)
{
	char line[COUNTERS_LEN + 1] = "";
	size_t n = 0;

	if (log_level < LOG_INFO)
		return;
	for (int i = 0; i < CM_COUNTERS; i++)
		if (cm->counter[i])
			n += (size_t)snprintf(line + n, sizeof(line) - n, " %s %llu",
					      names[i],
					      (unsigned long long)cm->counter[i]);
	if (n)
		log_info(COUNTERS_HEAD "%s", line);
}
