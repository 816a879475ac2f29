/* SPDX-License-Identifier: BSD-2-Clause */
/* A path's static rate (IBTA vol. 1, 9.11) limits what a QP sends. */
#include "ib/fix.h"

#include "verbs/device.h"
#include "verbs/device_testing.h"

enum {
	BYTES = 1 << 20,
	LATE = 200000,
	TURN = 30000 /* the cable, and a late timer */,
	NS = 13200 /* for a packet at 2.5 Gb/s; the last four go at once */
};

/* ns for 1 MiB, with the headers of 4 KiB packets, at so many Mb/s. */
static uint64_t takes(uint64_t mbps)
{
	return (uint64_t)BYTES * 8000 / mbps;
}

static uint64_t time_of(enum ibv_qp_type type, enum ibv_wr_opcode opcode, enum ibv_rate a,
			enum ibv_rate b)
{
	const struct sim_conf conf = {
		.infiniband = true,
		.path_mtu = IBV_MTU_4096,
		.static_rate = { (uint8_t)a, (uint8_t)b },
	};
	struct fix *f = fix_open(type, &conf);
	uint64_t from, took;

	from = f->s->now;
	fix_post(f, opcode, 1, 0, BYTES, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	took = f->s->now - from;
	sim_run(f->s, MS);
	fix_same(f, 0, BYTES);
	fix_close(f);
	return took;
}

static void between(uint64_t took, uint64_t mbps)
{
	/* the last packets are still out at the end; headers are 1 % */
	assert_in_range(took, takes(mbps) - takes(mbps) / 50 - LATE,
			takes(mbps) + takes(mbps) / 25 + TURN);
}

static void writes(void **state)
{
	(void)state;
	between(time_of(IBV_QPT_RC, IBV_WR_RDMA_WRITE, IBV_RATE_2_5_GBPS, IBV_RATE_MAX),
		2500);
	between(time_of(IBV_QPT_RC, IBV_WR_RDMA_WRITE, IBV_RATE_10_GBPS, IBV_RATE_MAX),
		10000);
	between(time_of(IBV_QPT_UC, IBV_WR_RDMA_WRITE, IBV_RATE_5_GBPS, IBV_RATE_MAX),
		5000);
}

/* The responder's own path sets the rate of its responses. */
static void reads(void **state)
{
	(void)state;
	between(time_of(IBV_QPT_RC, IBV_WR_RDMA_READ, IBV_RATE_MAX, IBV_RATE_2_5_GBPS),
		2500);
}

/* The path's rate is not below the port's, or is not set. */
static void as_the_port(void **state)
{
	uint64_t free = time_of(IBV_QPT_RC, IBV_WR_RDMA_WRITE, IBV_RATE_MAX, 0);

	(void)state;
	assert_true(free < takes(2500) / 2);
	assert_int_equal(time_of(IBV_QPT_RC, IBV_WR_RDMA_WRITE, IBV_RATE_100_GBPS, 0),
			 free);
	assert_int_equal(time_of(IBV_QPT_RC, IBV_WR_RDMA_WRITE, IBV_RATE_400_GBPS, 0),
			 free);
	assert_int_equal(time_of(IBV_QPT_RC, IBV_WR_RDMA_WRITE, 0, IBV_RATE_2_5_GBPS),
			 free);
}

/* Lost packets are sent again at the same rate. */
static void after_a_loss(void **state)
{
	const struct sim_conf conf = {
		.infiniband = true,
		.path_mtu = IBV_MTU_4096,
		.static_rate = { IBV_RATE_2_5_GBPS },
	};
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	uint64_t from = f->s->now, bytes = 0;

	(void)state;
	fix_lose(f, 0, "WRITE_MIDDLE", 20);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, BYTES, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < f->n; i++)
		bytes += f->log[i].side ? 0 : f->log[i].payload;
	assert_true(bytes > BYTES);
	assert_true(f->s->now - from >= bytes * 8000 / 2500 - LATE - 5 * NS);
	fix_close(f);
}

/* Each address handle has its own rate. */
static void datagrams(void **state)
{
	const struct sim_conf conf = { .infiniband = true, .path_mtu = IBV_MTU_4096 };
	static const enum ibv_rate rate[] = { IBV_RATE_2_5_GBPS, IBV_RATE_10_GBPS };
	struct fix *f = fix_open(IBV_QPT_UD, &conf);
	struct sim_node *n = &f->s->node[0];
	struct ibv_sge sge = sim_sge(f->mr[0], 0, 4096);

	(void)state;
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_ah_attr a = { .port_num = 1,
					 .dlid = device_lid(f->s->node[1].dev),
					 .static_rate = (uint8_t)rate[i] };
		uint64_t from = f->s->now, ns = i ? NS / 4 : NS;
		struct ah *ah;

		assert_int_equal(ah_create(n->pd, &n->ctx, &a, &ah), 0);
		for (unsigned k = 0; k < 100; k++) {
			struct ibv_send_wr wr = {
				.opcode = IBV_WR_SEND,
				.send_flags = IBV_SEND_SIGNALED,
				.sg_list = &sge,
				.num_sge = 1,
				.wr.ud = { &ah->ibv, f->p.qp[1]->qpn, 0x11111111 },
			};

			sim_send(f->p.qp[0], &wr);
			fix_wc(f, 0, 0, IBV_WC_SUCCESS);
		}
		assert_in_range(f->s->now - from, 100 * ns - LATE - 5 * ns,
				102 * ns + TURN);
		assert_int_equal(ah_destroy(ah), 0);
	}
	fix_close(f);
}

static void no_rate(void **state)
{
	const struct sim_conf conf = {
		.infiniband = true,
		.static_rate = { IBV_RATE_5_GBPS },
	};
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	struct sim_node *n = &f->s->node[0];
	struct ibv_ah_attr a = { .port_num = 1, .dlid = 8, .static_rate = 1 };
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr attr;
	struct ah *ah;

	(void)state;
	assert_int_equal(ah_create(n->pd, &n->ctx, &a, &ah), -EINVAL);
	a.static_rate = 200;
	assert_int_equal(ah_create(n->pd, &n->ctx, &a, &ah), -EINVAL);
	qp_query(f->p.qp[0], &attr, &init);
	assert_int_equal(attr.ah_attr.static_rate, IBV_RATE_5_GBPS);
	assert_int_equal(f->p.qp[0]->path.rate, 5000);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(writes),      cmocka_unit_test(reads),
		cmocka_unit_test(as_the_port), cmocka_unit_test(after_a_loss),
		cmocka_unit_test(datagrams),   cmocka_unit_test(no_rate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
