/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread follows its messages to the processor where they come in, if it may. */
#include "nic/follow.h"

#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "link/stream_testing.h"

enum { LOOK = 32, PROOF = 3 };

struct sender {
	int fd, cpu;
};

static void be_on(int cpu)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_SET((size_t)cpu, &one);
	sched_setaffinity(0, sizeof(one), &one);
}

static void *send_one(void *arg)
{
	const struct sender *s = arg;

	be_on(s->cpu);
	return send(s->fd, "x", 1, 0) == 1 ? arg : NULL;
}

/* n wake-ups by a message that came from cpu. */
static void woken(struct follow *f, const int fd[2], int cpu, int n)
{
	struct sender s = { .fd = fd[0], .cpu = cpu };
	pthread_t t;
	void *sent;
	char c;

	assert_int_equal(pthread_create(&t, NULL, send_one, &s), 0);
	pthread_join(t, &sent);
	assert_ptr_equal(sent, &s);
	assert_int_equal(recv(fd[1], &c, 1, 0), 1);
	while (n--)
		follow(f, fd[1]);
}

/* Two processors that the test may use, or it is skipped. */
static void two_cpus(cpu_set_t *all, int cpu[2])
{
	int n = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(*all), all), 0);
	for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
		if (CPU_ISSET((size_t)i, all))
			cpu[n++] = i;
	if (n < 2) {
		print_message("SKIPPED: one processor\n");
		skip();
	}
}

struct stand {
	int fd[2], cpu[2];
	cpu_set_t all;
};

static struct stand stand_up(void)
{
	struct stand s;

	two_cpus(&s.all, s.cpu);
	tcp_pair(s.fd);
	return s;
}

static void stand_down(struct stand *s)
{
	sched_setaffinity(0, sizeof(s->all), &s->all);
	close(s->fd[0]);
	close(s->fd[1]);
}

static void stays_where_they_come_in(void **state)
{
	struct stand s = stand_up();
	struct follow f = { 0 };

	(void)state;
	be_on(s.cpu[0]);
	woken(&f, s.fd, s.cpu[0], 10 * LOOK);
	assert_int_equal(f.every, LOOK);
	assert_int_equal(f.away, 0);
	stand_down(&s);
}

/* It looks ever more rarely. */
static void goes_nowhere_it_may_not(void **state)
{
	struct stand s = stand_up();
	struct follow f = { 0 };

	(void)state;
	be_on(s.cpu[1]);
	woken(&f, s.fd, s.cpu[0], PROOF * LOOK - 1);
	assert_int_equal(f.every, LOOK);
	follow(&f, s.fd[1]);
	assert_int_equal(f.every, 2 * LOOK);
	assert_int_equal(sched_getcpu(), s.cpu[1]);
	for (int i = 0; i < 1 << 20; i++)
		follow(&f, s.fd[1]);
	assert_in_range(f.every, 4096, 8192);
	stand_down(&s);
}

/* Does it, away from where its messages come in, go there?  The scheduler may
 * bring it there first, or take it away again, though it has no reason to. */
static bool goes(const struct stand *s)
{
	struct follow f = { 0 };

	/* Bound until it has nothing to wait for: who wakes it would fetch it. */
	be_on(s->cpu[1]);
	woken(&f, s->fd, s->cpu[0], PROOF * LOOK - 1);
	sched_setaffinity(0, sizeof(s->all), &s->all);
	if (sched_getcpu() != s->cpu[1])
		return false;
	follow(&f, s->fd[1]);
	return f.every == 2 * LOOK && sched_getcpu() == s->cpu[0];
}

/* Where it may run does not change. */
static void goes_after_them(void **state)
{
	struct stand s = stand_up();
	cpu_set_t after;
	int tries = 0;

	(void)state;
	while (!goes(&s))
		assert_in_range(tries++, 0, 100);
	assert_int_equal(sched_getaffinity(0, sizeof(after), &after), 0);
	assert_true(CPU_EQUAL(&s.all, &after));
	stand_down(&s);
}

static void what_is_no_tcp_socket(void **state)
{
	struct follow f = { 0 };

	(void)state;
	for (int i = 0; i < 10 * LOOK; i++)
		follow(&f, -1);
	assert_int_equal(f.every, LOOK);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stays_where_they_come_in),
		cmocka_unit_test(goes_nowhere_it_may_not),
		cmocka_unit_test(goes_after_them),
		cmocka_unit_test(what_is_no_tcp_socket),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
