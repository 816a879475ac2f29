/* SPDX-License-Identifier: BSD-2-Clause */
/* explain_find.c - finds the entries that a code, a name, a text or a line of a log is
 * about.  All texts are compared in the form that words_plain() gives them. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "alike.h"
#include "explain.h"
#include "sys/like.h"
#include "sys/near.h"
#include "verbs/timeout.h"
#include "wire/aeth.h"

enum { TEXT = 512 };

static void (*show_entry)(const struct entry *e);
static bool shown[EXPLAIN_MOST]; /* entries shown: a line may name one twice */

/* The words by which programs and logs call a kind; longer ones come first. */
/* clang-format off */
static const struct { const char *words; enum kind kind; } calls[] = {
	{ "wc vendor err", VENDOR }, { "vendor err", VENDOR },
	{ "vendor error", VENDOR }, { "vendor", VENDOR }, { "vend", VENDOR },
	{ "syndrom", VENDOR },		/* perftest's spelling */
	{ "wc status", STATUS }, { "status", STATUS },
	{ "event type", EVENT }, { "event", EVENT },
	{ "cma event", CM_EVENT }, { "cm event", CM_EVENT },
	{ "cm status", CM_STATUS }, { "cm error", CM_STATUS },
	{ "error", CM_STATUS },	/* rping's word */
	{ "errno", ERRNO },
	{ "cm counter", CM_COUNTER }, { "counter", COUNTER }, { "log", LOG },
	{ "check", CHECK },
	{ "aeth syndrome", NAK }, { "syndrome", NAK }, { "nak", NAK },
};
/* clang-format on */
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

/* Shows a syndrome of an ACK or RNR NAK, which carries a number and so is in no table. */
static bool syndrome(int code)
{
	struct entry e = { .kind = NAK, .code = code, .todo = "" };
	char what[128], name[32];

	if (code < 0 || code > 0xff || !aeth_valid((uint8_t)code))
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
			 (double)rnr_timer_ns((unsigned)code) / 1e6);
		e.todo = "post receives earlier; see IBV_WC_RNR_RETRY_EXC_ERR";
		break;
	case AETH_NAK:
	case AETH_RESERVED:
		return false; /* in the table, or without meaning */
	}
	show_entry(&e);
	return true;
}

/* Shows a vendor_err of a device of another make, as programs print it there and with
 * URNIC_LIKE. Those below OTHERS mean something of urnic's. */
static int other_device(int code)
{
	enum { OTHERS = 0x20 };
	int hits = 0;

	for (unsigned d = 0; d < LIKE_DEVICES; d++)
		for (unsigned v = 0; v < LIKE_VENDORS; v++) {
			struct entry e = { .kind = VENDOR, .code = code };
			char name[32], what[128], todo[64];

			if (code < OTHERS || like_vendor_of(d, v) != (uint64_t)code)
				continue;
			snprintf(name, sizeof(name), "%s", like_vendor_status(v));
			snprintf(what, sizeof(what), "what %s (%s) writes with IBV_WC_%s",
				 like_device_name(d), like_device_text(d), name);
			snprintf(todo, sizeof(todo), "see IBV_WC_%s", name);
			e.name = name;
			e.what = what;
			e.todo = todo;
			show_entry(&e);
			hits++;
		}
	return hits;
}

static int show_once(int i)
{
	if (!shown[i])
		show_entry(&explain_entries[i]);
	shown[i] = true;
	return 1;
}

/* Shows the C library's text of an errno for which there is no entry. */
static int any_errno(int code)
{
	const char *name = strerrorname_np(-code);
	struct entry e = { .kind = ERRNO,
			   .code = code,
			   .what = "an error of the C library, which urnic gives no "
				   "meaning of its own",
			   .todo = "look at the log with URNIC_LOG=info" };
	char text[32];

	if (!name)
		return 0;
	snprintf(text, sizeof(text), "-%s", name);
	e.name = text;
	show_entry(&e);
	return 1;
}

/* Does e have that code?  If an errno is meant (kind is ERRNO), its sign may be missing;
 * a bare number is an errno only if it is negative. */
