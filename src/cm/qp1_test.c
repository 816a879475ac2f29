/* SPDX-License-Identifier: BSD-2-Clause */
/* QP1 over a link that the test plays: packets, their order, and links that are full. */
#include "cm/qp1.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "net/ip_addr.h"
#include "sys/clock.h"

enum { HEADERS = 20, PACKET = HEADERS + GSI_MAD + TRAILER_LEN, KEPT = 600 };

static struct core core;
static struct qp1 *q;
static int room; /* MADs that the link takes; -1: it is broken */
static unsigned sealed, calls, n;
static uint8_t sent[KEPT][PACKET];
static struct link_addr to[KEPT];

static int wire_seal(struct link *link, struct dgram *d)
{
	(void)link;
	assert_int_equal(d->iovcnt, 1);
	memset((uint8_t *)d->iov[0].iov_base + d->len - TRAILER_LEN, 0xcc, TRAILER_LEN);
	sealed++;
	return 0;
}

static int wire_send(struct link *link, struct dgram *v, unsigned count, uint64_t now)
{
	unsigned took = 0;

	(void)now;
	calls++;
	if (room < 0)
		return -EBADF;
	for (; took < count && room > 0; took++, room--) {
		assert_ptr_equal(v[took].link, link);
		assert_int_equal(v[took].len, PACKET);
		assert_int_equal(v[took].to_slot, 0);
		assert_false(v[took].same_host);
		assert_true(n < KEPT);
		memcpy(sent[n], v[took].iov[0].iov_base, PACKET);
		to[n++] = v[took].addr;
	}
	return (int)took;
}

static const struct link_ops ops = {
	.send = wire_send,
	.seal = wire_seal,
	.resolve = ip_resolve,
};
static struct link wire, other;

static void take(struct gsi *g, const struct gsi_mad *m, uint64_t now)
{
	(void)g;
	(void)m;
	(void)now;
	fail();
}

static const uint8_t here[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };
static const uint8_t peer[16] = { [10] = 0xff, 0xff, 10, 0, 0, 2 };

static int post(uint16_t pkey_index, uint8_t first)
{
	const struct link_to there = {
		.grh = true, .sgid = here, .dgid = peer, .told = true
	};
	uint8_t mad[GSI_MAD] = { first, [GSI_MAD - 1] = 0x77 };

	return qp1_send(q, &there, pkey_index, mad);
}

static int begin(void **state)
{
	(void)state;
	wire = other = (struct link){ .ops = &ops, .run_max = 1 };
	sealed = calls = n = 0;
	room = KEPT;
	return core_init(&core, 5) || qp1_open(&core, NULL, &wire, take, &q);
}

static int end(void **state)
{
	(void)state;
	qp1_close(q);
	assert_true(list_empty(&core.gsis));
	core_fini(&core);
	return 0;
}

static void each_link_has_one(void **state)
{
	const struct port port = { .pkeys = 4, .pkey = { PKEY_DEFAULT, [3] = 0x8001 } };
	struct device dev = { .kind = &device_ib };
	struct qp1 *two;

	(void)state;
	device_init_port(&dev, &port);
	assert_ptr_equal(gsi_of(&core, &wire), &q->gsi);
	assert_null(gsi_of(&core, &other));
	assert_int_equal(qp1_open(&core, &dev, &other, take, &two), 0);
	assert_ptr_equal(gsi_of(&core, &other), &two->gsi);
	assert_ptr_equal(gsi_of(&core, &wire), &q->gsi);
	/* Ethernet is in the default partition, another port in those of its table. */
	assert_int_equal(gsi_hears(&q->gsi, 0xffff), 0);
	assert_int_equal(gsi_hears(&q->gsi, 0x7fff), 0);
	assert_int_equal(gsi_hears(&q->gsi, 0x8001), -1);
	assert_int_equal(gsi_hears(&two->gsi, 0x8001), 3);
	assert_int_equal(qp1_pkey(two, 3), 0x8001);
	qp1_close(two);
	assert_null(gsi_of(&core, &other));
}

