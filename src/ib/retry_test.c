/* SPDX-License-Identifier: BSD-2-Clause */
/* Lost packets are sent again; work that cannot be done ends with the right error. */
#include "ib/fix.h"

static uint64_t took(const struct fix *f, uint64_t since)
{
	return f->s->now - since;
}

static void last_packet_lost_costs_a_probe(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	uint64_t start = f->s->now;

	(void)state;
	fix_lose(f, 0, "WRITE_LAST", 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 3000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_in_range(took(f, start), 1 * MS, 2 * MS); /* not 67 ms */
	assert_int_equal(fix_count(f, 0, "WRITE_FIRST"), 2);
	fix_same(f, 0, 3000);
	assert_int_equal(ib_counter(&f->s->node[0].core, IB_TX_PROBE), 1);
	start = f->s->now; /* after that all is as before */
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 300000, 0);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	assert_true(took(f, start) < MS / 5);
	fix_close(f);
}

/* The peer answers later than the first probe goes out.  Then the time between probes
 * grows until an answer has been timed, and after that no probe goes out. */
static void no_probe_comes_before_the_answer(enum ibv_wr_opcode opcode)
{
	struct sim_conf c = { .latency = 3 * MS };
	struct fix *f = fix_open(IBV_QPT_RC, &c);
	struct core *core = &f->s->node[0].core;
	uint64_t probes, again;

	for (unsigned i = 0; i < 2; i++)
		fix_post(f, opcode, i, 0, 100000, 0);
	for (unsigned i = 0; i < 2; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_quiet(f);
	probes = ib_counter(core, IB_TX_PROBE);
	again = ib_counter(core, IB_TX_RETRANSMIT);
	assert_in_range(probes, 1, 4);
	for (unsigned i = 2; i < 20; i++) {
		fix_post(f, opcode, i, 0, 100000, 0);
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	}
	fix_same(f, 0, 100000);
	assert_int_equal(ib_counter(core, IB_TX_PROBE), probes);
	assert_int_equal(ib_counter(core, IB_TX_RETRANSMIT), again);
	fix_close(f);
}

static void a_slow_peer_is_not_probed(void **state)
{
	(void)state;
	no_probe_comes_before_the_answer(IBV_WR_RDMA_WRITE);
	no_probe_comes_before_the_answer(IBV_WR_RDMA_READ);
}

static void ack_lost(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_lose(f, 1, "ACK", 1);
	fix_lose(f, 1, "ACK", 2);
	fix_recv(f, 9, 0, 3000);
	fix_post(f, IBV_WR_SEND, 1, 0, 3000, 0);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_quiet(f);
	fix_no_wc(f, 1); /* received once */
	assert_int_equal(fix_count(f, 1, "ACK"), 3);
	assert_int_equal(f->log[f->n - 1].f.psn, 2);
	assert_int_equal(f->log[f->n - 1].f.msn, 1);
	fix_close(f);
}

/* The third ACK is lost; the fourth acknowledges the same packets. */
static void third_ack_lost(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	uint64_t start = f->s->now;

	(void)state;
	fix_lose(f, 1, "ACK", 3);
	for (unsigned i = 0; i < 4; i++) {
		fix_post(f, IBV_WR_RDMA_WRITE, i, 0, 100, 0);
		sim_run(f->s, 3000);
	}
	for (unsigned i = 0; i < 4; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	assert_true(took(f, start) < MS);
	assert_int_equal(fix_count(f, 0, NULL), 4);
	fix_close(f);
}

static void one_nak_a_gap(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	uint64_t start = f->s->now;
	const struct sim_packet *p = NULL;

	(void)state;
	fix_lose(f, 0, "WRITE_MIDDLE", 3);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 20 * 1024, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, 20 * 1024);
	assert_true(took(f, start) < MS);
	for (unsigned i = 0; i < f->n; i++) {
		if (f->log[i].f.syndrome != 0x60)
			continue;
		assert_null(p);
		p = &f->log[i];
	}
	assert_non_null(p);
	assert_int_equal(p->f.psn, 3);
	/* Go back N: packets 0 to 19, then 3 to 19. */
	assert_int_equal(fix_count(f, 0, NULL), 20 + 17);
	fix_close(f);
}

/* retry_cnt retries at the standard's timeout, then the error. */
static void nobody_answers(void **state)
{
	struct sim_conf c = { .timeout = 14, .retry_cnt = 3 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);
	uint64_t start = f->s->now, t = 4096ull << 14;

	(void)state;
	fix_lose(f, 0, NULL, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 100, 0);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR).vendor_err, VERR_TIMEOUT);
	fix_wc(f, 0, 2, IBV_WC_WR_FLUSH_ERR);
	assert_in_range(took(f, start), 4 * t, 4 * t + 4 * MS);
	assert_int_equal(ib_counter(&f->s->node[0].core, IB_TX_TIMEOUT), 4);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	fix_quiet(f); /* and then silence */
	fix_close(f);
}

/* A's process is stopped while its timer expires: perhaps it is its own fault that no
 * answer has come. */
