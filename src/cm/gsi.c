/* SPDX-License-Identifier: BSD-2-Clause */
/* gsi.c - QP1: whose is a MAD that came in (docs/cm.md), and how one goes out.
 * The host has one QP1, and each of its processes may be given what is for
 * another. */
#include <errno.h>
#include <string.h>

#include "cm/cm_int.h"
#include "core/core.h"
#include "core/device.h"
#include "host/host.h"
#include "host/service.h"
#include "link/ip_addr.h"
#include "sys/addr_text.h"
#include "sys/log.h"
#include "wire/cm_ip.h"
#include "wire/ib_build.h"
#include "wire/ib_hdr.h"
#include "wire/ib_opcode.h"
#include "wire/icrc.h"

static const uint64_t HOLD_NS = 50000000;

/* --- packets ------------------------------------------------------------- */

static void put_headers(uint8_t *at, uint32_t psn)
{
	struct ib_fields f = {
		.opcode = ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_NONE),
		.migreq = true,
		.ackreq = true,
		.pkey = PKEY_DEFAULT,
		.dest_qp = QP_GSI,
		.src_qp = QP_GSI,
		.qkey = QKEY_GSI,
		.psn = psn,
	};

	ib_build(at, &f);
}

static void seal(const struct dgram *d, uint8_t *at)
{
	struct icrc_path path = { .sport = ip_of(d)->from.port,
				  .dport = ip_of(d)->to.port };

	memcpy(path.src, ip_of(d)->from.ip, 16);
	memcpy(path.dst, ip_of(d)->to.ip, 16);
	icrc_end(icrc_start(&path, d->ip_id > 0 ? (uint16_t)d->ip_id : 0, GSI_PACKET, at,
			    GSI_PACKET - ICRC_LEN),
		 at + GSI_PACKET - ICRC_LEN);
}

/* A MAD that came in by way, as a packet from the peer to us. */
static void make_packet(struct cm *cm, const struct cm_way *way, const uint8_t *mad,
			uint8_t packet[GSI_PACKET], struct dgram *d)
{
	*d = (struct dgram){ .len = GSI_PACKET, .iovcnt = 1, .ip_id_exact = true };
	d->one = (struct iovec){ packet, GSI_PACKET };
	d->iov = &d->one;
	ip_of(d)->ifindex = way->ifindex;
	ip_of(d)->from.port = ip_of(d)->to.port = cm->udp_port;
	memcpy(ip_of(d)->from.ip, way->dst, 16);
	memcpy(ip_of(d)->to.ip, way->src, 16);
	put_headers(packet, 0);
	memcpy(packet + GSI_HDRS, mad, MAD_LEN);
	seal(d, packet);
}

/* --- in ------------------------------------------------------------------ */

static bool is_request(const struct cm_msg *m)
{
	return m->type == CM_REQ || m->type == CM_SIDR_REQ;
}

static bool is_loopback(const uint8_t ip[16])
{
	static const uint8_t one[16] = { [15] = 1 };

	return addr_is_v4(ip) ? ip[12] == 127 : !memcmp(ip, one, 16);
}

/* Are these the addresses that a request came from and to?  Nothing else could
 * be answered.  Within the host it may be said of loopback. */
static bool fits_way(const struct cm_ip *ip, const struct cm_way *way)
{
	if (!memcmp(ip->src, way->dst, 16) && !memcmp(ip->dst, way->src, 16))
		return true;
	return is_loopback(ip->src) && is_loopback(ip->dst) &&
	       !memcmp(way->src, way->dst, 16);
}

/* Who asks, and for what. */
static int target_of(const struct cm_msg *m, const struct cm_way *way,
		     struct cm_target *to)
{
	struct cm_ip ip;

	if (cm_ip_parse(&ip, m->private, cm_private_len(m->type)) || !fits_way(&ip, way))
		return -EPROTO;
	*to = (struct cm_target){
		.way = *way,
		.space = cm_service_space(m->service_id),
		.src_port = cm_service_port(m->service_id),
		.dst_port = ip.src_port,
		.mtu = m->mtu,
		.datagram = m->type == CM_SIDR_REQ,
	};
	to->way.tclass = m->path.tclass;
	memcpy(to->src_ip, ip.dst, 16);
	memcpy(to->dst_ip, ip.src, 16);
	return to->space ? 0 : -EPROTO;
}

/* To the process that has the service's name: the packet anew, as it may have
 * been held.  -ESRCH: there is none. */
static int hand_to_name(struct cm *cm, const struct cm_target *to,
			const struct cm_way *way, const uint8_t *mad)
{
	char name[NAMES_MAX][NAME_LEN];
	unsigned n = service_names(to, name);
	uint8_t packet[GSI_PACKET];
	struct dgram d;

	if (!cm->host)
		return -ESRCH;
	make_packet(cm, way, mad, packet, &d);
	for (unsigned i = 0; i < n; i++) {
		int rc = service_send(cm->host, name[i], &d);

		if (rc != -ESRCH)
			return rc;
	}
	return -ESRCH;
}

