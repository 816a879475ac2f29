/* SPDX-License-Identifier: BSD-2-Clause */
/* mark.c - see mark.h. */
#include "sys/mark.h"

#include <string.h>

/* The length of the mark's beginning, "{name=", at text; 0: none begins there. */
static size_t opens(const char *text)
{
	size_t n;

	if (*text != '{')
		return 0;
	n = 1 + strspn(text + 1, "abcdefghijklmnopqrstuvwxyz_");
	return n > 1 && text[n] == '=' ? n + 1 : 0;
}

size_t mark_drop(char *text)
{
	bool in_value = false;
	char *to = text;

	for (const char *from = text; *from; from++) {
		size_t n = in_value ? 0 : opens(from);

		if (n) {
			from += n - 1;
			in_value = true;
		} else if (in_value && *from == '}') {
			in_value = false;
		} else {
			*to++ = *from;
		}
	}
	*to = '\0';
	return (size_t)(to - text);
}

bool mark_next(char **at, const char **name, const char **value)
{
	char *text = *at, *end;
	size_t n = 0;

	while (*text && !(n = opens(text)))
		text++;
	end = n ? strchr(text + n, '}') : NULL;
	if (!end)
		return false;
	text[n - 1] = *end = '\0';
	*name = text + 1;
	*value = text + n;
	*at = end + 1;
	return true;
}
