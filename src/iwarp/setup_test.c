/* SPDX-License-Identifier: BSD-2-Clause */
/* MPA's request and reply: what each side answers to the other. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/iwarp.h"
#include "sys/rand.h"
#include "wire/rdmap.h"

/* Delivers all that `from` sends to `to`, at most step bytes at a time. */
static void tell(struct iw_setup *from, struct iw_setup *to, size_t step)
{
	for (;;) {
		struct iovec out = iw_setup_out(from), room = iw_setup_room(to);
		size_t n = out.iov_len < room.iov_len ? out.iov_len : room.iov_len;

		if (n > step)
			n = step;
		if (n == 0)
			return;
		memcpy(room.iov_base, out.iov_base, n);
		iw_setup_sent(from, n);
		iw_setup_received(to, n);
	}
}

static void hear(struct iw_setup *s, const void *p, size_t n)
{
	const uint8_t *at = p;

	while (n > 0) {
		struct iovec room = iw_setup_room(s);
		size_t take = room.iov_len < n ? room.iov_len : n;

		if (take == 0)
			break;
		memcpy(room.iov_base, at, take);
		iw_setup_received(s, take);
		at += take;
		n -= take;
	}
}

static const struct iw_offer plain = { .revision = 2, .ird = 16, .ord = 16 };

static void with_siw(const char *request, size_t n, const char *reply, size_t m)
{
	struct iw_setup s;
	struct iw_offer o = plain;
	struct iovec out;

	iw_setup_listen(&s);
	hear(&s, request, n);
	assert_int_equal(s.state, IW_REQUEST);
	o.revision = s.peer.revision;
	o.ird = s.peer.ord;
	o.ord = s.peer.ird;
	if (o.revision == 1)
		o.ird = o.ord = 16;
	assert_int_equal(iw_setup_accept(&s, &o), 0);
	assert_int_equal(s.state, IW_DONE);
	out = iw_setup_out(&s);
	assert_int_equal(out.iov_len, m);
	assert_memory_equal(out.iov_base, reply, m);
}

/* Our replies are those of Linux's siw, as captured, except for markers. */
static void answers_as_siw_gives_them(void **state)
{
	(void)state;
#define WITH(q, a)                                                                       \
	with_siw("MPA ID Req Frame" q, sizeof(q) + 15, "MPA ID Rep Frame" a,             \
		 sizeof(a) + 15)
	WITH("\x00\x01\0\0", "\x00\x01\0\0");
	WITH("\x40\x01\0\0", "\x40\x01\0\0");
	WITH("\x50\x02\0\4\0\1\0\1", "\x50\x02\0\4\0\1\0\1");
	WITH("\x10\x02\0\4\0\x10\0\x10", "\x10\x02\0\4\0\x10\0\x10");
	WITH("\x10\x02\0\4\0\0\0\0", "\x10\x02\0\4\0\0\0\0");
	WITH("\x10\x02\0\4\x80\1\xc0\1", "\x10\x02\0\4\x80\1\x80\1");
	WITH("\x00\x02\0\0", "\x00\x02\0\0");
	/* siw refuses this request. */
	WITH("\x80\x01\0\0", "\x00\x01\0\0");
#undef WITH
}

