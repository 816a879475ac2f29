/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams that are not for this port, or damaged, are dropped and counted. */
#include "ib/fix.h"
#include "verbs/device.h"

#include "sys/log_testing.h"
#include "verbs/gsi.h"
#include "wire/grh.h"

static struct ib_fields send_only(const struct fix *f)
{
	return (struct ib_fields){
		.opcode = ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_NONE),
		.pkey = 0xffff,
		.migreq = true,
		.dest_qp = f->p.qp[1]->qpn,
	};
}

static uint64_t counter(const struct fix *f, enum ib_counter c)
{
	return ib_counter(&f->s->node[1].core, c);
}

/* A one-byte SEND. */
static void make(const struct fix *f, const struct ib_fields *p, struct fix_raw *r)
{
	size_t n;

	memset(r, 0, sizeof(*r));
	n = ib_build(r->buf, p) + 4;
	r->buf[1] |= 3 << 4; /* one byte, three of pad */
	fix_address(f, 0, n, r);
}

static void input(const struct fix *f, const struct fix_raw *r)
{
	struct core *core = &f->s->node[1].core;

	turn_take(&core->turn);
	ib_input(core, &r->d, f->s->now);
	turn_give(&core->turn);
}

/* An RNR NAK is due; before it goes out a receive is posted and the message comes
 * again. */
static void rnr_is_withdrawn(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = send_only(f);
	struct fix_raw r;

	(void)state;
	p.ackreq = true;
	make(f, &p, &r);
	input(f, &r);
	fix_recv(f, 1, 0, 10);
	input(f, &r);
	fix_quiet(f);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	assert_int_equal(f->n, 1);
	assert_int_equal(fix_saw(f, 0, 1, "ACK", 0)->f.syndrome, 0x1f);
	fix_close(f);
}

static void what_is_damaged_is_dropped(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = send_only(f);
	struct fix_raw r;

	(void)state;
	fix_recv(f, 1, 0, 10);
	make(f, &p, &r);
	r.d.damaged = true;
	input(f, &r);
	r.buf[0] = 0x1f; /* a reserved opcode: no NAK either */
	input(f, &r);
	fix_quiet(f);
	fix_no_wc(f, 1);
	assert_int_equal(f->n, 0);
	assert_int_equal(counter(f, IB_RX_ICRC), 1);
	assert_int_equal(counter(f, IB_RX_MALFORMED), 1);
	fix_close(f);
}

static void wrong_addresses(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = send_only(f);

	(void)state;
	fix_recv(f, 1, 0, 10);
	fix_path(f, 1)->to.ip[15] = 77; /* connected to another address */
	sim_inject(f->s, 0, &p, NULL, 0);
	fix_quiet(f);
	assert_int_equal(counter(f, IB_RX_NO_ADDR), 1);
	fix_path(f, 1)->to.ip[15] = 1;
	fix_path(f, 1)->from.ip[15] = 77; /* the QP sends from another address */
	sim_inject(f->s, 0, &p, NULL, 0);
	fix_quiet(f);
	assert_int_equal(counter(f, IB_RX_NO_ADDR), 2);
	fix_no_wc(f, 1);
	fix_close(f);
}

