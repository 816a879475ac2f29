/* SPDX-License-Identifier: BSD-2-Clause */
/* trace.h - run a child up to one of its system calls (ptrace). */
#ifndef LOCAL_TESTS_TRACE_H
#define LOCAL_TESTS_TRACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* In the child: lets the parent trace it from here on. */
void trace_me(void);

/* In the parent: counts the beginnings and ends of system calls in all threads of the
 * child while *counting, and kills the child at the point'th one (0: never).  Returns
 * true if the child was killed, false if it ended by itself with status 0. */
bool trace_until(pid_t pid, unsigned point, const _Atomic uint32_t *counting);

#endif
