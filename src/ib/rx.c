/* SPDX-License-Identifier: BSD-2-Clause */
/* rx.c - finds the QP of an incoming packet, after checking that it is one and is meant
 * for this port (IBTA vol. 1, 9.6).  The link has checked the ICRC. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "ib/hang.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "sys/addr.h"
#include "sys/log.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/gsi.h"
#include "verbs/transport.h"
#include "wire/grh.h"
#include "wire/well_known.h"

static void sender(const struct dgram *d, uint32_t src_qp, char text[INET6_ADDRSTRLEN])
{
	uint8_t src[16], dst[16];
	struct link_head head;

	if (!d) {
		snprintf(text, INET6_ADDRSTRLEN, "QP 0x%06x of this host", src_qp);
		return;
	}
	d->link->ops->head(d, &head);
	grh_ends(head.bytes, src, dst);
	addr_text(src, text);
}

/* A packet that is dropped: how it came, and why it goes. */
struct dropped {
	const struct dgram *d; /* NULL: by memory, from QP src of this host */
	uint32_t src;
	enum ib_counter why;
	const char *text;
};

/* Says why a packet for this QP is dropped; q NULL: for a QP that this process has not.
 * Late ACKs and responses are normal, and not told. */
static void say_dropped(struct ib *ib, struct ib_qp *q, const struct ib_pkt *pkt,
			const struct dropped *by, uint64_t now)
{
	char from[INET6_ADDRSTRLEN];
	bool hangs;

	if (!ib_is_request(pkt->op))
		return;
	hangs = hang_dropped(ib, pkt, now);
	if (!hangs && !ib_may_tell(ib, q, by->why))
		return;
	sender(by->d, by->src, from);
	if (hangs)
		log_hint("QP 0x%06x: for 1 s packets from %s have been dropped (%s, PSN "
			 "%u): %s",
			 pkt->f.dest_qp, from, pkt->op->name, pkt->f.psn, by->text);
	else
		log_info("%s for QP 0x%06x from %s, PSN %u, dropped: %s", pkt->op->name,
			 pkt->f.dest_qp, from, pkt->f.psn, by->text);
}

/* Counts a packet that the QP does not take, and says why. */
static void drop_packet(struct ib_qp *q, const struct ib_pkt *pkt,
			const struct dropped *by, uint64_t now)
{
	count(q, by->why);
	say_dropped(q->ib, q, pkt, by, now);
}

static void drop_state(struct ib_qp *q, const struct ib_pkt *pkt, const struct dgram *d,
		       uint32_t src, uint64_t now)
{
	drop_packet(q, pkt,
		    &(struct dropped){
			    d, src, IB_RX_STATE,
			    "the QP takes packets from RTR on, and not in ERR" },
		    now);
}

static void drop_type(struct ib_qp *q, const struct ib_pkt *pkt, const struct dgram *d,
		      uint64_t now)
{
	drop_packet(q, pkt,
		    &(struct dropped){ d, q->qp->attr.dest_qp_num, IB_RX_NO_QP,
				       "the QP is of another type" },
		    now);
}

static void drop_no_qp(struct ib *ib, const struct ib_pkt *pkt, const struct dgram *d,
		       uint32_t src, uint64_t now)
{
	ib->counter[IB_RX_NO_QP]++;
	say_dropped(ib, NULL, pkt,
		    &(struct dropped){
			    d, src, IB_RX_NO_QP,
			    "this process has no such QP (destroyed already? or does the "
			    "program give its peer another number?)" },
		    now);
}

/* --- the QP --------------------------------------------------------------- */

/* Is the datagram from the QP's peer?  All links share one space of QP numbers, so the
 * link must be the path's, too. */
static bool from_peer(const struct qp *qp, const struct dgram *d)
{
	return d->link == qp->path.link && d->link->ops->is_from(&qp->path.addr, d);
}

/* 12.9.7.1: the program need not wait for the RTU */
static void established(struct ib_qp *q)
{
	if (q->qp->state != IBV_QPS_RTR || q->rsp.comm_est)
		return;
	q->rsp.comm_est = true;
	qp_raise(q->qp, IBV_EVENT_COMM_EST);
}

