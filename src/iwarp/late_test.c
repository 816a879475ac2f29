/* SPDX-License-Identifier: BSD-2-Clause */
/* A message that finds no receive waits for one. */
#include "iwarp/fix.h"
#include "verbs/await.h"

enum { N = 40, LEN = 3000 };

/* Posts a receive that a message waits for, or that it does not. */
static void recv_for(struct fix *f, uint64_t wr_id, size_t at, uint32_t len, bool awaited)
{
	struct ibv_sge sge = fix_sge(f->mr[1], at, len);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(qp_post_recv(f->p.qp[1], &wr, &bad), awaited);
}

static bool waits(const struct fix *f)
{
	return f->s->node[1].conn[0].paused;
}

/* Messages of all kinds come in order, each when its receive is posted, and what is
 * behind them waits, too. */
static void one_after_the_other(const struct sim_conf *conf)
{
	struct fix *f = fix_open(conf);

	memset(f->mem[1], 0, FIX_MEM);
	for (uint64_t i = 0; i < N; i++) {
		fix_post(f, IBV_WR_RDMA_WRITE, i, FIX_MEM / 2 + i * LEN, LEN, 0);
		fix_post(f, i % 3 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE_WITH_IMM, i, i * LEN,
			 (uint32_t)(LEN - i), 0);
	}
	for (uint64_t i = 0; i < N; i++) {
		struct ibv_wc wc;

		sim_run(f->s, IW_RECV_WAIT_NS / 2);
		assert_true(waits(f));
		fix_no_wc(f, 1);
		assert_memory_equal(f->mem[0] + FIX_MEM / 2 + i * LEN,
				    f->mem[1] + FIX_MEM / 2 + i * LEN, LEN);
		if (i + 1 < N)
			assert_int_equal(f->mem[1][FIX_MEM / 2 + (i + 1) * LEN + 9], 0);
		recv_for(f, i, i * LEN, LEN, true);
		wc = fix_wc(f, 1, i, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, LEN - i);
		fix_same(f, i * LEN, (size_t)(LEN - i));
	}
	assert_false(waits(f));
	fix_close(f);
}

static void each_when_its_receive_is_posted(void **state)
{
	struct sim_conf conf = { 0 };

	(void)state;
	one_after_the_other(&conf);
	conf.stream.seed = 7;
	conf.stream.latency = 1000;
	conf.markers[1] = true;
	for (; conf.stream.seed < 30; conf.stream.seed++)
		one_after_the_other(&conf);
	conf.crc = true;
	conf.stream.depth = 3000;
	one_after_the_other(&conf);
}

/* Receives in rounds: what has a receive does not wait. */
static void in_rounds(void **state)
{
	struct fix *f = fix_open(NULL);

	(void)state;
	for (uint64_t i = 0; i < 8; i++)
		fix_post(f, IBV_WR_SEND, i, i * 64, 64, 0);
	for (uint64_t i = 0; i < 8; i++) {
		if (i % 4 == 0)
			sim_run(f->s, 10 * MS);
		recv_for(f, i, i * 64, 64, i % 4 == 0);
	}
	sim_run(f->s, MS);
	for (uint64_t i = 0; i < 8; i++)
		fix_wc(f, 1, i, IBV_WC_SUCCESS);
	fix_same(f, 0, 8 * 64);
	fix_close(f);
}

/* Lets the time pass, also if nothing happens. */
static void pass(struct fix *f, uint64_t ns)
{
	const uint64_t end = f->s->now + ns;

	sim_run(f->s, ns);
	f->s->now = end;
}

/* The time is that of each message, and then the connection is terminated. */
static void the_time_is_up(void **state)
{
	struct ddp d = raw_untagged(RDMAP_SEND, 0, 1, 0);
	struct fix *f = fix_raw(NULL, false);

	(void)state;
	raw_segment(f, &d, "abc", 3);
	pass(f, IW_RECV_WAIT_NS - MS);
	d.msn = 2;
	raw_segment(f, &d, "def", 3);
	recv_for(f, 1, 0, 3, true);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	pass(f, IW_RECV_WAIT_NS - MS);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	assert_true(waits(f));
	sim_run(f->s, 2 * MS);
	assert_false(waits(f));
	raw_refused(f, TERM_DDP_NO_BUFFER, &d, IBV_EVENT_QP_REQ_ERR);
	fix_close(f);
}

/* In the middle of a message nothing waits, and a message that breaks another rule is
 * refused at once. */
static void only_the_first_segment(void **state)
{
	struct ddp d = raw_untagged(RDMAP_SEND, 0, 1, 0);
	struct fix *f = fix_raw(NULL, false);

	(void)state;
	d.last = false;
	raw_segment(f, &d, "abc", 3);
	sim_run(f->s, MS);
	assert_true(waits(f));
	recv_for(f, 1, 0, 6, true);
	sim_run(f->s, MS);
	assert_false(waits(f));
	d.last = true;
	d.mo = 3;
	raw_segment(f, &d, "def", 3);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	d.msn = 3;
	d.mo = 0;
	raw_segment(f, &d, "x", 1);
	raw_refused(f, TERM_DDP_MSN, &d, IBV_EVENT_QP_REQ_ERR);
	fix_close(f);
}

