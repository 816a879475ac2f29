/* SPDX-License-Identifier: BSD-2-Clause */
/* explain.c - urnic explain: what an error code, status or event means. */
#include <argp.h>
#include <infiniband/verbs.h>
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "core/timeout.h"
#include "urnic.h"
#include "wire/aeth.h"

enum kind { VENDOR, STATUS, EVENT, NAK, KINDS };

static const char *const kind_name[KINDS] = { "vendor", "status", "event", "nak" };
static const char *const kind_text[KINDS] = {
	"ibv_wc.vendor_err", "ibv_wc.status", "asynchronous event",
	"AETH syndrome",
};

static const struct entry {
	enum kind kind;
	unsigned code;
	const char *name, *what, *todo;
} entries[] = {
#define VERR(code, name, what, todo) { VENDOR, code, #name, what, todo },
#include "core/verr.def"
#undef VERR
#define EXPLAIN(kind, name, what, todo) { kind, name, #name, what, todo },
#include "explain.def"
#undef EXPLAIN
	{ NAK, 0x60, "NAK_PSN_SEQUENCE", "the responder missed a packet",
	  "nothing: urnic sends it again; if there are many, look for loss" },
	{ NAK, 0x61, "NAK_INVALID_REQUEST", "the responder refuses the request"
	  " as invalid", "see IBV_WC_REM_INV_REQ_ERR" },
	{ NAK, 0x62, "NAK_REMOTE_ACCESS", "rkey, range or access do not allow"
	  " it", "see IBV_WC_REM_ACCESS_ERR" },
	{ NAK, 0x63, "NAK_REMOTE_OPERATIONAL", "the responder could not carry"
	  " it out", "see IBV_WC_REM_OP_ERR" },
	{ NAK, 0x64, "NAK_INVALID_RD_REQUEST", "an RD request is invalid (RD,"
	  " which urnic does not have)", "" },
};
enum { ENTRIES = sizeof(entries) / sizeof(entries[0]) };

struct explain { const char *word; bool json; };

static json_t *found;		/* an array, with --json */

static void show(const struct entry *e, bool full)
{
	const char *fmt = e->kind == NAK ? "%-7s 0x%02x  %s\n" : "%-7s %4u  %s\n";

	if (found) {
		json_array_append_new(found, json_pack("{ss si ss ss ss}",
			"kind", kind_name[e->kind], "code", (int)e->code,
			"name", e->name, "what", e->what, "do", e->todo));
		return;
	}
	if (!full) {
		printf(fmt, kind_name[e->kind], e->code, e->name);
		return;
	}
	printf(e->kind == NAK ? "%s 0x%02x: %s\n" : "%s %u: %s\n",
	       kind_text[e->kind], e->code, e->name);
	printf("  what:   %s\n", e->what);
	if (e->todo[0])
		printf("  to do:  %s\n", e->todo);
}

/* Acknowledgements and RNR NAKs carry a number in their syndrome. */
static bool show_syndrome(unsigned code)
{
	struct entry e = { .kind = NAK, .code = code, .todo = "" };
	char what[128], name[32];

	if (code > 0xff || !aeth_valid((uint8_t)code))
		return false;
	e.name = name;
	e.what = what;
	switch (aeth_type((uint8_t)code)) {
	case AETH_ACK:
		snprintf(name, sizeof(name), "ACK");
		snprintf(what, sizeof(what), "positive acknowledgement, credit"
			 " code %u%s", aeth_value((uint8_t)code),
			 aeth_value((uint8_t)code) == AETH_NO_CREDITS ?
			 " (none are counted)" : "");
		break;
	case AETH_RNR_NAK:
		snprintf(name, sizeof(name), "RNR_NAK");
		snprintf(what, sizeof(what), "no receive is posted; try again in"
			 " %.2f ms", (double)rnr_timer_ns(code) / 1e6);
		e.todo = "post receives earlier; see IBV_WC_RNR_RETRY_EXC_ERR";
		break;
	case AETH_NAK:
	case AETH_RESERVED:
		return false;		/* in the table, or nothing */
	}
	show(&e, true);
	return true;
}

/* NAME as it is, or without the prefix that all of its kind have. */
static bool named(const struct entry *e, const char *word)
{
	static const char *const prefix[KINDS] = {
		[VENDOR] = "VERR_", [STATUS] = "IBV_WC_", [EVENT] = "IBV_EVENT_",
		[NAK] = "NAK_",
	};
	size_t n = strlen(prefix[e->kind]);
	const char *bare = strncmp(e->name, prefix[e->kind], n) ? e->name :
								 e->name + n;

	if (strncasecmp(word, prefix[e->kind], n) == 0)
		word += n;
	return strcasecmp(bare, word) == 0;
}

static bool mentions(const struct entry *e, const char *word)
{
	return strcasestr(e->name, word) || strcasestr(e->what, word);
}

/* kind:word looks among one kind only. */
static const char *split_kind(const char *word, int *kind)
{
	*kind = -1;
	for (int k = 0; k < KINDS; k++) {
		size_t n = strlen(kind_name[k]);

		if (strncasecmp(word, kind_name[k], n) == 0 && word[n] == ':') {
			*kind = k;
			return word + n + 1;
		}
	}
	return word;
}

static bool explain(const char *arg)
{
	int kind, hits = 0;
	const char *word = split_kind(arg, &kind);
	char *end;
	unsigned long code = strtoul(word, &end, 0);
	bool numeric = *word >= '0' && *word <= '9' && !*end;
	/* A bare number below 0x20 is hardly a syndrome. */
	bool syndrome = kind == NAK || (kind < 0 && code >= 0x20);

	for (int i = 0; i < ENTRIES; i++) {
		const struct entry *e = &entries[i];

		if ((kind < 0 || (int)e->kind == kind) &&
		    (numeric ? e->code == code : named(e, word))) {
			show(e, true);
			hits++;
		}
	}
	if (numeric && syndrome && code <= 0xff)
		hits += show_syndrome((unsigned)code);
	if (numeric || hits || strlen(word) < 3)
		return hits > 0;
	for (int i = 0; i < ENTRIES; i++) {
		const struct entry *e = &entries[i];

		if ((kind < 0 || (int)e->kind == kind) && mentions(e, word)) {
			show(e, true);
			hits++;
		}
	}
	return hits > 0;
}

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "print JSON", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct explain *x = state->input;

	switch (key) {
	case 'j':
		x->json = true;
		return 0;
	case ARGP_KEY_ARG:
		if (x->word)
			argp_error(state, "one code or name at a time");
		x->word = arg;
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

int cmd_explain(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options, .parser = parse,
		.args_doc = "[[KIND:]CODE|NAME]",
		.doc = "Say what an error code or event means and what to do about"
		       " it; without an argument list them all.\vKIND is vendor"
		       " (ibv_wc.vendor_err), status (ibv_wc.status), event"
		       " (asynchronous events) or nak (AETH syndromes). A number"
		       " is explained for every kind that has it. A word that is"
		       " no name is looked for in the texts.",
	};
	struct explain x = { 0 };
	bool ok = true;

	argp_parse(&argp, argc, argv, 0, NULL, &x);
	if (x.json)
		found = json_array();
	if (x.word)
		ok = explain(x.word);
	else
		for (int i = 0; i < ENTRIES; i++)
			show(&entries[i], false);
	if (found) {
		json_dumpf(found, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(found);
	}
	if (!ok)
		fprintf(stderr, "urnic explain: nothing is known about '%s'\n",
			x.word);
	return ok ? 0 : 1;
}
