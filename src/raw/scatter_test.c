/* SPDX-License-Identifier: BSD-2-Clause */
/* What a receive gets of a frame: the VLAN tag or not, and the frame check sequence. */
#include "raw/fix.h"

enum {
	STRIPS = IBV_QP_CREATE_CVLAN_STRIPPING,
	FCS = IBV_QP_CREATE_SCATTER_FCS,
	C_TAG = 0x8100,
	S_TAG = 0x88a8,
	TCI = 0xa007, /* priority 5, VLAN 7 */
};

static void insert_tag(struct frame *f, unsigned type)
{
	memmove(f->bytes + 16, f->bytes + 12, f->len - 12);
	memcpy(f->bytes + 12,
	       (uint8_t[4]){ (uint8_t)(type >> 8), (uint8_t)type, TCI >> 8, TCI & 0xff },
	       4);
	f->len += 4;
}

static void remove_tag(struct frame *f)
{
	f->len -= 4;
	memmove(f->bytes + 12, f->bytes + 16, f->len - 12);
}

/* The CRC of IEEE 802.3, bit by bit. */
static uint32_t crc_of(const uint8_t *at, size_t n)
{
	uint32_t crc = ~0u;

	for (size_t i = 0; i < 8 * n; i++)
		crc = crc >> 1 ^
		      ((crc ^ (uint32_t)at[i / 8] >> i % 8) & 1 ? 0xedb88320 : 0);
	return ~crc;
}

static void append_fcs(struct frame *f, uint32_t crc)
{
	for (unsigned i = 0; i < 4; i++)
		f->bytes[f->len++] = (uint8_t)(crc >> 8 * i);
}

/* What a QP with these flags gets of the frame; *tag: what the completion says. */
static struct frame expected(struct frame f, uint32_t flags, unsigned type, uint32_t *tag)
{
	const uint32_t crc = crc_of(f.bytes, f.len);

	*tag = type == C_TAG && flags & STRIPS ? TCI : 0;
	if (*tag)
		remove_tag(&f);
	if (flags & FCS)
		append_fcs(&f, crc);
	return f;
}

static void comes(const struct frame *f, uint32_t tag)
{
	struct cqe cqe;

	assert_true(cq_pop(t.rcq, &cqe));
	assert_int_equal(cqe.status, IBV_WC_SUCCESS);
	assert_int_equal(cqe.flags, 0);
	assert_int_equal(cqe.byte_len, f->len);
	assert_int_equal(cqe.cvlan, tag);
	assert_memory_equal(t.mem, f->bytes, f->len);
}

static const uint32_t all_flags[] = { 0, STRIPS, FCS, STRIPS | FCS };
static const unsigned types[] = { 0, C_TAG, S_TAG };

static struct frame make_tagged(unsigned type)
{
	struct frame f = make(2, 0x77);

	if (type)
		insert_tag(&f, type);
	return f;
}

static void frames_that_come_in(void **state)
{
	(void)state;
	need_tap();
	for (unsigned i = 0; i < 4; i++) {
		struct qp *qp = make_qp_of(&t.ctx, all_flags[i]);
		struct flow *flow = rule(qp, IBV_FLOW_ATTR_NORMAL, 0, 2, 0);

		for (unsigned k = 0; k < 3; k++) {
			struct frame f = make_tagged(types[k]);
			uint32_t tag;
			struct frame want = expected(f, all_flags[i], types[k], &tag);

			post_recv(qp, 0, 256);
			put(&f);
			take_in(1);
			comes(&want, tag);
		}
		flow_destroy(flow);
		assert_int_equal(qp_destroy(qp), 0);
	}
}

/* Sends a frame by one context, and takes in what comes back to another. */
static NO_TSA void send_and_bring_back(struct qp *sender, const struct frame *f)
{
	memcpy(t.mem + 1024, f->bytes, f->len);
	assert_int_equal(send_of(sender, IBV_WR_SEND, t.mem + 1024, (uint32_t)f->len,
				 t.mr->ibv.lkey),
			 0);
	assert_false(output(sender));
	turn_take(&t.core.turn);
	assert_true(packets_echo(packets_of(&t.core), t.now));
	turn_give(&t.core.turn);
	expect(t.scq, 7, IBV_WC_SUCCESS, 0);
}

