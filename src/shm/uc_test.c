/* SPDX-License-Identifier: BSD-2-Clause */
/* UC by segments: no answers; a broken message is dropped as a whole. */
#include "shm/fix.h"
#include "sys/log_testing.h"

static struct fix *uc_pair(void)
{
	return open_pair_of(IBV_QPT_UC, (struct sim_conf){ .psn = { 0xfffff0, 7 } });
}

/* A posts so that the thread that posts sends it, or (engine) leaves it to the engine. */
static void post_by(struct fix *f, bool engine, enum ibv_wr_opcode opcode, uint64_t id,
		    size_t at, uint32_t len)
{
	if (engine)
		fix_post(f, opcode, id, at, len, 0);
	else
		post_to(f, 0, opcode, id, at, at, len, 0x12345678);
}

static void sends_and_writes(void **state)
{
	for (int engine = 0; engine < 2; engine++) {
		struct fix *f = uc_pair();
		const uint32_t before = pair_peer(f, 1)->out.head;
		struct ibv_wc wc;

		(void)state;
		fix_recv(f, 8, 0, 30000);
		fix_recv(f, 9, 200000, 100);
		sim_recv(f->p.qp[1], 10, NULL, 0);
		post_by(f, engine, IBV_WR_SEND, 1, 0, 30000);
		post_by(f, engine, IBV_WR_SEND_WITH_IMM, 2, 200000, 100);
		post_by(f, engine, IBV_WR_RDMA_WRITE, 3, 50000, 50000);
		post_by(f, engine, IBV_WR_RDMA_WRITE_WITH_IMM, 4, 100000, 100);
		for (unsigned i = 1; i <= 4; i++)
			fix_wc(f, 0, i, IBV_WC_SUCCESS);
		assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 30000);
		wc = fix_wc(f, 1, 9, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, 100);
		assert_int_equal(wc.imm_data, 0x12345678);
		wc = fix_wc(f, 1, 10, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, 100);
		assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
		assert_int_equal(wc.imm_data, 0x12345678);
		fix_same(f, 0, 30000);
		fix_same(f, 50000, 50000);
		fix_same(f, 100000, 100);
		fix_same(f, 200000, 100);
		assert_int_equal(pair_peer(f, 1)->out.head, before);
		assert_int_equal(atomic_load(&pair_peer(f, 1)->answers->count), 0);
		assert_true(list_empty(&pair_peer(f, 0)->unanswered));
		fix_close(f);
	}
}

/* In RTR the first message raises an event. */
static void the_first_message_is_told(void **state)
{
	struct fix *f = uc_pair();

	(void)state;
	f->p.qp[1]->state = IBV_QPS_RTR;
	post_by(f, false, IBV_WR_RDMA_WRITE, 1, 0, 100);
	fix_quiet(f);
	pair_event(f, 1, IBV_EVENT_COMM_EST);
	fix_close(f);
}

/* A peer that does not agree on a pipe delays requests only for a while, too, and gets
 * what is posted later. */
static void a_peer_that_is_not_up(void **state)
{
	const struct sim_conf conf = { .same_host = true, .pipe_only = true };
	struct fix *f = fix_open(IBV_QPT_UC, &conf);

	(void)state;
	pair_stop(f, 1);
	for (unsigned i = 0; i < 3; i++)
		post_by(f, i, i < 2 ? IBV_WR_SEND : IBV_WR_RDMA_WRITE, i, 0, 40000);
	pair_run(f, 50 * MS);
	assert_int_equal(shm_qp(f->p.qp[0])->peer->state, PEER_OPENING);
	fix_no_wc(f, 0);
	pair_run(f, 60 * MS);
	for (unsigned i = 0; i < 3; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	pair_go(f, 1);
	fix_quiet(f);
	assert_int_equal(shm_qp(f->p.qp[0])->peer->state, PEER_UP);
	fix_recv(f, 8, 0, 100);
	post_by(f, false, IBV_WR_SEND, 4, 0, 100);
	fix_wc(f, 0, 4, IBV_WC_SUCCESS);
	assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 100);
	fix_close(f);
}

