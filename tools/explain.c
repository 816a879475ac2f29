/* SPDX-License-Identifier: BSD-2-Clause */
/* explain.c - urnic explain: what an error code, status or event means. */
#include <argp.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <jansson.h>
#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cm/cm.h"
#include "core/timeout.h"
#include "ib/ib.h"
#include "urnic.h"
#include "wire/aeth.h"
#include "wire/cm_mad.h"
#include "words.h"

enum kind {
	VENDOR,
	STATUS,
	EVENT,
	NAK,
	COUNTER,
	CM_EVENT,
	CM_STATUS,
	CM_COUNTER,
	LOG,
	KINDS
};

/* clang-format off */
static const char *const kind_name[KINDS] = {
	"vendor", "status", "event", "nak", "counter", "cm_event", "cm_status",
	"cm_counter", "log",
};
/* clang-format on */
/* clang-format off */
static const char *const kind_text[KINDS] = {
	"ibv_wc.vendor_err", "ibv_wc.status", "asynchronous event",
	"AETH syndrome", "counter", "event of rdma_cm", "rdma_cm_event.status",
	"counter of connection management", "line of the log",
};
/* clang-format on */

/* What programs and logs call a kind; the longer before the shorter. */
/* clang-format off */
static const struct { const char *words; enum kind kind; } calls[] = {
	{ "wc vendor err", VENDOR }, { "vendor err", VENDOR },
	{ "vendor error", VENDOR }, { "vendor", VENDOR }, { "vend", VENDOR },
	{ "syndrom", VENDOR },		/* perftest's spelling */
	{ "wc status", STATUS }, { "status", STATUS },
	{ "event type", EVENT }, { "event", EVENT },
	{ "cma event", CM_EVENT }, { "cm event", CM_EVENT },
	{ "cm status", CM_STATUS }, { "cm error", CM_STATUS },
	{ "errno", CM_STATUS }, { "error", CM_STATUS },	/* rping's word */
	{ "cm counter", CM_COUNTER }, { "counter", COUNTER }, { "log", LOG },
	{ "aeth syndrome", NAK }, { "syndrome", NAK }, { "nak", NAK },
};
/* clang-format on */
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

/* clang-format off */
static const struct entry {
	enum kind kind;
	int code;
	const char *name, *what, *todo;
} entries[] = {
#define VERR(code, name, what, todo) { VENDOR, code, #name, what, todo },
#include "core/verr.def"
#undef VERR
#define EXPLAIN(kind, name, what, todo) { kind, name, #name, what, todo },
#include "explain.def"
#undef EXPLAIN
#define COUNT(value, name, what) { COUNTER, value, #name, what, "" },
#include "ib/counter.def"
#undef COUNT
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
#define EXPLAIN(kind, name, what, todo) { kind, name, #name, what, todo },
#define LINE(part, what, todo) { LOG, 0, part, what, todo },
#include "explain_cm.def"
#undef LINE
#undef EXPLAIN
};
/* clang-format on */
enum { ENTRIES = sizeof(entries) / sizeof(entries[0]) };

enum { TEXT = 512 };

struct explain {
	char text[TEXT];
	bool json;
};

static json_t *found; /* an array, with --json */

/* What programs print for it. */
static const char *spoken(const struct entry *e)
{
	switch (e->kind) {
	case STATUS:
		return ibv_wc_status_str((enum ibv_wc_status)e->code);
	case EVENT:
		return ibv_event_type_str((enum ibv_event_type)e->code);
	case CM_STATUS:
		return e->code < 0 ? strerror(-e->code) : "";
	case CM_EVENT: /* rdma_event_str() answers the name */
	case VENDOR:
	case NAK:
	case COUNTER:
	case CM_COUNTER:
	case LOG:
	case KINDS:
		break;
	}
	return "";
}

static bool has_code(const struct entry *e)
{
	return e->kind != COUNTER && e->kind != CM_COUNTER && e->kind != LOG;
}

static void show(const struct entry *e, bool full)
{
	char code[16] = "";

	if (has_code(e))
		snprintf(code, sizeof(code), e->kind == NAK ? " 0x%02x" : " %d", e->code);

	if (found) {
		json_array_append_new(found,
				      json_pack("{ss si ss ss ss ss}", "kind",
						kind_name[e->kind], "code", e->code,
						"name", e->name, "text", spoken(e),
						"what", e->what, "do", e->todo));
		return;
	}
	if (!full) {
		printf("%-10s %5s  %s\n", kind_name[e->kind], code, e->name);
		return;
	}
	printf("%s%s: %s\n", kind_text[e->kind], code, e->name);
	if (spoken(e)[0])
		printf("  text:   %s\n", spoken(e));
	printf("  what:   %s\n", e->what);
	if (e->todo[0])
		printf("  to do:  %s\n", e->todo);
}

