/* SPDX-License-Identifier: BSD-2-Clause */
/* pair.c - cuts key=value texts; see pair.h. */
#include "sys/pair.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

static char *trim(char *text)
{
	char *end = text + strlen(text);

	while (end > text && isspace((unsigned char)end[-1]))
		*--end = '\0';
	while (isspace((unsigned char)*text))
		text++;
	return text;
}

/* Ends text at the first c and returns what follows; NULL: there is no c. */
static char *cut_at(char *text, char c)
{
	char *at = strchr(text, c);

	if (!at)
		return NULL;
	*at = '\0';
	return at + 1;
}

char *pair_next(char **at, char sep, char **value)
{
	char *key = *at;

	*at = cut_at(key, sep);
	*value = cut_at(key, '=');
	if (*value)
		*value = trim(*value);
	return trim(key);
}
