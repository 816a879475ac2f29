/* SPDX-License-Identifier: BSD-2-Clause */
/* Random SENDs both ways: receives come late, processes stand still, QPs are reset and
 * connected again with the same numbers.  All that was sent on a connection arrives once,
 * in order and whole, and completes; nothing of an earlier connection does.  A seed
 * repeats a run: URNIC_TEST_SEED=n, URNIC_TEST_SEEDS=count. */
#include <stdio.h>

#include "shm/fix.h"
#include "sys/rand.h"
#include "sys/seeds_testing.h"

enum {
	QUEUE = 16,		 /* requests of a side that are not complete */
	IN = FIX_MEM / 2,	 /* receives lie behind what is sent */
	SLOT_BYTES = IN / QUEUE, /* of one receive */
	TURNS = 400,
	IDLE = 400, /* times 50 us, after which everything has arrived */
};

struct message {
	uint32_t at, len, imm;
	bool signaled, with_imm;
};

struct way { /* from one side to the other */
	struct message sent[TURNS];
	unsigned nsent, ndone, nrecv, ncame;
};

struct run {
	struct prng r;
	struct fix *f;
	struct way way[2]; /* by the side that sends */
	unsigned came;	   /* on all connections */
	unsigned resets, stops;
};

static uint32_t below(struct run *t, uint32_t n)
{
	return (uint32_t)rand_below(&t->r, n);
}

static uint32_t some_length(struct run *t)
{
	switch (below(t, 5)) {
	case 0:
		return below(t, 9);
	case 1:
		return 16384 + below(t, 3) - 1;
	case 2:
		return below(t, SLOT_BYTES);
	default:
		return below(t, 300);
	}
}

/* Two pieces, one piece, or inline. */
static void send_one(struct run *t, int side)
{
	struct way *w = &t->way[side];
	struct message *m = &w->sent[w->nsent];
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = { .wr_id = w->nsent, .sg_list = sge, .num_sge = 1 };
	uint32_t first;

	if (w->nsent == TURNS || w->nsent - w->ndone == QUEUE)
		return;
	*m = (struct message){
		.len = some_length(t),
		.imm = below(t, UINT32_MAX),
		.with_imm = below(t, 4) == 0,
		.signaled = below(t, 3) == 0 || w->nsent % 4 == 3,
	};
	m->at = below(t, IN - m->len);
	first = below(t, m->len + 1);
	sge[0] = sim_sge(t->f->mr[side], m->at, m->len);
	wr.opcode = m->with_imm ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
	wr.imm_data = m->imm;
	wr.send_flags = m->signaled ? IBV_SEND_SIGNALED : 0;
	if (m->len && m->len <= t->f->p.qp[side]->sq.max_inline && below(t, 2)) {
		sge[0].addr = (uintptr_t)t->f->mem[side] + m->at;
		wr.send_flags |= IBV_SEND_INLINE;
	} else if (below(t, 4) == 0) {
		sge[0] = sim_sge(t->f->mr[side], m->at, first);
		sge[1] = sim_sge(t->f->mr[side], m->at + first, m->len - first);
		wr.num_sge = 2;
	}
	w->nsent++;
	post_now(t->f->p.qp[side], &wr);
}

static size_t place_of(unsigned recv)
{
	return IN + (size_t)(recv % QUEUE) * SLOT_BYTES;
}

static void recv_one(struct run *t, int side)
{
	struct way *w = &t->way[!side];

	if (w->nrecv - w->ncame == QUEUE)
		return;
	recv_at(t->f, side, w->nrecv, place_of(w->nrecv), SLOT_BYTES);
	w->nrecv++;
}

static void check_recv(struct run *t, int side, const struct ibv_wc *wc)
{
	struct way *w = &t->way[!side];
	const struct message *m = &w->sent[w->ncame];

	assert_true(w->ncame < w->nsent);
	assert_int_equal(wc->wr_id, w->ncame);
	assert_int_equal(wc->byte_len, m->len);
	assert_int_equal(wc->wc_flags, m->with_imm ? IBV_WC_WITH_IMM : 0);
	if (m->with_imm)
		assert_int_equal(wc->imm_data, m->imm);
	if (m->len)
		assert_memory_equal(t->f->mem[side] + place_of(w->ncame),
				    t->f->mem[!side] + m->at, m->len);
	w->ncame++;
	t->came++;
}

/* Those without a completion are done with the next that has one. */
static void check_send(struct run *t, int side, const struct ibv_wc *wc)
{
	struct way *w = &t->way[side];

	while (w->ndone < wc->wr_id)
		assert_false(w->sent[w->ndone++].signaled);
	assert_int_equal(wc->wr_id, w->ndone);
	assert_true(w->sent[w->ndone++].signaled);
}

static void poll(struct run *t)
{
	struct ibv_wc wc;

	for (int side = 0; side < 2; side++)
		while (!t->f->s->node[side].stopped &&
		       cq_poll(t->f->p.cq[side], 1, &wc) == 1) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			if (wc.opcode & IBV_WC_RECV)
				check_recv(t, side, &wc);
			else
				check_send(t, side, &wc);
		}
}

/* So little time passes that a process which stands still is not given up. */
static void go_on(struct run *t)
{
	pair_run(t->f, below(t, 4) ? below(t, 300000) : 0);
}

/* Both ends begin again with the same numbers, one after the other. */
static void reset(struct run *t)
{
	const int first = (int)below(t, 2);

	for (int side = 0; side < 2; side++)
		pair_go(t->f, side);
	fix_modify(t->f, first, IBV_QPS_RESET);
	go_on(t);
	pair_again(t->f, !first);
	go_on(t);
	sim_bring(t->f->s, t->f->p.qp[first], t->f->p.qp[!first], &t->f->conf);
	memset(t->way, 0, sizeof(t->way));
	t->resets++;
}

static void finish(struct run *t)
{
	for (int side = 0; side < 2; side++)
		pair_go(t->f, side);
	for (unsigned n = 0; n < IDLE; n++) {
		for (int side = 0; side < 2; side++)
			recv_one(t, side);
		pair_run(t->f, 50000);
		poll(t);
	}
	for (int side = 0; side < 2; side++)
		assert_int_equal(t->way[side].ncame, t->way[side].nsent);
}

static void run_seed(uint64_t seed, unsigned *resets, unsigned *came)
{
	struct run *t = calloc(1, sizeof(*t));

	seed_show(seed);
	rand_seed(&t->r, seed);
	t->f = open_pair((struct sim_conf){ .psn = { 0xfffff0, below(t, 1 << 24) } });
	for (unsigned i = 0; i < TURNS; i++) {
		const int side = (int)below(t, 2);

		switch (below(t, 16)) {
		case 0:
			pair_stop(t->f, side);
			break;
		case 1:
		case 2:
			pair_go(t->f, side);
			break;
		case 3:
			if (below(t, 8) == 0)
				reset(t);
			break;
		case 4:
		case 5:
		case 6:
			go_on(t);
			poll(t);
			break;
		case 7:
		case 8:
		case 9:
			recv_one(t, side);
			break;
		default:
			send_one(t, side);
		}
	}
	finish(t);
	*resets += t->resets;
	*came += t->came;
	fix_close(t->f);
	free(t);
}

static void random_sends(void **state)
{
	const struct seeds seeds = seeds_chosen(60);
	unsigned resets = 0, came = 0;

	(void)state;
	for (uint64_t seed = seeds.first; seed <= seeds.last; seed++)
		run_seed(seed, &resets, &came);
	if (seeds.all)
		assert_true(resets > 20 && came > 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(random_sends) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