/* The tag of a frame that another context sends is where the sender has put it. */
static void frames_that_come_back(void **state)
{
	struct ibv_context ibv;
	struct context other;

	(void)state;
	need_tap();
	open_other(&other, &ibv);
	for (unsigned i = 0; i < 4; i++) {
		struct qp *sender = make_qp();
		struct qp *qp = make_qp_of(&other, all_flags[i]);
		struct flow *flow = rule(qp, IBV_FLOW_ATTR_NORMAL, 0, 2, 0);

		for (unsigned k = 0; k < 3; k++) {
			struct frame f = make_tagged(types[k]);
			uint32_t tag;
			struct frame want = expected(f, all_flags[i], types[k], &tag);

			post_recv(qp, 0, 256);
			send_and_bring_back(sender, &f);
			comes(&want, tag);
		}
		flow_destroy(flow);
		assert_int_equal(qp_destroy(qp), 0);
		assert_int_equal(qp_destroy(sender), 0);
	}
	event_queue_fini(&other.async);
}

/* Nothing follows the tag, or not all of it is there: the frame has no tag to strip. */
static void frames_that_end_early(void **state)
{
	struct ibv_flow_attr all = { .size = sizeof(all), .port = 1 };
	struct ibv_context ibv;
	struct context other;
	struct qp *sender, *qp;
	struct flow *flow;

	(void)state;
	need_tap();
	open_other(&other, &ibv);
	sender = make_qp();
	qp = make_qp_of(&other, STRIPS);
	assert_int_equal(flow_create(qp, &all, &flow), 0);
	for (size_t len = 14; len <= 18; len++) {
		struct frame f = make_tagged(C_TAG);
		struct cqe cqe;

		f.len = len;
		post_recv(qp, 0, 256);
		send_and_bring_back(sender, &f);
		assert_true(cq_pop(t.rcq, &cqe));
		assert_int_equal(cqe.byte_len, len > 16 ? len - 4 : len);
		assert_int_equal(cqe.cvlan, len > 16 ? TCI : 0);
	}
	flow_destroy(flow);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(qp_destroy(sender), 0);
	event_queue_fini(&other.async);
}

/* The length that counts is that of what is scattered: without the tag, with the check
 * sequence. */
static void receives_that_just_fit(void **state)
{
	static const struct {
		uint32_t flags, room;
		bool fits;
	} row[] = {
		{ 0, LEN + 4, true },
		{ 0, LEN + 3, false },
		{ STRIPS, LEN, true },
		{ STRIPS, LEN - 1, false },
		{ FCS, LEN + 8, true },
		{ FCS, LEN + 7, false },
		{ STRIPS | FCS, LEN + 4, true },
		{ STRIPS | FCS, LEN + 3, false },
	};
	const struct frame f = make_tagged(C_TAG);

	(void)state;
	need_tap();
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct qp *qp = make_qp_of(&t.ctx, row[i].flags);
		struct flow *flow = rule(qp, IBV_FLOW_ATTR_NORMAL, 0, 2, 0);

		post_recv(qp, 0, row[i].room);
		put(&f);
		take_in(1);
		if (row[i].fits)
			expect(t.rcq, 0, IBV_WC_SUCCESS, row[i].room);
		nothing(t.rcq);
		flow_destroy(flow);
		assert_int_equal(qp_destroy(qp), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(frames_that_come_in, begin, end),
		cmocka_unit_test_setup_teardown(frames_that_come_back, begin, end),
		cmocka_unit_test_setup_teardown(receives_that_just_fit, begin, end),
		cmocka_unit_test_setup_teardown(frames_that_end_early, begin, end),
	};

	make_tap();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
