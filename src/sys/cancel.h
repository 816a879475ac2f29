/* SPDX-License-Identifier: BSD-2-Clause */
/* cancel.h - between cancel_hold() and cancel_let() pthread_cancel() does not end the
 * thread; between signals_hold() and signals_let() no handler interrupts it, but those
 * of its own faults (signals_most()).
 *
 * Cancellation ends a thread within a system call, with all the locks that it holds.
 * Control calls hold cancellation off as a whole (abi/abi.h).  Posts and polls do not,
 * since that costs two atomic instructions; so any code that they may reach, and that
 * makes a system call which is a cancellation point, holds it off itself. */
#ifndef SYS_CANCEL_H
#define SYS_CANCEL_H

#include <pthread.h>
#include <signal.h>

/* The state that was goes through a variable of this thread: ThreadSanitizer, in a
 * program built with it, takes what pthread_setcancelstate() writes for the program's
 * access, and knows nothing of our locks. */
static inline int cancel_hold(void)
{
	int was;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	return was;
}

static inline void cancel_let(int was)
{
	pthread_setcancelstate(was, NULL);
}

/* The signals that can be held off.  Those that tell of a fault of the thread itself, or
 * of a system call that a sandbox has trapped, would end the process. */
static inline sigset_t signals_most(void)
{
	sigset_t most;

	sigfillset(&most);
	sigdelset(&most, SIGSEGV);
	sigdelset(&most, SIGBUS);
	sigdelset(&most, SIGILL);
	sigdelset(&most, SIGFPE);
	sigdelset(&most, SIGTRAP);
	sigdelset(&most, SIGSYS); /* of seccomp: SECCOMP_RET_TRAP */
	return most;
}

/* Around what a handler of this thread may not interrupt at all. */
static inline void signals_hold(sigset_t *was)
{
	const sigset_t most = signals_most();

	pthread_sigmask(SIG_BLOCK, &most, was);
}

static inline void signals_let(const sigset_t *was)
{
	pthread_sigmask(SIG_SETMASK, was, NULL);
}

#endif
