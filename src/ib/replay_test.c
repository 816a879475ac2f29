/* SPDX-License-Identifier: BSD-2-Clause */
/* Responses that are lost: READs are executed again, atomics are not. */
#include "ib/fix.h"

#include "sys/checks.h"
#include "sys/log_testing.h"

static void read_goes_on_where_it_stopped(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	const struct sim_packet *p = NULL;

	(void)state;
	fix_lose(f, 1, "READ_RESP_MIDDLE", 3); /* PSN 3 of 0 to 9 */
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 9 * 1024 + 5, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, 9 * 1024 + 5);
	for (unsigned i = 1; i < f->n; i++)
		if (f->log[i].side == 0)
			p = &f->log[i];
	assert_non_null(p);
	assert_int_equal(p->f.psn, 3);
	fix_saw(f, 2, 1, "READ_RESP_MIDDLE", 1);
	assert_string_equal(fix_name(&f->log[f->n - 2]), "READ_RESP_MIDDLE");
	assert_int_equal(p->f.va, f->mr[1]->mkey.base + 3 * 1024);
	assert_int_equal(p->f.dma_len, 6 * 1024 + 5);
	assert_int_equal(fix_count(f, 0, NULL), 2);
	fix_close(f);
}

static void last_response_lost(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_lose(f, 1, "READ_RESP_LAST", 1);
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 3000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, 3000);
	assert_int_equal(f->log[f->n - 1].f.psn, 2);
	assert_string_equal(fix_name(&f->log[f->n - 1]), "READ_RESP_ONLY");
	fix_close(f);
}

/* An ACK of a later request tells that the READ's response is lost. */
static void implied_nak(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	uint64_t start = f->s->now;

	(void)state;
	fix_lose(f, 1, "READ_RESP_ONLY", 1);
	fix_lose(f, 1, "READ_RESP_ONLY", 3);
	for (int i = 0; i < 2; i++) {
		fix_post(f, IBV_WR_RDMA_READ, 1, 0, 100, 0);
		fix_post(f, IBV_WR_RDMA_WRITE, 2, 1000, 100, 0);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	}
	assert_true(f->s->now - start < MS);
	fix_same(f, 0, 100);
	fix_close(f);
}

static void fetch_add_once(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	uint64_t v = 100;

	(void)state;
	memcpy(f->mem[1], &v, 8);
	fix_lose(f, 1, "ATOMIC_ACK", 1);
	fix_lose(f, 1, "ATOMIC_ACK", 3);
	fix_lose(f, 1, "ATOMIC_ACK", 4);
	for (unsigned i = 0; i < 16; i++)
		fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, i, 0, 8, 0);
	for (unsigned i = 0; i < 16; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	memcpy(&v, f->mem[1], 8);
	assert_int_equal(v, 116);
	memcpy(&v, f->mem[0], 8);
	assert_int_equal(v, 115); /* the value that the last one found */
	assert_true(fix_count(f, 0, NULL) > 16);
	fix_close(f);
}

/* A duplicate of an atomic that is older than all that are saved. */
static void unknown_duplicates_are_dropped(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields add = {
		.opcode = ib_opcode(IB_RC, IB_FETCH_ADD, IB_ONLY, IB_NONE),
		.pkey = 0xffff, .migreq = true, .dest_qp = f->p.qp[1]->qpn,
		.psn = 0xfffff0, .va = f->mr[1]->mkey.base,
		.rkey = f->mr[1]->mkey.key, .swap_add = 1,
	}, read = {
		.opcode = ib_opcode(IB_RC, IB_READ, IB_ONLY, IB_NONE),
		.pkey = 0xffff, .migreq = true, .dest_qp = f->p.qp[1]->qpn,
		.psn = 0xfffff0, .va = f->mr[1]->mkey.base,
		.rkey = f->mr[1]->mkey.key, .dma_len = 1024 * 1024,
	};
	uint8_t before[8];

	(void)state;
	memcpy(before, f->mem[1], 8);
	sim_inject(f->s, 0, &add, NULL, 0);
	sim_inject(f->s, 0, &read, NULL, 0); /* reaches beyond the expected PSN */
	fix_quiet(f);
	assert_memory_equal(before, f->mem[1], 8);
	assert_int_equal(f->n, 0);
	assert_int_equal(ib_counter(&f->s->node[1].core, IB_RX_DUPLICATE), 2);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	fix_close(f);
}

static void no_ack_overtakes_a_read(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	uint32_t last = 0;

	(void)state;
	for (unsigned i = 0; i < 6; i++)
		fix_post(f, i & 1 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ, i, i * 20000,
			 15000, 0);
	for (unsigned i = 0; i < 6; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < f->n; i++) {
		if (f->log[i].side == 0)
			continue;
		assert_true(f->log[i].f.psn >= last);
		last = f->log[i].f.psn;
	}
	assert_int_equal(fix_count(f, 0, "READ_REQUEST"), 3);
	fix_close(f);
}

/* The region is deregistered between the READ request and its response. */
static void region_gone_under_a_read(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct resource t = { .psn = 0,
			      .npkts = 2,
			      .len = 2000,
			      .va = f->mr[1]->mkey.base,
			      .rkey = f->mr[1]->mkey.key };

	(void)state;
	lock_take(&f->p.qp[1]->lock);
	rsp_add_pending(fix_ib(f, 1), &t);
	fix_ib(f, 1)->rsp.epsn = 2;
	lock_give(&f->p.qp[1]->lock);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = NULL;
	fix_quiet(f);
	assert_int_equal(fix_saw(f, 0, 1, "ACK", 0)->f.syndrome, 0x62);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(sim_event(f->s, 1), IBV_EVENT_QP_ACCESS_ERR);
	fix_close(f);
}

