/* SPDX-License-Identifier: BSD-2-Clause */
/* null_memory.h - the memory of null regions (ibv_alloc_null_mr(3)): at every address,
 * reads give 0 and writes are discarded.
 */
#ifndef VERBS_NULL_MEMORY_H
#define VERBS_NULL_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Slightly more than the longest message. */
#define NULL_LENGTH ((uint64_t)1 << 31)

/* Two address ranges of NULL_LENGTH bytes that occupy almost no memory. */
struct null_memory {
	uint8_t *zeroes, *sink;
	unsigned users; /* number of null regions; under core->lock */
};

/* Count a null region in (0 or -ENOMEM) and out. core->lock is held. */
int null_memory_use(struct null_memory *m);
void null_memory_unuse(struct null_memory *m);

static inline uint8_t *null_host(const struct null_memory *m, bool write)
{
	return write ? m->sink : m->zeroes;
}

#endif