/* A request is complete when it is written: the peer need not read it. */
static void a_stopped_peer_costs_nothing(void **state)
{
	struct fix *f = uc_pair();

	(void)state;
	pair_stop(f, 1);
	for (int engine = 0; engine < 2; engine++) {
		post_by(f, engine, IBV_WR_SEND, 1, 0, 3000);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	}
	pair_run(f, 10 * SEC);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
	assert_int_equal(shm_qp(f->p.qp[0])->src.timeout_at, NEVER);
	fix_close(f);
}

/* A peer whose ring is full delays requests only for a while. */
static void nor_does_one_whose_ring_is_full(void **state)
{
	/* A request takes 251 slots and the ring the last one without room for a pad. */
	enum { N = 40, FIT = 28 };

	for (int engine = 0; engine < 2; engine++) {
		struct fix *f = uc_pair();
		uint64_t since;

		(void)state;
		pair_stop(f, 1);
		for (unsigned i = 0; i < N; i++)
			post_by(f, engine, IBV_WR_SEND, i, 0, 16000);
		pair_run(f, 50 * MS);
		for (unsigned i = 0; i < FIT; i++)
			fix_wc(f, 0, i, IBV_WC_SUCCESS);
		fix_no_wc(f, 0);
		pair_run(f, 60 * MS);
		for (unsigned i = FIT; i < N; i++)
			fix_wc(f, 0, i, IBV_WC_SUCCESS);
		since = f->s->now; /* it does not wait a second time */
		post_by(f, engine, IBV_WR_SEND, N, 0, 40000);
		fix_wc(f, 0, N, IBV_WC_SUCCESS);
		assert_true(f->s->now - since < MS);
		pair_go(f, 1);
		pair_run(f, MS);
		fix_recv(f, 8, 0, 16000);
		post_by(f, engine, IBV_WR_SEND, N + 1, 0, 100);
		fix_wc(f, 0, N + 1, IBV_WC_SUCCESS);
		assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 100);
		fix_close(f);
	}
}

/* Nor does a QP wait for another one that has waited less. */
static void each_waits_for_itself(void **state)
{
	enum { N = 40 };
	struct fix *f = uc_pair();
	struct sim_pair more =
		sim_pair(f->s, IBV_QPT_UC, &(struct sim_conf){ .same_host = true });
	struct ibv_sge sge = sim_sge(f->mr[0], 0, 16000);
	struct ibv_send_wr wr = send_wr(1, &sge, 1, 0);
	struct ibv_wc wc;

	(void)state;
	pair_run(f, MS);
	pair_stop(f, 1);
	for (unsigned i = 0; i < N; i++)
		post_by(f, false, IBV_WR_SEND, i, 0, 16000);
	pair_run(f, 50 * MS);
	post_now(more.qp[0], &wr);
	pair_run(f, 60 * MS);
	for (unsigned i = 0; i < N; i++)
		assert_int_equal(cq_poll(f->p.cq[0], 1, &wc), 1);
	assert_true(sim_wait(f->s, more.cq[0], 60 * MS, &wc));
	sim_unpair(f->s, &more);
	fix_close(f);
}

/* The peer reads on before the time is over: nothing is lost. */
static void a_full_ring_that_is_read(void **state)
{
	enum { N = 40 };
	struct fix *f = uc_pair();

	(void)state;
	for (unsigned i = 0; i < N; i++)
		fix_recv(f, i, 0, 16000);
	pair_stop(f, 1);
	for (unsigned i = 0; i < N; i++)
		post_by(f, false, IBV_WR_SEND, i, 0, 16000);
	pair_run(f, 50 * MS);
	pair_go(f, 1);
	for (unsigned i = 0; i < N; i++) {
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
		fix_wc(f, 1, i, IBV_WC_SUCCESS);
	}
	fix_close(f);
}

/* What cannot be sent fails as ever; what can is lost. */
static void an_ended_peer_costs_nothing(void **state)
{
	struct fix *f = uc_pair();
	struct ibv_sge sge = sim_sge(f->mr[0], FIX_MEM, 100);
	struct ibv_send_wr wr = send_wr(8, &sge, 1, 0);

	(void)state;
	sim_leave(f->s, 1);
	f->p.qp[1] = NULL;
	for (unsigned i = 0; i < 3; i++) {
		fix_post(f, IBV_WR_SEND, i, 0, 40000, 0);
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	}
	assert_true(atomic_load(&shm_qp(f->p.qp[0])->peer->closed));
	post_at(f, 0, 7, 0, 100, 0);
	fix_wc(f, 0, 7, IBV_WC_SUCCESS);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
	post_now(f->p.qp[0], &wr);
	fix_wc(f, 0, 8, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_SQE);
	fix_close(f);
}

