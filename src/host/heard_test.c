/* SPDX-License-Identifier: BSD-2-Clause */
/* Which process may speak for a slot, on connections that outlive its hold on the
 * slot. */
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/fix.h"
#include "host/msg.h"
#include "host/name.h"

enum { NOBODY = 65534 };

static unsigned said;

static void on_said(void *arg, struct host_said *s)
{
	(void)arg, (void)s;
	said++;
}

/* Connects to a as the owner of slot, from this process and its current user. */
static int greet_as(struct side *a, uint16_t slot)
{
	int fd = name_connect(host_slot(a->host));
	struct sent_hello hello;

	put_hello(&hello, slot);
	if (send(fd, &hello, sizeof(hello), 0) != sizeof(hello))
		_exit(1);
	return fd;
}

static void say(int fd)
{
	struct {
		struct msg_head head;
		uint8_t body[HOST_PIPE_LEN];
	} m = { .head = msg_head(&host_table, HOST_PIPE) };

	if (send(fd, &m, sizeof(m), 0) != sizeof(m))
		_exit(1);
}

static void expect_said(struct side *a, unsigned n, uint64_t refused)
{
	run(a);
	assert_int_equal(said, n);
	assert_int_equal(host_stats(a->host)->refused, refused);
}

/* A connection outlives its process's hold on the slot, which another process or another
 * user has taken. */
static void test_who_had_the_slot(void **state)
{
	const struct host_ops with = { .datagram = on_datagram,
				       .gone = on_gone,
				       .said = on_said };
	struct side a = { 0 };
	int owner, first, second, third, ready[2];
	uint16_t slot;
	pid_t pid;

	(void)state;
	need_netns();
	if (geteuid())
		skip();
	said = 0;
	assert_int_equal(host_open(&a.host, &with, &a), 0);
	slot = host_slot(a.host) == 9 ? 10 : 9;
	owner = name_listen(slot);
	first = greet_as(&a, slot);
	run(&a);
	second = greet_as(&a, slot);
	say(first);
	say(second);
	expect_said(&a, 2, 0);
	close(first);
	close(owner);
	expect_said(&a, 2, 0);
	say(second); /* nobody has the slot */
	expect_said(&a, 2, 1);
	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		name_listen(slot);
		say(greet_as(&a, slot));
		stay_ready(ready);
	}
	wait_ready(ready);
	expect_said(&a, 3, 1);
	say(second); /* another process has it */
	expect_said(&a, 3, 2);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	run(&a);
	assert_int_equal(seteuid(NOBODY), 0);
	owner = name_listen(slot);
	third = greet_as(&a, slot);
	assert_int_equal(seteuid(0), 0);
	say(third);
	expect_said(&a, 4, 2);
	say(second); /* this process has it, as another user */
	expect_said(&a, 4, 3);
	close(third);
	close(owner);
	close(second);
	host_close(a.host);
}

/* The owner of a slot answers for another slot. */
static void test_an_answer_for_another_slot(void **state)
{
	struct sent_hello hello;
	struct side a;
	int owner, fd;
	uint16_t slot;

	(void)state;
	need_netns();
	begin(&a);
	slot = host_slot(a.host) == 9 ? 10 : 9;
	owner = name_listen(slot);
	assert_int_equal(host_connect(a.host, slot), 0);
	fd = accept(owner, NULL, NULL);
	put_hello(&hello, slot);
	assert_int_equal(send(fd, &hello, sizeof(hello), 0), sizeof(hello));
	run(&a);
	assert_int_equal(host_stats(a.host)->refused, 0);
	close(fd);
	run(&a);
	assert_int_equal(a.gone, 1);
	assert_int_equal(host_connect(a.host, slot), 0);
	fd = accept(owner, NULL, NULL);
	put_hello(&hello, (uint16_t)(slot + 20));
	assert_int_equal(send(fd, &hello, sizeof(hello), 0), sizeof(hello));
	run(&a);
	assert_int_equal(host_stats(a.host)->refused, 1);
	assert_int_equal(a.gone, 2);
	close(fd);
	close(owner);
	host_close(a.host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_who_had_the_slot),
		cmocka_unit_test(test_an_answer_for_another_slot),
	};

	enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
