/* SPDX-License-Identifier: BSD-2-Clause */
/* options.c - see options.h. argp does not say which option it does not know, so
 * getopt_long() goes through the arguments before it, with the same options. */
#include "options.h"

#include <ctype.h>
#include <getopt.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/near.h"

enum { MOST = 64, OWN = -2 };

static struct known {
	struct option longs[MOST + 1];
	char shorts[3 * MOST + 2];
	unsigned n;
} known;

static void add_option(struct known *k, const char *name, int key, int has_arg)
{
	if (name && k->n < MOST)
		k->longs[k->n++] = (struct option){ name, has_arg, NULL, key };
	if (key > 0 && key < 128 && isprint(key) &&
	    strlen(k->shorts) + 3 < sizeof(k->shorts))
		sprintf(k->shorts + strlen(k->shorts), "%c%.*s", key, has_arg, "::");
}

static void add_options(struct known *k, const struct argp *argp)
{
	for (const struct argp_option *o = argp->options; o && (o->name || o->key); o++)
		add_option(k, o->name, o->key,
			   !o->arg			    ? no_argument
			   : o->flags & OPTION_ARG_OPTIONAL ? optional_argument
							    : required_argument);
	for (const struct argp_child *c = argp->children; c && c->argp; c++)
		add_options(k, c->argp);
}

static const char *name_at(unsigned i)
{
	return known.longs[i].name;
}

/* Is it the begin of a name? Several may have it: argp says which. */
static bool begins_one(const char *word, size_t len)
{
	for (unsigned i = 0; i < known.n; i++)
		if (strncmp(name_at(i), word, len) == 0)
			return true;
	return false;
}

/* Ends the program if `word' is near an option. */
static void refuse(const struct argp *argp, const char *self, const char *word)
{
	const size_t len = strcspn(word, "=");
	char *name = strndup(word, len);
	const char *near =
		name && !begins_one(word, len) ? near_find(name, name_at) : NULL;

	free(name);
	if (!near)
		return;
	fprintf(stderr, "%s: unrecognized option '--%s'; did you mean --%s?\n", self,
		word, near);
	argp_help(argp, stderr, ARGP_HELP_SEE, (char *)(uintptr_t)self);
	exit(argp_err_exit_status);
}

/* Goes through a copy, since getopt_long() sorts. */
static void look_through(const struct argp *argp, int argc, char **argv)
{
	char **copy = malloc(((size_t)argc + 1) * sizeof(*copy));
	const char *slash = strrchr(argv[0], '/'), *word;
	int opt;

	if (!copy)
		return;
	memcpy(copy, argv, ((size_t)argc + 1) * sizeof(*copy));
	opterr = optind = 0;
	while ((opt = getopt_long(argc, copy, known.shorts, known.longs, NULL)) != -1) {
		if (opt == OWN)
			break; /* argp ends the program there */
		word = copy[optind - 1];
		if (opt == '?' && !optopt && strncmp(word, "--", 2) == 0)
			refuse(argp, slash ? slash + 1 : argv[0], word + 2);
	}
	opterr = 1;
	optind = 0;
	free(copy);
}

void options_parse(const struct argp *argp, int argc, char **argv, unsigned flags,
		   void *input)
{
	memset(&known, 0, sizeof(known));
	if (flags & ARGP_IN_ORDER)
		strcpy(known.shorts, "+"); /* what follows is another command's */
	add_options(&known, argp);
	add_option(&known, "help", OWN, no_argument);
	add_option(&known, "usage", OWN, no_argument);
	if (argp_program_version)
		add_option(&known, "version", OWN, no_argument);
	look_through(argp, argc, argv);
	argp_parse(argp, argc, argv, flags, NULL, input);
}
