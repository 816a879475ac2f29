/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that changed its user proves its slot with the slot owner's proof as
 * well. */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/fix.h"
#include "host/host.h"
#include "host/host_own.h"
#include "host/msg.h"
#include "host/name.h"
#include "host/service.h"

enum { NOBODY = 65534 };

static const char service_name[] = "urnic-test/service";

static void become(uid_t uid)
{
	if (setresuid(uid, uid, 0))
		_exit(77);
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* as spawn() has it; this took it away */
}

static void wait_for(int fd)
{
	assert_int_equal(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, -1), 1);
}

/* Connects to a from this process while it is another user. */
static int connect_as_another(struct side *a)
{
	int fd;

	become(NOBODY);
	fd = name_connect(host_slot(a->host));
	become(0);
	if (fd < 0)
		_exit(1);
	return fd;
}

static void say(int fd, const void *what, size_t len)
{
	if (send(fd, what, len, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)len)
		_exit(1);
}

/* Sends, on fd, a claim of slot with that proof, and a datagram. */
static void claim(int fd, uint16_t slot, const struct msg_proof *proof)
{
	struct {
		struct sent_dgram dgram;
		char byte;
	} one = { .dgram = { .head = msg_head(&host_table, HOST_DGRAM) } };
	struct sent_hello hello;

	put_proved(&hello, slot, proof);
	say(fd, &hello, sizeof(hello));
	say(fd, &one, sizeof(one));
}

/* Proofs that processes other than the owner can give. */
enum proof { NONE, BY_ANOTHER, TRUE_ONE, PROOFS };

static void serve(struct side *s)
{
	for (;;)
		run_next(s);
}

static pid_t spawn(void)
{
	pid_t pid = fork();

	if (pid == 0)
		prctl(PR_SET_PDEATHSIG, SIGKILL);
	return pid;
}

static void end_of(pid_t pid)
{
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
}

/* Forks the owner of a slot, on whose old connection another process claims the slot. */
static pid_t claimant(struct side *a, enum proof what)
{
	pid_t pid = spawn();
	struct side b;
	int fd;

	if (pid)
		return pid;
	begin(&b);
	fd = connect_as_another(a);
	switch (what) {
	case NONE:
		claim(fd, host_slot(b.host), &(struct msg_proof){ { 0 } });
		break;
	case BY_ANOTHER:
		if (spawn() == 0) {
			claim(fd, host_slot(b.host), &b.host->proof);
			pause();
		}
		break;
	case TRUE_ONE:
	case PROOFS:
		claim(fd, host_slot(b.host), &b.host->proof);
	}
	serve(&b);
	return 0;
}

/* Runs until n datagrams have been believed or refused. */
static void run_until_judged(struct side *a, unsigned n)
{
	while (a->got + host_stats(a->host)->refused < n)
		run_next(a);
}

static bool cannot_become_another(void)
{
	need_netns();
	if (geteuid() == 0)
		return false;
	fprintf(stderr, "SKIPPED: cannot become another user\n");
	return true;
}

/* The process that had this process number when the connection was made may have become
 * the program that has the slot, and left the connection to another process. */
static void test_numbers_of_a_process_prove_nothing(void **state)
{
	struct side a;

	(void)state;
	if (cannot_become_another())
		skip();
	for (enum proof what = NONE; what < PROOFS; what++) {
		pid_t pid;

		begin(&a);
		pid = claimant(&a, what);
		run_until_judged(&a, what == TRUE_ONE ? 1 : 2);
		assert_int_equal(a.got, what == TRUE_ONE);
		assert_int_equal(host_stats(a.host)->refused, what == TRUE_ONE ? 0 : 2);
		end_of(pid);
		host_close(a.host);
	}
}

/* Every process is given the same proof. */
static void test_who_was_greeted_can_spoil_nothing(void **state)
{
	struct sockaddr_un un = { .sun_family = AF_UNIX, .sun_path = "\0spoilt" };
	struct msg_hello hello;
	struct msg got;
	struct side a, b;
	int p[2], listener, fd;
	uint16_t to;
	pid_t pid;

	(void)state;
	if (cannot_become_another())
		skip();
	assert_int_equal(pipe(p), 0);
	begin(&a);
	to = host_slot(a.host) == 9 ? 10 : 9;
	listener = name_listen(to);
	pid = spawn();
	if (pid == 0) {
		char byte;

		begin(&b);
		become(NOBODY);
		if (forward(&b, to, "to the spoiler"))
			_exit(1);
		(void)!read(p[0], &byte, 1);
		forward(&b, host_slot(a.host), "hello");
		serve(&b);
	}
	wait_for(listener);
	fd = accept(listener, NULL, NULL);
	wait_for(fd);
	assert_int_equal(msg_recv(fd, &host_table, 0, &hello, sizeof(hello), &got, false),
			 0);
	for (int i = 0; i < MSG_FDS; i++)
		if (got.fd[i] >= 0)
			bind(got.fd[i], (struct sockaddr *)&un, sizeof(un));
	/* As if it were the owner. */
	assert_int_equal(setresuid(NOBODY, NOBODY, 0), 0);
	claim(name_connect(host_slot(a.host)), hello.slot, &hello.proof);
	assert_int_equal(setresuid(0, 0, 0), 0);
	run_until_judged(&a, 2);
	assert_int_equal(a.got, 0);
	(void)!write(p[1], "", 1);
	run_until(&a, 1);
	assert_int_equal(a.got, 1);
	end_of(pid);
	close(p[0]);
	close(p[1]);
	close(fd);
	close(listener);
	host_close(a.host);
}

/* Both processes have changed their user: each asks the other for its proof, and gives
 * its own without waiting for the answer. */
