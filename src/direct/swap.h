/* SPDX-License-Identifier: BSD-2-Clause */
/* swap.h - turns private pages of this process into file pages and back. A range has its
 * own memfd, so a peer that is lent one reaches no other; or, if that would take too many
 * descriptors, a place of its own in another range's. The file is sparse and long, so
 * that a mapping which the program extends (mremap) finds zeros behind it, as in private
 * memory.
 */
#ifndef DIRECT_SWAP_H
#define DIRECT_SWAP_H

#include <stdbool.h>
#include <stdint.h>

#include "sys/fd.h"
#include "sys/procmaps.h"
#include "sys/vacant.h"

/* A range of file pages; [lo, hi) is where they were when they were moved. */
struct swap_run {
	uint64_t lo, hi;
	uint64_t base; /* lo's place in the file */
	int fd;
	struct fd_id id;
	bool guest;	 /* another run, not this one, closes the file */
	unsigned places; /* of the file: have been used, if this is no guest */
	bool gone;	 /* runs.c: it is not mapped */
	bool edged;	 /* share.c: its first or last page is not a region's alone */
	bool writing;	 /* others may store to the file; runs.c's */
	bool past;	 /* the mappings may have what the file has not */
	/* During a fork: copy of the file's first bytes; else MAP_FAILED. */
	uint8_t *copy;
	uint64_t copied;
};

/* Is the mapping one of the run's file? */
bool swap_has(const struct swap_run *run, const struct procmap *m);

/* For pages that other threads may touch meanwhile. */
struct swap_beside {
	struct vacant place; /* the pages have been added to it */
	/* Nobody touches the pages now. May they be replaced, as far as it goes by what
	 * other threads are doing? */
	bool (*may)(uint64_t lo, uint64_t hi);
};

/* Turns whole pages of private anonymous memory, readable and writable, into file
 * pages. beside NULL: nothing may touch them meanwhile, not even a signal handler. Else
 * who touches them waits (sys/vacant.h); if some can not be turned, the run ends before
 * those. Returns 0, or -errno with the pages unchanged. */
int swap_out(uint64_t lo, uint64_t hi, struct swap_run *run,
	     const struct swap_beside *beside);
/* Has the run's file a place for another run, which may still be stored to? */
bool swap_takes_more(const struct swap_run *run);
/* swap_out() in the file of another run, which is no guest. */
int swap_out_with(uint64_t lo, uint64_t hi, struct swap_run *run, struct swap_run *host,
		  const struct swap_beside *beside);
/* VmFlags of a mapping of the file that swap_in() gives to private memory in its place:
 * mlock (lf: with MLOCK_ONFAULT), MADV_DONTDUMP, MADV_DONTFORK, MADV_RANDOM and
 * MADV_SEQUENTIAL. */
#define SWAP_MARKS "lo lf dd dc rr sr "

enum swap_how {
	/* No other process uses the file as its own memory (a fork's child that we were
	 * not told of), so the file is emptied. */
	SWAP_ALONE = 1,
	/* Some mappings have SWAP_MARKS. */
	SWAP_MARKED = 2,
	/* The kernel may hold pages of this process, to write to them by itself (direct
	 * I/O of io_uring, registered buffers). Pages of this file that are held stay;
	 * so they do where the kernel would not tell: the file has been lent. */
	SWAP_PINNED = 4,
};

/* Makes the pages private again, wherever the program has moved them; what it has
 * unmapped is freed. Nothing in this process may touch them meanwhile. A process that
 * has the file mapped may write, but its writes are lost from some moment on. how: of
 * enum swap_how. False: some pages are still the file's. */
bool swap_in(struct swap_run *run, unsigned how);
/* Could the kernel tell whether it holds pages of the run? */
bool swap_shows_pins(const struct swap_run *run);
/* Before another process gets a descriptor of the run's file; writing: for stores, too.
 * Otherwise the file is sealed against them, since /proc would open it again for whoever
 * has a descriptor. False: it must get none. */
bool swap_lend(const struct swap_run *run, bool writing);
/* Does no mapping of this process, or of a child that has the parent's, have the run's
 * file? A mapping by a descriptor that was opened anew, as others have, does not count.
 */
bool swap_is_unmapped(struct swap_run *run);
/* Drops the run: its file is closed, if it is no guest. */
void swap_forget(struct swap_run *run);

/* Called around fork(), so that the child has private memory as its parent had.
 * swap_copy() copies the file to memory shared by parent and child, and swap_parent()
 * drops the copy. swap_child(), in the still single-threaded child, puts the copy
 * where the file is mapped, and ends the runs. If there was no memory for a copy, the
 * child has no memory at these addresses. */
void swap_copy(struct swap_run *run);
void swap_parent(struct swap_run *run);
void swap_child(struct swap_run *run, unsigned n);

#endif
