/* SPDX-License-Identifier: BSD-2-Clause */
/* top.c - urnic top: the QPs of running processes, as a terminal view or as text. */
#include "top.h"

#include <argp.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ask.h"
#include "options.h"
#include "urnic.h"

enum { ONCE = 256, PROMETHEUS };

static const struct argp_option options[] = {
	{ "once", ONCE, NULL, 0,
	  "print one look and end; with --interval two looks, with rates", 0 },
	{ "json", 'j', NULL, 0, "print it as JSON (implies --once)", 0 },
	{ "prometheus", PROMETHEUS, NULL, 0,
	  "print it in the text format of Prometheus (implies --once)", 0 },
	{ "output", 'o', "FILE", 0,
	  "write it into FILE, in one step, in place of standard output", 0 },
	{ "interval", 'i', "SECONDS", 0, "look so often: 0.1 to 3600; 1", 0 },
	{ "pid", 'p', "PID", 0, "show this process only", 0 },
	{ 0 },
};

typedef void printer(FILE *out, const struct seen *now, const struct seen *before);

struct top {
	bool once;
	printer *print;
	const char *file;
	double interval; /* s; 0: not given */
	pid_t pid;
};

static double seconds(const char *arg, struct argp_state *state)
{
	char *end;
	double s = strtod(arg, &end);

	if (end == arg || *end || !(s >= 0.1 && s <= 3600))
		argp_error(state, "'%s' is no time from 0.1 to 3600 seconds", arg);
	return s;
}

static pid_t process_id(const char *arg, struct argp_state *state)
{
	const pid_t pid = ask_pid_of(arg);

	if (!pid)
		argp_error(state, "'%s' is no process id", arg);
	return pid;
}

static error_t parse_option(int key, char *arg, struct argp_state *state)
{
	struct top *t = state->input;

	switch (key) {
	case PROMETHEUS:
		t->print = top_print_prometheus;
		t->once = true;
		return 0;
	case 'j':
		t->print = top_print_json;
		t->once = true;
		return 0;
	case ONCE:
		t->once = true;
		return 0;
	case 'o':
		t->file = arg;
		return 0;
	case 'i':
		t->interval = seconds(arg, state);
		return 0;
	case 'p':
		t->pid = process_id(arg, state);
		return 0;
	case ARGP_KEY_ARG:
		argp_error(state, "'%s' is one word too many (--pid PID)", arg);
		return 0;
	case ARGP_KEY_END:
		if (t->file && !t->once)
			argp_error(state,
				   "--output needs --once, --json or --prometheus");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static int write_out(const struct top *t, const struct seen *now,
		     const struct seen *before)
{
	int rc;

	if (!t->file) {
		t->print(stdout, now, before);
		return 0;
	}
	rc = top_write(t->file, t->print, now, before);
	if (!rc)
		return 0;
	fprintf(stderr, "urnic top: %s cannot be written: %s\n", t->file, strerror(-rc));
	return 1;
}

static void sleep_for(double s)
{
	const time_t whole = (time_t)s;

	nanosleep(&(struct timespec){ whole, (long)((s - (double)whole) * 1e9) }, NULL);
}

/* Returns the exit status. */
static int print_once(const struct top *t, struct seen_watch *w)
{
	struct seen first = { .at = 0 }, now;
	int rc = t->interval > 0 ? seen_look(w, &first) : 0;

	if (!rc && t->interval > 0)
		sleep_for(t->interval);
	if (!rc)
		rc = seen_look(w, &now);
	if (rc < 0)
		fprintf(stderr, "urnic top: %s\n", strerror(-rc));
	if (!rc) {
		rc = write_out(t, &now, first.at ? &first : NULL);
		seen_free(&now);
	}
	seen_free(&first);
	return rc != 0;
}

static int run_view(const struct top *t, struct seen_watch *w)
{
	if (t->once)
		return print_once(t, w);
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
		fputs("urnic top: this is no terminal: --once, --json or --prometheus "
		      "print what it shows\n",
		      stderr);
		return 1;
	}
	return top_screen(w, t->interval > 0 ? (unsigned)(t->interval * 1000) : 1000);
}

int cmd_top(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.doc = "Show the queue pairs of running processes: what they do, by which"
		       " way, and to whom. In the terminal, h lists the keys.\vOf a"
		       " process of another user only the number is shown.",
	};
	struct top t = { .print = top_print_text };
	struct seen_watch *w;
	struct ask *a;
	int rc;

	options_parse(&argp, argc, argv, 0, &t);
	a = ask_open("urnic top");
	if (!a)
		return 1;
	w = seen_watch_open(a, t.pid);
	rc = w ? run_view(&t, w) : 1;
	seen_watch_close(w);
	ask_close(a);
	return rc;
}
