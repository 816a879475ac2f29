/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/post.h"
#include "verbs/qp_fixture.h"

static struct ibv_sge sge[8] = {
	{ .addr = 0x1000, .length = 10, .lkey = 1 },
	{ .addr = 0x2000, .length = 20, .lkey = 2 },
};

static struct ah *make_ah(struct fix *f, struct pd *pd)
{
	struct ibv_ah_attr attr = fix_attr(IBV_QPS_RTR).ah_attr;
	struct ah *ah;

	assert_int_equal(ah_create(pd, &f->ctx, &attr, &ah), 0);
	return ah;
}

/* Posts one request; checks that a refused one is returned in *bad and leaves nothing in
 * the queue. */
static int post(struct qp *qp, struct ibv_send_wr wr)
{
	struct ibv_send_wr *bad = NULL;
	uint32_t head = qp->sq.head;
	int rc = qp_post_send(qp, &wr, &bad);

	assert_int_equal(qp->sq.head - head, rc ? 0 : 1);
	assert_int_equal(qp->sq.draft, qp->sq.head);
	if (rc)
		assert_ptr_equal(bad, &wr);
	return rc;
}

static struct qp *ready(struct fix *f, enum ibv_qp_type type)
{
	struct qp *qp = fix_qp(f, type);

	fix_bring(qp, IBV_QPS_RTS);
	return qp;
}