/* Nobody has the service.  A server may be about to listen, even again: perftest's
 * client asks a second time while the server is between two listeners.  So it is
 * looked for once more before the answer is no. */
static bool hold(struct cm *cm, const struct cm_way *way, const uint8_t *mad, bool handed,
		 uint64_t now)
{
	for (int i = 0; i < HELD_MAX; i++) {
		struct held_mad *h = &cm->held[i];

		if (h->at)
			continue;
		*h = (struct held_mad){ now + HOLD_NS, *way, handed, { 0 } };
		memcpy(h->mad, mad, MAD_LEN);
		if (h->at < cm->held_at)
			cm->held_at = h->at;
		return true;
	}
	return false;
}

/* False: nobody wants it. */
static bool place(struct cm *cm, const struct cm_way *way, const struct cm_msg *m,
		  const uint8_t *mad, bool handed, uint64_t now)
{
	struct cm_listener *l;
	struct cm_target to;

	if (ibcm_known_request(cm, way, m, now))
		return true;
	if (target_of(m, way, &to)) {
		cm->counter[CM_RX_MALFORMED]++;
		return true;
	}
	l = find_listener(cm, &to, m->type == CM_SIDR_REQ);
	if (l)
		ibcm_request(l, &to, m, now);
	else if (!handed && hand_to_name(cm, &to, way, mad) != -ESRCH)
		cm->counter[CM_RX_HANDED_ON]++;
	else
		return false;
	return true;
}

/* 12.9.8: what is said for who is not there.  False: nothing. */
static bool refusal_of(const struct cm_msg *m, struct cm_msg *a)
{
	*a = (struct cm_msg){
		.tid = m->tid,
		.local_id = m->remote_id,
		.remote_id = m->local_id,
	};
	switch (m->type) {
	case CM_REQ:
		a->type = CM_REJ;
		a->reason = CM_REJ_INVALID_SERVICE;
		return true;
	case CM_SIDR_REQ:
		a->type = CM_SIDR_REP;
		a->service_id = m->service_id;
		a->reason = CM_SIDR_UNSUPPORTED;
		return true;
	case CM_REP:
	case CM_RTU:
		a->type = CM_REJ;
		a->about = m->type == CM_REP ? CM_ABOUT_REP : CM_ABOUT_NONE;
		a->reason = CM_REJ_INVALID_ID;
		return true;
	case CM_DREQ:
		a->type = CM_DREP;
		return true;
	case CM_MRA:
	case CM_REJ:
	case CM_DREP:
	case CM_SIDR_REP:
	case CM_TYPES:
		break;
	}
	return false;
}

static void refuse(struct cm *cm, const struct cm_way *way, const struct cm_msg *m)
{
	char from[INET6_ADDRSTRLEN];
	struct cm_msg answer;

	cm->counter[CM_RX_NO_SERVICE]++;
	log_info("%s of %s for service 0x%llx (port %u) refused: nobody listens",
		 cm_type_name(m->type), addr_text(way->dst, from),
		 (unsigned long long)m->service_id, (unsigned)m->service_id & 0xffff);
	if (refusal_of(m, &answer))
		send_mad(cm, way, &answer);
}

static void take_request(struct cm *cm, const struct cm_way *way, const struct cm_msg *m,
			 const uint8_t *mad, bool handed, uint64_t now)
{
	if (!place(cm, way, m, mad, handed, now) && !hold(cm, way, mad, handed, now))
		refuse(cm, way, m);
}

static void place_held(struct cm *cm, struct held_mad *h, uint64_t now)
{
	struct cm_msg m;

	h->at = 0;
	if (cm_mad_parse(&m, h->mad, MAD_LEN))
		return; /* it was parsed before */
	if (!place(cm, &h->way, &m, h->mad, h->handed, now))
		refuse(cm, &h->way, &m);
}

void gsi_run(struct cm *cm, uint64_t now)
{
	if (now < cm->held_at)
		return;
	cm->held_at = NEVER;
	for (int i = 0; i < HELD_MAX; i++) {
		struct held_mad *h = &cm->held[i];

		if (h->at && h->at <= now)
			place_held(cm, h, now);
		else if (h->at && h->at < cm->held_at)
			cm->held_at = h->at;
	}
}