/* So does one that ends over a full ring. */
static void nor_does_one_that_ends_over_a_full_ring(void **state)
{
	enum { N = 40 };
	struct fix *f = uc_pair();

	(void)state;
	pair_stop(f, 1);
	for (unsigned i = 0; i < N; i++)
		post_by(f, false, IBV_WR_SEND, i, 0, 16000);
	pair_run(f, MS);
	sim_leave(f->s, 1);
	f->p.qp[1] = NULL;
	for (unsigned i = 0; i < N; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_close(f);
}

static void no_receive_no_error(void **state)
{
	struct fix *f = uc_pair();

	(void)state;
	post_by(f, false, IBV_WR_SEND, 1, 0, 30000); /* no receive is posted */
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_quiet(f);
	assert_int_equal(ib_counter(&f->s->node[1].core, IB_RX_UC_DROPPED), 2);
	fix_recv(f, 8, 0, 20000);
	/* longer than the receive */
	post_by(f, false, IBV_WR_SEND, 2, 100000, 30000);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_quiet(f);
	fix_no_wc(f, 1);
	post_by(f, false, IBV_WR_SEND, 3, 0, 10);
	assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 10);
	fix_same(f, 0, 10);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	/* Not into the receive of the message before */
	post_by(f, false, IBV_WR_SEND, 4, 10000, 3000);
	fix_quiet(f);
	fix_same(f, 0, 10);
	fix_close(f);
}

static void no_right_no_error(void **state)
{
	struct fix *f = uc_pair();
	uint8_t before = f->mem[1][0];

	(void)state;
	fix_recv(f, 8, 0, 100);
	f->mr[1]->mkey.access = 0;
	post_by(f, false, IBV_WR_RDMA_WRITE, 1, 0, 20000);
	post_by(f, false, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 20);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_quiet(f);
	fix_no_wc(f, 1);
	assert_int_equal(f->mem[1][0], before);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	assert_int_equal(sim_event(f->s, 1), -1);
	f->mr[1]->mkey.access = FIX_ALL;
	post_by(f, false, IBV_WR_RDMA_WRITE, 3, 0, 20000);
	fix_quiet(f);
	fix_same(f, 0, 20000);
	fix_close(f);
}

/* An error of the receive itself is one of the QP. */
static void a_receive_that_cannot_be_filled(void **state)
{
	struct fix *f = uc_pair();

	(void)state;
	fix_recv(f, 8, 0, 100);
	f->mr[1]->mkey.access = 0;
	post_by(f, false, IBV_WR_SEND, 1, 0, 100);
	fix_wc(f, 1, 8, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	f->mr[1]->mkey.access = FIX_ALL;
	fix_close(f);
}

/* A local error stops only the send queue; after RTS it goes on. */
static void sqe_and_back(void **state)
{
	struct fix *f = uc_pair();
	struct ibv_sge sge = sim_sge(f->mr[0], FIX_MEM, 100);
	struct ibv_send_wr wr = send_wr(2, &sge, 1, 0);

	(void)state;
	for (int more = 0; more < 2; more++) {
		post_by(f, false, IBV_WR_RDMA_WRITE, 1, 0, 20000);
		post_now(f->p.qp[0], &wr);
		post_by(f, false, IBV_WR_RDMA_WRITE, 3, 0, 100);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR);
		fix_wc(f, 0, 3, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(f->p.qp[0]->state, IBV_QPS_SQE);
		/* Its receives go on. */
		recv_at(f, 0, 9, 5000, 100);
		post_at(f, 1, 10, 0, 100, 0);
		fix_wc(f, 1, 10, IBV_WC_SUCCESS);
		fix_wc(f, 0, 9, IBV_WC_SUCCESS);
		fix_modify(f, 0, IBV_QPS_RTS);
		fix_recv(f, 8, 30000, 100);
		post_by(f, false, IBV_WR_SEND, 4, 30000, 100);
		fix_wc(f, 0, 4, IBV_WC_SUCCESS);
		fix_wc(f, 1, 8, IBV_WC_SUCCESS);
		fix_same(f, 30000, 100);
	}
	fix_close(f);
}

/* The receive of the broken message serves the next one. */
static void broken_message_is_dropped(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		struct fix *f = uc_pair();

		(void)state;
		fix_recv(f, 8, 0, 40000);
		fix_recv(f, 9, 40000, 40000);
		pair_stop(f, 1);
		post_by(f, false, IBV_WR_SEND, 1, 100000, 40000);
		post_by(f, false, IBV_WR_SEND, 2, 200000, 35000);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
		lose(f, 1, i);
		pair_go(f, 1);
		assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 35000);
		assert_memory_equal(f->mem[1], f->mem[0] + 200000, 35000);
		fix_quiet(f);
		fix_no_wc(f, 1);
		fix_close(f);
	}
}

