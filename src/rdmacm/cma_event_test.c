/* SPDX-License-Identifier: BSD-2-Clause */
/* What the CM reports, as the program reads it. */
#include "rdmacm/cma_event.h"

#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "rdmacm/cma_qp.h"
#include "rdmacm/connect.h"
#include "rdmacm/fix.h"
#include "rdmacm/resolve.h"
#include "sys/log_testing.h"

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

static struct cma_id *connecting(bool with_qp)
{
	struct cma_id *id = fix_resolved(ch, RDMA_PS_TCP, "127.0.0.1", 7174);

	if (with_qp)
		fix_qp(id);
	assert_int_equal(cma_connect(id, NULL), 0);
	fix_said();
	return id;
}

static void destroy(struct cma_id *id)
{
	cma_destroy_qp(id);
	assert_int_equal(cma_destroy(id), 0);
}

static void nothing_waits(int status)
{
	assert_int_equal(fcntl(ch->ch.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(cma_get_event(ch, &(struct cma_event *){ NULL }), status);
}

static void one_of_the_program_s(void **state)
{
	const uint64_t arg = 0x0123456789abcdef;
	struct cma_id *id = fix_id(ch, RDMA_PS_TCP);
	struct cma_event *e;

	(void)state;
	assert_int_equal(cma_write_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, arg), -EINVAL);
	assert_int_equal(cma_write_event(id, RDMA_CM_EVENT_USER, -7, arg), 0);
	e = fix_event(ch, RDMA_CM_EVENT_USER, -7);
	assert_ptr_equal(e->ev.id, &id->id);
	assert_memory_equal(&e->ev.param, &arg, sizeof(arg));
	cma_done(e);
	destroy(id);
}

/* The QP goes to RTS first, then the peer is told. */
static void a_response(void **state)
{
	struct cma_id *id = connecting(true);
	struct cma_event *e;

	(void)state;
	fix_tell(id, CM_EV_RESPONSE, 0);
	assert_string_equal(fix_said(), "");
	e = fix_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_string_equal(fix_said(), "INIT RTR RTS established");
	assert_string_equal(e->ev.param.conn.private_data, "hello");
	assert_int_equal(e->ev.param.conn.private_data_len, 6);
	/* READs that the peer may have outstanding. */
	assert_int_equal(e->ev.param.conn.responder_resources, 3);
	assert_int_equal(e->ev.param.conn.initiator_depth, 2);
	assert_int_equal(id->resources, 3); /* less than was offered */
	assert_int_equal(id->depth, 2);
	assert_int_equal(id->peer_ece.vendor_id, 8);
	cma_done(e);
	destroy(id);
}

static void a_response_without_a_qp(void **state)
{
	struct cma_id *id = connecting(false);

	(void)state;
	fix_tell(id, CM_EV_RESPONSE, 0);
	fix_ack(ch, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	assert_string_equal(fix_said(), "");
	destroy(id);
}

static void a_response_that_the_qp_cannot_follow(void **state)
{
	struct cma_id *id = connecting(true);

	(void)state;
	fix_tell(id, CM_EV_RESPONSE, 0);
	fix.fail = 2;
	fix_ack(ch, RDMA_CM_EVENT_CONNECT_ERROR, -ENOMEM);
	assert_string_equal(fix_said(), "INIT reject:28:0");
	destroy(id);
}

/* The peer has ended the connection meanwhile, as the next event says. */
static void a_response_that_is_over(void **state)
{
	struct cma_id *id = connecting(true);

	(void)state;
	fix_tell(id, CM_EV_RESPONSE, 0);
	fix_tell(id, CM_EV_REJECTED, 6);
	fix.rc = -EINVAL;
	fix_ack(ch, RDMA_CM_EVENT_REJECTED, 6);
	assert_string_equal(fix_said(), "INIT RTR RTS established ERR");
	nothing_waits(-EAGAIN);
	destroy(id);
}

static void iwarp_attaches(void **state)
{
	struct cma_id *id = connecting(true);
	struct cma_dev dev = *id->dev;

	(void)state;
	dev.iwarp = true;
	id->dev = &dev;
	fix.to.src_port = 1234;
	fix_tell(id, CM_EV_RESPONSE, 0);
	fix_ack(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_string_equal(fix_said(), "INIT attach");
	assert_int_equal(id->to.src_port, 1234);
	fix_tell(id, CM_EV_RESPONSE, 0);
	fix.attach_rc = -ECONNRESET;
	fix_ack(ch, RDMA_CM_EVENT_CONNECT_ERROR, -ECONNRESET);
	assert_string_equal(fix_said(), "INIT attach reject:0:0");
	destroy(id);
}

static void ends(void **state)
{
	/* clang-format off */
	static const struct {
		enum cm_event_type told;
		int status;
		enum rdma_cm_event_type read;
		const char *said;
	} rows[] = {
		{ CM_EV_REJECTED,      8,          RDMA_CM_EVENT_REJECTED,      "ERR" },
		{ CM_EV_UNREACHABLE,   -ETIMEDOUT, RDMA_CM_EVENT_UNREACHABLE,   "" },
		{ CM_EV_FAILED,        -EPROTO,    RDMA_CM_EVENT_CONNECT_ERROR, "ERR" },
		{ CM_EV_DISCONNECTED,  0,          RDMA_CM_EVENT_DISCONNECTED,  "" },
		{ CM_EV_TIMEWAIT_EXIT, 0,          RDMA_CM_EVENT_TIMEWAIT_EXIT, "" },
		{ CM_EV_ESTABLISHED,   0,          RDMA_CM_EVENT_ESTABLISHED,   "" },
	};
	/* clang-format on */
	struct cma_id *id = connecting(true);

	(void)state;
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		fix_tell(id, rows[i].told, rows[i].status);
		fix_ack(ch, rows[i].read, rows[i].status);
		assert_string_equal(fix_said(), rows[i].said);
	}
	destroy(id);
}

static void a_datagram_service(void **state)
{
	struct cma_id *id = fix_resolved(ch, RDMA_PS_UDP, "127.0.0.1", 7174);
	struct cma_event *e;

	(void)state;
	fix_tell(id, CM_EV_ESTABLISHED, 0);
	e = fix_event(ch, RDMA_CM_EVENT_ESTABLISHED, 0);
	assert_int_equal(e->ev.param.ud.qp_num, 99);
	assert_int_equal(e->ev.param.ud.qkey, 5);
	assert_memory_equal(e->ev.param.ud.ah_attr.grh.dgid.raw, id->to.route.dst, 16);
	cma_done(e);
	destroy(id);
}

/* Nothing is reported, and the CM gets its connection back. */
static void a_request_to_no_device(void **state)
{
	struct cma_id *l = fix_id(ch, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cma_listen(l, 1), 0);
	fix_said();
	fix_ask(l, "192.0.2.66", false);
	nothing_waits(-EAGAIN);
	assert_string_equal(fix_said(), "close");
	destroy(l);
}

/* Anybody may send such requests: they do not fill the log. */
static void many_requests_to_no_device(void **state)
{
	struct cma_id *l = fix_id(ch, RDMA_PS_TCP);
	char text[32 * 1024];
	unsigned lines = 0;

	(void)state;
	assert_int_equal(cma_listen(l, 1), 0);
	LOGGED(
		text, "warn", for (int i = 0; i < 3 * LOG_HINTS; i++) {
			fix_ask(l, "192.0.2.66", false);
			nothing_waits(-EAGAIN);
		});
	for (const char *at = text; (at = strstr(at, "finds no device")); at++)
		lines++;
	assert_in_range(lines, 1, LOG_HINTS);
	destroy(l);
}

/* What a call that waits for `awaited` returns. */
static int completed(struct cma_id *id, enum rdma_cm_event_type awaited)
{
	return cma_complete(id, 0, awaited);
}

static void a_call_without_a_channel(void **state)
{
	const enum rdma_cm_event_type up = RDMA_CM_EVENT_ESTABLISHED;
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_TCP, "127.0.0.1", 7174);

	(void)state;
	assert_int_equal(cma_complete(id, -EIO, up), -EIO);
	assert_int_equal(cma_complete(id, CMA_NO_EVENT, up), 0);
	fix_tell(id, CM_EV_ESTABLISHED, 0);
	assert_int_equal(completed(id, up), 0);
	assert_int_equal(id->id.event->event, RDMA_CM_EVENT_ESTABLISHED);
	fix_tell(id, CM_EV_REJECTED, 8);
	assert_int_equal(completed(id, up), -ECONNREFUSED);
	fix_tell(id, CM_EV_UNREACHABLE, -ETIMEDOUT);
	assert_int_equal(completed(id, up), -ETIMEDOUT);
	fix_tell(id, CM_EV_UNREACHABLE, 4);
	assert_int_equal(completed(id, up), -4);
	fix_tell(id, CM_EV_DISCONNECTED, 0);
	assert_int_equal(completed(id, RDMA_CM_EVENT_DISCONNECTED), 0);
	destroy(id);
}

/* The event is of no use to the call, and the program may read it. */
static void a_call_finds_another_event(void **state)
{
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_TCP, "127.0.0.1", 7174);

	(void)state;
	fix_tell(id, CM_EV_DISCONNECTED, 0);
	assert_int_equal(completed(id, RDMA_CM_EVENT_ESTABLISHED), -EINVAL);
	assert_int_equal(id->id.event->event, RDMA_CM_EVENT_DISCONNECTED);
	fix_tell(id, CM_EV_ESTABLISHED, 0);
	assert_int_equal(completed(id, RDMA_CM_EVENT_DISCONNECTED), -EINVAL);
	fix_tell(id, CM_EV_TIMEWAIT_EXIT, 0);
	assert_int_equal(completed(id, RDMA_CM_EVENT_DISCONNECTED), -EINVAL);
	fix_tell(id, CM_EV_ESTABLISHED, 0);
	assert_int_equal(completed(id, RDMA_CM_EVENT_MULTICAST_JOIN), -EINVAL);
	destroy(id);
}

