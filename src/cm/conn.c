/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.c - connections of the IB protocol: their memory, their communication IDs, the
 * tables that find them, and the events that they report.
 *
 * A communication ID is slot | index | generation. The index of the first connection and
 * the first generation of each are random, so nobody can guess an ID, and a restarted
 * process is not taken for its predecessor. Memory is allocated in chunks and kept until
 * cm_close(). Free indices are reused in the order in which they became free, with the
 * next generation. */
#include <errno.h>
#include <string.h>

#include "cm/cm_int.h"
#include "sys/alloc.h"
#include "verbs/core.h"
#include "wire/cm_ip.h"

enum { INDEX_MASK = (1 << ID_INDEX_BITS) - 1 };

struct conn *conn_at(struct cm *cm, unsigned index)
{
	return &cm->chunk[index / CONN_CHUNK][index % CONN_CHUNK];
}

unsigned conn_spare(const struct cm *cm)
{
	return cm->free_n + cm->ready - cm->used;
}

int conn_reserve(struct cm *cm, unsigned n)
{
	while (conn_spare(cm) < n) {
		unsigned i = cm->ready / CONN_CHUNK;

		if (i == CONN_CHUNKS || heap_reserve(&cm->timers, cm->ready + CONN_CHUNK))
			return -ENOMEM;
		cm->chunk[i] = turn_alloc(CONN_CHUNK * sizeof(struct conn));
		if (!cm->chunk[i])
			return -ENOMEM;
		cm->ready += CONN_CHUNK;
	}
	return 0;
}

static struct conn *fresh(struct cm *cm)
{
	unsigned i = cm->used++;
	struct conn *c = conn_at(cm, i);
	uint32_t generation = (uint32_t)rand_below(&cm->rng, 1u << ID_GEN_BITS);

	c->local_id = (uint32_t)cm->core->slot << ID_SLOT_SHIFT |
		      ((i + cm->first_index) & INDEX_MASK) << ID_GEN_BITS | generation;
	list_init(&c->node);
	return c;
}

static uint32_t next_generation(uint32_t id)
{
	const uint32_t mask = (1u << ID_GEN_BITS) - 1;

	return (id & ~mask) | ((id + 1) & mask);
}

struct conn *conn_new(struct cm *cm)
{
	struct conn *c;
	uint32_t id;

	if (cm->used < cm->ready) {
		c = fresh(cm);
	} else if (cm->free_n) {
		c = container_of(cm->free.next, struct conn, node);
		list_del(&c->node);
		cm->free_n--;
	} else {
		return NULL;
	}
	id = c->local_id;
	memset(c, 0, sizeof(*c));
	list_init(&c->node);
	list_init(&c->qp_node);
	c->base.proto = &cm_ib_proto;
	c->cm = cm;
	c->state = ST_IDLE;
	c->held = true;
	c->local_id = next_generation(id);
	c->tid = conn_tid(c);
	return c;
}

uint64_t conn_tid(const struct conn *c)
{
	return rand_u64(&c->cm->rng) << 32 | c->local_id;
}

void conn_free(struct conn *c)
{
	struct cm *cm = c->cm;

	heap_del(&cm->timers, &c->timer);
	conn_unhash(c);
	c->state = ST_FREE;
	c->base.owner = NULL;
	list_add_tail(&cm->free, &c->node);
	cm->free_n++;
}

struct conn *conn_find(struct cm *cm, uint32_t local_id)
{
	unsigned i = ((local_id >> ID_GEN_BITS) - cm->first_index) & INDEX_MASK;
	struct conn *c;

	if (i >= cm->used)
		return NULL;
	c = conn_at(cm, i);
	return c->state != ST_FREE && c->local_id == local_id ? c : NULL;
}

static struct list *bucket_of(struct list *all, const uint8_t ip[16], uint32_t what)
{
	uint32_t h = what;

	for (int i = 0; i < 16; i++)
		h = h * 31 + ip[i];
	return &all[(h * 2654435761u) >> 22];
}

void conn_hash(struct conn *c)
{
	list_add_tail(bucket_of(c->cm->by_peer, c->route.dst, c->remote_id), &c->node);
}

/* On this host an ID and a QP number both begin with the slot of the process that has
 * them. A REQ whose ID and QP number differ in the slot names another process's QP, and
 * says nothing of that QP. */
static bool owns_qp(const struct cm *cm, const struct cm_route *route, uint32_t id,
		    uint32_t qpn)
{
	return id_slot(id) == qpn_slot(qpn) || !route_is_local(cm, route);
}

