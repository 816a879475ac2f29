/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/xrc.h"

#include "verbs/qp_fixture.h"
#include <sys/mman.h>

#include "verbs/rq.h"
#include "verbs/tm.h"

enum { BOTH = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS };

static int open_xrcd(struct fix *f, uint32_t mask, int fd, int oflags, struct xrcd **x)
{
	const struct ibv_xrcd_init_attr a = { mask, fd, oflags };

	return xrcd_open(&f->ctx, &a, x);
}

static void a_file_names_a_domain(void **state)
{
	struct fix *f = fix_open(8);
	int fd = memfd_create("xrc", 0), other = memfd_create("xrc", 0), again = dup(fd);
	struct xrcd *a, *b, *c, *d;

	(void)state;
	assert_int_equal(open_xrcd(f, BOTH, fd, 0, &a), -EAGAIN);
	assert_int_equal(open_xrcd(f, BOTH, fd, O_CREAT | O_EXCL, &a), 0);
	assert_int_equal(open_xrcd(f, BOTH, again, O_CREAT | O_EXCL, &b), -EINVAL);
	assert_int_equal(open_xrcd(f, BOTH, again, 0, &b), 0);
	assert_ptr_equal(a->domain, b->domain);
	assert_int_equal(open_xrcd(f, BOTH, other, O_CREAT, &c), 0);
	assert_ptr_not_equal(a->domain, c->domain);
	assert_int_equal(xrcd_close(a), 0);
	/* Handle b keeps the domain. */
	assert_int_equal(open_xrcd(f, BOTH, fd, 0, &d), 0);
	assert_int_equal(xrcd_close(b), 0);
	assert_int_equal(xrcd_close(c), 0);
	assert_int_equal(xrcd_close(d), 0);
	assert_int_equal(open_xrcd(f, BOTH, fd, 0, &a), -EAGAIN);
	close(fd);
	close(again);
	close(other);
	fix_close(f);
}

static void without_a_file_each_is_a_domain_of_its_own(void **state)
{
	struct fix *f = fix_open(8);
	struct xrcd *a, *b;

	(void)state;
	assert_int_equal(open_xrcd(f, BOTH, -1, 0, &a), -EAGAIN);
	assert_int_equal(open_xrcd(f, BOTH, -1, O_CREAT, &a), 0);
	assert_int_equal(open_xrcd(f, BOTH, -1, O_CREAT, &b), 0);
	assert_ptr_not_equal(a->domain, b->domain);
	assert_ptr_equal(a->ibv.context, &f->ibv);
	assert_int_equal(xrcd_close(a), 0);
	assert_int_equal(xrcd_close(b), 0);
	fix_close(f);
}

static void what_cannot_be_opened(void **state)
{
	struct fix *f = fix_open(8);
	struct xrcd *x;

	(void)state;
	assert_int_equal(open_xrcd(f, 0, -1, O_CREAT, &x), -EINVAL);
	assert_int_equal(open_xrcd(f, IBV_XRCD_INIT_ATTR_FD, -1, O_CREAT, &x), -EINVAL);
	assert_int_equal(open_xrcd(f, BOTH | 4, -1, O_CREAT, &x), -EINVAL);
	assert_int_equal(open_xrcd(f, BOTH, -1, O_CREAT | O_TRUNC, &x), -EINVAL);
	assert_int_equal(open_xrcd(f, BOTH, 1 << 20, O_CREAT, &x), -EBADF);
	fix_close(f);
}

static void a_target_qp_has_a_domain_and_nothing_else(void **state)
{
	struct fix *f = fix_open(8);
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_XRC_RECV);
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	struct xrcd *x;
	struct qp *qp;

	(void)state;
	assert_int_equal(open_xrcd(f, BOTH, -1, O_CREAT, &x), 0);
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), -EINVAL);
	a.comp_mask = IBV_QP_INIT_ATTR_XRCD;
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), -EINVAL);
	a.xrcd = &x->ibv;
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), 0);
	assert_null(qp->pd);
	assert_null(qp->send_cq);
	assert_int_equal(a.cap.max_send_wr, 0);
	assert_int_equal(a.cap.max_recv_wr, 0);
	assert_int_equal(xrcd_close(x), -EBUSY);
	assert_int_equal(qp_post_recv(qp, &recv, &bad_recv), -EINVAL);
	assert_int_equal(qp_post_send(qp, &send, &bad_send), -EINVAL);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(xrcd_close(x), 0);
	fix_close(f);
}

