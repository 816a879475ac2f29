/* SPDX-License-Identifier: BSD-2-Clause */
/* cancel.h - between cancel_hold() and cancel_let() pthread_cancel() does not end the
 * thread.
 *
 * Cancellation ends a thread within a system call, with all the locks that it holds.
 * Control calls hold cancellation off as a whole (abi/abi.h).  Posts and polls do not,
 * since that costs two atomic instructions; so any code that they may reach, and that
 * makes a system call which is a cancellation point, holds it off itself. */
#ifndef SYS_CANCEL_H
#define SYS_CANCEL_H

#include <pthread.h>

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

#endif