void conn_hash_qp(struct conn *c)
{
	if (!owns_qp(c->cm, &c->route, c->remote_id, c->remote_qpn))
		return;
	list_add_tail(bucket_of(c->cm->by_qp, c->route.dst, c->remote_qpn), &c->qp_node);
}

void conn_unhash(struct conn *c)
{
	list_del(&c->node);
	list_del(&c->qp_node);
}

static bool is_connected(const struct conn *c)
{
	return c->state == ST_ESTABLISHED || c->state == ST_REP_SENT;
}

struct conn *conn_find_request(struct cm *cm, const struct cm_route *route,
			       uint32_t remote_id, bool datagram, uint64_t tid)
{
	list_for(n, bucket_of(cm->by_peer, route->dst, remote_id))
	{
		struct conn *c = container_of(n, struct conn, node);

		if (c->remote_id == remote_id && c->datagram == datagram &&
		    c->tid == tid && route_same(&c->route, route))
			return c;
	}
	return NULL;
}

/* As in Linux, QP numbers and IDs are those of one CA, which its GUID identifies. */
struct conn *conn_find_stale(struct cm *cm, const struct cm_route *route,
			     const struct cm_msg *req)
{
	if (owns_qp(cm, route, req->local_id, req->qpn)) {
		list_for(n, bucket_of(cm->by_qp, route->dst, req->qpn))
		{
			struct conn *c = container_of(n, struct conn, qp_node);

			if (is_connected(c) && c->remote_qpn == req->qpn &&
			    c->remote_guid == req->ca_guid &&
			    route_same_peer(&c->route, route))
				return c;
		}
	}
	list_for(n, bucket_of(cm->by_peer, route->dst, req->local_id))
	{
		struct conn *c = container_of(n, struct conn, node);

		if (is_connected(c) && c->remote_id == req->local_id && !c->datagram &&
		    c->remote_guid == req->ca_guid && route_same(&c->route, route))
			return c;
	}
	return NULL;
}

/* --- messages, events, states -------------------------------------------- */

struct cm_msg conn_msg(const struct conn *c, enum cm_type type)
{
	return (struct cm_msg){
		.type = type,
		.tid = c->tid,
		.local_id = c->local_id,
		.remote_id = c->remote_id,
	};
}

void conn_private(struct cm_msg *m, const void *data, size_t len)
{
	if (len)
		memcpy(m->private, data, len);
}

size_t conn_skip(const struct cm_target *to)
{
	return to->native ? 0 : CM_IP_HDR;
}

void conn_say_ip(struct cm_msg *m, const struct cm_target *to, const struct cm_param *p)
{
	struct cm_ip ip = { .v6 = !addr_is_v4(to->dst_ip), .src_port = to->src_port };

	memcpy(ip.src, to->src_ip, 16);
	memcpy(ip.dst, to->dst_ip, 16);
	if (!to->native)
		cm_ip_build(m->private, &ip);
	if (p->private_len)
		memcpy(m->private + conn_skip(to), p->private, p->private_len);
}

void param_of(const struct cm_msg *m, size_t skip, struct cm_param *p)
{
	*p = (struct cm_param){
		.qpn = m->qpn,
		.qkey = m->qkey,
		.psn = m->psn,
		.service_type = m->service_type,
		.resources = m->resources,
		.depth = m->depth,
		.flow_control = m->flow_control,
		.retry_count = m->retry_count,
		.rnr_retry = m->rnr_retry,
		.srq = m->srq,
		.ack_timeout = m->type == CM_REQ ? m->path.ack_timeout : m->ack_delay,
		.ca_guid = m->ca_guid,
		.ece_vendor = m->vendor_id,
		.ece_options = m->attr_mod,
		.private = m->private + skip,
		.private_len = cm_private_len(m->type) - skip,
	};
}

void conn_become(struct conn *c, enum conn_state state)
{
	c->state = state;
	if (c->via && state != ST_REQ_RCVD && state != ST_REP_SENT &&
	    state != ST_SIDR_RCVD)
		via_clear(c);
	if (state != ST_IDLE)
		return;
	answered(c);
	conn_unhash(c);
	if (!c->held)
		conn_free(c);
}

bool conn_tell(struct conn *c, enum cm_event_type type, int status,
	       const struct cm_param *peer)
{
	struct cm_event ev = {
		.type = type,
		.status = status,
		.conn = &c->base,
		.peer = peer,
	};

	return !c->base.owner || c->base.owner->event(c->base.owner, &ev);
}
