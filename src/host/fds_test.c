/* SPDX-License-Identifier: BSD-2-Clause */
/* Descriptors that a process of another user sends, and that cannot be closed: nothing
 * of ours waits.  On this kernel, and as on one that lets everybody send some. */
#include "host/fds.h"

#include <errno.h>
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
#include "sys/rights.h"
#include "sys/seccomp_testing.h"
#include "sys/stuck_testing.h"

enum { NOBODY = 65534, PASSRIGHTS = 83, MANY = 100 };

static const char service_name[] = "urnic-test/service";
static bool older; /* a kernel that cannot refuse descriptors */
static struct stuck stuck;
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
		fds[i] = stuck.fd;
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

/* It has done so, and stays. */
static pid_t another_user(void (*does)(void))
{
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		close(ready[0]);
		if (setresuid(NOBODY, NOBODY, NOBODY))
			_exit(77);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		host_forked(a.host);
		does();
		stay_ready(ready);
	}
	wait_ready(ready);
	return pid;
}

/* What hangs goes on; not before could any process that has the file end. */
static void end_of(pid_t pid)
{
	stuck_end(&stuck);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	close(stuck.fd);
	while (closer_is_full())
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

/* In a connection that nobody has taken yet. */
static void test_unread_at_the_end(void **state)
{
	pid_t pid = another_user(greet_with_one);

	(void)state;
	start_clock();
	host_close(a.host);
	expect_at_once();
	end_of(pid);
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
	struct service *s;
	pid_t pid;

	(void)state;
	assert_int_equal(service_bind(a.host, service_name, &s), 0);
	pid = another_user(send_to_service);
	start_clock();
	service_close(s);
	assert_int_equal(service_bind(a.host, service_name, &s), 0);
	service_close(s);
	host_close(a.host);
	expect_at_once();
	end_of(pid);
}

/* They do not use up ours, nor keep the thread busy that looks for more; and when they
 * are closed all is as before. */
static void test_very_many(void **state)
{
	unsigned before = open_fds();
	pid_t pid = another_user(connect_with_many);
	struct pollfd p = { .events = POLLIN };

	(void)state;
	start_clock();
	run(&a);
	run(&a);
	assert_true(open_fds() < before + 600);
	p.fd = host_fd(a.host);
	for (int i = 0; i < 100 && poll(&p, 1, 0) > 0; i++)
		host_run(a.host);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_int_equal(a.host->deaf, older);
	expect_at_once();
	end_of(pid);
	expect_another_gets_in();
	host_close(a.host);
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
		cmocka_unit_test_setup(test_of_a_peer_that_is_asked, set_up),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}

int main(void)
{
	int fd, rc = 0;

	enter();
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