static void wrong_numbers(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = send_only(f);

	(void)state;
	fix_recv(f, 1, 0, 10);
	p.dest_qp = f->p.qp[1]->qpn + 1;
	sim_inject(f->s, 0, &p, NULL, 0);
	p.dest_qp = f->p.qp[0]->qpn; /* of the other slot */
	sim_inject(f->s, 0, &p, NULL, 0);
	p = send_only(f);
	p.opcode = ib_opcode(IB_UC, IB_SEND, IB_ONLY, IB_NONE);
	sim_inject(f->s, 0, &p, NULL, 0);
	fix_quiet(f);
	assert_int_equal(counter(f, IB_RX_NO_QP), 3);
	p = send_only(f);
	p.pkey = 0x8001;
	sim_inject(f->s, 0, &p, NULL, 0);
	fix_quiet(f);
	assert_int_equal(counter(f, IB_RX_PKEY), 1);
	assert_int_equal(f->p.qp[1]->dev->pkey_violations, 1);
	p.pkey = 0x7fff; /* a limited member is allowed */
	sim_inject(f->s, 0, &p, NULL, 0);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* What the log says of this packet; "" or one line. */
static const char *said(struct fix *f, const struct ib_fields *p)
{
	static char text[2048];

	LOGGED(text, "info", sim_inject(f->s, 0, p, NULL, 0); fix_quiet(f));
	assert_true(!*text || strchr(text, '\n') == text + strlen(text) - 1);
	return text;
}

/* ... after a second in which nothing was said. */
static const char *said_later(struct fix *f, const struct ib_fields *p)
{
	ib_of(&f->s->node[1].core)->told_at = 0;
	return said(f, p);
}

/* Each reason once for a QP, and one line a second. */
static void what_is_dropped_is_told_once(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = send_only(f);

	(void)state;
	fix_recv(f, 1, 0, 10);
	p.pkey = 0x8001;
	assert_non_null(strstr(said(f, &p), "SEND_ONLY for QP 0x"));
	assert_string_equal(said(f, &p), "");
	assert_string_equal(said_later(f, &p), "");
	p = send_only(f);
	p.opcode = ib_opcode(IB_UC, IB_SEND, IB_ONLY, IB_NONE);
	assert_non_null(strstr(said_later(f, &p), "the QP is of another type"));
	p = send_only(f);
	fix_path(f, 1)->to.ip[15] = 77;
	assert_string_equal(said(f, &p), "");
	assert_non_null(strstr(said_later(f, &p), " from 10.0.0.1, PSN 0, dropped: "));
	fix_path(f, 1)->to.ip[15] = 1;
	p.dest_qp++;
	assert_non_null(strstr(said_later(f, &p), "this process has no such QP"));
	assert_string_equal(said(f, &p), "");
	assert_non_null(strstr(said_later(f, &p), "this process has no such QP"));
	p.opcode = ib_opcode(IB_RC, IB_ACK, IB_ONLY, IB_NONE);
	assert_string_equal(said_later(f, &p), ""); /* late answers are normal */
	fix_no_wc(f, 1);
	fix_close(f);
}

/* The peer begins with another PSN. That the first packets are lost is another matter. */
static void another_first_psn_is_told(void **state)
{
	(void)state;
	for (int older = 0; older <= 1; older++) {
		struct fix *f = fix_open(IBV_QPT_RC, NULL);
		struct ib_fields p = send_only(f);

		fix_recv(f, 1, 0, 10);
		p.psn = psn_add(f->p.qp[1]->attr.rq_psn, older ? PSN_MASK : 7);
		if (!older) {
			assert_string_equal(said(f, &p), "");
			p.psn++;
			assert_string_equal(said(f, &p), "");
			p.psn--;
		}
		assert_non_null(strstr(said(f, &p), "must be this QP's rq_psn"));
		assert_string_equal(said_later(f, &p), "");
		p.psn = f->p.qp[1]->attr.rq_psn;
		assert_string_equal(said_later(f, &p), "");
		fix_wc(f, 1, 1, IBV_WC_SUCCESS);
		fix_close(f);
	}
}

/* The P_Key is the one that the port now has at the QP's pkey_index. */
static void partitions(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct device *a = f->p.qp[0]->dev, *b = f->p.qp[1]->dev;

	(void)state;
	a->pkey[0] = 0x8005;
	b->pkey[0] = 0x0005; /* a limited member */
	fix_recv(f, 1, 0, 100);
	fix_post(f, IBV_WR_SEND, 2, 0, 10, 0);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	assert_int_equal(fix_saw(f, 0, 0, "SEND_ONLY", 0)->f.pkey, 0x8005);
	assert_int_equal(fix_saw(f, 1, 1, "ACK", 0)->f.pkey, 0x0005);
	a->pkey[0] = 0x0005; /* two limited members do not match */
	fix_recv(f, 3, 0, 100);
	fix_post(f, IBV_WR_SEND, 4, 0, 10, 0);
	fix_wc(f, 0, 4, IBV_WC_RETRY_EXC_ERR);
	fix_no_wc(f, 1);
	assert_true(b->pkey_violations > 7);
	fix_close(f);
}

/* 9.7.4.1.4: NAKed with the expected PSN; otherwise dropped. */
static void reserved_opcode(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = send_only(f);
	struct fix_raw r;

	(void)state;
	for (int i = 0; i < 2; i++) {
		p.psn = !i; /* the second is expected */
		make(f, &p, &r);
		r.buf[0] = 0x1f;
		fix_address(f, 0, 16, &r);
		input(f, &r);
		fix_quiet(f);
		assert_int_equal(counter(f, IB_RX_MALFORMED), i + 1);
		assert_int_equal(f->n, i);
	}
	assert_int_equal(fix_saw(f, 0, 1, "ACK", 0)->f.syndrome, 0x61);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(sim_event(f->s, 1), IBV_EVENT_QP_REQ_ERR);
	fix_close(f);
}

static void whole_words(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = send_only(f);
	struct fix_raw r;

	(void)state;
	fix_recv(f, 1, 0, 10);
	make(f, &p, &r);
	fix_address(f, 0, 15, &r); /* one byte less than its pad says */
	input(f, &r);
	assert_int_equal(counter(f, IB_RX_MALFORMED), 1);
	fix_address(f, 0, 16, &r);
	input(f, &r);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

static void wrong_state(void **state)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_INIT,
						    IBV_QPS_ERR };
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = send_only(f);

	(void)state;
	fix_recv(f, 1, 0, 10);
	for (unsigned i = 0; i < 3; i++) {
		f->p.qp[1]->state = states[i];
		sim_inject(f->s, 0, &p, NULL, 0);
		fix_quiet(f);
		assert_int_equal(counter(f, IB_RX_STATE), i + 1);
	}
	f->p.qp[1]->state = IBV_QPS_RTS;
	fix_no_wc(f, 1);
	fix_close(f);
}

