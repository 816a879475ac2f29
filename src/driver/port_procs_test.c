/* SPDX-License-Identifier: BSD-2-Clause */
/* A port that real processes share: they are killed, or another user's. */
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "driver/port_fix.h"
#include "sys/clock.h"
#include "sys/users_testing.h"

enum { NOBODY = 65534 };

struct report {
	uint16_t slot;
	int rc;
	unsigned got;
	uint64_t stray;
};

struct child {
	pid_t pid;
	int from, to;
};

/* A process with a port: reports once when it is bound, then after each byte
 * on its pipe, and ends with the pipe. */
static void child_main(int in, int out, uid_t uid, enum conf_share share)
{
	struct proc p;
	struct report r = { 0 };
	struct pollfd fd[3] = { { .fd = in, .events = POLLIN } };
	char byte;

	if (uid != geteuid() && (setresgid(uid, uid, uid) || setresuid(uid, uid, uid)))
		_exit(77);
	begin_shared(&p, share);
	r.slot = p.slot;
	r.rc = port_bind(p.port, AF_INET);
	for (;;) {
		r.got = p.got;
		r.stray = port_stats(p.port)->misdelivered;
		if (write(out, &r, sizeof(r)) != sizeof(r))
			_exit(0);
		do {
			fd[1] = (struct pollfd){ .fd = port_rx_fd(p.port, AF_INET),
						 .events = POLLIN };
			fd[2] = (struct pollfd){ .fd = host_fd(p.host),
						 .events = POLLIN };
			poll(fd, 3, 1);
			turn(&p, clock_ns());
		} while (!(fd[0].revents & (POLLIN | POLLHUP)));
		if (read(in, &byte, 1) != 1)
			_exit(0);
	}
}

static struct report ask(struct child *c)
{
	struct report r = { .rc = 77 };

	assert_true(write(c->to, "", 1) == 1);
	assert_int_equal(read(c->from, &r, sizeof(r)), sizeof(r));
	return r;
}

/* In a user namespace of its own, where root has the number MAPPED and nobody else
 * has any. */
enum { MAPPED = 1000 };

static pid_t fork_mapped(void)
{
	pid_t pid = users_fork_hidden();

	if (pid == 0 && !netns_write("/proc/self/uid_map", "1000 0 1"))
		_exit(77);
	return pid;
}

static bool start(struct child *c, uid_t uid, enum conf_share share, struct report *r)
{
	int to[2], from[2];

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	c->pid = uid == MAPPED ? fork_mapped() : fork();
	if (c->pid == 0) {
		close(to[1]);
		close(from[0]);
		child_main(to[0], from[1], uid, share);
	}
	close(to[0]);
	close(from[1]);
	c->to = to[1];
	c->from = from[0];
	return read(c->from, r, sizeof(*r)) == sizeof(*r);
}

static void stop_child(struct child *c)
{
	kill(c->pid, SIGKILL);
	close(c->to);
	close(c->from);
	waitpid(c->pid, NULL, 0);
}

static void wait_for(struct child *c, unsigned got)
{
	while (ask(c).got < got)
		sched_yield();
	assert_int_equal(ask(c).got, got);
}

static void test_killed_in_traffic(void **state)
{
	enum { N = 4, ROUNDS = 200, AT_ONCE = 10 };
	struct child c[N];
	struct report r[N];
	uint64_t stray = 0;

	(void)state;
	need_netns();
	for (int i = 0; i < N; i++) {
		assert_true(start(&c[i], geteuid(), CONF_SHARE_AUTO, &r[i]));
		assert_int_equal(r[i].rc, 0);
	}
	for (int k = 0; k < ROUNDS; k++) {
		for (int i = k < ROUNDS / 2 ? 0 : 1; i < N; i++)
			from_outside(AF_INET, qpn_of(r[i].slot), 0);
		if (k == ROUNDS / 2 - 1) {
			/* What lies in its socket is lost with it. */
			for (int i = 0; i < N; i++)
				wait_for(&c[i], ROUNDS / 2);
			stop_child(&c[0]);
		}
		for (int i = 1; i < N && k % AT_ONCE == 0; i++)
			wait_for(&c[i], (unsigned)k + 1);
	}
	for (int i = 1; i < N; i++)
		wait_for(&c[i], ROUNDS);
	/* And in the end nothing goes astray. */
	for (unsigned k = 1, steady = 0; steady < 5; k++) {
		uint64_t before = stray;

		for (int i = 1; i < N; i++)
			from_outside(AF_INET, qpn_of(r[i].slot), 0);
		stray = 0;
		for (int i = 1; i < N; i++) {
			wait_for(&c[i], ROUNDS + k);
			stray += ask(&c[i]).stray;
		}
		steady = stray == before ? steady + 1 : 0;
	}
	for (int i = 1; i < N; i++)
		stop_child(&c[i]);
}

