/* SPDX-License-Identifier: BSD-2-Clause */
/* READs and atomics: what they do to memory, what is refused, and places for answers. */
#include "shm/fix.h"

/* 300001 bytes have more segments than a QP asks for at once. */
static void reads_of_any_length(void **state)
{
	const uint32_t len[] = { 0, 1, 8, 64, 65, 16384, 16385, 300001 };
	struct fix *f = plain_pair();
	struct ibv_wc wc;

	(void)state;
	for (unsigned i = 0; i < sizeof(len) / sizeof(len[0]); i++)
		for (int side = 0; side < 2; side++) {
			memset(f->mem[side] + FIX_MEM / 2, 0, FIX_MEM / 2);
			post_to(f, side, IBV_WR_RDMA_READ, i, FIX_MEM / 2, 100 * i,
				len[i], 0);
			wc = fix_wc(f, side, i, IBV_WC_SUCCESS);
			assert_int_equal(wc.opcode, IBV_WC_RDMA_READ);
			assert_int_equal(wc.byte_len, len[i]);
			assert_memory_equal(f->mem[side] + FIX_MEM / 2,
					    f->mem[!side] + 100 * i, len[i]);
			assert_int_equal(f->mem[side][FIX_MEM / 2 + len[i]], 0);
			fix_no_wc(f, !side);
		}
	fix_close(f);
}

static void atomics(void **state)
{
	struct fix *f = plain_pair();
	uint64_t *here, *there;

	(void)state;
	here = (uint64_t *)(void *)(f->mem[0] + 800);
	there = (uint64_t *)(void *)(f->mem[1] + 800);
	*there = 1;
	fix_post(f, IBV_WR_ATOMIC_CMP_AND_SWP, 1, 800, 8, 0);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_SUCCESS).byte_len, 8);
	assert_int_equal(*here, 1);
	assert_int_equal(*there, 77);
	fix_post(f, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 800, 8, 0);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	assert_int_equal(*here, 77);
	assert_int_equal(*there, 77);
	for (uint64_t id = 3; id < 100; id++)
		fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, id, 800, 8, 0);
	for (uint64_t id = 3; id < 100; id++)
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
	assert_int_equal(*here, 77 + 96);
	assert_int_equal(*there, 77 + 97);
	fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 100, 801, 8, 0);
	fix_wc(f, 0, 100, IBV_WC_REM_INV_REQ_ERR);
	pair_event(f, 1, IBV_EVENT_QP_REQ_ERR);
	fix_close(f);
}

static void atomic_writes(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	for (uint64_t id = 0; id < 20; id++)
		fix_post(f, IBV_WR_ATOMIC_WRITE, id, 8 * id, 8, 0);
	for (uint64_t id = 0; id < 20; id++)
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
	fix_same(f, 0, 160);
	fix_close(f);
}

/* The posting thread would overtake the READ with it. */
static void a_fence(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	pair_stop(f, 1);
	recv_at(f, 1, 1, 0, 8);
	post_to(f, 0, IBV_WR_RDMA_READ, 1, 5000, 6000, 8, 0);
	pair_run(f, 1000);
	post_at(f, 0, 2, 5000, 8, IBV_SEND_FENCE);
	pair_run(f, MS);
	assert_int_equal(f->p.qp[0]->tp.traffic.sent, 1);
	pair_go(f, 1);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	assert_memory_equal(f->mem[1], f->mem[1] + 6000, 8);
	fix_close(f);
}

static void more_than_the_target_allows(void **state)
{
	for (unsigned depth = 0; depth < 3; depth++) {
		struct fix *f = plain_pair();

		(void)state;
		f->p.qp[1]->attr.max_dest_rd_atomic = (uint8_t)depth;
		pair_stop(f, 1);
		for (uint64_t id = 0; id < 4; id++)
			post_to(f, 0, IBV_WR_RDMA_READ, id, 5000, 6000, 20000, 0);
		pair_run(f, MS);
		pair_go(f, 1);
		for (uint64_t id = 0; id < depth; id++)
			fix_wc(f, 0, id, IBV_WC_SUCCESS);
		fix_wc(f, 0, depth, IBV_WC_REM_INV_REQ_ERR);
		pair_event(f, 1, IBV_EVENT_QP_REQ_ERR);
		fix_close(f);
	}
}

