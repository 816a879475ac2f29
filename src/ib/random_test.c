/* SPDX-License-Identifier: BSD-2-Clause */
/* Random work over a bad wire: nothing is lost, nothing is done twice, all completes in
 * order.  A seed repeats a run: URNIC_TEST_SEED=n, URNIC_TEST_SEEDS=count. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "ib/sim.h"
#include "sys/log.h"
#include "sys/rand.h"
#include "sys/seeds_testing.h"
#include "verbs/due.h"
#include "verbs/mr.h"

enum {
	PAIRS = 3,
	OPS = 40,
	MAX_LEN = 40000,
	COUNTERS = 4,
	SGES = 5,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

/* What one side of a pair does to the other. */
struct op {
	enum ibv_wr_opcode opcode;
	uint32_t len, imm;
	unsigned flags, recv; /* recv: which receive it takes */
	/* its offset: in the sender's out and the target's in, or the reverse */
	size_t at;
	uint64_t add; /* compare-and-swap: what it must find */
	unsigned counter;
};

struct side {
	struct qp *qp;
	struct cq *cq;
	uint8_t *out, *in, *in_want; /* memory to send from, and to receive into */
	struct mr *mr_out, *mr_in;
	uint64_t counters[COUNTERS + 1], sums[COUNTERS + 1]; /* last: swaps */
	struct mr *mr_counters;
	uint64_t results[OPS];
	struct mr *mr_results;
	struct op ops[OPS];
	unsigned nops, posted, ended, last_signalled;
	unsigned nrecv, recv_posted, recv_ended;
	struct {
		uint32_t len, imm;
		bool with_imm, write;
		size_t at;
	} recv[OPS];
	size_t size;
};

struct run {
	struct prng r;
	struct sim *s;
	struct side side[PAIRS][2];
	unsigned pairs;
	uint32_t alike; /* most requests are SENDs of so many bytes; 0: they are not */
};

static uint64_t seed_now; /* printed when a test fails */

static uint32_t below(struct run *t, uint32_t n)
{
	return (uint32_t)rand_below(&t->r, n);
}

static uint32_t some_length(struct run *t, uint32_t mtu)
{
	switch (below(t, 6)) {
	case 0:
		return below(t, 4);
	case 1:
		return below(t, 300);
	case 2:
		return mtu * (1 + below(t, 4)) + below(t, 3) - 1;
	case 3:
		return mtu;
	default:
		return below(t, below(t, 4) ? 6000 : MAX_LEN);
	}
}

static bool is_atomic(const struct op *o)
{
	return o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	       o->opcode == IBV_WR_ATOMIC_CMP_AND_SWP;
}

/* --- plan ---------------------------------------------------------------- */

static void plan_op(struct run *t, struct side *me, struct side *peer, struct op *o,
		    size_t *at, uint32_t mtu)
{
	/* clang-format off */
	static const enum ibv_wr_opcode all[] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_SEND, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP,
	};
	/* clang-format on */

	o->opcode = all[below(t, 9)];
	o->len = some_length(t, mtu);
	if (t->alike && below(t, 8)) {
		o->opcode = IBV_WR_SEND;
		o->len = t->alike;
	}
	o->imm = (uint32_t)rand_u64(&t->r);
	o->at = *at;
	*at += o->len;
	if (below(t, 3))
		o->flags |= IBV_SEND_SIGNALED;
	if (below(t, 8) == 0)
		o->flags |= IBV_SEND_FENCE;
	if (o->len <= 256 && below(t, 2) && o->opcode != IBV_WR_RDMA_READ)
		o->flags |= IBV_SEND_INLINE;
	if (is_atomic(o))
		o->flags &= ~(unsigned)IBV_SEND_INLINE;
	if (o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		o->counter = below(t, COUNTERS);
		o->add = 1 + below(t, 1000);
		peer->sums[o->counter] += o->add;
	} else if (is_atomic(o)) {
		o->counter = COUNTERS;
		o->add = peer->sums[COUNTERS]++;
	}
	if (o->opcode == IBV_WR_SEND || o->opcode == IBV_WR_SEND_WITH_IMM ||
	    o->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		bool imm = o->opcode != IBV_WR_SEND;

		o->recv = peer->nrecv;
		peer->recv[peer->nrecv].len = o->len;
		peer->recv[peer->nrecv].imm = o->imm;
		peer->recv[peer->nrecv].with_imm = imm;
		peer->recv[peer->nrecv].write = o->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
		peer->recv[peer->nrecv++].at = o->at;
	}
	(void)me;
}

