/* SPDX-License-Identifier: BSD-2-Clause */
/* How connections begin and end, and their QPs with them. */
#include "iwarp/fix.h"

#include <sys/mman.h>

static void no_way_to_rts_without_a_connection(void **state)
{
	struct fix *f = fix_make();
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };

	(void)state;
	assert_int_equal(qp_modify(f->p.qp[0], &a, IBV_QP_STATE, 1), -EINVAL);
	a.qp_state = IBV_QPS_RTS;
	assert_int_equal(qp_modify(f->p.qp[0], &a, IBV_QP_STATE, 1), -EINVAL);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_INIT);
	fix_close(f);
}

static int attach(struct fix *f, struct stream *s, const struct iw_params *p)
{
	struct turn *turn = &f->s->node[1].core.turn;
	int rc;

	turn_take(turn);
	rc = iwarp_attach(f->p.qp[1], s, p, NULL, NULL, 1);
	turn_give(turn);
	return rc;
}

/* The engine cannot take the stream: it still belongs to the caller, unharmed. */
static void attaching_fails(void **state)
{
	const struct iw_params p = { .initiator = true, .revision = 2, .mss = 1448 };
	struct stream_loop_conf c = { .latency = 0 };
	struct fix *f = fix_make();
	struct sim_conn *conn = f->s->node[1].conn;
	struct stream *s[2];

	(void)state;
	assert_int_equal(stream_loop_pair(&s[0], &s[1], &c), 0);
	for (int i = 0; i < SIM_PAIRS; i++)
		conn[i].qp = f->p.qp[1]; /* no room */
	assert_int_equal(attach(f, s[1], &p), -ENOMEM);
	for (int i = 0; i < SIM_PAIRS; i++)
		conn[i].qp = NULL;
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_INIT);
	assert_null(iwarp_stream(f->p.qp[1]));
	assert_int_equal(attach(f, s[1], &p), 0);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	/* A QP can be attached only once. */
	assert_int_equal(attach(f, s[0], &p), -EINVAL);
	assert_ptr_equal(iwarp_stream(f->p.qp[1]), s[1]);
	s[0]->ops->close(s[0]);
	fix_close(f);
}

/* SQD: posted work requests are sent, then FIN; the peer's QP is flushed. */
static void closing_in_order(void **state)
{
	struct sim_conf c = { .stream = { .latency = 1000 } };
	struct fix *f = fix_open(&c);

	(void)state;
	fix_recv(f, 8, 0, 100);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 200000, 0);
	fix_post(f, IBV_WR_RDMA_READ, 2, 0, 100000, 0);
	sim_modify(f->s, f->p.qp[0], IBV_QPS_SQD);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_wc(f, 1, 8, IBV_WC_WR_FLUSH_ERR);
	sim_run(f->s, SEC);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(f->s->node[1].ended[IW_END_PEER], 1);
	assert_int_equal(f->s->node[0].ended[IW_END_US], 1);
	assert_int_equal(sim_event(f->s, 1), -1);
	assert_null(f->s->node[0].conn[0].qp);
	assert_null(f->s->node[1].conn[0].qp);
	fix_close(f);
}

static void reset_and_connect_again(void **state)
{
	struct fix *f = fix_open(NULL);
	struct sim_conf c = { .crc = true };

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	sim_modify(f->s, f->p.qp[0], IBV_QPS_ERR);
	sim_run(f->s, 10 * SEC);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	for (int i = 0; i < 2; i++) {
		struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT,
					 .qp_access_flags = IBV_ACCESS_REMOTE_WRITE };

		sim_modify(f->s, f->p.qp[i], IBV_QPS_RESET);
		assert_int_equal(qp_modify(f->p.qp[i], &a,
					   IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, f->s->now),
				 0);
	}
	sim_connect(f->s, &f->p, &c);
	memset(f->mem[1], 0, 5000);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 5000, 0);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	sim_run(f->s, SEC);
	fix_same(f, 0, 5000);
	fix_close(f);
}

static void a_lost_connection(void **state)
{
	struct sim_conf c = { .stream = { .latency = 1000 } };
	struct fix *f = fix_open(&c);

	(void)state;
	fix_recv(f, 8, 0, 100);
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 100000, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 100, 0);
	stream_loop_break(f->p.stream[0], ECONNRESET);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR).vendor_err,
			 VERR_CONNECTION);
	fix_wc(f, 0, 2, IBV_WC_WR_FLUSH_ERR);
	fix_wc(f, 1, 8, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->s->node[0].ended[IW_END_ERROR], 1);
	assert_int_equal(f->s->node[1].ended[IW_END_ERROR], 1);
	fix_close(f);
}

