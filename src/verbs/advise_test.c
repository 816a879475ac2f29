/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <sys/mman.h>

#include "verbs/core.h"
#include "verbs/mr.h"

enum {
	PAGE = 4096,
	PAGES = 8,
	ODP = IBV_ACCESS_ON_DEMAND,
	WRITE = IBV_ACCESS_LOCAL_WRITE,
	FLUSH = IBV_ADVISE_MR_FLAG_FLUSH,
};

#define READ_IT	 IBV_ADVISE_MR_ADVICE_PREFETCH
#define WRITE_IT IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE
#define AS_IT_IS IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT

static struct core core;
static struct pd *pd, *other;
static uint8_t *mem;

static void begin(void)
{
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(pd_alloc(&core, NULL, &pd), 0);
	assert_int_equal(pd_alloc(&core, NULL, &other), 0);
	mem = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	assert_int_equal(madvise(mem, PAGES * PAGE, MADV_NOHUGEPAGE), 0);
}

static void end(void)
{
	assert_int_equal(munmap(mem, PAGES * PAGE), 0);
	assert_int_equal(pd_free(pd), 0);
	assert_int_equal(pd_free(other), 0);
	core_fini(&core);
}

static struct mr *reg(int access)
{
	struct mr *mr;

	assert_int_equal(mr_reg(pd, mem, PAGES * PAGE, (uintptr_t)mem, access, &mr), 0);
	return mr;
}

static int advise(struct pd *of, int advice, uint32_t flags, uint32_t lkey, size_t at,
		  uint32_t length)
{
	struct ibv_sge sge = { (uintptr_t)mem + at, length, lkey };

	return mr_advise(of, (enum ibv_advise_mr_advice)advice, flags, &sge, 1);
}

static unsigned present(void)
{
	unsigned char there[PAGES];
	unsigned n = 0;

	assert_int_equal(mincore(mem, PAGES * PAGE, there), 0);
	for (unsigned i = 0; i < PAGES; i++)
		n += there[i] & 1;
	return n;
}

static void pages_come(void **state)
{
	struct mr *mr;

	(void)state;
	begin();
	mr = reg(ODP | WRITE);
	assert_int_equal(present(), 0);
	assert_int_equal(advise(pd, AS_IT_IS, FLUSH, mr->ibv.lkey, 0, PAGE), 0);
	assert_int_equal(present(), 0);
	assert_int_equal(advise(pd, WRITE_IT, FLUSH, mr->ibv.lkey, PAGE - 1, 2), 0);
	assert_int_equal(present(), 2);
	assert_int_equal(advise(pd, READ_IT, FLUSH, mr->ibv.lkey, 0, PAGES * PAGE), 0);
	assert_int_equal(present(), PAGES);
	assert_int_equal(advise(pd, WRITE_IT, 0, mr->ibv.lkey, 0, PAGE), 0);
	assert_int_equal(advise(pd, WRITE_IT, FLUSH, mr->ibv.lkey, 0, 0), 0);
	assert_int_equal(mr_dereg(mr), 0);
	end();
}

static void what_is_refused(void **state)
{
	struct mr *odp, *reader, *pinned;

	(void)state;
	begin();
	odp = reg(ODP | WRITE);
	reader = reg(ODP);
	pinned = reg(WRITE);
	assert_int_equal(advise(pd, 3, FLUSH, odp->ibv.lkey, 0, 8), -EOPNOTSUPP);
	assert_int_equal(advise(pd, -1, FLUSH, odp->ibv.lkey, 0, 8), -EOPNOTSUPP);
	assert_int_equal(advise(pd, READ_IT, 2, odp->ibv.lkey, 0, 8), -EINVAL);
	assert_int_equal(mr_advise(pd, READ_IT, 0, NULL, 1), -EINVAL);
	assert_int_equal(mr_advise(pd, READ_IT, 0, &(struct ibv_sge){ 0 }, 0), -EINVAL);
	assert_int_equal(advise(pd, READ_IT, 0, odp->ibv.lkey + 1, 0, 8), -ENOENT);
	assert_int_equal(advise(other, READ_IT, 0, odp->ibv.lkey, 0, 8), -EPERM);
	assert_int_equal(advise(pd, WRITE_IT, 0, reader->ibv.lkey, 0, 8), -EPERM);
	assert_int_equal(advise(pd, READ_IT, 0, pinned->ibv.lkey, 0, 8), -EINVAL);
	assert_int_equal(advise(pd, READ_IT, 0, odp->ibv.lkey, PAGES * PAGE - 7, 8),
			 -EFAULT);
	/* Advice for memory that was unmapped: only calls that wait get an error. */
	assert_int_equal(munmap(mem + PAGE, PAGE), 0);
	assert_int_equal(advise(pd, READ_IT, FLUSH, odp->ibv.lkey, 0, 2 * PAGE), -EFAULT);
	assert_int_equal(advise(pd, READ_IT, 0, odp->ibv.lkey, 0, 2 * PAGE), 0);
	assert_int_equal(mr_dereg(odp), 0);
	assert_int_equal(mr_dereg(reader), 0);
	assert_int_equal(mr_dereg(pinned), 0);
	end();
}

/* Advice for memory whose protection forbids what is advised. */
static void protected_memory_is_refused(void **state)
{
	struct mr *mr;

	(void)state;
	begin();
	mr = reg(ODP | WRITE);
	assert_int_equal(mprotect(mem + PAGE, PAGE, PROT_READ), 0);
	assert_int_equal(advise(pd, WRITE_IT, FLUSH, mr->ibv.lkey, 0, 2 * PAGE), -EPERM);
	assert_int_equal(advise(pd, READ_IT, FLUSH, mr->ibv.lkey, 0, 2 * PAGE), 0);
	assert_int_equal(advise(pd, WRITE_IT, 0, mr->ibv.lkey, 0, 2 * PAGE), 0);
	assert_int_equal(mprotect(mem + PAGE, PAGE, PROT_NONE), 0);
	assert_int_equal(advise(pd, WRITE_IT, FLUSH, mr->ibv.lkey, 0, 2 * PAGE), -EFAULT);
	assert_int_equal(advise(pd, READ_IT, FLUSH, mr->ibv.lkey, 0, 2 * PAGE), -EFAULT);
	assert_int_equal(mr_dereg(mr), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pages_come),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(protected_memory_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
