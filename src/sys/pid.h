/* SPDX-License-Identifier: BSD-2-Clause */
/* pid.h - the process's number, without a system call.
 *
 * Calls that must not act for a forked child compare it with the number of the process
 * that made the object.  The handlers of pthread_atfork() do not run for every child:
 * clone() and _Fork() bypass them. */
#ifndef SYS_PID_H
#define SYS_PID_H

#include <sys/types.h>

/* Returns what getpid() returns.  Any thread may call it, and a signal handler.  In a
 * child that shares its parent's memory (vfork) it may return the parent's number. */
pid_t pid_own(void);

#endif
