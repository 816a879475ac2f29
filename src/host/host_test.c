/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/host.h"
#include "host/msg.h"
#include "host/name.h"
#include "sys/log.h"
#include "sys/netns_testing.h"

enum { NOBODY = 65534 };

static bool have_netns;

static void need_netns(void)
{
	if (!have_netns)
		skip();
}

struct side {				/* a process, as far as host/ goes */
	struct host *host;
	unsigned got, gone;
	uint16_t gone_slot;
	struct dgram last;
	uint8_t data[8192];
};

static void on_datagram(void *arg, const struct dgram *d)
{
	struct side *s = arg;

	s->got++;
	s->last = *d;
	memcpy(s->data, d->iov[0].iov_base, d->len < sizeof(s->data) ?
	       d->len : sizeof(s->data));
}

static void on_gone(void *arg, uint16_t slot)
{
	struct side *s = arg;

	s->gone++;
	s->gone_slot = slot;
}

static const struct host_ops ops = { .datagram = on_datagram, .gone = on_gone };

static void begin(struct side *s)
{
	memset(s, 0, sizeof(*s));
	assert_int_equal(host_open(&s->host, &ops, s), 0);
}

static void run(struct side *s)
{
	struct pollfd p = { .fd = host_fd(s->host), .events = POLLIN };

	for (int i = 0; i < 1000 && poll(&p, 1, 0) > 0; i++)
		host_run(s->host);
}

/* Run until the n-th datagram is there, or give up. */
static void run_until(struct side *s, unsigned n)
{
	struct pollfd p = { .fd = host_fd(s->host), .events = POLLIN };

	for (int i = 0; i < 1000 && s->got < n; i++) {
		poll(&p, 1, 10);
		host_run(s->host);
	}
}

static int forward(struct side *from, uint16_t slot, const char *text)
{
	struct iovec iov[2] = { { (void *)(uintptr_t)text, 2 },
				{ (void *)(uintptr_t)(text + 2), strlen(text) - 2 } };
	struct dgram d = { .from.port = 49999, .to.port = 4791, .ttl = 60,
			   .tclass = 5, .ifindex = 3, .ip_id = 12,
			   .len = (uint32_t)strlen(text), .iovcnt = 2, .iov = iov };

	d.from.ip[15] = 1;
	d.to.ip[15] = 2;
	return host_forward(from->host, slot, &d);
}

static unsigned count_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

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
	assert_int_equal(b.last.from.port, 49999);
	assert_int_equal(b.last.to.port, 4791);
	assert_int_equal(b.last.from.ip[15], 1);
	assert_int_equal(b.last.to.ip[15], 2);
	assert_int_equal(b.last.tclass, 5);
	assert_int_equal(b.last.ttl, 60);
	assert_int_equal(b.last.ifindex, 3);
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
	fds = count_fds();
	assert_int_equal(forward(&b, host_slot(a.host), "back"), 0);
	run(&a);
	assert_int_equal(a.got, 1);
	assert_int_equal(count_fds(), fds);
	host_close(a.host);
	run(&b);
	assert_int_equal(b.gone, 1);
	assert_int_not_equal(b.gone_slot, 0);
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
	assert_int_equal(host_stats(a.host)->dropped_gone, 5);
	host_close(a.host);
}

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
	fds = count_fds();
	assert_int_equal(host_cred(a.host, host_slot(b.host), &uid, &pid), 0);
	assert_int_equal(uid, geteuid());
	assert_int_equal(pid, getpid());
	run(&b);
	assert_int_equal(count_fds(), fds);	/* just a look */
	assert_int_equal(host_stats(b.host)->refused, 0);
	host_close(a.host);
	host_close(b.host);
}