static void plan(struct run *t, struct side *pair, uint32_t mtu)
{
	for (int i = 0; i < 2; i++) {
		struct side *me = &pair[i], *peer = &pair[!i];

		me->nops = 1 + below(t, OPS);
		for (unsigned j = 0; j < me->nops; j++)
			plan_op(t, me, peer, &me->ops[j], &me->size, mtu);
		me->ops[me->nops - 1].flags |= IBV_SEND_SIGNALED;
	}
}

/* Writes the data of a READ to its target, before the start. */
static void fill(struct run *t, struct side *pair, int node)
{
	struct side *me = &pair[node], *peer = &pair[!node];

	me->out = malloc(me->size + 1);
	peer->in = malloc(me->size + 1);
	peer->in_want = malloc(me->size + 1);
	for (size_t i = 0; i < me->size; i++) {
		me->out[i] = (uint8_t)rand_u64(&t->r);
		peer->in_want[i] = me->out[i];
	}
	memset(peer->in, 0xee, me->size + 1);
	for (unsigned j = 0; j < me->nops; j++) {
		const struct op *o = &me->ops[j];

		if (is_atomic(o))
			memset(peer->in_want + o->at, 0xee, o->len);
		if (o->opcode != IBV_WR_RDMA_READ)
			continue;
		memcpy(peer->in + o->at, me->out + o->at, o->len);
		memset(me->out + o->at, 0xdd, o->len);
	}
}

static void open_pair(struct run *t, struct side *pair, const struct sim_conf *c)
{
	struct sim_pair p = sim_pair(t->s, IBV_QPT_RC, c);

	for (int i = 0; i < 2; i++)
		fill(t, pair, i);
	for (int i = 0; i < 2; i++) {
		struct side *me = &pair[i];

		me->qp = p.qp[i];
		me->cq = p.cq[i];
		me->mr_out = sim_mr(t->s, i, me->out, me->size + 1, ACCESS);
		me->mr_in = sim_mr(t->s, i, me->in, pair[!i].size + 1, ACCESS);
		me->mr_counters =
			sim_mr(t->s, i, me->counters, sizeof(me->counters), ACCESS);
		me->mr_results =
			sim_mr(t->s, i, me->results, sizeof(me->results), ACCESS);
	}
}

/* --- do ------------------------------------------------------------------ */

/* Cuts a range into SGEs, some of them empty. */
static int cut(struct run *t, struct ibv_sge *sge, const struct mr *mr, size_t at,
	       uint32_t len)
{
	int n = 0;

	while (n < SGES - 1 && len > 0 && below(t, 3)) {
		uint32_t piece = below(t, len + 1);

		sge[n++] = sim_sge(mr, at, piece);
		at += piece;
		len -= piece;
	}
	if (len > 0 || below(t, 2))
		sge[n++] = sim_sge(mr, at, len);
	return n;
}

static void post_op(struct run *t, struct side *me, const struct side *peer)
{
	const struct op *o = &me->ops[me->posted];
	struct ibv_sge sge[SGES];
	struct ibv_send_wr wr = {
		.wr_id = me->posted,
		.opcode = o->opcode,
		.sg_list = sge,
		.send_flags = o->flags,
		.imm_data = o->imm,
	};

	if (is_atomic(o)) {
		sge[0] = sim_sge(me->mr_results, me->posted * 8, 8);
		wr.num_sge = 1;
		wr.wr.atomic.remote_addr = (uintptr_t)&peer->counters[o->counter];
		wr.wr.atomic.rkey = peer->mr_counters->mkey.key;
		wr.wr.atomic.compare_add = o->add;
		wr.wr.atomic.swap = o->add + 1;
	} else {
		wr.num_sge = cut(t, sge, me->mr_out, o->at, o->len);
		wr.wr.rdma.remote_addr = (uintptr_t)peer->in + o->at;
		wr.wr.rdma.rkey = peer->mr_in->mkey.key;
	}
	sim_send(me->qp, &wr);
	me->posted++;
}

