/* SPDX-License-Identifier: BSD-2-Clause */
/* ring.c - see ring.h. Large rings are mappings, which stay empty until touched:
 * calloc() would clear reused heap memory and so make it resident. */
#include "verbs/ring.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "sys/inside.h"
#include "verbs/pd.h"

enum {
	MAP_FROM = 4096, /* smaller rings use calloc() and share pages */
	ALIGN = 64,
};

static void *alloc_zeroed(size_t bytes)
{
	void *ring;

	if (bytes < MAP_FROM)
		return calloc(1, bytes);
	ring = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	return ring == MAP_FAILED ? NULL : ring;
}

static void free_zeroed(void *ring, size_t bytes)
{
	if (bytes < MAP_FROM)
		free(ring);
	else if (ring)
		munmap(ring, bytes);
}

/* Precedes a ring in a parent domain with allocators, because the program's allocator
 * may decline and leave a ring to urnic. */
union front {
	void *from; /* the program's memory; NULL: urnic's */
	char bytes[ALIGN];
};

/* The program's functions may make calls of their own: no lock is held. */
static void *take_in(struct pd *pd, size_t bytes)
{
	union front *front;
	struct inside in = inside_pause();
	void *from = pd->how.alloc(&pd->ibv, pd->how.pd_context, bytes, ALIGN, 0);

	inside_resume(in);
	if (!from)
		return NULL;
	if (from == IBV_ALLOCATOR_USE_DEFAULT) {
		front = alloc_zeroed(bytes);
		return front ? front + 1 : NULL;
	}
	front = memset(from, 0, bytes);
	front->from = from;
	return front + 1;
}

static void give_back(struct pd *pd, void *from)
{
	struct inside in = inside_pause();

	pd->how.free(&pd->ibv, pd->how.pd_context, from, 0);
	inside_resume(in);
}

void *ring_alloc(struct pd *pd, size_t n, size_t size)
{
	return pd_has_allocators(pd) ? take_in(pd, n * size + sizeof(union front))
				     : alloc_zeroed(n * size);
}

void ring_free(struct pd *pd, void *ring, size_t n, size_t size)
{
	union front *front;

	if (!pd_has_allocators(pd)) {
		free_zeroed(ring, n * size);
		return;
	}
	if (!ring)
		return;
	front = (union front *)ring - 1;
	if (front->from && pd->how.free)
		give_back(pd, front->from);
	else if (!front->from)
		free_zeroed(front, n * size + sizeof(*front));
}
