/* SPDX-License-Identifier: BSD-2-Clause */
/* The blocks of a capture, read back by their structure; pcap_test.c has tshark read
 * them. */
#include "net/ip_addr.h"
#include "net/pcapng.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#include "net/lid.h"
#include "net/lid_addr.h"
#include "net/link_testing.h"
#include "wire/erf.h"

static uint32_t get32(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, 4);
	return v;
}

static unsigned net16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

/* The one's complement sum; 0xffff over bytes that include their right checksum. */
static unsigned sum(const uint8_t *p, size_t n, unsigned s)
{
	for (size_t i = 0; i < n; i++)
		s += i % 2 ? p[i] : (unsigned)p[i] << 8;
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return s;
}

static void a_file_begins_with_section_and_interface(void **state)
{
	uint8_t at[PCAPNG_SECTION_MAX + PCAPNG_INTERFACE_MAX];
	size_t first = pcapng_section(at),
	       len = first + pcapng_interface(at + first, PCAPNG_IP, NULL);

	(void)state;
	assert_int_equal(get32(at), 0x0a0d0d0a);
	assert_int_equal(get32(at + 8), 0x1a2b3c4d);
	assert_int_equal(get32(at + first - 4), first);
	assert_int_equal(get32(at + first), 1);
	assert_int_equal(get32(at + first + 4), len - first);
	assert_int_equal(get32(at + len - 4), len - first);
	assert_int_equal(get32(at + first + 8), 101);
}

static const uint8_t *packet(uint8_t *at, const struct dgram *d, enum pcapng_dir dir,
			     size_t ip_len)
{
	size_t len = pcapng_epb(at, d, PCAPNG_IP, 0, dir, 0x1122334455667788, NULL),
	       cap = ip_len + 8 + d->len;

	assert_true(len > 0 && len <= d->len + PCAPNG_EPB_MORE && len % 4 == 0);
	assert_int_equal(get32(at), 6);
	assert_int_equal(get32(at + 4), len);
	assert_int_equal(get32(at + len - 4), len);
	assert_int_equal(get32(at + 12), 0x11223344);
	assert_int_equal(get32(at + 16), 0x55667788);
	assert_int_equal(get32(at + 20), cap);
	assert_int_equal(get32(at + 24), cap);
	assert_int_equal(get32(at + 28 + (cap + 3) / 4 * 4), 2 | 4 << 16);
	assert_int_equal(get32(at + 32 + (cap + 3) / 4 * 4), dir);
	return at + 28;
}

static void ipv4_packets_have_their_identification(void **state)
{
	struct test_dgram t;
	uint8_t at[64 + PCAPNG_EPB_MORE];
	const uint8_t *ip;

	(void)state;
	test_dgram(&t, "hello", 5);
	t.d.ip_id = 0xabcd;
	ip = packet(at, &t.d, PCAPNG_OUT, 20);
	assert_int_equal(ip[0], 0x45);
	assert_int_equal(ip[1], 2);
	assert_int_equal(net16(ip + 2), 33);
	assert_int_equal(net16(ip + 4), 0xabcd);
	assert_int_equal(net16(ip + 6), 0x4000);
	assert_int_equal(ip[8], 64);
	assert_int_equal(sum(ip, 20, 0), 0xffff);
	assert_memory_equal(ip + 12, "\x0a\0\0\1\x0a\0\0\2", 8);
	assert_int_equal(net16(ip + 20), 0xc001);
	assert_int_equal(net16(ip + 22), 4791);
	assert_int_equal(net16(ip + 24), 13);
	assert_int_equal(net16(ip + 26), 0);
	assert_memory_equal(ip + 28, "hello", 5);

	t.d.ip_id = -1;
	assert_int_equal(net16(packet(at, &t.d, PCAPNG_IN, 20) + 4), 0);
}

static void ipv6_packets_have_a_udp_checksum(void **state)
{
	struct test_dgram t;
	uint8_t at[64 + PCAPNG_EPB_MORE];
	const uint8_t *ip;

	(void)state;
	for (unsigned i = 0; i < 0x10000; i++) {
		uint8_t bytes[3] = { (uint8_t)(i >> 8), (uint8_t)i, 7 };

		test_dgram(&t, bytes, sizeof(bytes));
		memset(ip_of(&t.d)->from.ip, 0xfd, 16);
		memset(ip_of(&t.d)->to.ip, 0xfe, 16);
		ip_of(&t.d)->tclass = 0xb9;
		ip = packet(at, &t.d, PCAPNG_IN, 40);
		assert_memory_equal(ip, "\x6b\x90\0\0\0\x0b\x11\x40", 8);
		assert_int_equal(ip[8], 0xfd);
		assert_int_equal(ip[24], 0xfe);
		assert_int_equal(sum(ip + 8, 32 + 11, 17 + 11), 0xffff);
		assert_int_not_equal(net16(ip + 46), 0);
	}
}

