/* SPDX-License-Identifier: BSD-2-Clause */
/* take.c - see take.h. */
#include "sys/take.h"

#include <string.h>

bool take_u64(const char **s, uint64_t *out)
{
	uint64_t n = 0;

	if (**s < '0' || **s > '9')
		return false;
	for (; **s >= '0' && **s <= '9'; (*s)++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(**s - '0'), &n))
			return false;
	*out = n;
	return true;
}

/* strtod() would depend on the program's locale. */
bool take_ppm(const char **s, uint32_t *out)
{
	uint64_t whole, ppm;
	uint32_t unit = 100000;

	if (!take_u64(s, &whole) || whole > 1)
		return false;
	ppm = whole * 1000000;
	if (take_more(s, '.'))
		for (; **s >= '0' && **s <= '9'; (*s)++, unit /= 10)
			ppm += (uint64_t)(**s - '0') * unit;
	*out = (uint32_t)ppm;
	return ppm <= 1000000;
}

bool take_more(const char **s, char c)
{
	if (**s != c)
		return false;
	(*s)++;
	return true;
}

bool take_amount(const char **s, const struct take_unit *units, size_t n, uint64_t *out)
{
	if (!take_u64(s, out))
		return false;
	for (size_t i = 0; i < n; i++) {
		const size_t len = strlen(units[i].name);

		if (strncmp(*s, units[i].name, len) != 0)
			continue;
		*s += len;
		return !__builtin_mul_overflow(*out, units[i].worth, out);
	}
	return false;
}
