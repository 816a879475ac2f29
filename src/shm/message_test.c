/* SPDX-License-Identifier: BSD-2-Clause */
/* SENDs of one segment are taken in by a shortcut.  Special cases take the general way,
 * with the same result, be the receives the QP's own or an SRQ's. */
#include "shm/fix.h"

/* Where B's receives are posted; NULL: in its QP. */
static struct srq *shared;

/* With a `state', B's QP has an SRQ. */
static struct fix *open_with(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 8, .max_sge = 2 } };
	const struct ibv_qp_cap cap = { .max_send_wr = 8, .max_send_sge = 1 };
	struct sim_node *b = &f->s->node[1];
	struct qp *qp;

	shared = NULL;
	if (!*state)
		return f;
	assert_int_equal(srq_create(&b->ctx, b->pd, &a, &shared), 0);
	qp = sim_qp(f->s, 1, IBV_QPT_RC, f->p.cq[1], f->p.cq[1], shared, &cap);
	sim_bring(f->s, qp, f->p.qp[0], &f->conf);
	fix_modify(f, 0, IBV_QPS_RESET);
	sim_bring(f->s, f->p.qp[0], qp, &f->conf);
	sim_destroy(f->s, f->p.qp[1]);
	f->p.qp[1] = qp;
	fix_quiet(f);
	return f;
}

static void close_with(struct fix *f)
{
	if (shared) {
		sim_destroy(f->s, f->p.qp[1]);
		f->p.qp[1] = NULL;
		assert_int_equal(srq_destroy(shared), 0);
	}
	fix_close(f);
}

static void receive(struct fix *f, uint64_t id, struct ibv_sge *sge, int n)
{
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = sge, .num_sge = n }, *bad;

	assert_int_equal(shared ? srq_post(shared, &wr, &bad)
				: qp_post_recv(f->p.qp[1], &wr, &bad),
			 0);
}

static void receive_at(struct fix *f, uint64_t id, size_t at, uint32_t len)
{
	struct ibv_sge sge = sim_sge(f->mr[1], at, len);

	receive(f, id, &sge, 1);
}

static void send_and_look(struct fix *f, uint64_t id, uint32_t len)
{
	fix_post(f, IBV_WR_SEND, id, 0, len, 0);
	assert_int_equal(fix_wc(f, 1, id, IBV_WC_SUCCESS).byte_len, len);
	fix_wc(f, 0, id, IBV_WC_SUCCESS);
}

static uint32_t remembers(const struct fix *f)
{
	return pair_shm(f, 1)->dst.into.key;
}

static void into_one_sge(void **state)
{
	struct fix *f = open_with(state);

	for (uint64_t id = 1; id <= 3; id++) {
		receive_at(f, id, 4096 * id, 64);
		send_and_look(f, id, 8);
		assert_memory_equal(f->mem[1] + 4096 * id, f->mem[0], 8);
	}
	assert_int_equal(remembers(f), f->mr[1]->mkey.key);
	close_with(f);
}

static void into_two_or_none(void **state)
{
	struct fix *f = open_with(state);
	struct ibv_sge two[2] = { sim_sge(f->mr[1], 100, 3), sim_sge(f->mr[1], 200, 5) };

	receive(f, 1, two, 2);
	send_and_look(f, 1, 8);
	assert_memory_equal(f->mem[1] + 100, f->mem[0], 3);
	assert_memory_equal(f->mem[1] + 200, f->mem[0] + 3, 5);
	receive(f, 2, NULL, 0);
	send_and_look(f, 2, 0);
	receive_at(f, 3, 0, 8);
	send_and_look(f, 3, 0);
	assert_int_equal(remembers(f), 0);
	close_with(f);
}

/* The first message in RTR raises an event, so it takes the general way. */
static void the_first_in_rtr(void **state)
{
	struct fix *f = open_with(state);

	f->p.qp[1]->state = IBV_QPS_RTR;
	for (uint64_t id = 1; id <= 3; id++) {
		receive_at(f, id, 0, 8);
		send_and_look(f, id, 8);
	}
	pair_event(f, 1, IBV_EVENT_COMM_EST);
	f->p.qp[1]->state = IBV_QPS_RTS;
	close_with(f);
}

static void must_fail(struct fix *f, enum ibv_wc_status here, enum ibv_wc_status there)
{
	fix_wc(f, 1, 9, there);
	fix_wc(f, 0, 9, here);
	fix_quiet(f);
}

static void a_region_that_has_gone(void **state)
{
	struct fix *f = open_with(state);

	receive_at(f, 1, 0, 8);
	send_and_look(f, 1, 8);
	receive_at(f, 9, 0, 8);
	fix_post(f, IBV_WR_SEND, 9, 0, 8, 0);
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = NULL;
	must_fail(f, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
	close_with(f);
}

static void a_region_that_may_not_be_written(void **state)
{
	struct fix *f = open_with(state);

	receive_at(f, 1, 0, 8);
	send_and_look(f, 1, 8);
	receive_at(f, 9, 0, 8);
	assert_int_equal(mr_rereg(f->mr[1], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 0);
	fix_post(f, IBV_WR_SEND, 9, 0, 8, 0);
	must_fail(f, IBV_WC_REM_OP_ERR, IBV_WC_LOC_PROT_ERR);
	close_with(f);
}

static void a_receive_that_is_short(void **state)
{
	struct fix *f = open_with(state);

	receive_at(f, 9, 0, 7);
	fix_post(f, IBV_WR_SEND, 9, 0, 8, 0);
	must_fail(f, IBV_WC_REM_INV_REQ_ERR, IBV_WC_LOC_LEN_ERR);
	close_with(f);
}

/* The limit of an SRQ is looked at, and its places return when they are polled. */
static void an_srq_that_runs_low(void **state)
{
	struct fix *f = open_with(state);
	struct ibv_srq_attr a = { .srq_limit = 2 };

	for (uint64_t id = 1; id <= 3; id++)
		receive_at(f, id, 0, 8);
	assert_int_equal(srq_modify(shared, &a, IBV_SRQ_LIMIT), 0);
	send_and_look(f, 1, 8);
	assert_int_equal(sim_event(f->s, 1), -1);
	send_and_look(f, 2, 8);
	pair_event(f, 1, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_int_equal(remembers(f), f->mr[1]->mkey.key);
	assert_int_equal(rq_used(&shared->rq), 1);
	close_with(f);
}

#define BOTH(test)                                                                       \
	{ #test, test, NULL, NULL, NULL },                                               \
	{                                                                                \
#test " of an SRQ", test, NULL, NULL, &yes                               \
	}

int main(void)
{
	static int yes;
	const struct CMUnitTest tests[] = {
		BOTH(into_one_sge),
		BOTH(into_two_or_none),
		BOTH(the_first_in_rtr),
		BOTH(a_region_that_has_gone),
		BOTH(a_region_that_may_not_be_written),
		BOTH(a_receive_that_is_short),
		{ "an SRQ that runs low", an_srq_that_runs_low, NULL, NULL, &yes },
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
