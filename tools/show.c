/* SPDX-License-Identifier: BSD-2-Clause */
/* show.c - see show.h. */
#include "show.h"

#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#include "sys/log.h"

const struct argp_option show_options[] = {
	{ "json", 'j', NULL, 0, "print JSON", 0 },
	{ 0 },
};

error_t show_parse(int key, char *arg, struct argp_state *state)
{
	(void)arg;
	if (key != 'j')
		return ARGP_ERR_UNKNOWN;
	*(bool *)state->input = true;
	return 0;
}

void show_json(json_t *j)
{
	json_dumpf(j, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(j);
}

const char *show_colour(enum colour c)
{
	static const char *const begin[] = {
		[PLAIN] = "\033[0m",   [BOLD] = "\033[1m", [GREEN] = "\033[32m",
		[YELLOW] = "\033[33m", [RED] = "\033[31m",
	};

	return isatty(STDOUT_FILENO) && log_may_colour() ? begin[c] : "";
}