static void as_many_as_the_source_may(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .rd_atomic = 2 });

	(void)state;
	pair_stop(f, 1);
	for (uint64_t id = 0; id < 5; id++)
		post_to(f, 0, IBV_WR_RDMA_READ, id, 5000, 6000, 20000, 0);
	pair_run(f, MS);
	assert_int_equal(f->p.qp[0]->tp.traffic.sent, 4);
	pair_go(f, 1);
	for (uint64_t id = 0; id < 5; id++)
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
	fix_close(f);
}

/* The answer has come, and its memory is gone: what was posted before completes. */
static void a_place_that_is_gone(void **state)
{
	struct fix *f = plain_pair();
	struct mr *mr = sim_mr(f->s, 0, f->mem[0], 4096, FIX_ALL), *was = f->mr[0];
	uint64_t began;

	(void)state;
	pair_stop(f, 1);
	post_to(f, 0, IBV_WR_RDMA_READ, 1, 5000, 0, 8, 0);
	f->mr[0] = mr;
	post_to(f, 0, IBV_WR_RDMA_READ, 2, 0, 0, 8, 0);
	f->mr[0] = was;
	post_to(f, 0, IBV_WR_RDMA_READ, 3, 5000, 0, 8, 0);
	pair_run(f, MS);
	assert_int_equal(mr_dereg(mr), 0);
	began = f->s->now;
	pair_go(f, 1);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR);
	fix_wc(f, 0, 3, IBV_WC_WR_FLUSH_ERR);
	assert_true(f->s->now - began < 2 * MS); /* no timeout passed */
	fix_close(f);
}

/* A QP that is reset leaves requests in the ring.  They are answered, and must not be
 * answered where another QP waits for its own. */
static void requests_that_nobody_waits_for(void **state)
{
	struct fix *f = plain_pair();
	struct reply_room *r = &pair_peer(f, 0)->replies;
	const unsigned words = r->words;

	(void)state;
	pair_stop(f, 1);
	for (uint64_t id = 1; id <= 3; id++)
		post_to(f, 0, IBV_WR_RDMA_READ, id, 5000, 0, 8, 0);
	pair_run(f, MS);
	assert_int_equal(r->words, words - 3);
	fix_modify(f, 0, IBV_QPS_RESET);
	assert_int_equal(r->words, words - 3);
	assert_int_equal(r->nleft, 3);
	pair_go(f, 1);
	pair_run(f, MS);
	assert_true(ring_look(&pair_peer(f, 0)->out));
	reply_gather(r, pair_peer(f, 0)->out.tail);
	assert_int_equal(r->words, words);
	fix_close(f);
}

/* The requests are lost, and asked for again: each is answered in the place that it named
 * first, and atomics are executed once. */
static void sent_again(void **state)
{
	struct fix *f = plain_pair();
	struct qp *b = f->p.qp[1];

	(void)state;
	*(uint64_t *)(void *)(f->mem[1] + 800) = 5;
	fix_modify(f, 1, IBV_QPS_RESET);
	fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 800, 8, 0);
	post_to(f, 0, IBV_WR_RDMA_READ, 2, 50000, 100000, 40000, 0);
	fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, 800, 8, 0);
	pair_run(f, MS);
	sim_bring(f->s, b, f->p.qp[0], &f->conf);
	for (uint64_t id = 1; id <= 3; id++)
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
	assert_int_equal(*(uint64_t *)(void *)(f->mem[0] + 800), 6);
	assert_int_equal(*(uint64_t *)(void *)(f->mem[1] + 800), 7);
	assert_memory_equal(f->mem[0] + 50000, f->mem[1] + 100000, 40000);
	assert_int_equal(pair_peer(f, 0)->replies.words, REPLY_WORDS);
	assert_int_equal(pair_peer(f, 0)->replies.chunks, REPLY_CHUNKS);
	fix_close(f);
}