static bool is_coded(const struct entry *e, int kind, int code)
{
	if (!explain_has_code(e))
		return false;
	if (kind == ERRNO)
		return (e->kind == ERRNO || e->kind == CM_STATUS) &&
		       e->code == -abs(code);
	if (kind == CM_STATUS && code > 0 && e->kind == CM_STATUS && e->code == -code)
		return true;
	return (kind < 0 || (int)e->kind == kind) && e->code == code;
}

static int show_code(int kind, int code)
{
	bool errno_meant = kind < 0 || kind == ERRNO || kind == CM_STATUS;
	int hits = 0;

	for (int i = 0; i < explain_entry_count; i++) {
		if (is_coded(&explain_entries[i], kind, code))
			hits += show_once(i);
	}
	if (kind == VENDOR || kind < 0)
		hits += other_device(code);
	/* A bare number below 0x20 is unlikely to be a syndrome. */
	if (kind == NAK || (kind < 0 && code >= 0x20))
		hits += syndrome(code);
	if (!hits && errno_meant && (code < 0 || kind == ERRNO))
		hits += any_errno(-abs(code));
	return hits;
}

/* Reads the number at the start of text.  goes_on: other text may follow the number. */
static bool find_number(const char *text, bool goes_on, int *code)
{
	const char *digits = text + (text[0] == '-');
	int base = strncmp(digits, "0x", 2) == 0 ? 16 : 10;
	unsigned long v;
	char *end;

	if (*digits < '0' || *digits > '9')
		return false;
	v = strtoul(digits, &end, base);
	if ((*end && !(goes_on && *end == ' ')) || v > 0xfffff)
		return false;
	*code = text == digits ? (int)v : -(int)v;
	return true;
}

/* Finds the first place in text where a number follows `words', and reads the number. */
static bool numbered(const char *text, const char *words, int *code)
{
	const char *after = words_within(text, words);

	while (after && !find_number(after, true, code))
		after = words_within(after, words);
	return after != NULL;
}

/* The prefix of all names of a kind; the user may leave it out. */
static const char *const prefix[KINDS] = {
	[VENDOR] = "verr",
	[STATUS] = "ibv wc",
	[EVENT] = "ibv event",
	[NAK] = "nak",
	[COUNTER] = "counter",
	[CM_EVENT] = "rdma cm event",
	[CM_STATUS] = "cm",
	[CM_COUNTER] = "cm",
	[ERRNO] = "",
	[CHECK] = "check",
	[LOG] = "",
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
	words_plain(plain, sizeof(plain), explain_spoken(e));
	return *plain && strcmp(plain, text) == 0;
}

static bool mentions(const struct entry *e, const char *text)
{
	const char *const in[] = { e->name, explain_spoken(e), e->what };
	char plain[TEXT];
	bool does = false;

	for (int i = 0; i < 3 && !does; i++) {
		words_plain(plain, sizeof(plain), in[i]);
		does = strlen(text) > 2 && strstr(plain, text);
	}
	return does;
}

/* Is text about rdma_cm?  Its statuses are small numbers and errnos, which mean something
 * else in other places. */
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

/* Is text about a call of verbs?  An errno alone may come from anything else. */
static bool about_verbs(const char *text)
{
	static const char *const says[] = { "ibv", "ib", "qp", "cq",
					    "srq", "pd", "mr", "urnic" };
	bool is = false;

	for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++)
		is |= words_within(text, says[i]) != NULL;
	return is;
}

/* Does text list counter e, as in "connection management: rx 3 tx 2 timeout 1" or
 * "counters: rx 7, tx 5"? */
static bool counted(const struct entry *e, const char *text)
{
	const char *all =
		words_within(text, e->kind == CM_COUNTER ? "connection management"
							 : "counters");
	char plain[TEXT];
	int n;

	if (!all || (e->kind != CM_COUNTER && e->kind != COUNTER))
		return false;
	words_plain(plain, sizeof(plain), e->name);
	return numbered(all, bare(plain, e->kind), &n);
}

/* Is text the line of urnic's log that e describes?  "..." in e's name stands for any
 * words. */
