/* SPDX-License-Identifier: BSD-2-Clause */
/* A request becomes an id, bound to the device at which it arrived. */
#include "rdmacm/request.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "rdmacm/connect.h"
#include "rdmacm/fix.h"
#include "sys/sockaddr.h"

static struct cma_id *listening(struct cma_channel *ch)
{
	struct cma_id *l = fix_id(ch, RDMA_PS_TCP);

	l->tos = 32;
	assert_int_equal(cma_listen(l, 5), 0);
	fix_said();
	return l;
}

static void it_inherits(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *l = listening(ch), *id;
	struct cm_conn *conn = fix_ask(l, "192.0.2.1", false);
	struct cma_event *e = cma_take(ch);

	(void)state;
	assert_int_equal(cma_id_for_request(e), 0);
	id = cma_of(e->ev.id);
	assert_ptr_not_equal(id, l);
	assert_ptr_equal(id->conn, conn);
	assert_null(conn->owner); /* before the accept */
	assert_null(e->conn);
	assert_string_equal(fix_said(), "taken");
	assert_int_equal(id->state, CMA_REQUEST);
	assert_non_null(id->id.verbs);
	assert_int_equal(id->tos, 32);
	assert_int_equal(id->peer_qpn, 99);
	assert_int_equal(id->resources, 16); /* not the 200 that the peer asked for */
	assert_int_equal(id->depth, 4);
	assert_int_equal(id->to.mtu, IBV_MTU_2048); /* the REQ's, not the port's */
	assert_int_equal(sockaddr_port(&id->id.route.addr.src_addr), 7174);
	assert_int_equal(sockaddr_port(&id->id.route.addr.dst_addr), 5000);
	cma_looked_at(e);
	cma_done(e);
	assert_int_equal(cma_destroy(id), 0);
	assert_int_equal(cma_destroy(l), 0);
	cma_channel_free(ch);
}

static void it_has_a_channel_as_its_listener_has(void **state)
{
	struct cma_id *l = listening(NULL), *id;
	struct cma_event *e;

	(void)state;
	fix_ask(l, "192.0.2.1", false);
	e = cma_take((struct cma_channel *)l->id.channel);
	assert_int_equal(cma_id_for_request(e), 0);
	id = cma_of(e->ev.id);
	assert_true(id->sync);
	assert_ptr_not_equal(id->id.channel, l->id.channel);
	cma_looked_at(e);
	cma_done(e);
	assert_int_equal(cma_destroy(id), 0);
	assert_int_equal(cma_destroy(l), 0);
}

static void to_a_device_that_is_gone(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_id *l = listening(ch);
	struct cma_event *e;

	(void)state;
	fix_ask(l, "192.0.2.66", false);
	e = cma_take(ch);
	assert_int_equal(cma_id_for_request(e), -ENODEV);
	assert_non_null(e->conn); /* still owned by the event */
	assert_string_equal(fix_said(), "");
	cma_looked_at(e);
	cma_done(e);
	assert_int_equal(cma_destroy(l), 0);
	cma_channel_free(ch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(it_inherits, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(it_has_a_channel_as_its_listener_has,
						fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(to_a_device_that_is_gone, fix_begin,
						fix_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
