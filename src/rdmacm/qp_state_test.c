/* SPDX-License-Identifier: BSD-2-Clause */
/* The attributes that a QP gets in each state. */
#include "rdmacm/qp_state.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "rdmacm/connect.h"
#include "rdmacm/fix.h"
#include "rdmacm/qp.h"

static struct cma_id *connected(void)
{
	static struct cm_conn conn;
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_TCP, "127.0.0.1", 7174);

	fix_qp(id);
	assert_string_equal(fix_said(), "INIT");
	id->conn = &conn;
	id->resources = 4;
	id->depth = 5;
	id->psn = 100;
	id->peer_psn = 200;
	id->peer_qpn = 300;
	id->retry_count = 6;
	id->rnr_retry = 3;
	return id;
}

static void destroy(struct cma_id *id)
{
	cma_destroy_qp(id);
	id->conn = NULL;
	assert_int_equal(cma_destroy(id), 0);
}

static void a_connection(void **state)
{
	struct cma_id *id = connected();
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };
	int mask;

	(void)state;
	assert_int_equal(cma_qp_attr(id, &a, &mask), 0);
	/* Each end chooses the PSN with which the other begins. */
	assert_int_equal(a.rq_psn, 100);
	assert_int_equal(a.dest_qp_num, 300);
	assert_int_equal(a.max_dest_rd_atomic, 4);
	assert_memory_equal(a.ah_attr.grh.dgid.raw, id->to.route.dst, 16);
	assert_int_equal(cma_qp_connect(id), 0);
	assert_string_equal(fix_said(), "INIT RTR RTS");
	assert_int_equal(fix.attr.sq_psn, 200);
	assert_int_equal(fix.attr.max_rd_atomic, 5);
	assert_int_equal(fix.attr.retry_cnt, 6);
	assert_int_equal(fix.attr.rnr_retry, 3);
	cma_qp_error(id);
	assert_string_equal(fix_said(), "ERR");
	destroy(id);
}

/* An initiator has what a requester needs, a target what a responder needs. */
static void the_halves_of_xrc(void **state)
{
	enum {
		RTR = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
		      IBV_QP_RQ_PSN,
		RTS = IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT
	};
	struct cma_id *id = connected();
	struct ibv_qp_attr rtr = { .qp_state = IBV_QPS_RTR },
			   rts = { .qp_state = IBV_QPS_RTS };
	int mask;

	(void)state;
	id->id.qp_type = IBV_QPT_XRC_SEND;
	assert_int_equal(cma_qp_attr(id, &rtr, &mask), 0);
	assert_int_equal(mask, RTR);
	assert_int_equal(cma_qp_attr(id, &rts, &mask), 0);
	assert_int_equal(mask, RTS | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				       IBV_QP_MAX_QP_RD_ATOMIC);
	id->id.qp_type = IBV_QPT_XRC_RECV;
	assert_int_equal(cma_qp_attr(id, &rtr, &mask), 0);
	assert_int_equal(mask, RTR | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(cma_qp_attr(id, &rts, &mask), 0);
	assert_int_equal(mask, RTS);
	id->id.qp_type = IBV_QPT_RC;
	destroy(id);
}

static void what_the_peer_may_do(void **state)
{
	struct cma_id *id = connected();
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT };
	int mask;

	(void)state;
	assert_int_equal(cma_qp_attr(id, &a, &mask), 0);
	assert_int_equal(a.qp_access_flags, IBV_ACCESS_REMOTE_WRITE |
						    IBV_ACCESS_REMOTE_READ |
						    IBV_ACCESS_REMOTE_ATOMIC);
	id->resources = 0;
	assert_int_equal(cma_qp_attr(id, &a, &mask), 0);
	assert_int_equal(a.qp_access_flags, IBV_ACCESS_REMOTE_WRITE);
	destroy(id);
}

static void who_has_no_peer_yet(void **state)
{
	struct cma_id *id = connected();
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };
	int mask;

	(void)state;
	id->conn = NULL;
	assert_int_equal(cma_qp_attr(id, &a, &mask), -EINVAL);
	a.qp_state = IBV_QPS_SQD;
	assert_int_equal(cma_qp_attr(id, &a, &mask), -EINVAL);
	destroy(id);
}

static void datagrams_go_at_once(void **state)
{
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_UDP, "127.0.0.1", 7174);

	(void)state;
	fix_qp(id);
	assert_string_equal(fix_said(), "INIT RTR RTS");
	cma_qp_error(id); /* a datagram QP is left alone */
	assert_string_equal(fix_said(), "");
	destroy(id);
}

/* The connection takes an iWARP QP on from INIT. */
static void iwarp(void **state)
{
	struct cma_id *id = connected();
	struct cma_dev dev = *id->dev;
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };
	int mask;

	(void)state;
	dev.iwarp = true;
	id->dev = &dev;
	assert_int_equal(cma_qp_prepare(id), 0);
	assert_string_equal(fix_said(), "INIT");
	assert_int_equal(fix.mask, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS | IBV_QP_PORT);
	assert_int_equal(cma_qp_attr(id, &a, &mask), 0);
	assert_int_equal(mask, 0);
	destroy(id);
}

static void it_may_fail_on_its_way(void **state)
{
	struct cma_id *id = connected();

	(void)state;
	fix.fail = 2;
	assert_int_equal(cma_qp_connect(id), -ENOMEM);
	assert_string_equal(fix_said(), "INIT");
	destroy(id);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_connection, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(the_halves_of_xrc, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(what_the_peer_may_do, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(who_has_no_peer_yet, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(datagrams_go_at_once, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(iwarp, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(it_may_fail_on_its_way, fix_begin,
						fix_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
