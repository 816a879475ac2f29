/* SPDX-License-Identifier: BSD-2-Clause */
/* errors.c - provokes every error that verbs can report, one row each, and
 * looks at what each side sees: statuses, events, states, the log; and that a
 * bystander QP has not been harmed.
 *
 *	errors [-d DEVICE] [-g GID-INDEX] [ROW...]        one process, all rows
 *	errors ... -p TCP-PORT [-c HOST] [ROW...]         two, the wire rows
 *
 * ERRORS_LOG names the file that URNIC_LOG=info:FILE writes; without it, the
 * log is not looked at.
 */
#include "errors.h"

#include <err.h>
#include <getopt.h>
#include <infiniband/verbs.h>
#include <regex.h>
#include <stdarg.h>

static struct {
	const char *row, *log;
	long log_from;
} the;

void say(const char *fmt, ...)
{
	va_list ap;

	fprintf(stderr, "%s: ", the.row ? the.row : "errors");
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

static void show_log(void)
{
	FILE *f = the.log ? fopen(the.log, "r") : NULL;
	char line[1100];

	if (!f)
		return;
	fseek(f, the.log_from, SEEK_SET);
	while (fgets(line, sizeof(line), f))
		fprintf(stderr, "  log: %s", line);
	fclose(f);
}

void broken(const char *file, int line, const char *what)
{
	say("%s:%d: not so: %s (errno %d: %s)", file, line, what, errno, strerror(errno));
	show_log();
	_exit(1);
}

void broken_rc(const char *file, int line, const char *call, int got, int want)
{
	say("%s:%d: %s gave %d (%s), not %d (%s)", file, line, call, got, strerror(got),
	    want, strerror(want));
	show_log();
	_exit(1);
}

/* --- the log ------------------------------------------------------------- */

void log_mark(void)
{
	FILE *f = the.log ? fopen(the.log, "r") : NULL;

	the.log_from = 0;
	if (!f)
		return;
	fseek(f, 0, SEEK_END);
	the.log_from = ftell(f);
	fclose(f);
}

static uint32_t qpn_of(bool b)
{
	const struct side *s = &sides.side[in_two() ? sides.b : b];

	return in_two() && b != sides.b ? s->theirs.qpn : s->mine.qpn;
}

static void expand(char *out, size_t size, const char *re)
{
	size_t n = 0;

	for (; *re; re++) {
		CHECK(n + 12 < size);
		if (*re == '%' && (re[1] == 'A' || re[1] == 'B'))
			n += (size_t)sprintf(out + n, "0x%06x", qpn_of(*++re == 'B'));
		else
			out[n++] = *re;
	}
	out[n] = '\0';
}

bool log_has(const char *re)
{
	char line[1100], pattern[512];
	bool found = false;
	regex_t regex;
	FILE *f;

	if (!re || !the.log)
		return true;
	expand(pattern, sizeof(pattern), re);
	CHECK(regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB) == 0);
	f = fopen(the.log, "r");
	if (f) {
		fseek(f, the.log_from, SEEK_SET);
		while (!found && fgets(line, sizeof(line), f))
			found = regexec(&regex, line, 0, NULL, 0) == 0;
		fclose(f);
	}
	regfree(&regex);
	return found;
}

void log_must(const char *re)
{
	char pattern[512];

	if (log_has(re))
		return;
	expand(pattern, sizeof(pattern), re);
	say("no log line matches %s", pattern);
	show_log();
	_exit(1);
}

/* --- rows ---------------------------------------------------------------- */

/* clang-format off */
static const struct local_row *const sets[] = {
	post_rows, builder_rows, state_rows, event_rows, queue_rows, window_rows,
	call_rows, stale_rows,
};
/* clang-format on */

/* fn NULL: wire row i.  Only names the row where nothing is to be run. */
static unsigned visit(const char *name, void (*fn)(void), unsigned i, char **names,
		      bool list)
{
	if (!is_wanted(name, names))
		return 0;
	if (list) {
		puts(name);
		return 1;
	}
	the.row = name;
	log_mark();
	if (fn)
		fn();
	else
		wire_run(i);
	bystanders();
	each(expect_no_event);
	return 1;
}

static unsigned visit_all(char **names, bool list)
{
	unsigned n = 0;

	for (unsigned i = 0; i < wire_count(); i++)
		n += visit(wire_name(i), NULL, i, names, list);
	for (size_t k = 0; k < COUNT(sets) && !in_two(); k++)
		for (const struct local_row *r = sets[k]; r->name; r++)
			n += visit(r->name, r->run, 0, names, list);
	return n;
}

int main(int argc, char **argv)
{
	const char *device = NULL, *port = NULL, *host = NULL;
	int gid = 1, c;
	bool list = false;
	unsigned n;

	while ((c = getopt(argc, argv, "d:g:p:c:l")) != -1) {
		switch (c) {
		case 'd':
			device = optarg;
			break;
		case 'g':
			gid = atoi(optarg);
			break;
		case 'p':
			port = optarg;
			break;
		case 'c':
			host = optarg;
			break;
		case 'l':
			list = true;
			break;
		default:
			errx(2,
			     "errors [-l] [-d DEVICE] [-g GID] [-p PORT [-c HOST]] [ROW...]");
		}
	}
	the.log = getenv("ERRORS_LOG");
	if (list) {
		visit_all(argv + optind, true);
		return 0;
	}
	sides_meet(host, port);
	sides_open(device, gid);
	n = visit_all(argv + optind, false);
	the.row = NULL;
	sync_sides();
	each(side_close);
	if (!n)
		errx(2, "no such row");
	printf("%u rows\n", n);
	return 0;
}
