/* SPDX-License-Identifier: BSD-2-Clause */
/* swap.h - private pages of this process that become a file's, and private again.
 *
 * One sparse file has all of them (a memfd).  Ranges are far apart in it, so that a
 * mapping that the program makes longer (mremap) finds zeros behind it, as private
 * memory would, and nobody else's pages.
 */
#ifndef DIRECT_SWAP_H
#define DIRECT_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/fd.h"
#include "sys/procmaps.h"

enum {
	SWAP_RUNS = 1024,    /* in the life of a file */
	SWAP_APART_BITS = 36 /* bytes, from one to the next */
};

struct swap {
	int fd; /* -1: there is none */
	struct fd_id id;
	unsigned runs; /* so many there were */
};

/* Pages that are the file's: [lo, hi) were moved there, from byte `at' on. */
struct swap_run {
	uint64_t lo, hi, at;
};

/* 0 or -errno. */
int swap_open(struct swap *s);
/* The child of a fork; or the end. */
void swap_close(struct swap *s);
/* The mapping is the file's. */
bool swap_has(const struct swap *s, const struct procmap *m);

/* Whole pages of private anonymous memory, readable and writable, become the file's.
 * Nobody may touch them meanwhile, no signal handler either.  False: none.  It may be a
 * part, if there is no memory for all. */
bool swap_out(struct swap *s, uint64_t lo, uint64_t hi, struct swap_run *run);
/* ... and private again, wherever the program has moved them, and what it has unmapped
 * goes.  The same holds.  False: some of them are the file's still. */
bool swap_in(struct swap *s, const struct swap_run *run);

/* For fork(), whose child has private memory as its parent had it: before it a copy is
 * made, which the child maps.  NULL: there is nothing to copy.  Where there is no memory
 * for it the child finds none there. */
struct swap_copy *swap_copy(const struct swap *s);
void swap_parent(struct swap_copy *c);
void swap_child(struct swap_copy *c);

#endif
