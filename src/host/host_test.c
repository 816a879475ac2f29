/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/fix.h"
#include "host/name.h"

static void test_forward(void **state)
{
	struct side a, b;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	assert_int_not_equal(host_slot(a.host), host_slot(b.host));
	assert_in_range(host_slot(a.host), SLOT_FIRST, SLOT_LAST);
	assert_int_equal(forward(&a, host_slot(b.host), "hello"), 0);
	run(&b);
	assert_int_equal(b.got, 1);
	assert_memory_equal(b.data, "hello", 5);
	assert_int_equal(b.last.len, 5);
	assert_int_equal(ip_of(&b.last)->from.port, 49999);
	assert_int_equal(ip_of(&b.last)->to.port, 4791);
	assert_int_equal(ip_of(&b.last)->from.ip[15], 1);
	assert_int_equal(ip_of(&b.last)->to.ip[15], 2);
	assert_int_equal(ip_of(&b.last)->tclass, 5);
	assert_int_equal(ip_of(&b.last)->ttl, 60);
	assert_int_equal(ip_of(&b.last)->ifindex, 3);
	assert_int_equal(b.last.ip_id, 12);
	assert_int_equal(host_stats(a.host)->forwarded, 1);
	assert_int_equal(host_stats(b.host)->received, 1);
	host_close(a.host);
	host_close(b.host);
}

static void test_one_connection_serves_both_directions(void **state)
{
	struct side a, b;
	unsigned fds;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	assert_int_equal(forward(&a, host_slot(b.host), "there"), 0);
	run(&b);
	fds = open_fds();
	assert_int_equal(forward(&b, host_slot(a.host), "back"), 0);
	run(&a);
	assert_int_equal(a.got, 1);
	assert_int_equal(open_fds(), fds);
	host_close(a.host);
	run(&b);
	assert_int_equal(b.gone, 1);
	assert_int_not_equal(b.gone_slot, 0);
	host_close(b.host);
}

static struct {
	uint16_t slot;
	size_t len;
	char bytes[16];
} passed;

static void on_said(void *arg, struct host_said *s)
{
	(void)arg;
	passed.slot = s->slot;
	passed.len = s->len;
	memcpy(passed.bytes, s->buf, s->len < sizeof(passed.bytes) ? s->len : 0);
}

static int pass(struct side *from, uint16_t slot, const struct iovec *part, unsigned n)
{
	return host_say(from->host, slot, HOST_XRC, part, n, NULL, 0);
}

static void test_what_is_passed_on(void **state)
{
	static char much[HOST_XRC_MAX];
	struct iovec part[2] = { { (char[]){ "two" }, 3 }, { (char[]){ "parts" }, 6 } };
	const struct iovec all = { much, sizeof(much) }, none = { NULL, 8 };
	struct host_ops with;
	struct side a, b;
	int rc;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	with = ops;
	with.said = on_said;
	host_close(b.host);
	assert_int_equal(host_open(&b.host, &with, &b), 0);
	assert_int_equal(pass(&a, host_slot(b.host), part, 2), 0);
	run(&b);
	assert_int_equal(passed.slot, host_slot(a.host));
	assert_int_equal(passed.len, 9);
	assert_string_equal(passed.bytes, "twoparts");
	assert_int_equal(pass(&a, host_slot(b.host), &all, 1), 0);
	run(&b);
	assert_int_equal(passed.len, sizeof(much));
	assert_int_equal(pass(&a, host_slot(b.host), &none, 1), -EFAULT);
	do
		rc = pass(&a, host_slot(b.host), &all, 1);
	while (!rc);
	assert_int_equal(rc, -EAGAIN);
	assert_int_equal(pass(&b, host_slot(a.host), part, 2), 0);
	run(&a); /* b takes no such messages */
	assert_int_equal(host_stats(a.host)->refused, 1);
	assert_int_equal(pass(&a, 1000, part, 2), -ESRCH);
	host_close(a.host);
	host_close(b.host);
}

/* A process ends with messages unread: its last messages count. */
static void test_last_words(void **state)
{
	struct side a, b;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	assert_int_equal(forward(&a, host_slot(b.host), "hello"), 0);
	run(&b);
	assert_int_equal(forward(&a, host_slot(b.host), "farewell"), 0);
	assert_int_equal(forward(&b, host_slot(a.host), "unread"), 0);
	host_close(a.host);
	run(&b);
	assert_int_equal(b.got, 2);
	assert_int_equal(b.gone, 1);
	host_close(b.host);
}

