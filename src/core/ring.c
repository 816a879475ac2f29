/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.c - see ring.h.  calloc() clears what it takes from its heap, and so
 * makes it resident; a mapping waits to be touched. */
#include "core/ring.h"

#include <stdlib.h>
#include <sys/mman.h>

enum { MAP_FROM = 4096 }; /* smaller ones share pages */

void *ring_alloc(size_t n, size_t size)
{
	void *ring;

	if (n * size < MAP_FROM)
		return calloc(n, size);
	ring = mmap(NULL, n * size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		    -1, 0);
	return ring == MAP_FAILED ? NULL : ring;
}

void ring_free(void *ring, size_t n, size_t size)
{
	if (n * size < MAP_FROM)
		free(ring);
	else if (ring)
		munmap(ring, n * size);
}
