/* SPDX-License-Identifier: BSD-2-Clause */
/* pinned.h - write to memory that the program has protected against writing.
 *
 * Garbage collectors and checkpoints do that (mprotect() with PROT_READ), to
 * learn what the program changes.  A NIC that has pinned the page writes to it
 * all the same, and the program's SIGSEGV handler is not asked.
 */
#ifndef SYS_PINNED_H
#define SYS_PINNED_H

#include <stddef.h>

/* Copy upward, the last 64 bytes last, to where guard_copy() has failed.  Takes
 * what the process itself may write or make writable: anonymous memory, and
 * shared memory whose file was opened for writing; of it PROT_READ, not
 * PROT_NONE, by which allocators give memory back.  Slow: it asks /proc.  0 or
 * -EFAULT; then some of it may have been written. */
int pinned_write(void *dst, const void *src, size_t n);

#endif
