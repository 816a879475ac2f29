/* SPDX-License-Identifier: BSD-2-Clause */
/* command.c - runs one of a program's commands; see command.h. */
#include "command.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rig.h"

/* clang-format off */
static const struct argp_option common[] = {
	{ "device",  'd', "NAME", 0, "device (default: the first)", 0 },
	{ "gid",     'g', "INDEX", 0, "GID index (1)", 0 },
	{ "port",    'p', "PORT", 0, "TCP port of the control connection", 0 },
	{ "mode",    'm', "WORDS", 0, "what a command does", 0 },
	{ "events",  'e', 0, 0, "sleep on the completion channel", 0 },
	{ 0 },
};
/* clang-format on */

struct choice {
	const struct command *commands, *chosen;
	void (*take)(int key, const char *arg);
};

static void take_word(struct choice *c, char *word, struct argp_state *state)
{
	if (c->chosen) {
		opt.host = word;
		return;
	}
	for (const struct command *at = c->commands; at->name; at++)
		if (!strcmp(word, at->name))
			c->chosen = at;
	if (!c->chosen)
		argp_error(state, "no command %s", word);
}

static error_t parse_common(int key, char *arg, struct argp_state *state)
{
	struct choice *c = state->input;

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
	case ARGP_KEY_ARG:
		take_word(c, arg, state);
		break;
	case ARGP_KEY_END:
		if (!c->chosen)
			argp_usage(state);
		break;
	default:
		return ARGP_ERR_UNKNOWN;
	}
	return 0;
}

static error_t parse_own(int key, char *arg, struct argp_state *state)
{
	struct choice *c = state->input;

	if (key == ARGP_KEY_INIT)
		state->child_inputs[0] = c;
	if (key <= 0 || key > 0x7f)
		return ARGP_ERR_UNKNOWN;
	c->take(key, arg);
	return 0;
}

int command_main(int argc, char **argv, const struct command *commands,
		 const struct argp_option *own, void (*take)(int key, const char *arg),
		 unsigned seconds)
{
	static const struct argp shared = { .options = common, .parser = parse_common };
	static const struct argp_child children[] = { { .argp = &shared }, { 0 } };
	const struct argp argp = {
		.options = own,
		.parser = parse_own,
		.args_doc = "COMMAND [SERVER]",
		.children = children,
	};
	struct choice c = { commands, NULL, take };

	argp_parse(&argp, argc, argv, 0, NULL, &c);
	alarm(seconds);
	return c.chosen->run();
}
