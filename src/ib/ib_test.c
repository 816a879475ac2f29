/* SPDX-License-Identifier: BSD-2-Clause */
/* The transport's changes of state. */
#include "ib/fix.h"

/* A QP that went through RESET has forgotten its past. */
static void reset_forgets(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_recv(f, 9, 0, 5000);
	fix_post(f, IBV_WR_SEND, 1, 0, 200000, 0);
	sim_run(f->s, 1000);
	for (int i = 0; i < 2; i++)
		fix_modify(f, i, IBV_QPS_RESET);
	assert_int_equal(fix_ib(f, 0)->req.flight, 0);
	assert_null(fix_ib(f, 0)->host);
	fix_quiet(f);
	for (int i = 0; i < 2; i++)
		sim_bring(f->s, f->p.qp[i], f->p.qp[!i], &f->conf);
	fix_recv(f, 10, 0, 5000);
	fix_post(f, IBV_WR_SEND, 2, 0, 3000, 0);
	fix_wc(f, 1, 10, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_no_wc(f, 0);
	fix_close(f);
}

static void destroyed_in_traffic(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct sim_pair p = sim_pair(f->s, IBV_QPT_RC, &f->conf);

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 200000, 0);
	fix_post(f, IBV_WR_RDMA_READ, 2, 0, 200000, 0);
	sim_run(f->s, 1000);
	sim_unpair(f->s, &f->p);
	assert_int_equal(ib_qp(p.qp[0])->host->flight, 0);
	fix_quiet(f);
	f->p = p;
	fix_post(f, IBV_WR_RDMA_WRITE, 3, 0, 200000, 0);
	fix_wc(f, 0, 3, IBV_WC_SUCCESS);
	fix_close(f);
}

static void err_flushes_all(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_recv(f, 9, 0, 5000);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 200000, 0);
	fix_post(f, IBV_WR_RDMA_READ, 2, 0, 200000, 0);
	sim_run(f->s, 1000);
	for (int i = 0; i < 2; i++)
		fix_modify(f, i, IBV_QPS_ERR);
	fix_wc(f, 0, 1, IBV_WC_WR_FLUSH_ERR);
	fix_wc(f, 0, 2, IBV_WC_WR_FLUSH_ERR);
	fix_wc(f, 1, 9, IBV_WC_WR_FLUSH_ERR);
	f->n = 0;
	fix_quiet(f);
	assert_int_equal(f->n, 0);
	fix_close(f);
}

/* A completion queue overruns in the middle of an ACK. */
static void overrun(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	const struct ibv_qp_cap cap = {
		.max_send_wr = 64, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1
	};
	struct cq *small = sim_cq(f->s, 0, 4), *other = sim_cq(f->s, 1, 4);
	struct sim_pair p = {
		{ sim_qp(f->s, 0, IBV_QPT_RC, small, small, NULL, &cap),
		  sim_qp(f->s, 1, IBV_QPT_RC, other, other, NULL, &cap) },
		{ small, other },
	};
	struct ibv_sge sge = sim_sge(f->mr[0], 0, 8000);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_RDMA_WRITE,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { f->mr[1]->mkey.base, f->mr[1]->mkey.key },
	};

	(void)state;
	for (int i = 0; i < 2; i++)
		sim_bring(f->s, p.qp[i], p.qp[!i], &f->conf);
	for (int i = 0; i < 40; i++)
		sim_send(p.qp[0], &wr);
	fix_quiet(f);
	assert_int_equal(p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(fix_ib(f, 0)->host->flight, 0);
	sim_unpair(f->s, &p);
	fix_close(f);
}

/* --- more than the port carries ------------------------------------------ */

struct longest {
	uint32_t payload;
};

static bool measure(void *arg, const struct sim_packet *p)
{
	struct longest *l = arg;

	if (p->payload > l->payload)
		l->payload = p->payload;
	return true;
}

static void moves_data(struct fix *f)
{
	fix_recv(f, 9, 0, 5000);
	fix_post(f, IBV_WR_SEND, 1, 0, 5000, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 5000, 0);
	fix_post(f, IBV_WR_RDMA_READ, 3, 0, 5000, 0);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	for (uint64_t i = 1; i <= 3; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
}

/* Both ends ask for a larger MTU than the interface carries: packets fit, the program
 * reads back the MTU that it set, and one log line for each device says so. */
static void path_mtu_above_the_port(void **state)
{
	const struct sim_conf conf = { .path_mtu = IBV_MTU_4096, .netdev_mtu = 1500 };
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	struct longest l = { 0 };

	(void)state;
	f->s->tap = measure;
	f->s->tap_arg = &l;
	moves_data(f);
	assert_int_equal(l.payload, 1024);
	assert_int_equal(qp_query(f->p.qp[0], &a, &init), 0);
	assert_int_equal(a.path_mtu, IBV_MTU_4096);
	for (int i = 0; i < 2; i++)
		assert_true(f->s->node[i].dev->mtu_told);
	fix_close(f);
}

/* The loopback interface is an exception, since it carries the packets of one host: the
 * other end may be of a device whose port carries more. */
static void path_mtu_within_a_host(void **state)
{
	const struct sim_conf conf = { .path_mtu = IBV_MTU_2048, .netdev_mtu = 1500 };
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	struct longest l = { 0 };

	(void)state;
	for (int i = 0; i < 2; i++) {
		fix_modify(f, i, IBV_QPS_RESET);
		f->s->node[i].dev->mtu_told = false;
		f->p.qp[i]->same_host = true;
	}
	for (int i = 0; i < 2; i++)
		sim_bring(f->s, f->p.qp[i], f->p.qp[!i], &conf);
	f->s->tap = measure;
	f->s->tap_arg = &l;
	moves_data(f);
	assert_int_equal(l.payload, 2048);
	assert_false(f->s->node[0].dev->mtu_told);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reset_forgets),
		cmocka_unit_test(destroyed_in_traffic),
		cmocka_unit_test(err_flushes_all),
		cmocka_unit_test(overrun),
		cmocka_unit_test(path_mtu_above_the_port),
		cmocka_unit_test(path_mtu_within_a_host),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
