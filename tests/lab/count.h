/* SPDX-License-Identifier: BSD-2-Clause */
/* count.h - for tests that nothing is left behind: counts entries in /proc.  The program
 * ends if a folder cannot be read. */
#ifndef TESTS_COUNT_H
#define TESTS_COUNT_H

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

/* Counts all entries, with . and .., and in /proc/self/fd the descriptor used here. */
static inline unsigned count_entries(const char *folder)
{
	DIR *d = opendir(folder);
	unsigned n = 0;

	if (!d) {
		perror(folder);
		exit(1);
	}
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

static inline unsigned count_lines(const char *path)
{
	FILE *f = fopen(path, "r");
	unsigned n = 0;
	int c;

	if (!f) {
		perror(path);
		exit(1);
	}
	while ((c = getc(f)) != EOF)
		n += c == '\n';
	fclose(f);
	return n;
}

#endif