static void rubbish(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct fix_raw r;

	(void)state;
	for (unsigned len = 0; len < 64; len++) {
		memset(&r, 0xff, sizeof(r));
		memset(&r.d, 0, sizeof(r.d));
		r.iov = (struct iovec){ r.buf, len };
		r.d.iov = &r.iov;
		r.d.iovcnt = 1;
		r.d.len = len;
		input(f, &r);
	}
	assert_int_equal(counter(f, IB_RX_MALFORMED), 64);
	fix_close(f);
}

static unsigned mads;

static void take_mad(struct gsi *g, const struct gsi_mad *m, uint64_t now)
{
	uint8_t src[16], dst[16];

	(void)g;
	(void)now;
	assert_int_equal(m->len, 1);
	assert_int_equal(m->port, 7);
	grh_ends(m->head, src, dst);
	assert_int_equal(src[15], 1);
	assert_int_equal(dst[15], 2);
	mads++;
}

static void mads_for_qp1(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = {
		.opcode = ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_NONE),
		.pkey = 0xffff,
		.migreq = true,
		.dest_qp = 1,
		.src_qp = 1,
		.qkey = 0x80010000,
	};
	struct sim_node *n = &f->s->node[1];
	struct gsi other = { .link = f->s->node[0].link, .take = take_mad };
	struct gsi g = { .link = n->link, .take = take_mad };
	struct fix_raw r;

	(void)state;
	make(f, &p, &r);
	ip_of(&r.d)->ifindex = 7;
	input(f, &r); /* no QP1 takes them */
	assert_int_equal(counter(f, IB_RX_NO_QP), 1);
	list_add_tail(&n->core.gsis, &other.node);
	input(f, &r); /* of another link */
	assert_int_equal(counter(f, IB_RX_NO_QP), 2);
	list_add_tail(&n->core.gsis, &g.node);
	for (unsigned i = 1; i <= 3; i++) {
		input(f, &r);
		assert_int_equal(mads, i);
	}
	p.qkey = 0x80010001;
	make(f, &p, &r);
	input(f, &r);
	assert_int_equal(counter(f, IB_RX_QKEY), 1);
	p.opcode = ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_IMM);
	p.qkey = 0x80010000;
	make(f, &p, &r);
	input(f, &r);
	p.opcode = ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_NONE);
	make(f, &p, &r);
	input(f, &r);
	assert_int_equal(counter(f, IB_RX_NO_QP), 4);
	assert_int_equal(mads, 3);
	list_del(&g.node);
	list_del(&other.node);
	fix_close(f);
}

