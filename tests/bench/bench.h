/* SPDX-License-Identifier: BSD-2-Clause */
/* bench.h - what the programs of this folder share: a clock and the median. */
#ifndef BENCH_H
#define BENCH_H

#include <err.h>
#include <stdbool.h>
#include <stdlib.h>
#include <time.h>

static inline void must(bool ok, const char *what)
{
	if (!ok)
		err(1, "%s", what);
}

static inline double clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static inline int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Sorts v. */
static inline double median(double *v, int n)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	return v[n / 2];
}

#endif
