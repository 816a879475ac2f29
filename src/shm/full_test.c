/* SPDX-License-Identifier: BSD-2-Clause */
/* Rings that are full, or contain garbage; and the ring of a process to itself. */
#include <poll.h>

#include "host/host.h"
#include "shm/fix.h"

enum { LOOK = 64 };

#define TIMEOUT_10 4194304ull

static const struct sim_conf quick = {
	.pipe_only = true,
	.timeout = 10,
	.retry_cnt = 3,
};

/* A's requests are in its ring; B executes them and has no room for the answers. */
static void let_b_alone(struct fix *f)
{
	pair_stop(f, 1);
	pair_run(f, 1000);
	pair_stop(f, 0);
	pair_fill(f, 1);
	pair_go(f, 1);
	pair_run(f, 1 * MS);
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1103515245 + 12345;
	return (*seed >> 8) % below;
}

/* WRITEs of any length wait behind a full ring, and one of them is bad.  Those before it
 * succeed if the peer makes room, and time out if not; the bad one fails in its turn, and
 * the rest is flushed. */
static void bad_behind_full(uint32_t seed)
{
	enum { WRS = 8, LONGEST = 30000 };
	struct fix *f = pair_open(IBV_QPT_RC, &quick);
	const uint32_t first = seed;
	uint32_t bad = draw(&seed, WRS), at = 0, len;
	const bool comes = draw(&seed, 3);
	uint64_t since = f->s->now;

	pair_stop(f, 1);
	if (draw(&seed, 2))
		pair_fill(f, 0);
	for (uint32_t i = 0; i < WRS; i++, at += len) {
		const uint32_t key = f->mr[0]->mkey.key;

		len = 1 + draw(&seed, LONGEST);
		f->mr[0]->mkey.key ^= i == bad;
		fix_post(f, IBV_WR_RDMA_WRITE, i, at, len, 0);
		f->mr[0]->mkey.key = key;
	}
	pair_run(f, draw(&seed, 2 * MS));
	if (comes)
		pair_go(f, 1);
	for (uint32_t i = 0; i < WRS; i++) {
		struct ibv_wc wc;

		assert_true(sim_wait(f->s, f->p.cq[0], SEC, &wc));
		assert_int_equal(wc.wr_id, i);
		if (!comes && bad)
			assert_int_equal(wc.status,
					 i ? IBV_WC_WR_FLUSH_ERR : IBV_WC_RETRY_EXC_ERR);
		else if (wc.status != (i < bad	  ? IBV_WC_SUCCESS
				       : i == bad ? IBV_WC_LOC_PROT_ERR
						  : IBV_WC_WR_FLUSH_ERR))
			fail_msg(
				"seed %u: request %u of %u, the bad one is %u: status %d",
				first, i, WRS, bad, wc.status);
	}
	assert_in_range(f->s->now - since, 0, 2 * MS + 5 * TIMEOUT_10);
	fix_close(f);
}

static void a_bad_request_behind_a_full_ring(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 60; seed++)
		bad_behind_full(seed);
}

static void who_never_makes_room_times_out(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &quick);
	uint64_t since = f->s->now;

	(void)state;
	pair_stop(f, 1);
	pair_fill(f, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	assert_in_range(f->s->now - since, 4 * TIMEOUT_10, 4 * TIMEOUT_10 + 1000);
	fix_close(f);
}

/* Waiting for a receive (RNR) does not count towards the timeout. */
static void who_waits_for_a_receive_does_not_time_out(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &(struct sim_conf){ .pipe_only = true,
								  .timeout = 10,
								  .retry_cnt = 3,
								  .min_rnr_timer = 31 });

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	pair_run(f, 3 * MS); /* B has waited a little, and said RNR */
	pair_stop(f, 0);
	sim_send(f->p.qp[1], &(struct ibv_send_wr){ .opcode = IBV_WR_RDMA_READ });
	pair_run(f, 1000);
	pair_stop(f, 1);
	pair_fill(f, 0);
	pair_go(f, 0);
	pair_run(f, 400 * MS); /* an RNR timer of 491.52 ms */
	fix_no_wc(f, 0);
	pair_go(f, 1);
	fix_recv(f, 8, 0, 100);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* A pending answer is not lost, not even the NAK of a failed QP. */
