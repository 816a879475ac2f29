/* SPDX-License-Identifier: BSD-2-Clause */
/* A program listens, connects, answers and disconnects; a request becomes an id. */
#include "rdmacm/connect.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "rdmacm/cma_event.h"
#include "rdmacm/cma_qp.h"
#include "rdmacm/fix.h"
#include "sys/sockaddr.h"

/* --- what programs ask for ----------------------------------------------- */

static struct cma_channel *ch;

static int begin(void **state)
{
	ch = cma_channel_new();
	return fix_begin(state);
}

static int end(void **state)
{
	cma_channel_free(ch);
	return fix_end(state);
}

static struct cma_id *listener(enum rdma_port_space ps)
{
	struct cma_id *id = fix_id(ch, ps);

	assert_int_equal(cma_listen(id, 5), 0);
	assert_string_equal(fix_said(),
			    ps == RDMA_PS_TCP ? "bind listen" : "bind listen_datagram");
	assert_int_equal(id->state, CMA_LISTEN);
	assert_int_equal(cma_listen(id, 5), -EINVAL);
	return id;
}

static struct cma_id *request(struct cma_id *l)
{
	struct cma_event *e;
	struct cma_id *id;

	fix_ask(l, "192.0.2.1", cma_is_datagram(l));
	e = fix_event(ch, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	id = cma_of(e->ev.id);
	cma_done(e);
	fix_said();
	return id;
}

static void what_is_asked(void **state)
{
	struct cma_id *id = fix_resolved(ch, RDMA_PS_TCP, "127.0.0.1", 7174);
	struct rdma_conn_param c = { .private_data = "hi",
				     .private_data_len = 3,
				     .responder_resources = 2,
				     .initiator_depth = RDMA_MAX_INIT_DEPTH,
				     .retry_count = 15,
				     .rnr_retry_count = 3,
				     .qp_num = 17 };

	(void)state;
	c.responder_resources = 17; /* more than the device has */
	assert_int_equal(cma_connect(id, &c), -EINVAL);
	c.responder_resources = 2;
	assert_int_equal(cma_connect(id, &c), 0);
	assert_string_equal(fix_said(), "connect");
	assert_int_equal(fix.self.qpn, 17);
	assert_int_equal(fix.self.resources, 2);
	assert_int_equal(fix.self.depth, 255);
	assert_int_equal(fix.self.retry_count, 7);
	assert_int_equal(fix.self.rnr_retry, 3);
	assert_int_equal(fix.self.psn, id->psn);
	assert_string_equal((char *)fix.private, "hi");
	assert_int_equal(id->state, CMA_CONNECT);
	assert_int_equal(cma_connect(id, &c), -EINVAL);
	assert_int_equal(cma_destroy(id), 0);
	assert_string_equal(fix_said(), "close");
}

static void what_a_program_does_not_say(void **state)
{
	struct cma_id *id = fix_resolved(ch, RDMA_PS_TCP, "127.0.0.1", 7174);

	(void)state;
	fix_qp(id);
	assert_int_equal(cma_connect(id, NULL), 0);
	assert_int_equal(fix.self.qpn, id->id.qp->qp_num);
	assert_int_equal(fix.self.resources, 16);
	assert_int_equal(fix.self.retry_count, 7);
	cma_destroy_qp(id);
	assert_int_equal(cma_destroy(id), 0);
}

/* An id that has no request, and so no device yet. */
static void nothing_to_accept(void **state)
{
	struct cma_id *id = fix_id(ch, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cma_accept(id, NULL), -EINVAL);
	assert_int_equal(cma_destroy(id), 0);
}

static void a_request_is_accepted(void **state)
{
	struct cma_id *l = listener(RDMA_PS_TCP), *id = request(l);
	struct ibv_ece ece = { .vendor_id = 7, .options = 5 };

	(void)state;
	assert_int_equal(cma_set_ece(id, &ece), 0);
	fix_qp(id);
	fix_said();
	assert_int_equal(cma_accept(id, NULL), 0);
	assert_string_equal(fix_said(), "INIT RTR RTS accept");
	assert_int_equal(fix.self.ece_vendor, 8); /* the vendor of the request */
	assert_int_equal(fix.self.ece_options, 5);
	/* Less than the 200 that the peer will have outstanding. */
	assert_int_equal(fix.self.resources, 16);
	assert_int_equal(fix.self.depth, 4);
	assert_int_equal(cma_accept(id, NULL), -EINVAL);
	assert_int_equal(cma_notify(id, IBV_EVENT_COMM_EST), 0);
	assert_string_equal(fix_said(), "established");
	cma_destroy_qp(id);
	assert_int_equal(cma_destroy(id), 0);
	assert_int_equal(cma_destroy(l), 0);
}

/* The peer has gone before the request is accepted. */
static void nobody_is_there_to_be_accepted(void **state)
{
	struct cma_id *l = listener(RDMA_PS_TCP), *id = request(l);

	(void)state;
	fix_qp(id);
	fix_said();
	fix.rc = -EINVAL;
	assert_int_equal(cma_accept(id, NULL), -EINVAL);
	assert_string_equal(fix_said(), "INIT RTR RTS accept ERR");
	fix.rc = 0;
	cma_destroy_qp(id);
	assert_int_equal(cma_destroy(id), 0);
	assert_int_equal(cma_destroy(l), 0);
}

/* No event follows. */
static void a_datagram_service_answers(void **state)
{
	struct cma_id *l = listener(RDMA_PS_UDP), *id = request(l);
	struct rdma_conn_param c = { .qp_num = 44,
				     .private_data = "x",
				     .private_data_len = 1 };

	(void)state;
	assert_int_equal(cma_accept(id, &c), CMA_NO_EVENT);
	assert_int_equal(fix.self.qpn, 44);
	assert_int_equal(fix.self.qkey, RDMA_UDP_QKEY);
	assert_int_equal(cma_disconnect(id), -EINVAL);
	assert_int_equal(cma_destroy(id), 0);
	assert_int_equal(cma_destroy(l), 0);
}

static void refused(void **state)
{
	struct cma_id *l = listener(RDMA_PS_TCP), *id = request(l);

	(void)state;
	assert_int_equal(cma_reject(id, CM_REJ_CONSUMER, "no", 3), 0);
	assert_string_equal(fix_said(), "reject:28:3");
	assert_int_equal(cma_reject(id, CM_REJ_CONSUMER, NULL, 3), 0);
	assert_string_equal(fix_said(), "reject:28:0");
	assert_int_equal(cma_reject(l, CM_REJ_CONSUMER, NULL, 0), -EINVAL);
	assert_int_equal(cma_destroy(id), 0);
	assert_int_equal(cma_destroy(l), 0);
}

static void parting(void **state)
{
	struct cma_id *l = listener(RDMA_PS_TCP), *id = request(l);

	(void)state;
	assert_int_equal(cma_disconnect(l), -EINVAL);
	fix_qp(id);
	fix_said();
	assert_int_equal(cma_disconnect(id), 0);
	assert_string_equal(fix_said(), "ERR disconnect");
	fix.rc = -EINVAL; /* the connection is over already */
	assert_int_equal(cma_disconnect(id), CMA_NO_EVENT);
	fix.rc = -EIO;
	assert_int_equal(cma_disconnect(id), -EIO);
	cma_destroy_qp(id);
	assert_int_equal(cma_destroy(id), 0);
	assert_int_equal(cma_destroy(l), 0);
}

/* The program takes its own QP to RTS. */
static void established_by_hand(void **state)
{
	struct cma_id *id = fix_resolved(ch, RDMA_PS_TCP, "127.0.0.1", 7174);

	(void)state;
	assert_int_equal(cma_establish(id), -EINVAL);
	assert_int_equal(cma_notify(id, IBV_EVENT_COMM_EST), -EINVAL);
	assert_int_equal(cma_connect(id, NULL), 0);
	assert_int_equal(cma_establish(id), 0);
	assert_string_equal(fix_said(), "connect established");
	assert_int_equal(cma_destroy(id), 0);
}

/* --- requests ------------------------------------------------------------ */

static struct cma_id *listening(struct cma_channel *own)
{
	struct cma_id *l = fix_id(own, RDMA_PS_TCP);

