/* SPDX-License-Identifier: BSD-2-Clause */
/* gsi.c - QP1: whose is a MAD that came in (docs/cm.md), and how one goes out.
 * The host has one QP1, and each of its processes may be given what is for
 * another. */
#include <errno.h>
#include <string.h>

#include "cm/cm_int.h"
#include "core/core.h"
#include "host/host.h"
#include "host/service.h"
#include "sys/dgram.h"
#include "sys/log.h"
#include "wire/cm_ip.h"
#include "wire/ib_build.h"
#include "wire/ib_hdr.h"
#include "wire/ib_opcode.h"
#include "wire/icrc.h"

/* --- in -------------------------------------------------------------------------- */

static bool is_request(const struct cm_msg *m)
{
	return m->type == CM_REQ || m->type == CM_SIDR_REQ;
}

/* Who asks, and for what.  The addresses that a REQ tells are those that it came
 * from and to: nothing else could be answered. */
static int target_of(const struct cm_msg *m, const struct cm_way *way,
		     struct cm_target *to)
{
	struct cm_ip ip;

	if (cm_ip_parse(&ip, m->private, cm_private_len(m->type)) ||
	    memcmp(ip.src, way->dst, 16) || memcmp(ip.dst, way->src, 16))
		return -EPROTO;
	*to = (struct cm_target){
		.way = *way, .space = cm_service_space(m->service_id),
		.src_port = cm_service_port(m->service_id), .dst_port = ip.src_port,
		.mtu = m->mtu, .datagram = m->type == CM_SIDR_REQ,
	};
	to->way.tclass = m->path.tclass;
	return to->space ? 0 : -EPROTO;
}

/* To the process that has the service's name.  -ESRCH: there is none. */
static int hand_to_name(struct cm *cm, const struct cm_target *to,
			const struct dgram *d)
{
	char name[NAMES_MAX][NAME_LEN];
	unsigned n = service_names(to, name);

	for (unsigned i = 0; cm->host && i < n; i++) {
		int rc = service_send(cm->host, name[i], d);

		if (rc != -ESRCH)
			return rc;
	}
	return -ESRCH;
}

static void take_request(struct cm *cm, const struct cm_way *way,
			 const struct cm_msg *m, const struct dgram *d, uint64_t now)
{
	struct cm_listener *l;
	struct cm_target to;

	if (ibcm_known_request(cm, way, m, now))
		return;
	if (target_of(m, way, &to)) {
		cm->counter[CM_RX_MALFORMED]++;
		return;
	}
	l = find_listener(cm, &to, m->type == CM_SIDR_REQ);
	if (l) {
		ibcm_request(l, &to, m, now);
	} else if (!d->handed && hand_to_name(cm, &to, d) != -ESRCH) {
		cm->counter[CM_RX_HANDED_ON]++;
	} else {
		cm->counter[CM_RX_NO_SERVICE]++;
		ibcm_refuse(cm, way, m);
	}
}

static void take_other(struct cm *cm, const struct cm_way *way,
		       const struct cm_msg *m, const struct dgram *d, uint64_t now)
{
	uint16_t slot = id_slot(m->remote_id);

	if (ibcm_message(cm, way, m, now))
		return;
	if (!d->handed && cm->host && slot >= SLOT_FIRST && slot <= SLOT_LAST &&
	    slot != cm->core->slot && host_forward(cm->host, slot, d) != -ESRCH) {
		cm->counter[CM_RX_HANDED_ON]++;
		return;
	}
	cm->counter[CM_RX_NO_ID]++;
	ibcm_refuse(cm, way, m);
}

void gsi_input(struct core *core, const struct dgram *d, const uint8_t *mad,
	       size_t len, uint64_t now)
{
	struct cm *cm = core->cm;
	struct cm_way way = { .ifindex = d->ifindex };
	struct cm_msg m;

	cm->counter[CM_RX]++;
	if (cm_mad_parse(&m, mad, len)) {
		cm->counter[CM_RX_MALFORMED]++;
		return;
	}
	memcpy(way.src, d->to.ip, sizeof(way.src));
	memcpy(way.dst, d->from.ip, sizeof(way.dst));
	log_debug("%s, IDs 0x%08x 0x%08x%s", cm_type_name(m.type), m.local_id,
		  m.remote_id, d->handed ? ", handed on" : "");
	if (is_request(&m))
		take_request(cm, &way, &m, d, now);
	else
		take_other(cm, &way, &m, d, now);
}

/* --- out ------------------------------------------------------------------------- */

enum { HDRS = sizeof(struct bth) + sizeof(struct deth), LEN = HDRS + MAD_LEN + ICRC_LEN };

static void emit(struct cm *cm, struct batch *b, const struct out_mad *o)
{
	struct ib_fields f = {
		.opcode = ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_NONE),
		.migreq = true, .ackreq = true, .pkey = 0xffff,
		.dest_qp = GSI_QPN, .src_qp = GSI_QPN, .qkey = GSI_QKEY,
		.psn = cm->psn++,
	};
	struct icrc_path path = { .sport = cm->core->udp_sport,
				  .dport = cm->core->udp_port };
	uint8_t *at = b->bounce + b->bounce_used;
	struct dgram *d = batch_next(b);

	memcpy(path.src, o->way.src, 16);
	memcpy(path.dst, o->way.dst, 16);
	memcpy(d->from.ip, o->way.src, 16);
	memcpy(d->to.ip, o->way.dst, 16);
	d->from.port = path.sport;
	d->to.port = path.dport;
	d->ifindex = o->way.ifindex;
	d->tclass = o->way.tclass;
	d->ttl = 64;
	ib_build(at, &f);
	memcpy(at + HDRS, o->mad, MAD_LEN);
	d->len = LEN;
	d->iov[0] = (struct iovec){ at, LEN };
	d->iovcnt = 1;
	batch_commit(b, d);
	b->bounce_used += (LEN + 15) & ~(size_t)15;
	icrc_end(icrc_start(&path, (uint16_t)d->ip_id, LEN, at, LEN - ICRC_LEN),
		 at + LEN - ICRC_LEN);
}

bool gsi_output(struct cm *cm, struct batch *b)
{
	while (cm->out_n > 0) {
		if (!batch_has_room(b, 1, LEN + 16))
			return true;
		emit(cm, b, &cm->out[cm->out_head]);
		cm->out_head = (cm->out_head + 1) % OUT_MAX;
		cm->out_n--;
	}
	return false;
}