/* Acknowledgements and RNR NAKs carry a number in their syndrome. */
static bool show_syndrome(unsigned code)
{
	struct entry e = { .kind = NAK, .code = (int)code, .todo = "" };
	char what[128], name[32];

	if (code > 0xff || !aeth_valid((uint8_t)code))
		return false;
	e.name = name;
	e.what = what;
	switch (aeth_type((uint8_t)code)) {
	case AETH_ACK:
		snprintf(name, sizeof(name), "ACK");
		snprintf(what, sizeof(what),
			 "positive acknowledgement, credit"
			 " code %u%s",
			 aeth_value((uint8_t)code),
			 aeth_value((uint8_t)code) == AETH_NO_CREDITS
				 ? " (none are counted)"
				 : "");
		break;
	case AETH_RNR_NAK:
		snprintf(name, sizeof(name), "RNR_NAK");
		snprintf(what, sizeof(what),
			 "no receive is posted; try again in"
			 " %.2f ms",
			 (double)rnr_timer_ns(code) / 1e6);
		e.todo = "post receives earlier; see IBV_WC_RNR_RETRY_EXC_ERR";
		break;
	case AETH_NAK:
	case AETH_RESERVED:
		return false; /* in the table, or nothing */
	}
	show(&e, true);
	return true;
}

/* A line may name the same thing twice. */
static int show_once(int i)
{
	static bool shown[ENTRIES];

	if (!shown[i])
		show(&entries[i], true);
	shown[i] = true;
	return 1;
}

static int show_code(int kind, unsigned code)
{
	int hits = 0;

	for (int i = 0; i < ENTRIES; i++) {
		const struct entry *e = &entries[i];

		/* An errno is looked for only where one is meant; its sign may be
		 * gone. */
		if (has_code(e) && (kind < 0 || (int)e->kind == kind) &&
		    (e->code == (int)code || (kind >= 0 && -e->code == (int)code)))
			hits += show_once(i);
	}
	/* A bare number below 0x20 is hardly a syndrome. */
	if (kind == NAK || (kind < 0 && code >= 0x20))
		hits += show_syndrome(code);
	return hits;
}

/* --- finding it: all in words_plain() ------------------------------------ */

/* The number that text begins with and ends with, or goes on after. */
static bool number(const char *text, bool goes_on, unsigned *code)
{
	int base = strncmp(text, "0x", 2) == 0 ? 16 : 10;
	unsigned long v;
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	v = strtoul(text, &end, base);
	if ((*end && !(goes_on && *end == ' ')) || v > UINT16_MAX)
		return false;
	*code = (unsigned)v;
	return true;
}

/* The number behind words, wherever that stands; they may stand without, too. */
static bool numbered(const char *text, const char *words, unsigned *code)
{
	const char *after = words_within(text, words);

	while (after && !number(after, true, code))
		after = words_within(after, words);
	return after != NULL;
}

/* The prefix that all names of a kind have; any may be left out. */
static const char *const prefix[KINDS] = {
	[VENDOR] = "verr",  [STATUS] = "ibv wc",   [EVENT] = "ibv event",
	[NAK] = "nak",	    [COUNTER] = "counter", [CM_EVENT] = "rdma cm event",
	[CM_STATUS] = "cm", [CM_COUNTER] = "cm",   [LOG] = "",
};

static const char *bare(const char *name, enum kind kind)
{
	const char *after = words_after(name, prefix[kind]);

	return after ? after : name;
}

static bool named(const struct entry *e, const char *text)
{
	char plain[TEXT];

	words_plain(plain, sizeof(plain), e->name);
	if (strcmp(bare(plain, e->kind), bare(text, e->kind)) == 0)
		return true;
	words_plain(plain, sizeof(plain), spoken(e));
	return *plain && strcmp(plain, text) == 0;
}

static bool mentions(const struct entry *e, const char *text)
{
	const char *const in[] = { e->name, spoken(e), e->what };
	char plain[TEXT];
	bool does = false;

	for (int i = 0; i < 3 && !does; i++) {
		words_plain(plain, sizeof(plain), in[i]);
		does = strlen(text) > 2 && strstr(plain, text);
	}
	return does;
}

/* Is this about rdma_cm?  Its statuses are small numbers and errnos, as others
 * are. */
static bool about_cm(const char *text)
{
	/* clang-format off */
	static const char *const says[] = {
		"rdma cm event", "rdma connect", "rdma accept", "rdma resolve addr",
		"rdma bind addr", "rdma listen", "rdma create ep", "iwarp connection",
	};
	/* clang-format on */
	bool is = false;

	for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++)
		is |= words_within(text, says[i]) != NULL;
	return is;
}

/* "connection management: rx 3 tx 2 timeout 1" */
static bool counted(const struct entry *e, const char *text)
{
	const char *all = words_within(text, "connection management");
	char plain[TEXT];
	unsigned n;

	if (!all || e->kind != CM_COUNTER)
		return false;
	words_plain(plain, sizeof(plain), e->name);
	return numbered(all, bare(plain, e->kind), &n);
}

/* The name with its prefix, or what programs print, or what our log says, is part
 * of a longer text. */
static bool quoted(const struct entry *e, const char *text)
{
	const char *const in[] = { e->name, spoken(e),
				   e->kind == VENDOR && e->code ? e->what : "" };
	char plain[TEXT];
	bool is = counted(e, text);

	if (e->kind == CM_STATUS && !about_cm(text))
		return false;
	for (int i = 0; i < 3 && !is; i++) {
		words_plain(plain, sizeof(plain), in[i]);
		is = *plain && words_within(text, plain) &&
		     (i || e->kind == LOG || bare(plain, e->kind) != plain);
	}
	return is;
}

