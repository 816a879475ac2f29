/* SPDX-License-Identifier: BSD-2-Clause */
/* How long the requester waits, for what, and how the wait ends. */
#include "shm/fix.h"

enum { LOOK = 64 };

#define TIMEOUT_10 4194304ull /* 4.096 us * 2^10 */

static const struct sim_conf quick = {
	.pipe_only = true,
	.timeout = 10,
	.retry_cnt = 3,
};

/* To within a microsecond: the simulation looks at rings in steps of 1 ns. */
static void assert_took(const struct fix *f, uint64_t since, uint64_t ns)
{
	assert_in_range(f->s->now - since, ns, ns + 1000);
}

/* --- the process itself is stopped --------------------------------------- */

static struct sim *stopped;

static uint64_t a_second_later(void)
{
	return stopped->now + 1000 * MS;
}

/* The process is stopped between the beginning of its turn and the writing of the record:
 * the peer has had less time than the requester's clock shows. */
static void the_timer_runs_from_when_the_record_went_out(void **state)
{
	const struct sim_conf c = { .pipe_only = true, .timeout = 10, .retry_cnt = 1 };
	struct fix *f = pair_open(IBV_QPT_RC, &c);
	struct core *core = &f->s->node[0].core;
	uint64_t since = f->s->now;

	(void)state;
	stopped = f->s;
	core->round.clock = a_second_later;
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 10, 0);
	pair_run(f, 1);
	core->round.clock = NULL;
	pair_run(f, 990 * MS);
	fix_quiet(f);
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	assert_took(f, since, 1000 * MS + 2 * TIMEOUT_10);
	fix_close(f);
}

/* --- RNR ----------------------------------------------------------------- */

static void rnr_waits_and_counts(void **state)
{
	const struct sim_conf c = {
		.pipe_only = true,
		.rnr_retry = 2,
		.min_rnr_timer = 12,
		.late = RECV_WAIT_NS,
	};
	struct fix *f = pair_open(IBV_QPT_RC, &c);
	uint64_t since = f->s->now;
	uint32_t before = pair_peer(f, 0)->out.head;

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 10, 0);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_RNR_RETRY_EXC_ERR).vendor_err,
			 VERR_RNR_RETRIES);
	/* By segments the peer waits a little before it says RNR first. */
	assert_took(f, since, 2 * 640000 + 2 * MS);
	assert_int_equal(pair_peer(f, 0)->out.head - before, 3);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	fix_close(f);
}

static void rnr_for_ever(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &quick);

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 10, 0);
	fix_post(f, IBV_WR_SEND, 2, 100, 10, 0);
	pair_run(f, 500 * MS); /* longer than all timeouts */
	fix_recv(f, 8, 0, 100);
	fix_recv(f, 9, 100, 100);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	fix_same(f, 0, 10);
	fix_same(f, 100, 10);
	fix_close(f);
}

static void progress_gives_the_retries_back(void **state)
{
	const struct sim_conf c = { .pipe_only = true, .rnr_retry = 1 };
	struct fix *f = pair_open(IBV_QPT_RC, &c);

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		fix_post(f, IBV_WR_SEND, i, 0, 10, 0);
		pair_run(f, 100000);
		fix_recv(f, 8, 0, 100);
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
		fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	}
	fix_close(f);
}

/* A local failure behind an RNR NAK is checked again. */
static void local_error_behind_an_rnr(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	uint32_t key = f->mr[0]->mkey.key;

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 10, 0);
	f->mr[0]->mkey.key ^= 0x100; /* the key that fix_post() uses */
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 100, 0);
	f->mr[0]->mkey.key = key;
	pair_run(f, 1 * MS);
	fix_no_wc(f, 0);
	fix_recv(f, 8, 0, 10);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR);
	fix_close(f);
}

/* --- a peer that is not ready -------------------------------------------- */

enum unready { RESET, INIT, WRONG_PSN, OTHER_QP, WRONG_PATH, DESTROYED, ERROR, UNREADY };

