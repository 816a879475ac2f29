/* SPDX-License-Identifier: BSD-2-Clause */
/* conf.c - urnic conf: prints the configuration, and where each value comes from. */
#include "sys/conf.h"

#include <argp.h>

#include "urnic.h"

static char *list_keys(int key, const char *text, void *input)
{
	char *out = NULL;
	size_t size = 0;
	FILE *f;

	(void)input;
	if (key != ARGP_KEY_HELP_POST_DOC)
		return (char *)(uintptr_t)text;
	f = open_memstream(&out, &size);
	if (!f)
		return NULL;
	fputs("Keys, variables and defaults:\n", f);
	for (unsigned i = 0; conf_key(i); i++) {
		const struct conf_key *k = conf_key(i);

		fprintf(f, "\n%s, %s (%s; default: %s)\n  %s\n", k->key, k->env, k->type,
			k->dflt[0] ? k->dflt : "empty", k->text);
	}
	fputs("\nURNIC_CONF names a file with lines `key = value'; without it"
	      " urnic/urnic.conf in the user's configuration directory is read"
	      " if it is there.",
	      f);
	fclose(f);
	return out;
}

int cmd_conf(int argc, char **argv)
{
	static const struct argp argp = {
		.doc = "Show every configuration key, its value and where that"
		       " comes from.\v",
		.help_filter = list_keys,
	};

	argp_parse(&argp, argc, argv, 0, NULL, NULL);
	return conf_print(stdout) ? EXIT_USAGE : 0;
}
