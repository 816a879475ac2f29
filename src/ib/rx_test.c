/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams that are not for us, or not whole, are dropped and counted. */
#include "core/device.h"
#include "ib/fix.h"

static struct ib_fields send_only(const struct fix *f)
{
	return (struct ib_fields){
		.opcode = ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_NONE),
		.pkey = 0xffff, .migreq = true, .dest_qp = f->p.qp[1]->qpn,
	};
}

static uint64_t counter(const struct fix *f, enum ib_counter c)
{
	return ib_counter(&f->s->node[1].core, c);
}

/* A one-byte SEND with this identification. */
static void make(const struct fix *f, const struct ib_fields *p, int ip_id,
		 struct fix_raw *r)
{
	size_t n;

	memset(r, 0, sizeof(*r));
	n = ib_build(r->buf, p) + 4;
	r->buf[1] |= 3 << 4;			/* one byte, three of pad */
	fix_seal(f, 0, ip_id, n, r);
}

static void input(const struct fix *f, const struct fix_raw *r)
{
	struct core *core = &f->s->node[1].core;

	turn_take(&core->turn);
	ib_input(core, &r->d, f->s->now);
	turn_give(&core->turn);
}

static void identification_is_solved_for(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = send_only(f);
	struct fix_raw r;

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		fix_recv(f, i, 0, 10);
	make(f, &p, 4711, &r);			/* the first is believed */
	input(f, &r);
	p.psn = 1;
	make(f, &p, 4720, &r);
	input(f, &r);
	fix_wc(f, 1, 0, IBV_WC_SUCCESS);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	p.psn = 2;
	make(f, &p, 40000, &r);			/* far away */
	input(f, &r);
	assert_int_equal(counter(f, IB_RX_ICRC), 1);
	make(f, &p, 4725, &r);
	r.d.ip_id_exact = true;			/* it was 0, the link says */
	input(f, &r);
	assert_int_equal(counter(f, IB_RX_ICRC), 2);
	r.d.ip_id = 4725;
	input(f, &r);
	fix_wc(f, 1, 2, IBV_WC_SUCCESS);
	p.psn = 3;
	make(f, &p, 4730, &r);			/* the link guessed wrong */
	r.d.ip_id = 0x3000;
	r.d.ip_id_exact = false;
	input(f, &r);
	fix_wc(f, 1, 3, IBV_WC_SUCCESS);
	fix_close(f);
}

/* RNR, and before that was told there is a receive and the message again. */
static void rnr_is_withdrawn(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = send_only(f);
	struct fix_raw r;

	(void)state;
	p.ackreq = true;
	make(f, &p, 0, &r);
	input(f, &r);
	fix_recv(f, 1, 0, 10);
	input(f, &r);
	fix_quiet(f);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	assert_int_equal(f->n, 1);
	assert_int_equal(fix_saw(f, 0, 1, "ACK", 0)->f.syndrome, 0x1f);
	fix_close(f);
}

static void every_byte_counts(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = send_only(f);
	struct fix_raw r;

	(void)state;
	fix_recv(f, 1, 0, 10);
	make(f, &p, 0, &r);
	for (unsigned i = 0; i < r.d.len; i++) {
		for (unsigned bit = 1; bit < 256; bit <<= 1) {
			if (i == 4)		/* FECN, BECN: routers may */
				continue;
			make(f, &p, 0, &r);
			r.buf[i] ^= (uint8_t)bit;
			r.d.ip_id_exact = true;
			input(f, &r);
		}
	}
	fix_no_wc(f, 1);
	assert_int_equal(counter(f, IB_RX_ICRC) + counter(f, IB_RX_MALFORMED),
			 counter(f, IB_RX));
	fix_close(f);
}

static void wrong_addresses(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = send_only(f);

	(void)state;
	fix_recv(f, 1, 0, 10);
	f->p.qp[1]->av.dgid[15] = 77;		/* connected to somebody else */
	sim_inject(f->s, 0, &p, NULL, 0);
	fix_quiet(f);
	assert_int_equal(counter(f, IB_RX_NO_ADDR), 1);
	f->p.qp[1]->av.dgid[15] = 1;
	f->p.qp[1]->av.sgid[15] = 77;		/* from another address of ours */
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
	p.dest_qp = f->p.qp[0]->qpn;		/* another slot's */
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
	p.pkey = 0x7fff;			/* a limited member may */
	sim_inject(f->s, 0, &p, NULL, 0);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* 9.7.4.1.4: where a request is expected; elsewhere it is dropped. */
static void reserved_opcode(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = send_only(f);
	struct fix_raw r;

	(void)state;
	for (int i = 0; i < 2; i++) {
		p.psn = !i;			/* the second is expected */
		make(f, &p, 0, &r);
		r.buf[0] = 0x1f;
		fix_seal(f, 0, 0, 16, &r);
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
	make(f, &p, 0, &r);
	fix_seal(f, 0, 0, 15, &r);		/* one byte of pad less than it says */
	input(f, &r);
	assert_int_equal(counter(f, IB_RX_MALFORMED), 1);
	fix_seal(f, 0, 0, 16, &r);
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

static void take_mad(struct core *core, const struct dgram *d, const uint8_t *mad,
		     size_t len, uint64_t now)
{
	(void)core;
	(void)now;
	assert_int_equal(len, 1);
	assert_ptr_equal(mad, (uint8_t *)d->iov[0].iov_base + 20);
	mads++;
}

static void mads_for_qp1(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = {
		.opcode = ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_NONE), .pkey = 0xffff,
		.migreq = true, .dest_qp = 1, .src_qp = 1, .qkey = 0x80010000,
	};
	struct fix_raw r;

	(void)state;
	make(f, &p, 0, &r);
	input(f, &r);				/* nobody takes them */
	assert_int_equal(counter(f, IB_RX_NO_QP), 1);
	f->s->node[1].core.gsi = take_mad;
	input(f, &r);
	assert_int_equal(mads, 1);
	p.qkey = 0x80010001;
	make(f, &p, 0, &r);
	input(f, &r);
	assert_int_equal(counter(f, IB_RX_QKEY), 1);
	p.opcode = ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_IMM);
	p.qkey = 0x80010000;
	make(f, &p, 0, &r);
	input(f, &r);
	p.opcode = ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_NONE);
	make(f, &p, 0, &r);
	input(f, &r);
	assert_int_equal(counter(f, IB_RX_NO_QP), 3);
	assert_int_equal(mads, 1);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(mads_for_qp1),
		cmocka_unit_test(identification_is_solved_for),
		cmocka_unit_test(rnr_is_withdrawn),
		cmocka_unit_test(every_byte_counts),
		cmocka_unit_test(wrong_addresses),
		cmocka_unit_test(wrong_numbers),
		cmocka_unit_test(reserved_opcode),
		cmocka_unit_test(whole_words),
		cmocka_unit_test(wrong_state),
		cmocka_unit_test(rubbish),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
