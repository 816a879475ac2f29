/* SPDX-License-Identifier: BSD-2-Clause */
/* null_memory.h - memory that is nowhere (ibv_alloc_null_mr(3)): what is read from it
 * is 0, what is written to it is lost, at every address.
 */
#ifndef CORE_NULL_MEMORY_H
#define CORE_NULL_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* As long as a message can be, and a little more. */
#define NULL_LENGTH ((uint64_t)1 << 31)

/* Two ranges of addresses of NULL_LENGTH, of next to no memory. */
struct null_memory {
	uint8_t *zeroes, *sink;
	unsigned users; /* null regions; core->lock */
};

/* One more null region, one less; core->lock is held.  0 or -ENOMEM. */
int null_memory_use(struct null_memory *m);
void null_memory_unuse(struct null_memory *m);

static inline uint8_t *null_host(const struct null_memory *m, bool write)
{
	return write ? m->sink : m->zeroes;
}

#endif
