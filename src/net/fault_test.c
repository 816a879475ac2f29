/* SPDX-License-Identifier: BSD-2-Clause */
/* Faults at one end of a loop, in virtual time. */
#include "net/fault_fix.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "sys/log.h"

static struct link *sender(struct pair p, bool rx)
{
	return rx ? p.plain : p.faulty;
}
static struct link *receiver(struct pair p, bool rx)
{
	return rx ? p.faulty : p.plain;
}

/* Sends N datagrams, 1 us apart, and continues until nothing is due. Writes the numbers
 * of those that arrive to got, in order, and returns how many arrived. */
static unsigned carry(struct pair p, bool rx, int64_t *got, unsigned room)
{
	struct link *to = receiver(p, rx);
	uint64_t now = 0;
	unsigned n = 0;
	int64_t r;

	for (uint32_t i = 0; i < N || p.faulty->ops->deadline(p.faulty) != UINT64_MAX;
	     i++, now += 1000) {
		if (i < N)
			assert_int_equal(test_send(sender(p, rx), i, now), 1);
		else
			assert_int_equal(p.faulty->ops->send(p.faulty, NULL, 0, now), 0);
		while ((r = test_recv(to, now)) >= 0) {
			assert_true(n < room);
			got[n++] = r;
		}
		assert_true(now < (uint64_t)100 * MS);
	}
	assert_int_equal(test_recv(to, now), -1);
	return n;
}

