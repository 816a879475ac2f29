/* SPDX-License-Identifier: BSD-2-Clause */
/* cancel.h - between cancel_hold() and cancel_let() a thread is not cancelled.
 *
 * pthread_cancel() ends a thread within a system call, with all the locks that it
 * has.  Control calls hold it off as a whole (abi/abi.h).  Posts and polls do not,
 * since it costs two atomic instructions; so what they may come to, and is or
 * makes a system call that is a cancellation point, does.
 */
#ifndef SYS_CANCEL_H
#define SYS_CANCEL_H

#include <pthread.h>

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