static void init_only(struct fix *f)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	fix_modify(f, 1, IBV_QPS_RESET);
	assert_int_equal(qp_modify(f->p.qp[1], &a,
				   IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
					   IBV_QP_ACCESS_FLAGS,
				   f->s->now),
			 0);
}

static void make_unready(struct fix *f, enum unready how)
{
	switch (how) {
	case RESET:
		fix_modify(f, 1, IBV_QPS_RESET);
		break;
	case INIT:
		init_only(f);
		break;
	case ERROR:
		fix_modify(f, 1, IBV_QPS_ERR);
		break;
	case WRONG_PSN:
		*pair_expected(f, 1) = 5;
		break;
	case OTHER_QP:
		f->p.qp[1]->attr.dest_qp_num++;
		break;
	case WRONG_PATH:
		pair_shm(f, 1)->route_in++;
		break;
	case DESTROYED:
		sim_destroy(f->s, f->p.qp[1]);
		f->p.qp[1] = NULL;
		break;
	case UNREADY:
		break;
	}
}

static void who_is_never_ready_costs_all_retries(void **state)
{
	(void)state;
	for (int how = 0; how < UNREADY; how++) {
		struct fix *f = pair_open(IBV_QPT_RC, &quick);
		uint64_t since = f->s->now;

		fix_recv(f, 8, 0, 100);
		make_unready(f, (enum unready)how);
		fix_post(f, IBV_WR_SEND, 1, 0, 10, 0);
		fix_post(f, IBV_WR_SEND, 2, 0, 10, 0);
		assert_int_equal(fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR).vendor_err,
				 VERR_TIMEOUT);
		assert_took(f, since, 4 * TIMEOUT_10);
		fix_wc(f, 0, 2, IBV_WC_WR_FLUSH_ERR);
		fix_close(f);
	}
}

/* The peer's process sends for other QPs meanwhile.  Returns how long it took until the
 * request failed. */
static uint64_t fails_after(struct fix *f, enum ibv_wr_opcode opcode)
{
	struct sim_pair other = sim_pair(f->s, IBV_QPT_RC, &f->conf);
	uint64_t since = f->s->now, took;
	struct ibv_wc wc;

	fix_post(f, opcode, 1, 0, 8, 0);
	while (cq_poll(f->p.cq[0], 1, &wc) == 0) {
		assert_in_range(f->s->now - since, 0, 100 * TIMEOUT_10);
		sim_send(other.qp[1],
			 &(struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE });
		pair_run(f, MS / 8);
	}
	took = f->s->now - since;
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc.vendor_err, VERR_TIMEOUT);
	sim_unpair(f->s, &other);
	return took;
}

static void what_a_peer_sends_for_others_is_no_answer(void **state)
{
	static const enum ibv_wr_opcode op[] = { IBV_WR_SEND, IBV_WR_RDMA_WRITE,
						 IBV_WR_RDMA_READ,
						 IBV_WR_ATOMIC_FETCH_AND_ADD };

	(void)state;
	for (unsigned i = 0; i < 4; i++)
		for (int how = 0; how < UNREADY; how++) {
			struct fix *f = pair_open(IBV_QPT_RC, &quick);

			if (how == WRONG_PSN) /* a duplicate READ is answered */
				*pair_expected(f, 1) = PSN_MASK - 5;
			else
				make_unready(f, (enum unready)how);
			assert_in_range(fails_after(f, op[i]), 4 * TIMEOUT_10,
					4 * TIMEOUT_10 + MS);
			fix_close(f);
		}
}

/* What the process writes for itself, such as a probe, comes in by the ring that the
 * answer would come by. */
