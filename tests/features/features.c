/* SPDX-License-Identifier: BSD-2-Clause */
/* features.c - runs each row in a process of its own, and says "NAME ran", or why not.
 *
 *	features [-d DEVICE] [-g GID] [ROW...]         both ends in one process
 *	features ... -p PORT [-c HOST] [ROW...]        each in one
 *	features -i ADDRESS [ROW...]                   iWARP, both ends in one
 */
#include "feature.h"

#include <err.h>
#include <getopt.h>
#include <stdarg.h>
#include <sys/wait.h>

#include "../pairs/pairs.h"

static struct {
	const char *row, *device, *address;
	int gid;
	bool said;
} the = { .gid = 1 };

void say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
}

void broken(const char *file, int line, const char *what)
{
	say("%s, %c: %s:%d: not so: %s (%s)", the.row, sides.b ? 'B' : 'A', file, line,
	    what, strerror(errno));
	_exit(1);
}

void broken_rc(const char *file, int line, const char *call, int got, int want)
{
	say("%s, %c: %s:%d: %s: %d (%s), not %d", the.row, sides.b ? 'B' : 'A', file,
	    line, call, got, strerror(got), want);
	_exit(1);
}

bool is_iwarp(void)
{
	return the.address;
}

void left_out(const char *why)
{
	printf("%s left out: %s\n", the.row, why);
	the.said = true;
}

/* --- rows ---------------------------------------------------------------- */

static void open_sides(void)
{
	if (!is_iwarp()) {
		sides_open(the.device, the.gid);
		return;
	}
	sides.side[1].is_b = true;
	iwarp_open(&sides.side[0], &sides.side[1], the.address);
}

static void run(const struct feature *row)
{
	int status;
	pid_t child;

	the.row = row->name;
	fflush(stdout);
	child = fork();
	if (child == 0) {
		open_sides();
		sync_sides();
		row->run();
		sync_sides();
		if (!the.said)
			printf("%s ran\n", row->name);
		fflush(stdout);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		err(1, "fork");
	if (!WIFEXITED(status))
		errx(1, "%s: signal %d", row->name, WTERMSIG(status));
	if (WEXITSTATUS(status))
		exit(1);
}

static void run_all(const struct feature *row, char **names)
{
	for (; row->name; row++)
		if (is_wanted(row->name, names) && !(row->verbs_connect && is_iwarp()))
			run(row);
}

int main(int argc, char **argv)
{
	const char *port = NULL, *host = NULL;
	int c;

	while ((c = getopt(argc, argv, "d:g:p:c:i:")) != -1) {
		switch (c) {
		case 'd':
			the.device = optarg;
			break;
		case 'g':
			the.gid = atoi(optarg);
			break;
		case 'p':
			port = optarg;
			break;
		case 'c':
			host = optarg;
			break;
		case 'i':
			the.address = optarg;
			break;
		default:
			errx(2, "features [-d DEVICE] [-g GID] [-i ADDRESS] "
				"[-p PORT [-c HOST]] [ROW...]");
		}
	}
	sides_meet(host, port);
	run_all(caps_rows, argv + optind);
	run_all(claims_rows, argv + optind);
	run_all(memory_rows, argv + optind);
	run_all(queue_rows_ex, argv + optind);
	run_all(spread_rows, argv + optind);
	run_all(flush_rows, argv + optind);
	run_all(built_rows, argv + optind);
	run_all(places_rows, argv + optind);
	return 0;
}
