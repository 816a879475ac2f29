/* SPDX-License-Identifier: BSD-2-Clause */
/* movable.h - decides which memory of this process may be replaced by other pages at
 * the same address (docs/direct.md, "Private memory"): the memory must be ordinary,
 * and nothing may touch it meanwhile.
 */
#ifndef DIRECT_MOVABLE_H
#define DIRECT_MOVABLE_H

#include <stdbool.h>
#include <stdint.h>

struct procmaps;

struct extent {
	uint64_t lo, hi;
};

static inline bool extents_meet(const struct extent *a, const struct extent *b)
{
	return a->lo < b->hi && b->lo < a->hi;
}

/* No function here allocates, since malloc() may be the caller.
 *
 * Is the calling thread the only one that can touch this process's memory? No other
 * thread of the program exists, and no pages are pinned or locked. *resident: MiB in
 * memory. */
bool movable_now(unsigned *resident);
/* May pages of the extent move? Not if it may contain the calling thread's own stack. */
bool movable_extent(const struct extent *e);
/* Finds private memory in the extent without attributes that a move would lose: at
 * most max pieces. Costs some 20 us per MiB that the process has in memory. */
unsigned movable_find(const struct extent *in, struct extent *piece, unsigned max);
/* Has the last mapping, of a shared file, no attributes (madvise, pkey_mprotect,
 * userfaultfd, mlock) that private pages in its place would lack? */
bool movable_is_plain_file(struct procmaps *maps);
/* Is memory strictly accounted? Then touching a page of a file may fail. */
bool movable_strictly(void);

#endif
