/* SPDX-License-Identifier: BSD-2-Clause */
/* env.c - urnic env: prints the environment that urnic run sets, for those who start
 * programs in another way. */
#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "environment.h"
#include "options.h"
#include "show.h"
#include "urnic.h"

enum { FAILED = 1 };

static const struct argp_option options[] = {
	{ "github", 'g', NULL, 0, "print lines for the file $GITHUB_ENV", 0 },
	{ "json", 'j', NULL, 0, "print JSON", 0 },
	{ 0 },
};

static error_t parse_option(int opt, char *arg, struct argp_state *state)
{
	(void)arg;
	if (opt != 'g' && opt != 'j')
		return ARGP_ERR_UNKNOWN;
	*(int *)state->input = opt;
	return 0;
}

/* Within single quotes a shell takes every character but the quote as it is. */
static void print_shell(const char *name, const char *value, void *arg)
{
	(void)arg;
	printf("export %s='", name);
	for (; *value; value++) {
		if (*value == '\'')
			fputs("'\\''", stdout);
		else
			putchar(*value);
	}
	puts("'");
}

/* The line that ends a value must not be in it. */
static void print_github(const char *name, const char *value, void *arg)
{
	unsigned n = 0;
	char end[24];

	(void)arg;
	do
		snprintf(end, sizeof(end), "END_OF_URNIC_%u", n++);
	while (strstr(value, end));
	if (strchr(value, '\n'))
		printf("%s<<%s\n%s\n%s\n", name, end, value, end);
	else
		printf("%s=%s\n", name, value);
}

struct object {
	json_t *all;
	int rc;
};

static void add_json(const char *name, const char *value, void *arg)
{
	struct object *o = arg;

	if (!json_object_set_new(o->all, name, json_string(value)))
		return;
	fprintf(stderr,
		"urnic env: %s is not UTF-8, which JSON must be; take the form for a shell\n",
		name);
	o->rc = FAILED;
}

static int print_json(void)
{
	struct object o = { json_object(), 0 };

	environment_each(add_json, &o);
	if (o.rc)
		json_decref(o.all);
	else
		show_json(o.all);
	return o.rc;
}

int cmd_env(int argc, char **argv)
{
	static const struct argp_child children[] = { { &environment_argp, 0, NULL, 0 },
						      { 0 } };
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.children = children,
		.doc = "Print the environment that `urnic run' sets, as commands of a"
		       " shell: eval \"$(urnic env)\".\vUse `urnic run' where you can:"
		       " it refuses programs into which the libraries cannot be loaded."
		       "  Exit status: 2 for wrong arguments or configuration.",
	};
	int form = 0;

	options_parse(&argp, argc, argv, 0, &form);
	if (environment_set("urnic env") != 0)
		return EXIT_USAGE;
	if (form == 'j')
		return print_json();
	environment_each(form == 'g' ? print_github : print_shell, NULL);
	return 0;
}
