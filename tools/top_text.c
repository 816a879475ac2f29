/* SPDX-License-Identifier: BSD-2-Clause */
/* top_text.c - see top_model.h: lines of a given width. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "top_model.h"

/* --- a line ------------------------------------------------------------------- */

__attribute__((format(printf, 3, 4))) static void line(char *text, size_t width,
						       const char *format, ...)
{
	char whole[512];
	va_list ap;
	size_t n;

	va_start(ap, format);
	vsnprintf(whole, sizeof(whole), format, ap);
	va_end(ap);
	n = strlen(whole);
	if (n > width)
		n = width;
	memcpy(text, whole, n);
	memset(text + n, ' ', width - n);
	text[width] = '\0';
}

void top_number(char text[8], double n)
{
	static const char units[] = "kMGTPE";
	int unit = -1;

	if (n < 0)
		n = 0;
	if (n < 9999.5) {
		snprintf(text, 8, "%.0f", n > 0 && n < 1 ? 1 : n);
		return;
	}
	for (; n >= 999.5 && unit < 5; unit++)
		n /= 1000;
	snprintf(text, 8, "%.*f%c", n < 9.995 ? 2 : n < 99.95 ? 1 : 0, n, units[unit]);
}

/* --- columns -------------------------------------------------------------------- */

static void put_pid(char *to, size_t size, const struct top_row *r)
{
	snprintf(to, size, "%d", (int)r->qp->pid);
}

static void put_name(char *to, size_t size, const struct top_row *r)
{
	snprintf(to, size, "%s", r->process ? r->process->name : "");
}

static void put_qp(char *to, size_t size, const struct top_row *r)
{
	const char *number = r->qp->number;

	snprintf(to, size, "%s", strncmp(number, "0x", 2) ? number : number + 2);
}

static void put_type(char *to, size_t size, const struct top_row *r)
{
	snprintf(to, size, "%s", r->qp->type);
}

static void put_state(char *to, size_t size, const struct top_row *r)
{
	snprintf(to, size, "%s", r->qp->busy ? "busy" : r->qp->state);
}

static void put_by(char *to, size_t size, const struct top_row *r)
{
	snprintf(to, size, "%s", r->qp->by);
}

static void put_device(char *to, size_t size, const struct top_row *r)
{
	snprintf(to, size, "%s", r->qp->device);
}

static void put_peer(char *to, size_t size, const struct top_row *r)
{
	const struct seen_qp *q = r->qp;

	if (*q->peer)
		snprintf(to, size, "%s %s", q->peer, q->peer_qp);
}

static void put_rate(char *to, size_t size, const struct top_row *r)
{
	(void)size;
	top_number(to, r->rate);
}

static void put_bytes(char *to, size_t size, const struct top_row *r)
{
	(void)size;
	top_number(to, r->bytes);
}

static void put_again(char *to, size_t size, const struct top_row *r)
{
	(void)size;
	top_number(to, r->again);
}

static void put_rnr(char *to, size_t size, const struct top_row *r)
{
	(void)size;
	top_number(to, r->rnr);
}

static void put_depth(char *to, size_t size, const struct top_row *r)
{
	(void)size;
	top_number(to, (double)r->qp->n[SEEN_SENDS]);
}

static void put_window(char *to, size_t size, const struct top_row *r)
{
	(void)size;
	if (r->qp->has[SEEN_WINDOW])
		top_number(to, (double)r->qp->n[SEEN_WINDOW]);
}

/* In the order of the screen. need: the column is there if all those with a smaller one
 * are, and it fits, too. */
static const struct column {
	const char *head;
	size_t width; /* the last one takes the rest */
	unsigned need;
	bool number;
	void (*put)(char *to, size_t size, const struct top_row *r);
} columns[] = {
	{ "PID", 7, 3, true, put_pid },		 { "QP", 6, 1, false, put_qp },
	{ "TYPE", 4, 9, false, put_type },	 { "STAT", 5, 8, false, put_state },
	{ "BY", 6, 5, false, put_by },		 { "REQ/S", 5, 2, true, put_rate },
	{ "B/S", 5, 4, true, put_bytes },	 { "AGAIN", 5, 6, true, put_again },
	{ "RNR", 5, 7, true, put_rnr },		 { "WINDW", 5, 11, true, put_window },
	{ "DEPTH", 5, 10, true, put_depth },	 { "COMMAND", 15, 12, false, put_name },
	{ "DEVICE", 15, 13, false, put_device }, { "PEER", 24, 14, false, put_peer },
};
enum { COLUMNS = sizeof(columns) / sizeof(*columns) };

