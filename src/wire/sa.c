/* SPDX-License-Identifier: BSD-2-Clause */
/* sa.c - requests to the SA and their answers; see sa.h. */
#include "wire/sa.h"

#include <errno.h>

enum {
	CLASS_VERSION = 2,
	ATTR_PATH_RECORD = 0x0035,
	ATTR_MC_MEMBER_RECORD = 0x0038,
	ONE_REVERSIBLE = 0x81,
};

/* ComponentMask: which fields of a request are valid. */
enum {
	HAS_DGID = 1 << 2,
	HAS_SGID = 1 << 3,
	HAS_REVERSIBLE = 1 << 11,
	HAS_NUMB_PATH = 1 << 12,
	HAS_PKEY = 1 << 13,
};

enum {
	HAS_MGID = 1 << 0,
	HAS_PORT_GID = 1 << 1,
	HAS_QKEY = 1 << 2,
	HAS_MLID = 1 << 4,
	HAS_TCLASS = 1 << 6,
	HAS_GROUP_PKEY = 1 << 7,
	HAS_SL = 1 << 12,
	HAS_FLOW_LABEL = 1 << 13,
	HAS_JOIN_STATE = 1 << 16,
};

struct group_record {
	uint8_t mgid[16], port_gid[16];
	be32_t qkey;
	be16_t mlid;
	uint8_t mtu, tclass; /* mtu, rate, life: selector (2 bits), value (6) */
	be16_t pkey;
	uint8_t rate, life;
	be32_t sl_flow_hop;  /* SL (4 bits), flow label (20), hop limit (8) */
	uint8_t scope_state; /* scope (4 bits), JoinState (4) */
	uint8_t proxy, rsvd[2];
} MAD_OVERLAY;

static_assert(sizeof(struct group_record) == 52, "MCMemberRecord");

struct path_record {
	uint8_t service[8], dgid[16], sgid[16];
	be16_t dlid, slid;
	be32_t flow_hop; /* raw (1 bit), reserved (3), flow label (20), hop limit (8) */
	uint8_t tclass, numb_path;
	be16_t pkey, qos_sl;
	uint8_t mtu, rate, life, preference; /* selector (2 bits), value (6) */
	uint8_t rsvd[6];
} MAD_OVERLAY;

static_assert(sizeof(struct path_record) == 64, "PathRecord");

struct sa_mad {
	struct mad_hdr h;
	uint8_t rmpp[12], sm_key[8];
	be16_t offset, rsvd;
	be64_t mask;
	union {
		struct path_record path;
		struct group_record group;
		uint8_t rest[MAD_SIZE - 56];
	};
} MAD_OVERLAY;

static_assert(sizeof(struct sa_mad) == MAD_SIZE, "MAD of the SA");

enum { VALUE = 0x3f };

void sa_path_ask(uint8_t mad[MAD_SIZE], uint64_t tid, const struct sa_path *want)
{
	struct sa_mad m = {
		.h = { .base_version = MAD_BASE_VERSION,
		       .class = MAD_SA,
		       .class_version = CLASS_VERSION,
		       .method = METHOD_GET,
		       .tid = be64(tid),
		       .attr = be16(ATTR_PATH_RECORD) },
		.mask = be64(HAS_DGID | HAS_SGID | HAS_REVERSIBLE | HAS_NUMB_PATH |
			     HAS_PKEY),
		.path = { .numb_path = ONE_REVERSIBLE, .pkey = be16(want->pkey) },
	};

	memcpy(m.path.dgid, want->dgid, sizeof(m.path.dgid));
	memcpy(m.path.sgid, want->sgid, sizeof(m.path.sgid));
	memcpy(mad, &m, sizeof(m));
}

/* Has the SA judged the request?  It may be busy; and the port of a subnet manager that
 * has ended answers that it does not know what it is asked. */
static bool is_judged(const struct mad_hdr *h)
{
	const uint16_t status = get_be16(h->status);

	switch (status & MAD_BAD_FIELD) {
	case MAD_BAD_VERSION:
	case MAD_BAD_METHOD:
	case MAD_BAD_ATTR:
		return false;
	default:
		return !(status & MAD_BUSY);
	}
}

