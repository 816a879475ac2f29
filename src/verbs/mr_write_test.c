/* SPDX-License-Identifier: BSD-2-Clause */
/* Changes to registered memory that was write-protected or unmapped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#include "sys/guard.h"
#include "verbs/core.h"
#include "verbs/mkey.h"
#include "verbs/mr.h"

enum {
	PAGE = 4096,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		 IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
};

struct t {
	struct core core;
	struct pd *pd;
	struct mr *mr;
	uint8_t *at;
	uint32_t key;
};

static volatile unsigned faults; /* signals that reached the program's handler */

static void on_fault(int sig)
{
	faults++;
	signal(sig, SIG_DFL);
}

static void begin(struct t *t, int access)
{
	signal(SIGSEGV, on_fault);
	guard_arm();
	assert_int_equal(core_init(&t->core, 1), 0);
	assert_int_equal(pd_alloc(&t->core, NULL, &t->pd), 0);
	t->at = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		     -1, 0);
	assert_ptr_not_equal(t->at, MAP_FAILED);
	assert_int_equal(mr_reg(t->pd, t->at, 2 * PAGE, 0, access, &t->mr), 0);
	t->key = t->mr->ibv.rkey;
	assert_int_equal(mprotect(t->at, 2 * PAGE, PROT_READ), 0);
}

static void end(struct t *t)
{
	assert_int_equal(faults, 0);
	assert_int_equal(mr_dereg(t->mr), 0);
	assert_int_equal(pd_free(t->pd), 0);
	munmap(t->at, 2 * PAGE);
	core_fini(&t->core);
}

/* Writes before, behind and into the protected page. */
static void protected_memory_is_written(void **state)
{
	uint8_t data[300];
	struct t t;

	(void)state;
	begin(&t, ACCESS);
	memset(data, 0x5a, sizeof(data));
	assert_int_equal(mr_write(&t.core, t.key, t.at + 10, data, 300), 0);
	assert_memory_equal(t.at + 10, data, 300);
	assert_int_equal(mprotect(t.at, PAGE, PROT_READ | PROT_WRITE), 0);
	assert_int_equal(mr_write(&t.core, t.key, t.at + PAGE - 100, data, 300), 0);
	assert_memory_equal(t.at + PAGE - 100, data, 300);
	assert_int_equal(mr_write(&t.core, t.key, t.at, data, 0), 0);
	end(&t);
}

static void what_is_gone_is_not(void **state)
{
	uint8_t data[300] = { 0 };
	uint64_t orig = 7;
	struct t t;

	(void)state;
	begin(&t, ACCESS);
	munmap(t.at + PAGE, PAGE);
	assert_int_equal(mr_write(&t.core, t.key, t.at + PAGE, data, 300), -EFAULT);
	assert_int_equal(mr_write(&t.core, t.key, t.at + PAGE - 100, data, 300), -EFAULT);
	assert_int_equal(mr_fetch_add(&t.core, t.key, (uint64_t *)(void *)(t.at + PAGE),
				      1, &orig),
			 -EFAULT);
	assert_int_equal(mr_cmp_swap(&t.core, t.key, (uint64_t *)(void *)(t.at + PAGE), 0,
				     1, &orig),
			 -EFAULT);
	assert_int_equal(orig, 7);
	end(&t);
}

static void atomics(void **state)
{
	uint64_t orig, *word;
	struct t t;

	(void)state;
	begin(&t, ACCESS);
	word = (uint64_t *)(void *)(t.at + 64);
	assert_int_equal(mr_fetch_add(&t.core, t.key, word, 5, &orig), 0);
	assert_int_equal(orig, 0);
	assert_int_equal(mr_fetch_add(&t.core, t.key, word, UINT64_MAX, &orig), 0);
	assert_int_equal(orig, 5);
	assert_int_equal(*word, 4);
	assert_int_equal(mr_cmp_swap(&t.core, t.key, word, 5, 9, &orig), 0);
	assert_int_equal(orig, 4);
	assert_int_equal(*word, 4);
	assert_int_equal(mr_cmp_swap(&t.core, t.key, word, 4, 9, &orig), 0);
	assert_int_equal(orig, 4);
	assert_int_equal(*word, 9);
	end(&t);
}

/* A region for on-demand paging is not written: an adapter would have to ask the kernel
 * for the page. */
static void not_on_demand(void **state)
{
	uint8_t data[8] = { 0 };
	uint64_t orig;
	struct t t;

	(void)state;
	begin(&t, ACCESS | IBV_ACCESS_ON_DEMAND);
	assert_int_equal(mr_write(&t.core, t.key, t.at, data, 8), -EFAULT);
	assert_int_equal(mr_fetch_add(&t.core, t.key, (uint64_t *)(void *)t.at, 1, &orig),
			 -EFAULT);
	end(&t);
}

static void through_a_window(void **state)
{
	struct ibv_mw_bind_info info;
	uint8_t data[8] = "written";
	uint32_t rkey;
	struct mw *mw;
	struct t t;

	(void)state;
	begin(&t, ACCESS | IBV_ACCESS_MW_BIND);
	info = (struct ibv_mw_bind_info){
		.mr = &t.mr->ibv,
		.addr = 0,
		.length = PAGE,
		.mw_access_flags = IBV_ACCESS_REMOTE_WRITE,
	};
	assert_int_equal(mw_alloc(t.pd, IBV_MW_TYPE_2, &mw), 0);
	rkey = (mw->ibv.rkey & ~0xffu) | ((mw->ibv.rkey + 1) & 0xff);
	turn_is_held(&t.core);
	assert_int_equal(mw_bind(&t.core, rkey, mw->ibv.handle, IBV_MW_TYPE_2, 1, t.pd,
				 &info),
			 IBV_WC_SUCCESS);
	assert_int_equal(mr_write(&t.core, rkey, t.at, data, 8), 0);
	assert_memory_equal(t.at, data, 8);
	assert_int_equal(mw_dealloc(mw), 0);
	end(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(protected_memory_is_written),
		cmocka_unit_test(what_is_gone_is_not),
		cmocka_unit_test(atomics),
		cmocka_unit_test(not_on_demand),
		cmocka_unit_test(through_a_window),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
