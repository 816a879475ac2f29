/* SPDX-License-Identifier: BSD-2-Clause */
/* Greetings of processes with slots of the reserve, and of some that cannot be judged
 * at once. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/fix.h"
#include "host/host.h"
#include "host/host_own.h"
#include "host/msg.h"
#include "host/name.h"
#include "sys/clock.h"

enum { MS = 1000000 };

static int squatted[SLOT_NAMED + 1];

/* Takes all names, so that a process that opens gets a number of the reserve. */
static void squat_names(void)
{
	for (uint16_t i = SLOT_FIRST; i <= SLOT_NAMED; i++) {
		squatted[i] = name_listen(i);
		assert_true(squatted[i] >= 0);
	}
}

static void let_names(void)
{
	for (uint16_t i = SLOT_FIRST; i <= SLOT_NAMED; i++)
		close(squatted[i]);
}

static void begin_in_reserve(struct side *s)
{
	begin(s);
	assert_in_range(host_slot(s->host), RESERVE_FIRST, SLOT_LAST);
}

/* Forbids a reading for now, as after one that took long. */
static void forbid_reading(struct side *s)
{
	s->host->reserve.read_at = 0;
	s->host->reserve.not_before = NEVER;
}

/* Allows a reading again. */
static void allow_reading(struct side *s)
{
	s->host->reserve.not_before = 0;
	list_for(n, &s->host->waiting) container_of(n, struct host_wait, node)->at = 0;
	host_judge(s->host);
}

static bool is_readable(struct side *s)
{
	struct pollfd p = { .fd = host_fd(s->host), .events = POLLIN };

	return poll(&p, 1, 0) > 0;
}

static unsigned waiting(const struct side *s)
{
	unsigned n = 0;

	list_for(node, &s->host->waiting) n++;
	return n;
}

/* The connection is ignored while its greeting waits, even if it ends; then all of it is
 * read. */
static void test_a_greeting_waits_for_a_reading(void **state)
{
	struct side a, b, c;

	(void)state;
	need_netns();
	squat_names();
	begin_in_reserve(&a);
	begin_in_reserve(&b);
	begin_in_reserve(&c);
	forbid_reading(&a);
	assert_int_equal(forward(&b, host_slot(a.host), "one"), 0);
	assert_int_equal(forward(&c, host_slot(a.host), "two"), 0);
	for (int i = 0; i < 4 && is_readable(&a); i++)
		host_run(a.host);
	assert_int_equal(waiting(&a), 2);
	assert_false(is_readable(&a));
	assert_int_equal(forward(&b, host_slot(a.host), "three"), 0);
	host_close(c.host);
	assert_false(is_readable(&a));
	assert_int_equal(a.got, 0);
	allow_reading(&a);
	run_until(&a, 3);
	assert_int_equal(a.got, 3);
	assert_int_equal(waiting(&a), 0);
	/* c had ended by then: its slot is not confirmed, but it did not lie. */
	assert_int_equal(host_stats(a.host)->refused, 1);
	assert_int_equal(a.host->said_claim, 0);
	host_close(a.host);
	host_close(b.host);
	let_names();
}

/* One reading that began after the greetings judges them all. */
static void test_greetings_share_a_reading(void **state)
{
	enum { N = 20 };
	static struct side a, s[N];
	uint64_t read_at;

	(void)state;
	need_netns();
	squat_names();
	begin_in_reserve(&a);
	for (int i = 0; i < N; i++)
		begin_in_reserve(&s[i]);
	forbid_reading(&a);
	for (int i = 0; i < N; i++)
		assert_int_equal(forward(&s[i], host_slot(a.host), "hello"), 0);
	while (waiting(&a) < N)
		host_run(a.host);
	assert_int_equal(a.host->reserve.read_at, 0);
	allow_reading(&a);
	assert_int_equal(waiting(&a), 0);
	read_at = a.host->reserve.read_at;
	run_until(&a, N);
	assert_int_equal(a.got, N);
	assert_int_equal(a.host->reserve.read_at, read_at);
	for (int i = 0; i < N; i++)
		host_close(s[i].host);
	host_close(a.host);
	let_names();
}

