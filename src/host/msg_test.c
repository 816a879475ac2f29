/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "host/msg.h"
#include "net/ip_addr.h"
#include "sys/rand.h"

static void test_hello(void **state)
{
	const struct msg_proof proof = { { 1, 2, 3, [15] = 16 } };
	struct msg_proof said = { { 0 } };
	struct msg_hello m, bad;
	uint16_t slot = 0;

	(void)state;
	msg_put_hello(&m, 77, &proof);
	assert_int_equal(msg_get_hello(&m, sizeof(m), &slot, &said), 0);
	assert_int_equal(slot, 77);
	assert_memory_equal(&said, &proof, sizeof(proof));
	assert_int_equal(msg_get_hello(&m, sizeof(m) - 1, &slot, &said), -EPROTO);
	bad = m;
	bad.slot = 0;
	assert_int_equal(msg_get_hello(&bad, sizeof(bad), &slot, &said), -EPROTO);
	bad.slot = 1023;
	assert_int_equal(msg_get_hello(&bad, sizeof(bad), &slot, &said), -EPROTO);
	assert_int_equal(slot, 77);
}

static struct dgram sample(void)
{
	struct dgram d = { .ip_id = 4711, .mad = true };

	for (int i = 0; i < 16; i++) {
		ip_of(&d)->from.ip[i] = (uint8_t)(0x20 + i);
		ip_of(&d)->to.ip[i] = (uint8_t)(0x30 + i);
	}
	ip_of(&d)->from.port = 0xc123;
	ip_of(&d)->to.port = 4791;
	ip_of(&d)->ifindex = 9;
	ip_of(&d)->tclass = 3;
	ip_of(&d)->ttl = 62;
	return d;
}

static void test_dgram(void **state)
{
	struct {
		struct msg_dgram m;
		uint8_t data[5];
	} w;
	struct dgram d = sample(), got;

	(void)state;
	memcpy(w.data, "abcde", 5);
	msg_put_dgram(&w.m, &d);
	assert_int_equal(msg_get_dgram(&w, sizeof(w.m) + 5, &got), 0);
	assert_memory_equal(ip_of(&got)->from.ip, ip_of(&d)->from.ip, 16);
	assert_memory_equal(ip_of(&got)->to.ip, ip_of(&d)->to.ip, 16);
	assert_int_equal(ip_of(&got)->from.port, 0xc123);
	assert_int_equal(ip_of(&got)->to.port, 4791);
	assert_int_equal(ip_of(&got)->ifindex, 9);
	assert_int_equal(ip_of(&got)->tclass, 3);
	assert_int_equal(ip_of(&got)->ttl, 62);
	assert_int_equal(got.ip_id, 4711);
	assert_true(got.mad);
	assert_false(got.ip_id_exact);
	assert_int_equal(got.len, 5);
	assert_int_equal(got.iov[0].iov_len, 5);
	assert_memory_equal(got.iov[0].iov_base, "abcde", 5);
}

static void test_bad_dgrams(void **state)
{
	static uint8_t buf[sizeof(struct msg_dgram) + MSG_PAYLOAD_MAX + 1];
	struct msg_dgram good, m;
	struct dgram d = sample(), got;

	(void)state;
	msg_put_dgram(&good, &d);
	memcpy(buf, &good, sizeof(good));
	for (size_t len = 0; len <= sizeof(good); len++)
		assert_int_equal(msg_get_dgram(buf, len, &got), -EPROTO);
	assert_int_equal(msg_get_dgram(buf, sizeof(buf) - 1, &got), 0);
	assert_int_equal(msg_get_dgram(buf, sizeof(buf), &got), -EPROTO);

#define BAD(field, value)                                                                \
	do {                                                                             \
		m = good;                                                                \
		m.field = (value);                                                       \
		memcpy(buf, &m, sizeof(m));                                              \
		assert_int_equal(msg_get_dgram(buf, sizeof(m) + 4, &got), -EPROTO);      \
	} while (0)
	BAD(mad, 2);
	BAD(ip_id, -2);
	BAD(ip_id, 0x10000);
	BAD(ip_id_exact, 2);
#undef BAD
	m = good; /* one end IPv4, the other not */
	memset(m.from, 0, 10);
	m.from[10] = m.from[11] = 0xff;
	memcpy(buf, &m, sizeof(m));
	assert_int_equal(msg_get_dgram(buf, sizeof(m) + 4, &got), -EPROTO);
}

/* The table has a row for each type, whose name is the type's. */
static void test_table(void **state)
{
	(void)state;
	assert_int_equal(host_table.types, HOST_TYPES);
	assert_null(host_table.row[0].name);
	for (unsigned i = HOST_HELLO; i < HOST_TYPES; i++)
		assert_non_null(host_table.row[i].name);
}

/* Whatever comes, what is accepted lies within what came. */
static void test_random(void **state)
{
	struct prng r;
	uint8_t buf[128];

	(void)state;
	rand_seed(&r, 1);
	for (int i = 0; i < 100000; i++) {
		size_t len = rand_below(&r, sizeof(buf) + 1);
		struct dgram d;

		for (size_t j = 0; j < len; j++)
			buf[j] = (uint8_t)rand_u64(&r);
		if (len >= sizeof(struct msg_dgram)) {
			memset(buf + offsetof(struct msg_dgram, ip_id), 0, 8);
			memset(buf, 0, 32);
		}
		if (msg_get_dgram(buf, len, &d))
			continue;
		assert_ptr_equal(d.iov, &d.one);
		assert_true((uint8_t *)d.one.iov_base >= buf &&
			    (uint8_t *)d.one.iov_base + d.len == buf + len);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_hello),	   cmocka_unit_test(test_dgram),
		cmocka_unit_test(test_bad_dgrams), cmocka_unit_test(test_table),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
