/* SPDX-License-Identifier: BSD-2-Clause */
/* faults.c - programs to which, or in which, something goes wrong. */
#include <argp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

struct options opt = {
	.port = "18600",
	.gid = 1,
	.timeout = 16,
	.retries = 7,
	.seconds = 60,
};

static const struct command {
	const char *name;
	int (*run)(void);
} commands[] = {
	{ "worker", worker },	/* verified traffic with a peer */
	{ "target", target },	/* written to while it calls no verbs; -m */
	{ "fork", forks },	/* -m */
	{ "storm", storm },	/* forks while many threads work */
	{ "close", closes },	/* closes all descriptors; -m */
	{ "memory", memory },	/* faults and handlers of them; -m */
	{ "watch", watch },	/* prints events and what they changed */
	{ "renamed", renamed }, /* works on one interface, and says so */
};

static int (*command)(void);

/* clang-format off */
static const struct argp_option options[] = {
	{ "device",  'd', "NAME", 0, "device (default: the first)", 0 },
	{ "gid",     'g', "INDEX", 0, "GID index (1)", 0 },
	{ "port",    'p', "PORT", 0, "TCP port of the control connection", 0 },
	{ "mode",    'm', "WORDS", 0, "what a command does", 0 },
	{ "events",  'e', 0, 0, "sleep on the completion channel", 0 },
	{ "timeout", 'T', "0..31", 0, "of the QPs (16: 268 ms)", 0 },
	{ "retries", 'r', "0..7", 0, "of the QPs (7)", 0 },
	{ "qpn",     'q', "NUMBER", 0, "take no other QP number", 0 },
	{ "pause",   'z', "MS", 0, "between two rounds (0)", 0 },
	{ "time",    't', "SECONDS", 0, "how long at most (60)", 0 },
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
	case 'p':
		opt.port = arg;
		break;
	case 'm':
		opt.mode = arg;
		break;
	case 'e':
		opt.events = true;
		break;
	case 'T':
		opt.timeout = atoi(arg);
		break;
	case 'r':
		opt.retries = atoi(arg);
		break;
	case 'q':
		opt.qpn = (uint32_t)strtoul(arg, NULL, 0);
		break;
	case 'z':
		opt.pause = (unsigned)atoi(arg);
		break;
	case 't':
		opt.seconds = atof(arg);
		break;
	case ARGP_KEY_ARG:
		if (command) {
			opt.host = arg;
			break;
		}
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
		.args_doc = "COMMAND [SERVER]",
	};

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	alarm(120); /* a hang is a failure */
	return command();
}
