/* SPDX-License-Identifier: BSD-2-Clause */
/* Endpoints, the messages of a connection, and what poll() reports. */
#include "rsocket/streamep.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/os.h"
#include "rsocket/rsocket.h"

/* --- endpoints ----------------------------------------------------------- */

static const struct rsock_sizes sizes = {
	.sndbuf = 1000, .rcvbuf = 1000, .sq = 8, .rq = 8, .inline_size = 64, .iomaps = 2
};
static struct rsock_endpoint ep_a, ep_b;
static struct rdma_cm_id *id_a, *id_b;
static int good_ones, bad_ones;
static uint32_t last;

static void came(void *arg, bool good, uint32_t imm)
{
	(void)arg;
	good_ones += good;
	bad_ones += !good;
	last = imm;
}

static int take(struct rsock_endpoint *ep, enum ibv_wc_status *status)
{
	*status = IBV_WC_SUCCESS;
	good_ones = bad_ones = 0;
	return rsock_ep_take_receives(ep, status, came, NULL);
}

static struct rdma_cm_id *make_id(bool iwarp)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP), 0);
	id->verbs = fix_context(iwarp);
	id->pd = fix_pd(iwarp);
	return id;
}

static void drop(struct rsock_endpoint *ep, struct rdma_cm_id *id)
{
	rsock_rdma_stop(id);
	rsock_ep_destroy(ep);
	rdma_destroy_id(id);
}

static int open_both(bool iwarp)
{
	struct rs_conn of_a, of_b;

	fix.iwarp = iwarp;
	id_a = make_id(iwarp);
	id_b = make_id(iwarp);
	if (rsock_ep_create(&ep_a, id_a, &sizes) || rsock_ep_create(&ep_b, id_b, &sizes))
		return -1;
	fix_link(id_a->qp, id_b->qp);
	rs_self(&ep_a.s, &of_a);
	rs_self(&ep_b.s, &of_b);
	rs_start(&ep_a.s, &of_b);
	rs_start(&ep_b.s, &of_a);
	return 0;
}

static int begin(void **state)
{
	fix_begin(state);
	return open_both(false);
}

static int begin_iwarp(void **state)
{
	fix_begin(state);
	return open_both(true);
}

static int end(void **state)
{
	drop(&ep_a, id_a);
	drop(&ep_b, id_b);
	return fix_end(state);
}

/* Sends text as the next data message. */
static int post(struct rsock_endpoint *ep, const char *text, bool is_inline)
{
	uint32_t len = (uint32_t)strlen(text);
	struct rs_write w;

	assert_true(rs_room(&ep->s, len) >= len);
	rs_send(&ep->s, len, is_inline, &w);
	if (!is_inline)
		memcpy((void *)(uintptr_t)w.from, text, len);
	return rsock_ep_post(ep, &w, is_inline ? text : NULL);
}

static void data_and_their_immediate(void **state)
{
	enum ibv_wc_status status;

	(void)state;
	assert_int_equal(post(&ep_a, "first", false), 0);
	assert_int_equal(post(&ep_a, "second", true), 0);
	assert_int_equal(take(&ep_b, &status), 2);
	assert_int_equal(good_ones, 2);
	assert_int_equal(last, rs_imm(RS_DATA, 6));
	assert_int_equal(status, IBV_WC_SUCCESS);
	assert_memory_equal(ep_b.rbuf.at, "firstsecond", 11);
	assert_int_equal(ep_a.s.data_out, 2);
	assert_int_equal(rsock_ep_take_sends(&ep_a, &status), 2);
	assert_int_equal(ep_a.s.data_out, 0);
	assert_int_equal(ep_a.s.used, 0);
}

/* Receives are posted again, so a sender can go on for ever. */
static void receives_are_posted_again(void **state)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct rs_write w;

	(void)state;
	for (int i = 0; i < 500; i++) {
		rs_send_control(&ep_a.s, RS_KEEPALIVE, &w);
		assert_int_equal(rsock_ep_post(&ep_a, &w, NULL), 0);
		assert_int_equal(take(&ep_b, &status), 1);
		assert_int_equal(rsock_ep_take_sends(&ep_a, &status), 1);
	}
	assert_int_equal(ep_a.s.control_out, 0);
}

