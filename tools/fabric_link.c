/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_link.c - urnic fabric link: pulls a cable of a running fabric, or plugs it in
 * again. */
#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric_cmd.h"
#include "fabric_control.h"
#include "options.h"
#include "urnic.h"

struct options {
	const char *name, *word[3];
	unsigned words;
};

static const struct argp_option options[] = {
	{ "fabric", 'F', "NAME", 0, "the fabric; default: URNIC_FABRIC", 0 },
	{ 0 },
};

static error_t parse_option(int opt, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (opt) {
	case 'F':
		o->name = arg;
		return 0;
	case ARGP_KEY_ARG:
		if (o->words == 3)
			argp_error(state, "'%s' is one word too many", arg);
		o->word[o->words++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (o->words < 3)
			argp_error(state, "expected down or up, a node and a port");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_fabric_link(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.args_doc = "down|up NODE PORT",
		.doc = "Pull the cable at a port of a running fabric, or plug it in"
		       " again: both ends lose the link, switches send trap 128.\v"
		       "NODE is a name of the topology file, with or without S- and H-,"
		       " a description or a GUID.  Exit status: 1 if there is no"
		       " such link.",
	};
	struct options o = { 0 };
	char *end;
	bool up;
	long port;
	json_t *j;

	options_parse(&argp, argc, argv, 0, &o);
	up = strcmp(o.word[0], "up") == 0;
	port = strtol(o.word[2], &end, 10);
	if ((!up && strcmp(o.word[0], "down") != 0) || *end || end == o.word[2]) {
		fprintf(stderr,
			"urnic fabric link: expected down or up, a node and the"
			" number of a port, not '%s'\n",
			*end || end == o.word[2] ? o.word[2] : o.word[0]);
		return EXIT_USAGE;
	}
	o.name = fabric_named(o.name);
	if (!o.name)
		return EXIT_USAGE;
	j = control_ask("urnic fabric link", o.name,
			json_pack("{ss ss si sb}", "ask", "link", "node", o.word[1],
				  "port", (int)port, "up", (int)up));
	if (!j)
		return 1;
	printf("%s %d - %s %d: %s\n", json_string_value(json_object_get(j, "node")),
	       (int)json_integer_value(json_object_get(j, "port")),
	       json_string_value(json_object_get(j, "peer")),
	       (int)json_integer_value(json_object_get(j, "peer_port")),
	       up ? "plugged in" : "pulled");
	json_decref(j);
	return 0;
}