static void answers_wait_for_room(void **state)
{
	static const enum ibv_wc_status status[] = {
		IBV_WC_SUCCESS,
		IBV_WC_SUCCESS,
		IBV_WC_REM_ACCESS_ERR,
	};

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, NULL);

		fix_recv(f, 8, 0, 100);
		f->mr[1]->mkey.access = i == 2 ? IBV_ACCESS_LOCAL_WRITE : FIX_ALL;
		fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
		fix_post(f, i ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0,
			 i ? 200 : 8, 0);
		let_b_alone(f);
		fix_wc(f, 1, 8, IBV_WC_SUCCESS);
		pair_go(f, 0);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, status[i]);
		fix_close(f);
	}
}

/* Answers have room that requests cannot use: otherwise two processes that fill each
 * other's rings would take turns. */
static void answers_have_room_of_their_own(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct ibv_send_wr wr = { .wr_id = 2,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };

	(void)state;
	pair_stop(f, 0);
	sim_send(f->p.qp[1], &wr);
	pair_run(f, 1000);
	pair_stop(f, 1);
	pair_fill_up(f, 0, false);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	pair_go(f, 0);
	pair_run(f, 1 * MS);
	assert_true(line_has(&pair_shm(f, 0)->lists)); /* no room for the WRITE */
	pair_stop(f, 0);
	pair_go(f, 1);
	fix_wc(f, 1, 2, IBV_WC_SUCCESS);
	pair_go(f, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

/* The writer saw that the ring was polled and sent no KICK: before it cools its reader
 * looks once more. */
static void who_looks_away_looks_once_more(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct peer *p = pair_peer(f, 1);

	(void)state;
	pair_stop(f, 1);
	assert_false(p->is_hot);
	assert_int_equal(p->in.s->want_kick, 1);
	peer_heat(p);
	assert_int_equal(p->in.s->want_kick, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	pair_run(f, 1000);
	peer_cool(p);
	assert_true(p->is_hot);
	assert_int_equal(p->in.s->want_kick, 0);
	pair_go(f, 1);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

static bool was_kicked(const struct fix *f, int side)
{
	struct pollfd p = { host_fd(f->s->node[side].host), POLLIN, 0 };

	return poll(&p, 1, 0) == 1;
}

/* A QP that waits for room in a process that polls gets no KICK: if the room was not seen
 * yet when the ring cools, the process looks once more. */
static void who_looks_finds_room_without_a_kick(void **state)
{
	(void)state;
	for (int looks = 0; looks < 2; looks++) {
		struct fix *f = pair_open(IBV_QPT_UC, NULL);
		struct peer *p = pair_peer(f, 0);

		pair_stop(f, 1);
		fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 600000, 0);
		pair_run(f, 1000);
		assert_true(peer_waits(p));
		pair_stop(f, 0);
		if (looks)
			peer_heat(p);
		pair_go(f, 1);
		pair_run(f, 1000);
		assert_int_equal(was_kicked(f, 0), !looks);
		assert_true(ring_empty(&p->in));
		peer_cool(p);
		assert_int_equal(p->is_hot, looks);
		pair_go(f, 0);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		pair_run(f, 1 * MS);
		fix_same(f, 0, 200000);
		fix_close(f);
	}
}

/* --- garbage ------------------------------------------------------------- */

static void who_writes_rubbish_is_broken(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &(struct sim_conf){ .pipe_only = false });
	struct sim_pair p = sim_pair(f->s, IBV_QPT_RC, &f->conf);
	struct rec *r = ring_reserve(&pair_peer(f, 1)->out, REC_HEAD);
	struct ibv_wc wc;

	(void)state;
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	pair_run(f, 1000);
	r->kind = REC_KINDS;
	ring_publish(&pair_peer(f, 1)->out, r, REC_HEAD);
	peer_heat(pair_peer(f, 0));
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(pair_peer(f, 0)->state, PEER_DEAD);
	assert_false(pair_peer(f, 0)->reach.vm);
	/* Another QP that is connected to the same peer is lost, too. */
	sim_send(p.qp[0], &(struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE,
						 .send_flags = IBV_SEND_SIGNALED });
	assert_true(sim_wait(f->s, p.cq[0], SEC, &wc));
	assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(wc.vendor_err, VERR_PEER_ENDED);
	assert_null(peers_peer(peers_of(&f->s->node[0].core), f->s->node[1].core.slot));
	sim_unpair(f->s, &p);
	fix_close(f);
}

static void who_reads_what_was_not_written_is_broken(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &quick);

	(void)state;
	pair_stop(f, 1);
	pair_peer(f, 0)->out.s->tail = 1000;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 100, 0);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR).vendor_err,
			 VERR_PEER_ENDED);
	assert_int_equal(pair_peer(f, 0)->state, PEER_DEAD);
	fix_close(f);
}