/* The process ends before it is greeted. */
static void test_only_words(void **state)
{
	struct side a, b;
	unsigned fds;

	(void)state;
	need_netns();
	begin(&b);
	fds = open_fds();
	begin(&a);
	assert_int_equal(forward(&a, host_slot(b.host), "hello"), 0);
	assert_int_equal(forward(&a, host_slot(b.host), "farewell"), 0);
	host_close(a.host);
	run(&b);
	assert_int_equal(b.got, 2);
	assert_memory_equal(b.data, "farewell", 8);
	assert_int_equal(open_fds(), fds);
	host_close(b.host);
}

/* a finds out that the process has ended before it reads the last messages. */
static void test_last_words_to_one_who_writes(void **state)
{
	struct side a, b;
	unsigned fds;
	uint16_t slot;

	(void)state;
	need_netns();
	begin(&b);
	fds = open_fds();
	begin(&a);
	slot = host_slot(a.host);
	assert_int_equal(forward(&a, host_slot(b.host), "hello"), 0);
	run(&b);
	assert_int_equal(forward(&a, host_slot(b.host), "farewell"), 0);
	host_close(a.host);
	assert_int_equal(forward(&b, slot, "anybody?"), -ESRCH);
	assert_int_equal(pass(&b, slot, &(struct iovec){ "x", 1 }, 1), -ESRCH);
	run(&b);
	assert_int_equal(b.got, 2);
	assert_int_equal(b.gone, 1);
	assert_int_equal(open_fds(), fds);
	host_close(b.host);
}

static void test_no_such_slot(void **state)
{
	struct side a;
	uint16_t other;
	uid_t uid;
	pid_t pid;

	(void)state;
	need_netns();
	begin(&a);
	other = host_slot(a.host) == 5 ? 6 : 5;
	assert_int_equal(forward(&a, other, "nobody"), -ESRCH);
	assert_int_equal(forward(&a, other, "nobody"), -ESRCH);
	assert_int_equal(forward(&a, 0, "nobody"), -ESRCH);
	assert_int_equal(forward(&a, 1023, "nobody"), -ESRCH);
	assert_int_equal(forward(&a, host_slot(a.host), "myself"), -ESRCH);
	assert_int_equal(host_cred(a.host, other, &uid, &pid), -ESRCH);
	assert_true(host_is_free(a.host, other));
	assert_true(host_is_free(a.host, 0));
	assert_false(host_is_free(a.host, host_slot(a.host)));
	assert_int_equal(host_stats(a.host)->dropped_gone, 5);
	host_close(a.host);
}

/* The result is the process at the other end of the connection that is used from then
 * on. */
static void test_cred(void **state)
{
	struct side a, b;
	uid_t uid = 1;
	pid_t pid = 0;
	unsigned fds;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	fds = open_fds();
	assert_int_equal(host_cred(a.host, host_slot(b.host), &uid, &pid), 0);
	assert_int_equal(uid, geteuid());
	assert_int_equal(pid, getpid());
	run(&b);
	assert_int_equal(open_fds(), fds + 2); /* the two ends of the connection */
	assert_int_equal(host_stats(b.host)->refused, 0);
	assert_int_equal(forward(&a, host_slot(b.host), "hello"), 0);
	run(&b);
	assert_int_equal(b.got, 1);
	assert_int_equal(open_fds(), fds + 2);
	host_close(a.host);
	host_close(b.host);
}

/* A process has ended, and nothing that its connection says was read since. */
static void test_gone_when_looked_at(void **state)
{
	struct side a, b;
	uint16_t slot;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	slot = host_slot(b.host);
	assert_int_equal(host_connect(a.host, slot), 0);
	run(&b);
	run(&a);
	host_look(a.host, slot);
	host_look(a.host, SLOT_LAST);
	assert_int_equal(a.gone, 0);
	assert_int_equal(forward(&b, host_slot(a.host), "last"), 0);
	host_close(b.host);
	host_look(a.host, slot);
	assert_int_equal(a.gone, 1);
	assert_int_equal(a.gone_slot, slot);
	assert_int_equal(a.got, 1); /* its last words come first */
	host_look(a.host, slot);
	run(&a);
	assert_int_equal(a.gone, 1);
	host_close(a.host);
}