static void who_runs_late_is_excused_once(void **state)
{
	const struct sim_conf c = { .timeout = 14, .retry_cnt = 1 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);
	const uint64_t t = 4096ull << 14;
	uint64_t since;

	(void)state;
	fix_lose(f, 0, NULL, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	sim_run(f->s, 1000);
	for (unsigned i = 0; i < 2; i++) { /* excused, not excused */
		f->s->now += t + 10 * MS;
		sim_run(f->s, t - 10 * MS);
		fix_no_wc(f, 0);
		assert_int_equal(ib_counter(&f->s->node[0].core, IB_TX_TIMEOUT), i);
	}
	since = f->s->now;
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	assert_in_range(took(f, since), 10 * MS, 11 * MS);
	fix_close(f);
}

static void timeout_zero_is_for_ever(void **state)
{
	struct sim_conf c = { 0 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);

	(void)state;
	f->p.qp[0]->attr.timeout = 0;
	fix_lose(f, 0, NULL, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	assert_false(sim_run(f->s, 20 * SEC));
	fix_no_wc(f, 0);
	f->nlose = 0;
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

static void rnr_until_posted(void **state)
{
	struct sim_conf c = { .rnr_retry = 7, .min_rnr_timer = 14 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);
	uint64_t wait = rnr_timer_ns(14), last = 0;

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 5000, 0);
	fix_post(f, IBV_WR_SEND, 2, 0, 5, 0);
	assert_false(sim_run(f->s, 40 * wait));
	fix_no_wc(f, 0);
	/* The message goes out again after the timer, and not before. */
	for (unsigned i = 0; i < f->n; i++) {
		if (f->log[i].side == 0 && f->log[i].f.psn == 0) {
			assert_true(last == 0 || f->log[i].now - last >= wait);
			last = f->log[i].now;
		} else if (f->log[i].side == 1) {
			assert_int_equal(f->log[i].f.syndrome, 0x20 | 14);
			assert_int_equal(f->log[i].f.psn, 0);
		}
	}
	fix_recv(f, 8, 0, 5000);
	fix_recv(f, 9, 5000, 5);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_same(f, 0, 5000);
	fix_close(f);
}

static void rnr_retries_end(void **state)
{
	struct sim_conf c = { .rnr_retry = 3, .min_rnr_timer = 1 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 50, 0);
	fix_post(f, IBV_WR_SEND, 2, 0, 50, 0);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_RNR_RETRY_EXC_ERR).vendor_err,
			 VERR_RNR_RETRIES);
	fix_wc(f, 0, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(ib_counter(&f->s->node[0].core, IB_RX_RNR), 4);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS); /* the peer lives */
	fix_close(f);
}

/* Progress restores all retries. */
static void retries_are_per_progress(void **state)
{
	struct sim_conf c = { .retry_cnt = 1, .timeout = 11 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);

	(void)state;
	for (unsigned i = 1; i < 9; i++)
		fix_lose(f, 0, "WRITE_ONLY", 2 * i - 1);
	for (unsigned i = 0; i < 8; i++) {
		fix_post(f, IBV_WR_RDMA_WRITE, i, 0, 100, 0);
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	}
	fix_close(f);
}

/* A full link delays packets and changes nothing else. */
static void taken_back(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	f->s->take_every = 2;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 200000, 0);
	fix_post(f, IBV_WR_RDMA_READ, 2, 300000, 100000, 0);
	fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 600000, 8, 0);
	for (unsigned i = 1; i <= 3; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_same(f, 0, 200000);
	fix_same(f, 300000, 100000);
	assert_int_equal(ib_counter(&f->s->node[0].core, IB_RX_NAK), 0);
	assert_int_equal(ib_counter(&f->s->node[0].core, IB_TX_PROBE), 0);
	assert_int_equal(ib_counter(&f->s->node[0].core, IB_TX_RETRANSMIT), 0);
	fix_close(f);
}

/* A local failure is reported when it is the oldest: the packets before it may have to be
 * sent again first. */
static void loss_before_a_local_error(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ibv_sge sge = sim_sge(f->mr[0], 0, 100);
	struct ibv_send_wr bad = {
		.wr_id = 2, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1
	};

	(void)state;
	sge.lkey ^= 0x5500;
	fix_lose(f, 0, "WRITE_FIRST", 1);
	fix_lose(f, 0, "WRITE_ONLY", 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 0, 0, 3000, 0); /* NAKed */
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);  /* probed */
	sim_send(f->p.qp[0], &bad);
	fix_wc(f, 0, 0, IBV_WC_SUCCESS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR);
	fix_same(f, 0, 3000);
	fix_close(f);
}

static void psn_wraps(void **state)
{
	struct sim_conf c = { .path_mtu = IBV_MTU_256, .psn = { 0xffff00, 0 } };
	struct fix *f = fix_open(IBV_QPT_RC, &c);

	(void)state;
	for (unsigned i = 0; i < 250; i++)
		fix_post(f, IBV_WR_RDMA_WRITE, i, 0, 500, 0);
	for (unsigned i = 0; i < 250; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	assert_int_equal(fix_ib(f, 0)->req.s.una, (0xffff00 + 500) & PSN_MASK);
	assert_int_equal(fix_count(f, 0, NULL), 500);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(last_packet_lost_costs_a_probe),
		cmocka_unit_test(a_slow_peer_is_not_probed),
		cmocka_unit_test(ack_lost),
		cmocka_unit_test(third_ack_lost),
		cmocka_unit_test(one_nak_a_gap),
		cmocka_unit_test(nobody_answers),
		cmocka_unit_test(who_runs_late_is_excused_once),
		cmocka_unit_test(timeout_zero_is_for_ever),
		cmocka_unit_test(rnr_until_posted),
		cmocka_unit_test(rnr_retries_end),
		cmocka_unit_test(retries_are_per_progress),
		cmocka_unit_test(taken_back),
		cmocka_unit_test(loss_before_a_local_error),
		cmocka_unit_test(psn_wraps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
