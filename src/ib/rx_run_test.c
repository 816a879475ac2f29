/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets from the middle of a message, or small SENDs, that arrive together are taken in
 * as one run. */
#include "ib/fix.h"

enum { PIECES = 8, PIECE = 1024 };

/* Packets that arrive together, from PSN 1 on: the middle of a message of B's memory. */
struct burst {
	struct fix *f;
	enum ib_kind kind;
	struct ib_fields p;
	uint8_t buf[PIECES][12 + PIECE];
	struct iovec iov[PIECES];
	struct dgram d[PIECES];
};

static void build(struct burst *b, unsigned i)
{
	b->p.psn = i + 1;
	ib_build(b->buf[i], &b->p);
}

/* The first packet of a WRITE of len bytes, or of a SEND, is taken in. */
static struct burst *burst_open(struct fix *f, enum ib_kind kind, uint32_t len)
{
	struct burst *b = calloc(1, sizeof(*b));

	b->f = f;
	b->kind = kind;
	b->p.opcode = ib_opcode(IB_RC, kind, IB_FIRST, IB_NONE);
	b->p.pkey = 0xffff;
	b->p.migreq = true;
	b->p.dest_qp = f->p.qp[1]->qpn;
	b->p.rkey = f->mr[1]->mkey.key;
	b->p.va = f->mr[1]->mkey.base;
	b->p.dma_len = len;
	memset(f->mem[1], 0, 64 << 10);
	sim_inject(f->s, 0, &b->p, f->mem[0], PIECE);
	fix_quiet(f);
	b->p.opcode = ib_opcode(IB_RC, kind, IB_MIDDLE, IB_NONE);
	for (unsigned i = 0; i < PIECES; i++) {
		struct fix_raw r = { 0 };

		build(b, i);
		memcpy(b->buf[i] + 12, f->mem[0] + (i + 1) * PIECE, PIECE);
		fix_address(f, 0, sizeof(b->buf[i]), &r);
		b->iov[i] = (struct iovec){ b->buf[i], sizeof(b->buf[i]) };
		b->d[i] = r.d;
		b->d[i].iov = &b->iov[i];
	}
	return b;
}

/* They come in; n were executed. */
static void comes_in(struct burst *b, unsigned n)
{
	const size_t first = PIECE + ib_hdr_len(b->kind == IB_WRITE ? 6 : 0);
	struct core *core = &b->f->s->node[1].core;

	turn_take(&core->turn);
	ib_input_all(core, b->d, PIECES, b->f->s->now);
	turn_give(&core->turn);
	assert_int_equal(fix_ib(b->f, 1)->rsp.epsn, n + 1);
	assert_int_equal(ib_counter(core, IB_RX), PIECES + 1);
	assert_int_equal(ib_counter(core, IB_RX_BYTES), first + sizeof(b->buf));
	fix_same(b->f, 0, (n + 1) * PIECE);
	for (unsigned i = (n + 1) * PIECE; i < (PIECES + 2) * PIECE; i++)
		assert_int_equal(b->f->mem[1][i], 0);
}

static void burst_close(struct burst *b)
{
	fix_close(b->f);
	free(b);
}

/* An ACK goes out if any packet of a run asks for one, and acknowledges all of it. */
static void a_run_is_acknowledged_once(void **state)
{
	(void)state;
	for (unsigned asks = 0; asks <= PIECES; asks++) {
		struct fix *f = fix_open(IBV_QPT_RC, NULL);
		struct burst *b = burst_open(f, IB_WRITE, 64 << 10);

		if (asks > 0) {
			b->p.ackreq = true;
			build(b, asks - 1);
		}
		comes_in(b, PIECES);
		fix_quiet(f);
		assert_int_equal(f->n, asks > 0);
		if (asks > 0)
			fix_saw(f, 0, 1, "ACK", PIECES);
		burst_close(b);
	}
}

static void a_run_of_sends(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct burst *b;

	(void)state;
	fix_recv(f, 1, 0, 64 << 10);
	b = burst_open(f, IB_SEND, 0);
	comes_in(b, PIECES);
	burst_close(b);
}

/* Another PSN, address, QP, P_Key, length, a wrong ICRC: what is before it is executed,
 * and the rest is a gap. */
