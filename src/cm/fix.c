/* SPDX-License-Identifier: BSD-2-Clause */
#include "cm/fix.h"

#include "ib/ib.h"
#include "net/ip_addr.h"
#include "net/link.h"
#include "wire/ib_opcode.h"
#include "wire/ib_pkt.h"

void fix_ip(int side, uint8_t ip[16])
{
	memset(ip, 0, 16);
	ip[10] = ip[11] = 0xff;
	ip[12] = 10;
	ip[15] = (uint8_t)(1 + side);
}

static size_t on_refused(struct core *core, uint8_t ip[16], void *quote, size_t max)
{
	int side = core->slot - FIX_SLOT;
	struct fix *f = container_of(core - side, struct fix, core[0]);
	struct refusal *r = f->refusal[side];

	if (f->refusals[side] == 0)
		return 0;
	assert_true(max >= GSI_PACKET);
	memcpy(ip, r->ip, 16);
	memcpy(quote, r->quote, GSI_PACKET);
	memmove(r, r + 1, --f->refusals[side] * sizeof(*r));
	return GSI_PACKET;
}

static const struct fix *last_fix;

static bool on_same_host(const uint8_t ip[16])
{
	(void)ip;
	return last_fix->one_host;
}

static uint8_t on_mtu(struct core *core, const uint8_t ip[16], uint32_t ifindex)
{
	(void)ip;
	(void)ifindex;
	return last_fix->mtu[core->slot - FIX_SLOT];
}

static const struct cm_site site = {
	.same_host = on_same_host,
	.refused = on_refused,
	.mtu = on_mtu,
};

struct fix *fix_open(uint64_t seed)
{
	struct fix *f = calloc(1, sizeof(*f));

	assert_non_null(f);
	last_fix = f;
	f->lose = f->repeat = -1;
	f->delay = 100000;
	f->hold = FIX_MS;
	f->now = FIX_S;
	rand_seed(&f->rng, seed);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(core_init(&f->core[i], (uint16_t)(FIX_SLOT + i)), 0);
		assert_int_equal(ib_open(&f->core[i], 1), 0);
		assert_int_equal(cm_open(&f->cm[i], &f->core[i], NULL, &site,
					 seed + (uint64_t)i),
				 0);
		assert_int_equal(cm_use_link(f->cm[i], NULL, &fix_wire, 4791), 0);
	}
	return f;
}

void fix_close(struct fix *f)
{
	fix_run(f, 200 * FIX_S);
	for (int i = 0; i < 2; i++) {
		struct cm *cm = fix_cm(f, i);

		assert_int_equal(cm->free_n, cm->used);
		assert_int_equal(cm_deadline(cm), NEVER);
		assert_true(list_empty(&cm->listeners));
		assert_int_equal(cm->reserved, 0);
		cm_close(f->cm[i]);
		ib_close(&f->core[i]);
		core_fini(&f->core[i]);
	}
	free(f);
}

/* --- the network --------------------------------------------------------- */

static void fly(struct fix *f, int to, const struct dgram *d)
{
	struct flight *x = &f->flight[f->n];

	assert_true(f->n < FIX_FLIGHT);
	x->at = f->now + f->delay + (f->jitter ? rand_below(&f->rng, f->jitter) : 0);
	x->to = to;
	memcpy(x->src, ip_of(d)->from.ip, 16);
	memcpy(x->dst, ip_of(d)->to.ip, 16);
	memcpy(x->packet, d->iov[0].iov_base, GSI_PACKET);
	f->n++;
}

/* Checks that a packet is whole, and from QP1 to QP1. */
static const uint8_t *open_packet(const struct dgram *d)
{
	const uint8_t *at = d->iov[0].iov_base;
	struct ib_pkt pkt;

	assert_int_equal(d->iovcnt, 1);
	assert_int_equal(ib_parse(&pkt, at, d->len - TRAILER_LEN), 0);
	assert_int_equal(pkt.f.dest_qp, QP_GSI);
	assert_int_equal(pkt.f.src_qp, QP_GSI);
	assert_int_equal(pkt.f.qkey, QKEY_GSI);
	assert_int_equal(pkt.payload_len, MAD_LEN);
	return pkt.payload;
}

static void put_out(struct fix *f, int side, const struct dgram *d)
{
	struct cm_msg m;
	int n = (int)f->sent++;

	memcpy(f->last[side], d->iov[0].iov_base, GSI_PACKET);
	assert_int_equal(cm_mad_parse(&m, open_packet(d), MAD_LEN), 0);
	f->sent_type[m.type]++;
	if (f->cut || n == f->lose || rand_chance(&f->rng, f->loss))
		return;
	fly(f, !side, d);
	if (n == f->repeat || rand_chance(&f->rng, f->again))
		fly(f, !side, d);
}

