/* SPDX-License-Identifier: BSD-2-Clause */
/* pinned.h - writes to memory that the program has protected against writing.
 *
 * Garbage collectors and checkpoints do that (mprotect() with PROT_READ) to learn what
 * the program changes.  A NIC that has pinned the page writes to it all the same, and the
 * program's SIGSEGV handler is not called. */
#ifndef SYS_PINNED_H
#define SYS_PINNED_H

#include <stddef.h>

/* Copies from low to high addresses, the last 64 bytes last, to where guard_copy() has
 * failed.  It writes to memory that the process may write or could make writable:
 * anonymous memory, and shared memory whose file was opened for writing; if it has
 * PROT_READ, but not PROT_NONE, with which allocators give memory back.  Slow, since it
 * reads /proc.  Returns 0 or -EFAULT; after an error a part may have been written. */
int pinned_write(void *dst, const void *src, size_t n);

#endif
