/* SPDX-License-Identifier: BSD-2-Clause */
/* A process that became another user: whose slot it has is proved by a descriptor. */
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/fds.h"
#include "host/fix.h"
#include "host/host_own.h"
#include "host/msg.h"
#include "host/name.h"

enum { NOBODY = 65534 };

/* A connection of b's process, made when it is another user than when it took its slot,
 * says that slot; proof goes along, if there is one.  Not from a test's own process. */
static void claim_as_another(struct side *a, struct side *b, int proof)
{
	struct msg_hello hello;
	struct iovec iov = { &hello, sizeof(hello) };
	int fd;

	if (seteuid(NOBODY))
		_exit(77);
	fd = name_connect(host_slot(a->host));
	if (seteuid(0))
		_exit(78);
	msg_put_hello(&hello, host_slot(b->host));
	if (fd < 0 || fds_send(fd, &iov, 1, &proof, proof >= 0))
		_exit(1);
}

/* What b's process may be made to give out, or somebody has by connecting with it. */
enum proof { LISTENER, CONNECTED, ACCEPTED, TRUE_ONE, PROOFS };

static int make_proof(struct side *b, enum proof what)
{
	static const char name[] = "urnic-test/not-a-slot";
	int fd = what == TRUE_ONE || what == CONNECTED ? -1 : name_listen_at(name);

	switch (what) {
	case CONNECTED:
		return name_connect(host_slot(b->host));
	case ACCEPTED:
		name_connect_to(name);
		return accept(fd, NULL, NULL);
	case TRUE_ONE:
		return b->host->proof_fd;
	case LISTENER:
	case PROOFS:
		break;
	}
	return fd;
}

/* Whoever had the process's number when the connection was made may have become the
 * program that has the slot, and left the connection to another. */
static void numbers_prove_nothing(struct side *a, enum proof what)
{
	struct side b;
	char byte;
	int p[2];
	pid_t pid;

	assert_int_equal(pipe(p), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		begin(&b);
		claim_as_another(a, &b, make_proof(&b, what));
		(void)!write(p[1], "", 1);
		pause();
	}
	assert_int_equal(read(p[0], &byte, 1), 1);
	for (int i = 0; i < 3; i++)
		run(a);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	run(a);
	assert_int_equal(host_stats(a->host)->refused, what != TRUE_ONE);
	assert_int_equal(a->gone, what == TRUE_ONE);
	close(p[0]);
	close(p[1]);
}

static void test_numbers_of_a_process_prove_nothing(void **state)
{
	struct side a;

	(void)state;
	need_netns();
	if (geteuid()) {
		fprintf(stderr, "SKIPPED: cannot become another user\n");
		skip();
	}
	for (enum proof what = LISTENER; what < PROOFS; what++) {
		begin(&a);
		numbers_prove_nothing(&a, what);
		host_close(a.host);
	}
}

/* Who is greeted after setuid() gets a descriptor, by which nobody can be reached and
 * nobody be let in: others connect to the slot as before, to its owner alone. */
static void test_the_proof_is_of_no_use(void **state)
{
	struct side a, b;
	struct msg_hello hello;
	char byte;
	int fds[HOST_FDS], fd, listener, listens = 1;
	socklen_t size = sizeof(listens);

	(void)state;
	need_netns();
	if (geteuid())
		skip();
	begin(&a);
	listener = name_listen(host_slot(a.host) == 9 ? 10 : 9);
	assert_int_equal(seteuid(NOBODY), 0);
	assert_int_equal(forward(&a, host_slot(a.host) == 9 ? 10 : 9, "hello"), 0);
	assert_int_equal(seteuid(0), 0);
	fd = accept(listener, NULL, NULL);
	assert_int_equal(fds_recv(fd, &hello, sizeof(hello), fds), sizeof(hello));
	assert_true(fds[0] >= 0);
	assert_int_equal(getsockopt(fds[0], SOL_SOCKET, SO_ACCEPTCONN, &listens, &size),
			 0);
	assert_int_equal(listens, 0);
	assert_true(send(fds[0], "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0);
	assert_true(recv(fds[0], &byte, 1, MSG_DONTWAIT) <= 0);
	begin(&b);
	assert_int_equal(forward(&b, host_slot(a.host), "to a"), 0);
	assert_true(accept4(fds[0], NULL, NULL, SOCK_NONBLOCK) < 0);
	run_until(&a, 1);
	assert_int_equal(a.got, 1);
	close(fds[0]);
	close(fd);
	close(listener);
	host_close(a.host);
	host_close(b.host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers_of_a_process_prove_nothing),
		cmocka_unit_test(test_the_proof_is_of_no_use),
	};

	enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