/* A FIN within an FPDU is no orderly end. */
static void cut_off(void **state)
{
	struct fix *f = fix_raw(NULL, true);
	struct ibv_sge sge = fix_sge(f->mr[1], 0, 8);
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1
	};

	(void)state;
	fix_send(f, 1, &wr);
	raw_bytes(f, "\0\x16\x41", 3);
	f->raw->ops->fin(f->raw);
	assert_int_equal(fix_wc(f, 1, 1, IBV_WC_RETRY_EXC_ERR).vendor_err,
			 VERR_CONNECTION);
	assert_int_equal(f->s->node[1].ended[IW_END_ERROR], 1);
	fix_close(f);
}

/* This side ends the connection within an FPDU of the peer: no error is reported. */
static void we_hang_up(void **state)
{
	struct fix *f = fix_raw(NULL, true);
	struct ibv_sge sge = fix_sge(f->mr[1], 0, 8);
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1
	};

	(void)state;
	fix_send(f, 1, &wr);
	raw_bytes(f, "\0\x16\x41", 3);
	sim_run(f->s, MS);
	turn_take(&f->s->node[1].core.turn);
	lock_take(&f->p.qp[1]->lock);
	iwarp_disconnect(f->p.qp[1], f->s->now);
	lock_give(&f->p.qp[1]->lock);
	turn_give(&f->s->node[1].core.turn);
	fix_wc(f, 1, 1, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->s->node[1].ended[IW_END_US], 1);
	fix_close(f);
}

/* The peer takes nothing, so what has begun cannot go out: after a second the connection
 * ends all the same. */
static void a_peer_that_takes_nothing(void **state)
{
	struct sim_conf c = { .stream = { .depth = 3000 } };
	struct fix *f = fix_raw(&c, true);
	struct ibv_sge sge = fix_sge(f->mr[1], 0, 100000);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1 };

	(void)state;
	fix_send(f, 1, &wr);
	sim_run(f->s, SEC / 2);
	assert_true(fix_iw(f, 1)->tail_at < fix_iw(f, 1)->tail_end);
	sim_modify(f->s, f->p.qp[1], IBV_QPS_ERR);
	sim_run(f->s, SEC / 2);
	assert_non_null(f->s->node[1].conn[0].qp);
	sim_run(f->s, SEC);
	assert_null(f->s->node[1].conn[0].qp);
	fix_close(f);
}

static void a_bad_lkey(void **state)
{
	struct fix *f = fix_open(NULL);
	struct ibv_sge sge = { (uintptr_t)f->mem[0], 100, f->mr[0]->mkey.key ^ 1 };
	struct ibv_send_wr wr = {
		.wr_id = 2, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1
	};

	(void)state;
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 100, 0);
	fix_send(f, 0, &wr);
	fix_post(f, IBV_WR_RDMA_WRITE, 3, 0, 100, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR).vendor_err, VERR_LOCAL_KEY);
	fix_wc(f, 0, 3, IBV_WC_WR_FLUSH_ERR);
	sim_run(f->s, SEC);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(sim_event(f->s, 1), IBV_EVENT_QP_FATAL);
	fix_close(f);
}

/* Memory is unmapped: the work request fails, in its order. */
static void unmapped(bool crc)
{
	struct sim_conf c = { .crc = crc };
	struct fix *f = fix_open(&c);
	void *at = mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mr *mr = sim_mr(f->s, 0, at, 1 << 16, FIX_ALL);
	struct ibv_sge sge = fix_sge(mr, 0, 1 << 16);
	struct ibv_send_wr wr = {
		.wr_id = 2,
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { f->mr[1]->mkey.base, f->mr[1]->mkey.key },
	};

	munmap((char *)at + 8192, (1 << 16) - 8192);
	fix_iw(f, 0)->careful = true; /* as after sendmsg's EFAULT */
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	fix_send(f, 0, &wr);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR).vendor_err,
			 VERR_LOCAL_FAULT);
	sim_run(f->s, SEC);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(mr_dereg(mr), 0);
	munmap(at, 8192);
	fix_close(f);
}

static void unmapped_memory(void **state)
{
	(void)state;
	unmapped(false);
	unmapped(true);
}

/* The fault is found when half an FPDU was sent: it is still known whose memory it was, a
 * response's or a SEND's; the SEND may come after a WRITE or a READ. */
enum whose { ANSWER, SEND, AFTER_WRITE, AFTER_READ };