static void a_packet_byte_by_byte(void **state)
{
	static const uint8_t headers[HEADERS] = {
		/* UD SEND Only; M; P_Key; QP 1; PSN 0 */
		0x64, 0x40, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 0,
		/* Q_Key; from QP 1 */
		0x80, 0x01, 0, 0, 0, 0, 0, 1
	};

	(void)state;
	assert_int_equal(qp1_deadline(q), NEVER);
	assert_int_equal(post(0, 9), 0);
	assert_int_equal(n, 0);
	assert_true(qp1_deadline(q) <= 1);
	qp1_run(q, 1);
	assert_int_equal(qp1_deadline(q), NEVER);
	assert_int_equal(n, 1);
	assert_int_equal(sealed, 1);
	assert_memory_equal(sent[0], headers, HEADERS);
	assert_int_equal(sent[0][HEADERS], 9);
	assert_int_equal(sent[0][HEADERS + GSI_MAD - 1], 0x77);
	assert_int_equal(sent[0][PACKET - 1], 0xcc);
	assert_memory_equal(((struct ip_addr *)&to[0])->from.ip, here, 16);
	assert_memory_equal(((struct ip_addr *)&to[0])->to.ip, peer, 16);
	assert_int_equal(q->gsi.packets, 1);
	assert_int_equal(q->gsi.bytes, HEADERS + GSI_MAD);
}

/* They leave in their order, several in a call, each with the next PSN. */
static void order_and_room(void **state)
{
	(void)state;
	q->psn = 0xffffff;
	for (unsigned i = 0; i < QP1_SENDS; i++) {
		assert_true(qp1_has_room(q));
		assert_int_equal(post(0, (uint8_t)i), 0);
	}
	assert_false(qp1_has_room(q));
	assert_int_equal(post(0, 0), -ENOMEM);
	assert_int_equal(q->psn, QP1_SENDS - 1);
	qp1_run(q, 1);
	assert_int_equal(n, QP1_SENDS);
	assert_int_equal(calls, QP1_SENDS / 16);
	assert_int_equal(sent[0][11], 0xff);
	for (unsigned i = 0; i < QP1_SENDS; i++) {
		assert_int_equal(sent[i][HEADERS], (uint8_t)i);
		assert_int_equal(sent[i][11], (uint8_t)(i - 1));
	}
	assert_true(qp1_has_room(q));
}

static void a_link_that_is_full(void **state)
{
	(void)state;
	for (uint8_t i = 0; i < 20; i++)
		assert_int_equal(post(0, i), 0);
	room = 18;
	qp1_run(q, 1000);
	assert_int_equal(n, 18);
	assert_int_equal(qp1_deadline(q), 1000 + LINK_FULL_NS);
	room = 10;
	qp1_run(q, 1000 + LINK_FULL_NS - 1); /* too early */
	assert_int_equal(n, 18);
	assert_int_equal(post(0, 20), 0);
	qp1_run(q, 1000 + LINK_FULL_NS);
	assert_int_equal(n, 21);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(sent[i][HEADERS], i);
		assert_int_equal(sent[i][11], i);
	}
	assert_int_equal(qp1_deadline(q), NEVER);
}

static void a_link_that_is_broken(void **state)
{
	(void)state;
	assert_int_equal(post(0, 1), 0);
	room = -1;
	assert_false(qp1_run(q, 1));
	assert_int_equal(calls, 1);
	assert_int_equal(qp1_deadline(q), NEVER);
	assert_int_equal(q->gsi.packets, 0);
}

static void what_cannot_be_sent(void **state)
{
	const uint8_t mad[GSI_MAD] = { 0 }, nobody[16] = { 0 };
	struct link_to there = { .grh = true, .sgid = here, .dgid = nobody };

	(void)state;
	/* The P_Key's entry is free, or outside of the table. */
	assert_int_equal(post(1, 0), -EINVAL);
	assert_int_equal(post(PKEY_TABLE, 0), -EINVAL);
	assert_int_equal(qp1_send(q, &there, 0, mad), -EINVAL);
	assert_int_equal(qp1_deadline(q), NEVER);
	assert_int_equal(q->psn, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(each_link_has_one, begin, end),
		cmocka_unit_test_setup_teardown(a_packet_byte_by_byte, begin, end),
		cmocka_unit_test_setup_teardown(order_and_room, begin, end),
		cmocka_unit_test_setup_teardown(a_link_that_is_full, begin, end),
		cmocka_unit_test_setup_teardown(a_link_that_is_broken, begin, end),
		cmocka_unit_test_setup_teardown(what_cannot_be_sent, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