/* The packets that the link has taken; fix NULL: they are only counted. */
static struct {
	struct fix *fix;
	int side;
	unsigned n;
} out;

static int wire_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	(void)link;
	(void)now;
	for (unsigned i = 0; i < n && out.fix; i++)
		put_out(out.fix, out.side, &v[i]);
	out.n += n;
	return (int)n;
}

static const struct link_ops wire_ops = {
	.send = wire_send,
	.resolve = ip_resolve,
	.is_from = ip_is_from,
	.dest = ip_dest,
	.head = ip_head,
};
struct link fix_wire = { .ops = &wire_ops, .run_max = 1 };

unsigned fix_output(struct cm *cm)
{
	out.fix = NULL;
	out.n = 0;
	qp1_run(cm->net, 0);
	return out.n;
}

static void take_out(struct fix *f, int side)
{
	out.fix = f;
	out.side = side;
	cm_run(f->cm[side], f->now);
	out.fix = NULL;
}

/* Delivers a packet as a link does, from BTH to pad. */
static void arrive(struct core *core, const uint8_t src[16], const uint8_t dst[16],
		   uint8_t *packet, uint64_t now)
{
	struct dgram d = {
		.link = &fix_wire, .ip_id = -1, .len = GSI_HDRS + MAD_LEN, .iovcnt = 1
	};

	d.one = (struct iovec){ packet, d.len };
	d.iov = &d.one;
	memcpy(ip_of(&d)->from.ip, src, 16);
	memcpy(ip_of(&d)->to.ip, dst, 16);
	ib_input(core, &d, now);
}

void fix_raw_mad(struct core *core, const uint8_t src[16], const uint8_t dst[16],
		 const uint8_t mad[MAD_LEN], uint64_t now)
{
	const struct ib_fields p = {
		.opcode = ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_NONE),
		.migreq = true,
		.pkey = PKEY_DEFAULT,
		.dest_qp = QP_GSI,
		.src_qp = QP_GSI,
		.qkey = QKEY_GSI,
	};
	uint8_t packet[GSI_PACKET] = { 0 };

	assert_int_equal(ib_build(packet, &p), GSI_HDRS);
	memcpy(packet + GSI_HDRS, mad, MAD_LEN);
	arrive(core, src, dst, packet, now);
}

void fix_mad(struct fix *f, int to, uint8_t from, const struct cm_msg *m)
{
	uint8_t src[16], dst[16], mad[MAD_LEN];

	fix_ip(!to, src);
	fix_ip(to, dst);
	src[15] = from;
	cm_mad_build(mad, m);
	fix_raw_mad(&f->core[to], src, dst, mad, f->now);
}

static void note_refusal(struct fix *f, const struct flight *x)
{
	struct refusal *r = &f->refusal[!x->to][f->refusals[!x->to]];

	if (f->refusals[!x->to] == FIX_REFUSALS)
		return;
	f->refusals[!x->to]++;
	memcpy(r->ip, x->dst, 16);
	memcpy(r->quote, x->packet, GSI_PACKET);
}

static void land(struct fix *f, unsigned i)
{
	struct flight x = f->flight[i];

	f->n--;
	memmove(&f->flight[i], &f->flight[i + 1], (f->n - i) * sizeof(struct flight));
	if (f->dead[x.to] || (f->dead_host && x.dst[15] == f->dead_host)) {
		note_refusal(f, &x);
		return;
	}
	arrive(&f->core[x.to], x.src, x.dst, x.packet, f->now);
}

static uint64_t next_time(const struct fix *f, unsigned *first)
{
	uint64_t at = NEVER;

	*first = f->n;
	for (unsigned i = 0; i < f->n; i++) {
		if (f->flight[i].at >= at)
			continue;
		at = f->flight[i].at;
		*first = i;
	}
	for (int i = 0; i < 2; i++) {
		uint64_t t = cm_deadline(f->cm[i]);

		if (t < at) {
			at = t;
			*first = f->n;
		}
	}
	return at;
}

void fix_run(struct fix *f, uint64_t ns)
{
	uint64_t end = f->now + ns, at;
	unsigned first;

	for (;;) {
		take_out(f, 0);
		take_out(f, 1);
		at = next_time(f, &first);
		if (at > end)
			break;
		if (at > f->now)
			f->now = at;
		if (first < f->n)
			land(f, first);
	}
	f->now = end;
}

/* --- programs ------------------------------------------------------------ */

static bool on_event(struct cm_owner *owner, const struct cm_event *ev)
{
	struct prog *p = (struct prog *)owner;
	struct note *n = &p->note[p->n];

	if (p->deaf)
		return false;
	assert_true(p->n < FIX_EVENTS);
	p->n++;
	n->type = ev->type;
	n->status = ev->status;
	n->conn = ev->conn;
	if (ev->from)
		n->from = *ev->from;
	if (ev->peer) {
		n->peer = *ev->peer;
		memcpy(n->private, ev->peer->private, ev->peer->private_len);
	}
	return true;
}