static void v1_has_an_interface_of_its_own(void **state)
{
	struct test_dgram t;
	uint8_t at[64 + PCAPNG_EPB_MORE];
	size_t len = pcapng_interface(at, PCAPNG_V1, NULL);

	(void)state;
	assert_true(len <= PCAPNG_INTERFACE_MAX);
	assert_int_equal(get32(at), 1);
	assert_int_equal(get32(at + 4), len);
	assert_int_equal(get32(at + len - 4), len);
	assert_int_equal(get32(at + 8), 1); /* link type Ethernet */
	test_dgram(&t, "hello", 5);
	ip_of(&t.d)->v1 = 1;
	len = pcapng_epb(at, &t.d, PCAPNG_V1, 1, PCAPNG_OUT, 0, NULL);
	assert_true(len > 0 && len <= t.d.len + PCAPNG_EPB_MORE && len % 4 == 0);
	assert_int_equal(get32(at + 8), 1);
	assert_int_equal(get32(at + 20), 14 + 40 + 5);
	assert_memory_equal(at + 28, "\0\0\0\0\0\0\0\0\0\0\0\0\x89\x15", 14);
	assert_memory_equal(at + 42, "\x60\x20\0\0\0\5\x1b\x40", 8);
	assert_memory_equal(at + 50, ip_of(&t.d)->from.ip, 16);
	assert_memory_equal(at + 66, ip_of(&t.d)->to.ip, 16);
	assert_memory_equal(at + 82, "hello", 5);
}

static void infiniband_is_erf(void **state)
{
	struct lid_addr addr = { .slid = 3, .dlid = 4, .sl = 5 };
	uint8_t at[64 + PCAPNG_EPB_MORE], frame[64 + LID_FRAME_MORE];
	struct test_dgram t;
	size_t len = pcapng_interface(at, PCAPNG_IB, NULL);

	(void)state;
	assert_true(len <= PCAPNG_INTERFACE_MAX);
	assert_int_equal(get32(at + 8), 197);
	for (unsigned grh = 0; grh < 2; grh++) {
		size_t lrh = 8 + 40 * grh, n = lrh + 24 + 2;

		test_dgram(&t, "\x04\0\xff\xff\0\0\0\2\0\0\0\1payload!\0\0\0\0", 24);
		addr.grh = (uint8_t)grh;
		memcpy(&t.d.addr, &addr, sizeof(addr));
		len = pcapng_epb(at, &t.d, PCAPNG_IB, 2, PCAPNG_IN, 1500000000, NULL);
		assert_true(len > 0 && len <= t.d.len + PCAPNG_EPB_MORE && len % 4 == 0);
		assert_int_equal(get32(at + 8), 2);
		assert_int_equal(get32(at + 20), 16 + n);
		assert_memory_equal(at + 28, "\0\0\0\x80\1\0\0\0\x15\4", 10);
		assert_int_equal(net16(at + 38), 16 + n);
		assert_int_equal(net16(at + 42), n);
		/* The fields SL and LNH of the LRH. */
		assert_int_equal(at[45] & 0xf3, 0x52 + grh);
		assert_memory_equal(at + 46, "\0\4", 2);
		assert_memory_equal(at + 50, "\0\3", 2);
		assert_memory_equal(at + 44 + lrh, t.bytes, 20);
		assert_int_equal(lid_frame(frame, &t.d), n);
		assert_memory_equal(at + 44, frame, n);
		t.d.damaged = true;
		assert_int_equal(lid_frame(frame, &t.d), n);
		assert_memory_equal(at + 44, frame, n - 6);
		assert_int_not_equal(at[44 + n - 6], frame[n - 6]);
	}
	t.d.len = 15; /* no BTH, or no ICRC */
	assert_int_equal(pcapng_epb(at, &t.d, PCAPNG_IB, 2, PCAPNG_IN, 0, NULL), 0);
}

/* `urnic fabric pcap' gets such records from the fabric. */
static void a_record_of_the_fabric(void **state)
{
	const uint64_t times[] = { 0, 1, 1122334455667788990, 4294967295999999999 };
	uint8_t at[64 + PCAPNG_EPB_MORE], bytes[64];
	struct erf h = erf_head(times[2], sizeof(bytes) - sizeof(h), 0);
	uint32_t type;
	size_t len;

	(void)state;
	memset(bytes, 7, sizeof(bytes));
	memcpy(bytes, &h, sizeof(h));
	len = pcapng_record(at, bytes, sizeof(bytes), 3, times[2]);
	assert_int_equal(pcapng_block(at, len, sizeof(at), &type), len);
	assert_int_equal(type, PCAPNG_PACKET);
	assert_int_equal(pcapng_interface_of(at), 3);
	assert_int_equal((uint64_t)get32(at + 12) << 32 | get32(at + 16), times[2]);
	assert_int_equal(get32(at + 20), sizeof(bytes));
	assert_memory_equal(at + 28, bytes, sizeof(bytes));
	for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
		h = erf_head(times[i], 0, 0);
		assert_in_range(times[i] - erf_time(&h), 0, 1);
	}
}