static void take_other(struct cm *cm, const struct cm_way *way, const struct cm_msg *m,
		       const uint8_t *mad, bool handed, uint64_t now)
{
	uint16_t slot = id_slot(m->remote_id);
	uint8_t packet[GSI_PACKET];
	struct cm_msg answer;
	struct dgram d;
	bool answers;

	if (ibcm_message(cm, way, m, now))
		return;
	answers = refusal_of(m, &answer);
	if (!handed && cm->host && slot >= SLOT_FIRST && slot <= SLOT_LAST &&
	    slot != cm->core->slot) {
		int rc;

		make_packet(cm, way, mad, packet, &d);
		rc = host_forward(cm->host, slot, &d);
		if (rc != -ESRCH)
			cm->counter[CM_RX_HANDED_ON]++;
		if (rc != -ESRCH || !answers || !host_is_free(cm->host, slot))
			return; /* what is lost comes again */
	}
	cm->counter[CM_RX_NO_ID]++;
	if (answers)
		send_mad(cm, way, &answer);
}

void gsi_input(struct core *core, const struct dgram *d, const uint8_t *mad, size_t len,
	       uint64_t now)
{
	struct cm *cm = core->cm;
	struct cm_way way = { .ifindex = ip_of(d)->ifindex };
	struct cm_msg m;

	cm->counter[CM_RX]++;
	if (cm_mad_parse(&m, mad, len)) {
		cm->counter[CM_RX_MALFORMED]++;
		return;
	}
	memcpy(way.src, ip_of(d)->to.ip, sizeof(way.src));
	memcpy(way.dst, ip_of(d)->from.ip, sizeof(way.dst));
	peer_heard(cm, &way);
	log_debug("%s, IDs 0x%08x 0x%08x%s", cm_type_name(m.type), m.local_id,
		  m.remote_id, d->handed ? ", handed on" : "");
	if (is_request(&m))
		take_request(cm, &way, &m, mad, d->handed, now);
	else
		take_other(cm, &way, &m, mad, d->handed, now);
}

/* --- out ----------------------------------------------------------------- */

static void emit(struct cm *cm, struct batch *b, const struct out_mad *o)
{
	uint8_t *at = b->bounce + b->bounce_used;
	struct dgram *d = batch_next(b);

	d->link = cm->link;
	memcpy(ip_of(d)->from.ip, o->way.src, 16);
	memcpy(ip_of(d)->to.ip, o->way.dst, 16);
	ip_of(d)->from.port = cm->ask_port;
	ip_of(d)->ifindex = o->way.ifindex;
	ip_of(d)->tclass = o->way.tclass;
	ip_of(d)->ttl = 64;
	put_headers(at, cm->psn++);
	memcpy(at + GSI_HDRS, o->mad, MAD_LEN);
	d->len = GSI_PACKET;
	d->iov[0] = (struct iovec){ at, GSI_PACKET };
	d->iovcnt = 1;
	batch_commit(b, d);
	b->bounce_used += (GSI_PACKET + 15) & ~(size_t)15;
	(void)batch_seal(b); /* all of it is our own memory */
}

/* To a process of this host, which then has it for certain, whatever becomes of this
 * one and whichever process the port gives datagrams to.  Not to one of another user,
 * who takes what is handed over from the port's holder alone. */
static bool by_hand(struct cm *cm, const struct out_mad *o)
{
	struct cm_way back = { .ifindex = o->way.ifindex };
	uint8_t packet[GSI_PACKET];
	struct dgram d;

	if (!o->slot || !cm->host || !cm->site->by_host || o->slot == cm->core->slot ||
	    !way_is_here(cm, &o->way) || !host_is_ours(cm->host, o->slot))
		return false;
	memcpy(back.src, o->way.dst, 16);
	memcpy(back.dst, o->way.src, 16);
	make_packet(cm, &back, o->mad, packet, &d);
	return host_forward(cm->host, o->slot, &d) == 0;
}

int gsi_quoted(const void *quote, size_t len, uint32_t *psn, struct cm_msg *m)
{
	struct ib_pkt pkt;

	/* Without the ICRC, as far as it was quoted. */
	if (len < GSI_HDRS + MAD_LEN || ib_parse(&pkt, quote, GSI_HDRS + MAD_LEN) ||
	    !pkt.deth || get_be24(pkt.bth->dest_qp) != QP_GSI ||
	    pkt.payload_len != MAD_LEN)
		return -EPROTO;
	*psn = get_be24(pkt.bth->psn);
	return cm_mad_parse(m, pkt.payload, MAD_LEN);
}

bool gsi_output(struct cm *cm, struct batch *b)
{
	while (cm->out_n > 0) {
		if (!batch_has_room(b, 1, GSI_PACKET + 16))
			return true;
		if (!by_hand(cm, &cm->out[cm->out_head]))
			emit(cm, b, &cm->out[cm->out_head]);
		cm->out_head = (cm->out_head + 1) % OUT_MAX;
		cm->out_n--;
	}
	return false;
}
