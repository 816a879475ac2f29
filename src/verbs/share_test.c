/* SPDX-License-Identifier: BSD-2-Clause */
/* share_test.c - what each handle of a target QP of XRC may do, and how they end. */
#include "verbs/share_fix.h"

/* --- by each kind of opener: another process, and the QP's own -------------------------
 */

static void a_handle_is_the_qp(void **state)
{
	(void)state;
	for (int who = 0; who < 2; who++) {
		struct ibv_qp_init_attr init;
		struct ibv_qp_attr a;
		struct qp *h;

		lab_open();
		h = opened(who);
		assert_int_equal(h->ex.qp_base.qp_num, lab.qp->qpn);
		assert_int_equal(h->ex.qp_base.state, IBV_QPS_UNKNOWN);
		assert_ptr_equal(h->ex.qp_base.qp_context, &lab);
		assert_ptr_equal(h->ex.qp_base.context, &lab.f[who]->ibv);
		assert_int_equal(state_by(h), IBV_QPS_RESET);
		assert_int_equal(to(h, IBV_QPS_RTR), -EINVAL);
		assert_int_equal(to(h, IBV_QPS_INIT), 0);
		assert_int_equal(lab.qp->state, IBV_QPS_INIT);
		assert_int_equal(to(h, IBV_QPS_RTR), 0);
		assert_int_equal(lab.qp->state, IBV_QPS_RTR);
		assert_int_equal(h->ex.qp_base.state, IBV_QPS_RTR);
		/* Its creator's struct shows only what the creator has done. */
		assert_int_equal(lab.qp->ex.qp_base.state, IBV_QPS_RESET);
		assert_int_equal(lab.prepared, 3);
		assert_int_equal(opened_query(h, &a, &init), 0);
		assert_int_equal(a.dest_qp_num, 0x1234);
		assert_int_equal(a.rq_psn, 77);
		fails(IBV_EVENT_QP_REQ_ERR);
		deliver();
		assert_int_equal(fix_event(lab.f[0], &lab.qp->ex.qp_base),
				 IBV_EVENT_QP_REQ_ERR);
		assert_int_equal(fix_event(lab.f[who], &h->ex.qp_base),
				 IBV_EVENT_QP_REQ_ERR);
		assert_int_equal(state_by(h), IBV_QPS_ERR);
		opened_destroy(h);
		settle();
		assert_int_equal(lab.f[0]->core.qps.count, 1);
		assert_false(shared_leave(lab.qp));
		assert_int_equal(qp_destroy(lab.qp), 0);
		lab_close();
	}
}