/* The same, but the READ is requested again before it was answered: it is still pending
 * for the first time, so its failure is reported. */
static void region_gone_under_a_read_asked_for_twice(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct resource t = { .psn = 0,
			      .npkts = 2,
			      .len = 2000,
			      .va = f->mr[1]->mkey.base,
			      .rkey = f->mr[1]->mkey.key };
	struct ib_pkt again = {
		.op = ib_op(ib_opcode(IB_RC, IB_READ, IB_ONLY, IB_NONE)),
		.f = { .va = t.va, .rkey = t.rkey, .dma_len = t.len },
	};

	(void)state;
	lock_take(&f->p.qp[1]->lock);
	rsp_add_pending(fix_ib(f, 1), &t);
	fix_ib(f, 1)->rsp.epsn = 2;
	rsp_duplicate(fix_ib(f, 1), &again);
	assert_int_equal(rsp_pending(&fix_ib(f, 1)->rsp), 1);
	lock_give(&f->p.qp[1]->lock);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = NULL;
	fix_quiet(f);
	assert_int_equal(fix_saw(f, 0, 1, "ACK", 0)->f.syndrome, 0x62);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(sim_event(f->s, 1), IBV_EVENT_QP_ACCESS_ERR);
	fix_close(f);
}

static unsigned denials;

static void count_denied(uint32_t qpn, bool remote, uint32_t key, uint64_t va,
			 uint64_t len, int access, int why)
{
	(void)qpn, (void)remote, (void)key, (void)va, (void)len, (void)access, (void)why;
	denials++;
}

/* A READ whose answer is given again when its region is gone: the peer may have the
 * first answer, so the program has done nothing wrong (IBTA 9.7.5.1.4). */
static void checks_hear_of_no_duplicate(void **state)
{
	static const struct check_hooks hooks = { .denied = count_denied };
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_pkt again = {
		.op = ib_op(ib_opcode(IB_RC, IB_READ, IB_ONLY, IB_NONE)),
		.f = { .va = f->mr[1]->mkey.base,
		       .rkey = f->mr[1]->mkey.key,
		       .dma_len = 100 },
	};

	(void)state;
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = NULL;
	lock_take(&f->p.qp[1]->lock);
	fix_ib(f, 1)->rsp.epsn = 1;
	rsp_duplicate(fix_ib(f, 1), &again);
	lock_give(&f->p.qp[1]->lock);
	denials = 0;
	checks = &hooks;
	fix_quiet(f);
	checks = NULL;
	assert_int_equal(denials, 0);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	assert_int_equal(fix_ib(f, 1)->rsp.resources, 0);
	fix_close(f);
}

static struct ib_fields read_of(const struct fix *f, uint32_t psn, uint32_t len)
{
	return (struct ib_fields){
		.opcode = ib_opcode(IB_RC, IB_READ, IB_ONLY, IB_NONE),
		.pkey = 0xffff,
		.migreq = true,
		.dest_qp = f->p.qp[1]->qpn,
		.psn = psn,
		.va = f->mr[1]->mkey.base,
		.rkey = f->mr[1]->mkey.key,
		.dma_len = len,
	};
}

/* A new request, then an old one again: answered in PSN order, each once. */
static void pending_in_order(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields r = read_of(f, 0, 8);

	(void)state;
	sim_inject(f->s, 0, &r, NULL, 0);
	fix_quiet(f);
	f->n = 0;
	for (r.psn = 1; r.psn < 4; r.psn++)
		sim_inject(f->s, 0, &r, NULL, 0);
	for (r.psn = 0; r.psn < 4; r.psn++)
		sim_inject(f->s, 0, &r, NULL, 0);
	fix_quiet(f);
	assert_int_equal(f->n, 4);
	for (unsigned i = 0; i < 4; i++)
		fix_saw(f, i, 1, "READ_RESP_ONLY", i);
	fix_close(f);
}

/* Nobody may be waiting for a duplicate's answer: its failure does not end the
 * connection, and a flood of them does not fill the log. */
static void duplicate_without_its_region(void **state)
{
	enum { FLOOD = 100, FEW = 10 };
	char text[FLOOD * 256];
	unsigned lines = 0;
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields r = read_of(f, 0, 8);

	(void)state;
	sim_inject(f->s, 0, &r, NULL, 0);
	fix_quiet(f);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = NULL;
	LOGGED(
		text, "info", for (int i = 0; i < FLOOD; i++) {
			sim_inject(f->s, 0, &r, NULL, 0);
			fix_quiet(f);
		});
	assert_int_equal(f->n, 1);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	for (const char *at = text; (at = strstr(at, "not answered")); at++)
		lines++;
	assert_in_range(lines, 1, FEW);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_goes_on_where_it_stopped),
		cmocka_unit_test(last_response_lost),
		cmocka_unit_test(implied_nak),
		cmocka_unit_test(fetch_add_once),
		cmocka_unit_test(unknown_duplicates_are_dropped),
		cmocka_unit_test(no_ack_overtakes_a_read),
		cmocka_unit_test(region_gone_under_a_read),
		cmocka_unit_test(pending_in_order),
		cmocka_unit_test(duplicate_without_its_region),
		cmocka_unit_test(region_gone_under_a_read_asked_for_twice),
		cmocka_unit_test(checks_hear_of_no_duplicate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