/* Nor is the immediate of a WRITE delivered that is not whole. */
static void broken_write_is_dropped(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		struct fix *f = uc_pair();

		(void)state;
		fix_recv(f, 8, 0, 0);
		pair_stop(f, 1);
		post_by(f, false, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 40000);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		lose(f, 1, i);
		pair_go(f, 1);
		fix_quiet(f);
		fix_no_wc(f, 1);
		post_by(f, false, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 40000);
		assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 40000);
		fix_same(f, 0, 40000);
		fix_close(f);
	}
}

/* Other QPs use the SRQ as well, so the receive of a broken message ends in error. */
static void receive_of_an_srq_ends_in_error(void **state)
{
	struct fix *f = uc_pair();
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct ibv_qp_cap cap = { .max_send_wr = 8, .max_send_sge = 1 };
	struct ibv_sge sge = sim_sge(f->mr[1], 0, 10);
	struct ibv_recv_wr wr = { .wr_id = 8, .sg_list = &sge, .num_sge = 1 }, *bad;
	struct sim_node *b = &f->s->node[1];
	struct srq *srq;
	struct qp *qp;

	(void)state;
	assert_int_equal(srq_create(&b->ctx, b->pd, &a, &srq), 0);
	qp = sim_qp(f->s, 1, IBV_QPT_UC, f->p.cq[1], f->p.cq[1], srq, &cap);
	sim_bring(f->s, qp, f->p.qp[0], &f->conf);
	fix_modify(f, 0, IBV_QPS_RESET);
	sim_bring(f->s, f->p.qp[0], qp, &f->conf);
	assert_int_equal(srq_post(srq, &wr, &bad), 0);
	/* What is refused before it takes a receive does not end one. */
	f->mr[1]->mkey.key ^= 0x100;
	post_by(f, false, IBV_WR_RDMA_WRITE_WITH_IMM, 0, 0, 8);
	f->mr[1]->mkey.key ^= 0x100;
	fix_wc(f, 0, 0, IBV_WC_SUCCESS);
	fix_quiet(f);
	fix_no_wc(f, 1);
	post_by(f, false, IBV_WR_SEND, 1, 0, 12);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 1, 8, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(qp->state, IBV_QPS_RTS);
	sim_destroy(f->s, qp);
	assert_int_equal(srq_destroy(srq), 0);
	fix_close(f);
}

/* Either end may begin again alone, with other numbers. */
static void one_end_begins_again(void **state)
{
	for (int side = 0; side < 2; side++) {
		struct fix *f = uc_pair();

		(void)state;
		fix_recv(f, 7, 0, 100);
		post_by(f, false, IBV_WR_SEND, 1, 0, 100);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 1, 7, IBV_WC_SUCCESS);
		f->conf.psn[0] = 1000;
		pair_again(f, side);
		for (unsigned i = 0; i < 2; i++) {
			fix_recv(f, 8, 0, 40000);
			post_by(f, false, IBV_WR_SEND, 2, 0, 40000);
			fix_wc(f, 0, 2, IBV_WC_SUCCESS);
			assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 40000);
		}
		fix_close(f);
	}
}

/* What was sent before the target was ready is not for it. */
static void what_came_before_rtr(void **state)
{
	struct fix *f = uc_pair();

	(void)state;
	fix_modify(f, 1, IBV_QPS_RESET);
	pair_stop(f, 1);
	post_by(f, false, IBV_WR_SEND, 1, 100, 100);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	sim_bring(f->s, f->p.qp[1], f->p.qp[0], &f->conf);
	fix_recv(f, 8, 0, 100);
	post_by(f, false, IBV_WR_SEND, 2, 0, 50);
	pair_go(f, 1);
	assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 50);
	fix_close(f);
}

