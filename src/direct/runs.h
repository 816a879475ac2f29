/* SPDX-License-Identifier: BSD-2-Clause */
/* runs.h - the runs: ranges of this process's memory that are file pages (swap.h); and
 * the handling of calls that treat private pages differently: MADV_DONTNEED, and
 * making a process with a copy of this one's memory.
 *
 * Runs come and go under the lock of share.c, while no other thread of the program can
 * touch memory, or (docs/dev/threads.md) while those that store to it wait. The lock in
 * here is for callers that may not wait for share.c's: it is taken last, and its holder
 * waits for nothing.
 */
#ifndef DIRECT_RUNS_H
#define DIRECT_RUNS_H

#include <stdbool.h>
#include <stdint.h>

#include "direct/movable.h"
#include "direct/swap.h"

enum { RUNS = 1024 };

unsigned runs_count(void);
uint64_t runs_bytes(void);
const struct swap_run *runs_at(unsigned i);

/* May one more run be added? While `files', of which each takes a descriptor, are few, it
 * gets a file of its own; then a place in another's. */
bool runs_have_room(unsigned files, bool writing);
/* swap_out(), and adds the run, for which there is room. writing: the file may be lent
 * for others to store to. -EAGAIN, beside threads: something has been said of the memory
 * since runs_watch(). */
int runs_out(const struct extent *e, const struct swap_beside *beside, unsigned files,
	     bool writing);
void runs_are_edged(unsigned from);	/* the runs from that one on */
bool runs_in(unsigned i, unsigned how); /* swap_in(); the last run takes place i */
/* The program has unmapped all runs of run i's file, or is just moving them. Does the
 * kernel say that they are not mapped? Then all are `gone', and must be dropped. */
void runs_end(unsigned i);
void runs_drop(unsigned i); /* the last run takes place i */

/* Beside threads: what was learned of this memory between runs_watch() and runs_unwatch()
 * is still so when runs_out() begins, as far as other threads say something of it by
 * calls that begin with runs_change(). Waits briefly for calls that have begun. False:
 * one lasts, and nothing is watched. One memory at a time. */
bool runs_watch(const struct extent *e);
void runs_unwatch(void);
/* Around a call that says something of memory (mprotect, mlock ...): waits until the
 * memory is not just becoming a file's. The second gets what the first has returned. */
unsigned runs_change(const struct extent *e);
void runs_changed(unsigned when);

/* A descriptor that must not be closed by the program: one for each. */
enum runs_keep { KEEP_MOVING, KEEP_FORKING };
/* Called before it is opened: waits briefly for calls to close descriptors that have
 * begun; others wait for runs_keep(). False: one lasts, and nothing is kept. */
bool runs_keep_next(enum runs_keep k);
void runs_keep(enum runs_keep k, int fd); /* -1: no more */
bool runs_keeps(int fd);		  /* -1: may one be? */
/* The program has opened a descriptor, or told it to store directly. */
void runs_opened(int fd);

/* Is a part of the extent file pages, or was it when they were moved? Waits for pages
 * that are just becoming a file's. True also where
 * the program has moved pages and /proc does not say where to. False within the calls of
 * this header. */
bool runs_meet(const struct extent *e);
/* The same, of pages of run i alone. */
bool runs_has(unsigned i, const struct extent *e);
/* The program has moved file pages (mremap). */
void runs_strayed(void);
/* Fills file pages that lie wholly in the extent with zeros. */
void runs_zero(const struct extent *e);

/* The file is about to be lent; writing: for the peer to store to it, too. From then on
 * nobody changes what it is sealed against. False: it is a run's, and must not be lent.
 */
bool runs_lend(const struct fd_id *id, bool writing);

/* One descriptor is kept in reserve. While it is given up, reading /proc works even if
 * the program has used up all others. */
void runs_give_spare(void);
void runs_keep_spare(void);

/* Called around a fork (swap.h). The lock is held from the first call until one of the
 * others, with signals blocked: so it is never that of a thread which a signal handler
 * that forks has interrupted. waits: the caller may wait for locks of libc's before it
 * makes the process. False: there are no runs. */
bool runs_before_fork(bool waits);
void runs_in_parent(void);
void runs_in_child(void);
/* From now on runs may come while other threads make processes: so runs_before_fork()
 * takes the lock though there are none. */
void runs_beside_threads(void);

#endif
