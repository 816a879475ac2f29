/* SPDX-License-Identifier: BSD-2-Clause */
/* checks.c - see checks.h. */
#include "sys/checks.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

const struct check_hooks *checks;
bool checks_time;
bool checks_ends;
struct check_unseen (*checks_unseen)(void);

const struct check_row check_rows[CHECKS] = {
#define CHECK(id, name, list, what, remedy, example)                                     \
	[CHECK_##id] = { name, list, what, remedy, example },
#include "sys/checks.def"
#undef CHECK
};

static uint64_t listed_checks(enum check_list upto)
{
	uint64_t set = 0;

	for (int i = 0; i < CHECKS; i++)
		if (check_rows[i].list <= upto)
			set |= check_bit((enum check)i);
	return set;
}

enum check check_named(const char *name, size_t n)
{
	int i = 0;

	while (i < CHECKS && (strlen(check_rows[i].name) != n ||
			      memcmp(check_rows[i].name, name, n) != 0))
		i++;
	return (enum check)i;
}

/* Returns the checks that a word stands for; 0: none. */
static uint64_t word_set(const char *word, size_t n)
{
	enum check one;

	if (n == 3 && !memcmp(word, "all", n))
		return listed_checks(CHECK_ALL);
	if (n == 7 && !memcmp(word, "default", n))
		return listed_checks(CHECK_DEFAULT);
	one = check_named(word, n);
	return one == CHECKS ? 0 : check_bit(one);
}

int checks_parse(const char *list, uint64_t *set, char wrong[CHECK_WORD])
{
	uint64_t out = 0;

	if (strcmp(list, "off") == 0)
		list = "";
	for (const char *word = list; *word;) {
		const size_t n = strcspn(word, ",");
		const bool without = word[0] == '-';
		const uint64_t some = word_set(word + without, n - without);

		if (!some) {
			snprintf(wrong, CHECK_WORD, "%.*s", (int)(n - without),
				 word + without);
			return -EINVAL;
		}
		/* A list that begins with an exception excepts from the default. */
		if (without && word == list)
			out = listed_checks(CHECK_DEFAULT);
		out = without ? out & ~some : out | some;
		word += n + (word[n] == ',');
	}
	*set = out;
	return 0;
}