static void a_handle_posts_nothing(void **state)
{
	struct ibv_send_wr send = { .opcode = IBV_WR_SEND }, *bad_send;
	struct ibv_recv_wr recv = { .wr_id = 1 }, *bad_recv;
	struct qp *h;

	(void)state;
	lab_open();
	h = opened(1);
	assert_int_equal(qp_post_recv(h, &recv, &bad_recv), -EINVAL);
	assert_int_equal(qp_post_send(h, &send, &bad_send), -EINVAL);
	assert_int_equal(xrcd_close(lab.xrcd[1]), -EBUSY);
	opened_destroy(h);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

static void the_last_handle_ends_the_qp(void **state)
{
	(void)state;
	for (int who = 0; who < 2; who++) {
		struct qp *a, *b;

		lab_open();
		a = opened(who);
		b = opened(!who);
		assert_true(shared_leave(lab.qp));
		/* Handle a or b uses the domain. */
		assert_int_equal(xrcd_close(lab.xrcd[0]), -EBUSY);
		assert_int_equal(to(a, IBV_QPS_INIT), 0);
		assert_int_equal(state_by(b), IBV_QPS_INIT);
		/* Raises an event; the creator's handle is closed. */
		fails(IBV_EVENT_QP_FATAL);
		deliver();
		assert_int_equal(fix_event(lab.f[who], &a->ex.qp_base),
				 IBV_EVENT_QP_FATAL);
		assert_int_equal(fix_event(lab.f[!who], &b->ex.qp_base),
				 IBV_EVENT_QP_FATAL);
		assert_int_equal(fix_event(lab.f[0], NULL), -1);
		opened_destroy(a);
		settle();
		assert_int_equal(fake.closed, 0);
		opened_destroy(b);
		settle();
		assert_int_equal(fake.closed, 1);
		lab_close();
	}
}

/* A handle also keeps the QP's XRC domain: the program may close its own handle of the
 * domain. */
static void the_qp_keeps_its_domain(void **state)
{
	struct qp *h;

	(void)state;
	lab_open();
	h = opened(1);
	assert_true(shared_leave(lab.qp));
	assert_int_equal(xrcd_close(lab.xrcd[0]), 0);
	assert_false(list_empty(&lab.f[0]->core.xrc.domains));
	opened_destroy(h);
	settle();
	assert_true(list_empty(&lab.f[0]->core.xrc.domains));
	lab.xrcd[0] = domain(lab.f[0], -1);
	lab_close();
}

static void what_cannot_be_opened(void **state)
{
	struct xrcd *other, *own;
	struct qp *h, *rc, *b;
	struct ibv_qp_open_attr a;

	(void)state;
	lab_open();
	assert_int_equal(try_open(1, qpn_make(FIX_SLOT, 9999), &h), -EINVAL);
	assert_int_equal(try_open(1, qpn_make(FIX_SLOT + 1, 9999), &h), -EINVAL);
	/* No process has that slot. */
	assert_int_equal(try_open(1, qpn_make(77, 5), &h), -EINVAL);
	assert_int_equal(try_open(1, 1u << 24 | lab.qp->qpn, &h), -EINVAL);
	rc = fix_qp(lab.f[0], IBV_QPT_RC);
	assert_int_equal(try_open(1, rc->qpn, &h), -EINVAL);
	assert_int_equal(try_open(0, rc->qpn, &h), -EINVAL);
	assert_int_equal(qp_destroy(rc), 0);
	/* Unnamed domains (without a file) look the same to another process, so it may
	 * not open their QPs. */
	other = domain(lab.f[0], -1);
	own = lab.xrcd[0];
	b = target(lab.f[0], other);
	assert_int_equal(try_open(0, b->qpn, &h), -EINVAL);
	assert_int_equal(try_open(1, b->qpn, &h), -EINVAL);
	lab.xrcd[0] = domain(lab.f[0], -1);
	assert_int_equal(try_open(0, b->qpn, &h), -EINVAL);
	assert_int_equal(xrcd_close(lab.xrcd[0]), 0);
	lab.xrcd[0] = other;
	assert_int_equal(try_open(0, b->qpn, &h), 0);
	opened_destroy(h);
	lab.xrcd[0] = own;
	assert_int_equal(qp_destroy(b), 0);
	assert_int_equal(xrcd_close(other), 0);
	/* The attributes that ibv_open_qp requires. */
	a = (struct ibv_qp_open_attr){ .comp_mask = 7,
				       .qp_num = lab.qp->qpn,
				       .xrcd = &lab.xrcd[1]->ibv,
				       .qp_type = IBV_QPT_XRC_RECV };
	for (unsigned bit = 1; bit < 16; bit <<= 1) {
		a.comp_mask = (IBV_QP_OPEN_ATTR_RESERVED - 1) & ~bit;
		if (bit == IBV_QP_OPEN_ATTR_CONTEXT)
			continue;
		assert_int_equal(opened_open(&lab.f[1]->ctx, &a, &h), -EINVAL);
	}
	a.comp_mask = IBV_QP_OPEN_ATTR_RESERVED;
	assert_int_equal(opened_open(&lab.f[1]->ctx, &a, &h), -EOPNOTSUPP);
	a.comp_mask = IBV_QP_OPEN_ATTR_RESERVED - 1;
	a.qp_type = IBV_QPT_XRC_SEND;
	assert_int_equal(opened_open(&lab.f[1]->ctx, &a, &h), -EINVAL);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

/* --- ends ------------------------------------------------------------------------------
 */

static void the_end_of_the_qp_is_told(void **state)
{
	struct qp *h[2];

	(void)state;
	lab_open();
	h[0] = opened(0);
	h[1] = opened(1);
	lab.full = 1;
	assert_int_equal(qp_destroy(lab.qp), 0); /* the creator's context is closed */
	settle();
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fix_event(lab.f[i], &h[i]->ex.qp_base),
				 IBV_EVENT_QP_FATAL);
		assert_int_equal(state_by(h[i]), IBV_QPS_ERR);
		assert_int_equal(to(h[i], IBV_QPS_RESET), -EIO);
		opened_destroy(h[i]);
	}
	lab_close();
}

