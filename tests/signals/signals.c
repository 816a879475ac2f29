/* SPDX-License-Identifier: BSD-2-Clause */
/* signals.c - verbs calls that a signal interrupts, whose handler makes verbs calls or
 * forks.  Nothing may hang, fail or get lost; a call of the handler may be refused with
 * EDEADLK. */
#include "signals.h"

#include <stdlib.h>

#include "command.h"

struct options opt = { .gid = 1, .timeout = 14, .retries = 7, .seconds = 1 };
unsigned points = 100, seed = 1;

static const struct command commands[] = {
	{ "step", step },   /* at -n instructions of a call, by single steps; -r, -s */
	{ "timer", timer }, /* after random times, for -s; -r */
	{ 0 },
};

/* clang-format off */
static const struct argp_option options[] = {
	{ "points",  'n', "N", 0, "instructions at which the signal comes (100)", 0 },
	{ "random",  'r', "SEED", 0, "seed (1)", 0 },
	{ "seconds", 's', "SECONDS", 0, "for how long (1)", 0 },
	{ 0 },
};
/* clang-format on */

static void take(int key, const char *arg)
{
	switch (key) {
	case 'n':
		points = (unsigned)atoi(arg);
		break;
	case 'r':
		seed = (unsigned)atoi(arg);
		break;
	case 's':
		opt.seconds = atof(arg);
		break;
	}
}

int main(int argc, char **argv)
{
	return command_main(argc, argv, commands, options, take, 100);
}
