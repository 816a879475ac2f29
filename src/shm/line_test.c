/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs that share a ring wait for room in a line (shm/line.c). */
#include "shm/fix.h"

enum { PAIRS = 20 };

static void many_qps_share_a_ring(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct sim_pair p[PAIRS];

	(void)state;
	for (int i = 0; i < PAIRS; i++)
		p[i] = sim_pair(f->s, IBV_QPT_RC, &f->conf);
	pair_stop(f, 1);
	for (unsigned i = 0; i < PAIRS; i++) {
		struct ibv_sge sge = sim_sge(f->mr[0], i * 50000, 50000);
		struct ibv_send_wr wr = {
			.wr_id = i,
			.opcode = IBV_WR_RDMA_WRITE,
			.sg_list = &sge,
			.num_sge = 1,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { f->mr[1]->mkey.base + i * 50000,
				     f->mr[1]->mkey.key },
		};

		sim_send(p[i].qp[0], &wr);
	}
	pair_run(f, 1 * MS);
	assert_true(peer_waits(pair_peer(f, 0)));
	pair_go(f, 1);
	for (unsigned i = 0; i < PAIRS; i++) {
		struct ibv_wc wc;

		assert_true(sim_wait(f->s, p[i].cq[0], SEC, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		sim_unpair(f->s, &p[i]);
	}
	fix_same(f, 0, PAIRS * 50000);
	assert_false(peer_waits(pair_peer(f, 0)));
	fix_close(f);
}

static uint32_t draw(uint32_t *seed, uint32_t below)
{
	*seed = *seed * 1103515245 + 12345;
	return (*seed >> 8) % below;
}

enum { STREAMS = 4, AHEAD = 32, ROUNDS = 400 };

struct stream {
	struct sim_pair p;
	uint32_t bytes; /* bytes of each request */
	enum ibv_wr_opcode op;
	unsigned posted, done;
};

/* Keeps a stream busy: its QP at `side` always has more to send, or to read. */
static void keep_busy(struct fix *f, struct stream *st, int side)
{
	struct ibv_sge sge = sim_sge(f->mr[side], 0, st->bytes);
	struct ibv_wc wc;

	while (cq_poll(st->p.cq[side], 1, &wc) == 1) {
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		st->done++;
	}
	for (; st->posted < st->done + AHEAD; st->posted++)
		sim_send(st->p.qp[side],
			 &(struct ibv_send_wr){ .opcode = st->op,
						.sg_list = &sge,
						.num_sge = 1,
						.send_flags = IBV_SEND_SIGNALED,
						.wr.rdma = { f->mr[!side]->mkey.base,
							     f->mr[!side]->mkey.key } });
}

/* Each stream has got its part of the ring. */
static void check_parts(const struct stream *st, unsigned n)
{
	uint64_t least = UINT64_MAX, most = 0;

	for (unsigned i = 0; i < n; i++) {
		uint64_t bytes = (uint64_t)st[i].done * st[i].bytes;

		least = bytes < least ? bytes : least;
		most = bytes > most ? bytes : most;
	}
	assert_true(least > most / 2);
}

/* Endless streams share a ring. */
static void share(uint32_t seed, enum ibv_wr_opcode op)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct stream st[STREAMS];

	for (unsigned i = 0; i < STREAMS; i++)
		st[i] = (struct stream){ .p = sim_pair(f->s, IBV_QPT_RC, &f->conf),
					 .bytes = 20000 + draw(&seed, 100000),
					 .op = op };
	for (unsigned i = 0; i < ROUNDS; i++) {
		for (unsigned j = 0; j < STREAMS; j++)
			keep_busy(f, &st[j], 0);
		pair_run(f, 1 + draw(&seed, 3));
	}
	check_parts(st, STREAMS);
	for (unsigned i = 0; i < STREAMS; i++)
		sim_unpair(f->s, &st[i].p);
	fix_close(f);
}

static void no_stream_starves_another(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 8; seed++) {
		share(seed, IBV_WR_RDMA_WRITE);
		share(seed, IBV_WR_RDMA_READ);
	}
}

/* Both rings are full of WRITEs, READs and the data of READs, and either process stops
 * now and then: all goes on, and each stream gets its part of its ring. */
static void two_full_rings(uint32_t seed)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct stream st[2 * STREAMS];
	bool was_full[2] = { false, false };

	for (unsigned i = 0; i < 2 * STREAMS; i++)
		st[i] = (struct stream){ .p = sim_pair(f->s, IBV_QPT_RC, &f->conf),
					 .bytes = 20000 + draw(&seed, 100000),
					 .op = i % 4 < 2 ? IBV_WR_RDMA_WRITE
							 : IBV_WR_RDMA_READ };
	for (unsigned i = 0; i < ROUNDS; i++) {
		const int stops = (int)draw(&seed, 8);

		for (unsigned j = 0; j < 2 * STREAMS; j++)
			keep_busy(f, &st[j], j % 2);
		if (stops < 2)
			pair_stop(f, stops);
		pair_run(f, 1 + draw(&seed, 3));
		for (int side = 0; side < 2; side++) {
			was_full[side] |= peer_waits(pair_peer(f, side));
			pair_go(f, side);
		}
	}
	assert_true(was_full[0] && was_full[1]);
	check_parts(st, 2 * STREAMS);
	for (unsigned i = 0; i < 2 * STREAMS; i++)
		sim_unpair(f->s, &st[i].p);
	fix_close(f);
}

static void two_full_rings_stop_nobody(void **state)
{
	(void)state;
	for (uint32_t seed = 1; seed <= 8; seed++)
		two_full_rings(seed);
}

/* There is room for all QPs that wait, and each needs only a little. */
static void all_that_wait_go(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct sim_pair p[STREAMS];
	struct ibv_wc wc;

	(void)state;
	for (unsigned i = 0; i < STREAMS; i++)
		p[i] = sim_pair(f->s, IBV_QPT_RC, &f->conf);
	pair_stop(f, 1);
	pair_fill(f, 0);
	for (unsigned i = 0; i < STREAMS; i++)
		sim_send(p[i].qp[0],
			 &(struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE,
						.send_flags = IBV_SEND_SIGNALED });
	pair_run(f, 1000);
	assert_true(peer_waits(pair_peer(f, 0)));
	pair_go(f, 1);
	for (unsigned i = 0; i < STREAMS; i++) {
		assert_true(sim_wait(f->s, p[i].cq[0], 1 * MS, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		sim_unpair(f->s, &p[i]);
	}
	fix_close(f);
}

/* A QP is destroyed while it waits for room; the others go on. */
static void who_waits_may_leave(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct sim_pair p = sim_pair(f->s, IBV_QPT_RC, &f->conf);

	(void)state;
	pair_stop(f, 1);
	pair_fill(f, 0);
	sim_send(p.qp[0], &(struct ibv_send_wr){ .opcode = IBV_WR_RDMA_WRITE });
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 20000, 0);
	pair_run(f, 1 * MS);
	sim_unpair(f->s, &p);
	pair_go(f, 1);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, 20000);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(many_qps_share_a_ring),
		cmocka_unit_test(all_that_wait_go),
		cmocka_unit_test(no_stream_starves_another),
		cmocka_unit_test(two_full_rings_stop_nobody),
		cmocka_unit_test(who_waits_may_leave),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