	l->tos = 32;
	assert_int_equal(cma_listen(l, 5), 0);
	fix_said();
	return l;
}

static void it_inherits(void **state)
{
	struct cma_channel *own = cma_channel_new();
	struct cma_id *l = listening(own), *id;
	struct cm_conn *conn = fix_ask(l, "192.0.2.1", false);
	struct cma_event *e = cma_take(own);

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
	cma_channel_free(own);
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
	struct cma_channel *own = cma_channel_new();
	struct cma_id *l = listening(own);
	struct cma_event *e;

	(void)state;
	fix_ask(l, "192.0.2.66", false);
	e = cma_take(own);
	assert_int_equal(cma_id_for_request(e), -ENODEV);
	assert_non_null(e->conn); /* still owned by the event */
	assert_string_equal(fix_said(), "");
	cma_looked_at(e);
	cma_done(e);
	assert_int_equal(cma_destroy(l), 0);
	cma_channel_free(own);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_asked, begin, end),
		cmocka_unit_test_setup_teardown(what_a_program_does_not_say, begin, end),
		cmocka_unit_test_setup_teardown(nothing_to_accept, begin, end),
		cmocka_unit_test_setup_teardown(a_request_is_accepted, begin, end),
		cmocka_unit_test_setup_teardown(nobody_is_there_to_be_accepted, begin,
						end),
		cmocka_unit_test_setup_teardown(a_datagram_service_answers, begin, end),
		cmocka_unit_test_setup_teardown(refused, begin, end),
		cmocka_unit_test_setup_teardown(parting, begin, end),
		cmocka_unit_test_setup_teardown(established_by_hand, begin, end),
		cmocka_unit_test_setup_teardown(it_inherits, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(it_has_a_channel_as_its_listener_has,
						fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(to_a_device_that_is_gone, fix_begin,
						fix_end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