/* Of a full ring the writer is told while the reader still reads: here that comes to no
 * end, as the last record is rubbish. */
static void a_writer_is_told_of_room_before_all_is_read(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &quick);
	struct peer *p = pair_peer(f, 0), *reader = pair_peer(f, 1);
	struct rec *last;

	(void)state;
	fix_recv(f, 8, 0, 600000);
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 600000, 0);
	pair_run(f, 1000);
	assert_true(peer_waits(p));
	pair_stop(f, 0);
	last = (void *)p->out.s->slot[(p->out.head - RING_RECORD_SLOTS) % RING_SLOTS];
	assert_int_equal(last->bytes, REC_HEAD + RING_CHUNK);
	last->kind = REC_KINDS;
	pair_go(f, 1);
	pair_run(f, 1000);
	assert_int_equal(reader->state, PEER_DEAD);
	assert_true(was_kicked(f, 0));
	assert_in_range(p->out.head - p->out.s->tail, RING_RECORD_SLOTS,
			RING_RECORD_SLOTS + RING_TELL);
	assert_true(f->s->node[1].core.round.bulk);
	pair_go(f, 0);
	pair_run(f, 1 * MS);
	fix_close(f);
}

/* --- a process and itself ------------------------------------------------ */

static void a_process_talks_to_itself(void **state)
{
	static const enum ibv_wr_opcode op[] = {
		IBV_WR_SEND,
		IBV_WR_RDMA_READ,
		IBV_WR_RDMA_WRITE,
	};
	const struct ibv_qp_cap cap = {
		.max_send_wr = 16,
		.max_recv_wr = 16,
		.max_send_sge = 1,
		.max_recv_sge = 1,
	};
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct cq *cq = sim_cq(f->s, 0, 10);
	struct ibv_sge from = sim_sge(f->mr[0], 0, 300000);
	struct ibv_sge to = sim_sge(f->mr[0], 500000, 300000);
	struct qp *qp[2];
	struct ibv_wc wc;

	(void)state;
	for (int i = 0; i < 2; i++)
		qp[i] = sim_qp(f->s, 0, IBV_QPT_RC, f->p.cq[0], cq, NULL, &cap);
	for (int i = 0; i < 2; i++) {
		sim_bring(f->s, qp[i], qp[!i], &f->conf);
		assert_ptr_equal(shm_qp(qp[i])->peer, peers_of(qp[i]->core)->self);
		/* one address at both ends, as a real process has */
		shm_qp(qp[i])->route_in = shm_qp(qp[i])->head.route;
	}
	for (unsigned i = 0; i < 3; i++) {
		struct ibv_send_wr wr = {
			.wr_id = i,
			.opcode = op[i],
			.sg_list = &from,
			.num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { to.addr, f->mr[0]->mkey.key },
		};

		memset(f->mem[0], (int)i + 1, 300000);
		memset(f->mem[0] + 500000, (int)i + 9, 300000);
		sim_send(qp[0], &wr);
		pair_run(f, 1 * MS); /* there is no receive at first */
		if (i == 0)
			sim_recv(qp[1], 8, &to, 1);
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
		if (i == 0)
			assert_true(sim_wait(f->s, cq, SEC, &wc));
		assert_memory_equal(f->mem[0], f->mem[0] + 500000, 300000);
	}
	for (int i = 0; i < 2; i++)
		sim_destroy(f->s, qp[i]);
	assert_int_equal(cq_destroy(cq), 0);
	fix_close(f);
}

