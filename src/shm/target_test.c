/* SPDX-License-Identifier: BSD-2-Clause */
/* What a target does with segments, and says of them. */
#include "shm/fix.h"

static void the_receive_comes_soon(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ 0 });

	(void)state;
	f->p.qp[0]->attr.rnr_retry = shm_qp(f->p.qp[0])->src.s.rnr_left = 0;
	for (uint64_t id = 1; id <= 3; id++)
		post_at(f, 0, id, 100 * id, 50, 0);
	pair_run(f, MS);
	for (uint64_t id = 1; id <= 3; id++)
		recv_at(f, 1, id, 5000 * id, 50);
	for (uint64_t id = 1; id <= 3; id++) {
		came(f, 1, id, 5000 * id, 100 * id, 50);
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
	}
	fix_close(f);
}

static void the_receive_comes_late(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .rnr_retry = 6, .timeout = 1 });

	(void)state;
	post_at(f, 0, 1, 0, 50, 0);
	pair_run(f, 4 * MS);
	assert_true(shm_qp(f->p.qp[0])->src.s.rnr_left < 6);
	recv_at(f, 1, 1, 5000, 50);
	came(f, 1, 1, 5000, 0, 50);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(shm_qp(f->p.qp[0])->src.s.rnr_left, 6);
	fix_close(f);
}

/* rnr_retry 0: the target must not say RNR. A program that has polled everything has half
 * of the ACK timeout; one that has not, longer. */
static void the_receive_comes_in_time(void **state)
{
	struct fix *f = open_pair((struct sim_conf){
		.rnr_retry = 0, .timeout = 20, .late = RECV_WAIT_MOST_NS });

	(void)state;
	recv_at(f, 1, 1, 5000, 50);
	post_at(f, 0, 1, 0, 50, 0);
	came(f, 1, 1, 5000, 0, 50);
	post_at(f, 0, 2, 0, 50, 0);
	pair_run(f, RECV_WAIT_MOST_NS - 10 * MS);
	recv_at(f, 1, 2, 5000, 50); /* its completion is not polled */
	pair_run(f, MS);
	post_at(f, 0, 3, 0, 50, 0);
	pair_run(f, 2 * (uint64_t)RECV_WAIT_MOST_NS);
	came(f, 1, 2, 5000, 0, 50);
	recv_at(f, 1, 3, 5000, 50);
	came(f, 1, 3, 5000, 0, 50);
	for (uint64_t id = 1; id <= 3; id++)
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
	fix_close(f);
}

/* A QP that waits for a receive of its SRQ is reset, or destroyed: the SRQ forgets it. */
static void a_qp_that_leaves_its_srq(void **state)
{
	for (int destroyed = 0; destroyed < 2; destroyed++) {
		struct fix *f = open_pair((struct sim_conf){ .timeout = 20 });
		struct ibv_srq_init_attr a = { .attr = { .max_wr = 8, .max_sge = 1 } };
		struct ibv_qp_cap cap = { .max_send_wr = 8, .max_send_sge = 1 };
		struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
		struct ibv_sge sge = sim_sge(f->mr[1], 0, 100);
		struct ibv_recv_wr wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1 };
		struct ibv_recv_wr *bad;
		struct sim_node *b = &f->s->node[1];
		struct srq *srq;
		struct qp *qp;

		(void)state;
		assert_int_equal(srq_create(&b->ctx, b->pd, &a, &srq), 0);
		qp = sim_qp(f->s, 1, IBV_QPT_RC, f->p.cq[1], f->p.cq[1], srq, &cap);
		sim_bring(f->s, qp, f->p.qp[0], &f->conf);
		fix_modify(f, 0, IBV_QPS_RESET);
		sim_bring(f->s, f->p.qp[0], qp, &f->conf);
		post_at(f, 0, 1, 0, 50, 0);
		pair_run(f, MS);
		assert_false(list_empty(&srq->awaiting));
		if (!destroyed)
			assert_int_equal(qp_modify(qp, &reset, IBV_QP_STATE, f->s->now),
					 0);
		else
			sim_destroy(f->s, qp);
		assert_true(list_empty(&srq->awaiting));
		assert_int_equal(srq_post(srq, &wr, &bad), 0);
		if (!destroyed)
			sim_destroy(f->s, qp);
		assert_int_equal(srq_destroy(srq), 0);
		fix_close(f);
	}
}

