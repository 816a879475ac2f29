/* SPDX-License-Identifier: BSD-2-Clause */
/* guard.h - touch memory that may not be there.
 *
 * Application memory can be unmapped while it is registered.  These calls
 * answer -EFAULT then, where a plain access would kill the process.  Faults
 * elsewhere go to the handlers that the program installed (or to the default
 * action) as if the guard were not there.
 */
#ifndef SYS_GUARD_H
#define SYS_GUARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Install the SIGSEGV and SIGBUS handlers in front of the program's own, or
 * put them back where a program has installed its own since.  Cheap enough
 * for control paths: called at registration and at RTR. */
void guard_arm(void);

/* Would a fault of this thread be caught now?  Not if it blocks these signals, or if
 * the program has put its handlers in front: then the thread, or the process, would
 * die.  Three system calls. */
bool guard_catches(void);

/* This thread is to be caught, though it blocks these signals; 0, or what
 * guard_close() wants, which undoes it.  The thread's mask is looked at after
 * guard_arm() and every 256th time only, since that is a system call. */
unsigned guard_open(void);
void guard_close(unsigned opened);

/* The same from guard_enter() to guard_leave(), but begun by the first of the calls below
 * that touch memory: where none does, nothing is asked of the kernel.  They nest. */
void guard_enter(void);
void guard_leave(void);

/* Around fork: nobody is inside guard_arm() meanwhile. */
void guard_hold(void);
void guard_let_go(void);

/* Copy upward; the last min(n, 64) bytes are stored last, after a release
 * fence, since programs poll on the last byte.  0 or -EFAULT. */
int guard_copy(void *dst, const void *src, size_t n);

/* Run fn(arg), which may touch application memory but must take no lock and
 * own nothing that a jump out of it would leak.  0 or -EFAULT. */
int guard_call(void (*fn)(void *arg), void *arg);

/* Atomics on 8 aligned bytes with CPU instructions; the value before goes to
 * *orig in host order.  0 or -EFAULT. */
int guard_cmp_swap(uint64_t *at, uint64_t compare, uint64_t swap, uint64_t *orig);
int guard_fetch_add(uint64_t *at, uint64_t add, uint64_t *orig);

/* The same by a thread that is caught as it is (guard_catches()): nothing is begun.  For
 * what is done without the turn, perhaps in a signal handler that came upon a turn of its
 * thread: when a handler returns the kernel blocks the signals again, and the turn would
 * not know. */
int caught_copy(void *dst, const void *src, size_t n);
int caught_cmp_swap(uint64_t *at, uint64_t compare, uint64_t swap, uint64_t *orig);
int caught_fetch_add(uint64_t *at, uint64_t add, uint64_t *orig);

#endif
