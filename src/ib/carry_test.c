/* SPDX-License-Identifier: BSD-2-Clause */
/* carry.c - requests that were passed on to the process of the SRQ. */
#include "ib/relay_fix.h"

static void allow(struct lab *x, unsigned rights)
{
	struct ibv_qp_attr a = { .qp_access_flags = rights };

	assert_int_equal(qp_modify(x->to, &a, IBV_QP_ACCESS_FLAGS, x->s->now), 0);
}

/* The target QP's rights count as they are now, not as they were at its first request. */
static void rights_of_the_target_qp_count_as_they_are_now(void **state)
{
	struct lab *x = lab_open(NULL);

	(void)state;
	receive(x, 9, 100000, 4000);
	allow(x, 0);
	post(x, IBV_WR_SEND, 1, 0, 100, 0);
	expect(x, x->scq, 1, IBV_WC_SUCCESS);
	expect(x, x->rcq, 9, IBV_WC_SUCCESS);
	allow(x, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
	post(x, IBV_WR_RDMA_WRITE, 2, 0, 100, 120000);
	expect(x, x->scq, 2, IBV_WC_SUCCESS);
	allow(x, IBV_ACCESS_REMOTE_READ);
	post(x, IBV_WR_RDMA_READ, 3, 0, 100, 120000);
	expect(x, x->scq, 3, IBV_WC_SUCCESS);
	post(x, IBV_WR_RDMA_WRITE, 4, 0, 100, 120000);
	expect(x, x->scq, 4, IBV_WC_REM_INV_REQ_ERR);
	lab_close(x);
}

/* --- limits for one process ------------------------------------------------------- */

enum { ENOUGH = 16384 + 1, STAND_INS = 4096, THIRD = 3 };

/* The number of the i-th other QP of that process; none is the lab's. */
static uint32_t other_qpn(const struct lab *x, uint16_t slot, unsigned i)
{
	return qpn_make(slot, (qpn_index(x->to->qpn) + 1 + i) % QPN_INDICES);
}

static void hears(struct lab *x, uint16_t from, const void *buf, size_t len)
{
	struct core *core = &x->s->node[0].core;

	turn_take(&core->turn);
	ib_xrc_heard(core, from, buf, len, x->s->now);
	turn_give(&core->turn);
}

/* A request of the QP comes from that process: the QP gets a stand-in, and the request is
 * refused. */
static void stand_in(struct lab *x, uint16_t slot, uint32_t qpn, uint32_t id)
{
	struct ib_fields f = {
		.opcode = ib_opcode(IB_XRC, IB_SEND, IB_ONLY, 0),
		.dest_qp = qpn,
		.pkey = 0xffff,
	};
	struct xrc_carry m = {
		.head = { .what = XRC_CARRY, .qpn = qpn, .life = 1, .id = id },
		.mtu = 1024,
	};
	uint32_t len;
	uint8_t buf[sizeof(m) + sizeof(len) + IB_HDR_MAX];

	len = (uint32_t)ib_build(buf + sizeof(m) + sizeof(len), &f);
	memcpy(buf, &m, sizeof(m));
	memcpy(buf + sizeof(m), &len, sizeof(len));
	hears(x, slot, buf, sizeof(m) + sizeof(len) + len);
}

static void end_of(struct lab *x, uint16_t slot, uint32_t qpn)
{
	struct xrc_head m = { .what = XRC_END, .qpn = qpn, .life = 1 };

	hears(x, slot, &m, sizeof(m));
}

static void stand_in_for_many(struct lab *x, uint16_t slot, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		stand_in(x, slot, other_qpn(x, slot, i), 0);
}

static void end_of_many(struct lab *x, uint16_t slot, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		end_of(x, slot, other_qpn(x, slot, i));
}

static void a_process_uses_up_its_own_stand_ins_alone(void **state)
{
	struct lab *x = lab_open(NULL);

	(void)state;
	stand_in_for_many(x, THIRD, ENOUGH);
	receive(x, 9, 100000, 4000);
	post(x, IBV_WR_SEND, 1, 0, 100, 0);
	expect(x, x->scq, 1, IBV_WC_SUCCESS);
	gone(x, 0, THIRD);
	lab_close(x);
}

/* No stand-in can be made: the target QP asks again, and makes its peer wait. It goes on
 * when there is a stand-in. */
static void a_qp_for_which_there_is_no_room_waits(void **state)
{
	struct sim_conf conf = { .timeout = 14 };
	struct lab *x = lab_open(&conf);
	struct ibv_wc wc;

	(void)state;
	stand_in_for_many(x, 2, STAND_INS);
	while (deliver(x))
		;
	receive(x, 9, 100000, 4000);
	post(x, IBV_WR_SEND, 1, 0, 3000, 0);
	assert_false(wait(x, x->scq, SEC, &wc));
	assert_true(ib_counter(&x->s->node[1].core, IB_TX_RNR) > 0);
	end_of_many(x, 2, STAND_INS);
	expect(x, x->scq, 1, IBV_WC_SUCCESS);
	expect(x, x->rcq, 9, IBV_WC_SUCCESS);
	lab_close(x);
}

/* The question is put again before there is room, and on its way when there is. */
static void what_found_no_room_is_carried_out_once(void **state)
{
	uint64_t *word;
	struct lab *x = lab_open(NULL);

	(void)state;
	word = (uint64_t *)(void *)(x->mem + 200000);
	*word = 0;
	stand_in_for_many(x, 2, STAND_INS);
	while (deliver(x))
		;
	post(x, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 210000, 8, 200000);
	sim_run(x->s, MS);
	assert_true(deliver(x)); /* CARRY */
	x->s->now += 20 * MS;
	sim_run(x->s, MS); /* CARRY again */
	end_of_many(x, 2, STAND_INS);
	expect(x, x->scq, 1, IBV_WC_SUCCESS);
	assert_int_equal(*word, 5);
	lab_close(x);
}

/* A question that is put again, since its answer was lost, is not carried out again. */
static void a_question_is_carried_out_once(void **state)
{
	struct lab *x = lab_open(NULL);
	struct ibv_wc wc;

	(void)state;
	*(uint64_t *)(void *)(x->mem + 200000) = 0;
	receive(x, 9, 100000, 4000);
	receive(x, 10, 100000, 4000);
	for (int i = 0; i < 2; i++) {
		if (i == 0)
			post(x, IBV_WR_SEND, 1, 0, 100, 0);
		else
			post(x, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 210000, 8, 200000);
		while (x->first == x->last)
			sim_run(x->s, 20000);
		x->full = 1; /* for the answer */
		deliver(x);
		assert_int_equal(x->full, 0);
		expect(x, x->scq, 1 + (uint64_t)i, IBV_WC_SUCCESS);
	}
	expect(x, x->rcq, 9, IBV_WC_SUCCESS);
	assert_false(wait(x, x->rcq, SEC, &wc));
	assert_int_equal(*(uint64_t *)(void *)(x->mem + 200000), 5);
	lab_close(x);
}

/* A process has ended. What it said last is found when another process has its slot, and
 * a QP of the same number. */
static void what_an_earlier_process_said_does_not_count(void **state)
{
	struct lab *x = lab_open(NULL);

	(void)state;
	stand_in(x, 2, x->to->qpn, 1000);
	while (deliver(x))
		;
	receive(x, 9, 100000, 4000);
	post(x, IBV_WR_SEND, 1, 0, 100, 0);
	expect(x, x->scq, 1, IBV_WC_SUCCESS);
	expect(x, x->rcq, 9, IBV_WC_SUCCESS);
	end_of(x, 2, x->to->qpn);
	assert_false(list_empty(&x->s->node[0].core.xrc.stand_ins));
	stand_in(x, 2, x->to->qpn, 1001);
	receive(x, 10, 100000, 4000);
	post(x, IBV_WR_SEND, 2, 0, 100, 0);
	expect(x, x->scq, 2, IBV_WC_SUCCESS);
	expect(x, x->rcq, 10, IBV_WC_SUCCESS);
	lab_close(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rights_of_the_target_qp_count_as_they_are_now),
		cmocka_unit_test(a_process_uses_up_its_own_stand_ins_alone),
		cmocka_unit_test(a_qp_for_which_there_is_no_room_waits),
		cmocka_unit_test(what_found_no_room_is_carried_out_once),
		cmocka_unit_test(a_question_is_carried_out_once),
		cmocka_unit_test(what_an_earlier_process_said_does_not_count),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