static void a_run_ends_at_what_is_not_like_it(void **state)
{
	(void)state;
	for (unsigned at = 1; at < PIECES; at++)
		for (unsigned what = 0; what < 6; what++) {
			struct fix *f = fix_open(IBV_QPT_RC, NULL);
			struct burst *b = burst_open(f, IB_WRITE, 64 << 10);

			if (what == 0)
				b->buf[at][11]++;
			else if (what == 1)
				ip_of(&b->d[at])->from.ip[15] ^= 1;
			else if (what == 2)
				b->buf[at][7] ^= 1;
			else if (what == 3)
				b->buf[at][3] ^= 0x55;
			else if (what == 4)
				b->d[at].damaged = true;
			else
				b->d[at].iovcnt = 2;
			comes_in(b, at);
			fix_quiet(f);
			if (at + 1 < PIECES) {
				assert_int_equal(f->n, 1);
				fix_saw(f, 0, 1, "ACK", at + 1); /* a NAK */
				assert_int_equal(f->log[0].f.syndrome, 0x60);
			}
			burst_close(b);
		}
}

/* The WRITE has fewer bytes than its packets: those that fit are executed. */
static void a_run_that_is_too_long(void **state)
{
	(void)state;
	for (unsigned fit = 1; fit < PIECES; fit++) {
		struct fix *f = fix_open(IBV_QPT_RC, NULL);
		struct burst *b = burst_open(f, IB_WRITE, (fit + 2) * PIECE);

		comes_in(b, fit);
		fix_quiet(f);
		assert_int_equal(f->log[0].f.syndrome, 0x61);
		assert_int_equal(f->log[0].f.psn, fit + 1);
		assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
		burst_close(b);
	}
}

/* The region went away between the first packet and the run. */
static void a_run_without_a_region(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct burst *b = burst_open(f, IB_WRITE, 64 << 10);

	(void)state;
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = NULL;
	comes_in(b, 0);
	fix_quiet(f);
	assert_int_equal(f->log[0].f.syndrome, 0x62);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	burst_close(b);
}

/* Duplicates are not executed again. */
static void a_run_that_is_not_expected(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct burst *b = burst_open(f, IB_WRITE, 64 << 10);
	struct core *core = &f->s->node[1].core;

	(void)state;
	comes_in(b, PIECES);
	turn_take(&core->turn);
	memset(f->mem[1], 0, PIECE * PIECES);
	ib_input_all(core, b->d, PIECES, f->s->now);
	turn_give(&core->turn);
	assert_int_equal(fix_ib(f, 1)->rsp.epsn, PIECES + 1);
	assert_int_equal(f->mem[1][PIECE], 0);
	burst_close(b);
}

/* --- SENDs of one packet ---------------------------------------------------- */

enum { SMALL = 8 };

/* SENDs of SMALL bytes each that arrive together, from PSN 0 on. */
struct sends {
	struct fix *f;
	struct ib_fields p;
	struct fix_raw raw[PIECES];
	struct dgram d[PIECES];
};

static void build_send(struct sends *s, unsigned i, uint32_t len)
{
	struct fix_raw *r = &s->raw[i];
	const uint8_t pad = (uint8_t)(-len & 3);
	size_t n;

	memset(r, 0, sizeof(*r));
	s->p.psn = i;
	s->p.pad = pad;
	n = ib_build(r->buf, &s->p);
	memcpy(r->buf + n, s->f->mem[0] + i * SMALL, len);
	fix_address(s->f, 0, n + len + pad, r);
	s->d[i] = r->d;
	s->d[i].seg = (uint16_t)i;
}

/* There are so many receives for them. */
static struct sends *sends_open(unsigned receives)
{
	struct sends *s = calloc(1, sizeof(*s));

	s->f = fix_open(IBV_QPT_RC, NULL);
	s->p = (struct ib_fields){ .opcode = ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_NONE),
				   .pkey = 0xffff,
				   .migreq = true,
				   .dest_qp = s->f->p.qp[1]->qpn };
	for (unsigned i = 0; i < receives; i++)
		fix_recv(s->f, i, i * SMALL, SMALL);
	for (unsigned i = 0; i < PIECES; i++)
		build_send(s, i, SMALL);
	return s;
}

/* They come in; n were executed. */
static void sends_come_in(struct sends *s, unsigned n)
{
	struct core *core = &s->f->s->node[1].core;

	turn_take(&core->turn);
	ib_input_all(core, s->d, PIECES, s->f->s->now);
	turn_give(&core->turn);
	assert_int_equal(fix_ib(s->f, 1)->rsp.epsn, n);
	assert_int_equal(fix_ib(s->f, 1)->rsp.msn, n);
	assert_int_equal(ib_counter(core, IB_RX), PIECES);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(fix_wc(s->f, 1, i, IBV_WC_SUCCESS).byte_len, SMALL);
	fix_no_wc(s->f, 1);
	fix_same(s->f, 0, n * SMALL);
}