static void what_a_process_asks_itself_is_no_answer(void **state)
{
	const struct ibv_qp_cap cap = { .max_send_wr = 1, .max_send_sge = 1 };
	struct fix *f = pair_open(IBV_QPT_RC, &quick);
	struct qp *qp[2];
	uint64_t since;

	(void)state;
	for (int i = 0; i < 2; i++)
		qp[i] = sim_qp(f->s, 0, IBV_QPT_RC, f->p.cq[0], f->p.cq[0], NULL, &cap);
	sim_bring(f->s, qp[0], qp[1], &f->conf);
	since = f->s->now;
	sim_send(qp[0], &(struct ibv_send_wr){ .opcode = IBV_WR_RDMA_READ });
	assert_int_equal(fix_wc(f, 0, 0, IBV_WC_RETRY_EXC_ERR).vendor_err, VERR_TIMEOUT);
	assert_took(f, since, 4 * TIMEOUT_10);
	for (int i = 0; i < 2; i++)
		sim_destroy(f->s, qp[i]);
	fix_close(f);
}

static void who_becomes_ready_is_found(void **state)
{
	(void)state;
	for (int how = 0; how < UNREADY; how++) {
		struct fix *f;

		if (how == DESTROYED)
			continue;
		f = pair_open(IBV_QPT_RC, &quick);
		make_unready(f, (enum unready)how);
		fix_post(f, IBV_WR_SEND, 1, 0, 3000, 0);
		fix_post(f, IBV_WR_SEND, 2, 3000, 100, 0);
		pair_run(f, 2 * TIMEOUT_10);
		fix_no_wc(f, 0);
		pair_again(f, 1);
		fix_recv(f, 8, 0, 3000);
		fix_recv(f, 9, 3000, 100);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
		assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 3000);
		fix_wc(f, 1, 9, IBV_WC_SUCCESS);
		fix_same(f, 0, 3100);
		fix_close(f);
	}
}

/* --- time ---------------------------------------------------------------- */

static void who_is_stopped_times_out(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &quick);
	uint64_t since = f->s->now;

	(void)state;
	pair_stop(f, 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 10, 0);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR).vendor_err, VERR_TIMEOUT);
	assert_took(f, since, 4 * TIMEOUT_10);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	fix_close(f);
}

static void an_answer_gives_the_retries_back(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &quick);
	uint64_t since;

	(void)state;
	pair_stop(f, 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 10, 0);
	pair_run(f, 4 * TIMEOUT_10 - 1000);
	pair_go(f, 1);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	pair_stop(f, 1);
	since = f->s->now;
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 10, 0);
	fix_wc(f, 0, 2, IBV_WC_RETRY_EXC_ERR);
	assert_in_range(f->s->now - since, 4 * TIMEOUT_10, 5 * TIMEOUT_10 + 1000);
	fix_close(f);
}

static void timeout_0_is_for_ever(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &quick);

	(void)state;
	f->p.qp[0]->attr.timeout = 0;
	pair_stop(f, 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 10, 0);
	pair_run(f, 100 * SEC);
	fix_no_wc(f, 0);
	pair_go(f, 1);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* The peer reads, though slowly, what others have written before. */
static void who_reads_does_not_time_out(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &quick);
	struct ring_shared *ring = pair_peer(f, 0)->out.s;
	uint64_t since;

	(void)state;
	pair_stop(f, 1);
	for (unsigned i = 0; i < 100; i++)
		fix_post(f, IBV_WR_RDMA_WRITE, i, 0, 10, 0);
	for (unsigned i = 0; i < 50; i++) {
		pair_run(f, TIMEOUT_10);
		ring->tail++;
		fix_no_wc(f, 0);
	}
	since = f->s->now;
	fix_wc(f, 0, 0, IBV_WC_RETRY_EXC_ERR);
	assert_in_range(f->s->now - since, 4 * TIMEOUT_10, 5 * TIMEOUT_10 + 1000);
	fix_close(f);
}

/* --- its process ends ---------------------------------------------------- */

static void who_ends_fails_at_once_what_is_out(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	uint64_t since = f->s->now;

	(void)state;
	pair_stop(f, 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 10, 0);
	fix_post(f, IBV_WR_RDMA_READ, 2, 0, 10, 0);
	pair_run(f, 1000);
	sim_leave(f->s, 1);
	f->p.qp[1] = NULL;
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR).vendor_err,
			 VERR_PEER_ENDED);
	assert_took(f, since, 1000);
	fix_wc(f, 0, 2, IBV_WC_WR_FLUSH_ERR);
	fix_close(f);
}

