/* SPDX-License-Identifier: BSD-2-Clause */
/* builder.c - ibv_wr_*() in wrong order, in excess, and without need. */
#include "errors.h"

static struct duo d;
static struct ibv_qp_ex *x;

static struct ibv_qp *make(struct ibv_cq *cq, enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_qp_init_attr_ex init = {
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = type,
		.cap = { 8, 8, 2, 2, 32 },
		.pd = side(false)->pd,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(side(false)->ctx, &init);
}

static void open_duo(enum ibv_qp_type type, uint64_t ops)
{
	d = duo_make(type, 64, 64, NULL);
	CHECK(!ibv_destroy_qp(d.a));
	CHECK((d.a = make(d.acq, type, ops)));
	d.s->mine.qpn = d.a->qp_num;
	duo_up(&d);
	CHECK((x = ibv_qp_to_qp_ex(d.a)));
}

static void write_now(uint64_t id)
{
	x->wr_id = id;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_rdma_write(x, d.s->mr->rkey, (uintptr_t)d.s->buf + TARGET_AT);
}

/* After each misuse the QP still works, and nothing of the misused list was posted. */
static void still_good(void)
{
	expect_none(d.acq);
	ibv_wr_start(x);
	write_now(77);
	ibv_wr_set_sge(x, d.s->mr->lkey, (uintptr_t)d.s->buf, 64);
	CHECK(!ibv_wr_complete(x));
	expect(d.acq, 77, IBV_WC_SUCCESS, V_NONE);
	expect_none(d.acq);
	CHECK(state_of(d.a) == IBV_QPS_RTS);
	log_mark();
}

static void misuse(void)
{
	struct ibv_sge many[3] = { { 0 }, { 0 }, { 0 } };
	static uint8_t data[64];
	struct ibv_data_buf bufs[2] = { { data, 20 }, { data, 20 } };

	open_duo(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ |
				     IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
#define MISUSE(code, re, ...)                                                            \
	do {                                                                             \
		ibv_wr_start(x);                                                         \
		__VA_ARGS__;                                                             \
		REFUSED(code, ibv_wr_complete(x));                                       \
		log_must("%A: post refused: .*" re);                                     \
		still_good();                                                            \
	} while (0)

	MISUSE(EINVAL, "max_send_sge", write_now(1), ibv_wr_set_sge_list(x, 3, many));
	MISUSE(EINVAL, "max_send_sge", write_now(1),
	       ibv_wr_set_sge_list(x, SIZE_MAX, many));
	MISUSE(EINVAL, "sg_list is NULL", write_now(1), ibv_wr_set_sge_list(x, 1, NULL));
	MISUSE(EINVAL, "max_inline", write_now(1), ibv_wr_set_inline_data(x, data, 33));
	MISUSE(EINVAL, "max_inline", write_now(1),
	       ibv_wr_set_inline_data(x, data, SIZE_MAX));
	MISUSE(EINVAL, "max_inline", write_now(1),
	       ibv_wr_set_inline_data_list(x, 2, bufs));
	MISUSE(EINVAL, "begun", ibv_wr_set_sge(x, 0, 0, 0));
	MISUSE(EINVAL, "begun", ibv_wr_set_inline_data(x, data, 1));
	MISUSE(EINVAL, "8 bytes", ibv_wr_atomic_fetch_add(x, 0, 0, 1));
	MISUSE(EINVAL, "inline", ibv_wr_rdma_read(x, 0, 0),
	       ibv_wr_set_inline_data(x, data, 8));
	MISUSE(EINVAL, "flag", x->wr_flags = 1u << 20, ibv_wr_rdma_write(x, 0, 0),
	       x->wr_flags = 0);
	/* operations that are not among the QP's send_ops_flags */
	MISUSE(EINVAL, "send_ops_flags", ibv_wr_send(x));
	MISUSE(EINVAL, "send_ops_flags", ibv_wr_atomic_cmp_swp(x, 0, 0, 0, 0));
	/* A good request in the same list is not posted either; further ones are
	 * ignored. */
	MISUSE(EINVAL, "max_inline", write_now(1),
	       ibv_wr_set_sge(x, d.s->mr->lkey, (uintptr_t)d.s->buf, 8), write_now(2),
	       ibv_wr_set_inline_data(x, data, 60), write_now(3));
#undef MISUSE
	/* An empty list is no error. */
	ibv_wr_start(x);
	CHECK(!ibv_wr_complete(x));
	/* A list that is aborted leaves no trace. */
	ibv_wr_start(x);
	write_now(9);
	ibv_wr_abort(x);
	still_good();
	duo_drop(&d);
}

/* A list is posted as a whole or not at all. */
static void too_many(void)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	open_duo(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE);
	CHECK(!ibv_query_qp(d.a, &a, IBV_QP_CAP, &init));
	ibv_wr_start(x);
	for (unsigned i = 0; i <= a.cap.max_send_wr; i++)
		write_now(i);
	REFUSED(ENOMEM, ibv_wr_complete(x));
	log_must("%A: post refused: .*send queue is full");
	still_good();
	duo_drop(&d);
}

static void states(void)
{
	static const enum ibv_qp_state to[] = { IBV_QPS_RESET, IBV_QPS_INIT };
	struct ibv_qp_attr a;

	open_duo(IBV_QPT_RC, IBV_QP_EX_WITH_RDMA_WRITE);
	a = self_attr(d.s, d.b->qp_num);
	for (size_t i = 0; i < COUNT(to); i++) {
		qp_to(d.a, &a, to[i]);
		ibv_wr_start(x);
		write_now(1);
		REFUSED(EINVAL, ibv_wr_complete(x));
		log_must("%A: post refused: .*state");
		log_mark();
	}
	qp_to(d.a, &a, IBV_QPS_ERR);
	ibv_wr_start(x);
	write_now(2);
	CHECK(!ibv_wr_complete(x));
	expect(d.acq, 2, IBV_WC_WR_FLUSH_ERR, V_FLUSHED);
	duo_drop(&d);
}

static void ud(void)
{
	struct ibv_ah *ah;

	open_duo(IBV_QPT_UD, IBV_QP_EX_WITH_SEND);
	CHECK((ah = ah_to(d.s, &d.s->mine.gid)));
	ibv_wr_start(x);
	ibv_wr_send(x);
	REFUSED(EINVAL, ibv_wr_complete(x));
	log_must("%A: post refused: ibv_wr_set_ud_addr");
	ibv_wr_start(x);
	ibv_wr_send(x);
	ibv_wr_set_ud_addr(x, ah, 1 << 24, QKEY);
	REFUSED(EINVAL, ibv_wr_complete(x));
	log_must("%A: post refused: .*24 bits");
	ibv_wr_start(x);
	x->wr_id = 5;
	x->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send(x);
	ibv_wr_set_ud_addr(x, ah, d.b->qp_num, QKEY);
	CHECK(!ibv_wr_complete(x));
	expect(d.acq, 5, IBV_WC_SUCCESS, V_NONE);
	CHECK(!ibv_destroy_ah(ah));
	duo_drop(&d);
}

/* Operations that the QP type does not have cannot be asked for; a QP without
 * send_ops_flags has no ibv_wr_*. */
static void creation(void)
{
	struct side *s = side(false);

	REFUSED_PTR(EOPNOTSUPP, make(s->scq, IBV_QPT_UD, IBV_QP_EX_WITH_RDMA_READ));
	log_must("create_qp refused: send_ops_flags");
	REFUSED_PTR(EOPNOTSUPP, make(s->scq, IBV_QPT_UC, IBV_QP_EX_WITH_RDMA_READ));
	REFUSED_PTR(EOPNOTSUPP, make(s->scq, IBV_QPT_RC, IBV_QP_EX_WITH_TSO));
	REFUSED_PTR(EOPNOTSUPP, make(s->scq, IBV_QPT_RC, 1ull << 40));
	s->qp = qp_make(s, IBV_QPT_RC);
	CHECK(!ibv_qp_to_qp_ex(s->qp));
	qp_drop(s);
}

const struct local_row builder_rows[] = {
	{ "builder_misuse", misuse },	  { "builder_too_many", too_many },
	{ "builder_states", states },	  { "builder_ud", ud },
	{ "builder_creation", creation }, { NULL, NULL },
};
