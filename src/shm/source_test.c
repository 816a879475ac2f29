/* SPDX-License-Identifier: BSD-2-Clause */
/* How requests end that are not acknowledged. */
#include "shm/fix.h"

/* Posts a SEND whose memory is not registered. */
static void post_bad(struct fix *f, uint64_t id)
{
	f->mr[0]->mkey.key ^= 1;
	post_at(f, 0, id, 0, 8, 0);
	f->mr[0]->mkey.key ^= 1;
}

static void a_request_that_fails_here(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	recv_at(f, 1, 1, 0, 8);
	post_at(f, 0, 1, 0, 8, 0);
	post_bad(f, 2);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

static void a_peer_that_is_stopped(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .retry_cnt = 2, .timeout = 10 });

	(void)state;
	pair_stop(f, 1);
	post_at(f, 0, 1, 0, 8, 0);
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	assert_true(f->s->now > 3 * 4 * MS);
	pair_go(f, 1);
	fix_close(f);
}

static void a_peer_that_ends(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	pair_stop(f, 1);
	post_at(f, 0, 1, 0, 8, 0);
	pair_run(f, MS);
	sim_leave(f->s, 1);
	f->p.qp[1] = NULL;
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	fix_close(f);
}

/* The request that has begun ends, although it has to be sent again; the next one waits
 * for RTS, and no timer runs for it. */
static void a_queue_that_drains(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .retry_cnt = 1, .timeout = 10 });

	(void)state;
	post_at(f, 0, 1, 0, 8, 0);
	pair_run(f, 20 * MS);
	fix_modify(f, 0, IBV_QPS_SQD);
	post_at(f, 0, 2, 100, 8, 0);
	pair_run(f, 20 * MS);
	recv_at(f, 1, 1, 5000, 8);
	recv_at(f, 1, 2, 6000, 8);
	came(f, 1, 1, 5000, 0, 8);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	pair_run(f, 100 * MS);
	fix_no_wc(f, 0);
	fix_modify(f, 0, IBV_QPS_RTS);
	came(f, 1, 2, 6000, 100, 8);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

static void invalidate(struct qp *qp, uint64_t id, uint32_t key)
{
	struct ibv_send_wr wr = { .wr_id = id,
				  .opcode = IBV_WR_LOCAL_INV,
				  .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = key };

	post_now(qp, &wr);
}

/* Nobody tells when a request without a completion was executed: the queue drains, and a
 * request fails or is carried out behind it, without a timeout. */
static void what_waits_for_unsignaled_requests(void **state)
{
	enum { FAILS, DRAINS, INVALIDATES, WAYS };

	for (int way = 0; way < WAYS; way++) {
		struct fix *f = plain_pair();
		struct qp *qp = f->p.qp[0];
		struct ibv_sge sge = sim_sge(f->mr[0], 0, 8);
		struct ibv_send_wr wr = send_wr(1, &sge, 1, 0);

		(void)state;
		wr.send_flags = 0;
		recv_at(f, 1, 1, 0, 8);
		pair_stop(f, 1);
		post_now(qp, &wr);
		if (way == DRAINS)
			fix_modify(f, 0, IBV_QPS_SQD);
		else if (way == FAILS)
			post_bad(f, 2);
		else
			invalidate(qp, 2, f->mr[0]->mkey.key);
		pair_run(f, MS);
		fix_no_wc(f, 0);
		assert_int_equal(qp->sq.head - qp->sq.tail, way == DRAINS ? 1 : 2);
		pair_go(f, 1);
		/* What begins behind finds no receive, and nobody polls the first's. */
		pair_run(f, 30 * MS);
		assert_int_equal(qp->sq.tail, qp->sq.head);
		if (way == DRAINS)
			assert_false(qp->sqd.draining);
		else
			fix_wc(f, 0, 2,
			       way == FAILS ? IBV_WC_LOC_PROT_ERR : IBV_WC_MW_BIND_ERR);
		fix_wc(f, 1, 1, IBV_WC_SUCCESS);
		fix_close(f);
	}
}

/* A window is bound and invalidated in its turn among SENDs. */
static void binds(void **state)
{
	struct fix *f = plain_pair();
	struct sim_node *n = &f->s->node[0];
	struct ibv_send_wr bind = { .wr_id = 2,
				    .opcode = IBV_WR_BIND_MW,
				    .send_flags = IBV_SEND_SIGNALED };
	struct qp *qp = f->p.qp[0];
	struct mr *mr;
	struct mw *mw;

	(void)state;
	mr = sim_mr(f->s, 0, f->mem[0], 4096, FIX_ALL | IBV_ACCESS_MW_BIND);
	assert_int_equal(mw_alloc(n->pd, IBV_MW_TYPE_2, &mw), 0);
	bind.bind_mw.mw = &mw->ibv;
	bind.bind_mw.rkey = mw->ibv.rkey + 1;
	bind.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = &mr->ibv,
		.addr = mr->mkey.base,
		.length = 64,
		.mw_access_flags = IBV_ACCESS_REMOTE_READ,
	};
	recv_at(f, 1, 1, 0, 8);
	recv_at(f, 1, 2, 0, 8);
	post_at(f, 0, 1, 0, 8, 0);
	post_now(qp, &bind);
	post_at(f, 0, 3, 0, 8, 0);
	invalidate(qp, 4, mw->ibv.rkey);
	for (uint64_t id = 1; id <= 4; id++)
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
	assert_false(mw->mkey.valid);
	assert_int_equal(mw_dealloc(mw), 0);
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