/* Takes in a packet that is known to come from the peer. */
static void connected(struct ib_qp *q, const struct dgram *d, const struct ib_pkt *pkt,
		      uint64_t now) REQUIRES(q->qp->lock)
{
	if (pkt->op->kind == IB_CONGESTION) {
		count(q, IB_RX_CNP);
		if (q->host)
			cc_cut(q->host, now);
		return;
	}
	if (ib_service(pkt->f.opcode) != q->service ||
	    (ib_is_request(pkt->op) && !q->answers)) {
		drop_type(q, pkt, d, now);
		return;
	}
	q->rsp.ack.understood |= q->ib->belated;
	established(q);
	if (!q->qp->reliable)
		uc_request(q, pkt, now);
	else if (ib_is_request(pkt->op))
		rc_request(q, pkt, now);
	else
		rc_response(q, pkt, now);
}

/* A packet to a group goes to QP 0xffffff, any other to one of the port's addresses. */
static bool to_port(const struct qp *qp, const struct dgram *d, const struct ib_pkt *pkt)
{
	struct link_dest dest;

	if (d->link != qp->ctx->link)
		return false;
	d->link->ops->dest(&d->addr, &dest);
	if (dest.group || pkt->f.dest_qp == QP_MULTICAST)
		return dest.group && pkt->f.dest_qp == QP_MULTICAST;
	if (dest.lid)
		return device_has_lid(qp->dev, dest.lid);
	return device_has_gid(qp->dev, dest.gid);
}

static void linked(struct ib_qp *q, const struct dgram *d, const struct ib_pkt *pkt,
		   uint64_t now) REQUIRES(q->qp->lock)
{
	if (d->marked && pkt->op->kind != IB_CONGESTION)
		rsp_cnp(q, now);
	connected(q, d, pkt, now);
}

static void datagram(struct ib_qp *q, const struct dgram *d, const struct ib_pkt *pkt,
		     uint64_t now) REQUIRES(q->qp->lock)
{
	if (ib_service(pkt->f.opcode) != IB_UD)
		drop_type(q, pkt, d, now);
	else if (!to_port(q->qp, d, pkt))
		count(q, IB_RX_NO_ADDR);
	else
		ud_request(q, d, pkt, now);
}

static void another_partition(struct ib_qp *q, const struct dgram *d,
			      const struct ib_pkt *pkt, uint64_t now) /* C9-38 */
{
	drop_packet(q, pkt,
		    &(struct dropped){ d, 0, IB_RX_PKEY, "the QP has another P_Key" },
		    now);
	q->qp->dev->pkey_violations++;
}

static void from_elsewhere(struct ib_qp *q, const struct dgram *d, uint32_t src,
			   const struct ib_pkt *pkt, uint64_t now)
{
	drop_packet(q, pkt,
		    &(struct dropped){ d, src, IB_RX_NO_ADDR,
				       "the QP is connected to another address" },
		    now);
}

static void deliver(struct qp *qp, const struct dgram *d, const struct ib_pkt *pkt,
		    uint64_t now)
{
	struct ib_qp *q = ib_qp(qp);

	lock_take(&qp->lock);
	qp_is_held(q->qp);
	if (!qp_receives(qp))
		drop_state(q, pkt, d, 0, now);
	else if (qp_hears(qp, pkt->f.pkey) < 0)
		another_partition(q, d, pkt, now);
	else if (qp->type == IBV_QPT_UD)
		datagram(q, d, pkt, now);
	else if (!from_peer(qp, d))
		from_elsewhere(q, d, 0, pkt, now);
	else
		linked(q, d, pkt, now);
	ib_settle(q);
	lock_give(&qp->lock);
}

struct to_group {
	const struct dgram *d;
	struct link_dest dest;
	const struct ib_pkt *pkt;
	uint64_t now;
};

/* Has qp sent the packet itself? Another host may have a QP of the same number. */
static bool is_own(const struct qp *qp, const struct to_group *g)
{
	uint8_t v4[16] = { [10] = 0xff, 0xff };
	struct link_head head;

	if (g->pkt->f.src_qp != qp->qpn)
		return false;
	g->d->link->ops->head(g->d, &head);
	if (head.bytes[0] >> 4 == 6)
		return device_has_gid(qp->dev, head.bytes + 8);
	memcpy(v4 + 12, head.bytes + 32, 4);
	return device_has_gid(qp->dev, v4);
}

