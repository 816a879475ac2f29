/* SPDX-License-Identifier: BSD-2-Clause */
/* take.h - values in the texts of settings. Each function takes what it knows from the
 * text at *s, advances *s behind that, and returns false if the text is malformed. */
#ifndef SYS_TAKE_H
#define SYS_TAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits. False if the number has more than 64 bits. */
bool take_u64(const char **s, uint64_t *out);

/* A probability, 0 to 1 with up to six decimals, as millionths. */
bool take_ppm(const char **s, uint32_t *out);

/* The character c, if it comes next. */
bool take_more(const char **s, char c);

struct take_unit {
	const char *name;
	uint64_t worth;
};

/* A number and one of n units; *out is their product. */
bool take_amount(const char **s, const struct take_unit *units, size_t n, uint64_t *out);

#endif