NO_TSA static void unmapped_half_way(enum whose whose)
{
	const bool answer = whose == ANSWER;
	const size_t half =
		2 * 1448 + 100 + /* a little of the third FPDU */
		(whose == AFTER_WRITE ? mpa_fpdu_len(DDP_TAGGED_LEN + 100) : 0) +
		(whose == AFTER_READ ? mpa_fpdu_len(DDP_UNTAGGED_LEN + RDMAP_READ_LEN)
				     : 0);
	struct fix *f = fix_raw(NULL, !answer);
	struct qp *qp = f->p.qp[1];
	uint8_t *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mr *mr = sim_mr(f->s, 1, at, 8192, FIX_ALL);
	struct ibv_sge sge = fix_sge(mr, 0, 8192);
	struct ibv_send_wr wr = {
		.wr_id = 1, .opcode = IBV_WR_SEND, .sg_list = &sge, .num_sge = 1
	};
	struct ibv_sge other = fix_sge(f->mr[1], 0, 100);
	struct ibv_send_wr first = { .wr_id = 9,
				     .opcode = whose == AFTER_READ ? IBV_WR_RDMA_READ
								   : IBV_WR_RDMA_WRITE,
				     .sg_list = &other,
				     .num_sge = 1,
				     .send_flags = IBV_SEND_SIGNALED };
	struct ddp d = raw_untagged(RDMAP_READ_REQUEST, 1, 1, 0);
	struct rdmap_read r = { .len = 8192,
				.src_stag = mr->mkey.key,
				.src_to = mr->mkey.base };
	uint8_t body[RDMAP_READ_LEN];
	const struct iovec *iov;
	struct iovec room[2];
	ssize_t n;

	rdmap_read_build(body, &r);
	if (answer)
		raw_segment(f, &d, body, sizeof(body));
	if (whose == AFTER_WRITE || whose == AFTER_READ)
		fix_send(f, 1, &first);
	if (!answer)
		fix_send(f, 1, &wr);
	turn_take(&qp->core->turn);
	lock_take(&qp->lock);
	if (answer) {
		n = f->p.stream[1]->ops->recv(f->p.stream[1], room, iwarp_room(qp, room),
					      f->s->now);
		assert_true(n > 0);
		iwarp_received(qp, (size_t)n, f->s->now);
	}
	assert_true(iwarp_output(qp, &iov, f->s->now) > 0);
	munmap(at + 4096, 4096);
	iwarp_sent(qp, (ssize_t)half, f->s->now);
	lock_give(&qp->lock);
	turn_give(&qp->core->turn);
	assert_int_equal(qp->state, IBV_QPS_ERR);
	if (whose == AFTER_WRITE || whose == AFTER_READ)
		fix_wc(f, 1, 9,
		       whose == AFTER_WRITE ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
	if (!answer)
		assert_int_equal(fix_wc(f, 1, 1, IBV_WC_LOC_PROT_ERR).vendor_err,
				 VERR_LOCAL_FAULT);
	assert_int_equal(sim_event(f->s, 1), answer ? IBV_EVENT_QP_ACCESS_ERR : -1);
	/* The stream cannot be used any more. */
	sim_run(f->s, MS);
	assert_null(f->s->node[1].conn[0].qp);
	assert_int_equal(mr_dereg(mr), 0);
	munmap(at, 4096);
	fix_close(f);
}

static void memory_goes_half_way(void **state)
{
	(void)state;
	unmapped_half_way(ANSWER);
	unmapped_half_way(SEND);
	unmapped_half_way(AFTER_WRITE);
	unmapped_half_way(AFTER_READ);
}

static void a_full_cq(void **state)
{
	struct fix *f = fix_open(NULL);
	struct cq *cq;

	(void)state;
	assert_int_equal(cq_create(&f->s->node[0].ctx, 2, NULL, NULL, &cq), 0);
	f->p.qp[0]->send_cq = cq;
	for (uint64_t i = 0; i < 20; i++)
		fix_post(f, IBV_WR_RDMA_WRITE, i, 0, 8, 0);
	sim_run(f->s, 10 * SEC);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	f->p.qp[0]->send_cq = f->p.cq[0];
	while (sim_event(f->s, 0) >= 0)
		;
	assert_int_equal(cq_destroy(cq), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_way_to_rts_without_a_connection),
		cmocka_unit_test(attaching_fails),
		cmocka_unit_test(closing_in_order),
		cmocka_unit_test(reset_and_connect_again),
		cmocka_unit_test(a_lost_connection),
		cmocka_unit_test(cut_off),
		cmocka_unit_test(we_hang_up),
		cmocka_unit_test(a_peer_that_takes_nothing),
		cmocka_unit_test(a_bad_lkey),
		cmocka_unit_test(unmapped_memory),
		cmocka_unit_test(memory_goes_half_way),
		cmocka_unit_test(a_full_cq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
