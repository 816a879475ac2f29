/* SPDX-License-Identifier: BSD-2-Clause */
/* dump.c - urnic dump: prints the objects of a process that uses urnic, as text or as
 * JSON. */
#include <argp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ask.h"
#include "objects.h"
#include "options.h"
#include "show.h"
#include "sys/mark.h"
#include "urnic.h"

static void print_dump(char *text)
{
	fwrite(text, 1, mark_drop(text), stdout);
}

struct options {
	pid_t pid;
	bool json;
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (key) {
	case 'j':
		o->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (o->pid)
			argp_error(state, "one process at a time: '%s' is one too many",
				   arg);
		o->pid = ask_pid_of(arg);
		if (!o->pid)
			argp_error(state, "'%s' is no process id", arg);
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no process is named");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_dump(int argc, char **argv)
{
	static const struct argp argp = {
		.options = show_options,
		.parser = parse_option,
		.args_doc = "PID",
		.doc = "Show the protection domains, regions, windows, address handles,"
		       " queues, queue pairs and connections of a running process, which"
		       " goes on meanwhile.\vOnly its own user can ask.",
	};
	struct ask_question q = { .kind = ASK_DUMP };
	struct options o = { .pid = 0 };
	struct ask *a;
	int rc;

	options_parse(&argp, argc, argv, 0, &o);
	a = ask_open("urnic dump");
	rc = a ? ask_pid(a, o.pid, &q) : 1;
	if (!rc && q.bytes) {
		ask_as_text(&q);
		if (o.json)
			show_json(objects_of(q.bytes));
		else
			print_dump(q.bytes);
	}
	ask_close_question(&q);
	ask_close(a);
	return rc;
}
