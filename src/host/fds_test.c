/* SPDX-License-Identifier: BSD-2-Clause */
/* Another user's process sends descriptors that cannot be closed: no thread of urnic
 * waits for that, on this kernel, and as on one that cannot refuse descriptors. */
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/un.h>

#include "host/fds_fix.h"
#include "host/service.h"
#include "sys/nothread_testing.h"

enum { MANY = 100 };

static const char service_name[] = "urnic-test/service";
/* --- the other user -------------------------------------------------------------- */

static void greet_with_one(void)
{
	struct sent_hello hello;
	int fd = name_connect(host_slot(a.host));

	put_hello(&hello, host_slot(a.host) == 9 ? 10 : 9);
	send_stuck(fd, &hello, sizeof(hello), 1);
}

static void send_to_service(void)
{
	struct sockaddr_un to = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_DGRAM, 0);

	memcpy(to.sun_path + 1, service_name, sizeof(service_name) - 1);
	if (connect(fd, (struct sockaddr *)&to,
		    offsetof(struct sockaddr_un, sun_path) + sizeof(service_name)))
		_exit(2);
	send_stuck(fd, "x", 1, 1);
}

static void connect_with_many(void)
{
	for (int i = 0; i < MANY; i++) {
		int fd = name_connect(host_slot(a.host));

		for (int j = 0; j < 3; j++)
			send_stuck(fd, "x", 1, MSG_FDS_SENT);
	}
}

static void connect_often(void)
{
	for (int i = 0; i < 2 * CLOSER_ALL; i++)
		send_stuck(name_connect(host_slot(a.host)), "x", 1, 1);
}

/* --- what we do ------------------------------------------------------------------- */

static void test_in_a_greeting(void **state)
{
	pid_t pid = another_user(greet_with_one);

	(void)state;
	run(&a);
	expect_another_gets_in();
	host_close(a.host);
	assert_true(stuck_unnoticed(&stuck));
	end_of(pid);
}

/* A FUSE file that lies unread is not flushed when it is closed, so it blocks nobody. A
 * TCP socket with SO_LINGER does, if its other end reads nothing. Returns that other
 * end. */
static int make_lingering(void)
{
	const struct linger on = { .l_onoff = 1, .l_linger = older ? STUCK_S : 0 };
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(to);
	int listener = socket(AF_INET, SOCK_STREAM, 0), other;
	static const char many[1 << 16];

	stuck_end(&stuck); /* nor could a process end that has it */
	close(stuck.fd);
	sent = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&to, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&to, &len), 0);
	assert_int_equal(connect(sent, (struct sockaddr *)&to, len), 0);
	other = accept(listener, NULL, NULL);
	while (send(sent, many, sizeof(many), MSG_DONTWAIT) > 0)
		;
	assert_int_equal(setsockopt(sent, SOL_SOCKET, SO_LINGER, &on, sizeof(on)), 0);
	close(listener);
	return other;
}

/* Leaves the only copy of the descriptor in the unread message. */
static void leave_it_there(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(sent);
}

/* The closer's thread still waits for the close to end, if it had to be called at all. */
static void end_of_lingering(int other)
{
	struct stat tasks;

	assert_int_equal(stat("/proc/self/task", &tasks), 0);
	assert_true(!older || tasks.st_nlink > 2 + 1);
	sent = -1;
	close(other);
}

/* The descriptor lies in a connection that was not accepted yet. */
static void test_unread_at_the_end(void **state)
{
	int other = make_lingering();

	(void)state;
	leave_it_there(another_user(greet_with_one));
	host_close(a.host);
	end_of_lingering(other);
}

static void test_in_a_datagram(void **state)
{
	struct service *s;
	pid_t pid;

	(void)state;
	assert_int_equal(service_bind(a.host, service_name, &s), 0);
	pid = another_user(send_to_service);
	run(&a);
	service_close(s);
	assert_int_equal(service_bind(a.host, service_name, &s), 0);
	service_close(s);
	host_close(a.host);
	assert_true(stuck_unnoticed(&stuck));
	end_of(pid);
}

