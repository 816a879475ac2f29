/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors that a process of another user sends, and that cannot be closed: nothing
 * of ours waits.  On this kernel, and as on one that lets everybody send some. */
#include "host/fds.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/fix.h"
#include "host/host_own.h"
#include "host/name.h"
#include "host/service.h"
#include "sys/clock.h"
#include "sys/closer.h"
#include "sys/nothread_testing.h"
#include "sys/rights.h"
#include "sys/seccomp_testing.h"
#include "sys/stuck_testing.h"

enum { NOBODY = 65534, DAEMON = 1, PASSRIGHTS = 83, MANY = 100 };

static const char service_name[] = "urnic-test/service";
static bool older; /* a kernel that cannot refuse descriptors */
static struct stuck stuck;
static int sent = -1; /* in its place, where it is not -1 */
static struct side a;
static uint64_t began;

static int set_up(void **state)
{
	(void)state;
	need_netns();
	if (geteuid()) {
		fprintf(stderr, "SKIPPED: cannot become another user\n");
		skip();
	}
	if (!stuck_begin(&stuck))
		skip();
	begin(&a);
	return 0;
}

static void start_clock(void)
{
	began = clock_ns();
}

static void expect_at_once(void)
{
	assert_true(clock_ns() - began < STUCK_AT_ONCE_S * UINT64_C(1000000000));
}

/* --- the other user -------------------------------------------------------------- */

static void send_stuck(int to, const void *what, size_t len, unsigned n)
{
	struct iovec iov = { (void *)(uintptr_t)what, len };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int fds[RIGHTS_MAX];
	union {
		struct cmsghdr head;
		char room[RIGHTS_ROOM];
	} u;

	for (unsigned i = 0; i < n; i++)
		fds[i] = sent < 0 ? stuck.fd : sent;
	rights_put(&m, &u.head, fds, n);
	/* So many may be under way (RLIMIT_NOFILE). */
	if (sendmsg(to, &m, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0
		    ? !older
		    : errno != (older ? ETOOMANYREFS : EPERM))
		_exit(1);
}

static void greet_with_one(void)
{
	struct msg_hello hello;
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
			send_stuck(fd, "x", 1, RIGHTS_MAX);
	}
}

static void connect_often(void)
{
	for (int i = 0; i < 2 * CLOSER_ALL; i++)
		send_stuck(name_connect(host_slot(a.host)), "x", 1, 1);
}

/* It has done so, and stays. */
static pid_t as_user(uid_t uid, void (*does)(void))
{
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		close(ready[0]);
		if (setresuid(uid, uid, uid))
			_exit(77);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		host_forked(a.host);
		does();
		stay_ready(ready);
	}
	wait_ready(ready);
	return pid;
}

static pid_t another_user(void (*does)(void))
{
	return as_user(NOBODY, does);
}

/* What hangs goes on; not before could any process that has the file end. */
static void end_of(pid_t pid)
{
	stuck_end(&stuck);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(stuck.fd);
	while (closer_is_full() || closer_is_full_of(NOBODY))
		usleep(1000);
}

/* --- what we do ------------------------------------------------------------------- */

static void expect_another_gets_in(void)
{
	struct side b;
	unsigned want = a.got + 1;

	begin(&b);
	assert_int_equal(forward(&b, host_slot(a.host), "hello"), 0);
	run_until(&a, want);
	assert_int_equal(a.got, want);
	host_close(b.host);
}

static void test_in_a_greeting(void **state)
{
	pid_t pid = another_user(greet_with_one);

	(void)state;
	start_clock();
	run(&a);
	expect_another_gets_in();
	host_close(a.host);
	expect_at_once();
	end_of(pid);
}

/* What lies unread is not flushed as it is closed, so a FUSE file holds up nobody there.
 * A TCP socket with SO_LINGER does, whose other end reads nothing.  That end. */
static int make_lingering(void)
{
	const struct linger on = { .l_onoff = 1, .l_linger = older ? STUCK_S : 0 };
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	socklen_t len = sizeof(to);
	int listener = socket(AF_INET, SOCK_STREAM, 0), other;
	char byte = 0;

	stuck_end(&stuck); /* nor could a process end that has it */
	close(stuck.fd);
	sent = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(bind(listener, (struct sockaddr *)&to, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&to, &len), 0);
	assert_int_equal(connect(sent, (struct sockaddr *)&to, len), 0);
	other = accept(listener, NULL, NULL);
	while (send(sent, &byte, 1, MSG_DONTWAIT) == 1)
		;
	assert_int_equal(setsockopt(sent, SOL_SOCKET, SO_LINGER, &on, sizeof(on)), 0);
	close(listener);
	return other;
}

/* The only copy that is left is the one that lies there. */
static void leave_it_there(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(sent);
}

static void end_of_lingering(int other)
{
	sent = -1;
	close(other);
}

/* In a connection that nobody has taken yet. */
static void test_unread_at_the_end(void **state)
{
	int other = make_lingering();

	(void)state;
	leave_it_there(another_user(greet_with_one));
	start_clock();
	host_close(a.host);
	expect_at_once();
	end_of_lingering(other);
}

