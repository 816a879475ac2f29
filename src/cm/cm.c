/* SPDX-License-Identifier: BSD-2-Clause */
/* cm.c - see cm.h. */
#include "cm/cm.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm_int.h"
#include "cm/iw_int.h"
#include "core/core.h"
#include "host/host.h"
#include "sys/log.h"

static const uint64_t LOOK_NS = 1000000, LOOK_MAX_NS = 1000000000;

int cm_open(struct core *core, struct host *host, const struct cm_site *site,
	    uint64_t seed)
{
	struct cm *cm = calloc(1, sizeof(*cm));
	int rc;

	if (!cm)
		return -ENOMEM;
	cm->core = core;
	cm->host = host;
	cm->site = site;
	cm->held_at = NEVER;
	rand_seed(&cm->rng, seed);
	cm->first_index = (unsigned)rand_below(&cm->rng, 1u << ID_INDEX_BITS);
	heap_init(&cm->timers);
	list_init(&cm->free);
	list_init(&cm->listeners);
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
	core->cm = cm;
	core->gsi = gsi_input;
	return 0;
}

void cm_close(struct core *core)
{
	struct cm *cm = core->cm;

	core->gsi = NULL;
	core->cm = NULL;
	listeners_free(cm);
	iw_close(cm);
	for (int i = 0; i < CONN_CHUNKS; i++)
		free(cm->chunk[i]);
	heap_fini(&cm->timers);
	free(cm);
}

bool cm_output(struct core *core, struct batch *b, uint64_t now)
{
	struct cm *cm = core->cm;
	struct heap_node *top;

	gsi_run(cm, now);
	while ((top = heap_top(&cm->timers)) && top->at <= now)
		conn_timer(container_of(top, struct conn, timer), now);
	iw_run(cm, now);
	return gsi_output(cm, b);
}

uint64_t cm_deadline(const struct cm *cm)
{
	uint64_t at = heap_next(&cm->timers), iw = iw_deadline(cm);

	if (cm->out_n)
		return 0;
	if (cm->held_at < at)
		at = cm->held_at;
	return iw < at ? iw : at;
}

int cm_fd(const struct cm *cm)
{
	/* An empty set would cost every sleep of one who has no iWARP. */
	return cm->iw->sockets ? cm->iw->epfd : -1;
}

void cm_look(struct core *core, uint64_t now)
{
	iw_look(core->cm, now);
}

bool cm_input(struct core *core, uint64_t now)
{
	return iw_input(core->cm, now);
}

void cm_forked(struct core *core)
{
	if (core->cm)
		iw_forked(core->cm);
}

/* --- other processes ------------------------------------------------------------ */

/* Sooner than c's own timer would. */
static void look_at(struct conn *c, uint64_t at)
{
	if (!heap_has(&c->timer) || c->timer.at > at)
		(void)heap_set(&c->cm->timers, &c->timer, at);
}

/* The peer closed our connection to it, or none could be made: it may have ended,
 * or have no descriptors.  That is asked for again, ever more rarely. */
static void look_again(struct conn *c, uint64_t now)
{
	look_at(c, now + c->look_ns);
	c->look_ns = c->look_ns ? c->look_ns * 2 : LOOK_NS;
	if (c->look_ns > LOOK_MAX_NS)
		c->look_ns = LOOK_MAX_NS;
}

/* That the peer's process ends is told by the connection to it. */
bool conn_watch(struct conn *c, uint64_t now)
{
	struct cm *cm = c->cm;
	uint16_t slot = id_slot(c->remote_id);
	int rc;

	if (!cm->host || slot == cm->core->slot ||
	    (!c->near && memcmp(c->way.src, c->way.dst, 16) &&
	     !cm->site->is_here(c->way.dst)))
		return true;
	c->near = true;
	rc = host_connect(cm->host, slot);
	if (rc == -ESRCH)
		ibcm_disconnected(c, now);
	else if (rc)
		look_again(c, now);
	return rc != -ESRCH;
}

void cm_gone(struct core *core, uint16_t slot, uint64_t now)
{
	struct cm *cm = core->cm;

	for (unsigned i = 0; cm && i < cm->used; i++) {
		struct conn *c = conn_at(cm, i);

		if (c->near && id_slot(c->remote_id) == slot &&
		    (c->state == ST_ESTABLISHED || c->state == ST_DREQ_SENT ||
		     c->state == ST_DREQ_RCVD))
			look_again(c, now);
	}
}

bool cm_leave(struct core *core, uint64_t now)
{
	struct cm *cm = core->cm;

	for (; cm->left < cm->used; cm->left++) {
		struct conn *c = conn_at(cm, cm->left);

		if (cm->out_n == OUT_MAX)
			return true;
		if (c->state != ST_FREE)
			ibcm_close(&c->base, now);	/* one MAD at most */
	}
	iw_leave(cm, now);
	return false;
}

/* --- owners ----------------------------------------------------------------------- */

void cm_own(struct cm *cm, struct cm_conn *base, struct cm_owner *owner)
{
	struct conn *c = conn_of(base);

	if (base->proto == &cm_iw_proto) {
		iw_own(iwc_of(base), owner);
		return;
	}
	base->owner = owner;
	if (c->listener) {
		c->listener->pending--;
		c->listener = NULL;
	}
	listeners_refill(cm);
	if (!c->missed)
		return;
	c->missed = false;
	(void)conn_tell(c, c->missed_type, c->missed_status, NULL);
}

/* --- what happened ------------------------------------------------------------------ */

static const char *const names[CM_COUNTERS] = {
#define COUNTER(value, name) [value] = #name,
#include "cm/counter.def"
#undef COUNTER
};

uint64_t cm_counter(const struct cm *cm, enum cm_counter c)
{
	return cm->counter[c];
}

void cm_log_counters(const struct cm *cm)
{
	char line[512] = "";
	size_t n = 0;

	if (log_level < LOG_INFO)
		return;
	for (int i = 0; i < CM_COUNTERS; i++)
		if (cm->counter[i] && n < sizeof(line))
			n += (size_t)snprintf(line + n, sizeof(line) - n, " %s %llu",
					      names[i],
					      (unsigned long long)cm->counter[i]);
	if (n)
		log_info("connection management:%s", line);
}
