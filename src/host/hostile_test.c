/* SPDX-License-Identifier: BSD-2-Clause */
/* Squatters, strangers, liars and other users; and too many of them. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/fix.h"
#include "host/msg.h"
#include "host/name.h"
#include "sys/users_testing.h"

enum { NOBODY = 65534 };

static void test_squatted_names_are_skipped(void **state)
{
	static int fd[SLOT_LAST + 1];
	struct side a, other;

	(void)state;
	need_netns();
	for (uint16_t i = SLOT_FIRST; i <= SLOT_NAMED; i++) {
		fd[i] = i == 321 ? -1 : name_listen(i);
		assert_true(i == 321 || fd[i] >= 0);
	}
	begin(&a);
	assert_int_equal(host_slot(a.host), 321);
	begin(&other); /* see reserve_test.c */
	assert_true(host_slot(other.host) > SLOT_NAMED);
	host_close(other.host);
	/* Messages to a squatter are sent like any others, and never block. */
	for (int i = 0; i < 100000; i++)
		if (forward(&a, 7, "for a squatter") == -EAGAIN)
			break;
	assert_int_equal(host_stats(a.host)->dropped_full, 1);
	for (uint16_t i = SLOT_FIRST; i <= SLOT_NAMED; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	host_close(a.host);
}

/* Expects the connection to be closed and counted: at the other end is nothing but an
 * answer to a greeting, and the end. */
static void expect_closed(struct side *a, int fd, uint64_t refused)
{
	struct sent_hello answer;
	ssize_t n;

	run(a);
	assert_int_equal(host_stats(a->host)->refused, refused);
	errno = 0;
	do
		n = recv(fd, &answer, sizeof(answer), MSG_DONTWAIT);
	while (n == sizeof(answer));
	assert_true(n <= 0 && errno != EAGAIN);
	close(fd);
}

static int stranger(struct side *a, const void *msg, size_t len)
{
	int fd = name_connect(host_slot(a->host));

	assert_true(fd >= 0);
	assert_int_equal(send(fd, msg, len, MSG_NOSIGNAL), len);
	return fd;
}

/* A slot that none of the two has: slots are drawn. */
static uint16_t slot_of_nobody(const struct side *a, const struct side *b)
{
	uint16_t slot = 9;

	while (slot == host_slot(a->host) || slot == host_slot(b->host))
		slot++;
	return slot;
}

static void test_garbage_closes_the_connection(void **state)
{
	struct {
		struct sent_dgram m;
		uint8_t data[70000];
	} big = { 0 };
	struct sent_hello hello;
	struct side a, b;
	int fd;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	assert_int_equal(forward(&b, host_slot(a.host), "before"), 0);
	expect_closed(&a, stranger(&a, "GET / HTTP/1.0\r\n", 16), 1);
	put_hello(&hello, 9);
	expect_closed(&a, stranger(&a, &hello, 5), 2);
	hello.head.version = 9;
	expect_closed(&a, stranger(&a, &hello, sizeof(hello)), 3);
	/* A greeting with a's own slot. */
	put_hello(&hello, host_slot(a.host));
	expect_closed(&a, stranger(&a, &hello, sizeof(hello)), 4);
	/* A second greeting, where a datagram ought to be: 5 is the claim. */
	put_hello(&hello, slot_of_nobody(&a, &b));
	fd = stranger(&a, &hello, sizeof(hello));
	assert_int_equal(send(fd, &hello, sizeof(hello), 0), sizeof(hello));
	expect_closed(&a, fd, 6);
	/* A message longer than any valid one. */
	big.m.head = msg_head(&host_table, HOST_DGRAM);
	fd = stranger(&a, &hello, sizeof(hello));
	assert_int_equal(send(fd, &big, sizeof(big), 0), sizeof(big));
	expect_closed(&a, fd, 8);
	/* Other processes are not affected. */
	assert_int_equal(forward(&b, host_slot(a.host), "after"), 0);
	run(&a);
	assert_int_equal(a.got, 2);
	assert_int_equal(a.gone, 0);
	host_close(a.host);
	host_close(b.host);
}