/* One user after the other: the second lives from the first, takes the port
 * when the first has gone, and serves the first when he is back. */
static void test_a_second_user(void **state)
{
	struct child a, b, c;
	struct report ra, rb, rc;

	(void)state;
	need_netns();
	assert_true(start(&a, geteuid(), CONF_SHARE_AUTO, &ra));
	if (!start(&b, NOBODY, CONF_SHARE_AUTO, &rb)) {
		fprintf(stderr, "SKIPPED: cannot become another user\n");
		stop_child(&a);
		stop_child(&b);
		skip();
	}
	assert_int_equal(ra.rc, 0);
	assert_int_equal(rb.rc, 0);
	for (int i = 0; i < 10; i++) {
		from_outside(AF_INET, qpn_of(ra.slot), 0);
		from_outside(AF_INET, qpn_of(rb.slot), 0);
	}
	wait_for(&a, 10);
	wait_for(&b, 10);
	assert_int_equal(ask(&b).stray, 0); /* it has no socket */
	stop_child(&a);
	while (ask(&b).got == 10) /* until it has the port */
		from_outside(AF_INET, qpn_of(rb.slot), 0);
	assert_true(start(&c, geteuid(), CONF_SHARE_HOST, &rc));
	assert_int_equal(rc.rc, 0);
	for (int i = 0; i < 10; i++)
		from_outside(AF_INET, qpn_of(rc.slot), 0);
	wait_for(&c, 10);
	assert_int_equal(ask(&b).stray, 10);
	assert_int_equal(ask(&c).stray, 0);
	stop_child(&b);
	stop_child(&c);
}

/* Who forwards can read and change: root does not let a user do so, unless it is
 * told to, and a user need not let anybody. */
static void test_who_may_carry_whose(void **state)
{
	static const struct {
		uid_t first, second;
		enum conf_share share;
		int rc;
	} t[] = {
		{ 0, NOBODY, CONF_SHARE_AUTO, 0 },
		{ 0, NOBODY, CONF_SHARE_HOST, 0 },
		{ 0, NOBODY, CONF_SHARE_USER, -EADDRINUSE },
		{ NOBODY, 0, CONF_SHARE_AUTO, -EADDRINUSE },
		{ NOBODY, 0, CONF_SHARE_HOST, 0 },
		{ NOBODY, 0, CONF_SHARE_USER, -EADDRINUSE },
		{ NOBODY, NOBODY - 1, CONF_SHARE_AUTO, 0 },
		{ NOBODY, NOBODY - 1, CONF_SHARE_USER, -EADDRINUSE },
		{ NOBODY, NOBODY, CONF_SHARE_USER, 0 },
		{ 0, 0, CONF_SHARE_AUTO, 0 },
	};

	(void)state;
	need_netns();
	if (geteuid())
		skip();
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct report first, second;
		struct child a, b;

		if (!start(&a, t[i].first, CONF_SHARE_AUTO, &first) ||
		    !start(&b, t[i].second, t[i].share, &second)) {
			fprintf(stderr, "SKIPPED: cannot become another user\n");
			skip();
		}
		assert_int_equal(first.rc, 0);
		assert_int_equal(second.rc, t[i].rc);
		stop_child(&a);
		stop_child(&b);
	}
}

/* Where users without a number look the same, each of them could say that it is the
 * one who has the port. */
static void test_a_holder_without_a_number(void **state)
{
	static const enum conf_share share[] = { CONF_SHARE_AUTO, CONF_SHARE_HOST };
	struct report first, second;
	struct child a, b;

	(void)state;
	need_netns();
	if (geteuid() || !users_can_hide()) {
		fprintf(stderr, "SKIPPED: no other users, or no user namespaces, here\n");
		skip();
	}
	assert_true(start(&a, NOBODY - 1, CONF_SHARE_AUTO, &first));
	assert_int_equal(first.rc, 0);
	for (int i = 0; i < 2; i++) {
		assert_true(start(&b, MAPPED, share[i], &second));
		assert_int_equal(second.rc, -EADDRINUSE);
		stop_child(&b);
	}
	stop_child(&a);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_killed_in_traffic),
		cmocka_unit_test(test_a_second_user),
		cmocka_unit_test(test_who_may_carry_whose),
		cmocka_unit_test(test_a_holder_without_a_number),
	};

	have_netns = netns_enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
