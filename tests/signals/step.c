/* SPDX-License-Identifier: BSD-2-Clause */
/* step.c - the signal comes at chosen instructions of a call: a child makes the calls,
 * and its parent, as a debugger, lets it go on by one instruction at a time until there.
 * On a busy machine that takes long: no more instructions are chosen when -s seconds are
 * over. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "signals.h"

static volatile sig_atomic_t over;

static void on_over(int sig)
{
	over = sig;
}

/* Stops before each call. */
static void make_calls(void)
{
	CHECK(!prctl(PR_SET_PDEATHSIG, SIGKILL));
	signal(SIGUSR2, on_over);
	CHECK(!ptrace(PTRACE_TRACEME, 0, NULL, NULL));
	act_open(SIGUSR1);
	while (raise(SIGSTOP), !over)
		act_main();
	act_close();
	act_say();
	exit(0);
}

/* Lets the child run until it stops, and gives it the signals that it gets otherwise.
 * Returns false if it has ended. */
static bool goes_on(pid_t pid, enum __ptrace_request how, int sig, int *stopped)
{
	int status;

	for (;;) {
		CHECK(!ptrace(how, pid, NULL, (void *)(long)sig));
		CHECK(waitpid(pid, &status, 0) == pid);
		if (!WIFSTOPPED(status)) {
			CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
			return false;
		}
		*stopped = WSTOPSIG(status);
		if (*stopped == SIGSTOP || *stopped == SIGTRAP)
			return true;
		sig = *stopped;
	}
}

/* Goes on by at most n instructions; returns how many there were before the next stop. */
static unsigned steps(pid_t pid, unsigned n)
{
	unsigned i = 0;
	int stopped;

	while (i < n && goes_on(pid, PTRACE_SINGLESTEP, 0, &stopped) &&
	       stopped == SIGTRAP)
		i++;
	return i;
}

int step(void)
{
	enum { MOST = 200000, WARM = 3 };
	unsigned length, i;
	int stopped, status;
	double end;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		make_calls();
	CHECK(waitpid(pid, &status, 0) == pid && WIFSTOPPED(status));
	for (i = 0; i < WARM; i++)
		CHECK(goes_on(pid, PTRACE_CONT, 0, &stopped) && stopped == SIGSTOP);
	length = steps(pid, MOST);
	CHECK(length > 0);
	srand(seed);
	end = now_s() + opt.seconds;
	for (i = 0; i < points && now_s() < end; i++) {
		unsigned at = (unsigned)rand() % length;

		if (steps(pid, at) < at) /* the call was shorter this time */
			continue;
		CHECK(goes_on(pid, PTRACE_CONT, SIGUSR1, &stopped));
		CHECK(stopped == SIGSTOP);
	}
	say("%u of %u instructions", i, length);
	CHECK(!goes_on(pid, PTRACE_CONT, SIGUSR2, &stopped));
	say("all right");
	return 0;
}