int sa_path_answer(struct sa_path *out, const uint8_t mad[MAD_SIZE])
{
	const struct sa_mad *m = (const struct sa_mad *)mad;
	const struct path_record *p = &m->path;
	const uint32_t flow_hop = get_be32(p->flow_hop);

	if (m->h.class != MAD_SA || m->h.class_version != CLASS_VERSION ||
	    m->h.method != METHOD_GET_RESP || get_be16(m->h.attr) != ATTR_PATH_RECORD)
		return -EPROTO;
	if (!is_judged(&m->h))
		return -EPROTO;
	if (get_be16(m->h.status) || !get_be16(p->dlid))
		return -EINVAL;
	*out = (struct sa_path){
		.slid = get_be16(p->slid),
		.dlid = get_be16(p->dlid),
		.pkey = get_be16(p->pkey),
		.flow_label = flow_hop >> 8 & 0xfffff,
		.hop_limit = (uint8_t)flow_hop,
		.tclass = p->tclass,
		.sl = get_be16(p->qos_sl) & 15,
		.mtu = p->mtu & VALUE,
		.rate = p->rate & VALUE,
		.life = p->life & VALUE,
	};
	memcpy(out->sgid, p->sgid, sizeof(out->sgid));
	memcpy(out->dgid, p->dgid, sizeof(out->dgid));
	return 0;
}

void sa_group_ask(uint8_t mad[MAD_SIZE], uint64_t tid, enum mad_method method,
		  const struct sa_group *want)
{
	enum {
		LEAVE = HAS_MGID | HAS_PORT_GID | HAS_JOIN_STATE,
		JOIN = LEAVE | HAS_QKEY | HAS_GROUP_PKEY | HAS_SL | HAS_FLOW_LABEL |
		       HAS_TCLASS,
	};
	struct sa_mad m = {
		.h = { .base_version = MAD_BASE_VERSION,
		       .class = MAD_SA,
		       .class_version = CLASS_VERSION,
		       .method = (uint8_t)method,
		       .tid = be64(tid),
		       .attr = be16(ATTR_MC_MEMBER_RECORD) },
		.mask = be64(method != METHOD_SET ? LEAVE
			     : want->mlid	  ? JOIN | HAS_MLID
						  : JOIN),
		.group = { .qkey = be32(want->qkey),
			   .mlid = be16(want->mlid),
			   .tclass = want->tclass,
			   .pkey = be16(want->pkey),
			   .sl_flow_hop = be32((uint32_t)want->sl << 28 |
					       (want->flow_label & 0xfffff) << 8 |
					       want->hop_limit),
			   .scope_state = want->join_state & 15 },
	};

	memcpy(m.group.mgid, want->mgid, sizeof(m.group.mgid));
	memcpy(m.group.port_gid, want->port_gid, sizeof(m.group.port_gid));
	memcpy(mad, &m, sizeof(m));
}

int sa_group_parse(struct sa_group *out, uint8_t *method, const uint8_t mad[MAD_SIZE])
{
	const struct sa_mad *m = (const struct sa_mad *)mad;
	const struct group_record *g = &m->group;
	const uint32_t sl_flow_hop = get_be32(g->sl_flow_hop);

	if (m->h.class != MAD_SA || m->h.class_version != CLASS_VERSION ||
	    get_be16(m->h.attr) != ATTR_MC_MEMBER_RECORD ||
	    (m->h.method & METHOD_RESP && !is_judged(&m->h)))
		return -EPROTO;
	*method = m->h.method;
	*out = (struct sa_group){
		.qkey = get_be32(g->qkey),
		.mlid = get_be16(g->mlid),
		.mtu = g->mtu & VALUE,
		.tclass = g->tclass,
		.pkey = get_be16(g->pkey),
		.rate = g->rate & VALUE,
		.life = g->life & VALUE,
		.sl = (uint8_t)(sl_flow_hop >> 28),
		.flow_label = sl_flow_hop >> 8 & 0xfffff,
		.hop_limit = (uint8_t)sl_flow_hop,
		.join_state = g->scope_state & 15,
	};
	memcpy(out->mgid, g->mgid, sizeof(out->mgid));
	memcpy(out->port_gid, g->port_gid, sizeof(out->port_gid));
	return *method & METHOD_RESP && get_be16(m->h.status) ? -EINVAL : 0;
}