static int show_if(bool (*fits)(const struct entry *e, const char *text), int kind,
		   const char *text)
{
	int hits = 0;

	for (int i = 0; i < ENTRIES; i++) {
		if ((kind < 0 || (int)entries[i].kind == kind) && fits(&entries[i], text))
			hits += show_once(i);
	}
	return hits;
}

/* A line of a log: names, texts, and kinds with a number behind.  "error" and, of
 * rdma_cm, "status" are rdma_cm's. */
static int show_line(const char *text)
{
	bool done[KINDS] = { false }, cm = about_cm(text);
	int hits = show_if(quoted, -1, text);

	for (int i = 0; i < CALLS; i++) {
		enum kind kind = calls[i].kind;
		unsigned code;

		if (cm && kind == STATUS)
			kind = CM_STATUS;
		if (done[kind] || (kind == CM_STATUS && !cm) ||
		    !numbered(text, calls[i].words, &code))
			continue;
		done[kind] = true;
		hits += show_code((int)kind, code);
	}
	return hits;
}

static int show_word(int kind, const char *text)
{
	unsigned code;
	int hits;

	if (number(text, false, &code))
		return show_code(kind, code);
	hits = show_if(named, kind, text);
	return hits ? hits : show_if(mentions, kind, text);
}

/* "vendor:9", "vendor_err=9", "Vendor error 0x09": one kind only. */
static const char *split_kind(const char *text, int *kind)
{
	*kind = -1;
	for (int i = 0; i < CALLS; i++) {
		const char *after = words_after(text, calls[i].words);

		if (after && *after) {
			*kind = (int)calls[i].kind;
			return after;
		}
	}
	return text;
}

static bool explain(const char *arg)
{
	char text[TEXT];
	const char *word;
	int kind;

	words_plain(text, sizeof(text), arg);
	if (!*text)
		return false;
	word = split_kind(text, &kind);
	return show_word(kind, word) || show_line(text);
}

/* The name that differs least, if that is little. */
static const char *closest(const char *arg)
{
	char text[TEXT], plain[TEXT];
	const char *word, *best = NULL;
	unsigned least;
	int kind;

	words_plain(text, sizeof(text), arg);
	word = split_kind(text, &kind);
	least = (unsigned)strlen(word) / 3 + 1;
	for (int i = 0; i < ENTRIES; i++) {
		const struct entry *e = &entries[i];
		const char *const in[] = { e->name, spoken(e) };

		for (int j = 0; j < 2; j++) {
			unsigned d;

			words_plain(plain, sizeof(plain), in[j]);
			d = words_distance(bare(word, e->kind), bare(plain, e->kind));
			if (d < least) {
				least = d;
				best = e->name;
			}
		}
	}
	return best;
}

static void say_unknown(const char *arg)
{
	const char *name = closest(arg);

	fprintf(stderr, "urnic explain: nothing is known about '%s'", arg);
	if (name)
		fprintf(stderr, "; did you mean %s?", name);
	fputs("\n`urnic explain' lists all codes, by kind:", stderr);
	for (int k = 0; k < KINDS; k++)
		fprintf(stderr, " %s (%s)%s", kind_name[k], kind_text[k],
			k + 1 < KINDS ? "," : "\n");
}

static const struct argp_option options[] = {
	{ "json", 'j', NULL, 0, "print JSON", 0 },
	{ 0 },
};

static error_t parse(int key, char *arg, struct argp_state *state)
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

int cmd_explain(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse,
		.args_doc = "[[KIND:]CODE|NAME|TEXT]",
		.doc = "Say what an error code or event means and what to do about"
		       " it; without an argument list them all.\vKIND is vendor"
		       " (ibv_wc.vendor_err), status (ibv_wc.status), event"
		       " (asynchronous events), nak (AETH syndromes), counter,"
		       " cm_event, cm_status, cm_counter (of rdma_cm) or log"
		       " (lines of the log about connections). A number"
		       " is explained for every kind that has it. TEXT is what a"
		       " program printed, such as `transport retry counter"
		       " exceeded', or a line of a log. Case and punctuation make"
		       " no difference.",
	};
	struct explain x = { .text = "" };
	bool ok = true;

	for (int i = 1; i < argc; i++) /* "error -110" has no option */
		argv[i] += argv[i][0] == '-' && argv[i][1] >= '0' && argv[i][1] <= '9';
	argp_parse(&argp, argc, argv, 0, NULL, &x);
	if (x.json)
		found = json_array();
	if (x.text[0])
		ok = explain(x.text);
	else
		for (int i = 0; i < ENTRIES; i++)
			show(&entries[i], false);
	if (found) {
		json_dumpf(found, stdout, JSON_INDENT(2));
		putchar('\n');
		json_decref(found);
	}
	if (!ok)
		say_unknown(x.text);
	return ok ? 0 : 1;
}