/* Three QPs ask for more than there are places: each has its turn. */
static void more_than_there_are_places(void **state)
{
	struct fix *f = plain_pair();
	struct sim_pair more[3];
	struct ibv_wc wc;

	(void)state;
	open_more(f, more, 3, (struct sim_conf){ 0 });
	pair_stop(f, 1);
	for (int i = 0; i < 3; i++)
		read_much(f, more[i].qp[0], 1);
	pair_run(f, MS);
	assert_int_equal(pair_peer(f, 0)->replies.chunks, 0);
	assert_false(list_empty(&pair_peer(f, 0)->starved));
	pair_go(f, 1);
	for (int i = 0; i < 3; i++) {
		/* Who gives a place tells the next one that waits. */
		assert_true(sim_wait(f->s, more[i].cq[0], MS / 4, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	assert_memory_equal(f->mem[0] + 300000, f->mem[1], 300000);
	assert_int_equal(pair_peer(f, 0)->replies.chunks, REPLY_CHUNKS);
	close_more(f, more, 3);
	fix_close(f);
}

/* QPs that were reset have left all places.  Nobody tells when the peer has read on. */
static void places_that_were_left(void **state)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct fix *f = plain_pair();
	struct sim_pair more[2];
	uint64_t began;

	(void)state;
	open_more(f, more, 2, (struct sim_conf){ 0 });
	pair_stop(f, 1);
	for (int i = 0; i < 2; i++)
		read_much(f, more[i].qp[0], 1);
	pair_run(f, MS);
	for (int i = 0; i < 2; i++)
		assert_int_equal(qp_modify(more[i].qp[0], &reset, IBV_QP_STATE,
					   f->s->now),
				 0);
	assert_int_equal(pair_peer(f, 0)->replies.nleft, REPLY_CHUNKS);
	post_to(f, 0, IBV_WR_RDMA_READ, 1, 300000, 0, 20000, 0);
	pair_run(f, MS / 2);
	assert_true(ask_is_starved(shm_qp(f->p.qp[0])));
	began = f->s->now;
	pair_go(f, 1);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_true(f->s->now - began < 3 * MS);
	close_more(f, more, 2);
	fix_close(f);
}

/* The target fails behind READs that it has executed: they complete. */
static void an_error_behind_answers(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	pair_stop(f, 1);
	post_to(f, 0, IBV_WR_RDMA_READ, 1, 5000, 6000, 20000, 0);
	f->mr[1]->mkey.key ^= 1;
	post_to(f, 0, IBV_WR_RDMA_READ, 2, 5000, 6000, 20000, 0);
	f->mr[1]->mkey.key ^= 1;
	pair_run(f, MS);
	pair_go(f, 1);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_REM_ACCESS_ERR);
	pair_event(f, 1, IBV_EVENT_QP_ACCESS_ERR);
	fix_close(f);
}

/* Places that there are not, or too small ones. */
static void answers_to_no_place(void **state)
{
	const struct rec bad[] = {
		{ .opcode = KIND_READ, .data = REPLIES, .len = 8 },
		{ .opcode = KIND_READ, .data = 0, .len = SLOT + 1 },
		{ .opcode = KIND_READ, .data = REPLIES - 1, .len = RING_CHUNK + 1 },
		{ .opcode = KIND_FETCH_ADD, .data = UINT32_MAX, .len = 8 },
		{ .opcode = KIND_CMP_SWAP, .data = 0, .len = 0 },
		{ .opcode = KIND_ATOMIC_WRITE, .len = 8 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct fix *f = plain_pair();
		struct rec r = bad[i];

		r.opcode = (uint8_t)(r.opcode << SEGMENT_KIND_AT | SEGMENT_ONLY);
		r.flags = REC_WIDE;
		r.psn = shm_qp(f->p.qp[1])->dst.expected | 1u << OUTSTANDING_AT;
		r.va = f->mr[1]->mkey.base;
		r.rkey = f->mr[1]->mkey.key;
		stray_record(f, 0, r, REC_HEAD_WIDE);
		pair_run(f, MS);
		assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
		pair_event(f, 1, IBV_EVENT_QP_REQ_ERR);
		fix_close(f);
	}
}

/* Both processes stand still until neither ring has room, with READs and WRITEs in both.
 */
static void two_full_rings(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	for (int side = 0; side < 2; side++)
		pair_stop(f, side);
	for (uint64_t id = 0; id < 60; id++)
		for (int side = 0; side < 2; side++)
			post_to(f, side, id % 3 ? IBV_WR_RDMA_WRITE : IBV_WR_RDMA_READ,
				id, 20000 * (id % 3 ? 0 : 1), 20000 * (id % 3 ? 2 : 3),
				16384, 0);
	for (int side = 0; side < 2; side++) {
		struct core *core = &f->s->node[side].core;

		turn_take(&core->turn); /* what the engine would do in its last turn */
		lock_take(&f->p.qp[side]->lock);
		(void)shm_transport.output(f->p.qp[side], NULL, f->s->now);
		lock_give(&f->p.qp[side]->lock);
		turn_give(&core->turn);
		assert_true(pair_peer(f, side)->closed);
	}
	for (int side = 0; side < 2; side++)
		pair_go(f, side);
	for (uint64_t id = 0; id < 60; id++)
		for (int side = 0; side < 2; side++)
			fix_wc(f, side, id, IBV_WC_SUCCESS);
	assert_memory_equal(f->mem[1] + 40000, f->mem[0], 16384);
	assert_memory_equal(f->mem[0] + 20000, f->mem[1] + 60000, 16384);
	fix_close(f);
}

/* The process that is to answer ends; QPs wait for places that it has. */
static void a_peer_that_ends(void **state)
{
	struct fix *f = plain_pair();
	struct sim_pair more[3];
	struct ibv_wc wc;

	(void)state;
	open_more(f, more, 3, (struct sim_conf){ 0 });
	pair_stop(f, 1);
	for (int i = 0; i < 3; i++)
		read_much(f, more[i].qp[0], 1);
	pair_run(f, MS);
	assert_false(list_empty(&pair_peer(f, 0)->starved));
	sim_leave(f->s, 1);
	f->p.qp[1] = NULL;
	for (int i = 0; i < 3; i++) {
		assert_true(sim_wait(f->s, more[i].cq[0], SEC, &wc));
		assert_int_equal(wc.status, IBV_WC_RETRY_EXC_ERR);
		more[i].qp[1] = NULL;
		sim_unpair(f->s, &more[i]);
	}
	fix_close(f);
}

/* The process that has asked ends: the other one answers it, or drops what it finds. */
static void a_source_that_ends(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	pair_stop(f, 1);
	for (uint64_t id = 1; id <= 3; id++)
		post_to(f, 0, IBV_WR_RDMA_READ, id, 5000, 0, 40000, 0);
	pair_run(f, MS);
	sim_leave(f->s, 0);
	f->p.qp[0] = NULL;
	pair_go(f, 1);
	pair_run(f, MS);
	recv_at(f, 1, 1, 0, 8);
	fix_no_wc(f, 1);
	fix_close(f);
}

/* QPs whose target waits for a receive hold all places: another QP has its turn all the
 * same. */
static void places_of_those_that_wait(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .retry_cnt = 1, .timeout = 10 });
	struct sim_pair more[2];

	(void)state;
	open_more(f, more, 2, (struct sim_conf){ .min_rnr_timer = 20 });
	for (int i = 0; i < 2; i++) {
		struct ibv_send_wr send = send_wr(1, NULL, 0, 0);

		post_now(more[i].qp[0], &send);
		read_much(f, more[i].qp[0], 2);
	}
	pair_run(f, 4 * MS);
	post_to(f, 0, IBV_WR_RDMA_READ, 1, 300000, 0, 20000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	for (int i = 0; i < 2; i++) {
		struct ibv_wc wc;

		sim_recv(more[i].qp[1], 1, NULL, 0);
		for (uint64_t id = 1; id <= 2; id++) {
			assert_true(sim_wait(f->s, more[i].cq[0], SEC, &wc));
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, id);
		}
	}
	assert_memory_equal(f->mem[0] + 300000, f->mem[1], 300000);
	assert_int_equal(pair_peer(f, 0)->replies.chunks, REPLY_CHUNKS);
	close_more(f, more, 2);
	fix_close(f);
}