static void everything_arrives_in_the_queue(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = ready(f, IBV_QPT_RC);
	struct swqe *w;

	(void)state;
	assert_int_equal(post(qp,
			      (struct ibv_send_wr){
				      .wr_id = 7,
				      .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				      .sg_list = sge,
				      .num_sge = 2,
				      .send_flags = IBV_SEND_FENCE | IBV_SEND_SOLICITED,
				      .imm_data = 0x44,
				      .wr.rdma = { .remote_addr = 99, .rkey = 98 } }),
			 0);
	w = fix_last(qp);
	assert_int_equal(w->wr_id, 7);
	assert_int_equal(w->opcode, IBV_WR_RDMA_WRITE_WITH_IMM);
	assert_int_equal(w->flags, IBV_SEND_FENCE | IBV_SEND_SOLICITED);
	assert_int_equal(w->length, 30);
	assert_int_equal(w->num_sge, 2);
	assert_int_equal(w->imm, 0x44);
	assert_int_equal(w->remote_addr, 99);
	assert_int_equal(w->rkey, 98);
	assert_memory_equal(sq_sges(&qp->sq, qp->sq.head - 1), sge, 2 * sizeof(*sge));

	sge[7] = (struct ibv_sge){ .addr = 8, .length = 8 };
	assert_int_equal(post(qp,
			      (struct ibv_send_wr){ .opcode = IBV_WR_ATOMIC_CMP_AND_SWP,
						    .sg_list = &sge[7],
						    .num_sge = 1,
						    .wr.atomic = { .remote_addr = 1,
								   .compare_add = 2,
								   .swap = 3,
								   .rkey = 4 } }),
			 0);
	w = fix_last(qp);
	assert_int_equal(w->remote_addr, 1);
	assert_int_equal(w->atomic.compare_add, 2);
	assert_int_equal(w->atomic.swap, 3);
	assert_int_equal(w->rkey, 4);

	assert_int_equal(post(qp, (struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV,
							.invalidate_rkey = 0x77 }),
			 0);
	assert_int_equal(fix_last(qp)->imm, 0x77);
	/* A slot of the send queue is cleared when it is used again. */
	fix_last(qp)->psn = fix_last(qp)->done = 1;
	fix_forget(qp);
	for (int i = 0; i < 8; i++)
		assert_int_equal(fix_send(qp, 1, 0), 0);
	w = fix_last(qp);
	assert_int_equal(w->imm, 0);
	assert_int_equal(w->psn | w->done, 0);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void inline_data_is_copied_at_once(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = ready(f, IBV_QPT_RC);
	char a[64], b[64];
	struct ibv_sge s[2] = {
		{ .addr = (uintptr_t)a, .length = 30 },
		{ .addr = (uintptr_t)b, .length = 34 },
	};
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
				  .sg_list = s,
				  .num_sge = 2,
				  .send_flags = IBV_SEND_INLINE };
	struct ibv_sge *got;

	(void)state;
	memset(a, 'a', sizeof(a));
	memset(b, 'b', sizeof(b));
	assert_int_equal(post(qp, wr), 0);
	memset(a, 0, sizeof(a));
	assert_int_equal(fix_last(qp)->num_sge, 1);
	assert_int_equal(fix_last(qp)->length, 64);
	got = sq_sges(&qp->sq, qp->sq.head - 1);
	assert_int_equal(got->length, 64);
	assert_int_equal(((char *)(uintptr_t)got->addr)[0], 'a');
	assert_int_equal(((char *)(uintptr_t)got->addr)[29], 'a');
	assert_int_equal(((char *)(uintptr_t)got->addr)[30], 'b');
	assert_int_equal(((char *)(uintptr_t)got->addr)[63], 'b');

	s[1].length = 35;
	assert_int_equal(post(qp, wr), -EINVAL);
	s[1].length = UINT32_MAX;
	assert_int_equal(post(qp, wr), -EINVAL);
	s[0].length = UINT32_MAX;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr.sg_list = NULL;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr.num_sge = 0;
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(fix_last(qp)->length, 0);
	wr.opcode = IBV_WR_RDMA_READ;
	assert_int_equal(post(qp, wr), -EINVAL);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void hostile_requests_are_refused(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = ready(f, IBV_QPT_RC);
	/* clang-format off */
	struct ibv_sge huge[4] = {
		{ .length = 0x7fffffff }, { .length = 1 },
		{ .length = UINT32_MAX }, { .length = UINT32_MAX },
	};
	/* clang-format on */
	struct ibv_send_wr ok = { .opcode = IBV_WR_SEND, .sg_list = sge, .num_sge = 1 };
	struct ibv_send_wr wr;

	(void)state;
	wr = ok, wr.num_sge = -1;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr = ok, wr.num_sge = INT32_MIN;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr = ok, wr.num_sge = 5;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr = ok, wr.sg_list = NULL;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr = ok, wr.opcode = IBV_WR_TSO;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr = ok, wr.opcode = (enum ibv_wr_opcode) - 1;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr = ok, wr.send_flags = 1 << 8;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr = ok, wr.sg_list = huge;
	assert_int_equal(post(qp, wr), 0); /* 2 GiB - 1 */
	wr.num_sge = 2;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr.sg_list = &huge[1]; /* 2^32: must not wrap to 0 */
	assert_int_equal(post(qp, wr), -EINVAL);
	wr.sg_list = huge, wr.num_sge = 4;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr = ok, wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	assert_int_equal(post(qp, wr), -EINVAL); /* 10 bytes */
	wr.num_sge = 0;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr = ok, wr.opcode = IBV_WR_BIND_MW;
	assert_int_equal(post(qp, wr), -EINVAL); /* no window is named */
	assert_int_equal(qp_post_send(qp, NULL, NULL), 0);
	wr = ok, wr.num_sge = -1;
	assert_int_equal(qp_post_send(qp, &wr, NULL), -EINVAL);
	f->ctx.dead = true;
	assert_int_equal(post(qp, ok), -EIO);
	assert_int_equal(fix_recv(qp, 1), -EIO);
	f->ctx.dead = false;
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void each_type_has_its_opcodes(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *uc = ready(f, IBV_QPT_UC), *ud = ready(f, IBV_QPT_UD);
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ };

	(void)state;
	assert_int_equal(post(uc, wr), -EINVAL);
	wr.opcode = IBV_WR_SEND_WITH_INV;
	assert_int_equal(post(uc, wr), -EINVAL);
	wr.opcode = IBV_WR_RDMA_WRITE;
	assert_int_equal(post(uc, wr), 0);
	assert_int_equal(post(ud, wr), -EINVAL);
	wr.opcode = IBV_WR_LOCAL_INV;
	assert_int_equal(post(ud, wr), -EINVAL);
	fix_forget(uc);
	assert_int_equal(qp_destroy(uc), 0);
	assert_int_equal(qp_destroy(ud), 0);
	fix_close(f);
}

static void a_datagram_takes_its_address_along(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = ready(f, IBV_QPT_UD);
	struct ah *ah = make_ah(f, f->pd), *stranger;
	struct pd *other;
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.wr.ud = { .ah = &ah->ibv, .remote_qpn = 5, .remote_qkey = 6 }
	};

	(void)state;
	assert_int_equal(pd_alloc(&f->core, &f->ibv, &other), 0);
	stranger = make_ah(f, other);
	assert_int_equal(post(qp, wr), 0);
	wr.wr.ud.ah = &stranger->ibv;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr.wr.ud.ah = NULL;
	assert_int_equal(post(qp, wr), -EINVAL);
	wr.wr.ud.ah = &ah->ibv;
	wr.wr.ud.remote_qpn = 1 << 24;
	assert_int_equal(post(qp, wr), -EINVAL);
	assert_int_equal(ah_destroy(ah), 0);
	assert_int_equal(ip_addr(&fix_last(qp)->ud.path.addr)->to.ip[15], 2);
	assert_int_equal(fix_last(qp)->ud.qpn, 5);
	assert_int_equal(fix_last(qp)->ud.qkey, 6);
	wr.wr.ud = (typeof(wr.wr.ud)){ .ah = &stranger->ibv, .remote_qkey = 1u << 31 };
	stranger->pd = f->pd;
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(fix_last(qp)->ud.qkey, QKEY_OWN);
	stranger->pd = other;
	assert_int_equal(ah_destroy(stranger), 0);
	assert_int_equal(pd_free(other), 0);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

/* A posted datagram no longer needs its address handle; the next post checks the
 * handle. */
static void a_freed_address_handle_is_refused(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = ready(f, IBV_QPT_UD);
	struct ah *ah = make_ah(f, f->pd), *next;
	struct live *left[LIVE_KINDS] = { NULL };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.wr.ud = { .ah = &ah->ibv, .remote_qpn = 5, .remote_qkey = 6 }
	};

	(void)state;
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(ah_destroy(ah), 0);
	assert_int_equal(post(qp, wr), -EINVAL);
	qp->send_ops = IBV_QP_EX_WITH_SEND;
	post_start(qp);
	assert_non_null(post_draft(qp, IBV_WR_SEND));
	post_ud(qp, &ah->ibv, 5, 6);
	assert_int_equal(post_complete(qp), -EINVAL);
	/* A new address handle does not get the memory of the freed one at once. */
	next = make_ah(f, f->pd);
	assert_int_equal(post(qp, wr), -EINVAL);
	wr.wr.ud.ah = &next->ibv;
	assert_int_equal(post(qp, wr), 0);
	live_take(&f->ibv, left); /* the context of the handle is closed */
	assert_int_equal(post(qp, wr), -EINVAL);
	assert_int_equal(ah_destroy(next), 0);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void a_window_is_bound_from_its_old_key_to_the_new(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = ready(f, IBV_QPT_RC);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW,
				  .num_sge = 1,
				  .sg_list = sge,
				  .bind_mw = { .rkey = 0x101,
					       .bind_info = { .length = 12 } } };
	struct mr *mr;
	struct mw *mw;
	uint32_t was;

	(void)state;
	assert_int_equal(mw_alloc(f->pd, IBV_MW_TYPE_2, &mw), 0);
	was = mw->ibv.rkey;
	assert_int_equal(mr_reg(f->pd, f, sizeof(*f), 0, IBV_ACCESS_MW_BIND, &mr), 0);
	wr.bind_mw.mw = &mw->ibv;
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(fix_last(qp)->imm, (was & ~0xffu) | 1);
	assert_int_equal(mw->ibv.rkey, fix_last(qp)->imm);
	assert_int_equal(fix_last(qp)->bind.handle, mw->ibv.handle);
	assert_int_equal(fix_last(qp)->bind.type, IBV_MW_TYPE_2);
	assert_int_equal(fix_last(qp)->bind.info.length, 12);
	assert_int_equal(fix_last(qp)->num_sge, 0);
	assert_int_equal(fix_last(qp)->length, 0);
	wr.bind_mw.bind_info.mr = &mr->ibv;
	assert_int_equal(post(qp, wr), 0);
	assert_int_equal(fix_last(qp)->rkey, mr->ibv.lkey);
	assert_int_equal(mr_dereg(mr), 0);
	assert_int_equal(post(qp, wr), -EINVAL);
	wr.bind_mw.bind_info.mr = NULL;
	assert_int_equal(mw_dealloc(mw), 0);
	assert_int_equal(post(qp, wr), -EINVAL);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void a_chain_is_taken_up_to_the_bad_one(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = ready(f, IBV_QPT_RC);
	struct ibv_send_wr wr[3] = {
		{ .wr_id = 1, .next = &wr[1], .opcode = IBV_WR_SEND },
		{ .wr_id = 2, .next = &wr[2], .opcode = IBV_WR_TSO },
		{ .wr_id = 3, .opcode = IBV_WR_SEND },
	}, *bad = NULL;
	struct ibv_recv_wr rwr[2] = {
		{ .wr_id = 1, .next = &rwr[1] }, { .wr_id = 2, .num_sge = 9 },
	}, *rbad = NULL;

	(void)state;
	assert_int_equal(qp_post_send(qp, wr, &bad), -EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(qp->sq.head - qp->sq.tail, 1);
	assert_int_equal(fix_last(qp)->wr_id, 1);
	assert_int_equal(qp_post_recv(qp, rwr, &rbad), -EINVAL);
	assert_ptr_equal(rbad, &rwr[1]);
	assert_int_equal(qp->rq.head - qp->rq.tail, 1);
	for (int i = 0; i < 7; i++)
		assert_int_equal(fix_send(qp, 1, 0), 0);
	wr[1].opcode = IBV_WR_SEND;
	assert_int_equal(qp_post_send(qp, wr, &bad), -ENOMEM);
	assert_ptr_equal(bad, &wr[0]);
	qp->sq.tail += 2;
	assert_int_equal(qp_post_send(qp, wr, &bad), -ENOMEM);
	assert_ptr_equal(bad, &wr[0]);
	qp->sq.returned += 2;
	assert_int_equal(qp_post_send(qp, wr, &bad), -ENOMEM);
	assert_ptr_equal(bad, &wr[2]);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void states_decide_who_may_post(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);

	(void)state;
	assert_int_equal(fix_send(qp, 1, 0), -EINVAL);
	assert_int_equal(fix_recv(qp, 1), -EINVAL);
	fix_bring(qp, IBV_QPS_INIT);
	assert_int_equal(fix_send(qp, 1, 0), -EINVAL);
	assert_int_equal(fix_recv(qp, 1), 0);
	fix_bring(qp, IBV_QPS_RTR);
	assert_int_equal(fix_send(qp, 1, 0), -EINVAL);
	fix_bring(qp, IBV_QPS_SQD);
	assert_int_equal(fix_send(qp, 1, 0), 0);
	assert_true(cq_empty(f->scq));
	assert_int_equal(fix_step(qp, IBV_QPS_ERR), 0);
	assert_int_equal(fix_send(qp, 2, 0), 0);
	fix_wc(f->scq, 1, IBV_WC_WR_FLUSH_ERR);
	fix_wc(f->scq, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(qp->sq.head, qp->sq.tail);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void all_are_signalled_if_the_qp_says_so(void **state)
{
	struct fix *f = fix_open(8);
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_RC);
	struct qp *qp;

	(void)state;
	a.sq_sig_all = 1;
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), 0);
	fix_bring(qp, IBV_QPS_RTS);
	assert_int_equal(fix_send(qp, 1, 0), 0);
	assert_true(fix_last(qp)->flags & IBV_SEND_SIGNALED);
	fix_forget(qp);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(everything_arrives_in_the_queue),
		cmocka_unit_test(inline_data_is_copied_at_once),
		cmocka_unit_test(hostile_requests_are_refused),
		cmocka_unit_test(each_type_has_its_opcodes),
		cmocka_unit_test(a_datagram_takes_its_address_along),
		cmocka_unit_test(a_freed_address_handle_is_refused),
		cmocka_unit_test(a_window_is_bound_from_its_old_key_to_the_new),
		cmocka_unit_test(a_chain_is_taken_up_to_the_bad_one),
		cmocka_unit_test(states_decide_who_may_post),
		cmocka_unit_test(all_are_signalled_if_the_qp_says_so),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
