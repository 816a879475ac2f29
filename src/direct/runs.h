/* SPDX-License-Identifier: BSD-2-Clause */
/* runs.h - the ranges of this process's memory that are a file's (swap.h), and what is
 * done about them where private memory would be another thing: MADV_DONTNEED, and a
 * process with a copy of this one's memory.
 *
 * They come and go while no other thread of the program's can touch memory, under the
 * lock of share.c.  The lock in here is for those who may not wait for that one: it comes
 * last, and who has it waits for nobody.
 */
#ifndef DIRECT_RUNS_H
#define DIRECT_RUNS_H

#include <stdbool.h>
#include <stdint.h>

#include "direct/movable.h"
#include "direct/swap.h"

enum { RUNS = 64 }; /* a descriptor each */

unsigned runs_count(void);
uint64_t runs_bytes(void);
const struct swap_run *runs_at(unsigned i);

int runs_out(const struct extent *e); /* as swap_out(); one more run */
bool runs_in(unsigned i, bool alone); /* as swap_in(); the last one takes its place */
void runs_forget(unsigned i);	      /* the memory of what the program has unmapped */

/* Some of that may be a file's; false within the calls of this header. */
bool runs_meet(const struct extent *e);
/* The program may have moved (mremap) something that is a file's. */
void runs_strayed(void);
bool runs_have_strayed(void);
/* The pages that are a file's, and wholly in the extent, hold zeros. */
void runs_zero(const struct extent *e);

/* A descriptor is kept back: while it is given the process has one for what looks at
 * /proc, even if the program has used up all others. */
void runs_give_spare(void);
void runs_keep_spare(void);

/* Around a fork (swap.h).  The first two by who holds the lock of share.c; with the
 * last three also by who holds none. */
void runs_copy(void);
void runs_copied(void);
bool runs_before_fork(void); /* false: there are none */
void runs_in_parent(void);
void runs_in_child(void);
/* The same of a child that had called runs_copy(). */
void runs_child(void);

#endif
