/* SPDX-License-Identifier: BSD-2-Clause */
#include "sys/log_testing.h"
#include "verbs/qp_fixture.h"

static int modify(struct qp *qp, struct ibv_qp_attr a, int mask)
{
	return qp_modify(qp, &a, mask, 0);
}

static struct ibv_qp_attr query(struct qp *qp)
{
	struct ibv_qp_attr a;
	struct ibv_qp_init_attr init;

	assert_int_equal(qp_query(qp, &a, &init), 0);
	assert_int_equal(a.qp_state, qp->state);
	assert_int_equal(a.cur_qp_state, qp->state);
	assert_memory_equal(&a.cap, &init.cap, sizeof(a.cap));
	return a;
}

static void a_query_tells_what_was_set(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;

	(void)state;
	a = query(qp);
	assert_int_equal(a.qp_state, IBV_QPS_RESET);
	assert_int_equal(a.cap.max_send_wr, 8);
	assert_int_equal(a.port_num, 0);
	fix_bring(qp, IBV_QPS_INIT);
	assert_int_equal(qp->ex.qp_base.state, IBV_QPS_INIT);
	a = query(qp);
	assert_int_equal(a.port_num, 1);
	assert_int_equal(a.dest_qp_num, 0);
	fix_bring(qp, IBV_QPS_RTS);
	assert_int_equal(fake.from, IBV_QPS_RTR);
	assert_int_equal(fake.to, IBV_QPS_RTS);
	a = query(qp);
	assert_int_equal(a.dest_qp_num, 0x1234);
	assert_int_equal(a.rq_psn, 77);
	assert_int_equal(a.sq_psn, 88);
	assert_int_equal(a.max_rd_atomic, 3);
	assert_int_equal(a.max_dest_rd_atomic, 4);
	assert_int_equal(a.min_rnr_timer, 12);
	assert_int_equal(a.timeout, 14);
	assert_int_equal(a.retry_cnt, 6);
	assert_int_equal(a.rnr_retry, 7);
	assert_int_equal(a.path_mtu, IBV_MTU_1024);
	assert_int_equal(a.qkey, 0);
	assert_int_equal(a.ah_attr.grh.sgid_index, 1);
	assert_int_equal(ip_addr(&qp->path.addr)->to.ip[15], 2);
	assert_int_equal(ip_addr(&qp->path.addr)->from.ip[15], 1);
	assert_int_equal(qp_query(qp, &a, &init), 0);
	assert_int_equal(init.qp_type, IBV_QPT_RC);
	assert_ptr_equal(init.send_cq, &f->scq->ex);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void psns_are_24_bits(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_UC);
	struct ibv_qp_attr a = fix_attr(IBV_QPS_RTR);

	(void)state;
	fix_bring(qp, IBV_QPS_INIT);
	a.rq_psn = 0xff000002;
	assert_int_equal(modify(qp, a, TO_RTR_UC), 0);
	assert_int_equal(query(qp).rq_psn, 2);
	a.qp_state = IBV_QPS_RTS;
	a.sq_psn = 0xff000001;
	assert_int_equal(modify(qp, a, TO_RTS_UD), 0);
	assert_int_equal(query(qp).sq_psn, 1);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

/* Each row changes one attribute of a valid step to an invalid value. */
static void every_value_is_checked_and_nothing_changes(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct ibv_qp_attr good = fix_attr(IBV_QPS_INIT), a, before;
	int entered;

	(void)state;
	a = good, a.port_num = 0;
	assert_int_equal(modify(qp, a, TO_INIT_RC), -EINVAL);
	a = good, a.port_num = 2;
	assert_int_equal(modify(qp, a, TO_INIT_RC), -EINVAL);
	a = good, a.pkey_index = 1;
	assert_int_equal(modify(qp, a, TO_INIT_RC), -EINVAL);
	a = good, a.qp_access_flags = 1 << 15;
	assert_int_equal(modify(qp, a, TO_INIT_RC), -EINVAL);
	assert_int_equal(modify(qp, good, TO_INIT_RC & ~IBV_QP_PORT), -EINVAL);
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(query(qp).port_num, 0);
	fix_bring(qp, IBV_QPS_INIT);

	before = query(qp);
	entered = fake.entered;
	good.qp_state = IBV_QPS_RTR;
	a = good, a.path_mtu = IBV_MTU_4096 + 1;
	assert_int_equal(modify(qp, a, TO_RTR_RC), -EINVAL);
	a = good, a.path_mtu = 0;
	assert_int_equal(modify(qp, a, TO_RTR_RC), -EINVAL);
	a = good, a.dest_qp_num = 1 << 24;
	assert_int_equal(modify(qp, a, TO_RTR_RC), -EINVAL);
	a = good, a.max_dest_rd_atomic = (uint8_t)(caps.max_rd_atomic + 1);
	assert_int_equal(modify(qp, a, TO_RTR_RC), -EINVAL);
	a = good, a.min_rnr_timer = 32;
	assert_int_equal(modify(qp, a, TO_RTR_RC), -EINVAL);
	a = good, a.ah_attr.is_global = 0;
	assert_int_equal(modify(qp, a, TO_RTR_RC), -EINVAL);
	a = good, a.ah_attr.grh.sgid_index = GID_TABLE - 1;
	assert_int_equal(modify(qp, a, TO_RTR_RC), -EINVAL);
	assert_int_equal(modify(qp, good, TO_RTR_RC | IBV_QP_ALT_PATH), -EOPNOTSUPP);
	assert_int_equal(entered, fake.entered);
	a = query(qp);
	assert_memory_equal(&a, &before, sizeof(a));
	fix_bring(qp, IBV_QPS_RTR);

	before = query(qp);
	good.qp_state = IBV_QPS_RTS;
	a = good, a.timeout = 32;
	assert_int_equal(modify(qp, a, TO_RTS_RC), -EINVAL);
	a = good, a.retry_cnt = 8;
	assert_int_equal(modify(qp, a, TO_RTS_RC), -EINVAL);
	a = good, a.rnr_retry = 8;
	assert_int_equal(modify(qp, a, TO_RTS_RC), -EINVAL);
	a = good, a.max_rd_atomic = 255;
	assert_int_equal(modify(qp, a, TO_RTS_RC), -EINVAL);
	a = good, a.cur_qp_state = IBV_QPS_RTS;
	assert_int_equal(modify(qp, a, TO_RTS_RC | IBV_QP_CUR_STATE), -EINVAL);
	a = good, a.path_mig_state = IBV_MIG_ARMED;
	assert_int_equal(modify(qp, a, TO_RTS_RC | IBV_QP_PATH_MIG_STATE), -EOPNOTSUPP);
	a = query(qp);
	assert_memory_equal(&a, &before, sizeof(a));
	a = good, a.cur_qp_state = IBV_QPS_RTR;
	assert_int_equal(modify(qp, a, TO_RTS_RC | IBV_QP_CUR_STATE), 0);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

/* Each refusal is one line, which names the states and what is wrong. */
static void a_refusal_names_what_is_wrong(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct ibv_qp_attr init = fix_attr(IBV_QPS_INIT), rtr = fix_attr(IBV_QPS_RTR),
			   no_grh = rtr, long_qpn = rtr;
	char text[2048];

	(void)state;
	no_grh.ah_attr.is_global = 0;
	long_qpn.dest_qp_num = 1 << 24;
#define SAYS(attr, mask, want)                                                           \
	do {                                                                             \
		LOGGED(text, "info", assert_int_equal(modify(qp, attr, mask), -EINVAL)); \
		assert_non_null(strstr(text, want));                                     \
		assert_ptr_equal(strchr(text, '\n'), text + strlen(text) - 1);           \
	} while (0)
	SAYS(init, TO_INIT_RC & ~(IBV_QP_PORT | IBV_QP_PKEY_INDEX),
	     "refused: RESET to INIT: this change needs IBV_QP_PKEY_INDEX, IBV_QP_PORT\n");
	SAYS(init, (TO_INIT_RC & ~IBV_QP_PORT) | IBV_QP_QKEY | 1 << 30,
	     "refused: RESET to INIT: this change needs IBV_QP_PORT; it does not take "
	     "IBV_QP_QKEY, 0x40000000, which is unknown\n");
	SAYS(rtr, TO_RTR_RC,
	     "refused: RESET to RTR: from RESET a QP of type RC goes to RESET, INIT\n");
	fix_bring(qp, IBV_QPS_INIT);
	SAYS(long_qpn, TO_RTR_RC,
	     "refused: INIT to RTR: dest_qp_num 16777216 (0x1000000) is not within 0 to "
	     "16777215\n");
	SAYS(no_grh, TO_RTR_RC, "RoCE needs a GRH");
#undef SAYS
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void states_out_of_order_are_refused(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct ibv_qp_attr a = fix_attr(IBV_QPS_RTS);

	(void)state;
	assert_int_equal(modify(qp, a, TO_RTS_RC), -EINVAL);
	a.qp_state = (enum ibv_qp_state) - 1;
	assert_int_equal(modify(qp, a, IBV_QP_STATE), -EINVAL);
	assert_int_equal(modify(qp, a, -1), -EINVAL);
	a.qp_state = IBV_QPS_ERR;
	assert_int_equal(modify(qp, a, IBV_QP_STATE), -EINVAL);
	f->ctx.dead = true;
	assert_int_equal(fix_step(qp, IBV_QPS_INIT), -EIO);
	f->ctx.dead = false;
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void a_step_the_transport_refuses_is_undone(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct ibv_qp_attr before, a;

	(void)state;
	fix_bring(qp, IBV_QPS_INIT);
	before = query(qp);
	fake.enter_rc = -EADDRNOTAVAIL;
	assert_int_equal(fix_step(qp, IBV_QPS_RTR), -EADDRNOTAVAIL);
	fake.enter_rc = 0;
	a = query(qp);
	assert_memory_equal(&a, &before, sizeof(a));
	assert_int_equal(ip_addr(&qp->path.addr)->to.ip[15], 0);
	assert_int_equal(qp->ex.qp_base.state, IBV_QPS_INIT);

	fix_bring(qp, IBV_QPS_RTS);
	a = fix_attr(IBV_QPS_SQD), a.en_sqd_async_notify = 1;
	assert_int_equal(modify(qp, a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_true(query(qp).sq_draining);
	fake.enter_rc = -ENOMEM;
	assert_int_equal(fix_step(qp, IBV_QPS_RTS), -ENOMEM);
	fake.enter_rc = 0;
	assert_int_equal(qp->state, IBV_QPS_SQD);
	assert_true(query(qp).sq_draining);
	lock_take(&qp->lock);
	qp_drained(qp);
	lock_give(&qp->lock);
	assert_int_equal(fix_event(f, &qp->ex), IBV_EVENT_SQ_DRAINED);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void reset_forgets_everything(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct rwqe w;
	struct ibv_qp_attr a;

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	assert_int_equal(fix_send(qp, 1, IBV_SEND_SIGNALED), 0);
	assert_int_equal(fix_send(qp, 2, IBV_SEND_SIGNALED), 0);
	assert_int_equal(fix_recv(qp, 3), 0);
	lock_take(&qp->lock);
	sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, 0);
	lock_give(&qp->lock);
	assert_false(cq_empty(f->scq));
	assert_int_equal(fix_step(qp, IBV_QPS_RESET), 0);
	assert_int_equal(fake.to, IBV_QPS_RESET);
	assert_true(cq_empty(f->scq));
	assert_true(cq_empty(f->rcq));
	assert_int_equal(qp->sq.head, qp->sq.tail);
	a = query(qp);
	assert_int_equal(a.port_num, 0);
	assert_int_equal(a.cap.max_send_wr, 8);
	assert_int_equal(ip_addr(&qp->path.addr)->to.ip[15], 0);
	fix_bring(qp, IBV_QPS_INIT);
	assert_int_equal(fix_step(qp, IBV_QPS_ERR), 0);
	/* A value from before RESET is gone. */
	assert_int_equal(query(qp).dest_qp_num, 0);
	assert_int_equal(fix_step(qp, IBV_QPS_RESET), 0);
	fix_bring(qp, IBV_QPS_RTS);
	lock_take(&qp->lock);
	assert_false(qp_pop_recv(qp, &w));
	lock_give(&qp->lock);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void err_flushes(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_UD);

	(void)state;
	fix_bring(qp, IBV_QPS_INIT);
	assert_int_equal(fix_recv(qp, 3), 0);
	assert_int_equal(fix_step(qp, IBV_QPS_ERR), 0);
	assert_int_equal(fake.to, IBV_QPS_ERR);
	fix_wc(f->rcq, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(fix_recv(qp, 4), 0);
	fix_wc(f->rcq, 4, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(fix_event(f, &qp->ex), -1);
	assert_int_equal(query(qp).qkey, 0x111);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

static void draining_is_told_when_asked_for(void **state)
{
	struct fix *f = fix_open(8);
	struct qp *qp = fix_qp(f, IBV_QPT_RC);
	struct ibv_qp_attr a = fix_attr(IBV_QPS_SQD);

	(void)state;
	fix_bring(qp, IBV_QPS_RTS);
	a.en_sqd_async_notify = 1;
	assert_int_equal(modify(qp, a, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
	assert_true(query(qp).sq_draining);
	assert_true(query(qp).en_sqd_async_notify);
	assert_int_equal(fix_send(qp, 1, 0), 0); /* is queued until RTS */
	assert_int_equal(fix_event(f, &qp->ex), -1);
	a.timeout = 20;
	assert_int_equal(modify(qp, a, IBV_QP_TIMEOUT), 0);
	assert_true(query(qp).sq_draining); /* the QP is still draining */
	lock_take(&qp->lock);
	qp_drained(qp);
	qp_drained(qp);
	lock_give(&qp->lock);
	assert_int_equal(fix_event(f, &qp->ex), IBV_EVENT_SQ_DRAINED);
	assert_int_equal(fix_event(f, &qp->ex), -1);
	assert_false(query(qp).sq_draining);
	assert_int_equal(query(qp).timeout, 20);
	assert_int_equal(fix_step(qp, IBV_QPS_RTS), 0);
	assert_false(query(qp).en_sqd_async_notify);
	/* The event is not asked for this time, and the QP leaves SQD before it is
	 * drained. */
	assert_int_equal(fix_step(qp, IBV_QPS_SQD), 0);
	assert_false(query(qp).en_sqd_async_notify);
	assert_true(query(qp).sq_draining);
	assert_int_equal(fix_step(qp, IBV_QPS_RTS), 0);
	assert_false(query(qp).sq_draining);
	fake.drain_at_once = true;
	assert_int_equal(fix_step(qp, IBV_QPS_SQD), 0);
	assert_int_equal(fix_event(f, &qp->ex), -1);
	assert_false(query(qp).sq_draining);
	assert_int_equal(qp_destroy(qp), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_query_tells_what_was_set),
		cmocka_unit_test(psns_are_24_bits),
		cmocka_unit_test(every_value_is_checked_and_nothing_changes),
		cmocka_unit_test(a_refusal_names_what_is_wrong),
		cmocka_unit_test(states_out_of_order_are_refused),
		cmocka_unit_test(a_step_the_transport_refuses_is_undone),
		cmocka_unit_test(reset_forgets_everything),
		cmocka_unit_test(err_flushes),
		cmocka_unit_test(draining_is_told_when_asked_for),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