/* After a reading that failed, nobody is judged. */
static void test_a_reading_that_fails(void **state)
{
	struct rlimit old, none;
	struct side a, b;

	(void)state;
	need_netns();
	squat_names();
	begin_in_reserve(&a);
	begin_in_reserve(&b);
	assert_int_equal(forward(&b, host_slot(a.host), "hello"), 0);
	host_run(a.host); /* accepts */
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = old;
	none.rlim_cur = 0;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (int failed = 0; failed < 3;) {
		uint64_t before = a.host->reserve.not_before;

		host_run(a.host);
		sched_yield();
		failed += a.host->reserve.not_before != before;
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(waiting(&a), 1);
	assert_int_equal(host_stats(a.host)->refused, 0);
	assert_int_equal(a.host->said_claim, 0);
	run_until(&a, 1);
	assert_int_equal(a.got, 1);
	host_close(a.host);
	host_close(b.host);
	let_names();
}

/* An owner that accepts nobody for a while does not count as a liar, and a process that
 * hangs up meanwhile leaves nothing behind. */
static void test_an_owner_whose_backlog_is_full(void **state)
{
	struct side a, b, c;
	static int fd[2048];
	int n = 0;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	begin(&c);
	assert_int_equal(forward(&b, host_slot(a.host), "hello"), 0);
	while ((fd[n] = name_connect(host_slot(b.host))) >= 0)
		n++;
	assert_int_equal(fd[n], -EAGAIN);
	host_run(a.host);
	host_run(a.host);
	assert_int_equal(waiting(&a), 1);
	assert_int_equal(host_stats(a.host)->refused, 0);
	run(&b);
	run_until(&a, 1);
	assert_int_equal(a.got, 1);
	while (n > 0)
		close(fd[--n]);
	host_close(a.host);
	host_close(b.host);
	host_close(c.host);
}

/* --- a host that is full of sockets --------------------------------------------- */

static pid_t hold_sockets(int n)
{
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (int i = 0; i < n; i++)
			if (socket(AF_UNIX, SOCK_STREAM, 0) < 0)
				_exit(1);
		stay_ready(ready);
	}
	wait_ready(ready);
	return pid;
}

/* A reading takes long then, and all honest processes are heard. */
static void test_among_many_sockets(void **state)
{
	enum { N = 40, HOLDERS = 3, EACH = 6000 };
	static struct side a, s[N];
	pid_t holder[HOLDERS];

	(void)state;
	need_netns();
	squat_names();
	for (int i = 0; i < HOLDERS; i++)
		holder[i] = hold_sockets(EACH);
	begin_in_reserve(&a);
	for (int i = 0; i < N; i++) {
		begin_in_reserve(&s[i]);
		while (forward(&s[i], host_slot(a.host), "hello") == -EAGAIN)
			sched_yield();
	}
	run_until(&a, N);
	assert_int_equal(a.got, N);
	assert_int_equal(host_stats(a.host)->refused, 0);
	for (int i = 0; i < N; i++)
		host_close(s[i].host);
	host_close(a.host);
	for (int i = 0; i < HOLDERS; i++) {
		kill(holder[i], SIGKILL);
		waitpid(holder[i], NULL, 0);
	}
	let_names();
}

/* Packets for numbers of the reserve cost neither a reading nor a connection each. */
static void test_packets_for_numbers(void **state)
{
	struct side a, b;
	uint16_t slot;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	slot = RESERVE_FIRST + 5;
	a.host->reserve.not_before = NEVER;
	for (int i = 0; i < 1000; i++)
		assert_int_equal(forward(&a, slot, "to whom"), -EAGAIN);
	assert_int_equal(a.host->reserve.read_at, 0);
	assert_int_equal(a.host->unreached[slot].until, NEVER);
	a.host->reserve.not_before = 0;
	a.host->unreached[slot].until = 0;
	assert_int_equal(forward(&a, slot, "to whom"), -ESRCH);
	host_close(a.host);
	host_close(b.host);
}

/* A process ended after its greeting, and another had its slot when the greeting was
 * read. */
static void test_who_has_ended_is_no_liar(void **state)
{
	struct sent_hello hello;
	struct side a;
	uint16_t slot;
	int fd, next;
	pid_t pid;

	(void)state;
	need_netns();
	begin(&a);
	slot = host_slot(a.host) == 9 ? 10 : 9;
	pid = fork();
	if (pid == 0) {
		fd = name_connect(host_slot(a.host));
		put_hello(&hello, slot);
		_exit(fd < 0 || send(fd, &hello, sizeof(hello), 0) < 0);
	}
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	next = name_listen(slot);
	assert_true(next >= 0);
	run(&a);
	assert_int_equal(host_stats(a.host)->refused, 1);
	assert_int_equal(a.host->said_claim, 0);
	close(next);
	host_close(a.host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_greeting_waits_for_a_reading),
		cmocka_unit_test(test_greetings_share_a_reading),
		cmocka_unit_test(test_a_reading_that_fails),
		cmocka_unit_test(test_an_owner_whose_backlog_is_full),
		cmocka_unit_test(test_among_many_sockets),
		cmocka_unit_test(test_packets_for_numbers),
		cmocka_unit_test(test_who_has_ended_is_no_liar),
	};

	enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
