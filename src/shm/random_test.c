/* SPDX-License-Identifier: BSD-2-Clause */
/* Random requests of all kinds both ways: receives come late, segments are lost,
 * processes stand still, QPs are reset and connected again with the same numbers.  All
 * that was posted on a connection is executed once, in order and whole, and completes;
 * nothing of an earlier connection is.  A seed repeats a run: URNIC_TEST_SEED=n,
 * URNIC_TEST_SEEDS=count. */
#include <stdio.h>

#include "shm/fix.h"
#include "sys/rand.h"
#include "sys/seeds_testing.h"

enum {
	QUEUE = 8, /* requests of a side that are not complete */
	/* Of each side's memory: what is sent and read; QUEUE receives; what the peer's
	 * WRITEs go to; what READs fetch; and a word for atomics. */
	SENT = FIX_MEM / 4,
	RECEIVED = SENT,
	WRITTEN = 2 * SENT,
	FETCHED = 3 * SENT,
	SLOT_BYTES = SENT / QUEUE - 16, /* of one place there */
	COUNTER = FIX_MEM - 8,
	TURNS = 400,
	IDLE = 1000, /* times 50 us, after which everything has arrived */
};

struct message {
	enum ibv_wr_opcode opcode;
	uint32_t at, len, imm;
	bool signaled;
	uint64_t count; /* of a fetch-and-add: those before it on this connection */
};

