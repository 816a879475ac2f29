/* SPDX-License-Identifier: BSD-2-Clause */
/* caps.h - the verbs and flags that a device may lack, and what the tables of them
 * share. */
#ifndef TESTS_CAPS_H
#define TESTS_CAPS_H

#include "feature.h"

typedef const struct ibv_device_attr_ex attrs;

struct optional {
	const char *name;
	bool (*claimed)(attrs *a);
	int (*try)(struct side *s);
	int rights; /* try() may return this errno, if the process lacks a right */
};

/* caps_queues.c, caps_memory.c, caps_raw.c; a row without a name ends each: */
extern const struct optional queue_verbs[], memory_verbs[], raw_verbs[];

/* caps.c: */
/* Is this claimed? */
bool always(attrs *a);
bool never(attrs *a);
bool has_flag(attrs *a, unsigned bit);
bool has_flush(attrs *a);

/* Each tries to make one, and destroys it; returns 0, or the error. */
int qp_ex(struct side *s, struct ibv_qp_init_attr_ex *a);
int qp_of_type(struct side *s, enum ibv_qp_type type);
int cq_with(struct side *s, uint64_t wc_flags);
int srq_with_tags(struct side *s, uint32_t num, uint32_t ops); /* caps_queues.c */

#endif
