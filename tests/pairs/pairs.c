/* SPDX-License-Identifier: BSD-2-Clause */
/* pairs.c - errors between two QPs: each row in a process of its own, and a line for what
 * each end has seen.
 *
 *	pairs -l                                          the table
 *	pairs [-d DEVICE] [-g GID] [-e FILE] [ROW...]     both ends in one process
 *	pairs ... -p PORT [-c HOST] [ROW...]              each in one
 *	pairs -i ADDRESS [-e FILE] [ROW...]               iWARP, both ends in one
 *
 * Lines are NAME, A or B, what was seen, with tabs between.  FILE has what to expect, as
 *such lines; a row that is not there has what the table says.  An end waits until it sees
 * what is expected, or for 5 s (-t MS); who calls this compares.
 */
#include "pairs.h"

#include <err.h>
#include <getopt.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>

#include "../stress/peer.h"
#include "seen.h"

static struct {
	struct side side[2];
	int sock, gid;
	bool b; /* two processes: which we are */
	const char *row, *device, *address;
	char expect[65536];
} the = { .sock = -1, .gid = 1 };

void say(const char *fmt, ...)
{
	va_list ap;

	printf("%s\t%c\tbroken: ", the.row ? the.row : "-", the.b ? 'B' : 'A');
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}

void broken(const char *file, int line, const char *what)
{
	const char *slash = strrchr(file, '/');

	say("%s:%d: not so: %s (%s)", slash ? slash + 1 : file, line, what,
	    strerror(errno));
	fflush(stdout);
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

/* --- what is expected ---------------------------------------------------- */

static void read_expected(const char *path)
{
	FILE *f = fopen(path, "r");

	if (!f)
		err(1, "%s", path);
	the.expect[fread(the.expect, 1, sizeof(the.expect) - 1, f)] = '\0';
	fclose(f);
}

static void expected(const struct row *row, bool b, char out[static 256])
{
	const char *text = iwarp ? (b ? row->ib : row->ia) : (b ? row->b : row->a);
	char line[128];
	const char *at;

	snprintf(line, sizeof(line), "%s\t%c\t", row->name, b ? 'B' : 'A');
	at = strstr(the.expect, line);
	if (at && (at == the.expect || at[-1] == '\n')) {
		at += strlen(line);
		snprintf(out, 256, "%.*s", (int)strcspn(at, "\n"), at);
	} else {
		snprintf(out, 256, "%s", text);
	}
}

/* --- rows ---------------------------------------------------------------- */

static void open_sides(void)
{
	for (int b = 0; b < 2; b++)
		the.side[b].is_b = b;
	if (iwarp)
		iwarp_open(&the.side[0], &the.side[1], the.address);
	else
		for (int b = 0; b < 2; b++)
			if (plays(b))
				side_open(&the.side[b], the.device, the.gid);
}

static void run(const struct row *row)
{
	char a[256], b[256];
	int status;
	pid_t child;

	the.row = row->name;
	fflush(stdout);
	child = fork();
	if (child == 0) {
		open_sides();
		expected(row, false, a);
		expected(row, true, b);
		play(row, a, b);
		fflush(stdout);
		_exit(0);
	}
	if (child < 0 || waitpid(child, &status, 0) < 0)
		err(1, "fork");
	if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
		return;
	if (!WIFEXITED(status))
		say("signal %d", WTERMSIG(status));
	if (in_two()) /* the ends are out of step */
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

static const char *text(const char *s)
{
	return s ? s : "";
}

static void visit(const struct group *g, const struct row *r, char **names, bool list)
{
	if (!wanted(r->name, names) || (iwarp && !r->ia) ||
	    (r->only && !list && strncmp(text(the.device), r->only, strlen(r->only))))
		return;
	if (list)
		printf("%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", g->title, r->name,
		       r->what, r->clause, text(r->a), text(r->b), text(r->rfc),
		       text(r->term), text(r->ia), text(r->ib), text(r->only));
	else if (iwarp || r->a)
		run(r);
}

int main(int argc, char **argv)
{
	const char *port = NULL, *host = NULL;
	bool list = false;
	int c;

	while ((c = getopt(argc, argv, "d:g:p:c:i:e:t:l")) != -1) {
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
			iwarp = true;
			the.address = optarg;
			break;
		case 'e':
			read_expected(optarg);
			break;
		case 't':
			patience_ms = (unsigned)atoi(optarg);
			break;
		case 'l':
			list = true;
			break;
		default:
			errx(2, "pairs [-l] [-d DEVICE] [-g GID] [-i ADDRESS] [-e FILE] "
				"[-t MS] [-p PORT [-c HOST]] [ROW...]");
		}
	}
	if (port) {
		the.b = !host;
		the.sock = peer_meet(host, port);
	}
	for (const struct group *g = groups; g->title; g++)
		for (const struct row *r = g->rows; r->name; r++)
			visit(g, r, argv + optind, list);
	return 0;
}