/* What is sent twice is refused twice, and costs one retry. */
static void two_rnr_naks_for_one_sending(void **state)
{
	struct fix *f = open_pair(
		(struct sim_conf){ .rnr_retry = 6, .min_rnr_timer = 20, .timeout = 20 });
	struct shm_qp *a = shm_qp(f->p.qp[0]), *b = shm_qp(f->p.qp[1]);
	uint32_t count;

	(void)state;
	post_at(f, 0, 1, 0, 50, 0);
	pair_run(f, 4 * MS);
	assert_int_equal(a->src.s.rnr_left, 5);
	count = b->dst.count;
	stray(f, 0, SEGMENT_ONLY, b->dst.expected);
	pair_run(f, MS);
	assert_int_equal(b->dst.count, count + 1);
	assert_int_equal(a->src.s.rnr_left, 5);
	recv_at(f, 1, 1, 5000, 50);
	came(f, 1, 1, 5000, 0, 50);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

static void the_receive_never_comes(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .rnr_retry = 2 });

	(void)state;
	post_at(f, 0, 1, 0, 50, 0);
	post_at(f, 0, 2, 0, 50, 0);
	fix_wc(f, 0, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	fix_wc(f, 0, 2, IBV_WC_WR_FLUSH_ERR);
	fix_close(f);
}

static void a_receive_that_is_short(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	recv_at(f, 1, 1, 0, 8);
	recv_at(f, 1, 2, 0, 7);
	post_at(f, 0, 1, 0, 8, 0);
	post_at(f, 0, 2, 0, 8, 0);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	fix_wc(f, 1, 2, IBV_WC_LOC_LEN_ERR);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_REM_INV_REQ_ERR);
	fix_close(f);
}

static void regions_that_have_gone(void **state)
{
	for (int side = 0; side < 2; side++) {
		struct fix *f = plain_pair();
		struct ibv_sge sge = sim_sge(f->mr[0], 0, 8);
		struct ibv_send_wr wr = send_wr(2, &sge, 1, 0);

		(void)state;
		recv_at(f, 1, 1, 0, 8);
		recv_at(f, 1, 2, 0, 8);
		post_at(f, 0, 1, 0, 8, 0);
		fix_wc(f, 1, 1, IBV_WC_SUCCESS);
		assert_int_equal(mr_dereg(f->mr[side]), 0);
		f->mr[side] = NULL;
		post_now(f->p.qp[0], &wr);
		if (side)
			fix_wc(f, 1, 2, IBV_WC_LOC_PROT_ERR);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, side ? IBV_WC_REM_OP_ERR : IBV_WC_LOC_PROT_ERR);
		fix_close(f);
	}
}

/* So many slots as half the numbers of the ring's positions have passed since the target
 * began, all but the first with what take_plain() takes, or for other QPs. */
static void after_half_a_lap_of_positions(void **state)
{
	for (int heard = 0; heard < 2; heard++) {
		struct fix *f =
			open_pair((struct sim_conf){ .retry_cnt = 1, .timeout = 10 });

		(void)state;
		if (heard) {
			recv_at(f, 1, 1, 0, 8);
			post_at(f, 0, 1, 0, 8, 0);
			fix_wc(f, 1, 1, IBV_WC_SUCCESS);
			fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		}
		shm_qp(f->p.qp[1])->dst.stale -= 0x80000100;
		recv_at(f, 1, 2, 20000, 20000);
		post_at(f, 0, 2, 0, 20000, 0);
		came(f, 1, 2, 20000, 0, 20000);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
		fix_close(f);
	}
}

/* What is missing is asked for again, although what was missing before came by the
 * shortest way. */
static void a_gap_after_a_gap(void **state)
{
	struct fix *f = plain_pair();
	struct shm_qp *b = shm_qp(f->p.qp[1]);
	uint32_t count;

	(void)state;
	for (uint64_t id = 1; id <= 3; id++) {
		recv_at(f, 1, id, 0, 8);
		post_at(f, 0, id, 0, 8, 0);
		fix_wc(f, 1, id, IBV_WC_SUCCESS);
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
		count = b->dst.count;
		stray(f, 0, SEGMENT_ONLY, psn_add(b->dst.expected, 5));
		stray(f, 0, SEGMENT_ONLY, psn_add(b->dst.expected, 6));
		pair_run(f, MS);
		assert_int_equal(b->dst.count, count + 1);
	}
	fix_close(f);
}

