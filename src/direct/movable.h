/* SPDX-License-Identifier: BSD-2-Clause */
/* movable.h - which memory of this process may become other pages at the same address
 * (docs/direct.md, "Private memory"): is it ordinary, and can anybody touch it meanwhile?
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

/* Nothing in here allocates: malloc() itself may have called.
 *
 * The calling thread alone can touch this process's memory: there is no other thread of
 * the program's, and nothing has pinned or locked its pages.  *resident: how many MiB it
 * has in memory. */
bool movable_now(unsigned *resident);
/* Not where the calling thread's own stack may lie in it. */
bool movable_extent(const struct extent *e);
/* Private memory in the extent, of which nothing is said that would be lost: at most max
 * pieces.  It costs the kernel some 20 us a MiB that the process has in memory. */
unsigned movable_find(const struct extent *in, struct extent *piece, unsigned max);
/* Nothing is said (madvise, pkey_mprotect, userfaultfd, mlock) of the last mapping, a
 * shared file's, that private pages in its place would not know. */
bool movable_is_plain_file(struct procmaps *maps);
/* Memory that is promised strictly may be refused when a page of a file is touched. */
bool movable_strictly(void);

#endif