static void no_time(void **state)
{
	struct ddp d = raw_untagged(RDMAP_IMMEDIATE, 0, 1, 0);
	struct fix *f = fix_raw(NULL, false);

	(void)state;
	fix_iw(f, 1)->iw->late_ns = 0;
	raw_segment(f, &d, "12345678", 8);
	sim_run(f->s, 1);
	assert_false(waits(f));
	raw_refused(f, TERM_DDP_NO_BUFFER, &d, IBV_EVENT_QP_REQ_ERR);
	fix_close(f);
}

/* The peer's FIN comes behind its message. */
static void the_peer_has_closed(void **state)
{
	struct fix *f = fix_open(NULL);

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 64, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	sim_modify(f->s, f->p.qp[0], IBV_QPS_ERR);
	sim_run(f->s, 100 * MS);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	recv_for(f, 2, 0, 64, true);
	fix_wc(f, 1, 2, IBV_WC_SUCCESS);
	sim_run(f->s, MS);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(f->s->node[1].ended[IW_END_PEER], 1);
	fix_close(f);
}

static void to_state(struct fix *f, enum ibv_qp_state to)
{
	sim_modify(f->s, f->p.qp[1], to);
	sim_run(f->s, MS);
	assert_false(waits(f));
	assert_false(f->p.qp[1]->recv.awaited);
}

/* Whatever else ends the wait. */
static void the_qp_ends(void **state)
{
	struct fix *f;

	(void)state;
	for (int how = 0; how < 5; how++) {
		f = fix_open(NULL);
		for (uint64_t i = 0; i < 3; i++)
			fix_post(f, IBV_WR_SEND, i, 0, 64, 0);
		sim_run(f->s, MS);
		assert_true(waits(f));
		assert_true(f->p.qp[1]->recv.awaited);
		switch (how) {
		case 0:
			to_state(f, IBV_QPS_ERR);
			break;
		case 1:
			to_state(f, IBV_QPS_RESET);
			break;
		case 2: /* SQD accepts nothing more: the message is refused */
			to_state(f, IBV_QPS_SQD);
			assert_int_equal(sim_event(f->s, 1), IBV_EVENT_QP_REQ_ERR);
			assert_int_equal(sim_event(f->s, 0), IBV_EVENT_QP_FATAL);
			break;
		case 3: /* as driver/conn.c tells of a reset */
			turn_take(&f->s->node[1].core.turn);
			lock_take(&f->p.qp[1]->lock);
			iwarp_hangup(f->p.qp[1], -ECONNRESET, f->s->now);
			lock_give(&f->p.qp[1]->lock);
			turn_give(&f->s->node[1].core.turn);
			sim_run(f->s, MS);
			assert_false(waits(f));
			assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
			assert_int_equal(f->s->node[1].ended[IW_END_ERROR], 1);
			break;
		default: /* it is destroyed while it waits */
			break;
		}
		fix_close(f);
	}
}

/* Two QPs wait for one SRQ. */
static void an_srq(void **state)
{
	struct ibv_srq_init_attr sa = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	struct ibv_recv_wr *bad_recv, recv = { .wr_id = 7 };
	const struct sim_conf conf = { 0 };
	struct sim *s = sim_open();
	struct sim_pair p[2];
	struct srq *srq;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(srq_create(&s->node[1].ctx, s->node[1].pd, &sa, &srq), 0);
	for (int i = 0; i < 2; i++) {
		p[i] = sim_pair(s, srq);
		sim_connect(s, &p[i], &conf);
		assert_int_equal(qp_post_send(p[i].qp[0], &wr, &bad), 0);
		sim_run(s, MS);
		assert_true(s->node[1].conn[i].paused);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(srq_post(srq, &recv, &bad_recv), 1);
		sim_run(s, MS);
		assert_int_equal(cq_poll(p[i].cq[1], 1, &wc), 1);
		assert_int_equal(wc.wr_id, 7);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_false(s->node[1].conn[i].paused);
		assert_int_equal(s->node[1].conn[1].paused, i == 0);
	}
	sim_unpair(&p[0]);
	sim_unpair(&p[1]);
	assert_int_equal(srq_destroy(srq), 0);
	sim_close(s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_when_its_receive_is_posted),
		cmocka_unit_test(in_rounds),
		cmocka_unit_test(the_time_is_up),
		cmocka_unit_test(only_the_first_segment),
		cmocka_unit_test(no_time),
		cmocka_unit_test(the_peer_has_closed),
		cmocka_unit_test(the_qp_ends),
		cmocka_unit_test(an_srq),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