static void in_every_combination(void **state)
{
	(void)state;
	for (unsigned i = 0; i < 512; i++) {
		struct iw_offer a = {
			.revision = (uint8_t)(1 + (i & 1)),
			.crc = i & 2,
			.markers = i & 4,
			.ird = 5,
			.ord = 9,
			.data = "question",
			.data_len = 8,
			.rtr = i & 1 ? i >> 6 & 7 : 0,
		};
		struct iw_offer b = {
			.revision = a.revision,
			.crc = i & 8,
			.markers = i & 16,
			.ird = 7,
			.ord = i & 32 ? 4 : 100,
			.data = "reply",
			.data_len = 5,
		};
		struct iw_setup x, y;

		assert_int_equal(iw_setup_start(&x, &a), 0);
		iw_setup_listen(&y);
		tell(&x, &y, 1 + i % 40);
		assert_int_equal(y.state, IW_REQUEST);
		assert_int_equal(y.peer.data_len, 8);
		assert_memory_equal(y.peer.data, "question", 8);
		assert_int_equal(iw_setup_accept(&y, &b), 0);
		tell(&y, &x, 1 + i % 7);
		assert_int_equal(x.state, IW_DONE);
		assert_int_equal(y.state, IW_DONE);
		assert_memory_equal(x.peer.data, "reply", 5);

		assert_int_equal(x.agreed.crc, a.crc || b.crc);
		assert_int_equal(y.agreed.crc, x.agreed.crc);
		assert_int_equal(x.agreed.markers_in, a.markers);
		assert_int_equal(y.agreed.markers_out, a.markers);
		assert_int_equal(y.agreed.markers_in, b.markers);
		assert_int_equal(x.agreed.markers_out, b.markers);
		assert_int_equal(x.agreed.rtr, y.agreed.rtr);
		assert_int_equal(x.agreed.rtr != 0, a.rtr != 0);
		assert_true((x.agreed.rtr & ~a.rtr) == 0);
		assert_int_equal(x.agreed.ord, a.revision == 2 ? 7 : 9);
		assert_int_equal(y.agreed.ord,
				 a.revision == 2 ? (i & 32 ? 4 : 5) : b.ord);
		assert_true(a.revision == 1 || y.agreed.ord <= x.agreed.ird);
	}
}

static void nothing_behind_the_hello_is_taken(void **state)
{
	static const char two[] = "MPA ID Req Frame\0\1\0\3abcMPA ID";
	struct iw_setup s;

	(void)state;
	iw_setup_listen(&s);
	assert_int_equal(iw_setup_room(&s).iov_len, 20);
	hear(&s, two, 20);
	assert_int_equal(iw_setup_room(&s).iov_len, 3);
	hear(&s, two + 20, sizeof(two) - 20);
	assert_int_equal(s.state, IW_REQUEST);
	assert_int_equal(s.in_len, 23);
	assert_int_equal(iw_setup_room(&s).iov_len, 0);
}

static void rejected(void **state)
{
	struct iw_setup x, y;

	(void)state;
	assert_int_equal(iw_setup_start(&x, &plain), 0);
	iw_setup_listen(&y);
	tell(&x, &y, 100);
	assert_int_equal(iw_setup_reject(&y, "no", 2), 0);
	assert_int_equal(y.state, IW_REJECTED);
	tell(&y, &x, 100);
	assert_int_equal(x.state, IW_REJECTED);
	assert_int_equal(x.peer.data_len, 2);
	assert_memory_equal(x.peer.data, "no", 2);
	assert_int_equal(iw_setup_accept(&y, &plain), -EINVAL);
}

static void garbage(void **state)
{
	static const struct {
		const char *p;
		size_t n;
		bool initiator;
		enum iw_why why;
	} v[] = {
		{ "GET / HTTP/1.1\r\n", 16, false, IW_WHY_GARBAGE },
		{ "MPA ID Rep Frame\0\1\0\0", 20, false, IW_WHY_GARBAGE },
		{ "MPA ID Req Frame\0\1\2\1", 20, false, IW_WHY_GARBAGE },
		{ "MPA ID Req Frame\x10\2\0\0", 20, false, IW_WHY_GARBAGE },
		{ "MPA ID Req Frame\0\3\0\0", 20, false, IW_WHY_REVISION },
		{ "MPA ID Req Frame\0\0\0\0", 20, false, IW_WHY_REVISION },
		{ "MPA ID Req Frame\0\1\0\0", 20, true, IW_WHY_GARBAGE },
		{ "MPA ID Rep Frame\0\1\0\0", 20, true, IW_WHY_REVISION },
		{ "SSH-2.0-OpenSSH", 15, true, IW_WHY_GARBAGE },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct iw_setup s;

		if (v[i].initiator)
			assert_int_equal(iw_setup_start(&s, &plain), 0);
		else
			iw_setup_listen(&s);
		hear(&s, v[i].p, v[i].n);
		assert_int_equal(s.state, IW_FAILED);
		assert_int_equal(s.why, v[i].why);
		assert_int_equal(iw_setup_room(&s).iov_len, 0);
	}
}

