/* SPDX-License-Identifier: BSD-2-Clause */
/* Random work over streams that cut and delay: nothing is lost, nothing is done twice,
 * all completes in order.  A seed repeats a run: URNIC_TEST_SEED=n,
 * URNIC_TEST_SEEDS=count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/sim.h"
#include "sys/log.h"
#include "sys/rand.h"
#include "sys/seeds_testing.h"
#include "verbs/due.h"

enum {
	PAIRS = 3,
	OPS = 40,
	MAX_LEN = 60000,
	COUNTERS = 3,
	SGES = 5,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

struct op {
	enum ibv_wr_opcode opcode;
	uint32_t len;
	unsigned flags, counter;
	size_t at; /* in the sender's out and the target's in */
	uint64_t add;
};

struct side {
	struct qp *qp;
	struct cq *cq;
	uint8_t *out, *in, *want; /* memory to send from, and to receive into */
	struct mr *mr_out, *mr_in, *mr_words;
	uint64_t words[COUNTERS], sums[COUNTERS], results[OPS];
	struct mr *mr_results;
	struct op ops[OPS];
	unsigned nops, posted, ended;
	struct {
		uint32_t len, imm;
		bool write;
		size_t at;
	} recv[OPS];
	unsigned nrecv, recv_posted, recv_ended;
	bool failed; /* a completion with an error has come */
	bool named;  /* no further one may have a status of its own */
	size_t size;
};

struct run {
	struct prng r;
	struct sim *s;
	struct sim_pair p[PAIRS];
	struct side side[PAIRS][2];
	unsigned pairs;
};

static uint64_t seed_now;

static uint32_t below(struct run *t, uint32_t n)
{
	return (uint32_t)rand_below(&t->r, n);
}

static uint32_t some_length(struct run *t)
{
	switch (below(t, 6)) {
	case 0:
		return below(t, 4);
	case 1:
		return below(t, 300);
	case 2:
		return 1424 + below(t, 8);
	default:
		return below(t, below(t, 4) ? 6000 : MAX_LEN);
	}
}

/* --- plan ---------------------------------------------------------------- */

static void plan_op(struct run *t, struct side *peer, struct op *o, size_t *at)
{
	/* clang-format off */
	static const enum ibv_wr_opcode all[] = {
		IBV_WR_SEND, IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM,
		IBV_WR_RDMA_READ, IBV_WR_ATOMIC_FETCH_AND_ADD,
	};
	/* clang-format on */

	o->opcode = all[below(t, 5)];
	o->len = some_length(t);
	o->at = *at;
	*at += o->len;
	o->flags = below(t, 3) ? IBV_SEND_SIGNALED : 0;
	if (below(t, 8) == 0)
		o->flags |= IBV_SEND_FENCE;
	if (o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		o->counter = below(t, COUNTERS);
		o->add = 1 + below(t, 1000);
		peer->sums[o->counter] += o->add;
	} else if (o->len <= 256 && below(t, 2) && o->opcode != IBV_WR_RDMA_READ) {
		o->flags |= IBV_SEND_INLINE;
	}
	if (o->opcode != IBV_WR_SEND && o->opcode != IBV_WR_RDMA_WRITE_WITH_IMM)
		return;
	peer->recv[peer->nrecv].write = o->opcode != IBV_WR_SEND;
	peer->recv[peer->nrecv].len = o->len;
	peer->recv[peer->nrecv++].at = o->at;
}

static void plan(struct run *t, struct side *pair)
{
	for (int i = 0; i < 2; i++) {
		struct side *me = &pair[i], *peer = &pair[!i];
		size_t at = 0;

		me->nops = 1 + below(t, OPS);
		for (unsigned j = 0; j < me->nops; j++)
			plan_op(t, peer, &me->ops[j], &at);
		/* The last completion tells that all work is done. */
		me->ops[me->nops - 1].flags |= IBV_SEND_SIGNALED;
		me->size = at;
	}
}

