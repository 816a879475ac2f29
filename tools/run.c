/* SPDX-License-Identifier: BSD-2-Clause */
/* run.c - urnic run: runs a program with urnic's libraries in front of the system's. */
#include <argp.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "environment.h"
#include "options.h"
#include "program.h"
#include "urnic.h"

enum { NOT_RUN = 126, NOT_FOUND = 127 }; /* exit statuses, as of a shell */

static const struct argp_option options[] = {
	{ "dry-run", 'n', NULL, 0, "print the environment instead of running", 0 },
	{ 0 },
};

struct run {
	char **argv; /* of the program */
	bool dry;
};

static error_t parse_option(int opt, char *arg, struct argp_state *state)
{
	struct run *r = state->input;

	(void)arg;
	switch (opt) {
	case 'n':
		r->dry = true;
		return 0;
	case ARGP_KEY_ARG:
		r->argv = &state->argv[state->next - 1];
		state->next = state->argc; /* the rest is the program's */
		return 0;
	case ARGP_KEY_NO_ARGS:
		argp_error(state, "no program is named");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void print_setting(const char *name, const char *value, void *arg)
{
	(void)arg;
	printf("%s=%s\n", name, value);
}

int cmd_run(int argc, char **argv)
{
	static const struct argp_child children[] = { { &environment_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.children = children,
		.args_doc = "[--] PROGRAM [ARG...]",
		.doc = "Run PROGRAM with urnic's libibverbs, librdmacm and libibumad"
		       " in place of the system's.\vThe options set the environment"
		       " variables of urnic(7).  Exit status: PROGRAM's; 127 if"
		       " it is not found, 126 if it cannot be run on urnic, 2 for"
		       " wrong arguments or configuration.",
	};
	char path[PATH_MAX], why[256];
	struct run r = { 0 };
	int rc;

	options_parse(&argp, argc, argv, ARGP_IN_ORDER, &r);
	rc = program_find(r.argv[0], path, sizeof(path));
	if (rc) {
		fprintf(stderr, "urnic run: %s: %s\n", r.argv[0],
			rc == -ENOENT ? "no such program" : strerror(-rc));
		return rc == -ENOENT ? NOT_FOUND : NOT_RUN;
	}
	if (program_check(path, why, sizeof(why)) != 0) {
		fprintf(stderr, "urnic run: %s %s\n", path, why);
		return NOT_RUN;
	}
	if (environment_set("urnic run") != 0)
		return EXIT_USAGE;
	if (r.dry) {
		environment_each(print_setting, NULL);
		return 0;
	}
	execv(path, r.argv);
	if (errno == ENOEXEC) /* a script without #! */
		execvp(path, r.argv);
	fprintf(stderr, "urnic run: %s: %s\n", path, strerror(errno));
	return NOT_RUN;
}