/* The handshake ends at one process before it ends at the other, whose QP waits in RTS.
 */
static void what_came_before_the_peer_was_up(void **state)
{
	struct sim_conf conf = { .same_host = true, .pipe_only = true };
	struct fix *f = fix_open(IBV_QPT_UC, &conf);

	(void)state;
	for (int side = 0; side < 2; side++) {
		struct ibv_sge sge = sim_sge(f->mr[side], 100, 8);
		struct ibv_send_wr wr = send_wr(2, &sge, 1, 0);

		recv_at(f, side, 1, 5000, 8);
		sim_send(f->p.qp[side], &wr);
	}
	for (int side = 0; side < 2; side++) {
		struct ibv_wc wc[2];

		assert_true(sim_wait(f->s, f->p.cq[side], SEC, &wc[0]));
		assert_true(sim_wait(f->s, f->p.cq[side], SEC, &wc[1]));
		assert_int_equal(wc[0].wr_id + wc[1].wr_id, 3);
		assert_int_equal(wc[0].status | wc[1].status, IBV_WC_SUCCESS);
		assert_memory_equal(f->mem[side] + 5000, f->mem[!side] + 100, 8);
	}
	fix_close(f);
}

static struct qp *not_yet_up;

/* The first QP that leads to the peer uses the wire; the second has not come up yet. */
static void post_at_the_second(void *arg, struct qp *qp)
{
	struct ibv_sge none = { 0 };
	struct ibv_send_wr wr = send_wr(2, &none, 1, 0);

	(void)arg;
	assert_ptr_not_equal(qp, not_yet_up);
	wr.send_flags = 0;
	post_now(not_yet_up, &wr);
}

/* A thread that posts needs no turn: it may do so while the peer comes up, before the QP
 * has. */
static void what_is_posted_as_the_peer_comes_up(void **state)
{
	static const struct peers_ops ops = { .refused = post_at_the_second };
	struct sim_conf conf = { .same_host = true, .pipe_only = true };
	struct fix *f = fix_open(IBV_QPT_UC, &conf);
	struct peers *near = peers_of(&f->s->node[0].core),
		     *far = peers_of(&f->s->node[1].core);
	const struct peers_ops *real = near->ops;
	struct sim_pair second = sim_pair(f->s, IBV_QPT_UC, &conf);
	struct ibv_sge sge = sim_sge(f->mr[1], 0, 8);
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(peers_avoid(far, true), 0);
	peers_begins(far, pair_qp(f, 1)->qpn);
	not_yet_up = second.qp[0];
	near->ops = &ops;
	sim_recv(second.qp[1], 8, &sge, 1);
	assert_true(sim_wait(f->s, second.cq[1], SEC, &wc));
	assert_int_equal(wc.wr_id, 8);
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_true(pair_shm(f, 0)->peer->state == PEER_UP);
	near->ops = real;
	sim_unpair(f->s, &second);
	fix_close(f);
}