static void open_side(struct run *t, struct side *me, const struct side *peer, int i)
{
	me->out = malloc(me->size + 1);
	me->in = calloc(1, peer->size + 1);
	me->want = calloc(1, peer->size + 1);
	for (size_t j = 0; j < me->size; j++)
		me->out[j] = (uint8_t)rand_u64(&t->r);
	/* The data that a READ of the peer finds here. */
	for (unsigned j = 0; j < peer->nops; j++) {
		const struct op *o = &peer->ops[j];

		for (size_t k = 0; o->opcode == IBV_WR_RDMA_READ && k < o->len; k++)
			me->in[o->at + k] = me->want[o->at + k] =
				(uint8_t)rand_u64(&t->r);
	}
	me->mr_out = sim_mr(t->s, i, me->out, me->size + 1, ACCESS);
	me->mr_in = sim_mr(t->s, i, me->in, peer->size + 1, ACCESS);
	me->mr_words = sim_mr(t->s, i, me->words, sizeof(me->words), ACCESS);
	me->mr_results = sim_mr(t->s, i, me->results, sizeof(me->results), ACCESS);
}

/* The data that the peer will find in its memory. */
static void expect(struct side *me, struct side *peer)
{
	for (unsigned j = 0; j < me->nops; j++) {
		const struct op *o = &me->ops[j];

		if (o->opcode != IBV_WR_RDMA_READ &&
		    o->opcode != IBV_WR_ATOMIC_FETCH_AND_ADD)
			memcpy(peer->want + o->at, me->out + o->at, o->len);
	}
}

/* --- drive --------------------------------------------------------------- */

static int cut(struct run *t, struct ibv_sge *sge, const struct mr *mr, size_t at,
	       uint32_t len)
{
	int n = 1 + (int)below(t, SGES);

	for (int i = 0; i < n; i++) {
		uint32_t part = i + 1 == n ? len : below(t, len + 1);

		sge[i] = (struct ibv_sge){ mr->mkey.base + at, part, mr->mkey.key };
		at += part;
		len -= part;
	}
	return n;
}

static void post_op(struct run *t, struct side *me, struct side *peer)
{
	struct op *o = &me->ops[me->posted];
	bool atomic = o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
	struct ibv_sge sge[SGES];
	struct ibv_send_wr *bad, wr = {
		.wr_id = me->posted,
		.opcode = o->opcode,
		.send_flags = o->flags,
		.sg_list = sge,
		.imm_data = (uint32_t)o->at,
	};

	if (atomic) {
		wr.num_sge = 1;
		sge[0] = (struct ibv_sge){ me->mr_results->mkey.base + me->posted * 8, 8,
					   me->mr_results->mkey.key };
		wr.wr.atomic.remote_addr = peer->mr_words->mkey.base + o->counter * 8;
		wr.wr.atomic.rkey = peer->mr_words->mkey.key;
		wr.wr.atomic.compare_add = o->add;
	} else {
		wr.num_sge = cut(t, sge, me->mr_out, o->at, o->len);
		wr.wr.rdma.remote_addr = peer->mr_in->mkey.base + o->at;
		wr.wr.rdma.rkey = peer->mr_in->mkey.key;
	}
	assert_int_equal(qp_post_send(me->qp, &wr, &bad), 0);
	me->posted++;
}

/* Posts up to n more receives. */
static void post_recvs(struct run *t, struct side *me, unsigned n)
{
	for (; n > 0 && me->recv_posted < me->nrecv; n--) {
		const unsigned i = me->recv_posted++;
		struct ibv_sge sge[SGES];
		struct ibv_recv_wr *bad, wr = { .wr_id = 1000 + i, .sg_list = sge };

		if (!me->recv[i].write)
			wr.num_sge =
				cut(t, sge, me->mr_in, me->recv[i].at, me->recv[i].len);
		assert_true(qp_post_recv(me->qp, &wr, &bad) >= 0);
	}
}

