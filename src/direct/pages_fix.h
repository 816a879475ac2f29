/* SPDX-License-Identifier: BSD-2-Clause */
/* pages_fix.h - for unit tests: private pages for regions to register, and which of them
 * are a file's meanwhile. */
#ifndef DIRECT_PAGES_FIX_H
#define DIRECT_PAGES_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/mman.h>

#include "direct/share.h"
#include "direct/threads_fix.h"
#include "sys/procmaps.h"
#include "verbs/core.h"
#include "verbs/mr.h"

enum {
	PAGE = 4096,
	LEN = 20 * PAGE,
	RW = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
};

static struct core test_core;
static struct pd *pd;
static uint8_t *mem;

static inline int begin(void **state)
{
	(void)state;
	assert_int_equal(core_init(&test_core, 1), 0);
	assert_int_equal(pd_alloc(&test_core, NULL, &pd), 0);
	count_threads();
	share_start(&test_core, false);
	mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	for (size_t i = 0; i < LEN; i++)
		mem[i] = (uint8_t)(i * 7 + i / 251);
	return 0;
}

static inline int end(void **state)
{
	(void)state;
	munmap(mem, LEN);
	assert_int_equal(pd_free(pd), 0);
	core_fini(&test_core);
	return 0;
}

static inline struct mr *reg(void *at, size_t len, int access)
{
	struct mr *mr;

	assert_int_equal(mr_reg(pd, at, len, (uintptr_t)at, access, &mr), 0);
	return mr;
}

static inline void dereg(struct mr *mr)
{
	assert_int_equal(mr_dereg(mr), 0);
}

/* Which pages of mem are shared? */
static inline void find_shared(bool is[LEN / PAGE])
{
	struct procmap m;
	struct procmaps maps;

	procmaps_open(&maps);
	while (procmaps_next(&maps, &m))
		for (size_t i = 0; i < LEN / PAGE; i++)
			if (m.lo <= (uintptr_t)mem + i * PAGE &&
			    (uintptr_t)mem + i * PAGE < m.hi)
				is[i] = m.perms[3] == 's';
	procmaps_close(&maps);
}

/* Checks that `pages` pages of mem from page `from` on are shared, and no others. */
static inline void expect_shared(size_t from, size_t pages)
{
	bool is[LEN / PAGE] = { false };

	find_shared(is);
	for (size_t i = 0; i < LEN / PAGE; i++)
		assert_int_equal(is[i], i >= from && i < from + pages);
}

/* Checks that all pages of mem but that one are shared. */
static inline void expect_shared_but(size_t page)
{
	bool is[LEN / PAGE] = { false };

	find_shared(is);
	for (size_t i = 0; i < LEN / PAGE; i++)
		assert_int_equal(is[i], i != page);
}

static inline void expect_content(void)
{
	for (size_t i = 0; i < LEN; i++)
		assert_int_equal(mem[i], (uint8_t)(i * 7 + i / 251));
}

#endif