static void test_in_a_datagram(void **state)
{
	struct service *s;
	pid_t pid;

	(void)state;
	assert_int_equal(service_bind(a.host, service_name, &s), 0);
	pid = another_user(send_to_service);
	start_clock();
	run(&a);
	service_close(s);
	assert_int_equal(service_bind(a.host, service_name, &s), 0);
	service_close(s);
	host_close(a.host);
	expect_at_once();
	end_of(pid);
}

/* The name is free at once. */
static void test_unread_in_a_service(void **state)
{
	int other = make_lingering();
	struct service *s;

	(void)state;
	assert_int_equal(service_bind(a.host, service_name, &s), 0);
	leave_it_there(another_user(send_to_service));
	start_clock();
	service_close(s);
	assert_int_equal(service_bind(a.host, service_name, &s), 0);
	service_close(s);
	host_close(a.host);
	expect_at_once();
	end_of_lingering(other);
}

/* They do not use up ours, nor keep the thread busy that looks for more; and when they
 * are closed all is as before. */
static void hold_very_many(void (*does)(void), bool deaf)
{
	unsigned before = open_fds();
	pid_t pid = another_user(does);
	struct pollfd p = { .events = POLLIN };

	start_clock();
	run(&a);
	run(&a);
	assert_true(open_fds() < before + 600);
	p.fd = host_fd(a.host);
	for (int i = 0; i < 100 && poll(&p, 1, 0) > 0; i++)
		host_run(a.host);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(closer_is_full_of(NOBODY), older);
	assert_int_equal(a.host->deaf, deaf);
	expect_at_once();
	end_of(pid);
	expect_another_gets_in();
	host_close(a.host);
}

static void test_very_many(void **state)
{
	(void)state;
	hold_very_many(connect_with_many, false);
}

/* A connection that is not accepted tells nobody whose it is. */
static void test_very_many_connections(void **state)
{
	(void)state;
	hold_very_many(connect_often, older);
}

/* --- a third user ------------------------------------------------------------------ */

/* Says something on its connection for each byte that it is told. */
static int told;

static void third(void)
{
	int fd = name_connect(host_slot(a.host));
	struct msg_hello hello;
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
		send_stuck(fd, "x", 1, RIGHTS_MAX);
}

/* While nothing more is taken from a user whose descriptors cannot be closed, others are
 * heard and get in; and those who come and go leave nothing to be closed. */
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
	start_clock();
	run(&a);
	assert_int_equal(closer_is_full_of(NOBODY), older);
	assert_false(a.host->deaf);
	refused = host_stats(a.host)->refused;
	assert_int_equal(write(p[1], "", 1), 1);
	for (int i = 0; i < 1000 && host_stats(a.host)->refused == refused; i++) {
		poll(&(struct pollfd){ .fd = host_fd(a.host), .events = POLLIN }, 1, 10);
		host_run(a.host);
	}
	/* what it said is no message of urnic's */
	assert_int_equal(host_stats(a.host)->refused, refused + 1);
	for (int i = 0; i < CLOSER_ALL; i++) {
		int fd = name_connect(host_slot(a.host));

		assert_int_equal(send(fd, "x", 1, 0), 1);
		close(fd);
		run(&a);
	}
	expect_another_gets_in();
	expect_at_once();
	end_of(hangs);
	/* its connection is looked at again, and ends */
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

/* The thread cannot be started for a while. */
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

/* The peer has a slot, and sends one when it is told. */
static void peer(int tell, int answer)
{
	struct side b;
	char byte;
	uint16_t slot;

	if (setresuid(NOBODY, NOBODY, NOBODY))
		_exit(77);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	begin(&b);
	slot = host_slot(b.host);
	if (host_connect(b.host, host_slot(a.host)))
		_exit(1);
	(void)!write(answer, &slot, sizeof(slot));
	while (read(tell, &byte, 1) == 1) {
		int rc = host_say(b.host, host_slot(a.host), "x", 1, &(int){ 2 }, 1);

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
		cmocka_unit_test_setup(test_in_a_greeting, set_up),
		cmocka_unit_test_setup(test_unread_at_the_end, set_up),
		cmocka_unit_test_setup(test_in_a_datagram, set_up),
		cmocka_unit_test_setup(test_unread_in_a_service, set_up),
		cmocka_unit_test_setup(test_very_many, set_up),
		cmocka_unit_test_setup(test_very_many_connections, set_up),
		cmocka_unit_test_setup(test_another_is_heard, set_up),
		cmocka_unit_test_setup(test_without_a_thread, set_up),
		cmocka_unit_test_setup(test_of_a_peer_that_is_asked, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	int fd, rc = 0;

	enter();
	netns_lo_up();
	fd = socket(AF_UNIX, SOCK_DGRAM, 0);
	older = !rights_refuse(fd);
	close(fd);
	if (!older)
		rc = run_all();
	older = true;
	if (!seccomp_forget_option(PASSRIGHTS)) {
		fprintf(stderr, "SKIPPED: no seccomp here\n");
		return rc;
	}
	return run_all() || rc;
}
