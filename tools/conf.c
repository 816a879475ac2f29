/* SPDX-License-Identifier: BSD-2-Clause */
/* conf.c - urnic conf: prints the configuration and where each value comes from. */
#include <argp.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include "options.h"
#include "settings.h"
#include "show.h"
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

static void print_conf(const struct conf *conf, const struct conf_origin *o)
{
	char value[CONF_VALUE];

	for (unsigned i = 0; conf_key(i); i++)
		printf("%s = %s\t(%s)\n", conf_key(i)->key, conf_value(conf, i, value),
		       o->from[i] == CONF_ENV	 ? conf_key(i)->env
		       : o->from[i] == CONF_FILE ? o->path
						 : "default");
}

/* Returns false if a value is not UTF-8, as JSON's strings are. */
static bool print_json(const struct conf *conf, const struct conf_origin *o)
{
	static const char *const from[] = {
		[CONF_DEFAULT] = "default",
		[CONF_FILE] = "file",
		[CONF_ENV] = "environment",
	};
	json_t *all = json_object();
	char value[CONF_VALUE];

	for (unsigned i = 0; conf_key(i); i++) {
		const struct conf_key *k = conf_key(i);
		json_t *j =
			json_pack("{ss ss ss* ss ss}", "value",
				  conf_value(conf, i, value), "from", from[o->from[i]],
				  "file", o->from[i] == CONF_FILE ? o->path : NULL,
				  "variable", k->env, "default", k->dflt);

		if (json_object_set_new(all, k->key, j) != 0) {
			fprintf(stderr,
				"urnic conf: %s is not UTF-8, so JSON cannot have it\n",
				k->key);
			json_decref(all);
			return false;
		}
	}
	show_json(all);
	return true;
}

int cmd_conf(int argc, char **argv)
{
	static const struct argp argp = {
		.options = show_options,
		.parser = show_parse,
		.doc = "Show every configuration key, its value and where that"
		       " comes from.\v",
		.help_filter = list_keys,
	};
	struct conf_origin origin;
	char err[CONF_ERR];
	struct conf conf;
	bool json = false;

	options_parse(&argp, argc, argv, 0, &json);
	if (settings_read(&conf, &origin, err) != 0) {
		fprintf(stderr, "urnic conf: %s\n", err);
		return EXIT_USAGE;
	}
	if (json)
		return print_json(&conf, &origin) ? 0 : 1;
	print_conf(&conf, &origin);
	return 0;
}
