/* SPDX-License-Identifier: BSD-2-Clause */
/* null_mr.h - the region that is nowhere (ibv_alloc_null_mr(3)): what is read from it
 * is 0, what is written to it is lost, at every address.
 */
#ifndef CORE_NULL_MR_H
#define CORE_NULL_MR_H

#include <stdbool.h>
#include <stdint.h>

struct core;
struct mr;
struct pd;

/* As long as a message can be, and a little more. */
#define NULL_LENGTH ((uint64_t)1 << 31)

/* Two ranges of addresses of NULL_LENGTH, of next to no memory. */
struct null_memory {
	uint8_t *zeroes, *sink;
	unsigned users; /* null regions; core->lock */
};

int null_mr_alloc(struct pd *pd, struct mr **out); /* 0 or -ENOMEM */
void null_mr_release(struct core *core);	   /* one of them is gone */

static inline uint8_t *null_host(const struct null_memory *m, bool write)
{
	return write ? m->sink : m->zeroes;
}

#endif
