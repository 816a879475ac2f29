/* SPDX-License-Identifier: BSD-2-Clause */
/* hang.h - finds what happens again and again for a second, while nothing else does: a
 * program waits for something that will not come. */
#ifndef VERBS_HANG_H
#define VERBS_HANG_H

#include <stdbool.h>
#include <stdint.h>

/* Zero at first. */
struct hang {
	uint32_t at; /* to what it happens: a PSN, or a QP number */
	unsigned n;  /* how often it has happened; 0: never */
	uint64_t since, last;
	bool said;
};

/* It happens again. Returns true once, when it has for a second. */
bool hang_seen(struct hang *h, uint32_t at, uint64_t now);

#endif
