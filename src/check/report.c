/* SPDX-License-Identifier: BSD-2-Clause */
/* report.c - see report.h. */
#include "check/report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "check/suppress.h"
#include "check/trace.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/log.h"

enum { PLACES = 256 };

/* What was reported where. */
struct found {
	enum check check;
	const void *place;
	check_trace where;
	unsigned long times;
	bool suppressed; /* nobody is told of it */
};

static struct lock found_lock;
static struct found found[PLACES] GUARDED_BY(found_lock);
static unsigned found_n GUARDED_BY(found_lock);
static unsigned long more GUARDED_BY(found_lock); /* at places beyond PLACES */

static bool may_abort;
static _Atomic uint64_t explained; /* checks: the log says how to learn more */

uint64_t check_now(void)
{
	return clock_ns();
}

check_trace check_here(void)
{
	return trace_now();
}

int report_start(const char *suppressions, bool abort_at_once)
{
	char err[SUPPRESS_ERR];
	int rc;

	may_abort = abort_at_once;
	lock_take(&found_lock);
	found_n = 0;
	explained = 0;
	lock_give(&found_lock);
	rc = suppress_read(suppressions, err);
	if (rc)
		log_error("URNIC_CHECK_SUPPRESS: %s", err);
	return rc;
}

/* --- reports ---------------------------------------------------------------- */

/* Counts it. Returns true at the first time. */
static bool is_new(enum check check, check_trace where)
{
	const void *place = trace_place(where);
	bool new = false;
	unsigned i;

	lock_take(&found_lock);
	for (i = 0; i < found_n; i++)
		if (found[i].check == check && found[i].place == place)
			break;
	if (i < found_n) {
		found[i].times++;
	} else if (found_n < PLACES) {
		found[found_n++] = (struct found){ check, place, where, 1, false };
		new = true;
	} else {
		more++;
	}
	lock_give(&found_lock);
	return new;
}

static void suppress(enum check check, check_trace where)
{
	lock_take(&found_lock);
	for (unsigned i = 0; i < found_n; i++)
		if (found[i].check == check && found[i].place == trace_place(where))
			found[i].suppressed = true;
	lock_give(&found_lock);
}

static void show_frame(const char *text, void *arg)
{
	const char **first = arg;

	log_line(LOG_FROM(LOG_ERROR, NULL), "  %s %s", *first, text);
	*first = "        called by";
}

static void show_trace(const char *what, check_trace t)
{
	const char *first = what;

	if (t)
		trace_show(t, show_frame, &first);
}

static void show_before(const struct check_before *b)
{
	char what[128];

	if (b->at)
		snprintf(what, sizeof(what), "%s %.3f ms before, by", b->what,
			 (double)(check_now() - b->at) / 1e6);
	else
		snprintf(what, sizeof(what), "%s by", b->what);
	show_trace(what, b->where);
}

/* Once for each check, with its first report: nothing may follow. */
static void show_help(enum check check)
{
	if (!(atomic_fetch_or(&explained, check_bit(check)) & check_bit(check)))
		log_line(LOG_FROM(LOG_ERROR, NULL),
			 "  cause and remedy: `urnic explain check:%s'",
			 check_rows[check].name);
}

static void show_report(enum check check, const char *label, check_trace where,
			const struct check_before *before, unsigned n, const char *text)
{
	if (suppress_has(check, where)) {
		suppress(check, where);
		return;
	}
	log_line(LOG_FROM(LOG_ERROR, NULL), "check %s: %s", check_rows[check].name, text);
	show_trace(label, where);
	for (unsigned i = 0; i < n; i++)
		if (before[i].where)
			show_before(&before[i]);
	show_help(check);
	if (may_abort)
		abort();
}

/* The caller may hold locks, and files of symbols are opened. where: NULL: here. */
static void report_found(enum check check, const char *label, const check_trace *where,
			 const struct check_before *before, unsigned n, const char *fmt,
			 va_list ap)
{
	const int saved = errno;
	char text[LOG_TEXT - 64];
	check_trace at;
	int was;

	if (!check_is_on(check))
		return;
	at = where ? *where : trace_now();
	if (is_new(check, at)) {
		vsnprintf(text, sizeof(text), fmt, ap);
		was = cancel_hold();
		show_report(check, label, at, before, n, text);
		cancel_let(was);
	}
	errno = saved;
}

void check_report(enum check check, const struct check_before *before, unsigned n,
		  const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	report_found(check, "in", NULL, before, n, fmt, ap);
	va_end(ap);
}

void check_report_at(enum check check, check_trace where,
		     const struct check_before *before, unsigned n, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	report_found(check, "in", &where, before, n, fmt, ap);
	va_end(ap);
}

void check_report_made(enum check check, const struct check_object *o,
		       const struct check_before *before, unsigned n, const char *fmt,
		       ...)
{
	const check_trace made = o ? o->made : 0;
	va_list ap;

	va_start(ap, fmt);
	report_found(check, o && o->kind == LIVE_MR ? "registered in" : "created in",
		     &made, before, n, fmt, ap);
	va_end(ap);
}

unsigned long report_totals(void)
{
	unsigned long all, places = 0;

	lock_take(&found_lock);
	all = more;
	for (unsigned i = 0; i < found_n; i++) {
		if (found[i].suppressed)
			continue;
		all += found[i].times;
		places++;
		if (found[i].times > 1)
			log_error("check %s: %lu times in all at its place",
				  check_rows[found[i].check].name, found[i].times);
	}
	lock_give(&found_lock);
	if (all)
		log_error("checks: reports in all: %lu; places: %lu", all, places);
	return all;
}