static void test_gone_and_back(void **state)
{
	struct side a, b;
	uint16_t slot;
	int fd, rc;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	slot = host_slot(b.host);
	assert_int_equal(host_connect(a.host, slot), 0);
	run(&b);
	host_close(b.host);
	run(&a);
	assert_int_equal(a.gone, 1);
	assert_int_equal(a.gone_slot, slot);
	assert_int_equal(forward(&a, slot, "late"), -ESRCH);
	fd = name_listen(slot); /* a new owner */
	assert_true(fd >= 0);
	do /* for a moment the last answer is remembered */
		rc = forward(&a, slot, "again");
	while (rc == -ESRCH);
	assert_int_equal(rc, 0);
	close(fd);
	/* Found out while sending, but the owner's last messages come first. */
	assert_int_equal(forward(&a, slot, "more"), -ESRCH);
	assert_int_equal(a.gone, 1);
	run(&a);
	assert_int_equal(a.gone, 2);
	host_close(a.host);
}

static void test_full_peer_does_not_block(void **state)
{
	struct side a, b;
	int rc = 0, n = 0;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	for (; rc == 0 && n < 1000000; n++)
		rc = forward(&a, host_slot(b.host), "some datagram");
	assert_int_equal(rc, -EAGAIN);
	assert_int_equal(host_stats(a.host)->dropped_full, 1);
	run(&b);
	assert_int_equal(b.got, n - 1);
	assert_int_equal(forward(&a, host_slot(b.host), "again"), 0);
	assert_int_equal(a.gone, 0);
	host_close(a.host);
	host_close(b.host);
}

static void test_a_run_is_bounded(void **state)
{
	struct side a, b;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	for (int i = 0; i < 100; i++)
		assert_int_equal(forward(&a, host_slot(b.host), "datagram"), 0);
	for (int i = 0; i < 3; i++)
		host_run(b.host);
	assert_in_range(b.got, 1, 99);
	run(&b);
	assert_int_equal(b.got, 100);
	host_close(a.host);
	host_close(b.host);
}

static void test_many_processes(void **state)
{
	enum { N = 300 };
	struct side a;
	static struct side s[N];

	(void)state;
	need_netns();
	begin(&a);
	for (int i = 0; i < N; i++) {
		begin(&s[i]);
		assert_int_equal(forward(&s[i], host_slot(a.host), "hi"), 0);
	}
	run(&a);
	assert_int_equal(a.got, N);
	for (int i = 0; i < N; i++) {
		assert_int_equal(forward(&a, host_slot(s[i].host), "ho"), 0);
		run(&s[i]);
		assert_int_equal(s[i].got, 1);
		host_close(s[i].host);
	}
	run(&a);
	assert_int_equal(a.gone, N);
	host_close(a.host);
}

static void test_fork(void **state)
{
	struct side a, b;
	int status, ready[2];
	pid_t pid;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	assert_int_equal(forward(&a, host_slot(b.host), "before"), 0);
	run(&b);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		host_forked(a.host);
		host_forked(b.host);
		stay_ready(ready);
	}
	wait_ready(ready);
	assert_int_equal(forward(&a, host_slot(b.host), "after"), 0);
	run(&b);
	assert_int_equal(b.got, 2);
	assert_int_equal(b.gone, 0);
	/* The name is released with the parent's close, though the child lives. */
	host_close(b.host);
	run(&a);
	assert_int_equal(a.gone, 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	host_close(a.host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_forward),
		cmocka_unit_test(test_one_connection_serves_both_directions),
		cmocka_unit_test(test_what_is_passed_on),
		cmocka_unit_test(test_last_words),
		cmocka_unit_test(test_only_words),
		cmocka_unit_test(test_last_words_to_one_who_writes),
		cmocka_unit_test(test_no_such_slot),
		cmocka_unit_test(test_cred),
		cmocka_unit_test(test_gone_when_looked_at),
		cmocka_unit_test(test_gone_and_back),
		cmocka_unit_test(test_full_peer_does_not_block),
		cmocka_unit_test(test_a_run_is_bounded),
		cmocka_unit_test(test_many_processes),
		cmocka_unit_test(test_fork),
	};

	enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
