/* SPDX-License-Identifier: BSD-2-Clause */
/* trace.h - run a child up to one of its system calls (ptrace). */
#ifndef LOCAL_TESTS_TRACE_H
#define LOCAL_TESTS_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* In the child: the parent may trace from here on. */
void trace_me(void);

/* In the parent: kill it at the point'th beginning or end of a system call, in
 * any of its threads, that comes while *counting; 0: never.  True: it was
 * killed there; false: it ended by itself, with status 0. */
bool trace_until(pid_t pid, unsigned point, const _Atomic uint32_t *counting);

#endif