static void test_gone_and_back(void **state)
{
	struct side a, b;
	uint16_t slot;
	int fd;

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
	fd = name_listen(slot);		/* a new owner */
	assert_true(fd >= 0);
	usleep(2000);
	assert_int_equal(forward(&a, slot, "again"), 0);
	close(fd);
	/* Found out while sending, too. */
	assert_int_equal(forward(&a, slot, "more"), -ESRCH);
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

static void test_squatted_names_are_skipped(void **state)
{
	static int fd[SLOT_LAST + 1];
	struct side a;
	struct host *none;

	(void)state;
	need_netns();
	for (uint16_t i = SLOT_FIRST; i <= SLOT_LAST; i++) {
		fd[i] = i == 321 ? -1 : name_listen(i);
		assert_true(i == 321 || fd[i] >= 0);
	}
	begin(&a);
	assert_int_equal(host_slot(a.host), 321);
	assert_int_equal(host_open(&none, &ops, NULL), -EADDRNOTAVAIL);
	/* A squatter is sent things like anyone, and never blocks us. */
	for (int i = 0; i < 100000; i++)
		if (forward(&a, 7, "for a squatter") == -EAGAIN)
			break;
	assert_int_equal(host_stats(a.host)->dropped_full, 1);
	for (uint16_t i = SLOT_FIRST; i <= SLOT_LAST; i++)
		if (fd[i] >= 0)
			close(fd[i]);
	host_close(a.host);
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

/* --- hostile --------------------------------------------------------------- */

/* Closed and counted: at the other end there is nothing but the end. */
static void expect_closed(struct side *a, int fd, uint64_t refused)
{
	char byte;

	run(a);
	assert_int_equal(host_stats(a->host)->refused, refused);
	errno = 0;
	assert_true(recv(fd, &byte, 1, MSG_DONTWAIT) <= 0 && errno != EAGAIN);
	close(fd);
}

static int stranger(struct side *a, const void *msg, size_t len)
{
	int fd = name_connect(host_slot(a->host));

	assert_true(fd >= 0);
	assert_int_equal(send(fd, msg, len, MSG_NOSIGNAL), len);
	return fd;
}

static void test_garbage_closes_the_connection(void **state)
{
	struct { struct msg_dgram m; uint8_t data[70000]; } big = { 0 };
	struct msg_hello hello;
	struct side a, b;
	int fd;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	assert_int_equal(forward(&b, host_slot(a.host), "before"), 0);
	expect_closed(&a, stranger(&a, "GET / HTTP/1.0\r\n", 16), 1);
	msg_put_hello(&hello, 9);
	expect_closed(&a, stranger(&a, &hello, 5), 2);
	hello.version = 9;
	expect_closed(&a, stranger(&a, &hello, sizeof(hello)), 3);
	/* A greeting as ourselves. */
	msg_put_hello(&hello, host_slot(a.host));
	expect_closed(&a, stranger(&a, &hello, sizeof(hello)), 4);
	/* A second greeting, where a datagram ought to be: 5 is the claim. */
	msg_put_hello(&hello, host_slot(a.host) == 9 ? 10 : 9);
	fd = stranger(&a, &hello, sizeof(hello));
	assert_int_equal(send(fd, &hello, sizeof(hello), 0), sizeof(hello));
	expect_closed(&a, fd, 6);
	/* A message longer than there are. */
	big.m = (struct msg_dgram){ .version = MSG_VERSION, .type = MSG_DGRAM };
	fd = stranger(&a, &hello, sizeof(hello));
	assert_int_equal(send(fd, &big, sizeof(big), 0), sizeof(big));
	expect_closed(&a, fd, 8);
	/* Nobody else has noticed. */
	assert_int_equal(forward(&b, host_slot(a.host), "after"), 0);
	run(&a);
	assert_int_equal(a.got, 2);
	assert_int_equal(a.gone, 0);
	host_close(a.host);
	host_close(b.host);
}

/* A process that claims another's slot does not get what is sent to it. */
static void test_a_false_claim_is_not_believed(void **state)
{
	struct side a, b;
	struct msg_hello hello;
	int pipe_fd[2], status;
	char byte = 0;
	pid_t pid;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	assert_int_equal(pipe(pipe_fd), 0);
	pid = fork();
	if (pid == 0) {
		int fd = name_connect(host_slot(a.host));
		ssize_t n;

		msg_put_hello(&hello, host_slot(b.host));
		send(fd, &hello, sizeof(hello), 0);
		n = write(pipe_fd[1], "", 1);
		usleep(100000);
		_exit(n == 1 && recv(fd, &byte, 1, MSG_DONTWAIT) < 0 ? 0 : 1);
	}
	assert_int_equal(read(pipe_fd[0], &byte, 1), 1);
	run(&a);
	assert_int_equal(host_stats(a.host)->refused, 1);
	assert_int_equal(forward(&a, host_slot(b.host), "for b"), 0);
	run(&b);
	assert_int_equal(b.got, 1);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(pipe_fd[0]);
	close(pipe_fd[1]);
	host_close(a.host);
	host_close(b.host);
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
	pid = fork();
	if (pid == 0) {
		if (setresgid(NOBODY, NOBODY, NOBODY) ||
		    setresuid(NOBODY, NOBODY, NOBODY))
			_exit(77);
		memset(&b, 0, sizeof(b));
		if (host_open(&b.host, &ops, &b))
			_exit(1);
		host_accept_foreign(b.host, &me, 1);
		forward(&b, host_slot(a.host), "one");
		run_until(&b, 1);		/* its answer */
		if (b.got != 1)
			_exit(2);
		forward(&b, host_slot(a.host), "two");
		forward(&b, host_slot(a.host), "three");
		_exit(0);
	}
	for (int i = 0; i < 300 && host_stats(a.host)->refused == 0; i++) {
		if (waitpid(pid, &status, WNOHANG) == pid) {
			host_close(a.host);
			assert_int_equal(WEXITSTATUS(status), 77);
			fprintf(stderr, "SKIPPED: cannot become another user\n");
			skip();
		}
		usleep(10000);
		run(&a);
	}
	assert_int_equal(a.got, 0);
	assert_int_equal(host_stats(a.host)->refused, 1);
	host_accept_foreign(a.host, &(uid_t){ NOBODY }, 1);
	for (uint16_t slot = SLOT_FIRST; slot <= SLOT_LAST; slot++) {
		uid_t uid;
		pid_t who;

		if (slot == host_slot(a.host) ||
		    host_cred(a.host, slot, &uid, &who))
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
	/* It does not stay readable: that would be a busy loop. */
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

static void test_fork(void **state)
{
	struct side a, b;
	int status;
	pid_t pid;

	(void)state;
	need_netns();
	begin(&a);
	begin(&b);
	assert_int_equal(forward(&a, host_slot(b.host), "before"), 0);
	run(&b);
	pid = fork();
	if (pid == 0) {
		host_forked(a.host);
		host_forked(b.host);
		pause();
	}
	assert_int_equal(forward(&a, host_slot(b.host), "after"), 0);
	run(&b);
	assert_int_equal(b.got, 2);
	assert_int_equal(b.gone, 0);
	/* The name ends with the parent's, though the child lives. */
	usleep(50000);
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
		cmocka_unit_test(test_no_such_slot),
		cmocka_unit_test(test_cred),
		cmocka_unit_test(test_gone_and_back),
		cmocka_unit_test(test_full_peer_does_not_block),
		cmocka_unit_test(test_a_run_is_bounded),
		cmocka_unit_test(test_squatted_names_are_skipped),
		cmocka_unit_test(test_many_processes),
		cmocka_unit_test(test_garbage_closes_the_connection),
		cmocka_unit_test(test_a_false_claim_is_not_believed),
		cmocka_unit_test(test_another_user_is_heard_only_on_request),
		cmocka_unit_test(test_out_of_descriptors),
		cmocka_unit_test(test_fork),
	};
	struct rlimit lim;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max < 8192 ? lim.rlim_max : 8192;
	setrlimit(RLIMIT_NOFILE, &lim);
	have_netns = netns_enter();
	/* Names are the network namespace's: in one of our own, if that may be, no
	 * other process is in the way. */
	(void)!unshare(CLONE_NEWNET);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
