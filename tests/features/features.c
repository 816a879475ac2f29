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
#include <time.h>

#include "../pairs/pairs.h"
#include "../stress/peer.h"

static struct {
	struct side side[2];
	int sock, gid;
	bool b, said; /* b: two processes: which we are */
	const char *row, *device, *address;
} the = { .sock = -1, .gid = 1 };

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
	say("%s, %c: %s:%d: not so: %s (%s)", the.row, the.b ? 'B' : 'A', file, line,
	    what, strerror(errno));
	_exit(1);
}

void broken_rc(const char *file, int line, const char *call, int got, int want)
{
	say("%s, %c: %s:%d: %s: %d (%s), not %d", the.row, the.b ? 'B' : 'A', file, line,
	    call, got, strerror(got), want);
	_exit(1);
}

uint64_t now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

bool in_two(void)
{
	return the.sock >= 0;
}

bool plays(bool b)
{
	return !in_two() || b == the.b;
}

struct side *side(bool b)
{
	CHECK(plays(b));
	return &the.side[b];
}

void each(void (*fn)(struct side *s))
{
	for (int b = 0; b < 2; b++)
		if (plays(b))
			fn(&the.side[b]);
}

void sync_sides(void)
{
	struct side *s = the.side;

	if (in_two()) {
		s = &the.side[the.b];
		peer_swap(the.sock, &s->mine, &s->theirs, sizeof(s->mine));
		return;
	}
	s[0].theirs = s[1].mine;
	s[1].theirs = s[0].mine;
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
	for (int b = 0; b < 2; b++)
		the.side[b].is_b = b;
	if (is_iwarp())
		iwarp_open(&the.side[0], &the.side[1], the.address);
	else
		for (int b = 0; b < 2; b++)
			if (plays(b))
				side_open(&the.side[b], the.device, the.gid);
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

static bool wanted(const char *name, char **names)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (!strcmp(*names, name))
			return true;
	return false;
}

static void run_all(const struct feature *row, char **names)
{
	for (; row->name; row++)
		if (wanted(row->name, names) && !(row->verbs_connect && is_iwarp()))
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
	if (port) {
		the.b = !host;
		the.sock = peer_meet(host, port);
	}
	run_all(caps_rows, argv + optind);
	run_all(memory_rows, argv + optind);
	run_all(queue_rows_ex, argv + optind);
	run_all(spread_rows, argv + optind);
	return 0;
}
