/* SPDX-License-Identifier: BSD-2-Clause */
/* mapped.c - see mapped.h.
 *
 * The kernel has cheaper calls that fail with ENOMEM where nothing is mapped.  But
 * valgrind takes msync() for a read of bytes that the program has never written, or has
 * not allocated, and madvise() and mlock() change what the program has said of its
 * memory.
 *
 * mincore() takes a time that grows with the range: 1 us for a few pages, 0.2 to 20 us
 * for each MiB, the most where a file has holes.  The list of mappings takes some 25 us,
 * and more in a process that has many. */
#include "sys/mapped.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys/procmaps.h"

enum { FEW = 1024 }; /* pages that mincore() looks at in one call */

/* With other errors than ENOMEM the kernel checks something else. */
static bool pages_are_mapped(uintptr_t from, uintptr_t to, uintptr_t page)
{
	unsigned char in_memory[FEW];

	for (uintptr_t n; from < to; from += n) {
		n = to - from < FEW * page ? to - from : FEW * page;
		if (mincore((void *)from, n, in_memory) && errno == ENOMEM)
			return false;
	}
	return true;
}

/* *known: false if the list cannot be read. */
static bool list_has_all(uintptr_t from, uintptr_t to, bool *known)
{
	struct procmaps maps;
	struct procmap m;

	procmaps_open(&maps);
	*known = maps.fd >= 0;
	while (from < to && procmaps_next(&maps, &m) && m.lo <= from)
		if (m.hi > from)
			from = m.hi;
	procmaps_close(&maps);
	return from >= to;
}

bool mapped_all(uintptr_t from, uintptr_t to)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	bool known, mapped;

	if (to - from <= 2 * page)
		return true;
	if (to - from <= FEW * page)
		return pages_are_mapped(from, to, page);
	mapped = list_has_all(from, to, &known);
	return known ? mapped : pages_are_mapped(from, to, page);
}