/* The peer says more than the last words that it keeps, before this process looks. */
static void more_words_than_are_kept(void **state)
{
	enum { MORE = 2 * ANSWERS };
	struct sim_conf conf = { .same_host = true, .pipe_only = true };
	struct fix *f = plain_pair();
	struct sim_pair more[MORE];
	struct ibv_wc wc;

	(void)state;
	for (int i = 0; i < MORE; i++)
		more[i] = sim_pair(f->s, IBV_QPT_RC, &conf);
	pair_run(f, MS);
	pair_stop(f, 1);
	for (int i = 0; i < MORE; i++) {
		struct ibv_sge sge = sim_sge(f->mr[0], 100 * (size_t)i, 8);
		struct ibv_send_wr wr = send_wr(1, &sge, 1, 0);

		wr.opcode = i % 2 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ;
		wr.wr.rdma.remote_addr = f->mr[1]->mkey.base + 100 * (size_t)i;
		wr.wr.rdma.rkey = f->mr[1]->mkey.key;
		post_now(more[i].qp[0], &wr);
	}
	pair_run(f, MS);
	pair_stop(f, 0);
	pair_go(f, 1);
	pair_run(f, MS);
	assert_true(pair_peer(f, 0)->answered->count - pair_peer(f, 0)->heard > ANSWERS);
	pair_go(f, 0);
	for (int i = 0; i < MORE; i++) {
		assert_true(sim_wait(f->s, more[i].cq[0], MS, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		fix_same(f, 100 * (size_t)i, 8);
	}
	for (int i = 0; i < MORE; i++)
		sim_unpair(f->s, &more[i]);
	fix_close(f);
}

/* Two NAKs were said before this process looks.  It hears the last one while it takes in
 * what the peer sends, and then of both: that is one RNR NAK, and not two. */
static void a_nak_that_is_heard_before_an_older_one(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .rnr_retry = 1 });
	struct shm_qp *b = shm_qp(f->p.qp[1]);
	const uint32_t count = b->dst.count;

	(void)state;
	recv_at(f, 0, 2, 5000, 8);
	pair_stop(f, 0);
	stray(f, 0, SEGMENT_ONLY, psn_add(b->dst.expected, 5));
	pair_run(f, MS);
	post_at(f, 0, 1, 0, 8, 0);
	stray(f, 0, SEGMENT_ONLY, psn_add(b->dst.expected, 5)); /* with a KICK */
	pair_run(f, 4 * MS);
	assert_int_equal(b->dst.count, count + 2);
	post_at(f, 1, 1, 0, 8, 0);
	recv_at(f, 1, 1, 5000, 8);
	pair_go(f, 0);
	came(f, 0, 2, 5000, 0, 8);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* The first NAK that a source hears has any count. */
static void a_first_nak_of_any_count(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	for (int side = 0; side < 2; side++)
		fix_modify(f, side, IBV_QPS_RESET);
	sim_bring(f->s, f->p.qp[0], f->p.qp[1], &f->conf);
	pair_stop(f, 0);
	shm_qp(f->p.qp[1])->dst.count = COUNT_MASK - 1;
	sim_bring(f->s, f->p.qp[1], f->p.qp[0], &f->conf);
	for (uint64_t id = 0; id <= ANSWERS; id++) {
		f->mr[1]->mkey.key ^= id == ANSWERS;
		post_to(f, 0, IBV_WR_RDMA_WRITE, id, 0, 0, 8, 0);
	}
	f->mr[1]->mkey.key ^= 1;
	pair_run(f, MS);
	assert_int_equal(shm_qp(f->p.qp[1])->dst.count, 0);
	pair_go(f, 0);
	for (uint64_t id = 0; id < ANSWERS; id++)
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
	fix_wc(f, 0, ANSWERS, IBV_WC_REM_ACCESS_ERR);
	pair_event(f, 1, IBV_EVENT_QP_ACCESS_ERR);
	fix_close(f);
}

/* Side's QP asks for all segments from the one that it has not got. */
static void ask_again(struct fix *f, int side)
{
	struct core *core = &f->s->node[side].core;
	struct shm_qp *q = shm_qp(f->p.qp[side]);
	uint64_t word;

	q->dst.count = (q->dst.count + 1) & COUNT_MASK;
	word = shm_qp(f->p.qp[!side])->src.says |
	       (uint64_t)q->dst.count << WORD_COUNT_AT |
	       (uint64_t)aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE) << WORD_SYNDROME_AT |
	       q->dst.expected;
	atomic_store(q->word, word);
	turn_take(&core->turn);
	peer_nudge(q->peer, word);
	peers_flush(peers_of(core));
	turn_give(&core->turn);
}

/* Asking again costs nothing for as often as a peer may need it, and a retry after that.
 */
static void a_peer_that_asks_again_for_ever(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .retry_cnt = 3 });
	unsigned n = 0;

	(void)state;
	f->p.qp[0]->attr.timeout = 0;
	pair_stop(f, 1); /* it answers nothing but this */
	post_at(f, 0, 1, 0, 8, 0);
	pair_run(f, 10000);
	for (; f->p.qp[0]->state == IBV_QPS_RTS && n < 10000; n++) {
		ask_again(f, 1);
		pair_run(f, 1000);
	}
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	assert_in_range(n, 1000, 1010);
	pair_go(f, 1);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_that_drains),
		cmocka_unit_test(a_peer_that_asks_again_for_ever),
		cmocka_unit_test(binds),
		cmocka_unit_test(a_request_that_fails_here),
		cmocka_unit_test(a_peer_that_is_stopped),
		cmocka_unit_test(what_waits_for_unsignaled_requests),
		cmocka_unit_test(a_peer_that_ends),
		cmocka_unit_test(more_words_than_are_kept),
		cmocka_unit_test(a_nak_that_is_heard_before_an_older_one),
		cmocka_unit_test(a_first_nak_of_any_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
