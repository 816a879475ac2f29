/* SPDX-License-Identifier: BSD-2-Clause */
/* explain.c - urnic explain: says what an error code, status or event means. */
#include "explain.h"

#include <argp.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "show.h"
#include "urnic.h"

enum { TEXT = 512 };

struct explain {
	char text[TEXT];
	bool json;
};

static json_t *found; /* an array, with --json */

static void show_entry(const struct entry *e, bool full)
{
	char code[16] = "";

	if (explain_has_code(e))
		snprintf(code, sizeof(code), e->kind == NAK ? " 0x%02x" : " %d", e->code);

	if (found) {
		json_array_append_new(found,
				      json_pack("{ss si ss ss ss ss ss*}", "kind",
						explain_kind_name[e->kind], "code",
						e->code, "name", e->name, "text",
						explain_spoken(e), "what", e->what, "do",
						e->todo, "example", e->example));
		return;
	}
	if (!full) {
		printf("%-10s %5s  %s\n", explain_kind_name[e->kind], code, e->name);
		return;
	}
	printf("%s%s%s: %s%s\n", show_colour(BOLD), explain_kind_text[e->kind], code,
	       e->name, show_colour(PLAIN));
	if (explain_spoken(e)[0])
		printf("  text:   %s\n", explain_spoken(e));
	printf("  what:   %s\n", e->what);
	if (e->todo[0])
		printf("  to do:  %s\n", e->todo);
	if (e->example)
		printf("  as in:  %s\n", e->example);
}

static void show_full(const struct entry *e)
{
	show_entry(e, true);
}

static void say_unknown(const char *arg)
{
	const char *name = explain_closest(arg);

	fprintf(stderr, "urnic explain: nothing is known about '%s'", arg);
	if (name)
		fprintf(stderr, "; did you mean %s?", name);
	fputs("\n`urnic explain' lists all codes, by kind:", stderr);
	for (int k = 0; k < KINDS; k++)
		fprintf(stderr, " %s (%s)%s", explain_kind_name[k], explain_kind_text[k],
			k + 1 < KINDS ? "," : "\n");
}

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "print JSON", 0 },
	{ 0 },
};

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct explain *x = state->input;
	size_t n;

	switch (key) {
	case 'j':
		x->json = true;
		return 0;
	case ARGP_KEY_ARG:
		n = strlen(x->text);
		snprintf(x->text + n, TEXT - n, "%s%s", n ? " " : "", arg);
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

/* Keeps argp from taking "-98" for options: puts a space before a negative number. */
static char *no_option(char *arg)
{
	char *with_space;

	if (arg[0] != '-' || arg[1] < '0' || arg[1] > '9')
		return arg;
	if (asprintf(&with_space, " %s", arg) < 0)
		abort();
	return with_space;
}

int cmd_explain(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.args_doc = "[[KIND:]CODE|NAME|TEXT]",
		.doc = "Say what an error code or event means and what to do about"
		       " it; without an argument list them all.\vKIND is vendor"
		       " (ibv_wc.vendor_err), status (ibv_wc.status), event"
		       " (asynchronous events), nak (AETH syndromes), counter,"
		       " cm_event, cm_status, cm_counter (of rdma_cm), errno (of"
		       " verbs calls), check (of `urnic run --check') or log (lines of urnic's log). A number"
		       " is explained for every kind that has it. TEXT is what a"
		       " program printed, such as `transport retry counter"
		       " exceeded', or a line of a log. Case and punctuation make"
		       " no difference.",
	};
	struct explain x = { .text = "" };
	bool ok = true;

	for (int i = 1; i < argc; i++)
		argv[i] = no_option(argv[i]);
	options_parse(&argp, argc, argv, 0, &x);
	if (x.json)
		found = json_array();
	if (x.text[0])
		ok = explain_find(x.text, show_full) > 0;
	else
		for (int i = 0; i < explain_entry_count; i++)
			show_entry(&explain_entries[i], false);
	if (found)
		show_json(found);
	if (!ok)
		say_unknown(x.text);
	return ok ? 0 : 1;
}
