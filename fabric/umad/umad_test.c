/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include <errno.h>

#include "fabric/umad/fix.h"
#include "sys/clock.h"

static struct ufix x;
static struct umad_file *a, *a2, *b;

static int start(void **state)
{
	(void)state;
	ufix_start(&x);
	assert_int_equal(umad_open(x.u, UFIX_A, 1, &a, &a), 0);
	assert_int_equal(umad_open(x.u, UFIX_A, 1, &a2, &a2), 0);
	assert_int_equal(umad_open(x.u, UFIX_B, 1, &b, &b), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	umad_close(a);
	umad_close(a2);
	umad_close(b);
	assert_true(umad_next(x.u) == NEVER);
	ufix_end(&x);
	return 0;
}

static int reg(struct umad_file *f, uint8_t class, uint64_t methods)
{
	return umad_register(f, &(struct umad_reg){ .class = class,
						    .version = 1,
						    .methods = { methods, 0 } });
}

static const struct mad_hdr *head(const struct ufix_msg *m)
{
	return (const struct mad_hdr *)m->mad;
}

static void t_open(void **state)
{
	struct umad_file *f;

	(void)state;
	assert_int_equal(umad_open(x.u, 0, 1, NULL, &f), -ENODEV); /* a switch */
	assert_int_equal(umad_open(x.u, UFIX_A, 2, NULL, &f), -ENODEV);
	assert_int_equal(umad_open(x.u, UFIX_A, 0, NULL, &f), -ENODEV);
	assert_int_equal(umad_open(x.u, 9, 1, NULL, &f), -ENODEV);
}

/* A method of a class belongs to one agent of the port; a new agent gets the lowest
 * number. */
static void t_register(void **state)
{
	struct umad_reg vendor = {
		.class = 0x32, .version = 1, .oui = 0x1405, .methods = { 2, 0 }
	};

	(void)state;
	assert_int_equal(reg(a, MAD_SM_LID, 0xa6), 0);
	assert_int_equal(reg(a, MAD_SM_LID, 0), 1);
	assert_int_equal(reg(a2, MAD_SM_LID, 4), -EINVAL);
	assert_int_equal(reg(a2, MAD_SM_LID, 0x100), 0);
	assert_int_equal(reg(a2, MAD_SM_DR, 0xa6), 1);
	assert_int_equal(reg(b, MAD_SM_LID, 0xa6), 0); /* at another adapter */
	assert_int_equal(umad_unregister(a, 0), 0);
	assert_int_equal(umad_unregister(a, 0), -EINVAL);
	assert_int_equal(umad_unregister(a, 77), -EINVAL);
	assert_int_equal(reg(a2, MAD_SM_LID, 4), 2);
	assert_int_equal(reg(a, MAD_PERF, 0), 0);
	assert_int_equal(umad_register(a, &vendor), 2);
	assert_int_equal(umad_register(a2, &vendor), -EINVAL);
	vendor.oui = 0x1406;
	assert_int_equal(umad_register(a2, &vendor), 3);
	for (int i = 3; i < UMAD_AGENTS; i++)
		assert_int_equal(reg(a, MAD_SM_LID, 0), i);
	assert_int_equal(reg(a, MAD_SM_LID, 0), -ENOSPC);
}

/* The switch's answer to a request comes to the agent that asked, and to no other. */
static void t_answer(void **state)
{
	struct ufix_msg m, r;

	(void)state;
	assert_int_equal(reg(a, MAD_SM_LID, 0), 0);
	assert_int_equal(reg(a2, MAD_PERF, 0), 0);
	assert_int_equal(reg(a2, MAD_SM_LID, 0), 1);
	m = ufix_msg(1, 1, MAD_SM_LID, METHOD_GET, ATTR_NODE_INFO, 0x1122334455667788);
	assert_int_equal(ufix_write(&x, a2, &m), 0);
	assert_int_equal(ufix_read(a, &r), 0);
	assert_int_equal(ufix_read(a2, &r), sizeof(r));
	assert_int_equal(r.hdr.agent, 1);
	assert_int_equal(r.hdr.status, 0);
	assert_int_equal(r.hdr.length, sizeof(r));
	assert_int_equal(get_be16(r.hdr.lid), 1);
	assert_int_equal(head(&r)->method, METHOD_GET_RESP);
	assert_int_equal(get_be64(head(&r)->tid) & 0xffffffff, 0x55667788);
	assert_int_equal(x.told, 1);
	assert_true(umad_next(x.u) == NEVER);
}

/* No answer comes: after three tries the program gets its message back. */
static void t_timeout(void **state)
{
	struct ufix_msg m, r;

	(void)state;
	assert_int_equal(reg(a, MAD_PERF, 0), 0);
	m = ufix_msg(0, UFIX_LID_B, MAD_PERF, METHOD_SEND, 0x4711, 5);
	assert_int_equal(ufix_write(&x, a, &m), 0);
	assert_int_equal(x.sent, 1);
	ufix_run(&x, 99999999);
	assert_int_equal(x.sent, 1);
	ufix_run(&x, 1);
	assert_int_equal(x.sent, 2);
	ufix_run(&x, 100000000);
	assert_int_equal(x.sent, 3);
	assert_int_equal(ufix_read(a, &r), 0);
	ufix_run(&x, 100000000);
	assert_int_equal(x.sent, 3);
	assert_int_equal(ufix_read(a, &r), UMAD_HDR + MAD_HEAD);
	assert_int_equal(r.hdr.status, ETIMEDOUT);
	assert_int_equal(r.hdr.agent, 0);
	assert_int_equal(head(&r)->method, METHOD_SEND);
	assert_int_equal(get_be64(head(&r)->tid) & 0xffffffff, 5);
	assert_int_equal(ufix_read(a, &r), 0);
}

/* An answer that comes after the request has timed out is dropped. */
static void t_late(void **state)
{
	struct ufix_msg m, r;
	struct mad_pkt late = { .slid = UFIX_LID_B,
				.dlid = UFIX_LID_A,
				.sqpn = 1,
				.dqpn = 1,
				.pkey = PKEY_DEFAULT };

	(void)state;
	assert_int_equal(reg(a, MAD_PERF, 0), 0);
	x.deaf = true;
	m = ufix_msg(0, UFIX_LID_B, MAD_PERF, METHOD_GET, ATTR_PORT_COUNTERS, 5);
	assert_int_equal(ufix_write(&x, a, &m), 0);
	for (unsigned i = 0; i < 3; i++)
		ufix_run(&x, 100000000);
	assert_int_equal(ufix_read(a, &r), UMAD_HDR + MAD_HEAD);
	memcpy(late.mad, r.mad, MAD_SIZE);
	late.mad[3] = METHOD_GET_RESP;
	x.deaf = false;
	umad_input(x.u, UFIX_A, 1, &late);
	assert_int_equal(ufix_read(a, &r), 0);
}

static void t_refused(void **state)
{
	struct ufix_msg m, r;

	(void)state;
	assert_int_equal(reg(a, MAD_PERF, 0), 0);
	x.deaf = true;
	m = ufix_msg(0, UFIX_LID_B, MAD_PERF, METHOD_GET, ATTR_PORT_COUNTERS, 5);
	assert_int_equal(ufix_write(&x, a, &m), 0);
	assert_int_equal(ufix_write(&x, a, &m), -EINVAL); /* the TID is in use */
	m = ufix_msg(1, UFIX_LID_B, MAD_PERF, METHOD_GET, ATTR_PORT_COUNTERS, 6);
	assert_int_equal(ufix_write(&x, a, &m), -EINVAL);
	m.hdr.agent = 1u << 31;
	assert_int_equal(ufix_write(&x, a, &m), -EINVAL);
	m.hdr.agent = 0;
	m.hdr.pkey_index = 1000;
	assert_int_equal(ufix_write(&x, a, &m), -EINVAL);
	m.hdr.pkey_index = 0;
	assert_int_equal(umad_write(a, &m, UMAD_HDR + 35, x.now), -EINVAL);
	assert_int_equal(umad_write(a, &m, sizeof(m) + 1, x.now), -EINVAL);
	umad_refuse(a, &m, sizeof(m), EINVAL);
	assert_int_equal(ufix_read(a, &r), UMAD_HDR + MAD_HEAD);
	assert_int_equal(r.hdr.status, EINVAL);
}

/* SMInfo comes to the agent that has registered for Get (a subnet manager), or to none.
 */
static void t_unsolicited(void **state)
{
	struct ufix_msg m, r;

	(void)state;
	assert_int_equal(reg(a, MAD_SM_LID, 0), 0);
	m = ufix_msg(0, UFIX_LID_B, MAD_SM_LID, METHOD_GET, ATTR_SM_INFO, 5);
	assert_int_equal(ufix_write(&x, a, &m), 0);
	assert_int_equal(ufix_read(a, &r), sizeof(r));
	assert_int_equal(get_be16(head(&r)->status), MAD_BAD_ATTR);
	assert_int_equal(head(&r)->method, METHOD_GET_RESP);

	assert_int_equal(reg(b, MAD_SM_LID, 0), 0);
	assert_int_equal(reg(b, MAD_SM_LID, 0xa6), 1);
	m = ufix_msg(0, UFIX_LID_B, MAD_SM_LID, METHOD_GET, ATTR_SM_INFO, 6);
	assert_int_equal(ufix_write(&x, a, &m), 0);
	assert_int_equal(ufix_read(a, &r), 0);
	assert_int_equal(ufix_read(b, &r), sizeof(r));
	assert_int_equal(r.hdr.agent, 1);
	assert_int_equal(get_be16(r.hdr.lid), UFIX_LID_A);

	r.mad[3] = METHOD_GET_RESP;
	r.hdr.timeout_ms = 0;
	assert_int_equal(ufix_write(&x, b, &r), 0);
	assert_int_equal(ufix_read(a, &m), sizeof(m));
	assert_int_equal(get_be64(head(&m)->tid) & 0xffffffff, 6);
	assert_int_equal(get_be16(m.hdr.lid), UFIX_LID_B);
}

/* --- partitions ---------------------------------------------------------- */

enum { KEYS = 4 };

/* IBA 10.9.3, written in another way than in pkey_match(). */
static bool hears(const uint16_t *table, uint16_t pkey)
{
	for (unsigned i = 0; i < KEYS; i++) {
		bool same = table[i] % 0x8000 == pkey % 0x8000 && pkey % 0x8000 != 0;

		if (same && (table[i] >= 0x8000 || pkey >= 0x8000))
			return true;
	}
	return false;
}

/* Few partitions, so that ports often share one; no P_Key twice in a table, as a subnet
 * manager would write it. */
static void draw_table(struct prng *r, uint16_t *table)
{
	for (unsigned i = 0; i < KEYS; i++) {
		table[i] = (uint16_t)(rand_below(r, 4) | rand_below(r, 2) << 15);
		for (unsigned k = 0; k < i; k++)
			if (table[k] == table[i])
				table[i] = 0;
	}
}

/* a's request in the partition at index i reaches b if b is in that partition; b's
 * answer, with the pkey_index that b was given, then reaches a. */
static void ask_by(uint16_t i, const uint16_t *of_a, const uint16_t *of_b, uint64_t tid)
{
	struct ufix_msg m, r;

	m = ufix_msg(0, UFIX_LID_B, MAD_BM, METHOD_GET, 1, tid);
	m.hdr.pkey_index = i;
	assert_int_equal(ufix_write(&x, a, &m), 0);
	if (!hears(of_b, of_a[i])) {
		assert_int_equal(ufix_read(b, &r), 0);
		for (unsigned k = 0; k < 3; k++)
			ufix_run(&x, 100000000);
		assert_int_equal(ufix_read(a, &r), UMAD_HDR + MAD_HEAD);
		assert_int_equal(r.hdr.status, ETIMEDOUT);
		return;
	}
	assert_int_equal(ufix_read(b, &r), sizeof(r));
	assert_true(r.hdr.pkey_index < KEYS);
	r.mad[3] = METHOD_GET_RESP;
	r.hdr.timeout_ms = 0;
	assert_int_equal(ufix_write(&x, b, &r), 0);
	assert_int_equal(ufix_read(a, &m), sizeof(m));
	assert_int_equal(get_be64(head(&m)->tid) & 0xffffffff, tid);
	assert_true(m.hdr.pkey_index < KEYS);
}

static void t_partitions(void **state)
{
	uint16_t *of_a = x.f->node[UFIX_A].port[1].pkey;
	uint16_t *of_b = x.f->node[UFIX_B].port[1].pkey;
	uint64_t tid = 1;
	struct prng r;

	(void)state;
	assert_int_equal(reg(a, MAD_BM, 0), 0);
	assert_int_equal(reg(b, MAD_BM, 1u << METHOD_GET), 0);
	rand_seed(&r, 25);
	for (unsigned round = 0; round < 500; round++) {
		draw_table(&r, of_a);
		draw_table(&r, of_b);
		for (uint16_t i = 0; i < KEYS; i++)
			ask_by(i, of_a, of_b, tid++);
	}
}

/* A request that no agent serves is answered with an error, also to a limited member. */
static void t_limited_member_is_refused(void **state)
{
	struct ufix_msg m, r;

	(void)state;
	x.f->node[UFIX_A].port[1].pkey[0] = 0x7fff;
	assert_int_equal(reg(a, MAD_BM, 0), 0);
	m = ufix_msg(0, UFIX_LID_B, MAD_BM, METHOD_GET, 1, 7);
	assert_int_equal(ufix_write(&x, a, &m), 0);
	assert_int_equal(ufix_read(a, &r), sizeof(r));
	assert_int_equal(get_be16(head(&r)->status), MAD_BAD_ATTR);
}

/* A directed route of no hops is handled by the port itself, which answers it. */
static void t_local(void **state)
{
	struct ufix_msg m, r;

	(void)state;
	assert_int_equal(reg(a, MAD_SM_DR, 0), 0);
	m = ufix_msg(0, LID_PERMISSIVE, MAD_SM_DR, METHOD_GET, ATTR_NODE_INFO, 5);
	memset(m.mad + 32, 0xff, 4);
	assert_int_equal(ufix_write(&x, a, &m), 0);
	assert_int_equal(ufix_read(a, &r), sizeof(r));
	assert_int_equal(get_be16(r.hdr.lid), LID_PERMISSIVE);
	assert_int_equal(get_be16(head(&r)->status), SMP_RETURN);
}

/* Agents of one vendor class are told apart by their OUI. */
static void t_vendor(void **state)
{
	struct umad_reg v = { .class = 0x32,
			      .version = 1,
			      .oui = 0x1405,
			      .methods = { 1 << METHOD_GET, 0 } };
	struct ufix_msg m, r;

	(void)state;
	assert_int_equal(umad_register(b, &v), 0);
	v.methods[0] = 0;
	assert_int_equal(umad_register(a, &v), 0);
	m = ufix_msg(0, UFIX_LID_B, 0x32, METHOD_GET, 0, 5);
	memcpy(m.mad + 37, "\0\x14\x05", 3);
	assert_int_equal(ufix_write(&x, a, &m), 0);
	assert_int_equal(ufix_read(b, &r), sizeof(r));
	m = ufix_msg(0, UFIX_LID_B, 0x32, METHOD_GET, 0, 6);
	memcpy(m.mad + 37, "\0\x14\x06", 3);
	assert_int_equal(ufix_write(&x, a, &m), 0);
	assert_int_equal(ufix_read(b, &r), 0);
	assert_int_equal(ufix_read(a, &r), sizeof(r));
	assert_int_equal(get_be16(head(&r)->status), MAD_BAD_ATTR);
}

/* After a file is closed, none of its requests can come back. */
static void t_close(void **state)
{
	struct ufix_msg m, r;
	struct umad_file *f;

	(void)state;
	assert_int_equal(umad_open(x.u, UFIX_A, 1, &f, &f), 0);
	assert_int_equal(reg(f, MAD_PERF, 2), 0);
	x.deaf = true;
	m = ufix_msg(0, UFIX_LID_B, MAD_PERF, METHOD_GET, ATTR_PORT_COUNTERS, 5);
	assert_int_equal(ufix_write(&x, f, &m), 0);
	umad_refuse(f, &m, sizeof(m), EINVAL);
	umad_close(f);
	assert_true(umad_next(x.u) == NEVER);
	assert_int_equal(reg(a, MAD_PERF, 2), 0);
	ufix_run(&x, 1000000000);
	assert_int_equal(ufix_read(a, &r), 0);
}

/* A program that does not read keeps its oldest messages and loses the newest. */
static void t_unread(void **state)
{
	struct ufix_msg m = ufix_msg(0, 0, MAD_PERF, METHOD_GET, 0, 5), r;

	(void)state;
	for (uint32_t i = 0; i < UMAD_UNREAD + 5; i++) {
		m.hdr.retries = i;
		umad_refuse(a, &m, sizeof(m), EINVAL);
	}
	assert_int_equal(a->lost, 5);
	assert_int_equal(x.told, 1);
	for (uint32_t i = 0; i < UMAD_UNREAD; i++) {
		assert_int_not_equal(ufix_read(a, &r), 0);
		assert_int_equal(r.hdr.retries, i);
	}
	assert_int_equal(ufix_read(a, &r), 0);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, start, end)
	const struct CMUnitTest tests[] = {
		TEST(t_open),
		TEST(t_register),
		TEST(t_answer),
		TEST(t_timeout),
		TEST(t_late),
		TEST(t_refused),
		TEST(t_unsolicited),
		TEST(t_local),
		TEST(t_vendor),
		TEST(t_close),
		TEST(t_unread),
		TEST(t_partitions),
		TEST(t_limited_member_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