static void an_initiator_needs_no_receive_cq(void **state)
{
	struct fix *f = fix_open(8);
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_XRC_SEND);
	struct ibv_sge sge = { 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sge }, *bad;
	struct qp *qp;

	(void)state;
	a.recv_cq = NULL;
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), 0);
	assert_int_equal(a.cap.max_recv_wr, 0);
	qp->state = IBV_QPS_RTS;
	wr.qp_type.xrc.remote_srqn = 1 << 24;
	assert_int_equal(qp_post_send(qp, &wr, &bad), -EINVAL);
	wr.qp_type.xrc.remote_srqn = 0xabcdef;
	assert_int_equal(qp_post_send(qp, &wr, &bad), 0);
	assert_int_equal(sq_at(&qp->sq, qp->sq.tail)->srqn, 0xabcdef);
	qp->state = IBV_QPS_RESET;
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void an_srq_counts_its_domain_and_its_cq(void **state)
{
	struct fix *f = fix_open(8);
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct xrcd *x;
	struct srq *srq;

	(void)state;
	assert_int_equal(open_xrcd(f, BOTH, -1, O_CREAT, &x), 0);
	assert_int_equal(srq_create_xrc(&f->ctx, f->pd, x, f->rcq, &a, &srq), 0);
	assert_int_equal(xrcd_close(x), -EBUSY);
	assert_int_equal(cq_destroy(f->rcq), -EBUSY);
	assert_int_equal(pd_free(f->pd), -EBUSY);
	assert_int_equal(srq_destroy(srq), 0);
	assert_int_equal(xrcd_close(x), 0);
	fix_close(f);
}

static void no_qp_is_made_with_an_srq_of_a_domain(void **state)
{
	struct fix *f = fix_open(8);
	struct ibv_qp_init_attr_ex a = fix_init(f, IBV_QPT_RC);
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct xrcd *x;
	struct srq *srq;
	struct qp *qp;

	(void)state;
	assert_int_equal(open_xrcd(f, BOTH, -1, O_CREAT, &x), 0);
	assert_int_equal(srq_create_xrc(&f->ctx, f->pd, x, f->rcq, &attr, &srq), 0);
	a.srq = &srq->ibv;
	assert_int_equal(qp_create(&f->ctx, &a, &fake_transport, &qp), -EINVAL);
	assert_int_equal(srq_destroy(srq), 0);
	assert_int_equal(xrcd_close(x), 0);
	fix_close(f);
}

static void an_srq_of_a_domain_has_no_tags(void **state)
{
	struct fix *f = fix_open(8);
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_SYNC }, *bad = NULL;
	struct xrcd *x;
	struct srq *srq;

	(void)state;
	assert_int_equal(open_xrcd(f, BOTH, -1, O_CREAT, &x), 0);
	assert_int_equal(srq_create_xrc(&f->ctx, f->pd, x, f->rcq, &attr, &srq), 0);
	assert_int_equal(tm_post(srq, &wr, &bad), -EINVAL);
	assert_ptr_equal(bad, &wr);
	assert_int_equal(srq_destroy(srq), 0);
	assert_int_equal(xrcd_close(x), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_names_a_domain),
		cmocka_unit_test(without_a_file_each_is_a_domain_of_its_own),
		cmocka_unit_test(what_cannot_be_opened),
		cmocka_unit_test(a_target_qp_has_a_domain_and_nothing_else),
		cmocka_unit_test(an_initiator_needs_no_receive_cq),
		cmocka_unit_test(an_srq_counts_its_domain_and_its_cq),
		cmocka_unit_test(no_qp_is_made_with_an_srq_of_a_domain),
		cmocka_unit_test(an_srq_of_a_domain_has_no_tags),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