static void to_member(struct qp *qp, void *arg)
{
	const struct to_group *g = arg;

	/* A group may have been joined on several interfaces. */
	if (g->dest.port && g->dest.port != qp->dev->number)
		return;
	if (qp->create_flags & IBV_QP_CREATE_BLOCK_SELF_MCAST_LB && is_own(qp, g))
		return;
	if (qp->transport == &ib_transport && qp->type == IBV_QPT_UD)
		deliver(qp, g->d, g->pkt, g->now);
}

static void to_members(struct core *core, const struct dgram *d, const struct ib_pkt *pkt,
		       uint64_t now)
{
	struct to_group g = { .d = d, .pkt = pkt, .now = now };

	d->link->ops->dest(&d->addr, &g.dest);
	turn_is_held(core);
	mcast_for_each(core, g.dest.gid, to_member, &g);
}

/* Returns the counter for what is wrong with a packet for QP1; IB_COUNTERS: nothing is.
 * On Ethernet the link takes only packets for addresses of this host. */
static enum ib_counter check_gsi(const struct gsi *g, const struct link_dest *dest,
				 const struct ib_pkt *pkt)
{
	if (ib_service(pkt->f.opcode) != IB_UD || ib_has(pkt, IB_IMMDT))
		return IB_RX_NO_QP;
	if (gsi_hears(g, pkt->f.pkey) < 0) /* C9-38 */
		return IB_RX_PKEY;
	if (dest->group || (g->dev && dest->lid && !device_has_lid(g->dev, dest->lid)))
		return IB_RX_NO_ADDR;
	if (pkt->f.qkey != QKEY_GSI) /* C9-176 */
		return IB_RX_QKEY;
	return pkt->payload_len > GSI_MAD ? IB_RX_UD_DROPPED : IB_COUNTERS;
}

static void drop_gsi(struct core *core, struct gsi *g, enum ib_counter why,
		     const struct dgram *d, const struct ib_pkt *pkt, uint64_t now)
{
	struct ib *ib = ib_of(core);

	ib->counter[why]++;
	if (g && g->dev && why == IB_RX_PKEY)
		g->dev->pkey_violations++;
	if (g && g->dev && why == IB_RX_QKEY)
		g->dev->qkey_violations++;
	say_dropped(
		ib, NULL, pkt,
		&(struct dropped){
			d, 0, why,
			"it is no MAD for this port (P_Key, Q_Key, address, length)" },
		now);
}

/* A MAD for QP1; connection management finds out whose it is. The bytes are copied, since
 * another process may still have access to where they lie. */
static void to_gsi(struct core *core, const struct dgram *d, const struct ib_pkt *pkt,
		   uint64_t now)
{
	struct gsi *g = gsi_of(core, d->link);
	enum ib_counter wrong = IB_RX_NO_QP;
	struct link_dest dest;
	struct link_head head;
	struct gsi_mad m;

	if (g) {
		d->link->ops->dest(&d->addr, &dest);
		wrong = check_gsi(g, &dest, pkt);
	}
	if (wrong != IB_COUNTERS) {
		drop_gsi(core, g, wrong, d, pkt, now);
		return;
	}
	d->link->ops->head(d, &head);
	m.head = head.bytes;
	m.len = pkt->payload_len;
	m.slid = head.slid;
	m.sl = head.sl;
	m.pkey_index = (uint16_t)gsi_hears(g, pkt->f.pkey);
	m.port = dest.port;
	memcpy(m.bytes, pkt->payload, m.len);
	g->take(g, &m, now);
}

/* Is the datagram long enough for a BTH, of whole words, and in one piece? */
static bool is_framed(const struct dgram *d)
{
	return d->len >= sizeof(struct bth) && d->len % 4 == 0 && d->iovcnt == 1;
}

/* A reserved opcode with the expected PSN is a request that is not supported: NAK
 * (9.7.4.1.4).  Any other packet with one is dropped. */
static void reserved_opcode(struct ib *ib, const struct dgram *d, uint64_t now)
{
	const struct bth *bth = d->iov[0].iov_base;
	struct ib_qp *q;
	struct qp *qp;

	if (!is_framed(d) || (bth->flags & BTH_TVER) != 0 || ib_op(bth->opcode) ||
	    d->damaged)
		return;
	turn_is_held(ib->core);
	qp = qp_find(ib->core, get_be24(bth->dest_qp));
	if (!qp || qp->transport != &ib_transport || !qp->reliable ||
	    ib_service(bth->opcode) != ib_qp(qp)->service)
		return;
	q = ib_qp(qp);
	lock_take(&qp->lock);
	qp_is_held(q->qp);
	if (qp_receives(qp) && from_peer(qp, d))
		rc_reserved(q, bth, now);
	ib_settle(q);
	lock_give(&qp->lock);
}