static void records_that_no_urnic_writes(void **state)
{
	const struct {
		unsigned op;
		uint8_t flags;
	} bad[] = {
		{ SEGMENT_ONLY, REC_WIDE },
		{ SEGMENT_ONLY | KIND_WRITE << SEGMENT_KIND_AT, 0 },
		{ SEGMENT_LAST | KIND_WRITE << SEGMENT_KIND_AT, REC_WIDE },
		{ KIND_WORD << SEGMENT_KIND_AT, REC_WIDE },
		{ SEGMENT_ONLY | KINDS << SEGMENT_KIND_AT, 0 },
		{ SEGMENT_ONLY | KINDS << SEGMENT_KIND_AT, REC_WIDE },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fix *f = plain_pair();

		stray_record(f, 0,
			     (struct rec){ .opcode = (uint8_t)bad[i].op,
					   .flags = bad[i].flags },
			     REC_HEAD_WIDE);
		pair_run(f, MS);
		assert_int_equal(pair_peer(f, 1)->state, PEER_DEAD);
		fix_close(f);
	}
}

/* A second header that does not fit into its record. */
static void a_record_that_is_short(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	stray_record(f, 0,
		     (struct rec){ .opcode = SEGMENT_ONLY | KIND_WRITE << SEGMENT_KIND_AT,
				   .flags = REC_WIDE },
		     REC_HEAD_WIDE - 1);
	pair_run(f, MS);
	assert_int_equal(pair_peer(f, 1)->state, PEER_DEAD);
	fix_close(f);
}

static uint64_t counted(const struct fix *f, int side, enum ib_counter c)
{
	return ib_counter(&f->s->node[side].core, c);
}

/* What a device's counters say, as on a wire. */
static void counters(void **state)
{
	struct fix *f = open_pair(
		(struct sim_conf){ .rnr_retry = 7, .min_rnr_timer = 1, .timeout = 8 });
	struct shm_qp *b = shm_qp(f->p.qp[1]);

	(void)state;
	assert_int_equal(counted(f, 1, IB_RX_LATE), 0);
	assert_int_equal(counted(f, 1, IB_TX_NAK), 0); /* to be ready is none */
	post_at(f, 0, 1, 0, 20000, 0);
	pair_run(f, 2 * MS + MS / 10);
	assert_int_equal(counted(f, 1, IB_RX_LATE), 1);
	assert_int_equal(counted(f, 1, IB_TX_RNR), counted(f, 0, IB_RX_RNR));
	assert_int_not_equal(counted(f, 1, IB_TX_RNR), 0);
	assert_int_equal(counted(f, 0, IB_RX_NAK), 0);
	recv_at(f, 1, 1, 0, 20000);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_not_equal(counted(f, 0, IB_TX_RETRANSMIT), 0);
	assert_int_not_equal(counted(f, 1, IB_RX_OUT_OF_ORDER), 0);
	assert_int_equal(counted(f, 1, IB_TX_NAK), 0);
	stray(f, 0, SEGMENT_ONLY, psn_add(b->dst.expected, PSN_MASK));
	stray(f, 0, SEGMENT_ONLY, psn_add(b->dst.expected, 1));
	pair_run(f, MS);
	assert_int_equal(counted(f, 1, IB_RX_DUPLICATE), 1);
	assert_int_equal(counted(f, 1, IB_TX_NAK), 1);
	assert_int_equal(counted(f, 0, IB_TX_TIMEOUT), 0);
	pair_stop(f, 1);
	post_at(f, 0, 2, 0, 8, 0);
	pair_run(f, 200 * MS);
	assert_int_not_equal(counted(f, 0, IB_TX_TIMEOUT), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_receive_comes_soon),
		cmocka_unit_test(the_receive_comes_late),
		cmocka_unit_test(the_receive_comes_in_time),
		cmocka_unit_test(a_qp_that_leaves_its_srq),
		cmocka_unit_test(two_rnr_naks_for_one_sending),
		cmocka_unit_test(the_receive_never_comes),
		cmocka_unit_test(a_receive_that_is_short),
		cmocka_unit_test(regions_that_have_gone),
		cmocka_unit_test(after_half_a_lap_of_positions),
		cmocka_unit_test(a_gap_after_a_gap),
		cmocka_unit_test(records_that_no_urnic_writes),
		cmocka_unit_test(a_record_that_is_short),
		cmocka_unit_test(counters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
