/* SPDX-License-Identifier: BSD-2-Clause */
/* Captures for readers that have asked: pcap_test.c has the files. */
#include "net/capture.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "net/link_testing.h"
#include "net/loop.h"
#include "net/pcap.h"

enum { MS = 1000000, SECOND = 1000000000, SLOT = 7, ROOM = 4 << 20 };

static struct world {
	struct captures *set;
	struct link *cap, *far;
	int fd; /* the reader's end */
	uint64_t unseen;
	uint8_t *got;
	size_t len;
} w;

static uint64_t unseen(void *arg)
{
	return ((struct world *)arg)->unseen;
}

static int ask(uint16_t slot, int type, int *out)
{
	const struct capture_reader by = { slot, "process 1 (x)", unseen, &w };
	int fd[2], rc;

	assert_int_equal(socketpair(AF_UNIX, type, 0, fd), 0);
	rc = captures_read(w.set, fd[1], &by, 0);
	if (rc)
		close(fd[1]);
	*out = fd[0];
	return rc;
}

static int set_up(void **state)
{
	const struct loop_conf conf = { .run_max = 8, .depth = 65536 };

	(void)state;
	w = (struct world){ .got = malloc(ROOM) };
	assert_non_null(w.got);
	w.set = captures_new();
	assert_int_equal(loop_pair(&w.cap, &w.far, &conf), 0);
	assert_int_equal(pcap_wrap(&w.cap, w.cap, w.set, false), 0);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	w.cap->ops->close(w.cap);
	w.far->ops->close(w.far);
	free(w.got);
	return 0;
}

static void begin(void)
{
	assert_int_equal(ask(SLOT, SOCK_STREAM, &w.fd), 0);
}

/* Takes what the reader's socket has. */
static void take(void)
{
	ssize_t n;

	while ((n = recv(w.fd, w.got + w.len, ROOM - w.len, MSG_DONTWAIT)) > 0)
		w.len += (size_t)n;
}

/* Counts the blocks of a type, all of which must be whole. Copies the last note. */
static unsigned count(uint32_t type, char note[PCAPNG_TEXT_MAX + 1])
{
	unsigned found = 0;
	uint32_t is;

	for (size_t at = 0; at < w.len;) {
		long n = pcapng_block(w.got + at, w.len - at, 1 << 17, &is);

		assert_true(n > 0);
		found += is == type;
		if (is == PCAPNG_STATS && note)
			pcapng_stats_note(w.got + at, note);
		at += (size_t)n;
	}
	return found;
}

static void without_a_capture_all_is_passed_on(void **state)
{
	(void)state;
	assert_false(pcap_records(w.cap));
	assert_int_equal(test_send(w.cap, 1, 0), 1);
	assert_int_equal(test_recv(w.far, 0), 1);
	assert_int_equal(w.cap->ops->deadline(w.cap), UINT64_MAX);
	assert_int_equal(w.cap->run_max, 8);
}

static void a_reader_gets_packets_from_now_on(void **state)
{
	(void)state;
	test_send(w.cap, 1, 0);
	begin();
	take();
	assert_int_equal(count(PCAPNG_SECTION, NULL), 1);
	assert_int_equal(count(PCAPNG_INTERFACE, NULL), 1);
	assert_non_null(memmem(w.got, w.len, "process 1 (x)", 13));
	test_send(w.cap, 2, MS);
	test_send(w.far, 3, MS);
	assert_int_equal(test_recv(w.cap, 2 * MS), 3);
	assert_int_equal(w.cap->ops->deadline(w.cap), 101 * MS);
	test_recv(w.cap, 101 * MS);
	take();
	assert_int_equal(count(PCAPNG_PACKET, NULL), 2);
	close(w.fd);
}

static void its_end_gives_what_there_was(void **state)
{
	char note[PCAPNG_TEXT_MAX + 1];

	(void)state;
	begin();
	test_send(w.cap, 1, MS);
	w.unseen = 12;
	assert_true(captures_end(w.set, SLOT, 2 * MS));
	assert_false(captures_end(w.set, SLOT, 2 * MS));
	assert_false(captures_any(w.set));
	assert_int_equal(w.cap->ops->deadline(w.cap), UINT64_MAX);
	take();
	assert_int_equal(recv(w.fd, w.got, 1, MSG_DONTWAIT), 0);
	assert_int_equal(count(PCAPNG_PACKET, NULL), 1);
	assert_int_equal(count(PCAPNG_STATS, note), 1);
	assert_string_equal(note, "0 packets dropped because the reader was slow, 12 "
				  "requests to processes of this host not shown: they "
				  "went through memory");
	close(w.fd);
}

