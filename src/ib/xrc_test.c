/* SPDX-License-Identifier: BSD-2-Clause */
/* XRC: one initiator and one target QP; behind it two SRQs, each with its own PD and
 * CQ. */
#include "ib/fix.h"

#include <fcntl.h>

#include "verbs/rq.h"
#include "verbs/xrc.h"

enum { SIZE = 1 << 16 };

struct xrc {
	struct sim *s;
	struct sim_conf conf;
	struct qp *from, *to;
	struct cq *scq;
	struct xrcd *xrcd;
	struct {
		struct pd *pd;
		struct cq *cq;
		struct srq *srq;
		struct mr *mr;
		uint8_t *mem;
	} at[2];
	struct mr *mr; /* of the initiator */
	uint8_t *mem;
};

static struct xrcd *domain(struct xrc *x)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct xrcd *xrcd;

	assert_int_equal(xrcd_open(&x->s->node[1].ctx, &a, &xrcd), 0);
	return xrcd;
}

static void open_srq(struct xrc *x, int i)
{
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 64, .max_sge = 1 } };
	struct sim_node *n = &x->s->node[1];

	assert_int_equal(pd_alloc(&n->core, &n->ibv, &x->at[i].pd), 0);
	x->at[i].cq = sim_cq(x->s, 1, 200);
	assert_int_equal(srq_create_xrc(&n->ctx, x->at[i].pd, x->xrcd, x->at[i].cq, &a,
					&x->at[i].srq),
			 0);
	x->at[i].mem = calloc(1, SIZE);
	assert_int_equal(mr_reg(x->at[i].pd, x->at[i].mem, SIZE, (uintptr_t)x->at[i].mem,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
				&x->at[i].mr),
			 0);
}

static struct xrc *xrc_open(const struct sim_conf *conf)
{
	struct xrc *x = calloc(1, sizeof(*x));

	if (conf)
		x->conf = *conf;
	x->s = sim_open(&x->conf);
	x->xrcd = domain(x);
	for (int i = 0; i < 2; i++)
		open_srq(x, i);
	x->mem = malloc(SIZE);
	for (int i = 0; i < SIZE; i++)
		x->mem[i] = (uint8_t)(i * 7 + i / 256);
	x->mr = sim_mr(x->s, 0, x->mem, SIZE, IBV_ACCESS_LOCAL_WRITE);
	x->scq = sim_cq(x->s, 0, 300);
	sim_xrc(x->s, x->scq, x->xrcd, &x->conf, &x->from, &x->to);
	return x;
}

static void close_srq(struct xrc *x, int i)
{
	if (x->at[i].srq)
		assert_int_equal(srq_destroy(x->at[i].srq), 0);
	x->at[i].srq = NULL;
}

static void xrc_close(struct xrc *x)
{
	assert_int_equal(xrcd_close(x->xrcd), -EBUSY);
	sim_destroy(x->s, x->to);
	sim_destroy(x->s, x->from);
	for (int i = 0; i < 2; i++) {
		close_srq(x, i);
		assert_int_equal(mr_dereg(x->at[i].mr), 0);
		free(x->at[i].mem);
		assert_int_equal(cq_destroy(x->at[i].cq), 0);
		assert_int_equal(pd_free(x->at[i].pd), 0);
	}
	assert_int_equal(xrcd_close(x->xrcd), 0);
	assert_int_equal(mr_dereg(x->mr), 0);
	assert_int_equal(cq_destroy(x->scq), 0);
	free(x->mem);
	sim_close(x->s);
	free(x);
}

static void receive(struct xrc *x, int i, uint64_t wr_id, size_t at, uint32_t len)
{
	struct ibv_sge sge = sim_sge(x->at[i].mr, at, len);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(srq_post(x->at[i].srq, &wr, &bad), 0);
}

/* Posts len bytes at offset at, for SRQ srqn; the remote memory is of SRQ owner. */
static void post(struct xrc *x, enum ibv_wr_opcode op, uint64_t wr_id, uint32_t srqn,
		 int owner, size_t at, uint32_t len)
{
	struct ibv_sge sge = sim_sge(x->mr, at, len);
	struct ibv_send_wr wr = {
		.wr_id = wr_id,
		.opcode = op,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = 0x12345678,
		.qp_type.xrc.remote_srqn = srqn,
	};

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = x->at[owner].mr->mkey.base + at;
		wr.wr.atomic.rkey = x->at[owner].mr->mkey.key;
		wr.wr.atomic.compare_add = 5;
	} else if (op != IBV_WR_SEND && op != IBV_WR_SEND_WITH_IMM) {
		wr.wr.rdma.remote_addr = x->at[owner].mr->mkey.base + at;
		wr.wr.rdma.rkey = x->at[owner].mr->mkey.key;
	}
	sim_send(x->from, &wr);
}