static void sends_close(struct sends *s)
{
	fix_close(s->f);
	free(s);
}

/* Each completes its receive, and one ACK is for all. */
static void small_sends(void **state)
{
	(void)state;
	for (unsigned asks = 0; asks <= PIECES; asks++) {
		struct sends *s = sends_open(PIECES);

		if (asks > 0) {
			s->p.ackreq = true;
			build_send(s, asks - 1, SMALL);
		}
		sends_come_in(s, PIECES);
		fix_quiet(s->f);
		assert_int_equal(s->f->n, asks > 0);
		if (asks > 0)
			assert_int_equal(fix_saw(s->f, 0, 1, "ACK", PIECES - 1)->f.msn,
					 PIECES);
		sends_close(s);
	}
}

/* One that is missing, shorter by its pad alone, of another opcode, from elsewhere, or
 * damaged: the others are executed as they would be one by one. */
static void small_sends_and_another(void **state)
{
	(void)state;
	for (unsigned at = 0; at < PIECES; at++)
		for (unsigned what = 0; what < 4; what++) {
			struct sends *s = sends_open(PIECES);

			if (what == 0)
				s->raw[at].buf[11]++;
			else if (what == 1)
				s->raw[at].buf[0] = 0x20 | s->raw[at].buf[0]; /* UC */
			else if (what == 2)
				ip_of(&s->d[at])->from.ip[15] ^= 1;
			else
				s->d[at].damaged = true;
			for (unsigned i = 0; i < PIECES; i++)
				s->d[i].iov = &s->raw[i].iov;
			sends_come_in(s, at);
			sends_close(s);
		}
	for (unsigned at = 0; at < PIECES; at++) {
		struct sends *s = sends_open(PIECES);
		struct core *core = &s->f->s->node[1].core;

		build_send(s, at, SMALL - 1);
		turn_take(&core->turn);
		ib_input_all(core, s->d, PIECES, s->f->s->now);
		turn_give(&core->turn);
		for (unsigned i = 0; i < PIECES; i++)
			assert_int_equal(fix_wc(s->f, 1, i, IBV_WC_SUCCESS).byte_len,
					 SMALL - (i == at));
		sends_close(s);
	}
}

/* The receives do not suffice: those that have one are executed. */
static void small_sends_without_receives(void **state)
{
	(void)state;
	for (unsigned n = 0; n < PIECES; n++) {
		struct sends *s = sends_open(n);

		s->p.ackreq = true;
		build_send(s, PIECES - 1, SMALL);
		sends_come_in(s, n);
		fix_quiet(s->f);
		assert_int_equal(s->f->n, 1);
		fix_saw(s->f, 0, 1, "ACK", n); /* acknowledges what is before, too */
		assert_int_equal(aeth_type(s->f->log[0].f.syndrome), AETH_RNR_NAK);
		sends_close(s);
	}
}

/* An ACK behind the last one of their run was due before it, and is taken in first. */
static void small_sends_and_a_belated_ack(void **state)
{
	struct sends *s = sends_open(PIECES);
	struct core *core = &s->f->s->node[1].core;
	struct ib_fields ack = s->p;
	struct fix_raw *last = &s->raw[PIECES - 1];

	(void)state;
	ack.opcode = ib_opcode(IB_RC, IB_ACK, IB_ONLY, IB_NONE);
	memset(last, 0, sizeof(*last));
	fix_address(s->f, 0, ib_build(last->buf, &ack), last);
	s->d[PIECES - 1] = last->d;
	s->d[PIECES - 1].seg = PIECES - 1;
	turn_take(&core->turn);
	ib_input_all(core, s->d, PIECES, s->f->s->now);
	turn_give(&core->turn);
	assert_int_equal(fix_ib(s->f, 1)->rsp.epsn, PIECES - 1);
	assert_true(fix_ib(s->f, 1)->rsp.ack.understood);
	sends_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_run_is_acknowledged_once),
		cmocka_unit_test(a_run_of_sends),
		cmocka_unit_test(a_run_ends_at_what_is_not_like_it),
		cmocka_unit_test(a_run_that_is_too_long),
		cmocka_unit_test(a_run_without_a_region),
		cmocka_unit_test(a_run_that_is_not_expected),
		cmocka_unit_test(small_sends),
		cmocka_unit_test(small_sends_and_another),
		cmocka_unit_test(small_sends_without_receives),
		cmocka_unit_test(small_sends_and_a_belated_ack),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