static void counts_come_when_they_change(void **state)
{
	(void)state;
	w.unseen = 5; /* before: not counted */
	begin();
	assert_int_equal(w.cap->ops->deadline(w.cap), SECOND);
	test_recv(w.cap, SECOND);
	take();
	assert_int_equal(count(PCAPNG_STATS, NULL), 0);
	w.unseen = 6;
	test_recv(w.cap, SECOND + MS);
	take();
	assert_int_equal(count(PCAPNG_STATS, NULL), 0);
	test_recv(w.cap, 2ul * SECOND);
	take();
	assert_int_equal(count(PCAPNG_STATS, NULL), 1);
	close(w.fd);
}

static void a_slow_reader_loses_packets_and_is_told(void **state)
{
	char note[PCAPNG_TEXT_MAX + 1];
	uint8_t bytes[64] = { 0 };
	struct test_dgram t;
	uint64_t now = 0;
	unsigned got;

	(void)state;
	begin();
	for (unsigned i = 0; i < 20000; i++, now += 1000) {
		w.cap->ops->send(w.cap, test_dgram(&t, bytes, 64), 1, now);
		test_recv(w.far, now);
	}
	take();
	for (int i = 0; i < 100; i++) {
		now += 100 * MS;
		test_recv(w.cap, now);
		take();
	}
	got = count(PCAPNG_PACKET, note);
	assert_in_range(got, 1000, 19999);
	assert_int_equal(strtoul(note, NULL, 10), 20000 - got);
	close(w.fd);
}

static void a_reader_that_leaves_ends_its_capture(void **state)
{
	(void)state;
	begin();
	close(w.fd);
	test_send(w.cap, 1, MS);
	assert_int_equal(test_recv(w.cap, 200 * MS), -1);
	assert_false(captures_any(w.set));
	begin(); /* its slot may have another one */
	close(w.fd);
}

static void readers_do_not_disturb_each_other(void **state)
{
	int other;

	(void)state;
	begin();
	assert_int_equal(ask(SLOT + 1, SOCK_STREAM, &other), 0);
	test_send(w.cap, 1, MS);
	close(other);
	test_recv(w.cap, 200 * MS);
	test_send(w.cap, 2, 201 * MS);
	captures_end(w.set, SLOT, 202 * MS);
	take();
	assert_int_equal(count(PCAPNG_PACKET, NULL), 2);
	close(w.fd);
}

static void who_may_not(void **state)
{
	const struct capture_reader by = { SLOT, "x", unseen, &w };
	int fd[CAPTURES_MAX], one, file[2];

	(void)state;
	assert_int_equal(ask(SLOT, SOCK_SEQPACKET, &one), -ENOTSOCK);
	close(one);
	assert_int_equal(pipe(file), 0);
	assert_int_equal(captures_read(w.set, file[1], &by, 0), -ENOTSOCK);
	close(file[0]);
	close(file[1]);
	for (unsigned i = 0; i < CAPTURES_MAX; i++)
		assert_int_equal(ask((uint16_t)(SLOT + i), SOCK_STREAM, &fd[i]), 0);
	assert_int_equal(ask(SLOT, SOCK_STREAM, &one), -EALREADY);
	close(one);
	assert_int_equal(ask(SLOT + CAPTURES_MAX, SOCK_STREAM, &one), -EMFILE);
	close(one);
	for (unsigned i = 0; i < CAPTURES_MAX; i++)
		close(fd[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
		TEST(without_a_capture_all_is_passed_on),
		TEST(a_reader_gets_packets_from_now_on),
		TEST(its_end_gives_what_there_was),
		TEST(counts_come_when_they_change),
		TEST(a_slow_reader_loses_packets_and_is_told),
		TEST(a_reader_that_leaves_ends_its_capture),
		TEST(readers_do_not_disturb_each_other),
		TEST(who_may_not),
#undef TEST
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