/* Checks a datagram as far as possible without its QP.  Returns the counter for what is
 * wrong; IB_COUNTERS: nothing is. */
static enum ib_counter check_packet(const struct dgram *d, struct ib_pkt *pkt)
{
	if (!is_framed(d) || ib_parse(pkt, d->iov[0].iov_base, d->len) != 0)
		return IB_RX_MALFORMED;
	if (d->damaged)
		return IB_RX_ICRC;
	return IB_COUNTERS;
}

static void count_in(uint64_t *counter, unsigned n, uint32_t len)
{
	counter[IB_RX] += n;
	counter[IB_RX_BYTES] += (uint64_t)n * len;
}

static void count_for(struct qp *qp, unsigned n, uint32_t len)
{
	count_in(ib_qp(qp)->counter, n, len);
	qp->tp.traffic.got += n;
	qp->tp.traffic.got_bytes += (uint64_t)n * len;
}

void ib_input(struct core *core, const struct dgram *d, uint64_t now)
{
	struct ib *ib = ib_of(core);
	enum ib_counter wrong;
	struct ib_pkt pkt;
	uint32_t qpn;
	struct qp *qp;

	wrong = check_packet(d, &pkt);
	if (wrong != IB_COUNTERS) {
		count_in(ib->counter, 1, d->len);
		ib->counter[wrong]++;
		log_debug("datagram of %u bytes dropped: %s", d->len,
			  ib_counter_name(wrong));
		if (wrong == IB_RX_MALFORMED)
			reserved_opcode(ib, d, now);
		return;
	}
	qpn = pkt.f.dest_qp;
	if (qpn == QP_MULTICAST) {
		count_in(ib->counter, 1, d->len);
		if (ib_service(pkt.f.opcode) == IB_UD)
			to_members(core, d, &pkt, now);
		return;
	}
	if (qpn == QP_GSI) {
		count_in(ib->counter, 1, d->len);
		to_gsi(core, d, &pkt, now);
		return;
	}
	turn_is_held(core);
	qp = qp_find(core, qpn);
	if (!qp || qp->transport != &ib_transport) {
		count_in(ib->counter, 1, d->len);
		drop_no_qp(ib, &pkt, d, 0, now);
		return;
	}
	count_for(qp, 1, d->len);
	deliver(qp, d, &pkt, now);
}

/* Is next an ACK that ack.c has sent behind the request d, at the end of its run?  It was
 * due before d, so it is taken in first.  An ACK behind a response keeps its place: those
 * two are in order. */
static bool is_belated(const struct dgram *d, const struct dgram *next)
{
	const struct bth *a = d->iov[0].iov_base, *b = next->iov[0].iov_base;

	if (next->seg != d->seg + 1 || next->iovcnt != 1 || d->iovcnt != 1 ||
	    next->len < sizeof(*b) || d->len < sizeof(*a) ||
	    b->opcode != ib_opcode(IB_RC, IB_ACK, IB_ONLY, IB_NONE))
		return false;
	return (a->opcode == ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_NONE) ||
		a->opcode == ib_opcode(IB_RC, IB_WRITE, IB_ONLY, IB_NONE)) &&
	       get_be24(a->dest_qp) == get_be24(b->dest_qp);
}

/* --- runs ------------------------------------------------------------------ */

/* Packets from the middle of one message, or SENDs of one packet, which differ in PSN,
 * AckReq and payload only.  They mostly arrive together, and what does not differ is then
 * checked once. */
struct run {
	const struct dgram *v;
	unsigned n;
	struct bth first;
	bool ackreq; /* any of them asks for an ACK */
};

/* The BTH is read only once, since the sender may still write to the packet's memory. */
static struct bth read_bth(const struct dgram *d)
{
	struct bth bth;

	memcpy(&bth, d->iov[0].iov_base, sizeof(bth));
	atomic_signal_fence(memory_order_seq_cst);
	return bth;
}

