/* SPDX-License-Identifier: BSD-2-Clause */
/* movable.h - decides which memory of this process may be replaced by other pages at
 * the same address (docs/dev/direct.md, "Private memory"): the memory must be ordinary,
 * and nothing may touch it meanwhile.
 */
#ifndef DIRECT_MOVABLE_H
#define DIRECT_MOVABLE_H

#include <stdbool.h>
#include <stddef.h>
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
/* The same, but for other threads of the program, who can be made to wait: may the kernel
 * store to the extent without waiting, for a system call of theirs that is under way? */
bool movable_beside_threads(const struct extent *e, unsigned *resident);
/* Is no thread that has begun tied to the extent in a way that outlasts waiting: it
 * sleeps there by the page and not by the address; or the kernel stores there when the
 * thread ends, as it cannot wait then. */
bool movable_is_untied(const struct extent *e);
/* Asked, too, whether threads may be tied to these bytes. */
void movable_ask(bool (*tied)(uintptr_t lo, size_t len));
/* Do system calls of the program store by this descriptor to pages that the kernel has
 * looked up before, as direct I/O does? */
bool movable_stores_directly(int fd);
/* The way back asks for less: is the calling thread the program's only one? */
bool movable_is_only_thread(void);
/* May the kernel or a device hold pages of this process, to write to them by itself? */
bool movable_may_be_pinned(void);
/* May pages of the extent move? Not if it may contain the calling thread's own stack, or
 * its thread-local variables: it would wait for itself. */
bool movable_extent(const struct extent *e);
/* Finds private memory in the extent without attributes that a move would lose: at
 * most max pieces. Costs some 20 us per MiB that the process has in memory. */
unsigned movable_find(const struct extent *in, struct extent *piece, unsigned max);
/* Can private pages have all that the last mapping has, which is of a shared file? Not if
 * it has a protection key or is registered with userfaultfd. *marked: it has something
 * that must be said again of private pages (swap.h, SWAP_MARKED). */
bool movable_is_revertible(struct procmaps *maps, bool *marked);
/* Is memory strictly accounted? Then touching a page of a file may fail. */
bool movable_strictly(void);

#endif