struct prog *prog_new(struct fix *f, int side)
{
	struct prog *p = calloc(1, sizeof(*p));

	assert_non_null(p);
	p->owner.event = on_event;
	p->f = f;
	p->side = side;
	return p;
}

void prog_free(struct prog *p)
{
	if (p->conn)
		p->conn->proto->close(p->conn, p->f->now);
	free(p);
}

struct cm_listener *fix_listen(struct prog *p, uint16_t space, int backlog)
{
	struct cm_service s = { .space = space, .port = FIX_PORT, .any = true };
	struct cm *cm = fix_cm(p->f, p->side);
	struct cm_listener *l;

	assert_int_equal(cm_bind(cm, &s, &l), 0);
	assert_int_equal(cm_listen(cm, l, backlog, space == FIX_UDP, &p->owner), 0);
	return l;
}

void fix_target(struct cm_target *to, int side, uint16_t space)
{
	*to = (struct cm_target){ .space = space,
				  .src_port = 999,
				  .dst_port = FIX_PORT,
				  .mtu = 3,
				  .datagram = space == FIX_UDP };
	fix_ip(side, to->route.src);
	fix_ip(!side, to->route.dst);
	fix_ip(side, to->src_ip);
	fix_ip(!side, to->dst_ip);
}

void fix_connect_as(struct prog *p, enum cm_service_type type, uint16_t space,
		    uint32_t qpn, const char *private)
{
	struct cm_param self = {
		.qpn = qpn,
		.service_type = (uint8_t)type,
		.psn = 0x111111,
		.resources = 4,
		.depth = 3,
		.retry_count = 6,
		.rnr_retry = 5,
		.ack_timeout = 19,
		.ca_guid = 77,
		.private = private,
		.private_len = private ? strlen(private) : 0,
	};
	struct cm_target to;

	fix_target(&to, p->side, space);
	assert_int_equal(cm_ib_proto.connect(fix_cm(p->f, p->side), &to, &self, &p->owner,
					     &p->conn, p->f->now),
			 0);
}

void fix_connect(struct prog *p, uint16_t space, uint32_t qpn, const char *private)
{
	fix_connect_as(p, CM_RC, space, qpn, private);
}

void fix_take(struct prog *p, const struct prog *l, unsigned n)
{
	assert_true(n < l->n);
	assert_int_equal(l->note[n].type, CM_EV_REQUEST);
	p->conn = l->note[n].conn;
	cm_taken(fix_cm(p->f, p->side), p->conn);
}

void fix_accept(struct prog *p, uint32_t qpn, const char *private)
{
	struct cm_param self = {
		.qpn = qpn,
		.qkey = 0x1234,
		.psn = 0x222222,
		.resources = 2,
		.depth = 1,
		.rnr_retry = 7,
		.ca_guid = 78,
		.private = private,
		.private_len = private ? strlen(private) : 0,
	};

	assert_int_equal(cm_accept(p->conn, &self, &p->owner, p->f->now), 0);
}

int fix_established(struct prog *p)
{
	return p->conn->proto->established(p->conn, p->f->now);
}

int fix_disconnect(struct prog *p)
{
	return p->conn->proto->disconnect(p->conn, p->f->now);
}

const struct note *fix_told(const struct prog *p, unsigned n, enum cm_event_type type,
			    int status)
{
	assert_true(n < p->n);
	assert_int_equal(p->note[n].type, type);
	assert_int_equal(p->note[n].status, status);
	return &p->note[n];
}

/* --- a pair -------------------------------------------------------------- */

struct pair pair_open(struct fix *f)
{
	struct pair p = { prog_new(f, 1), prog_new(f, 0), prog_new(f, 1), NULL };

	p.listener = fix_listen(p.l, FIX_SPACE, 4);
	fix_connect(p.a, FIX_SPACE, 0xa00001, "ask");
	return p;
}

struct pair pair_accepted(struct fix *f)
{
	struct pair p = pair_open(f);

	fix_run(f, FIX_MS);
	fix_take(p.b, p.l, 0);
	fix_accept(p.b, 2, NULL);
	return p;
}

void pair_connect(struct fix *f, struct pair *p)
{
	fix_run(f, f->hold);
	fix_take(p->b, p->l, 0);
	fix_accept(p->b, 0xb00001, "yes");
	fix_run(f, f->hold);
	fix_told(p->a, 0, CM_EV_RESPONSE, 0);
	assert_int_equal(fix_established(p->a), 0);
	fix_run(f, f->hold);
	fix_told(p->b, 0, CM_EV_ESTABLISHED, 0);
}

void pair_close(struct pair *p)
{
	cm_unbind(fix_cm(p->l->f, 1), p->listener);
	prog_free(p->l);
	prog_free(p->a);
	prog_free(p->b);
}
