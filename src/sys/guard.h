/* SPDX-License-Identifier: BSD-2-Clause */
/* guard.h - access to memory that may have been unmapped.
 *
 * A program may unmap memory while it is registered.  These calls then return -EFAULT,
 * where a plain access would kill the process.  Faults elsewhere go to the handlers that
 * the program installed, or to the default action, as if the guard were not there. */
#ifndef SYS_GUARD_H
#define SYS_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sys/lock.h"

/* Installs the SIGSEGV and SIGBUS handlers in front of the program's own, and again where
 * the program has installed its own since.  Cheap enough for control calls: called at
 * registration and at RTR. */
void guard_arm(void);

/* Would a fault of this thread be caught now?  It would not if the thread blocks these
 * signals, or if the program has put its handlers in front: then the thread or the
 * process would die.  Costs three system calls. */
bool guard_catches(void);

/* Lets the two signals through in this thread, if it blocks them.  Returns 0, or the
 * value for guard_close(), which undoes it.  The thread's mask is read, by a system call,
 * only after guard_arm() and every 256th time. */
unsigned guard_open(void);
void guard_close(unsigned opened);

/* Lets the two signals through from the first of the calls below that touches memory
 * until guard_leave(): if none does, no system call is made.  Pairs may nest. */
void guard_enter(void);
void guard_leave(void);

/* Is this thread between the two? */
bool guard_inside(void);

/* Pages that somebody has protected, and their owner opens at a touch (check/ward.h).  A
 * fault of an access that memory is mapped for, and not open to: */
struct guard_touch {
	uintptr_t at;
	uintptr_t by; /* the instruction; 0: not known here */
	bool ours;    /* urnic's own */
	bool writes;  /* false: reads, or that is not known */
};
/* NULL, or who is asked first, in a signal handler: true has the instruction run again.
 */
extern bool (*_Atomic guard_owner)(const struct guard_touch *t);

/* Around fork: makes sure that no thread is inside guard_arm(). guard_hold() returns
 * false if it does not. */
bool guard_hold(enum lock_how how);
void guard_let_go(void);
void guard_forked(void); /* in the child, in place of guard_let_go() */

/* Copies from low to high addresses.  The last min(n, 64) bytes are stored last, after a
 * release fence, since programs poll on the last byte.  Returns 0 or -EFAULT. */
int guard_copy(void *dst, const void *src, size_t n);

/* Runs fn(arg), which may touch application memory.  A fault jumps out of fn, so fn must
 * take no lock and own nothing that would leak.  Returns 0 or -EFAULT. */
int guard_call(void (*fn)(void *arg), void *arg);

/* Atomics on 8 aligned bytes by CPU instructions; *orig gets the value before, in host
 * byte order.  Return 0 or -EFAULT. */
int guard_cmp_swap(uint64_t *at, uint64_t compare, uint64_t swap, uint64_t *orig);
int guard_fetch_add(uint64_t *at, uint64_t add, uint64_t *orig);

#endif
