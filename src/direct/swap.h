/* SPDX-License-Identifier: BSD-2-Clause */
/* swap.h - private pages of this process that become a file's, and private again.
 *
 * Each range has a file of its own (a memfd): who is lent one reaches no other.  It is
 * sparse and long, so that a mapping that the program makes longer (mremap) finds zeros
 * behind it, as private memory would.
 */
#ifndef DIRECT_SWAP_H
#define DIRECT_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/fd.h"
#include "sys/procmaps.h"

/* Pages that are a file's: [lo, hi) were moved there. */
struct swap_run {
	uint64_t lo, hi;
	int fd;
	struct fd_id id;
	/* During a fork: of the first bytes of the file; else MAP_FAILED. */
	uint8_t *copy;
	uint64_t copied;
};

/* The mapping is of the run's file. */
bool swap_has(const struct swap_run *run, const struct procmap *m);

/* Whole pages of private anonymous memory, readable and writable, become a file's.
 * Nobody may touch them meanwhile, no signal handler either.  0; or -errno, and they are
 * as they were. */
int swap_out(uint64_t lo, uint64_t hi, struct swap_run *run);
/* ... and private again, wherever the program has moved them, and what it has unmapped
 * goes.  The same holds, but that who has mapped the file elsewhere may write to it: that
 * is lost from a moment on.  alone: no other process has the file for its own memory (a
 * child of a fork that we were not told of), so it keeps nothing.  False: some of them
 * are the file's still. */
bool swap_in(struct swap_run *run, bool alone);
/* The child of a fork has none. */
void swap_forget(struct swap_run *run);

/* Around fork(), whose child has private memory as its parent had it.  What the file has
 * is copied before, to memory that parent and child have; the parent forgets it.  The
 * child, where nothing changes any more, puts it where the file is mapped, and nowhere
 * else, and has none of the runs then.  Where there is no memory for a copy it has none
 * at these addresses. */
void swap_copy(struct swap_run *run);
void swap_parent(struct swap_run *run);
void swap_child(struct swap_run *run, unsigned n);

#endif
