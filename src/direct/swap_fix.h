/* SPDX-License-Identifier: BSD-2-Clause */
/* swap_fix.h - for the unit tests of swap.c: private memory with content that follows
 * from a seed, turned into file pages. */
#ifndef DIRECT_SWAP_FIX_H
#define DIRECT_SWAP_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "direct/swap.h"

enum { PAGE = 4096, PAGES = 40, LEN = PAGES * PAGE };

static inline uint8_t *map(size_t len)
{
	uint8_t *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static inline void fill(uint8_t *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (uint8_t)(seed + i * 7 + i / 251);
}

static inline void expect(const uint8_t *p, size_t len, unsigned seed)
{
	for (size_t i = 0; i < len; i++)
		assert_int_equal(p[i], (uint8_t)(seed + i * 7 + i / 251));
}

static inline void expect_zeros(const uint8_t *p, size_t len)
{
	for (size_t i = 0; i < len; i++)
		assert_int_equal(p[i], 0);
}

/* Returns how many of the len bytes at p are mapped from the run's file. */
static inline uint64_t of_file(const struct swap_run *run, const uint8_t *p, size_t len)
{
	uint64_t lo = (uintptr_t)p, hi = lo + len, n = 0;
	struct procmap m;
	struct procmaps maps;

	procmaps_open(&maps);
	while (procmaps_next(&maps, &m))
		if (swap_has(run, &m) && m.lo < hi && lo < m.hi)
			n += (m.hi < hi ? m.hi : hi) - (m.lo > lo ? m.lo : lo);
	procmaps_close(&maps);
	return n;
}

static inline struct swap_run out(uint8_t *p, size_t len)
{
	struct swap_run run;

	assert_int_equal(swap_out((uintptr_t)p, (uintptr_t)p + len, &run, NULL), 0);
	assert_int_equal(run.lo, (uintptr_t)p);
	assert_int_equal(run.hi, (uintptr_t)p + len);
	assert_int_equal(of_file(&run, p, len), len);
	return run;
}

/* Forks as a program with this run does, after swap_copy(). Returns as fork() does. */
static inline pid_t forked(struct swap_run *run)
{
	const pid_t pid = fork();

	if (pid)
		swap_parent(run);
	else
		swap_child(run, 1);
	return pid;
}

/* The child has found nothing wrong. */
static inline void ends_well(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

#endif