/* The name of the service is free at once. */
static void test_unread_in_a_service(void **state)
{
	int other = make_lingering();
	struct service *s;

	(void)state;
	assert_int_equal(service_bind(a.host, service_name, &s), 0);
	leave_it_there(another_user(send_to_service));
	service_close(s);
	assert_int_equal(service_bind(a.host, service_name, &s), 0);
	service_close(s);
	host_close(a.host);
	end_of_lingering(other);
}

/* The closer's thread closes what came last first. If that is a connection, whose close
 * returns, the thread may keep up with the connections that are let go; this makes it
 * hang. */
static void hang_closer(void)
{
	int fd = dup(stuck.fd);

	closer_put(anothers_uid, fd);
	while (fcntl(fd, F_GETFD) >= 0)
		sched_yield();
}

/* Many descriptors neither use up this process's descriptors nor keep the closer's
 * thread busy, and when they could be closed all is as before. */
static void hold_very_many(void (*does)(void), bool deaf)
{
	unsigned before = open_fds();
	pid_t pid = another_user(does);
	struct pollfd p = { .events = POLLIN };

	run(&a);
	run(&a);
	assert_true(open_fds() < before + 600);
	p.fd = host_fd(a.host);
	for (int i = 0; i < 100 && poll(&p, 1, 0) > 0; i++)
		host_run(a.host);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(closer_is_full_of(anothers_uid), older);
	assert_int_equal(a.host->deaf, deaf);
	assert_true(stuck_unnoticed(&stuck));
	end_of(pid);
	expect_another_gets_in();
	host_close(a.host);
}

static void test_very_many(void **state)
{
	(void)state;
	hold_very_many(connect_with_many, false);
}

/* For a connection that is not accepted, the user is not known. */
static void test_very_many_connections(void **state)
{
	(void)state;
	hang_closer();
	hold_very_many(connect_often, older);
}

/* The closer's thread cannot be started for a while. */
static void test_without_a_thread(void **state)
{
	pid_t pid;

	(void)state;
	stuck_end(&stuck);
	nothread_begin();
	pid = another_user(connect_often);
	run(&a);
	run(&a);
	assert_int_equal(a.host->deaf, older);
	nothread_end();
	expect_another_gets_in();
	host_close(a.host);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(stuck.fd);
}

/* --- what is taken after all ------------------------------------------------------- */

/* The peer has a slot, and sends a descriptor when it is told to. */
static void peer(int tell, int answer)
{
	const struct iovec body = { (uint8_t[HOST_PIPE_LEN]){ 0 }, HOST_PIPE_LEN };
	struct side b;
	char byte;
	uint16_t slot;

	if (setresuid(anothers_uid, anothers_uid, anothers_uid))
		_exit(77);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	begin(&b);
	slot = host_slot(b.host);
	if (host_connect(b.host, host_slot(a.host)))
		_exit(1);
	(void)!write(answer, &slot, sizeof(slot));
	while (read(tell, &byte, 1) == 1) {
		int rc = host_say(b.host, host_slot(a.host), HOST_PIPE, &body, 1,
				  &(int){ 2 }, 1);

		(void)!write(answer, &rc, sizeof(rc));
	}
	_exit(0);
}

static void test_of_a_peer_that_is_asked(void **state)
{
	static const int want[] = { -EAGAIN, 0, -EAGAIN };
	int tell[2], answer[2], rc;
	uint16_t slot;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(tell) || pipe(answer), 0);
	pid = fork();
	if (pid == 0)
		peer(tell[0], answer[1]);
	assert_int_equal(read(answer[0], &slot, sizeof(slot)), sizeof(slot));
	run(&a);
	for (int i = 0; i < 3; i++) {
		host_take_fds(a.host, slot, i == 1);
		assert_int_equal(write(tell[1], "", 1), 1);
		assert_int_equal(read(answer[0], &rc, sizeof(rc)), sizeof(rc));
		assert_int_equal(rc, older ? 0 : want[i]);
	}
	host_close(a.host);
	end_of(pid);
	for (int i = 0; i < 2; i++) {
		close(tell[i]);
		close(answer[i]);
	}
}

static int run_all(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_in_a_greeting, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unread_at_the_end, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_in_a_datagram, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_unread_in_a_service, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_very_many, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_very_many_connections, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_without_a_thread, set_up, tear_down),
		cmocka_unit_test_setup_teardown(test_of_a_peer_that_is_asked, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	return run_on_both(run_all);
}