static void recv_ended(struct side *me, const struct ibv_wc *wc)
{
	unsigned i = me->recv_ended++;

	assert_int_equal(wc->wr_id, 1000 + i);
	assert_int_equal(wc->byte_len, me->recv[i].len);
	assert_int_equal(wc->opcode,
			 me->recv[i].write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	if (me->recv[i].write)
		assert_int_equal(wc->imm_data, me->recv[i].at);
	/* At its completion the data of a receive is there. */
	assert_memory_equal(me->in + me->recv[i].at, me->want + me->recv[i].at,
			    me->recv[i].len);
}

static void send_ended(struct side *me, const struct ibv_wc *wc)
{
	assert_in_range(wc->wr_id, me->ended, me->nops - 1);
	for (; me->ended < wc->wr_id; me->ended++)
		assert_false(me->ops[me->ended].flags & IBV_SEND_SIGNALED);
	assert_true(me->ops[me->ended].flags & IBV_SEND_SIGNALED);
	me->ended++;
}

static void poll(struct side *me)
{
	struct ibv_wc wc;

	while (cq_poll(me->cq, 1, &wc) == 1) {
		if (wc.status != IBV_WC_SUCCESS)
			print_error("seed %lu: status %d, vendor_err %u, wr_id %lu\n",
				    seed_now, wc.status, wc.vendor_err, wc.wr_id);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		if (wc.wr_id >= 1000)
			recv_ended(me, &wc);
		else
			send_ended(me, &wc);
	}
}

static void work(struct run *t)
{
	bool done = false;

	for (unsigned i = 0; !done; i++) {
		done = true;
		for (unsigned p = 0; p < t->pairs; p++) {
			for (int k = 0; k < 2; k++) {
				struct side *me = &t->side[p][k];

				while (me->posted < me->nops && below(t, 3))
					post_op(t, me, &t->side[p][!k]);
				if (below(t, 3) == 0)
					post_recvs(t, me, 1 + below(t, 3));
				poll(me);
				done = done && me->ended == me->nops &&
				       me->recv_ended == me->nrecv;
			}
		}
		sim_run(t->s, below(t, 20000));
		/* The responder must wait for its peer's first FPDU. */
		assert_true(i < 100000);
	}
	sim_run(t->s, SEC);
}

/* --- check --------------------------------------------------------------- */

static void check_side(const struct side *me, const struct side *peer)
{
	for (unsigned i = 0; i < COUNTERS; i++)
		assert_int_equal(me->words[i], me->sums[i]);
	assert_memory_equal(me->in, me->want, peer->size);
	for (unsigned j = 0; j < me->nops; j++) {
		const struct op *o = &me->ops[j];

		if (o->opcode == IBV_WR_RDMA_READ)
			assert_memory_equal(me->out + o->at, peer->want + o->at, o->len);
		if (o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			assert_true(me->results[j] + o->add <= peer->sums[o->counter]);
	}
}

static void close_side(struct side *me)
{
	assert_int_equal(mr_dereg(me->mr_out), 0);
	assert_int_equal(mr_dereg(me->mr_in), 0);
	assert_int_equal(mr_dereg(me->mr_words), 0);
	assert_int_equal(mr_dereg(me->mr_results), 0);
	free(me->out);
	free(me->in);
	free(me->want);
}

static struct sim_conf some_conf(struct run *t)
{
	static const size_t mss[] = { 300, 536, 1448, 4096, 65483 };

	return (struct sim_conf){
		.crc = below(t, 2), .markers = { below(t, 3) == 0, below(t, 3) == 0 },
		.rtr = 1 + below(t, 7),
		.ird = { (uint16_t)(1 + below(t, 20)), (uint16_t)(1 + below(t, 20)) },
		.ord = { (uint16_t)(1 + below(t, 20)), (uint16_t)(1 + below(t, 20)) },
		.stream = {
			.latency = below(t, 3000), .jitter = below(t, 3000),
			.depth = 2000 + below(t, 100000), .mss = mss[below(t, 5)],
			.seed = 1 + below(t, 1 << 30),
		},
	};
}

static struct run *begin(uint64_t seed)
{
	struct run *t = calloc(1, sizeof(*t));

	rand_seed(&t->r, seed);
	if (getenv("URNIC_LOG"))
		log_set_level(getenv("URNIC_LOG"));
	t->s = sim_open();
	t->pairs = 1 + below(t, PAIRS);
	for (unsigned p = 0; p < t->pairs; p++) {
		struct sim_conf c = some_conf(t);

		plan(t, t->side[p]);
		t->p[p] = sim_pair(t->s, NULL);
		for (int i = 0; i < 2; i++) {
			t->side[p][i].qp = t->p[p].qp[i];
			t->side[p][i].cq = t->p[p].cq[i];
			open_side(t, &t->side[p][i], &t->side[p][!i], i);
		}
		for (int i = 0; i < 2; i++) {
			expect(&t->side[p][i], &t->side[p][!i]);
			post_recvs(t, &t->side[p][i], below(t, 3) ? OPS : 0);
		}
		sim_connect(t->s, &t->p[p], &c);
	}
	return t;
}

static void end(struct run *t)
{
	for (unsigned p = 0; p < t->pairs; p++) {
		sim_unpair(&t->p[p]);
		close_side(&t->side[p][0]);
		close_side(&t->side[p][1]);
	}
	sim_close(t->s);
	free(t);
}

static void one_seed(uint64_t seed)
{
	struct run *t = begin(seed);

	work(t);
	for (unsigned p = 0; p < t->pairs; p++)
		for (int i = 0; i < 2; i++)
			check_side(&t->side[p][i], &t->side[p][!i]);
	end(t);
}

/* --- connections that end ------------------------------------------------ */

static bool is_answered(const struct op *op)
{
	return op->opcode == IBV_WR_RDMA_READ ||
	       op->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

/* The request that the peer's Terminate names has a status of its own. Those before it
 * are flushed from the first one on whose answer could not be sent any more. */
static void check_status(struct side *me, const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_WR_FLUSH_ERR && !me->failed) {
		me->named = !is_answered(&me->ops[wc->wr_id]);
	} else if (wc->status != IBV_WC_WR_FLUSH_ERR) {
		assert_false(me->named);
		me->named = true;
	}
}

/* Completions come in order, each once; after the first that fails all fail. */
static void poll_ending(struct side *me)
{
	struct ibv_wc wc;

	while (cq_poll(me->cq, 1, &wc) == 1) {
		if (wc.status == IBV_WC_SUCCESS && wc.wr_id >= 1000) {
			recv_ended(me, &wc);
		} else if (wc.status == IBV_WC_SUCCESS) {
			assert_false(me->failed);
			send_ended(me, &wc);
		} else if (wc.wr_id >= 1000) {
			assert_int_equal(wc.wr_id, 1000 + me->recv_ended++);
		} else {
			/* Unsignaled work requests before it have succeeded. */
			for (; !me->failed && me->ended < wc.wr_id; me->ended++)
				assert_false(me->ops[me->ended].flags &
					     IBV_SEND_SIGNALED);
			assert_int_equal(wc.wr_id, me->ended++);
			check_status(me, &wc);
			me->failed = true;
		}
	}
}

/* Ends a connection in a random way.  Returns false if the way may be harmless. */
static bool make_an_end(struct run *t, unsigned pair)
{
	struct sim_pair *p = &t->p[pair];
	int i = (int)below(t, 2);

	switch (below(t, 4)) {
	case 0:
		stream_loop_break(p->stream[0], ECONNRESET);
		break;
	case 1:
		sim_modify(t->s, p->qp[i], IBV_QPS_ERR);
		break;
	case 2:
		sim_modify(t->s, p->qp[i], IBV_QPS_SQD);
		break;
	default: /* a key that may still be needed */
		assert_int_equal(mr_dereg(t->side[pair][i].mr_in), 0);
		t->side[pair][i].mr_in = sim_mr(t->s, i, t->side[pair][i].in,
						t->side[pair][!i].size + 1, ACCESS);
		return false;
	}
	return true;
}

static void one_end(uint64_t seed)
{
	struct run *t = begin(seed);
	bool sure;

	for (unsigned p = 0; p < t->pairs; p++)
		for (int i = 0; i < 2; i++) {
			post_recvs(t, &t->side[p][i], OPS);
			while (t->side[p][i].posted < t->side[p][i].nops)
				post_op(t, &t->side[p][i], &t->side[p][!i]);
		}
	for (unsigned i = below(t, 40); i > 0; i--)
		sim_run(t->s, below(t, 2000));
	sure = make_an_end(t, 0);
	sim_run(t->s, 20 * SEC);
	for (unsigned p = 0; p < t->pairs; p++) {
		for (int i = 0; i < 2; i++) {
			struct side *me = &t->side[p][i];

			assert_int_equal(me->qp->state == IBV_QPS_ERR,
					 p == 0 &&
						 (sure || me->qp->state == IBV_QPS_ERR));
			if (p == 0 && me->qp->state != IBV_QPS_ERR)
				sim_modify(t->s, me->qp, IBV_QPS_ERR);
			poll_ending(me);
			assert_int_equal(me->ended, me->nops);
			assert_true(me->recv_ended == me->nrecv);
			if (p > 0)
				check_side(me, &t->side[p][!i]);
		}
	}
	end(t);
}

static void connections_that_end(void **state)
{
	const struct seeds s = seeds_chosen(300);

	(void)state;
	for (seed_now = s.first; seed_now <= s.last; seed_now++) {
		seed_show(seed_now);
		one_end(seed_now);
	}
}

static void streams_that_cut_and_delay(void **state)
{
	const struct seeds s = seeds_chosen(300);

	(void)state;
	for (seed_now = s.first; seed_now <= s.last; seed_now++) {
		seed_show(seed_now);
		one_seed(seed_now);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(streams_that_cut_and_delay),
		cmocka_unit_test(connections_that_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