/* Takes d into the run if it continues it. */
static bool joins(struct run *r, const struct dgram *d)
{
	struct bth bth;

	if (d->len != r->v->len || d->iovcnt != 1 || d->damaged || d->marked ||
	    d->link != r->v->link || !addr_same(&d->addr, &r->v->addr))
		return false;
	bth = read_bth(d);
	if (memcmp(&bth, &r->first, offsetof(struct bth, ackreq)) != 0 ||
	    get_be24(bth.psn) != psn_add(get_be24(r->first.psn), r->n))
		return false;
	r->ackreq |= bth_ack_requested(&bth);
	r->n++;
	return true;
}

/* May packets of this opcode form a run?  Their only header is the BTH. */
static bool forms_runs(uint8_t opcode)
{
	const struct ib_op *op = ib_op(opcode);

	return op && ib_exts(op, opcode) == 0 &&
	       (op->place == IB_MIDDLE || (op->place == IB_ONLY && op->kind == IB_SEND));
}

/* Finds the run of RC or UC packets that v begins with. Returns false if there is none.
 */
static bool find_run(struct run *r, const struct dgram *v, unsigned n)
{
	unsigned most = n < RUN_MAX ? n : RUN_MAX;

	if (n < 2 || !is_framed(v) || v->damaged || v->marked)
		return false;
	*r = (struct run){ .v = v, .n = 1, .first = read_bth(v) };
	if (!forms_runs(r->first.opcode))
		return false;
	r->ackreq = bth_ack_requested(&r->first);
	while (r->n < most && joins(r, &v[r->n]))
		;
	if (r->n < n && is_belated(&v[r->n - 1], &v[r->n]))
		r->n--;
	return r->n > 1;
}

/* Returns how many packets of the run were taken in; the QP may fail at any of them. */
static unsigned take_run(struct ib_qp *q, struct ib_pkt *pkt, const struct run *r,
			 uint64_t now) REQUIRES(q->qp->lock)
{
	const uint32_t psn = pkt->f.psn;
	unsigned n;

	if (!qp_receives(q->qp) || qp_hears(q->qp, pkt->f.pkey) < 0 ||
	    q->qp->type == IBV_QPT_UD || !from_peer(q->qp, r->v))
		return 0;
	pkt->f.ackreq = r->ackreq;
	n = q->service == IB_RC && pkt->op->kind == IB_WRITE
		    ? rc_write_run(q, pkt, r->v, r->n, now)
		    : 0;
	for (; n < r->n && qp_receives(q->qp); n++) {
		pkt->f.psn = psn_add(psn, n);
		pkt->payload =
			(const uint8_t *)r->v[n].iov[0].iov_base + sizeof(struct bth);
		connected(q, r->v, pkt, now);
	}
	ib_settle(q);
	return n;
}

/* Takes in the run that v begins with, of *all packets. Returns how many were taken in;
 * the others of them are for ib_input(), and need not be looked at again. */
static unsigned input_run(struct core *core, const struct dgram *v, unsigned n,
			  uint64_t now, unsigned *all)
{
	struct ib_pkt pkt;
	struct run r;
	struct qp *qp;

	*all = 1;
	if (!find_run(&r, v, n))
		return 0;
	*all = r.n;
	/* Packets with pad are left to ib_input(), too. */
	if (ib_parse(&pkt, &r.first, sizeof(r.first)) != 0)
		return 0;
	pkt.payload = (const uint8_t *)v->iov[0].iov_base + sizeof(r.first);
	pkt.payload_len = v->len - sizeof(r.first);
	turn_is_held(core);
	qp = qp_find(core, get_be24(r.first.dest_qp));
	if (!qp || qp->transport != &ib_transport)
		return 0;
	lock_take(&qp->lock);
	qp_is_held(ib_qp(qp)->qp);
	n = take_run(ib_qp(qp), &pkt, &r, now);
	lock_give(&qp->lock);
	count_for(qp, n, v->len);
	return n;
}

void ib_input_all(struct core *core, const struct dgram *v, unsigned n, uint64_t now)
{
	unsigned looked = 0; /* at so many packets for a run */

	for (unsigned i = 0; i < n; i++) {
		unsigned taken = 0, all;
		bool belated;

		if (i >= looked) {
			taken = input_run(core, v + i, n - i, now, &all);
			looked = i + all;
		}
		belated = !taken && i + 1 < n && is_belated(&v[i], &v[i + 1]);
		if (taken) {
			i += taken - 1;
			continue;
		}

		if (belated) {
			ib_of(core)->belated = true;
			ib_input(core, &v[i + 1], now);
			ib_of(core)->belated = false;
		}
		ib_input(core, &v[i], now);
		i += belated;
	}
}