/* What the peer wrote before it ended is taken in; a request posted later fails. */
static void what_it_wrote_before_it_ended_is_taken(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct ibv_sge from = sim_sge(f->mr[1], 0, 5000), to = sim_sge(f->mr[0], 0, 5000);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &from, .num_sge = 1 };

	(void)state;
	sim_recv(f->p.qp[0], 8, &to, 1);
	pair_stop(f, 0);
	sim_send(f->p.qp[1], &wr);
	pair_run(f, 1000);
	sim_leave(f->s, 1);
	f->p.qp[1] = NULL;
	pair_go(f, 0);
	assert_int_equal(fix_wc(f, 0, 8, IBV_WC_SUCCESS).byte_len, 5000);
	fix_same(f, 0, 5000);
	fix_quiet(f);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 10, 0);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR).vendor_err,
			 VERR_PEER_ENDED);
	fix_close(f);
}

/* A SEND has come to A, which has not polled it, and then B ends. */
static struct fix *with_news(void)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct ibv_sge from = sim_sge(f->mr[1], 0, 10), to = sim_sge(f->mr[0], 0, 10);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &from, .num_sge = 1 };

	sim_recv(f->p.qp[0], 8, &to, 1);
	pair_stop(f, 0);
	sim_send(f->p.qp[1], &wr);
	pair_run(f, 1000);
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 10, 0);
	sim_leave(f->s, 1);
	f->p.qp[1] = NULL;
	pair_go(f, 0);
	return f;
}

/* A program that gets all that it waits for is done, and sees no failure besides. */
static void what_came_before_an_end_is_read_before_it(void **state)
{
	struct fix *f = with_news();
	struct ibv_wc wc[4];
	uint64_t since;

	(void)state;
	pair_run(f, 400 * MS);
	assert_int_equal(cq_poll(f->p.cq[0], 4, wc), 1);
	assert_int_equal(wc[0].wr_id, 8);
	assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	since = f->s->now;
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	assert_in_range(f->s->now - since, 0, 1 * MS);
	fix_close(f);
}

/* The completions may be another QP's, and the CQ may never be empty. */
static void an_end_waits_half_a_second_for_its_reader(void **state)
{
	struct fix *f = with_news();
	uint64_t since = f->s->now;
	struct ibv_wc wc[4];

	(void)state;
	fix_quiet(f);
	assert_took(f, since, 500 * MS);
	assert_int_equal(cq_poll(f->p.cq[0], 4, wc), 2);
	assert_int_equal(wc[1].status, IBV_WC_RETRY_EXC_ERR);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_timer_runs_from_when_the_record_went_out),
		cmocka_unit_test(rnr_waits_and_counts),
		cmocka_unit_test(rnr_for_ever),
		cmocka_unit_test(progress_gives_the_retries_back),
		cmocka_unit_test(local_error_behind_an_rnr),
		cmocka_unit_test(who_is_never_ready_costs_all_retries),
		cmocka_unit_test(what_a_peer_sends_for_others_is_no_answer),
		cmocka_unit_test(what_a_process_asks_itself_is_no_answer),
		cmocka_unit_test(who_becomes_ready_is_found),
		cmocka_unit_test(who_is_stopped_times_out),
		cmocka_unit_test(an_answer_gives_the_retries_back),
		cmocka_unit_test(timeout_0_is_for_ever),
		cmocka_unit_test(who_reads_does_not_time_out),
		cmocka_unit_test(who_ends_fails_at_once_what_is_out),
		cmocka_unit_test(what_it_wrote_before_it_ended_is_taken),
		cmocka_unit_test(what_came_before_an_end_is_read_before_it),
		cmocka_unit_test(an_end_waits_half_a_second_for_its_reader),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