static void what_ip_cannot_carry_is_left_out(void **state)
{
	static uint8_t at[(1 << 16) + PCAPNG_EPB_MORE], bytes[1 << 16];
	struct test_dgram t;

	(void)state;
	test_dgram(&t, "", 0);
	t.d.iov[1] = (struct iovec){ bytes, sizeof(bytes) };
	t.d.len = 65535 - 28;
	packet(at, &t.d, PCAPNG_OUT, 20);
	t.d.len++;
	assert_int_equal(pcapng_epb(at, &t.d, PCAPNG_IP, 0, PCAPNG_OUT, 0, NULL), 0);
}

static void a_packet_may_have_a_comment(void **state)
{
	static uint8_t at[64 + PCAPNG_EPB_MORE], plain[sizeof(at)];
	char text[PCAPNG_TEXT_MAX + 20];
	struct test_dgram t;
	size_t len, less;

	(void)state;
	test_dgram(&t, "hello", 5);
	less = pcapng_epb(plain, &t.d, PCAPNG_IP, 0, PCAPNG_IN, 0, NULL);
	len = pcapng_epb(at, &t.d, PCAPNG_IP, 0, PCAPNG_IN, 0, "fault=drop");
	assert_int_equal(len, less + 16);
	assert_int_equal(get32(at + less - 8), 1 | 10 << 16);
	assert_memory_equal(at + less - 4, "fault=drop\0", 12);
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	len = pcapng_epb(at, &t.d, PCAPNG_IP, 0, PCAPNG_IN, 0, text);
	assert_int_equal(len, less + 4 + PCAPNG_TEXT_MAX);
	assert_true(len <= t.d.len + PCAPNG_EPB_MORE);
}

static void blocks_are_read_back(void **state)
{
	uint8_t at[PCAPNG_STATS_MAX + PCAPNG_INTERFACE_MAX];
	char note[PCAPNG_TEXT_MAX + 1], text[PCAPNG_TEXT_MAX + 20];
	uint32_t type;
	long len;

	(void)state;
	len = (long)pcapng_stats(at, 7, 1, 2, 3, "two of three");
	assert_int_equal(pcapng_block(at, (size_t)len, 1000, &type), len);
	assert_int_equal(type, PCAPNG_STATS);
	assert_int_equal(pcapng_interface_of(at), 7);
	pcapng_set_interface(at, 9);
	assert_int_equal(pcapng_interface_of(at), 9);
	pcapng_stats_note(at, note);
	assert_string_equal(note, "two of three");

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	len = (long)pcapng_stats(at, 0, 1, 2, 3, text);
	assert_in_range(len, 1, PCAPNG_STATS_MAX);
	len = (long)pcapng_interface(at, PCAPNG_IB, text);
	assert_in_range(len, 1, PCAPNG_INTERFACE_MAX);
	assert_in_range(pcapng_section(at), 1, PCAPNG_SECTION_MAX);
}

static void what_is_no_block_is_refused(void **state)
{
	uint8_t at[PCAPNG_STATS_MAX], bad[PCAPNG_STATS_MAX];
	const long len = (long)pcapng_stats(at, 0, 1, 2, 3, "x");
	char note[PCAPNG_TEXT_MAX + 1];
	uint32_t type, wrong[] = { 0, 8, 20, 21, UINT32_MAX, (uint32_t)len + 4 };

	(void)state;
	for (long n = 0; n < len; n++)
		assert_int_equal(pcapng_block(at, (size_t)n, 1000, &type), 0);
	assert_int_equal(pcapng_block(at, (size_t)len, (size_t)len - 1, &type), -EPROTO);
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
		memcpy(bad, at, sizeof(bad));
		memcpy(bad + 4, &wrong[i], 4);
		assert_int_equal(pcapng_block(bad, sizeof(bad), 1000, &type), -EPROTO);
	}
	/* an option that is longer than the block */
	memcpy(bad, at, sizeof(bad));
	memcpy(bad + 22, "\xff\xff", 2);
	pcapng_stats_note(bad, note);
	assert_string_equal(note, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_file_begins_with_section_and_interface),
		cmocka_unit_test(ipv4_packets_have_their_identification),
		cmocka_unit_test(ipv6_packets_have_a_udp_checksum),
		cmocka_unit_test(v1_has_an_interface_of_its_own),
		cmocka_unit_test(infiniband_is_erf),
		cmocka_unit_test(a_record_of_the_fabric),
		cmocka_unit_test(what_ip_cannot_carry_is_left_out),
		cmocka_unit_test(a_packet_may_have_a_comment),
		cmocka_unit_test(blocks_are_read_back),
		cmocka_unit_test(what_is_no_block_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