/* The error of the Terminate that the responder gets, in a valid FPDU. */
static uint16_t terminate_of(struct iw_setup *s)
{
	struct iovec out = iw_setup_out(s);
	const uint8_t *at = out.iov_base;
	struct rdmap_term t;

	assert_int_equal(out.iov_len, mpa_fpdu_len(at[1]));
	assert_int_equal(at[1], 18 + 4);
	assert_int_equal(at[3], 0x47);
	assert_int_equal(rdmap_term_parse(&t, at + 20, 4), 0);
	return t.error;
}

static void what_the_initiator_cannot_have(void **state)
{
	struct iw_offer o = plain;
	struct iw_setup s;

	(void)state;
	o.rtr = MPA_RTR_READ;
	o.crc = true;
	assert_int_equal(iw_setup_start(&s, &o), 0);
	hear(&s, "MPA ID Rep Frame\x10\2\0\4\x80\1\x80\1", 24); /* WRITE */
	assert_int_equal(s.state, IW_FAILED);
	assert_int_equal(s.why, IW_WHY_RTR);
	assert_int_equal(terminate_of(&s), TERM_MPA_RTR);

	assert_int_equal(iw_setup_start(&s, &o), 0);
	hear(&s, "MPA ID Rep Frame\x10\2\0\4\0\1\0\x81", 24); /* ORD 129 */
	assert_int_equal(s.why, IW_WHY_IRD);
	assert_int_equal(terminate_of(&s), TERM_MPA_IRD);

	/* The responder wants more than was offered, but there is room. */
	assert_int_equal(iw_setup_start(&s, &o), 0);
	hear(&s, "MPA ID Rep Frame\x10\2\0\4\0\1\0\x20", 24);
	assert_int_equal(s.state, IW_DONE);
	assert_int_equal(s.agreed.ird, 32);
	assert_int_equal(s.agreed.ord, 1);
	assert_true(s.agreed.crc);

	/* IRD and ORD are not negotiated here. */
	assert_int_equal(iw_setup_start(&s, &o), 0);
	hear(&s, "MPA ID Rep Frame\x10\2\0\4\x3f\xff\x3f\xff", 24);
	assert_int_equal(s.state, IW_DONE);
	assert_int_equal(s.agreed.ird, 16);
	assert_int_equal(s.agreed.ord, 16);
}

static void offers_that_cannot_be_made(void **state)
{
	/* clang-format off */
	static const struct iw_offer v[] = {
		{ .revision = 0 }, { .revision = 3 },
		{ .revision = 1, .rtr = MPA_RTR_WRITE }, { .revision = 2, .rtr = 8 },
		{ .revision = 2, .ird = 129 }, { .revision = 2, .ord = 129 },
		{ .revision = 2, .data = "", .data_len = 509 },
		{ .revision = 1, .data = "", .data_len = 513 },
		{ .revision = 1, .data_len = 1 },
	};
	/* clang-format on */
	struct iw_setup s;

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++)
		assert_int_equal(iw_setup_start(&s, &v[i]), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(answers_as_siw_gives_them),
		cmocka_unit_test(in_every_combination),
		cmocka_unit_test(nothing_behind_the_hello_is_taken),
		cmocka_unit_test(rejected),
		cmocka_unit_test(garbage),
		cmocka_unit_test(what_the_initiator_cannot_have),
		cmocka_unit_test(offers_that_cannot_be_made),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