/* A process that claims another's slot does not get messages for that slot. */
static void test_a_false_claim_is_not_believed(void **state)
{
	struct side a, b;
	struct sent_hello hello;
	int claims[2], delivered[2], status;
	char byte = 0;
	pid_t pid;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	assert_int_equal(pipe(claims), 0);
	assert_int_equal(pipe(delivered), 0);
	pid = users_fork();
	if (pid == 0) {
		int fd = name_connect(host_slot(a.host));

		put_hello(&hello, host_slot(b.host));
		send(fd, &hello, sizeof(hello), 0);
		if (write(claims[1], "", 1) != 1 || read(delivered[0], &byte, 1) != 1 ||
		    recv(fd, &hello, sizeof(hello), 0) != sizeof(hello))
			_exit(1);
		_exit(recv(fd, &byte, 1, MSG_DONTWAIT) < 0 ? 0 : 1);
	}
	assert_int_equal(read(claims[0], &byte, 1), 1);
	run(&a);
	assert_int_equal(host_stats(a.host)->refused, 1);
	assert_int_equal(forward(&a, host_slot(b.host), "for b"), 0);
	run(&b);
	assert_int_equal(b.got, 1);
	assert_int_equal(write(delivered[1], "", 1), 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	for (int i = 0; i < 2; i++) {
		close(claims[i]);
		close(delivered[i]);
	}
	host_close(a.host);
	host_close(b.host);
}

/* Forks a process that has slot, greets a and sends n datagrams. */
static pid_t owner_of(uint16_t slot, struct side *a, int n)
{
	struct sent_hello hello;
	struct sent_dgram head = { .head = msg_head(&host_table, HOST_DGRAM) };
	uint8_t buf[sizeof(head) + 1] = { 0 };
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = users_fork();
	if (pid == 0) {
		int fd;

		if (name_listen(slot) < 0)
			_exit(1);
		fd = name_connect(host_slot(a->host));
		put_hello(&hello, slot);
		memcpy(buf, &head, sizeof(head));
		(void)!send(fd, &hello, sizeof(hello), 0);
		for (int i = 0; i < n; i++)
			(void)!send(fd, buf, sizeof(buf), 0);
		stay_ready(ready);
	}
	wait_ready(ready);
	return pid;
}

/* The former owner of the slot has ended, and not all its messages were read yet. */
static void test_who_takes_the_slot_of_a_dead_process(void **state)
{
	enum { BEFORE = 100 };
	struct side a;
	uint16_t slot;
	pid_t pid;

	(void)state;
	need_netns();
	begin(&a);
	slot = host_slot(a.host) == 9 ? 10 : 9;
	pid = owner_of(slot, &a, BEFORE);
	while (a.got == 0)
		host_run(a.host);
	assert_in_range(a.got, 1, BEFORE - 50);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	pid = owner_of(slot, &a, 1);
	run_until(&a, BEFORE + 1);
	assert_int_equal(a.got, BEFORE + 1);
	assert_int_equal(a.gone, 1);
	assert_int_equal(host_stats(a.host)->refused, 0);
	/* Messages go to the second owner, and its end is reported. */
	assert_int_equal(forward(&a, slot, "for the second"), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	run(&a);
	assert_int_equal(a.gone, 2);
	host_close(a.host);
}

static void test_another_user_is_heard_only_on_request(void **state)
{
	struct side a, b;
	uid_t me = geteuid();
	int status;
	pid_t pid;

	(void)state;
	need_netns();
	begin(&a);
	host_accept_foreign(a.host, &(uid_t){ NOBODY + 1 }, 1);
	pid = users_fork();
	if (pid == 0) {
		users_become(NOBODY);
		memset(&b, 0, sizeof(b));
		if (host_open(&b.host, &ops, &b))
			_exit(1);
		host_accept_foreign(b.host, &me, 1);
		forward(&b, host_slot(a.host), "one");
		run_until(&b, 1); /* its answer */
		if (b.got != 1)
			_exit(2);
		forward(&b, host_slot(a.host), "two");
		forward(&b, host_slot(a.host), "three");
		_exit(0);
	}
	while (host_stats(a.host)->refused == 0) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			host_close(a.host);
			assert_int_equal(WEXITSTATUS(status), 77);
			fprintf(stderr, "SKIPPED: cannot become another user\n");
			skip();
		}
		sched_yield();
		run(&a);
	}
	assert_int_equal(a.got, 0);
	assert_int_equal(host_stats(a.host)->refused, 1);
	host_accept_foreign(a.host, &(uid_t){ NOBODY }, 1);
	for (uint16_t slot = SLOT_FIRST; slot <= SLOT_LAST; slot++) {
		uid_t uid;
		pid_t who;

		if (slot == host_slot(a.host) || host_cred(a.host, slot, &uid, &who))
			continue;
		assert_int_equal(uid, NOBODY);
		assert_int_equal(who, pid);
		/* It hears only its own, or says so. */
		assert_int_equal(forward(&a, slot, "to you"), 0);
	}
	run_until(&a, 2);
	assert_int_equal(a.got, 2);
	assert_memory_equal(a.data, "three", 5);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	host_close(a.host);
}

