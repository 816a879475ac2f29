/* SPDX-License-Identifier: BSD-2-Clause */
/* While descriptors of one user cannot be closed, nothing more is read from that user.
 * Other users are heard, and the end of a process of that user is noticed. */
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/syscall.h>

#include "host/fds_fix.h"
#include "host/service.h"

/* Says something on its connection for each byte that it is told. */
static int told;

static void third(void)
{
	int fd = name_connect(host_slot(a.host));
	struct sent_hello hello;
	char byte;

	put_hello(&hello, host_slot(a.host) == 11 ? 12 : 11);
	if (fd < 0 || send(fd, &hello, sizeof(hello), 0) != sizeof(hello))
		_exit(1);
	if (fork())
		return;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (read(told, &byte, 1) == 1)
		(void)!send(fd, "x", 1, 0);
	_exit(0);
}

static void send_three(void)
{
	int fd = name_connect(host_slot(a.host));

	for (int j = 0; j < 3; j++)
		send_stuck(fd, "x", 1, MSG_FDS_SENT);
}

/* While nothing more is read from a user whose descriptors cannot be closed, other
 * users' processes are heard and can connect; processes that come and go leave no
 * descriptors behind. */
static void test_another_is_heard(void **state)
{
	pid_t hangs, is_third;
	uint64_t refused;
	int p[2];

	(void)state;
	assert_int_equal(pipe2(p, O_CLOEXEC), 0);
	told = p[0];
	is_third = as_user(DAEMON, third);
	run(&a);
	hangs = another_user(send_three);
	run(&a);
	assert_int_equal(closer_is_full_of(anothers_uid), older);
	assert_false(a.host->deaf);
	refused = host_stats(a.host)->refused;
	assert_int_equal(write(p[1], "", 1), 1);
	while (host_stats(a.host)->refused == refused)
		run_next(&a);
	/* what it said is no message of urnic's */
	assert_int_equal(host_stats(a.host)->refused, refused + 1);
	for (int i = 0; i < CLOSER_ALL; i++) {
		int fd = name_connect(host_slot(a.host));

		assert_int_equal(send(fd, "x", 1, 0), 1);
		close(fd);
		run(&a);
	}
	expect_another_gets_in();
	assert_true(stuck_unnoticed(&stuck));
	end_of(hangs);
	/* The connection is read again, and ends. */
	while (a.host->nstrangers > 1) {
		poll(&(struct pollfd){ .fd = host_fd(a.host), .events = POLLIN }, 1, -1);
		host_run(a.host);
	}
	host_close(a.host);
	kill(is_third, SIGKILL);
	assert_int_equal(waitpid(is_third, NULL, 0), is_third);
	close(p[0]);
	close(p[1]);
}

static uint16_t held;

/* Connects to a as a process that has slot held. */
static int listen_and_greet(int *listener)
{
	struct sent_hello hello;
	int fd;

	*listener = name_listen(held);
	fd = name_connect(host_slot(a.host));
	put_hello(&hello, held);
	return *listener >= 0 && send(fd, &hello, sizeof(hello), 0) == sizeof(hello) ? fd
										     : -1;
}

static void hold_slot(void)
{
	int listener;

	if (listen_and_greet(&listener) < 0)
		_exit(1);
}

/* A connection of a user whose descriptors cannot be closed is not read. Its end is
 * noticed all the same, and the next process gets the slot. */
static void test_a_slot_changes_hands(void **state)
{
	pid_t owner, hangs;
	int listener, fd;

	(void)state;
	held = host_slot(a.host) == 13 ? 14 : 13;
	owner = another_user(hold_slot);
	run(&a);
	assert_non_null(a.host->by_slot[held]);
	if (!stuck_begin(&stuck))
		skip();
	hangs = another_user(send_three);
	run(&a);
	assert_int_equal(closer_is_full_of(anothers_uid), older);
	kill(owner, SIGKILL);
	assert_int_equal(waitpid(owner, NULL, 0), owner);
	while (!a.gone)
		run_next(&a);
	assert_int_equal(a.gone, 1);
	assert_int_equal(a.gone_slot, held);
	fd = listen_and_greet(&listener);
	assert_true(fd >= 0);
	run(&a);
	assert_non_null(a.host->by_slot[held]);
	assert_int_equal(a.host->by_slot[held]->pid, getpid());
	/* the old connection is heard again, and its end is not the slot's */
	end_of(hangs);
	while (a.host->nforeign)
		run_next(&a);
	assert_int_equal(a.host->nforeign, 0);
	assert_int_equal(a.gone, 1);
	assert_non_null(a.host->by_slot[held]);
	close(fd);
	close(listener);
	host_close(a.host);
}

/* Descriptors from processes of this user are closed at once; they do not wait behind
 * another user's that cannot be closed. */
static void test_of_this_user(void **state)
{
	pid_t hangs = another_user(send_three);
	uint8_t body[HOST_PIPE_LEN] = { 0 };
	const struct iovec iov = { body, sizeof(body) };

	(void)state;
	run(&a);
	assert_int_equal(closer_is_full_of(anothers_uid), older);
	for (int i = 0; i < CLOSER_ALL; i++) {
		int fd = name_connect(host_slot(a.host)), rc;

		run(&a); /* from now on descriptors are taken */
		rc = msg_send(fd, &host_table, HOST_PIPE, &iov, 1, &(int){ STDIN_FILENO },
			      1, false);
		assert_int_equal(rc, 0);
		run(&a);
		close(fd);
		run(&a);
	}
	assert_false(closer_is_full_of(geteuid()));
	assert_false(a.host->deaf);
	end_of(hangs);
	host_close(a.host);
}

/* --- an epoll set that takes nothing more (fs.epoll.max_user_watches) -------------- */

static unsigned fails_at; /* this call and those after it; 0: none */

int epoll_ctl(int epfd, int op, int fd, struct epoll_event *ev)
{
	if (op == EPOLL_CTL_ADD && fails_at && --fails_at == 0) {
		fails_at = 1;
		errno = ENOSPC;
		return -1;
	}
	return (int)syscall(SYS_epoll_ctl, epfd, op, fd, ev);
}

/* A connection that was not read for a while is put back into the epoll set, even if the
 * first try finds no room there. Meanwhile the set is not readable, so the thread
 * sleeps. */
static void test_no_room_in_the_set(void **state)
{
	struct service *s;
	uint64_t tried;

	(void)state;
	assert_int_equal(service_bind(a.host, "urnic-test/unheard", &s), 0);
	for (unsigned at = 1; at <= 2; at++) {
		int fd;

		host_stop_hearing(a.host, NULL);
		assert_true(a.host->deaf);
		fails_at = at;
		tried = a.host->alarm_at;
		while (a.host->alarm_at == tried)
			run_next(&a);
		assert_int_equal(fails_at, 1);
		assert_true(a.host->deaf);
		fd = name_connect(host_slot(a.host));
		assert_int_equal(poll(&(struct pollfd){ .fd = host_fd(a.host),
							.events = POLLIN },
				      1, 0),
				 0);
		close(fd);
		fails_at = 0;
		while (a.host->deaf)
			run_next(&a);
		assert_false(a.host->deaf);
		expect_another_gets_in();
	}
	service_close(s);
	host_close(a.host);
}

static int run_all(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_another_is_heard, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_a_slot_changes_hands, set_up_without,
						tear_down),
		cmocka_unit_test_setup_teardown(test_of_this_user, set_up, tear_down),
		cmocka_unit_test_setup(test_no_room_in_the_set, set_up_without),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	return run_on_both(run_all);
}