static struct ibv_wc wait_for(struct xrc *x, struct cq *cq, uint64_t wr_id,
			      enum ibv_wc_status status)
{
	struct ibv_wc wc;

	assert_true(sim_wait(x->s, cq, 1000 * SEC, &wc));
	assert_int_equal(wc.wr_id, wr_id);
	assert_int_equal(wc.status, status);
	return wc;
}

static void same(struct xrc *x, int i, size_t at, size_t len)
{
	assert_memory_equal(x->mem + at, x->at[i].mem + at, len);
}

/* --- success -------------------------------------------------------------- */

static void each_send_goes_to_its_srq(void **state)
{
	struct xrc *x = xrc_open(NULL);
	struct ibv_wc wc;

	(void)state;
	receive(x, 0, 10, 0, 5000);
	receive(x, 1, 11, 8000, 5000);
	post(x, IBV_WR_SEND, 1, x->at[1].srq->num, 1, 8000, 5000);
	post(x, IBV_WR_SEND_WITH_IMM, 2, x->at[0].srq->num, 0, 0, 100);
	wc = wait_for(x, x->at[1].cq, 11, IBV_WC_SUCCESS);
	assert_int_equal(wc.qp_num, x->to->qpn);
	assert_int_equal(wc.src_qp, x->from->qpn);
	assert_int_equal(wc.byte_len, 5000);
	wc = wait_for(x, x->at[0].cq, 10, IBV_WC_SUCCESS);
	assert_int_equal(wc.imm_data, 0x12345678);
	wait_for(x, x->scq, 1, IBV_WC_SUCCESS);
	wait_for(x, x->scq, 2, IBV_WC_SUCCESS);
	same(x, 1, 8000, 5000);
	same(x, 0, 0, 100);
	xrc_close(x);
}

static void memory_is_that_of_the_srqs_pd(void **state)
{
	struct xrc *x = xrc_open(NULL);
	uint64_t *word;

	(void)state;
	post(x, IBV_WR_RDMA_WRITE, 1, x->at[1].srq->num, 1, 0, 5000);
	wait_for(x, x->scq, 1, IBV_WC_SUCCESS);
	same(x, 1, 0, 5000);
	memset(x->at[0].mem + 16000, 0x5a, 5000);
	post(x, IBV_WR_RDMA_READ, 2, x->at[0].srq->num, 0, 16000, 5000);
	word = (uint64_t *)(void *)(x->at[1].mem + 40000);
	*word = 37;
	post(x, IBV_WR_ATOMIC_FETCH_AND_ADD, 3, x->at[1].srq->num, 1, 40000, 8);
	wait_for(x, x->scq, 2, IBV_WC_SUCCESS);
	wait_for(x, x->scq, 3, IBV_WC_SUCCESS);
	same(x, 0, 16000, 5000);
	assert_int_equal(*word, 42);
	assert_int_equal(*(uint64_t *)(void *)(x->mem + 40000), 37);
	/* SRQ 0's PD has no such key. */
	post(x, IBV_WR_RDMA_WRITE, 4, x->at[0].srq->num, 1, 100, 10);
	wait_for(x, x->scq, 4, IBV_WC_REM_ACCESS_ERR);
	xrc_close(x);
}

static void an_empty_srq_is_waited_for(void **state)
{
	struct xrc *x = xrc_open(NULL);
	struct ibv_wc wc;

	(void)state;
	receive(x, 0, 10, 0, 100);
	post(x, IBV_WR_SEND, 1, x->at[1].srq->num, 1, 0, 100);
	post(x, IBV_WR_SEND, 2, x->at[0].srq->num, 0, 0, 100);
	sim_run(x->s, 10 * MS);
	assert_int_equal(cq_poll(x->at[0].cq, 1, &wc), 0); /* the order is kept */
	receive(x, 1, 11, 0, 100);
	wait_for(x, x->at[1].cq, 11, IBV_WC_SUCCESS);
	wait_for(x, x->at[0].cq, 10, IBV_WC_SUCCESS);
	wait_for(x, x->scq, 1, IBV_WC_SUCCESS);
	wait_for(x, x->scq, 2, IBV_WC_SUCCESS);
	xrc_close(x);
}

