/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.c - programs whose threads meet: in locks, on processors. */
#include "threads.h"

#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct options opt = {
	.port = "18600", .gid = 1, .timeout = 14, .retries = 7, .seconds = 2
};
struct thread_options topt = { .count = 100 };

static const struct command {
	const char *name;
	int (*run)(void);
} commands[] = {
	{ "affinity", affinity },  /* ... who is pinned */
	{ "build", build },	   /* -m: what goes on while requests are built */
	{ "fifo", fifo },	   /* ... what a thread of high priority does; -s */
	{ "many", many },	   /* ... where the peers are, how threads wait; -n */
	{ "register", registers }, /* ... while others send; -s */
	{ "paused", paused },	   /* ... what is done first afterwards; -n times */
};

static int (*command)(void);

/* clang-format off */
static const struct argp_option options[] = {
	{ "device",  'd', "NAME", 0, "device (default: the first)", 0 },
	{ "gid",     'g', "INDEX", 0, "GID index (1)", 0 },
	{ "mode",    'm', "WORD", 0, "what a command does", 0 },
	{ "count",   'n', "N", 0, "how many (100)", 0 },
	{ "seconds", 's', "SECONDS", 0, "for how long (2)", 0 },
	{ 0 },
};
/* clang-format on */

static error_t parse(int key, char *arg, struct argp_state *state)
{
	switch (key) {
	case 'd':
		opt.dev = arg;
		break;
	case 'g':
		opt.gid = atoi(arg);
		break;
	case 'm':
		opt.mode = arg;
		break;
	case 'n':
		topt.count = (unsigned)atoi(arg);
		break;
	case 's':
		opt.seconds = atof(arg);
		break;
	case ARGP_KEY_ARG:
		for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++)
			if (!strcmp(arg, commands[i].name))
				command = commands[i].run;
		if (!command)
			argp_error(state, "no command %s", arg);
		break;
	case ARGP_KEY_END:
		if (!command)
			argp_usage(state);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

int main(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "COMMAND",
	};

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	alarm(120); /* a hang is a failure */
	return command();
}
