/* SPDX-License-Identifier: BSD-2-Clause */
/* secret.h - random numbers that cannot be guessed from others that were given out: from
 * the kernel, many at a time. (sys/rand.h is for numbers that must be reproducible.) */
#ifndef SYS_SECRET_H
#define SYS_SECRET_H

#include <stdint.h>

enum { SECRET_WORDS = 256 };

/* Zeroed at first. */
struct secret {
	uint32_t word[SECRET_WORDS];
	unsigned left;
};

uint32_t secret_word(struct secret *s);
uint32_t secret_below(struct secret *s, uint32_t n); /* 0 .. n - 1 */
void secret_shuffle(struct secret *s, uint16_t *v, unsigned n);

#endif