/* Which columns fit? Those needed most first, with a space between two. */
static void choose(size_t width, bool there[COLUMNS])
{
	size_t used = 0;

	memset(there, 0, COLUMNS * sizeof(*there));
	for (unsigned need = 1; need <= COLUMNS; need++)
		for (unsigned i = 0; i < COLUMNS; i++) {
			if (columns[i].need != need)
				continue;
			if (used + columns[i].width + (used > 0) > width)
				return;
			used += columns[i].width + (used > 0);
			there[i] = true;
		}
}

static void table_line(char *text, size_t width, const struct top_row *row)
{
	char whole[512] = "", cell[96];
	bool there[COLUMNS];
	size_t at = 0;

	choose(width, there);
	for (unsigned i = 0; i < COLUMNS; i++) {
		const struct column *c = &columns[i];
		const int wide = (int)c->width;

		if (!there[i])
			continue;
		cell[0] = '\0';
		if (row)
			c->put(cell, sizeof(cell), row);
		else
			snprintf(cell, sizeof(cell), "%s", c->head);
		at += (size_t)snprintf(whole + at, sizeof(whole) - at, "%s%*.*s",
				       at ? " " : "", c->number ? wide : -wide,
				       i == COLUMNS - 1 ? 90 : wide, cell);
	}
	line(text, width, "%s", whole);
}

void top_head(char *text, size_t width)
{
	table_line(text, width, NULL);
}

void top_line(char *text, size_t width, const struct top_row *row)
{
	table_line(text, width, row);
}

/* --- one QP --------------------------------------------------------------------- */

static const char *or_none(const char *word)
{
	return *word ? word : "-";
}

static bool detail_word(char *text, size_t width, const struct top_row *r, unsigned i)
{
	const struct seen_qp *q = r->qp;

	switch (i) {
	case 0:
		line(text, width, "process  %d %s", (int)q->pid,
		     r->process ? r->process->name : "");
		return true;
	case 1:
		line(text, width, "QP       %s %s %s", q->number, q->type, q->state);
		return true;
	case 2:
		line(text, width, "device   %s", or_none(q->device));
		return true;
	case 3:
		line(text, width, "by       %s", or_none(q->by));
		return true;
	case 4:
		line(text, width, "peer     %s %s", or_none(q->peer), q->peer_qp);
		return true;
	case 5:
		line(text, width, "%-13s %16s %8s", "", "total", "a second");
		return true;
	default:
		return false;
	}
}

bool top_detail(char *text, size_t width, const struct top_row *r, unsigned i)
{
	enum { WORDS = 6 };
	char per_s[8] = "";

	if (detail_word(text, width, r, i))
		return true;
	for (int k = 0, at = WORDS; k < SEEN_NUMBERS; k++) {
		if (!r->qp->has[k] || at++ != (int)i)
			continue;
		if (seen_names[k].counter)
			top_number(per_s, r->per_s[k]);
		line(text, width, "%-13s %16llu %8s  %s", seen_names[k].name,
		     (unsigned long long)r->qp->n[k], per_s, seen_names[k].what);
		return true;
	}
	return false;
}

/* --- around the table ------------------------------------------------------------- */

void top_excuse(char *text, size_t width, const struct seen_process *p)
{
	if (!p->ours)
		line(text, width, "%7d %s: of user %u, whom alone it answers",
		     (int)p->pid, p->name, (unsigned)p->uid);
	else if (p->error == -ETIMEDOUT)
		line(text, width, "%7d %s: does not answer: is it stopped?", (int)p->pid,
		     p->name);
	else if (p->error == -ESRCH)
		line(text, width, "%7d %s: has ended", (int)p->pid, p->name);
	else if (p->error)
		line(text, width, "%7d %s: %s", (int)p->pid, p->name,
		     strerror(-p->error));
	else
		*text = '\0';
}

void top_summary(char *text, size_t width, const struct seen *now,
		 const struct top_row *rows, size_t n)
{
	double rate = 0, bytes = 0, again = 0, rnr = 0;
	char word[4][8];

	for (size_t i = 0; i < n; i++) {
		rate += rows[i].rate;
		bytes += rows[i].bytes;
		again += rows[i].again;
		rnr += rows[i].rnr;
	}
	top_number(word[0], rate);
	top_number(word[1], bytes);
	top_number(word[2], again);
	top_number(word[3], rnr);
	line(text, width,
	     "%zu QPs of %zu processes; a second: %s requests, %s bytes, %s sent again, "
	     "%s RNR",
	     n, now->processes, word[0], word[1], word[2], word[3]);
}

bool top_nothing(char *text, size_t width, unsigned i)
{
	static const char *const lines[] = {
		"No process has a device open here.",
		"Start one:      urnic run PROGRAM",
		"Other network namespaces have their own:",
		"                ip netns exec NAME urnic top",
	};

	if (i >= sizeof(lines) / sizeof(*lines))
		return false;
	line(text, width, "%s", lines[i]);
	return true;
}