static void the_end_of_its_process_is_seen(void **state)
{
	struct qp *h;

	(void)state;
	lab_open();
	h = opened(1);
	gone(1, 0);
	gone(0, 1); /* both ends are told that the connection has ended */
	assert_int_equal(fix_event(lab.f[1], &h->ex.qp_base), IBV_EVENT_QP_FATAL);
	assert_int_equal(fix_event(lab.f[1], NULL), -1);
	assert_int_equal(state_by(h), IBV_QPS_ERR);
	opened_destroy(h);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

static void an_opener_that_ends_has_closed(void **state)
{
	struct qp *h;

	(void)state;
	lab_open();
	h = opened(1);
	assert_true(shared_leave(lab.qp));
	gone(0, 1);
	assert_int_equal(fake.closed, 1);
	gone(1, 0);
	assert_int_equal(fix_event(lab.f[1], &h->ex.qp_base), IBV_EVENT_QP_FATAL);
	opened_destroy(h);
	lab_close();
}

static void another_context_takes_the_qp_over(void **state)
{
	struct context second;
	struct qp *h;

	(void)state;
	lab_open();
	second = lab.f[0]->ctx;
	h = opened(1);
	assert_true(shared_leave(lab.qp));
	list_del(&lab.f[0]->ctx.node);
	list_add_tail(&lab.f[0]->core.contexts, &second.node);
	shared_forget_context(&lab.f[0]->ctx);
	assert_ptr_equal(lab.qp->ctx, &second);
	list_del(&second.node);
	shared_forget_context(&second); /* the process has no other context */
	assert_int_equal(fake.closed, 1);
	settle();
	assert_int_equal(fix_event(lab.f[1], &h->ex.qp_base), IBV_EVENT_QP_FATAL);
	opened_destroy(h);
	list_add_tail(&lab.f[0]->core.contexts, &lab.f[0]->ctx.node);
	lab_close();
}

static void a_process_that_is_stopped_is_not_waited_for_for_ever(void **state)
{
	struct qp *h, *none;

	(void)state;
	lab_open();
	h = opened(1);
	lab.stopped = true;
	assert_int_equal(to(h, IBV_QPS_INIT), -ETIMEDOUT);
	assert_int_equal(try_open(1, lab.qp->qpn, &none), -ETIMEDOUT);
	lab.stopped = false;
	settle(); /* the handle that was opened after the timeout is closed */
	assert_int_equal(lab.f[0]->core.xrc.share->nopeners[FIX_SLOT + 1], 1);
	/* The modify was carried out all the same. */
	assert_int_equal(state_by(h), IBV_QPS_INIT);
	opened_destroy(h);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

/* Two connections may join two processes for a moment, so a message to open can come
 * after the end. */
static void a_handle_that_opens_after_its_end_is_closed(void **state)
{
	struct share_msg m = { .what = SHARE_ASK, .op = SHARE_OPEN, .id = 99, .seq = 1 };
	struct core *core;

	(void)state;
	lab_open();
	core = &lab.f[0]->core;
	m.qpn = lab.qp->qpn;
	assert_true(xrcd_name(lab.xrcd[1], &m.name));
	turn_take(&core->turn);
	assert_true(share_heard(core, FIX_SLOT + 1, &m, sizeof(m)));
	assert_int_equal(core->xrc.share->nopeners[FIX_SLOT + 1], 1);
	turn_give(&core->turn);
	deliver();
	assert_int_equal(core->xrc.share->nopeners[FIX_SLOT + 1], 0);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

static void whoever_waits_is_not_left_where_all_is_lost(void **state)
{
	struct qp *h;

	(void)state;
	lab_open();
	h = opened(1);
	lab.stopped = true;
	lab.f[1]->core.dead = true;
	assert_int_equal(to(h, IBV_QPS_INIT), -EIO);
	assert_true(lab.now < 1000 * MS);
	share_break(&lab.f[1]->core);
	assert_int_not_equal(lab.f[1]->core.xrc.share->answered.changes, 0);
	lab.f[1]->core.dead = lab.stopped = false;
	opened_destroy(h);
	assert_int_equal(qp_destroy(lab.qp), 0);
	lab_close();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_handle_is_the_qp),
		cmocka_unit_test(a_handle_posts_nothing),
		cmocka_unit_test(the_last_handle_ends_the_qp),
		cmocka_unit_test(the_qp_keeps_its_domain),
		cmocka_unit_test(what_cannot_be_opened),
		cmocka_unit_test(the_end_of_the_qp_is_told),
		cmocka_unit_test(the_end_of_its_process_is_seen),
		cmocka_unit_test(an_opener_that_ends_has_closed),
		cmocka_unit_test(another_context_takes_the_qp_over),
		cmocka_unit_test(a_process_that_is_stopped_is_not_waited_for_for_ever),
		cmocka_unit_test(a_handle_that_opens_after_its_end_is_closed),
		cmocka_unit_test(whoever_waits_is_not_left_where_all_is_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