static void an_address_is_no_route(void **state)
{
	struct sockaddr_in to = fix_addr("127.0.0.1", 7174);
	struct cma_id *id = fix_id(NULL, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cma_resolve_addr(id, NULL, (struct sockaddr *)&to), 0);
	assert_int_equal(completed(id, RDMA_CM_EVENT_ROUTE_RESOLVED), -EINVAL);
	destroy(id);
}

/* Without a QP the response is the last event before the program's own part. */
static void a_response_completes_a_connect(void **state)
{
	struct cma_id *id = fix_resolved(NULL, RDMA_PS_TCP, "127.0.0.1", 7174);

	(void)state;
	fix_tell(id, CM_EV_RESPONSE, 0);
	assert_int_equal(completed(id, RDMA_CM_EVENT_ESTABLISHED), 0);
	assert_int_equal(id->id.event->event, RDMA_CM_EVENT_CONNECT_RESPONSE);
	fix_tell(id, CM_EV_RESPONSE, 0);
	assert_int_equal(completed(id, RDMA_CM_EVENT_DISCONNECTED), -EINVAL);
	destroy(id);
}

static struct cma_id *waiting;

static void an_answer_comes(void)
{
	fix_tell(waiting, CM_EV_REJECTED, 8);
}

/* A thread that waits takes in itself what comes soon (cm_gate_await), but not if the
 * program has made the channel non-blocking. */
