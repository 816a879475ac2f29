/* SPDX-License-Identifier: BSD-2-Clause */
/* sa.c - see sa.h. */
#include "wire/sa.h"

#include <errno.h>

enum { CLASS_VERSION = 2, ATTR_PATH_RECORD = 0x0035, ONE_REVERSIBLE = 0x81 };

/* ComponentMask: which fields of a request mean something. */
enum {
	HAS_DGID = 1 << 2,
	HAS_SGID = 1 << 3,
	HAS_REVERSIBLE = 1 << 11,
	HAS_NUMB_PATH = 1 << 12,
	HAS_PKEY = 1 << 13,
};

struct path_record {
	uint8_t service[8], dgid[16], sgid[16];
	be16_t dlid, slid;
	be32_t flow_hop; /* raw 1, reserved 3, flow label 20, hop limit 8 */
	uint8_t tclass, numb_path;
	be16_t pkey, qos_sl;
	uint8_t mtu, rate, life, preference; /* selector 2, value 6 */
	uint8_t rsvd[6];
} MAD_OVERLAY;

static_assert(sizeof(struct path_record) == 64, "PathRecord");

struct sa_mad {
	struct mad_hdr h;
	uint8_t rmpp[12], sm_key[8];
	be16_t offset, rsvd;
	be64_t mask;
	struct path_record path;
	uint8_t rest[MAD_SIZE - 56 - 64];
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

int sa_path_answer(struct sa_path *out, const uint8_t mad[MAD_SIZE])
{
	const struct sa_mad *m = (const struct sa_mad *)mad;
	const struct path_record *p = &m->path;
	const uint32_t flow_hop = get_be32(p->flow_hop);

	if (m->h.class != MAD_SA || m->h.class_version != CLASS_VERSION ||
	    m->h.method != METHOD_GET_RESP || get_be16(m->h.attr) != ATTR_PATH_RECORD)
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
