/* SPDX-License-Identifier: BSD-2-Clause */
#include "trace.h"

#include <signal.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum { CALL = SIGTRAP | 0x80 }; /* PTRACE_O_TRACESYSGOOD */

void trace_me(void)
{
	CHECK(!ptrace(PTRACE_TRACEME, 0, 0, 0));
	raise(SIGSTOP);
}

/* Returns the signal to deliver to the thread when it continues. */
static int deliver(int status, bool *is_call)
{
	int sig = WSTOPSIG(status);

	*is_call = sig == CALL;
	/* A new thread begins with SIGSTOP; ptrace reports events as SIGTRAP. */
	return *is_call || sig == SIGSTOP || sig == SIGTRAP ? 0 : sig;
}

static void end(pid_t pid)
{
	pid_t tid;
	int status;

	CHECK(!kill(pid, SIGKILL));
	do { /* the tracer has to reap the threads of the child, too */
		tid = waitpid(-1, &status, __WALL);
		CHECK(tid > 0);
	} while (tid != pid || !WIFSIGNALED(status));
}

bool trace_until(pid_t pid, unsigned point, const _Atomic uint32_t *counting)
{
	unsigned n = 0;
	int status, sig;
	bool call;

	CHECK(waitpid(pid, &status, __WALL) == pid && WIFSTOPPED(status));
	CHECK(!ptrace(PTRACE_SETOPTIONS, pid, 0,
		      PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL));
	CHECK(!ptrace(PTRACE_SYSCALL, pid, 0, 0));
	for (;;) {
		pid_t tid = waitpid(-1, &status, __WALL);

		CHECK(tid > 0);
		if (!WIFSTOPPED(status)) {
			if (tid != pid)
				continue; /* a thread of the child */
			CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
			return false;
		}
		sig = deliver(status, &call);
		if (call && atomic_load(counting) && ++n == point) {
			end(pid);
			return true;
		}
		/* The thread may have died meanwhile. */
		(void)ptrace(PTRACE_SYSCALL, tid, 0, sig);
	}
}