static void a_full_queue(void **state)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct rs_write w;
	int n = 0;

	(void)state;
	fix.hold = true;
	rs_send_keepalive(&ep_a.s, &w);
	while (!rsock_ep_post(&ep_a, &w, NULL))
		n++;
	assert_int_equal(n, sizes.sq + RS_CONTROLS);
	assert_int_equal(rsock_ep_post(&ep_a, &w, NULL), -ENOMEM);
	fix.hold = false;
	assert_int_equal(rsock_ep_take_sends(&ep_a, &status), n);
}

static void what_failed_is_told(void **state)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	(void)state;
	fix.hold = true;
	post(&ep_a, "lost", false);
	post(&ep_a, "lost, too", false);
	fix_lose(IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(rsock_ep_take_sends(&ep_a, &status), 2);
	/* Not the status of the flushed sends. */
	assert_int_equal(status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(take(&ep_b, &status), ep_b.receives);
	assert_int_equal(status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(good_ones + bad_ones, 0);
}

static bool is_readable(void)
{
	struct pollfd p = { .fd = ep_b.ch->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void an_armed_queue_tells_once(void **state)
{
	enum ibv_wc_status status;

	(void)state;
	post(&ep_a, "x", true);
	fix_deliver();
	assert_false(is_readable());
	rsock_ep_arm(&ep_b, false);
	assert_true(ep_b.armed_r && !ep_b.armed_s);
	post(&ep_a, "y", true);
	fix_deliver();
	assert_true(is_readable());
	assert_true(rsock_ep_take_events(&ep_b));
	assert_false(ep_b.armed_r);
	assert_false(rsock_ep_take_events(&ep_b));
	assert_int_equal(take(&ep_b, &status), 2);
	rsock_ep_arm(&ep_b, true);
	assert_true(ep_b.armed_r && ep_b.armed_s);
}

/* On iWARP a SEND of four bytes takes the immediate's place. */
static void on_iwarp_it_is_sent(void **state)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct rs_write w;

	(void)state;
	assert_true(ep_a.by_send);
	assert_int_equal(ep_a.receives, sizes.rq + RS_CONTROLS_SENT);
	assert_int_equal(post(&ep_a, "data", false), 0);
	assert_int_equal(take(&ep_b, &status), 1);
	assert_int_equal(last, rs_imm(RS_DATA, 4));
	assert_memory_equal(ep_b.rbuf.at, "data", 4);
	assert_int_equal(rsock_ep_take_sends(&ep_a, &status), 1);
	assert_int_equal(ep_a.s.data_out, 0);
	rs_send_control(&ep_a.s, RS_SHUTDOWN, &w);
	assert_int_equal(rsock_ep_post(&ep_a, &w, NULL), 0);
	assert_int_equal(take(&ep_b, &status), 1);
	assert_int_equal(last, rs_imm(RS_CONTROL, RS_SHUTDOWN));
}

/* A message of another length, or without an immediate, is not ours. */
static void what_is_no_message(void **state)
{
	char five[5] = "five";
	struct ibv_sge sge = { .addr = (uintptr_t)five, .length = 3 };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE,
	};
	enum ibv_wc_status status;

	(void)state;
	assert_int_equal(ibv_post_send(id_a->qp, &wr, &bad), 0);
	assert_int_equal(take(&ep_b, &status), 1);
	assert_int_equal(bad_ones, 1);
}

static void what_is_no_message_on_roce(void **state)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	enum ibv_wc_status status;

	(void)state;
	assert_int_equal(ibv_post_send(id_a->qp, &wr, &bad), 0);
	assert_int_equal(take(&ep_b, &status), 1);
	assert_int_equal(bad_ones, 1);
}

static void what_cannot_be_made_leaves_nothing(void **state)
{
	bool failed = true;

	(void)state;
	for (int iwarp = 0; iwarp < 2; iwarp++)
		for (unsigned n = 1; n < 20; n++) {
			struct rdma_cm_id *id = make_id(iwarp);
			struct rsock_endpoint ep;

			fix_fail(n);
			failed = rsock_ep_create(&ep, id, &sizes) != 0;
			assert_int_equal(failed, fix.fail == 0);
			drop(&ep, id);
			fix.fail = 0;
			assert_int_equal(fix.qps + fix.cqs + fix.channels + fix.mrs, 0);
		}
	assert_false(failed);
}

/* --- connections --------------------------------------------------------- */

enum { ALL = POLLIN | POLLOUT | POLLRDHUP };

static int ends[2];
static struct rsock_stream *a, *b;

static int begin_pair(void **state)
{
	fix_begin(state);
	fix_pair(ends);
	a = fix_stream(ends[0]);
	b = fix_stream(ends[1]);
	rsock_conn_progress(a);
	rsock_conn_progress(b);
	return 0;
}

static int begin_iwarp_pair(void **state)
{
	fix_begin(state);
	fix.iwarp = true;
	fix_pair(ends);
	a = fix_stream(ends[0]);
	b = fix_stream(ends[1]);
	return 0;
}

static int end_pair(void **state)
{
	assert_int_equal(rsocket_close(ends[0]), 0);
	assert_int_equal(rsocket_close(ends[1]), 0);
	return fix_end(state);
}

/* Both halves of the receive buffers are published as soon as both ends are connected. */
static void at_the_beginning(void **state)
{
	(void)state;
	assert_int_equal(a->sock.state, RSOCK_UP);
	assert_int_equal(b->sock.state, RSOCK_UP);
	assert_false(a->passive);
	assert_true(b->passive);
	assert_int_equal(a->ep.s.free, 0);
	assert_int_equal(rsock_conn_events(&a->sock, ALL), POLLOUT | POLLWRNORM);
}

static void a_control_that_has_to_wait(void **state)
{
	struct rs_write w;

	(void)state;
	fix.hold = true;
	while (rs_may_control(&a->ep.s)) {
		rs_send_keepalive(&a->ep.s, &w);
		assert_int_equal(rsock_conn_post(a, &w, NULL), 0);
	}
	rsock_conn_control(a, RS_SHUTDOWN);
	assert_int_equal(a->controls_due, 1 << RS_SHUTDOWN);
	fix.hold = false;
	rsock_conn_progress(a);
	assert_int_equal(a->controls_due, 0);
	rsock_conn_progress(b);
	assert_true(b->read_end && !b->write_end);
}

static void say(struct rsock_stream *st, uint32_t imm)
{
	struct rs_write w = { .has_imm = true, .control = true, .imm = imm };

	st->ep.s.control_out++;
	assert_int_equal(rsock_conn_post(st, &w, NULL), 0);
}

static void a_peer_that_does_not_keep_to_the_protocol(void **state)
{
	(void)state;
	say(a, rs_imm(RS_DATA, RS_LOWER));
	say(a, rs_imm(RS_DATA, 10));
	rsock_conn_progress(b);
	assert_int_equal(b->sock.state, RSOCK_DOWN);
	assert_int_equal(b->sock.err, EPROTO);
	assert_int_equal(b->ep.s.unread, 0); /* data after a disconnect is ignored */
	assert_int_equal(fix_poll(ends[1], ALL),
			 POLLIN | POLLOUT | POLLRDHUP | POLLERR | POLLHUP);
}

static void what_follows_a_disconnect_is_nothing(void **state)
{
	(void)state;
	say(a, rs_imm(RS_CONTROL, RS_DISCONNECT));
	say(a, rs_imm(RS_DATA, RS_LOWER));
	rsock_conn_progress(b);
	assert_true(b->peer_disconnected && b->read_end && b->write_end);
	assert_int_equal(b->sock.state, RSOCK_UP);
	assert_int_equal(b->sock.err, 0);
	rsock_conn_fail(b, ECONNRESET);
	assert_int_equal(b->sock.err, 0); /* no data is missing */
}

/* poll() reports data before the end that came after it. */
static void poll_tells_data_before_the_end(void **state)
{
	char buf[10];

	(void)state;
	assert_int_equal(fix_send(ends[0], "data", 4, 0), 4);
	say(a, rs_imm(RS_CONTROL, RS_DISCONNECT));
	assert_int_equal(fix_poll(ends[1], ALL), POLLIN | POLLOUT | POLLRDHUP);
	assert_int_equal(fix_receive(ends[1], buf, 10, 0), 4);
	assert_int_equal(fix_poll(ends[1], ALL), ALL | POLLHUP);
}

/* All that is asked for is there, so the queue is not polled. */
static void a_poll_that_need_not_look(void **state)
{
	(void)state;
	assert_int_equal(fix_send(ends[0], "data", 4, 0), 4);
	assert_int_equal(rsock_conn_events(&b->sock, POLLOUT), POLLOUT | POLLWRNORM);
	assert_int_equal(b->ep.s.unread, 0);
	assert_int_equal(rsock_conn_events(&b->sock, POLLIN),
			 POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM);
}

static void a_post_that_fails(void **state)
{
	struct rs_write w;

	(void)state;
	fix.hold = true;
	rs_send_keepalive(&a->ep.s, &w);
	while (!rsock_conn_post(a, &w, NULL))
		;
	assert_int_equal(a->sock.state, RSOCK_DOWN);
	assert_int_equal(a->sock.err, ECONNRESET);
	rsock_conn_fail(a, EPROTO);
	assert_int_equal(a->sock.err, ECONNRESET); /* the first error is reported */
}

static void a_new_socket(void **state)
{
	int fd = rsocket_open(AF_INET, SOCK_STREAM, 0);

	(void)state;
	assert_int_equal(fix_poll(fd, ALL), POLLOUT | POLLHUP);
	rsock_conn_arm(fix_sock(fd), true);
	rsock_conn_take_events(fix_sock(fd));
	rsock_conn_progress(fix_stream(fd));
	assert_int_equal(rsocket_close(fd), 0);
}

/* On iWARP a disconnect is answered by closing, which the peer waits for. */
static void a_disconnect_on_iwarp_is_answered(void **state)
{
	(void)state;
	say(a, rs_imm(RS_CONTROL, RS_DISCONNECT));
	rsock_conn_progress(b);
	fix_service();
	assert_int_equal(a->sock.state, RSOCK_DOWN);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(data_and_their_immediate, begin, end),
		cmocka_unit_test_setup_teardown(receives_are_posted_again, begin, end),
		cmocka_unit_test_setup_teardown(a_full_queue, begin, end),
		cmocka_unit_test_setup_teardown(what_failed_is_told, begin, end),
		cmocka_unit_test_setup_teardown(an_armed_queue_tells_once, begin, end),
		cmocka_unit_test_setup_teardown(on_iwarp_it_is_sent, begin_iwarp, end),
		cmocka_unit_test_setup_teardown(what_is_no_message, begin_iwarp, end),
		cmocka_unit_test_setup_teardown(what_is_no_message_on_roce, begin, end),
		cmocka_unit_test_setup_teardown(what_cannot_be_made_leaves_nothing,
						fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(at_the_beginning, begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(a_control_that_has_to_wait, begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(a_peer_that_does_not_keep_to_the_protocol,
						begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(what_follows_a_disconnect_is_nothing,
						begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(poll_tells_data_before_the_end, begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(a_poll_that_need_not_look, begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(a_post_that_fails, begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(a_new_socket, begin_pair, end_pair),
		cmocka_unit_test_setup_teardown(a_disconnect_on_iwarp_is_answered,
						begin_iwarp_pair, end_pair),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