static void post_recv(struct run *t, struct side *me)
{
	unsigned i = me->recv_posted++;
	uint32_t extra = 0;
	struct ibv_sge sge[SGES];
	int n;

	if (me->recv[i].write) { /* its memory is not used */
		sim_recv(me->qp, 1000 + i, NULL, 0);
		return;
	}
	n = cut(t, sge, me->mr_in, me->recv[i].at, me->recv[i].len + extra);
	sim_recv(me->qp, 1000 + i, sge, n);
}

static void send_ended(struct side *me, const struct ibv_wc *wc)
{
	assert_in_range(wc->wr_id, me->ended, me->nops - 1);
	for (; me->ended < wc->wr_id; me->ended++)
		assert_false(me->ops[me->ended].flags & IBV_SEND_SIGNALED);
	assert_true(me->ops[me->ended].flags & IBV_SEND_SIGNALED);
	me->ended++;
}

static void recv_ended(struct side *me, const struct ibv_wc *wc)
{
	unsigned i = me->recv_ended++;

	assert_int_equal(wc->wr_id, 1000 + i);
	assert_int_equal(wc->byte_len, me->recv[i].len);
	assert_int_equal(wc->wc_flags & IBV_WC_WITH_IMM,
			 me->recv[i].with_imm ? IBV_WC_WITH_IMM : 0);
	if (me->recv[i].with_imm)
		assert_int_equal(wc->imm_data, me->recv[i].imm);
	assert_int_equal(wc->opcode,
			 me->recv[i].write ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV);
	/* At its completion the data of a receive is there. */
	assert_memory_equal(me->in + me->recv[i].at, me->in_want + me->recv[i].at,
			    me->recv[i].len);
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

static bool side_done(const struct side *me)
{
	return me->ended == me->nops && me->recv_ended == me->nrecv;
}

static void drive(struct run *t, struct side *me, struct side *peer)
{
	while (me->posted < me->nops && below(t, 3))
		post_op(t, me, peer);
	while (me->recv_posted < me->nrecv && below(t, 2))
		post_recv(t, me);
	poll(me);
}

static void work(struct run *t)
{
	uint64_t end = t->s->now + 600ull * 1000000000;
	bool done = false;

	while (!done) {
		done = true;
		for (unsigned p = 0; p < t->pairs; p++) {
			for (int i = 0; i < 2; i++) {
				drive(t, &t->side[p][i], &t->side[p][!i]);
				done = done && side_done(&t->side[p][i]);
			}
		}
		for (unsigned k = below(t, 8); k-- > 0;) {
			/* A node that does not run for a moment lets rings fill. */
			if (t->s->same_host && below(t, 4) == 0)
				t->s->node[below(t, 2)].stopped ^= 1;
			if (t->s->same_host)
				sim_run(t->s, 1000);
			else
				sim_step(t->s);
		}
		t->s->node[0].stopped = t->s->node[1].stopped = false;
		assert_true(t->s->now < end);
	}
	assert_true(sim_run(t->s, 100ull * 1000000000));
}

/* --- check --------------------------------------------------------------- */

static void check_side(struct side *me, struct side *peer)
{
	for (unsigned i = 0; i <= COUNTERS; i++)
		assert_int_equal(me->counters[i], me->sums[i]);
	assert_memory_equal(me->in, me->in_want, peer->size);
	/* A READ brought what was at its target. */
	assert_memory_equal(peer->in, peer->in_want, me->size);
	for (unsigned j = 0; j < me->nops; j++) {
		const struct op *o = &me->ops[j];

		if (o->opcode == IBV_WR_RDMA_READ)
			assert_memory_equal(me->out + o->at, peer->in_want + o->at,
					    o->len);
		if (o->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
			assert_true(me->results[j] + o->add <= peer->sums[o->counter]);
		if (o->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
			assert_int_equal(me->results[j], o->add);
	}
}

static void close_pair(struct run *t, struct side *pair)
{
	for (int i = 0; i < 2; i++) {
		struct side *me = &pair[i];

		sim_destroy(t->s, me->qp);
		assert_int_equal(cq_destroy(me->cq), 0);
		assert_int_equal(mr_dereg(me->mr_out), 0);
		assert_int_equal(mr_dereg(me->mr_in), 0);
		assert_int_equal(mr_dereg(me->mr_counters), 0);
		assert_int_equal(mr_dereg(me->mr_results), 0);
		free(me->out);
		free(me->in);
		free(me->in_want);
	}
}

enum way { A_WIRE, A_PIPE, ALL_OF_A_HOST };

static void one_seed(uint64_t seed, enum way way)
{
	/* clang-format off */
	static const char *const faults[] = {
		"drop=0.1", "dup=0.1", "reorder=0.1", "corrupt=0.05",
		"drop=0.03,dup=0.03,reorder=0.03,corrupt=0.01,delay=2ms:0.01",
		"tx:drop=0.2", "rx:drop=0.2", "reorder=0.3,dup=0.3",
		"delay=100us:0.5", "drop=0.01",
	};
	/* clang-format on */
	struct run *t = calloc(1, sizeof(*t));
	char fault[200];
	struct sim_conf c = { .fault = fault, .timeout = 10 };

	rand_seed(&t->r, seed);
	if (getenv("URNIC_LOG"))
		log_set_level(getenv("URNIC_LOG"));
	snprintf(fault, sizeof(fault), "%s,seed=%u", faults[below(t, 10)],
		 1 + below(t, 1 << 30));
	c.path_mtu = (enum ibv_mtu)(IBV_MTU_256 + below(t, 5));
	c.ipv6 = below(t, 2);
	c.psn[0] = below(t, 2) ? 0xffffff - below(t, 40) : below(t, 1 << 24);
	c.psn[1] = below(t, 2) ? 0x7fffff - below(t, 40) : below(t, 1 << 24);
	c.rd_atomic = (uint8_t)(1 + below(t, 16));
	c.min_rnr_timer = (uint8_t)(1 + below(t, 14));
	c.hide_ids = below(t, 2);
	c.late = (uint64_t[]){ 0, 20000, RECV_WAIT_NS }[below(t, 3)];
	c.same_host = way != A_WIRE;
	c.pipe_only = way == A_PIPE;
	if (c.same_host)
		c.fault = NULL;
	log_info("seed %llu: %s, rd_atomic %u, MTU %u", (unsigned long long)seed, fault,
		 c.rd_atomic, mtu_bytes(c.path_mtu));
	t->s = sim_open(&c);
	t->s->take_every = below(t, 3) ? 0 : 2 + below(t, 8);
	t->s->take_but_last = below(t, 2);
	t->pairs = 1 + below(t, PAIRS);
	t->alike = below(t, 4) ? 0 : 4 * (1 + below(t, 16));
	for (unsigned p = 0; p < t->pairs; p++) {
		plan(t, t->side[p], mtu_bytes(c.path_mtu));
		open_pair(t, t->side[p], &c);
	}
	work(t);
	for (unsigned p = 0; p < t->pairs; p++)
		for (int i = 0; i < 2; i++)
			check_side(&t->side[p][i], &t->side[p][!i]);
	for (unsigned p = 0; p < t->pairs; p++)
		close_pair(t, t->side[p]);
	sim_close(t->s);
	free(t);
}

static void seeds(enum way way)
{
	const struct seeds s = seeds_chosen(1000);

	for (seed_now = s.first; seed_now <= s.last; seed_now++) {
		seed_show(seed_now);
		one_seed(seed_now, way);
	}
}

static void a_bad_wire(void **state)
{
	(void)state;
	seeds(A_WIRE);
}

static void a_pipe(void **state)
{
	(void)state;
	seeds(A_PIPE);
}

static void the_same_host(void **state)
{
	(void)state;
	seeds(ALL_OF_A_HOST);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bad_wire),
		cmocka_unit_test(a_pipe),
		cmocka_unit_test(the_same_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