/* Others whose targets are not ready, and whose timeout is hours, hold all places: they
 * give them up, and ask again when their targets are ready. */
static void places_of_those_that_wait_for_ever(void **state)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	const struct sim_conf conf = { .timeout = 31 };
	struct fix *f = plain_pair();
	struct sim_pair more[2];
	struct ibv_wc wc;

	(void)state;
	open_more(f, more, 2, conf);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(qp_modify(more[i].qp[1], &reset, IBV_QP_STATE,
					   f->s->now),
				 0);
		read_much(f, more[i].qp[0], 1);
	}
	pair_run(f, MS);
	post_to(f, 0, IBV_WR_RDMA_READ, 1, 0, 0, 20000, 0);
	pair_run(f, MS);
	assert_true(ask_is_starved(shm_qp(f->p.qp[0])));
	pair_run(f, SEC);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	memset(f->mem[0] + MUCH, 0, MUCH);
	for (int i = 0; i < 2; i++) {
		sim_bring(f->s, more[i].qp[1], more[i].qp[0],
			  &(struct sim_conf){ .same_host = true, .timeout = 31 });
		assert_true(sim_wait(f->s, more[i].cq[0], SEC, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_memory_equal(f->mem[0] + MUCH, f->mem[1], MUCH);
	}
	assert_int_equal(pair_peer(f, 0)->replies.chunks, REPLY_CHUNKS);
	close_more(f, more, 2);
	fix_close(f);
}

/* Other QPs, whose targets are not ready, hold all places until they send again.  Who has
 * nothing outstanding waits, and loses no retry. */
static void starve(bool at_lap_end)
{
	struct ibv_qp_attr reset = { .qp_state = IBV_QPS_RESET };
	struct fix *f = open_pair((struct sim_conf){ .retry_cnt = 1, .timeout = 10 });
	struct sim_pair more[2];

	open_more(f, more, 2, (struct sim_conf){ 0 });
	for (int i = 0; i < 2; i++) {
		assert_int_equal(qp_modify(more[i].qp[1], &reset, IBV_QP_STATE,
					   f->s->now),
				 0);
		read_much(f, more[i].qp[0], 1);
	}
	pair_run(f, MS);
	while (at_lap_end && pair_peer(f, 0)->out.head != pair_peer(f, 0)->out.end) {
		post_to(f, 0, IBV_WR_RDMA_WRITE, 2, 0, 0, 0, 0);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	}
	post_to(f, 0, IBV_WR_RDMA_READ, 1, 300000, 0, 20000, 0);
	pair_run(f, 20 * MS);
	assert_true(ask_is_starved(shm_qp(f->p.qp[0])));
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	close_more(f, more, 2);
	fix_close(f);
}

static void starving_costs_no_retry(void **state)
{
	(void)state;
	starve(false);
	starve(true); /* where a pad would come before the request */
}

/* The ring is full, and the peer reads slowly: so does who has sent nothing yet. */
static void waiting_for_room_costs_no_retry(void **state)
{
	struct fix *f = open_pair((struct sim_conf){ .retry_cnt = 1, .timeout = 10 });
	struct ring_in *in = &pair_peer(f, 1)->in;

	(void)state;
	pair_stop(f, 1);
	pair_fill_up(f, 0, false);
	recv_at(f, 1, 1, 0, 8);
	post_at(f, 0, 1, 0, 8, 0);
	pair_run(f, MS);
	assert_true(line_has(&shm_qp(f->p.qp[0])->lists));
	for (unsigned i = 0; i < 10; i++) {
		in->tail++;
		(void)ring_tell(in);
		pair_run(f, 2 * MS);
	}
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_RTS);
	pair_go(f, 1);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_of_any_length),
		cmocka_unit_test(atomics),
		cmocka_unit_test(atomic_writes),
		cmocka_unit_test(a_fence),
		cmocka_unit_test(more_than_the_target_allows),
		cmocka_unit_test(as_many_as_the_source_may),
		cmocka_unit_test(a_place_that_is_gone),
		cmocka_unit_test(requests_that_nobody_waits_for),
		cmocka_unit_test(sent_again),
		cmocka_unit_test(more_than_there_are_places),
		cmocka_unit_test(an_error_behind_answers),
		cmocka_unit_test(answers_to_no_place),
		cmocka_unit_test(places_that_were_left),
		cmocka_unit_test(places_of_those_that_wait),
		cmocka_unit_test(places_of_those_that_wait_for_ever),
		cmocka_unit_test(starving_costs_no_retry),
		cmocka_unit_test(waiting_for_room_costs_no_retry),
		cmocka_unit_test(two_full_rings),
		cmocka_unit_test(a_peer_that_ends),
		cmocka_unit_test(a_source_that_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