static bool is_line(const struct entry *e, const char *text)
{
	const char *part = e->name, *dots;
	char plain[TEXT], one[TEXT];

	do {
		dots = strstr(part, "...");
		snprintf(one, sizeof(one), "%.*s",
			 dots ? (int)(dots - part) : (int)strlen(part), part);
		words_plain(plain, sizeof(plain), one);
		text = words_within(text, plain);
		part = dots + 3;
	} while (text && dots);
	return text != NULL;
}

/* Is text the first line of a report of check e? */
static bool is_report(const struct entry *e, const char *text)
{
	char name[TEXT], plain[TEXT];

	snprintf(name, sizeof(name), "check %s", e->name);
	words_plain(plain, sizeof(plain), name);
	return words_within(text, plain) != NULL;
}

/* Does text contain e's name with its prefix, the text that programs print for e, or, of
 * a vendor_err, the text that urnic logs? */
static bool quoted(const struct entry *e, const char *text)
{
	const char *const in[] = { e->name, explain_spoken(e),
				   e->kind == VENDOR && e->code ? e->what : "" };
	char plain[TEXT];
	bool is = counted(e, text);

	if ((e->kind == CM_STATUS && !about_cm(text)) ||
	    (e->kind == ERRNO && !about_verbs(text)))
		return false;
	if (e->kind == LOG)
		return is_line(e, text);
	if (e->kind == CHECK)
		return is_report(e, text);
	for (int i = 0; i < 3 && !is; i++) {
		words_plain(plain, sizeof(plain), in[i]);
		is = *plain && words_within(text, plain) &&
		     (i || bare(plain, e->kind) != plain);
	}
	return is;
}

static int show_if(bool (*fits)(const struct entry *e, const char *text), int kind,
		   const char *text)
{
	int hits = 0;

	for (int i = 0; i < explain_entry_count; i++) {
		if ((kind < 0 || (int)explain_entries[i].kind == kind) &&
		    fits(&explain_entries[i], text))
			hits += show_once(i);
	}
	return hits;
}

/* Shows the entries of all names, texts and numbered kinds in a line of a log.  "error",
 * and in a line about rdma_cm "status", precede a status of rdma_cm. */
static int show_line(const char *text)
{
	bool done[KINDS] = { false }, cm = about_cm(text);
	int hits = show_if(quoted, -1, text);

	for (int i = 0; i < CALLS; i++) {
		enum kind kind = calls[i].kind;
		int code;

		if (!numbered(text, calls[i].words, &code))
			continue;
		if (cm && kind == STATUS)
			kind = CM_STATUS;
		else if (!cm && code < 0 && (kind == STATUS || kind == CM_STATUS))
			kind = ERRNO;
		if (done[kind] || (kind == CM_STATUS && !cm))
			continue;
		done[kind] = true;
		hits += show_code((int)kind, code);
	}
	return hits;
}

static int show_word(int kind, const char *text)
{
	int code, hits;

	if (find_number(text, false, &code))
		return show_code(kind, code);
	hits = show_if(named, kind, text);
	return hits ? hits : show_if(mentions, kind, text);
}

/* Splits a kind from the front of text, as in "vendor:9", "vendor_err=9" or
 * "Vendor error 0x09". */
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

int explain_find(const char *arg, void (*show)(const struct entry *e))
{
	char text[TEXT];
	const char *word;
	int kind, hits;

	show_entry = show;
	words_plain(text, sizeof(text), arg);
	if (!*text)
		return 0;
	word = split_kind(text, &kind);
	hits = show_word(kind, word);
	return hits ? hits : show_line(text);
}

/* Compares the names by near_distance(). */
const char *explain_closest(const char *arg)
{
	char text[TEXT], plain[TEXT];
	const char *word, *best = NULL;
	unsigned least;
	int kind;

	words_plain(text, sizeof(text), arg);
	word = split_kind(text, &kind);
	least = (unsigned)strlen(word) / 3 + 1;
	for (int i = 0; i < explain_entry_count; i++) {
		const struct entry *e = &explain_entries[i];
		const char *const in[] = { e->name, explain_spoken(e) };

		for (int j = 0; j < 2; j++) {
			unsigned d;

			words_plain(plain, sizeof(plain), in[j]);
			d = near_distance(bare(word, e->kind), bare(plain, e->kind));
			if (d < least) {
				least = d;
				best = e->name;
			}
		}
	}
	return best;
}