static void a_wait(void **state)
{
	struct cma_event *e;

	(void)state;
	waiting = connecting(false);
	fix.awaited = an_answer_comes;
	assert_int_equal(cma_get_event(ch, &e), 0);
	assert_int_equal(e->ev.event, RDMA_CM_EVENT_REJECTED);
	assert_string_equal(fix_said(), "await");
	cma_done(e);
	fix.awaited = NULL;
	fix.await_rc = -EINTR;
	assert_int_equal(cma_get_event(ch, &e), -EINTR);
	assert_string_equal(fix_said(), "await");
	nothing_waits(-EAGAIN);
	assert_string_equal(fix_said(), "");
	destroy(waiting);
}

static void names(void **state)
{
	(void)state;
	assert_string_equal(cma_event_name(RDMA_CM_EVENT_TIMEWAIT_EXIT),
			    "RDMA_CM_EVENT_TIMEWAIT_EXIT");
	assert_string_equal(cma_event_name(RDMA_CM_EVENT_USER), "RDMA_CM_EVENT_USER");
	assert_string_equal(cma_event_name(19), "UNKNOWN EVENT");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_of_the_program_s, begin, end),
		cmocka_unit_test_setup_teardown(a_response, begin, end),
		cmocka_unit_test_setup_teardown(a_response_without_a_qp, begin, end),
		cmocka_unit_test_setup_teardown(a_response_that_the_qp_cannot_follow,
						begin, end),
		cmocka_unit_test_setup_teardown(a_response_that_is_over, begin, end),
		cmocka_unit_test_setup_teardown(iwarp_attaches, begin, end),
		cmocka_unit_test_setup_teardown(ends, begin, end),
		cmocka_unit_test_setup_teardown(a_datagram_service, begin, end),
		cmocka_unit_test_setup_teardown(a_request_to_no_device, begin, end),
		cmocka_unit_test_setup_teardown(many_requests_to_no_device, begin, end),
		cmocka_unit_test_setup_teardown(a_call_without_a_channel, begin, end),
		cmocka_unit_test_setup_teardown(a_wait, begin, end),
		cmocka_unit_test_setup_teardown(a_call_finds_another_event, begin, end),
		cmocka_unit_test_setup_teardown(an_address_is_no_route, begin, end),
		cmocka_unit_test_setup_teardown(a_response_completes_a_connect, begin,
						end),
		cmocka_unit_test_setup_teardown(names, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