static void what_is_lost_comes_again(void **state)
{
	struct sim_conf conf = { .fault = "drop=0.1,reorder=0.05,seed=4", .timeout = 10 };
	struct xrc *x = xrc_open(&conf);
	unsigned got[2] = { 0, 0 }, sent[2] = { 0, 0 };
	struct ibv_wc wc;

	(void)state;
	for (unsigned i = 0; i < 60; i++) {
		int to = (i * 5 / 3) & 1;

		receive(x, to, sent[to], sent[to] * 2100, 2100);
		post(x, IBV_WR_SEND, i, x->at[to].srq->num, to, sent[to] * 2100,
		     2100 - i % 7 * 300);
		sent[to] = (sent[to] + 1) % 30;
		wait_for(x, x->at[to].cq, got[to]++ % 30, IBV_WC_SUCCESS);
		post(x, IBV_WR_RDMA_READ, 1000 + i, x->at[!to].srq->num, !to, 63000,
		     2000);
	}
	for (unsigned n = 0; n < 120; n++) {
		assert_true(sim_wait(x->s, x->scq, 1000 * SEC, &wc));
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
	}
	xrc_close(x);
}

/* The peer names another SRQ for the message that waits: the QP leaves the first one, and
 * waits for the other. */
static void a_message_that_waits_changes_its_srq(void **state)
{
	const struct sim_conf conf = { .late = RECV_WAIT_NS };
	struct xrc *x = xrc_open(&conf);
	const struct ib_fields f = {
		.opcode = ib_opcode(IB_XRC, IB_SEND, IB_ONLY, IB_NONE),
		.dest_qp = x->to->qpn,
		.pkey = 0xffff,
		.ackreq = true,
		.srqn = x->at[1].srq->num,
	};
	struct ibv_sge sge = sim_sge(x->at[1].mr, 0, 100);
	struct ibv_recv_wr wr = { .wr_id = 11, .sg_list = &sge, .num_sge = 1 }, *bad;

	(void)state;
	post(x, IBV_WR_SEND, 1, x->at[0].srq->num, 0, 0, 100);
	sim_run(x->s, MS / 10);
	assert_false(list_empty(&x->at[0].srq->awaiting));
	sim_inject(x->s, 0, &f, x->mem, 100);
	sim_run(x->s, MS / 10);
	assert_true(list_empty(&x->at[0].srq->awaiting));
	close_srq(x, 0);
	assert_int_equal(srq_post(x->at[1].srq, &wr, &bad), 1);
	wait_for(x, x->at[1].cq, 11, IBV_WC_SUCCESS);
	wait_for(x, x->scq, 1, IBV_WC_SUCCESS);
	same(x, 1, 0, 100);
	xrc_close(x);
}

/* --- failure -------------------------------------------------------------- */

static void refused(struct xrc *x, uint32_t srqn)
{
	post(x, IBV_WR_SEND, 1, srqn, 0, 0, 100);
	wait_for(x, x->scq, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(x->to->state, IBV_QPS_ERR);
	assert_int_equal(sim_event(x->s, 1), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(sim_event(x->s, 1), -1);
}

static void an_srq_that_does_not_exist(void **state)
{
	struct xrc *x = xrc_open(NULL);

	(void)state;
	receive(x, 0, 10, 0, 100);
	refused(x, x->at[0].srq->num ^ 0x400);
	xrc_close(x);
}

static void an_srq_of_another_process(void **state)
{
	struct xrc *x = xrc_open(NULL);

	(void)state;
	refused(x, x->at[0].srq->num ^ 0x800000);
	xrc_close(x);
}

static void an_srq_of_another_domain(void **state)
{
	struct xrc *x = xrc_open(NULL);
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct xrcd *other = domain(x);
	struct srq *srq;

	(void)state;
	assert_int_equal(srq_create_xrc(&x->s->node[1].ctx, x->at[0].pd, other,
					x->at[0].cq, &a, &srq),
			 0);
	refused(x, srq->num);
	assert_int_equal(xrcd_close(other), -EBUSY);
	assert_int_equal(srq_destroy(srq), 0);
	assert_int_equal(xrcd_close(other), 0);
	xrc_close(x);
}

static void an_srq_that_is_not_of_xrc(void **state)
{
	struct xrc *x = xrc_open(NULL);
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 8, .max_sge = 1 } };
	struct srq *srq;

	(void)state;
	assert_int_equal(srq_create(&x->s->node[1].ctx, x->at[0].pd, &a, &srq), 0);
	refused(x, srq->num);
	assert_int_equal(srq_destroy(srq), 0);
	xrc_close(x);
}

/* Lets two packets of a message through. */
static bool two_packets(void *arg, const struct sim_packet *p)
{
	unsigned *n = arg;

	return p->side != 0 || ++*n <= 2;
}

