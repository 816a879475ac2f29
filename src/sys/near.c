/* SPDX-License-Identifier: BSD-2-Clause */
#include "sys/near.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

static unsigned least_of(unsigned a, unsigned b, unsigned c)
{
	unsigned ab = a < b ? a : b;

	return ab < c ? ab : c;
}

static bool differ(char a, char b)
{
	return tolower((unsigned char)a) != tolower((unsigned char)b);
}

static bool are_swapped(const char *a, const char *b)
{
	return !differ(a[0], b[-1]) && !differ(a[-1], b[0]);
}

/* The Levenshtein distance, with a swap of two neighbours as one step; computed row by
 * row. */
unsigned near_distance(const char *a, const char *b)
{
	enum { LONGEST = 64 };
	unsigned rows[3][LONGEST + 1], n = (unsigned)strlen(b);
	unsigned *row = rows[0], *last = rows[1], *before = rows[2];

	if (n > LONGEST)
		return LONGEST;
	for (unsigned j = 0; j <= n; j++)
		row[j] = j;
	for (unsigned i = 0; a[i]; i++) {
		unsigned *oldest = before;

		before = last;
		last = row;
		row = oldest;
		row[0] = i + 1;
		for (unsigned j = 0; j < n; j++) {
			row[j + 1] = least_of(last[j + 1] + 1, row[j] + 1,
					      last[j] + differ(a[i], b[j]));
			if (i && j && are_swapped(a + i, b + j) &&
			    before[j - 1] + 1 < row[j + 1])
				row[j + 1] = before[j - 1] + 1;
		}
	}
	return row[n];
}

const char *near_find(const char *word, near_name *name)
{
	const char *best = NULL;
	const unsigned third = (unsigned)strlen(word) / 3;
	unsigned least = third < 1 ? 2 : third > 3 ? 4 : third + 1;

	for (unsigned i = 0; name(i); i++) {
		unsigned d = near_distance(word, name(i));

		if (d < least && d < strlen(name(i))) {
			least = d;
			best = name(i);
		}
	}
	return best;
}

void near_hint(char to[NEAR_HINT], const char *word, near_name *name)
{
	const char *best = near_find(word, name);

	*to = '\0';
	if (best)
		snprintf(to, NEAR_HINT, "; did you mean %s?", best);
}