static int up(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static void without_faults_nothing_happens(void **state)
{
	static int64_t got[2 * N];

	(void)state;
	for (int rx = 0; rx < 2; rx++) {
		struct pair p = join("", NULL);

		assert_int_equal(carry(p, rx, got, 2 * N), N);
		for (int64_t i = 0; i < N; i++)
			assert_int_equal(got[i], i);
		part(p);
	}
}

static void some_are_lost(void **state)
{
	static int64_t got[2 * N];

	(void)state;
	for (int rx = 0; rx < 2; rx++) {
		struct pair p = join("drop=0.1", NULL);
		unsigned n = carry(p, rx, got, 2 * N);

		assert_in_range(n, N * 85 / 100, N * 95 / 100);
		assert_int_equal(fault_stats(p.faulty, rx)->dropped, N - n);
		assert_int_equal(fault_stats(p.faulty, rx)->seen, N);
		assert_int_equal(fault_stats(p.faulty, !rx)->seen, 0);
		for (unsigned i = 1; i < n; i++)
			assert_true(got[i] > got[i - 1]);
		part(p);
	}
}

static void some_come_twice(void **state)
{
	static int64_t got[2 * N];

	(void)state;
	for (int rx = 0; rx < 2; rx++) {
		struct pair p = join("dup=0.1", NULL);
		unsigned n = carry(p, rx, got, 2 * N);
		int64_t next = 0;

		assert_in_range(n, N * 105 / 100, N * 115 / 100);
		assert_int_equal(fault_stats(p.faulty, rx)->duplicated, n - N);
		for (unsigned i = 0; i < n; i++) {
			assert_true(got[i] == next || got[i] == next - 1);
			next = got[i] + 1;
		}
		assert_int_equal(next, N);
		part(p);
	}
}

/* All datagrams arrive; some are late, by at most a millisecond or the four datagrams
 * that may overtake one (each of which may be delayed itself). */
static void some_are_overtaken(void **state)
{
	static int64_t got[2 * N];

	(void)state;
	for (int rx = 0; rx < 2; rx++) {
		struct pair p = join("reorder=0.1", NULL);
		unsigned late = 0;

		assert_int_equal(carry(p, rx, got, 2 * N), N);
		for (int i = 0; i < N; i++) {
			late += got[i] < i;
			assert_true(llabs(got[i] - i) < 20);
		}
		assert_in_range(late, N * 5 / 100, N * 15 / 100);
		qsort(got, N, sizeof(got[0]), up);
		for (int i = 0; i < N; i++)
			assert_int_equal(got[i], i);
		part(p);
	}
}

/* A datagram that is held back until others have passed leaves after a millisecond if
 * none come. */
static void the_last_one_is_not_kept_for_ever(void **state)
{
	struct pair p = join("tx:reorder=1", NULL);

	(void)state;
	assert_int_equal(test_send(p.faulty, 7, 100), 1);
	assert_int_equal(test_recv(p.plain, 100), -1);
	assert_int_equal(p.faulty->ops->deadline(p.faulty), 100 + MS);
	assert_int_equal(test_recv(p.faulty, 99 + MS), -1);
	assert_int_equal(test_recv(p.plain, 99 + MS), -1);
	assert_int_equal(test_recv(p.faulty, 100 + MS), -1);
	assert_int_equal(test_recv(p.plain, 100 + MS), 7);
	assert_int_equal(p.faulty->ops->deadline(p.faulty), UINT64_MAX);
	part(p);
}

static void a_delay_is_exact(void **state)
{
	(void)state;
	for (int rx = 0; rx < 2; rx++) {
		struct pair p = join("delay=100us", NULL);
		struct link *to = receiver(p, rx);

		assert_int_equal(test_send(sender(p, rx), 1, 1000), 1);
		assert_int_equal(test_recv(to, 1000), -1);
		assert_int_equal(test_send(sender(p, rx), 2, 1001), 1);
		assert_int_equal(test_recv(to, 1001), -1);
		assert_int_equal(p.faulty->ops->deadline(p.faulty), 101000);
		assert_int_equal(p.faulty->ops->send(p.faulty, NULL, 0, 100999), 0);
		assert_int_equal(test_recv(to, 100999), -1);
		assert_int_equal(p.faulty->ops->send(p.faulty, NULL, 0, 101000), 0);
		assert_int_equal(test_recv(to, 101000), 1);
		assert_int_equal(p.faulty->ops->deadline(p.faulty), 101001);
		assert_int_equal(p.faulty->ops->send(p.faulty, NULL, 0, 101001), 0);
		assert_int_equal(test_recv(to, 101001), 2);
		assert_int_equal(fault_stats(p.faulty, rx)->delayed, 2);
		part(p);
	}
}

static void those_equally_late_stay_in_order(void **state)
{
	static int64_t got[2 * N];
	struct pair p = join("delay=100us,reorder=1", NULL);

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(test_send(p.faulty, i, 0), 1);
	assert_int_equal(p.faulty->ops->send(p.faulty, NULL, 0, 100000), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(test_recv(p.plain, 100000), i);
	assert_int_equal(carry(p, false, got, 2 * N), N);
	for (int i = 0; i < N; i++)
		assert_int_equal(got[i], i);
	assert_int_equal(fault_stats(p.faulty, false)->delayed, N + 3);
	assert_int_equal(fault_stats(p.faulty, false)->reordered, 0);
	part(p);
}

static void the_directions_have_fates_of_their_own(void **state)
{
	static int64_t got[2][2 * N];
	struct pair p = join("drop=0.5", NULL);

	(void)state;
	for (int rx = 0; rx < 2; rx++)
		carry(p, rx, got[rx], 2 * N);
	assert_memory_not_equal(got[0], got[1], 100 * sizeof(got[0][0]));
	part(p);
}

static void spoiled_ones_differ_in_one_byte(void **state)
{
	(void)state;
	for (int rx = 0; rx < 2; rx++) {
		struct pair p = join("corrupt=1", NULL);

		for (uint32_t i = 0; i < 5000; i++) {
			uint32_t sent = i * 0x01010101, bytes = 0, diff;

			test_send(sender(p, rx), sent, 0);
			diff = sent ^ (uint32_t)test_recv(receiver(p, rx), 0);
			for (int k = 0; k < 32; k += 8)
				bytes += (diff >> k & 0xff) != 0;
			assert_int_equal(bytes, 1);
		}
		part(p);
	}
}

static void the_nth_is_lost_and_no_other(void **state)
{
	static int64_t got[2 * N];

	(void)state;
	for (int rx = 0; rx < 2; rx++) {
		struct pair p =
			join(rx ? "rx:nth=3,rx:nth=5" : "tx:nth=3,tx:nth=5", NULL);
		static const int64_t begin[] = { 0, 1, 3, 5, 6 };

		assert_int_equal(carry(p, !rx, got, 2 * N), N);
		assert_int_equal(carry(p, rx, got, 2 * N), N - 2);
		assert_memory_equal(got, begin, sizeof(begin));
		part(p);
	}
}

static void a_seed_repeats_a_run(void **state)
{
	static const char *const all = "drop=0.1,dup=0.1,reorder=0.1,delay=20us:0.1,"
				       "corrupt=0.1";
	static int64_t got[3][2 * N];
	unsigned n[3];

	(void)state;
	for (int rx = 0; rx < 2; rx++) {
		for (int i = 0; i < 3; i++) {
			char spec[160];
			struct pair p;

			snprintf(spec, sizeof(spec), "%s,seed=%d", all, i < 2 ? 7 : 8);
			p = join(spec, NULL);
			memset(got[i], 0, sizeof(got[i]));
			n[i] = carry(p, rx, got[i], 2 * N);
			part(p);
		}
		assert_int_equal(n[0], n[1]);
		assert_memory_equal(got[0], got[1], sizeof(got[0]));
		assert_memory_not_equal(got[0], got[2], sizeof(got[0]));
	}
}

static void what_it_spoils_is_marked(void **state)
{
	struct link *faulty, *plain;
	struct dgram v;
	char err[256];

	(void)state;
	assert_int_equal(loop_pair(&faulty, &plain, &(struct loop_conf){ 0 }), 0);
	assert_int_equal(fault_wrap_ordered(&faulty, faulty, "rx:corrupt=1", err,
					    sizeof(err)),
			 0);
	assert_int_equal(test_send(plain, 7, 0), 1);
	assert_int_equal(faulty->ops->recv(faulty, &v, 1, 0), 1);
	assert_true(v.damaged && test_number(&v) != 7);
	assert_int_equal(fault_wrap_ordered(&faulty, faulty, "dup=1", err, sizeof(err)),
			 -EINVAL);
	assert_non_null(strstr(err, "no dup"));
	faulty->ops->close(faulty);
	plain->ops->close(plain);
}

static void a_lot_of_which_all_are_lost_does_not_look_empty(void **state)
{
	struct pair p = join("rx:nth=1,rx:nth=2,rx:nth=3,rx:nth=4", NULL);
	struct dgram v[2];

	(void)state;
	for (uint32_t i = 1; i <= 6; i++)
		test_send(p.plain, i, 0);
	assert_int_equal(p.faulty->ops->recv(p.faulty, v, 2, 0), 2);
	assert_int_equal(test_number(&v[0]), 5);
	assert_int_equal(test_number(&v[1]), 6);
	part(p);
}

static void a_gap_closes_up(void **state)
{
	struct pair p = join("rx:nth=2", NULL);
	struct dgram v[3];

	(void)state;
	for (uint32_t i = 1; i <= 3; i++)
		test_send(p.plain, i, 0);
	assert_int_equal(p.faulty->ops->recv(p.faulty, v, 3, 0), 2);
	memset(&v[2], 0xee, sizeof(v[2]));
	assert_int_equal(test_number(&v[0]), 1);
	assert_int_equal(test_number(&v[1]), 3);
	assert_ptr_equal(v[1].iov, &v[1].one);
	part(p);
}

static void a_wrong_spec_leaves_the_link_alone(void **state)
{
	struct link *a, *b, *was;
	char err[160] = "";

	(void)state;
	assert_int_equal(loop_pair(&a, &b, &(struct loop_conf){ 0 }), 0);
	was = a;
	assert_int_equal(fault_wrap(&a, a, "rop=1", err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "rop"));
	assert_ptr_equal(a, was);
	a->ops->close(a);
	b->ops->close(b);
}

/* --- while it runs ---------------------------------------------------------------------
 */

static void set(struct link *link, const char *text, uint64_t now)
{
	struct fault_spec spec;
	char err[512] = "";

	if (fault_parse(&spec, text, err, sizeof(err)))
		fail_msg("%s", err);
	fault_set(link, &spec, now);
}

/* Without faults the link passes runs on, and offers what the inner one can. */
static void an_idle_one_is_not_there(void **state)
{
	const struct loop_conf conf = { .run_max = 4 };
	struct link *faulty, *plain;
	struct test_dgram t[3];
	struct dgram v[3];

	(void)state;
	assert_int_equal(loop_pair(&faulty, &plain, &conf), 0);
	assert_int_equal(fault_put(&faulty, faulty, false), 0);
	assert_int_equal(faulty->run_max, 4);
	for (uint16_t i = 0; i < 3; i++) {
		v[i] = *test_dgram(&t[i], &(uint32_t){ i }, 4);
		v[i].iov = t[i].iov;
		v[i].seg = i;
	}
	assert_int_equal(faulty->ops->send(faulty, v, 3, 0), 3);
	for (int i = 0; i < 3; i++)
		assert_int_equal(test_recv(plain, 0), i);
	assert_int_equal(fault_stats(faulty, false)->seen, 0);
	set(faulty, "rx:drop=1", 5);
	assert_int_equal(faulty->run_max, 1);
	test_send(plain, 1, 5);
	assert_int_equal(test_recv(faulty, 5), -1);
	set(faulty, "", 6);
	assert_int_equal(faulty->run_max, 4);
	test_send(plain, 2, 6);
	assert_int_equal(test_recv(faulty, 6), 2);
	assert_int_equal(fault_stats(faulty, true)->dropped, 1);
	faulty->ops->close(faulty);
	plain->ops->close(plain);
}

/* What waited when the faults change goes on at once, in its order. */
static void who_waits_is_let_go(void **state)
{
	(void)state;
	for (int rx = 0; rx < 2; rx++) {
		struct pair p = join("delay=10ms", NULL);

		for (uint32_t i = 0; i < 3; i++)
			assert_int_equal(test_send(sender(p, rx), i, i), 1);
		assert_int_equal(test_recv(receiver(p, rx), 5), -1);
		set(p.faulty, "", 6);
		for (int i = 0; i < 3; i++)
			assert_int_equal(test_recv(receiver(p, rx), 6), i);
		assert_int_equal(p.faulty->ops->deadline(p.faulty), UINT64_MAX);
		part(p);
	}
}

/* Later sends may have runs, so nothing is kept for them. */
static void who_finds_no_room_then_is_lost(void **state)
{
	struct loop_conf conf = { .depth = 1, .backpressure = true };
	struct pair p = join("tx:delay=10ms", &conf);

	(void)state;
	for (uint32_t i = 0; i < 3; i++)
		assert_int_equal(test_send(p.faulty, i, 0), 1);
	set(p.faulty, "", 1);
	assert_int_equal(test_recv(p.plain, 1), 0);
	assert_int_equal(test_recv(p.plain, MS), -1);
	assert_int_equal(fault_stats(p.faulty, false)->dropped, 2);
	assert_int_equal(test_send(p.faulty, 7, 2), 1);
	assert_int_equal(test_recv(p.plain, 2), 7);
	part(p);
}

/* Times count from when the faults were set; those of a start from the first datagram. */
static void a_cut_ends(void **state)
{
	struct pair p = join("drop=1,for=1ms", NULL);

	(void)state;
	assert_int_equal(test_send(p.faulty, 1, 500 * MS), 1);
	assert_int_equal(test_send(p.faulty, 2, 501 * MS - 1), 1);
	assert_int_equal(test_recv(p.plain, 501 * MS), -1);
	assert_int_equal(test_send(p.faulty, 3, 501 * MS), 1);
	assert_int_equal(test_recv(p.plain, 501 * MS), 3);
	set(p.faulty, "drop=1,at=1ms,for=1ms", 600 * MS);
	for (uint32_t i = 0; i < 30; i++)
		test_send(p.faulty, i, 600 * MS + i * MS / 10);
	for (int i = 0; i < 10; i++)
		assert_int_equal(test_recv(p.plain, 603 * MS), i);
	assert_int_equal(test_recv(p.plain, 603 * MS), 20);
	part(p);
}

static void a_marked_one_says_so(void **state)
{
	struct pair p = join("ecn=1", NULL);
	struct dgram v;

	(void)state;
	for (int rx = 0; rx < 2; rx++) {
		assert_int_equal(test_send(sender(p, rx), 1, 0), 1);
		assert_int_equal(receiver(p, rx)->ops->recv(receiver(p, rx), &v, 1, 0),
				 1);
		assert_int_equal(ip_of(&v)->tclass & 3, 3);
		assert_int_equal(fault_stats(p.faulty, rx)->marked, 1);
	}
	part(p);
}

/* Jitter, a rate and faults of some of the time disturb no order on an ordered link. */
static void an_ordered_link_stays_so(void **state)
{
	static const char *const specs[] = {
		"delay=20us~20us",
		"rate=10mbit",
		"delay=20us~5us,at=100us,for=100us",
		"rate=100mbit,delay=10us~10us;corrupt=0.1,at=50us,for=50us,every=100us",
	};

	(void)state;
	for (size_t k = 0; k < sizeof(specs) / sizeof(specs[0]); k++) {
		struct loop_conf wide = { .depth = 4 * N };
		static int64_t got[2 * N];
		struct pair p;
		unsigned n, bad = 0;
		char err[256];

		for (int rx = 0; rx < 2; rx++) {
			assert_int_equal(loop_pair(&p.faulty, &p.plain, &wide), 0);
			assert_int_equal(fault_wrap_ordered(&p.faulty, p.faulty, specs[k],
							    err, sizeof(err)),
					 0);
			n = carry(p, rx, got, 2 * N);
			assert_int_equal(n, N);
			for (int i = 0; i < N; i++)
				bad += got[i] != i;
			assert_true(k == 3 ? bad < N / 4 : bad == 0);
			part(p);
		}
	}
}

static void number_of(const struct dgram *d, char *buf, size_t size)
{
	uint8_t bytes[4];

	assert_int_equal(d->len, sizeof(bytes));
	for (unsigned i = 0, at = 0; i < d->iovcnt; at += (unsigned)d->iov[i++].iov_len)
		memcpy(bytes + at, d->iov[i].iov_base, d->iov[i].iov_len);
	snprintf(buf, size, "number %u", bytes[0]);
}

/* Returns in text what is logged, at level, for five datagrams each way. */
static void logged(const char *spec, const char *level,
		   void (*describe)(const struct dgram *d, char *buf, size_t size),
		   char *text, size_t size)
{
	struct pair p = join(spec, NULL);
	int err = dup(STDERR_FILENO), fd[2];
	ssize_t n;

	fault_describe(p.faulty, describe);
	assert_int_equal(pipe2(fd, O_NONBLOCK), 0);
	dup2(fd[1], STDERR_FILENO);
	log_set_level(level);
	for (uint32_t i = 1; i <= 5; i++) {
		test_send(p.faulty, i, i);
		test_send(p.plain, 10 + i, i);
		while (test_recv(p.faulty, i) >= 0)
			;
	}
	log_set_level("warn");
	dup2(err, STDERR_FILENO);
	n = read(fd[0], text, size - 1);
	text[n > 0 ? n : 0] = '\0';
	close(err);
	close(fd[0]);
	close(fd[1]);
	part(p);
}

static void each_is_a_line_of_the_log(void **state)
{
	static const struct {
		const char *spec, *want;
	} row[] = {
		{ "tx:nth=2", "fault: tx datagram 2 dropped: number 2\n" },
		{ "rx:nth=3", "fault: rx datagram 3 dropped: number 13\n" },
		{ "tx:dup=1", "fault: tx datagram 1 duplicated: number 1\n" },
		{ "tx:reorder=1", "fault: tx datagram 1 reordered: number 1\n" },
		{ "rx:delay=5ms", "fault: rx datagram 5 delayed: number 15\n" },
		{ "rx:corrupt=1,rx:dup=1",
		  "fault: rx datagram 4 duplicated, corrupted: number 14\n" },
	};
	char text[4096];

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		logged(row[i].spec, "debug", number_of, text, sizeof(text));
		if (!strstr(text, row[i].want))
			fail_msg("%s: no %s in %s", row[i].spec, row[i].want, text);
		logged(row[i].spec, "info", number_of, text, sizeof(text));
		assert_string_equal(text, "");
	}
	logged("tx:nth=2", "debug", NULL, text, sizeof(text));
	assert_non_null(strstr(text, "fault: tx datagram 2 dropped: 4 bytes\n"));
	assert_ptr_equal(strchr(text, '\n') + 1, text + strlen(text));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(without_faults_nothing_happens),
		cmocka_unit_test(some_are_lost),
		cmocka_unit_test(some_come_twice),
		cmocka_unit_test(some_are_overtaken),
		cmocka_unit_test(the_last_one_is_not_kept_for_ever),
		cmocka_unit_test(a_delay_is_exact),
		cmocka_unit_test(those_equally_late_stay_in_order),
		cmocka_unit_test(the_directions_have_fates_of_their_own),
		cmocka_unit_test(spoiled_ones_differ_in_one_byte),
		cmocka_unit_test(the_nth_is_lost_and_no_other),
		cmocka_unit_test(a_seed_repeats_a_run),
		cmocka_unit_test(what_it_spoils_is_marked),
		cmocka_unit_test(a_lot_of_which_all_are_lost_does_not_look_empty),
		cmocka_unit_test(a_gap_closes_up),
		cmocka_unit_test(a_wrong_spec_leaves_the_link_alone),
		cmocka_unit_test(an_idle_one_is_not_there),
		cmocka_unit_test(who_waits_is_let_go),
		cmocka_unit_test(who_finds_no_room_then_is_lost),
		cmocka_unit_test(a_cut_ends),
		cmocka_unit_test(a_marked_one_says_so),
		cmocka_unit_test(an_ordered_link_stays_so),
		cmocka_unit_test(each_is_a_line_of_the_log),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