/* Two packets of a message for SRQ 0 arrive, counted in *n, and no more while the tap is
 * there; then the SRQ is destroyed. */
static void destroy_srq_under_message(struct xrc *x, unsigned *n)
{
	receive(x, 0, 10, 0, 5000);
	x->s->tap = two_packets;
	x->s->tap_arg = n;
	post(x, IBV_WR_SEND, 1, x->at[0].srq->num, 0, 0, 5000);
	sim_run(x->s, MS / 10);
	assert_true(x->to->recv.held);
	close_srq(x, 0);
}

static void an_srq_that_is_destroyed_under_a_message(void **state)
{
	struct xrc *x = xrc_open(NULL);
	struct ibv_wc wc;
	unsigned n = 0;

	(void)state;
	destroy_srq_under_message(x, &n);
	x->s->tap = NULL;
	wait_for(x, x->scq, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(cq_poll(x->at[0].cq, 1, &wc), 0);
	xrc_close(x);
}

/* The rest of the message names another SRQ, which must not take over the message. */
static void another_srq_after_the_first_was_destroyed(void **state)
{
	struct xrc *x = xrc_open(NULL);
	struct ib_fields f = {
		.opcode = ib_opcode(IB_XRC, IB_SEND, IB_LAST, IB_NONE),
		.dest_qp = x->to->qpn,
		.pkey = 0xffff,
		.psn = 2,
		.srqn = x->at[1].srq->num,
	};
	struct ibv_wc wc;
	unsigned n = 0;

	(void)state;
	destroy_srq_under_message(x, &n);
	sim_inject(x->s, 0, &f, x->mem, 100);
	sim_run(x->s, MS / 10);
	assert_int_equal(x->to->state, IBV_QPS_ERR);
	assert_int_equal(sim_event(x->s, 1), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(cq_poll(x->at[0].cq, 1, &wc), 0);
	assert_int_equal(cq_poll(x->at[1].cq, 1, &wc), 0);
	x->s->tap = NULL;
	wait_for(x, x->scq, 1, IBV_WC_REM_INV_REQ_ERR);
	xrc_close(x);
}

/* The READ was accepted; the SRQ is gone when its response is built. */
static bool no_answers(void *arg, const struct sim_packet *p)
{
	(void)arg;
	return p->side == 0;
}

static void an_srq_that_is_destroyed_under_a_read(void **state)
{
	struct xrc *x = xrc_open(NULL);

	(void)state;
	x->s->tap = no_answers;
	post(x, IBV_WR_RDMA_READ, 1, x->at[0].srq->num, 0, 0, 5000);
	sim_run(x->s, MS / 10);
	close_srq(x, 0);
	sim_run(x->s, 50 * MS);
	x->s->tap = NULL;
	wait_for(x, x->scq, 1, IBV_WC_RETRY_EXC_ERR); /* duplicates are not answered */
	xrc_close(x);
}

static void an_initiator_takes_no_requests(void **state)
{
	struct xrc *x = xrc_open(NULL);
	const struct ib_fields f = {
		.opcode = ib_opcode(IB_XRC, IB_SEND, IB_ONLY, IB_NONE),
		.dest_qp = x->from->qpn,
		.pkey = 0xffff,
		.srqn = x->at[0].srq->num,
	};
	uint64_t before = ib_counter(&x->s->node[0].core, IB_RX_NO_QP);

	(void)state;
	sim_inject(x->s, 1, &f, x->mem, 4);
	sim_run(x->s, MS);
	assert_int_equal(ib_counter(&x->s->node[0].core, IB_RX_NO_QP), before + 1);
	assert_int_equal(x->from->state, IBV_QPS_RTS);
	xrc_close(x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_send_goes_to_its_srq),
		cmocka_unit_test(memory_is_that_of_the_srqs_pd),
		cmocka_unit_test(an_empty_srq_is_waited_for),
		cmocka_unit_test(what_is_lost_comes_again),
		cmocka_unit_test(a_message_that_waits_changes_its_srq),
		cmocka_unit_test(an_srq_that_does_not_exist),
		cmocka_unit_test(an_srq_of_another_process),
		cmocka_unit_test(an_srq_of_another_domain),
		cmocka_unit_test(an_srq_that_is_not_of_xrc),
		cmocka_unit_test(an_srq_that_is_destroyed_under_a_message),
		cmocka_unit_test(another_srq_after_the_first_was_destroyed),
		cmocka_unit_test(an_srq_that_is_destroyed_under_a_read),
		cmocka_unit_test(an_initiator_takes_no_requests),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
