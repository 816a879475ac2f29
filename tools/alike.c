/* SPDX-License-Identifier: BSD-2-Clause */
/* alike.c - compares words as people write them; see alike.h. */
#include "alike.h"

#include <ctype.h>
#include <string.h>

/* Is this the minus sign of a number, rather than a hyphen between two words? */
static bool is_sign(const char *at, bool gap)
{
	return *at == '-' && gap && isdigit((unsigned char)at[1]);
}

void words_plain(char *to, size_t size, const char *from)
{
	size_t n = 0;
	bool gap = true; /* before the first word, too */

	for (; *from && n + 2 < size; from++) {
		unsigned char c = (unsigned char)*from;

		if (!isalnum(c) && !is_sign(from, gap)) {
			gap = true;
			continue;
		}
		if (gap && n > 0)
			to[n++] = ' ';
		gap = false;
		to[n++] = (char)tolower(c);
	}
	to[n] = '\0';
}

const char *words_after(const char *text, const char *head)
{
	size_t n = strlen(head);

	if (strncmp(text, head, n) != 0 || (text[n] && text[n] != ' '))
		return NULL;
	return text[n] ? text + n + 1 : text + n;
}

const char *words_within(const char *text, const char *head)
{
	const char *after = NULL;

	while (text && *text && !(after = words_after(text, head))) {
		text = strchr(text, ' ');
		text = text ? text + 1 : NULL;
	}
	return after;
}