static void test_both_became_another(void **state)
{
	struct side a, b;
	int p[2];
	uint16_t slot;
	pid_t pid;

	(void)state;
	if (cannot_become_another())
		skip();
	assert_int_equal(pipe(p), 0);
	begin(&a);
	pid = spawn();
	if (pid == 0) {
		begin(&b);
		slot = host_slot(b.host);
		become(NOBODY);
		(void)!write(p[1], &slot, sizeof(slot));
		run_until(&b, 1);
		forward(&b, host_slot(a.host), "back");
		serve(&b);
	}
	assert_int_equal(read(p[0], &slot, sizeof(slot)), sizeof(slot));
	assert_int_equal(setresuid(NOBODY, NOBODY, 0), 0);
	assert_int_equal(forward(&a, slot, "there"), 0);
	run_until(&a, 1);
	assert_int_equal(setresuid(0, 0, 0), 0);
	assert_int_equal(a.got, 1);
	assert_int_equal(host_stats(a.host)->refused, 0);
	assert_int_equal(a.last.len, 4);
	end_of(pid);
	close(p[0]);
	close(p[1]);
	host_close(a.host);
}

/* The process was this user's when it opened: that counts for its datagrams, but not for
 * new rights. */
static void test_ours_but_not_now(void **state)
{
	int p[2], go[2];
	struct side a, b;
	uint16_t slot;
	char byte;
	pid_t pid;

	(void)state;
	if (cannot_become_another())
		skip();
	assert_int_equal(pipe(p), 0);
	assert_int_equal(pipe(go), 0);
	begin(&a);
	pid = spawn();
	if (pid == 0) {
		begin(&b);
		slot = host_slot(b.host);
		(void)!write(p[1], &slot, sizeof(slot));
		(void)!read(go[0], &byte, 1);
		become(NOBODY);
		(void)!write(p[1], "", 1);
		serve(&b);
	}
	assert_int_equal(read(p[0], &slot, sizeof(slot)), sizeof(slot));
	assert_true(host_is_ours(a.host, slot));
	assert_true(host_is_ours_now(a.host, slot));
	assert_int_equal(write(go[1], "", 1), 1);
	assert_int_equal(read(p[0], &byte, 1), 1);
	assert_true(host_is_ours(a.host, slot));
	assert_false(host_is_ours_now(a.host, slot));
	end_of(pid);
	close(p[0]);
	close(p[1]);
	close(go[0]);
	close(go[1]);
	host_close(a.host);
}

static void send_to_service(struct side *s, const char *text)
{
	struct dgram d = { .ip_id = -1, .len = (uint32_t)strlen(text), .iovcnt = 1 };

	d.one = (struct iovec){ (void *)(uintptr_t)text, d.len };
	d.iov = &d.one;
	if (service_send(s->host, service_name, &d))
		_exit(1);
}

/* A datagram for a name is judged likewise, and waits for that; those behind it, too. */
static void test_a_datagram_for_a_service(void **state)
{
	struct service *service;
	struct side a, b;
	pid_t pid;

	(void)state;
	if (cannot_become_another())
		skip();
	begin(&a);
	assert_int_equal(service_bind(a.host, service_name, &service), 0);
	pid = spawn();
	if (pid == 0) {
		begin(&b);
		become(NOBODY);
		send_to_service(&b, "1");
		send_to_service(&b, "22");
		send_to_service(&b, "333");
		serve(&b);
	}
	run_until(&a, 3);
	assert_int_equal(a.got, 3);
	assert_int_equal(a.last.len, 3);
	assert_int_equal(host_stats(a.host)->refused, 0);
	end_of(pid);
	service_close(service);
	host_close(a.host);
}

/* A limited number of datagrams waits for a user whose process never answers, and for a
 * limited time. */
static void test_datagrams_of_one_who_never_answers(void **state)
{
	enum { N = 100, ROOM = 16 };
	struct service *service;
	struct side a, b, c;
	int ready[2];
	pid_t pid, other;

	(void)state;
	if (cannot_become_another())
		skip();
	begin(&a);
	assert_int_equal(service_bind(a.host, service_name, &service), 0);
	assert_int_equal(pipe(ready), 0);
	pid = spawn();
	if (pid == 0) {
		begin(&b);
		become(NOBODY);
		for (int i = 0; i < N; i++) {
			struct dgram d = { .ip_id = -1, .len = 1, .iovcnt = 1 };

			d.one = (struct iovec){ "x", 1 };
			d.iov = &d.one;
			while (service_send(b.host, service_name, &d))
				sched_yield();
		}
		stay_ready(ready);
	}
	run_until_judged(&a, N - ROOM);
	assert_int_equal(host_stats(a.host)->refused, N - ROOM);
	assert_int_equal(a.got, 0);
	wait_ready(ready);
	/* another user's are kept meanwhile */
	other = spawn();
	if (other == 0) {
		begin(&c);
		become(NOBODY - 1);
		send_to_service(&c, "1");
		serve(&c);
	}
	run_until(&a, 1);
	assert_int_equal(a.got, 1);
	run_until_judged(&a, N + 1);
	assert_int_equal(host_stats(a.host)->refused, N);
	assert_true(list_empty(&a.host->waiting));
	end_of(pid);
	end_of(other);
	service_close(service);
	host_close(a.host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_of_a_process_prove_nothing),
		cmocka_unit_test(test_who_was_greeted_can_spoil_nothing),
		cmocka_unit_test(test_both_became_another),
		cmocka_unit_test(test_ours_but_not_now),
		cmocka_unit_test(test_a_datagram_for_a_service),
		cmocka_unit_test(test_datagrams_of_one_who_never_answers),
	};

	enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