static void test_out_of_descriptors(void **state)
{
	struct rlimit old, low;
	struct side a;
	struct pollfd p = { .events = POLLIN };
	static int full[2048];
	int fd[4], n = 0;
	bool refused = false;

	(void)state;
	need_netns();
	begin(&a);
	for (int i = 0; i < 4; i++)
		fd[i] = name_connect(host_slot(a.host));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 2048;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	while ((full[n] = dup(0)) >= 0)
		n++;
	for (int i = 0; i < 10; i++)
		host_run(a.host);
	p.fd = host_fd(a.host);
	/* The listening socket does not stay readable, which would be a busy loop. */
	assert_int_equal(poll(&p, 1, 0), 0);
	refused = host_stats(a.host)->refused > 0;
	while (n > 0)
		close(full[--n]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_true(refused);
	assert_int_equal(forward(&a, host_slot(a.host) == 9 ? 10 : 9, "x y"), -ESRCH);
	for (int i = 0; i < 4; i++)
		close(fd[i]);
	host_close(a.host);
}

/* A process without descriptors left closes connections. It is unreachable, but it
 * lives. */
static void test_who_closes_connections_has_its_slot(void **state)
{
	struct side a;
	uint16_t slot;
	int owner;

	(void)state;
	need_netns();
	begin(&a);
	slot = host_slot(a.host) == 9 ? 10 : 9;
	owner = name_listen(slot);
	assert_true(owner >= 0);
	assert_int_equal(forward(&a, slot, "first"), 0);
	close(accept(owner, NULL, NULL));
	assert_int_equal(forward(&a, slot, "second"), -ESRCH);
	assert_false(host_is_free(a.host, slot));
	close(owner);
	assert_true(host_is_free(a.host, slot));
	host_close(a.host);
}

/* --- another user's connections ------------------------------------------ */

enum { CROWD = 1500, DAEMON = 1 };

/* As user uid: connects many times to a, with a greeting or without, and waits. */
static pid_t crowd(struct side *a, uid_t uid, bool greet, int n)
{
	int ready[2];
	pid_t pid;
	char byte;

	assert_int_equal(pipe(ready), 0);
	pid = users_fork();
	if (pid == 0) {
		struct sent_hello hello;
		struct side own;

		users_become(uid);
		memset(&own, 0, sizeof(own));
		if (host_open(&own.host, &ops, &own))
			_exit(1);
		put_hello(&hello, host_slot(own.host));
		for (int i = 0; i < n; i++) {
			int fd;

			do
				fd = name_connect(host_slot(a->host));
			while (fd == -EAGAIN && sched_yield() == 0);
			if (fd >= 0 && greet)
				(void)!send(fd, &hello, sizeof(hello), MSG_NOSIGNAL);
		}
		(void)!write(ready[1], "", 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	for (;;) { /* its backlog is not endless */
		struct pollfd p = { .fd = ready[0], .events = POLLIN };

		run(a);
		if (poll(&p, 1, 1) > 0)
			break;
	}
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	run(a);
	return pid;
}

static void end_of(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* A process of the third user is heard, and its datagram arrives. */
static void expect_another_gets_in(struct side *a)
{
	unsigned want = a->got + 1;
	int heard[2], status;
	pid_t pid;

	assert_int_equal(pipe(heard), 0);
	host_accept_foreign(a->host, &(uid_t){ DAEMON }, 1);
	pid = users_fork();
	if (pid == 0) {
		struct side own = { 0 };
		char byte;

		users_become(DAEMON);
		if (host_open(&own.host, &ops, &own))
			_exit(1);
		while (forward(&own, host_slot(a->host), "let me in"))
			sched_yield();
		_exit(read(heard[0], &byte, 1) == 1 ? 0 : 1);
	}
	run_until(a, want);
	assert_int_equal(a->got, want);
	assert_int_equal(write(heard[1], "", 1), 1);
	close(heard[0]);
	close(heard[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

static void test_connections_that_say_nothing(void **state)
{
	struct side a;
	unsigned before;
	pid_t pid;

	(void)state;
	need_netns();
	if (geteuid())
		skip();
	begin(&a);
	before = open_fds();
	pid = crowd(&a, NOBODY, false, CROWD);
	assert_true(open_fds() <= before + 64);
	expect_another_gets_in(&a);
	end_of(pid);
	run(&a);
	host_close(a.host);
}

/* Connects to a as uid; a accepts. */
static int connect_as(struct side *a, uid_t uid)
{
	int fd;

	assert_int_equal(seteuid(uid), 0);
	fd = name_connect(host_slot(a->host));
	assert_int_equal(seteuid(0), 0);
	assert_true(fd >= 0);
	run(a);
	return fd;
}

static bool is_closed(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

/* The oldest connection of the user who has most makes room, not the oldest of all. */
static void test_who_makes_room(void **state)
{
	enum { FEW = 10, ALL = 64 };
	struct side a;
	int fd[ALL], more;

	(void)state;
	need_netns();
	if (geteuid())
		skip();
	begin(&a);
	for (int i = 0; i < ALL; i++)
		fd[i] = connect_as(&a, i < FEW ? DAEMON : NOBODY);
	for (int i = 0; i < ALL; i++)
		assert_false(is_closed(fd[i]));
	more = connect_as(&a, DAEMON);
	for (int i = 0; i < ALL; i++)
		assert_int_equal(is_closed(fd[i]), i == FEW);
	assert_false(is_closed(more));
	close(more);
	for (int i = 0; i < ALL; i++)
		close(fd[i]);
	host_close(a.host);
}

static void test_connections_of_one_who_has_a_slot(void **state)
{
	struct rlimit old, low;
	struct side a;
	unsigned before;
	pid_t pid[3];

	(void)state;
	need_netns();
	if (geteuid())
		skip();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = 1024;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	begin(&a);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	before = open_fds();
	pid[0] = crowd(&a, NOBODY, true, CROWD);
	assert_in_range(open_fds() - before, 200, 256);
	expect_another_gets_in(&a);
	/* Nor do more of them. */
	pid[1] = crowd(&a, NOBODY - 1, true, CROWD);
	pid[2] = crowd(&a, NOBODY - 2, true, CROWD);
	assert_in_range(open_fds() - before, 400, 512);
	expect_another_gets_in(&a);
	for (int i = 0; i < 3; i++)
		end_of(pid[i]);
	run(&a);
	host_close(a.host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_squatted_names_are_skipped),
		cmocka_unit_test(test_garbage_closes_the_connection),
		cmocka_unit_test(test_a_false_claim_is_not_believed),
		cmocka_unit_test(test_who_takes_the_slot_of_a_dead_process),
		cmocka_unit_test(test_another_user_is_heard_only_on_request),
		cmocka_unit_test(test_out_of_descriptors),
		cmocka_unit_test(test_who_closes_connections_has_its_slot),
		cmocka_unit_test(test_connections_that_say_nothing),
		cmocka_unit_test(test_who_makes_room),
		cmocka_unit_test(test_connections_of_one_who_has_a_slot),
	};

	enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