struct way { /* from one side to the other */
	struct message sent[TURNS];
	unsigned nsent, ndone, nrecv, ncame;
	unsigned nlooked; /* messages before those that take receives are looked for */
	uint64_t adds, first; /* fetch-and-adds, and the counter when the way began */
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

static bool is_write(const struct message *m)
{
	return m->opcode == IBV_WR_RDMA_WRITE || m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool takes_recv(const struct message *m)
{
	return m->opcode == IBV_WR_SEND || m->opcode == IBV_WR_SEND_WITH_IMM ||
	       m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static bool has_imm(const struct message *m)
{
	return m->opcode == IBV_WR_SEND_WITH_IMM ||
	       m->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

static size_t place_of(size_t zone, unsigned i)
{
	return zone + (size_t)(i % QUEUE) * (SENT / QUEUE);
}

static enum ibv_wr_opcode some_opcode(struct run *t)
{
	static const enum ibv_wr_opcode some[] = {
		IBV_WR_SEND,
		IBV_WR_SEND,
		IBV_WR_SEND_WITH_IMM,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};

	return some[below(t, sizeof(some) / sizeof(some[0]))];
}

/* Two pieces, one piece, or inline. */
static unsigned some_flags(struct run *t, int side, const struct message *m,
			   struct ibv_send_wr *wr)
{
	struct ibv_sge *sge = wr->sg_list;
	const uint32_t first = below(t, m->len + 1);
	const bool reads = m->opcode == IBV_WR_RDMA_READ;

	if (m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return 0;
	if (!reads && m->len && m->len <= t->f->p.qp[side]->sq.max_inline && below(t, 2))
		return IBV_SEND_INLINE;
	if (below(t, 4) == 0) {
		sge[1] = sge[0];
		sge[0].length = first;
		sge[1].addr += first;
		sge[1].length = m->len - first;
		wr->num_sge = 2;
	}
	return below(t, 4) == 0 ? IBV_SEND_FENCE : 0;
}

/* Where the request finds its bytes, or puts them, here and at the peer. */
static void aim(struct run *t, int side, const struct message *m, struct ibv_send_wr *wr)
{
	const unsigned n = t->way[side].nsent;
	const struct mr *peers = t->f->mr[!side];
	size_t here = m->at, there = place_of(WRITTEN, n);

	if (m->opcode == IBV_WR_RDMA_READ) {
		here = place_of(FETCHED, n);
		there = m->at;
	} else if (m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		here = place_of(FETCHED, n);
		there = COUNTER;
		wr->wr.atomic.remote_addr = peers->mkey.base + there;
		wr->wr.atomic.rkey = peers->mkey.key;
		wr->wr.atomic.compare_add = 1;
	}
	wr->sg_list[0] = sim_sge(t->f->mr[side], here, m->len);
	if (m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		return;
	wr->wr.rdma.remote_addr = peers->mkey.base + there;
	wr->wr.rdma.rkey = peers->mkey.key;
}

static void send_one(struct run *t, int side)
{
	struct way *w = &t->way[side];
	struct message *m = &w->sent[w->nsent];
	struct ibv_sge sge[2];
	struct ibv_send_wr wr = { .wr_id = w->nsent, .sg_list = sge, .num_sge = 1 };

	if (w->nsent == TURNS || w->nsent - w->ndone == QUEUE)
		return;
	*m = (struct message){
		.opcode = some_opcode(t),
		.len = some_length(t),
		.imm = below(t, UINT32_MAX),
		.signaled = below(t, 3) == 0 || w->nsent % 4 == 3,
	};
	if (m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		m->len = 8;
		m->count = w->adds++;
	}
	m->at = below(t, SENT - m->len);
	aim(t, side, m, &wr);
	wr.opcode = m->opcode;
	wr.imm_data = m->imm;
	wr.send_flags =
		some_flags(t, side, m, &wr) | (m->signaled ? IBV_SEND_SIGNALED : 0u);
	if (wr.send_flags & IBV_SEND_INLINE)
		sge[0].addr = (uintptr_t)t->f->mem[side] + m->at;
	w->nsent++;
	post_now(t->f->p.qp[side], &wr);
}

static void recv_one(struct run *t, int side)
{
	struct way *w = &t->way[!side];

	if (w->nrecv - w->ncame == QUEUE)
		return;
	recv_at(t->f, side, w->nrecv, place_of(RECEIVED, w->nrecv), SLOT_BYTES);
	w->nrecv++;
}

static void check_recv(struct run *t, int side, const struct ibv_wc *wc)
{
	struct way *w = &t->way[!side];
	const struct message *m;

	while (w->nlooked < w->nsent && !takes_recv(&w->sent[w->nlooked]))
		w->nlooked++;
	assert_true(w->nlooked < w->nsent);
	m = &w->sent[w->nlooked++];
	assert_int_equal(wc->wr_id, w->ncame);
	assert_int_equal(wc->byte_len, m->len);
	assert_int_equal(wc->wc_flags, has_imm(m) ? IBV_WC_WITH_IMM : 0);
	if (has_imm(m))
		assert_int_equal(wc->imm_data, m->imm);
	if (m->len && !is_write(m))
		assert_memory_equal(t->f->mem[side] + place_of(RECEIVED, w->ncame),
				    t->f->mem[!side] + m->at, m->len);
	w->ncame++;
	t->came++;
}

/* Nothing else goes to these places before this request is done. */
static void check_memory(struct run *t, int side, unsigned i)
{
	const struct message *m = &t->way[side].sent[i];
	const uint8_t *here = t->f->mem[side], *there = t->f->mem[!side];

	if (is_write(m))
		assert_memory_equal(there + place_of(WRITTEN, i), here + m->at, m->len);
	else if (m->opcode == IBV_WR_RDMA_READ)
		assert_memory_equal(here + place_of(FETCHED, i), there + m->at, m->len);
	else if (m->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		assert_int_equal(*(const uint64_t *)(const void *)(here +
								   place_of(FETCHED, i)),
				 t->way[side].first + m->count);
}

/* Those without a completion are done with the next that has one. */
static void check_send(struct run *t, int side, const struct ibv_wc *wc)
{
	struct way *w = &t->way[side];

	for (; w->ndone < wc->wr_id; w->ndone++) {
		assert_false(w->sent[w->ndone].signaled);
		check_memory(t, side, w->ndone);
	}
	assert_int_equal(wc->wr_id, w->ndone);
	assert_true(w->sent[w->ndone].signaled);
	check_memory(t, side, w->ndone++);
}

/* The READs and atomics that have been sent, in part at least, and not answered. */
static void check_outstanding(const struct run *t, int side)
{
	struct qp *qp = t->f->p.qp[side];
	const struct send_cursor *at = &shm_qp(qp)->src.at;
	uint32_t n = 0;

	if (qp->state != IBV_QPS_RTS)
		return;
	for (uint32_t i = qp->sq.tail; i != at->fresh; i++) {
		const struct swqe *w = sq_at(&qp->sq, i);

		n += wqe_is_read(w) && w->done < w->npkts &&
		     psn_diff(at->psn, w->psn) > 0;
	}
	assert_int_equal(at->reads - shm_qp(qp)->src.s.answered, n);
}

static void poll(struct run *t)
{
	struct ibv_wc wc;

	for (int side = 0; side < 2; side++)
		check_outstanding(t, side);
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

static uint64_t counter(const struct run *t, int side)
{
	return *(const uint64_t *)(const void *)(t->f->mem[side] + COUNTER);
}

static void begin(struct run *t)
{
	memset(t->way, 0, sizeof(t->way));
	for (int side = 0; side < 2; side++)
		t->way[side].first = counter(t, !side);
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
	begin(t);
	t->resets++;
}

/* Every place for an answer is free, or will be when the peer has read on. */
static void places_are_back(const struct run *t, int side)
{
	const struct reply_room *r = &pair_peer(t->f, side)->replies;

	assert_int_equal(r->words + r->chunks + r->nleft, REPLIES);
	assert_true(list_empty(&pair_peer(t->f, side)->starved));
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
	for (int side = 0; side < 2; side++) {
		struct way *w = &t->way[side];

		while (w->nlooked < w->nsent)
			assert_false(takes_recv(&w->sent[w->nlooked++]));
		while (w->ndone < w->nsent) { /* nobody tells of the last ones */
			assert_false(w->sent[w->ndone].signaled);
			check_memory(t, side, w->ndone++);
		}
		assert_int_equal(counter(t, !side), w->first + w->adds);
		places_are_back(t, side);
	}
}

static void run_seed(uint64_t seed, unsigned *resets, unsigned *came)
{
	struct run *t = calloc(1, sizeof(*t));
	struct sim_conf conf = { .timeout = 10 };

	seed_show(seed);
	rand_seed(&t->r, seed);
	conf.psn[0] = 0xfffff0;
	conf.psn[1] = below(t, 1 << 24);
	conf.rd_atomic = (uint8_t)(1 + below(t, 8));
	/* With memory that may be reached directly, some requests take no segments. */
	t->f = seed % 2 ? open_pair(conf) : direct_segments(IBV_QPT_RC, conf);
	begin(t);
	for (unsigned i = 0; i < TURNS; i++) {
		const int side = (int)below(t, 2);

		switch (below(t, 16)) {
		case 0:
			pair_stop(t->f, side);
			break;
		case 1:
			lose(t->f, side, below(t, 8));
			break;
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

static void random_requests(void **state)
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
	const struct CMUnitTest tests[] = { cmocka_unit_test(random_requests) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
