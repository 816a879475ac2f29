/* SPDX-License-Identifier: BSD-2-Clause */
/* suppress.c - see suppress.h. */
#include "check/suppress.h"

#include <errno.h>
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "check/trace.h"

enum { RULES = 256, GLOB = 128 };

static struct rule {
	bool any; /* `*': of all checks */
	enum check check;
	char glob[GLOB];
} rules[RULES];
static unsigned rules_n;

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* A pattern that matches no name. */
static const char *wrong_glob(const char *glob)
{
	if (!*glob)
		return "not CHECK:PATTERN";
	if (is_blank(*glob))
		return "no name begins with a space: write the pattern behind the colon";
	if (strstr(glob, " #") || strstr(glob, "\t#"))
		return "a comment has a line of its own";
	if (is_blank(glob[strlen(glob) - 1]))
		return "no name ends with a space";
	return strlen(glob) >= GLOB ? "the pattern is too long" : NULL;
}

/* A line: CHECK:PATTERN, or empty, or a comment. Returns what is wrong with it, or NULL.
 */
static const char *read_rule(const char *line)
{
	const size_t n = strcspn(line, ":");
	const bool any = n == 1 && *line == '*';
	const enum check check = check_named(line, n);
	const char *wrong;

	if (!*line || *line == '#')
		return NULL;
	wrong = wrong_glob(line[n] ? line + n + 1 : "");
	if (wrong)
		return wrong;
	if (!any && check == CHECKS)
		return "no such check";
	if (rules_n == RULES)
		return "too many lines";
	rules[rules_n].any = any;
	rules[rules_n].check = check;
	snprintf(rules[rules_n++].glob, GLOB, "%s", line + n + 1);
	return NULL;
}

static int read_lines(FILE *f, const char *file, char err[SUPPRESS_ERR])
{
	const char *wrong = NULL;
	char *line = NULL;
	size_t room = 0;

	errno = 0;
	for (unsigned n = 1; !wrong && getline(&line, &room, f) >= 0; n++) {
		line[strcspn(line, "\r\n")] = '\0';
		wrong = read_rule(line);
		if (wrong)
			snprintf(err, SUPPRESS_ERR, "%s:%u: %.80s: %s", file, n, line,
				 wrong);
	}
	free(line);
	return wrong ? -EINVAL : ferror(f) ? -errno : 0;
}

/* Each process reads it, so a pipe would be empty for the second. */
static int open_file(const char *file, FILE **f)
{
	struct stat st;

	if (stat(file, &st))
		return -errno;
	if (S_ISFIFO(st.st_mode))
		return -ESPIPE;
	*f = fopen(file, "re");
	return *f ? 0 : -errno;
}

int suppress_read(const char *file, char err[SUPPRESS_ERR])
{
	FILE *f = NULL;
	int rc;

	rules_n = 0;
	*err = '\0';
	if (!*file)
		return 0;
	rc = open_file(file, &f);
	if (f) {
		rc = read_lines(f, file, err);
		fclose(f);
	}
	if (rc && !*err)
		snprintf(err, SUPPRESS_ERR, "%s: %s", file,
			 rc == -ESPIPE ? "a pipe, which only one process can read"
				       : strerror(-rc));
	return rc;
}

static bool fits_glob(const char *name, void *glob)
{
	return *name && !fnmatch(glob, name, 0);
}

bool suppress_has(enum check check, check_trace where)
{
	for (unsigned i = 0; i < rules_n; i++)
		if ((rules[i].any || rules[i].check == check) &&
		    trace_matches(where, fits_glob, rules[i].glob))
			return true;
	return false;
}
