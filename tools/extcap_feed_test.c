/* SPDX-License-Identifier: BSD-2-Clause */
/* extcap_feed_test.c - blocks of several processes in one file, whole, in pieces, and
 * wrong ones. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "extcap.h"
#include "net/link_testing.h"
#include "net/pcapng.h"

enum { HERE = 4096 };

static struct feed feed[2];
static uint32_t next;
static char *file;
static size_t size;
static FILE *to;

/* What a process sends: its beginning, a packet and counts. */
static size_t blocks(uint8_t *at)
{
	struct test_dgram t;
	size_t n = pcapng_section(at);

	n += pcapng_interface(at + n, PCAPNG_IP, "process 1 (x)");
	n += pcapng_epb(at + n, test_dgram(&t, "hello", 5), PCAPNG_IP, 0, PCAPNG_IN, 1,
			NULL);
	return n + pcapng_stats(at + n, 0, 2, 1, 0, "told\x1b");
}

static int give(struct feed *f, const uint8_t *bytes, size_t n)
{
	size_t room;

	memcpy(feed_room(f, &room), bytes, n);
	assert_true(room >= n);
	return feed_came(f, n, &next, to);
}

static int set_up(void **state)
{
	(void)state;
	memset(feed, 0, sizeof(feed));
	next = 0;
	to = open_memstream(&file, &size);
	return to ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	fclose(to);
	free(file);
	return 0;
}

static unsigned packets_of(uint32_t interface)
{
	unsigned n = 0;
	uint32_t type;

	fflush(to);
	for (size_t at = 0; at < size;) {
		long len =
			pcapng_block((uint8_t *)file + at, size - at, FEED_BLOCK, &type);

		assert_true(len > 0 && type != PCAPNG_SECTION);
		n += type == PCAPNG_PACKET &&
		     pcapng_interface_of((uint8_t *)file + at) == interface;
		at += (size_t)len;
	}
	return n;
}

static void each_process_has_its_interfaces(void **state)
{
	uint8_t at[HERE];
	size_t n = blocks(at);

	(void)state;
	assert_int_equal(give(&feed[0], at, n), 0);
	assert_int_equal(give(&feed[1], at, n), 0);
	assert_int_equal(packets_of(0), 1);
	assert_int_equal(packets_of(1), 1);
	assert_int_equal(feed[1].packets, 1);
	assert_string_equal(feed[0].note, "told?");
}

static void bytes_may_come_one_by_one(void **state)
{
	uint8_t at[HERE];
	size_t n = blocks(at);

	(void)state;
	for (size_t i = 0; i < n; i++)
		assert_int_equal(give(&feed[0], at + i, 1), 0);
	assert_int_equal(packets_of(0), 1);
	assert_int_equal(feed[0].used, 0);
}

static void what_is_no_capture_is_refused(void **state)
{
	uint8_t at[HERE], bad[HERE];
	size_t n = blocks(at), head = pcapng_section(bad);
	const uint32_t huge[3] = { PCAPNG_PACKET, FEED_BLOCK + 4, 0 },
		       strange[3] = { 77, 12, 12 };

	(void)state;
	assert_int_equal(give(&feed[0], (const void *)huge, sizeof(huge)), -EPROTO);
	feed[0].used = 0;
	assert_int_equal(give(&feed[0], (const void *)strange, sizeof(strange)), -EPROTO);
	/* a packet before its interface */
	memcpy(bad, at, head);
	memcpy(bad + head, at + n - 200, 200);
	feed[0].used = 0;
	assert_int_equal(give(&feed[0], bad, head + 200), -EPROTO);
	for (unsigned i = 0; i <= FEED_INTERFACES; i++) {
		size_t len = pcapng_interface(bad, PCAPNG_IP, NULL);

		feed[0].used = 0;
		assert_int_equal(give(&feed[0], bad, len),
				 i < FEED_INTERFACES ? 0 : -EPROTO);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(each_process_has_its_interfaces),
		TEST(bytes_may_come_one_by_one),
		TEST(what_is_no_capture_is_refused),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
