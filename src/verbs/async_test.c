/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>

#include "sys/waiter_testing.h"
#include "verbs/cq.h"
#include "verbs/qp.h"
#include "verbs/rq.h"
#include "verbs/test_ctx.h"

static struct test_ctx t;

static void begin(void)
{
	test_open(&t);
	assert_int_equal(fcntl(t.ibv.async_fd, F_SETFL, O_NONBLOCK), 0);
}

static struct ibv_async_event get(void)
{
	struct ibv_async_event event;

	memset(&event, 0xee, sizeof(event));
	assert_int_equal(async_get(&t.ctx, &event), 0);
	return event;
}

static void events_come_in_order(void **state)
{
	struct qp *qp = calloc(1, sizeof(*qp));
	struct srq *srq = calloc(1, sizeof(*srq));
	struct pollfd p;
	struct ibv_async_event e;

	(void)state;
	begin();
	qp->ctx = srq->ctx = &t.ctx;
	p = (struct pollfd){ t.ibv.async_fd, POLLIN, 0 };
	assert_int_equal(async_get(&t.ctx, &e), -EAGAIN);
	async_raise(&t.ctx, IBV_EVENT_SRQ_LIMIT_REACHED, &srq->ibv);
	async_raise(&t.ctx, IBV_EVENT_QP_LAST_WQE_REACHED, &qp->ex.qp_base);
	async_raise(&t.ctx, IBV_EVENT_GID_CHANGE, NULL);
	assert_int_equal(poll(&p, 1, 0), 1);
	e = get();
	assert_int_equal(e.event_type, IBV_EVENT_SRQ_LIMIT_REACHED);
	assert_ptr_equal(e.element.srq, &srq->ibv);
	async_ack(&e);
	assert_int_equal(srq->ibv.events_completed, 1);
	e = get();
	assert_int_equal(e.event_type, IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_ptr_equal(e.element.qp, &qp->ex.qp_base);
	async_ack(&e);
	assert_int_equal(qp->ex.qp_base.events_completed, 1);
	e = get();
	assert_int_equal(e.event_type, IBV_EVENT_GID_CHANGE);
	assert_int_equal(e.element.port_num, 1);
	async_ack(&e);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(async_get(&t.ctx, &e), -EAGAIN);
	assert_true(list_empty(&t.ctx.async.got));
	test_close(&t);
	free(qp);
	free(srq);
}

static void what_was_not_fetched_goes_with_its_object(void **state)
{
	struct qp *qp = calloc(2, sizeof(*qp));
	struct ibv_async_event e;
	struct pollfd p;

	(void)state;
	begin();
	p = (struct pollfd){ t.ibv.async_fd, POLLIN, 0 };
	qp[0].ctx = qp[1].ctx = &t.ctx;
	async_raise(&t.ctx, IBV_EVENT_COMM_EST, &qp[0].ex.qp_base);
	async_raise(&t.ctx, IBV_EVENT_COMM_EST, &qp[1].ex.qp_base);
	async_raise(&t.ctx, IBV_EVENT_QP_FATAL, &qp[0].ex.qp_base);
	async_forget(&t.ctx, &qp[0].ex.qp_base);
	e = get();
	assert_ptr_equal(e.element.qp, &qp[1].ex.qp_base);
	async_ack(&e);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(async_get(&t.ctx, &e), -EAGAIN);
	test_close(&t);
	free(qp);
}

static void *forgetter(void *arg)
{
	async_forget(&t.ctx, arg);
	return NULL;
}

static void destroying_waits_for_every_ack(void **state)
{
	struct qp *qp = calloc(1, sizeof(*qp));
	struct ibv_async_event a, b;
	struct waiter thread;

	(void)state;
	begin();
	qp->ctx = &t.ctx;
	async_raise(&t.ctx, IBV_EVENT_COMM_EST, &qp->ex.qp_base);
	async_raise(&t.ctx, IBV_EVENT_QP_FATAL, &qp->ex.qp_base);
	a = get();
	b = get();
	waiter_start(&thread, forgetter, &qp->ex.qp_base);
	assert_true(waiter_sleeps(&thread));
	async_ack(&b);
	assert_true(waiter_sleeps(&thread));
	async_ack(&b); /* twice: counts for nothing */
	assert_true(waiter_sleeps(&thread));
	async_ack(&a);
	waiter_join(&thread);
	test_close(&t);
	free(qp);
}

static unsigned entries(const struct list *list)
{
	unsigned n = 0;

	list_for(node, list) n++;
	return n;
}

static void a_context_may_end_with_events_left(void **state)
{
	struct qp *qp = calloc(1, sizeof(*qp));
	int fd;

	(void)state;
	begin();
	qp->ctx = &t.ctx;
	async_raise(&t.ctx, IBV_EVENT_PORT_ERR, NULL);
	async_raise(&t.ctx, IBV_EVENT_COMM_EST, &qp->ex.qp_base);
	(void)get();
	(void)get();
	async_raise(&t.ctx, IBV_EVENT_COMM_EST, &qp->ex.qp_base);
	/* Events of a port are not kept: a port is never destroyed. */
	assert_int_equal(entries(&t.ctx.async.got), 1);
	assert_int_equal(entries(&t.ctx.async.waiting), 1);
	fd = t.ctx.async.fd;
	test_close(&t); /* frees the three events; LeakSanitizer would tell otherwise */
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	free(qp);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(events_come_in_order),
		cmocka_unit_test(what_was_not_fetched_goes_with_its_object),
		cmocka_unit_test(destroying_waits_for_every_ack),
		cmocka_unit_test(a_context_may_end_with_events_left),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
