/* SPDX-License-Identifier: BSD-2-Clause */
/* seeds_testing.h - for random tests: which seeds to run.  URNIC_TEST_SEED=n says that
 * one seed, URNIC_TEST_SEEDS=n the seeds 1 to n. */
#ifndef SYS_SEEDS_TESTING_H
#define SYS_SEEDS_TESTING_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct seeds {
	uint64_t first, last;
	bool all; /* no fewer than usual: what is rare has happened, too */
};

/* usual: how many seeds the test runs if nothing is said. */
static inline struct seeds seeds_chosen(uint64_t usual)
{
	const char *one = getenv("URNIC_TEST_SEED");
	const char *many = getenv("URNIC_TEST_SEEDS");
	const uint64_t n = many ? strtoull(many, NULL, 0) : usual;
	const uint64_t only = one ? strtoull(one, NULL, 0) : 0;

	if (!n) { /* a test that runs nothing must not pass */
		fprintf(stderr, "URNIC_TEST_SEEDS=%s: not a number above 0\n", many);
		exit(2);
	}
	if (one)
		return (struct seeds){ only, only, false };
	return (struct seeds){ 1, n, n >= usual };
}

/* Prints the seed that runs, so that it stands above the report of a failure. */
static inline void seed_show(uint64_t seed)
{
	printf("URNIC_TEST_SEED=%llu\n", (unsigned long long)seed);
	fflush(stdout);
}

#endif