/* A link at whose port packets arrive for `dest`. */
static struct link_dest played_dest;

static void played_to(const struct link_addr *addr, struct link_dest *out)
{
	(void)addr;
	*out = played_dest;
}

static void played_head(const struct dgram *d, struct link_head *out)
{
	(void)d;
	*out = (struct link_head){ .slid = 4 };
}

static const struct link_ops played_ops = { .dest = played_to, .head = played_head };
static struct link played = { .ops = &played_ops };

static size_t mad_len;

static void take_played(struct gsi *g, const struct gsi_mad *m, uint64_t now)
{
	(void)g;
	(void)now;
	assert_int_equal(m->slid, 4);
	mad_len = m->len;
}

/* Gives QP1 of that node a MAD of len bytes. */
static void give_mad(struct core *core, size_t len, uint32_t qkey)
{
	const struct ib_fields p = {
		.opcode = ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_NONE),
		.pkey = 0xffff,
		.dest_qp = 1,
		.src_qp = 1,
		.qkey = qkey,
	};
	uint8_t packet[400] = { 0 };
	struct dgram d = { .link = &played, .iovcnt = 1, .iov = &d.one };

	d.len = (uint32_t)(ib_build(packet, &p) + len);
	d.one = (struct iovec){ packet, d.len };
	turn_take(&core->turn);
	ib_input(core, &d, 1000);
	turn_give(&core->turn);
}

/* A MAD has 256 bytes at most, and comes to a LID of the port, not to a group. */
static void mads_that_qp1_does_not_take(void **state)
{
	const struct port port = { .pkeys = 1,
				   .pkey = { PKEY_DEFAULT },
				   .lid = 8,
				   .link_layer = IBV_LINK_LAYER_INFINIBAND };
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct core *core = &f->s->node[1].core;
	struct device dev = { .kind = &device_ib };
	struct gsi g = { .link = &played, .dev = &dev, .take = take_played };

	(void)state;
	device_init_port(&dev, &port);
	list_add_tail(&core->gsis, &g.node);
	played_dest = (struct link_dest){ .lid = 8 };
	give_mad(core, GSI_MAD, QKEY_GSI);
	assert_int_equal(mad_len, GSI_MAD);
	mad_len = 0;
	give_mad(core, GSI_MAD + 4, QKEY_GSI);
	assert_int_equal(counter(f, IB_RX_UD_DROPPED), 1);
	give_mad(core, GSI_MAD, QKEY_GSI + 1);
	assert_int_equal(counter(f, IB_RX_QKEY), 1);
	assert_int_equal(dev.qkey_violations, 1);
	assert_int_equal(dev.pkey_violations, 0);
	played_dest.lid = 9;
	give_mad(core, GSI_MAD, QKEY_GSI);
	assert_int_equal(counter(f, IB_RX_NO_ADDR), 1);
	played_dest = (struct link_dest){ .lid = 8, .group = true };
	give_mad(core, GSI_MAD, QKEY_GSI);
	assert_int_equal(counter(f, IB_RX_NO_ADDR), 2);
	assert_int_equal(mad_len, 0);
	list_del(&g.node);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mads_for_qp1),
		cmocka_unit_test(mads_that_qp1_does_not_take),
		cmocka_unit_test(rnr_is_withdrawn),
		cmocka_unit_test(what_is_damaged_is_dropped),
		cmocka_unit_test(wrong_addresses),
		cmocka_unit_test(wrong_numbers),
		cmocka_unit_test(what_is_dropped_is_told_once),
		cmocka_unit_test(another_first_psn_is_told),
		cmocka_unit_test(partitions),
		cmocka_unit_test(reserved_opcode),
		cmocka_unit_test(whole_words),
		cmocka_unit_test(wrong_state),
		cmocka_unit_test(rubbish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
