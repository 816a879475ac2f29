/* SPDX-License-Identifier: BSD-2-Clause */
/* Two linked endpoints: what they post, receive and free. */
#include "rsocket/endpoint.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/rdma.h"

static const struct rsock_sizes sizes = {
	.sndbuf = 1000, .rcvbuf = 1000, .sq = 8, .rq = 8, .inline_size = 64, .iomaps = 2
};
static struct rsock_endpoint a, b;
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
	if (rsock_ep_create(&a, id_a, &sizes) || rsock_ep_create(&b, id_b, &sizes))
		return -1;
	fix_link(id_a->qp, id_b->qp);
	rs_self(&a.s, &of_a);
	rs_self(&b.s, &of_b);
	rs_start(&a.s, &of_b);
	rs_start(&b.s, &of_a);
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
	drop(&a, id_a);
	drop(&b, id_b);
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
	assert_int_equal(post(&a, "first", false), 0);
	assert_int_equal(post(&a, "second", true), 0);
	assert_int_equal(take(&b, &status), 2);
	assert_int_equal(good_ones, 2);
	assert_int_equal(last, rs_imm(RS_DATA, 6));
	assert_int_equal(status, IBV_WC_SUCCESS);
	assert_memory_equal(b.rbuf.at, "firstsecond", 11);
	assert_int_equal(a.s.data_out, 2);
	assert_int_equal(rsock_ep_take_sends(&a, &status), 2);
	assert_int_equal(a.s.data_out, 0);
	assert_int_equal(a.s.used, 0);
}

/* Receives are posted again, so a sender can go on for ever. */
static void receives_are_posted_again(void **state)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct rs_write w;

	(void)state;
	for (int i = 0; i < 500; i++) {
		rs_send_control(&a.s, RS_KEEPALIVE, &w);
		assert_int_equal(rsock_ep_post(&a, &w, NULL), 0);
		assert_int_equal(take(&b, &status), 1);
		assert_int_equal(rsock_ep_take_sends(&a, &status), 1);
	}
	assert_int_equal(a.s.control_out, 0);
}

static void a_full_queue(void **state)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct rs_write w;
	int n = 0;

	(void)state;
	fix.hold = true;
	rs_send_keepalive(&a.s, &w);
	while (!rsock_ep_post(&a, &w, NULL))
		n++;
	assert_int_equal(n, sizes.sq + RS_CONTROLS);
	assert_int_equal(rsock_ep_post(&a, &w, NULL), -ENOMEM);
	fix.hold = false;
	assert_int_equal(rsock_ep_take_sends(&a, &status), n);
}

static void what_failed_is_told(void **state)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;

	(void)state;
	fix.hold = true;
	post(&a, "lost", false);
	post(&a, "lost, too", false);
	fix_lose(IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(rsock_ep_take_sends(&a, &status), 2);
	/* Not the status of the flushed sends. */
	assert_int_equal(status, IBV_WC_RETRY_EXC_ERR);
	assert_int_equal(take(&b, &status), b.receives);
	assert_int_equal(status, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(good_ones + bad_ones, 0);
}

static bool is_readable(void)
{
	struct pollfd p = { .fd = b.ch->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void an_armed_queue_tells_once(void **state)
{
	enum ibv_wc_status status;

	(void)state;
	post(&a, "x", true);
	fix_deliver();
	assert_false(is_readable());
	rsock_ep_arm(&b, false);
	assert_true(b.armed_r && !b.armed_s);
	post(&a, "y", true);
	fix_deliver();
	assert_true(is_readable());
	assert_true(rsock_ep_take_events(&b));
	assert_false(b.armed_r);
	assert_false(rsock_ep_take_events(&b));
	assert_int_equal(take(&b, &status), 2);
	rsock_ep_arm(&b, true);
	assert_true(b.armed_r && b.armed_s);
}

/* On iWARP a SEND of four bytes takes the immediate's place. */
static void on_iwarp_it_is_sent(void **state)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	struct rs_write w;

	(void)state;
	assert_true(a.by_send);
	assert_int_equal(a.receives, sizes.rq + RS_CONTROLS_SENT);
	assert_int_equal(post(&a, "data", false), 0);
	assert_int_equal(take(&b, &status), 1);
	assert_int_equal(last, rs_imm(RS_DATA, 4));
	assert_memory_equal(b.rbuf.at, "data", 4);
	assert_int_equal(rsock_ep_take_sends(&a, &status), 1);
	assert_int_equal(a.s.data_out, 0);
	rs_send_control(&a.s, RS_SHUTDOWN, &w);
	assert_int_equal(rsock_ep_post(&a, &w, NULL), 0);
	assert_int_equal(take(&b, &status), 1);
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
	assert_int_equal(take(&b, &status), 1);
	assert_int_equal(bad_ones, 1);
}

static void what_is_no_message_on_roce(void **state)
{
	struct ibv_send_wr *bad, wr = { .opcode = IBV_WR_SEND };
	enum ibv_wc_status status;

	(void)state;
	assert_int_equal(ibv_post_send(id_a->qp, &wr, &bad), 0);
	assert_int_equal(take(&b, &status), 1);
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
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