/* On a wire the opcode says which service a packet is of. */
static void another_service_is_refused(void **state)
{
	(void)state;
	for (int rc = 0; rc < 2; rc++) {
		struct fix *f =
			open_pair_of(rc ? IBV_QPT_RC : IBV_QPT_UC,
				     (struct sim_conf){ .timeout = 10, .retry_cnt = 1 });
		const struct ibv_qp_cap cap = { .max_send_wr = 8,
						.max_recv_wr = 8,
						.max_send_sge = 1,
						.max_recv_sge = 1 };
		struct qp *qp = sim_qp(f->s, 1, rc ? IBV_QPT_UC : IBV_QPT_RC, f->p.cq[1],
				       f->p.cq[1], NULL, &cap);
		struct ibv_sge sge = sim_sge(f->mr[1], 0, 100);

		sim_bring(f->s, qp, f->p.qp[0], &f->conf);
		fix_modify(f, 0, IBV_QPS_RESET);
		sim_bring(f->s, f->p.qp[0], qp, &f->conf);
		sim_recv(qp, 8, &sge, 1);
		post_by(f, false, IBV_WR_SEND, 1, 0, 100);
		fix_wc(f, 0, 1, rc ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
		fix_quiet(f);
		fix_no_wc(f, 1);
		sim_destroy(f->s, qp);
		fix_close(f);
	}
}

/* A hostile peer: words and NAKs are nothing to a UC QP, also while a request of a
 * posting thread waits for the engine, nor are requests with answers. */
static void what_uc_does_not_know(void **state)
{
	struct fix *f = uc_pair();
	struct shm_qp *a = shm_qp(f->p.qp[0]);
	uint64_t nak, *word = (uint64_t *)(void *)(f->mem[0] + 800);
	const uint64_t before = *word;

	(void)state;
	pair_stop(f, 0);
	fix_recv(f, 8, 0, 100);
	post_by(f, false, IBV_WR_SEND, 1, 0, 100);
	nak = a->src.says |
	      (uint64_t)aeth_syndrome(AETH_NAK, NAK_REMOTE_ACCESS) << WORD_SYNDROME_AT |
	      a->src.s.una;
	turn_take(&f->s->node[1].core.turn);
	atomic_store(&pair_peer(f, 1)->executed[qpn_index(f->p.qp[1]->qpn)], nak);
	peer_nudge(pair_peer(f, 1), nak);
	turn_give(&f->s->node[1].core.turn);
	stray_record(f, 1,
		     (struct rec){ .opcode = KIND_WORD << SEGMENT_KIND_AT,
				   .psn = (uint32_t)nak,
				   .data = (uint32_t)(nak >> 32) },
		     REC_HEAD);
	for (unsigned kind = KIND_READ; kind < KIND_WORD; kind++)
		stray_record(f, 1,
			     (struct rec){ .opcode = (uint8_t)(kind << SEGMENT_KIND_AT |
							       SEGMENT_ONLY),
					   .flags = REC_WIDE,
					   .psn = 7,
					   .va = f->mr[0]->mkey.base + 800,
					   .rkey = f->mr[0]->mkey.key,
					   .len = 8,
					   .swap_add = 1 },
			     REC_HEAD_WIDE);
	pair_go(f, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_quiet(f);
	assert_int_equal(*word, before);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
	fix_close(f);
}

/* Nor does a message of UC invalidate a window of the QP that it is for. */
static void a_key_to_invalidate(void **state)
{
	struct fix *f = uc_pair();
	struct sim_node *n = &f->s->node[1];
	struct ibv_send_wr bind = { .wr_id = 1,
				    .opcode = IBV_WR_BIND_MW,
				    .send_flags = IBV_SEND_SIGNALED };
	struct mr *mr;
	struct mw *mw;

	(void)state;
	mr = sim_mr(f->s, 1, f->mem[1], 4096, FIX_ALL | IBV_ACCESS_MW_BIND);
	assert_int_equal(mw_alloc(n->pd, IBV_MW_TYPE_2, &mw), 0);
	bind.bind_mw.mw = &mw->ibv;
	bind.bind_mw.rkey = mw->ibv.rkey + 1;
	bind.bind_mw.bind_info = (struct ibv_mw_bind_info){
		.mr = &mr->ibv,
		.addr = mr->mkey.base,
		.length = 64,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	post_now(f->p.qp[1], &bind);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	recv_at(f, 1, 8, 0, 100);
	stray_record(f, 0,
		     (struct rec){ .opcode = SEGMENT_ONLY | SEGMENT_INV,
				   .data = mw->ibv.rkey },
		     REC_HEAD);
	fix_quiet(f);
	fix_no_wc(f, 1);
	assert_true(mw->mkey.valid);
	assert_int_equal(mw_dealloc(mw), 0);
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

/* What follows a message that is refused is no message. */
static void a_middle_without_a_begin(void **state)
{
	struct fix *f = uc_pair();
	const struct shm_qp *b = shm_qp(f->p.qp[1]);

	(void)state;
	fix_recv(f, 8, 0, 100);
	stray(f, 0, SEGMENT_LAST, b->dst.expected);
	stray(f, 0, SEGMENT_FIRST, 5);
	stray(f, 0, SEGMENT_LAST | KIND_WRITE << SEGMENT_KIND_AT, 6);
	stray(f, 0, SEGMENT_LAST, 7);
	fix_quiet(f);
	fix_no_wc(f, 1);
	post_by(f, false, IBV_WR_SEND, 1, 0, 100);
	assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 100);
	fix_close(f);
}

/* Each reason of a QP is told at once. */
static void each_reason_is_told(void **state)
{
	struct fix *f = uc_pair();
	char text[4096];

	(void)state;
	LOGGED(text, "info", post_by(f, false, IBV_WR_SEND, 1, 0, 10); fix_quiet(f);
	       fix_recv(f, 8, 0, 5); post_by(f, false, IBV_WR_SEND, 2, 0, 10);
	       fix_quiet(f));
	assert_non_null(strstr(text, "no receive is posted; dropped"));
	assert_non_null(strstr(text, "longer than the receive"));
	fix_close(f);
}

static void a_flood_does_not_fill_the_log(void **state)
{
	enum { FLOOD = 100, FEW = 10 };
	struct fix *f = uc_pair();
	char text[FLOOD * 256];
	unsigned n = 0;

	(void)state;
	LOGGED(
		text, "info", for (unsigned i = 0; i < FLOOD; i++) {
			post_by(f, false, IBV_WR_SEND, i, 0, 10);
			fix_wc(f, 0, i, IBV_WC_SUCCESS);
			fix_quiet(f);
		});
	for (const char *at = text; (at = strstr(at, "dropped")); at++)
		n++;
	assert_in_range(n, 1, FEW);
	assert_int_equal(ib_counter(&f->s->node[1].core, IB_RX_UC_DROPPED), FLOOD);
	fix_close(f);
}

/* In SQD what has begun is sent, and nothing else. */
static void sqd_and_back(void **state)
{
	struct fix *f = uc_pair();
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	(void)state;
	assert_int_equal(qp_modify(f->p.qp[0], &attr,
				   IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY, f->s->now),
			 0);
	post_by(f, false, IBV_WR_RDMA_WRITE, 1, 0, 100);
	fix_quiet(f);
	pair_event(f, 0, IBV_EVENT_SQ_DRAINED);
	fix_no_wc(f, 0);
	fix_modify(f, 0, IBV_QPS_RTS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* Its own CQ is overrun by what it has sent. */
static void a_send_cq_that_is_full(void **state)
{
	struct fix *f = uc_pair();

	(void)state;
	assert_int_equal(cq_resize(f->p.cq[0], 4), 0);
	for (unsigned i = 0; i < 12; i++)
		post_by(f, i & 1, IBV_WR_RDMA_WRITE, i, 0, 100);
	pair_run(f, MS);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(f->p.qp[0]->sq.head, f->p.qp[0]->sq.tail);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sends_and_writes),
		cmocka_unit_test(the_first_message_is_told),
		cmocka_unit_test(a_peer_that_is_not_up),
		cmocka_unit_test(a_stopped_peer_costs_nothing),
		cmocka_unit_test(nor_does_one_whose_ring_is_full),
		cmocka_unit_test(each_waits_for_itself),
		cmocka_unit_test(a_full_ring_that_is_read),
		cmocka_unit_test(an_ended_peer_costs_nothing),
		cmocka_unit_test(nor_does_one_that_ends_over_a_full_ring),
		cmocka_unit_test(no_receive_no_error),
		cmocka_unit_test(no_right_no_error),
		cmocka_unit_test(a_receive_that_cannot_be_filled),
		cmocka_unit_test(sqe_and_back),
		cmocka_unit_test(broken_message_is_dropped),
		cmocka_unit_test(broken_write_is_dropped),
		cmocka_unit_test(receive_of_an_srq_ends_in_error),
		cmocka_unit_test(one_end_begins_again),
		cmocka_unit_test(what_came_before_rtr),
		cmocka_unit_test(what_came_before_the_peer_was_up),
		cmocka_unit_test(what_is_posted_as_the_peer_comes_up),
		cmocka_unit_test(another_service_is_refused),
		cmocka_unit_test(what_uc_does_not_know),
		cmocka_unit_test(a_key_to_invalidate),
		cmocka_unit_test(a_middle_without_a_begin),
		cmocka_unit_test(each_reason_is_told),
		cmocka_unit_test(a_flood_does_not_fill_the_log),
		cmocka_unit_test(sqd_and_back),
		cmocka_unit_test(a_send_cq_that_is_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
