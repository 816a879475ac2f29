/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.c - programs whose threads compete for locks and processors. */
#include "threads.h"

#include <stdlib.h>

#include "command.h"

struct options opt = {
	.port = "18600", .gid = 1, .timeout = 14, .retries = 7, .seconds = 2
};
struct thread_options topt = { .count = 100 };

static const struct command commands[] = {
	{ "affinity", affinity },  /* ... who is pinned */
	{ "build", build },	   /* -m: what goes on while requests are built */
	{ "fifo", fifo },	   /* ... what a thread of high priority does; -s */
	{ "many", many },	   /* ... where the peers are, how threads wait; -n */
	{ "register", registers }, /* ... while others send; -s */
	{ "paused", paused },	   /* ... what is done first afterwards; -n times */
	{ 0 },
};

/* clang-format off */
static const struct argp_option options[] = {
	{ "count",   'n', "N", 0, "how many (100)", 0 },
	{ "seconds", 's', "SECONDS", 0, "for how long (2)", 0 },
	{ 0 },
};
/* clang-format on */

static void take(int key, const char *arg)
{
	switch (key) {
	case 'n':
		topt.count = (unsigned)atoi(arg);
		break;
	case 's':
		opt.seconds = atof(arg);
		break;
	}
}

int main(int argc, char **argv)
{
	return command_main(argc, argv, commands, options, take, 120);
}