/* --- the last ACK ----------------------------------------------------------- */

/* A QP is destroyed after it has executed a request, and its process has no room for the
 * last ACK: the requester finds the word. */
static void what_was_executed_is_found_in_the_word(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &quick);
	struct sim_pair p = sim_pair(f->s, IBV_QPT_RC, &f->conf);
	struct ibv_wc wc;

	(void)state;
	sim_send(p.qp[0], &(struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE,
						 .send_flags = IBV_SEND_SIGNALED });
	/* These words overwrite the ones that are kept beside the count. */
	for (unsigned i = 0; i < 2 * ANSWERS; i++)
		fix_post(f, IBV_WR_RDMA_WRITE, i, 0, 8, 0);
	pair_stop(f, 1);
	pair_run(f, 1000);
	pair_stop(f, 0);
	pair_go(f, 1);
	pair_fill(f, 1);
	pair_run(f, 1000);
	sim_destroy(f->s, p.qp[1]);
	pair_go(f, 0);
	assert_true(sim_wait(f->s, p.cq[0], SEC, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	sim_destroy(f->s, p.qp[0]);
	for (int i = 0; i < 2; i++)
		assert_int_equal(cq_destroy(p.cq[i]), 0);
	fix_close(f);
}

/* --- what a peer leaves behind ------------------------------------------------ */

/* The peer ended while it was copying: its memory is kept until the copy is over, and
 * then freed although no input comes any more. */
static void the_dead_are_buried_without_input(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &(struct sim_conf){ .timeout = 10 });
	struct peers *l = peers_of(&f->s->node[0].core);
	struct peer *p = pair_peer(f, 0);
	uint64_t at;

	(void)state;
	assert_true(p->reach.told);
	assert_true(fix_deadline(l) == NEVER);
	atomic_store(p->reach.theirs, 1);
	sim_destroy(f->s, f->p.qp[0]);
	sim_leave(f->s, 1);
	f->p.qp[0] = f->p.qp[1] = NULL;
	pair_run(f, 1 * MS);
	assert_false(list_empty(&l->dead));
	assert_true(fix_deadline(l) <= f->s->now + 10 * MS);
	atomic_store(p->reach.theirs, 0);
	at = fix_deadline(l);
	turn_take(&l->core->turn);
	(void)peers_input(l, at);
	turn_give(&l->core->turn);
	assert_true(list_empty(&l->dead));
	assert_true(fix_deadline(l) == NEVER);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bad_request_behind_a_full_ring),
		cmocka_unit_test(who_never_makes_room_times_out),
		cmocka_unit_test(who_waits_for_a_receive_does_not_time_out),
		cmocka_unit_test(answers_wait_for_room),
		cmocka_unit_test(answers_have_room_of_their_own),
		cmocka_unit_test(who_looks_away_looks_once_more),
		cmocka_unit_test(who_looks_finds_room_without_a_kick),
		cmocka_unit_test(who_writes_rubbish_is_broken),
		cmocka_unit_test(who_reads_what_was_not_written_is_broken),
		cmocka_unit_test(the_dead_are_buried_without_input),
		cmocka_unit_test(a_writer_is_told_of_room_before_all_is_read),
		cmocka_unit_test(a_process_talks_to_itself),
		cmocka_unit_test(what_was_executed_is_found_in_the_word),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
