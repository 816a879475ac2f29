/* SPDX-License-Identifier: BSD-2-Clause */
/* pairs.c - errors between two QPs: each row in a process of its own, and a line for what
 * each end has seen.
 *
 *	pairs -l                                          the table
 *	pairs [-d DEVICE] [-g GID] [-e FILE] [ROW...]     both ends in one process
 *	pairs ... -p PORT [-c HOST] [ROW...]              each in one
 *	pairs -i ADDRESS [-e FILE] [ROW...]               iWARP, both ends in one
 *
 * Each line of output is NAME, A or B, and what was seen, separated by tabs.  FILE has
 *the expected lines; for a row without one the table says what to expect.  An end waits
 *until it sees that, or for 5 s (-t MS); the caller compares the output.
 */
#include "pairs.h"

#include <err.h>
#include <getopt.h>
#include <stdarg.h>
#include <sys/wait.h>

#include "seen.h"

static struct {
	const char *row, *device, *address;
	int gid;
	char expect[65536];
} the = { .gid = 1 };

void say(const char *fmt, ...)
{
	va_list ap;

	printf("%s\t%c\tbroken: ", the.row ? the.row : "-", sides.b ? 'B' : 'A');
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
	if (!iwarp) {
		sides_open(the.device, the.gid);
		return;
	}
	sides.side[1].is_b = true;
	iwarp_open(&sides.side[0], &sides.side[1], the.address);
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
	if (in_two()) /* otherwise the ends would be out of step */
		exit(1);
}

static const char *text(const char *s)
{
	return s ? s : "";
}

static void visit(const struct group *g, const struct row *r, char **names, bool list)
{
	if (!is_wanted(r->name, names) || (iwarp && !r->ia) ||
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
	sides_meet(host, port);
	for (const struct group *g = groups; g->title; g++)
		for (const struct row *r = g->rows; r->name; r++)
			visit(g, r, argv + optind, list);
	return 0;
}
