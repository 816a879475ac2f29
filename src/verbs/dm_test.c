/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/dm.h"
#include "verbs/mr.h"

enum { ZERO = IBV_ACCESS_ZERO_BASED, WRITE = IBV_ACCESS_LOCAL_WRITE };

static struct core core;
static struct pd *pd;

static void begin(void)
{
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(pd_alloc(&core, NULL, &pd), 0);
}

static void end(void)
{
	assert_int_equal(pd_free(pd), 0);
	assert_int_equal(core.counts.dm_bytes, 0);
	core_fini(&core);
}

static int alloc(size_t length, struct dm **dm)
{
	return dm_alloc(&core, NULL, &(struct ibv_alloc_dm_attr){ .length = length }, dm);
}

static struct dm *make(size_t length)
{
	struct dm *dm;

	assert_int_equal(alloc(length, &dm), 0);
	return dm;
}

static void what_is_refused(void **state)
{
	struct ibv_alloc_dm_attr a = { .length = 64, .comp_mask = 1 };
	struct dm *dm = NULL;

	(void)state;
	begin();
	assert_int_equal(dm_alloc(&core, NULL, &a, &dm), -EINVAL);
	a = (struct ibv_alloc_dm_attr){ .length = 64, .log_align_req = 40 };
	assert_int_equal(dm_alloc(&core, NULL, &a, &dm), -EINVAL);
	a.log_align_req = 13;
	assert_int_equal(dm_alloc(&core, NULL, &a, &dm), -EINVAL);
	assert_int_equal(alloc(0, &dm), -EINVAL);
	assert_int_equal(alloc(caps.max_dm + 1, &dm), -EINVAL);
	assert_int_equal(alloc(SIZE_MAX, &dm), -EINVAL);
	assert_null(dm);
	end();
}

static void there_is_so_much(void **state)
{
	struct dm *all, *more = NULL;

	(void)state;
	begin();
	all = make(caps.max_dm);
	assert_int_equal(alloc(4, &more), -ENOMEM);
	assert_int_equal(dm_free(all), 0);
	more = make(4);
	assert_int_equal(dm_free(more), 0);
	end();
}

static void copies_stay_inside(void **state)
{
	uint8_t in[16] = "0123456789abcde", out[16] = { 0 };
	struct dm *dm;

	(void)state;
	begin();
	dm = make(100);
	assert_int_equal(dm_read(out, dm, 84, 16), 0);
	assert_memory_equal(out, "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16);
	assert_int_equal(dm_write(dm, 84, in, 16), 0);
	assert_int_equal(dm_read(out, dm, 84, 16), 0);
	assert_memory_equal(out, in, 16);
	assert_int_equal(dm_write(dm, 88, in, 16), -EFAULT);
	assert_int_equal(dm_write(dm, UINT64_MAX - 3, in, 8), -EFAULT);
	assert_int_equal(dm_read(out, dm, 0, SIZE_MAX - 3), -EFAULT);
	assert_int_equal(dm_write(dm, 1, in, 4), -EINVAL);
	assert_int_equal(dm_read(out, dm, 4, 3), -EINVAL);
	assert_int_equal(dm_free(dm), 0);
	end();
}

static void a_region_of_it(void **state)
{
	struct mr *mr = NULL;
	uint8_t *host;
	struct dm *dm;

	(void)state;
	begin();
	dm = make(100);
	assert_int_equal(dm_reg(pd, dm, 0, 100, WRITE, &mr), -EINVAL);
	assert_int_equal(dm_reg(pd, dm, 0, 101, ZERO | WRITE, &mr), -EINVAL);
	assert_int_equal(dm_reg(pd, dm, UINT64_MAX, 2, ZERO | WRITE, &mr), -EINVAL);
	assert_int_equal(dm_reg(pd, dm, 0, 8, ZERO | IBV_ACCESS_ON_DEMAND, &mr), -EINVAL);
	assert_int_equal(dm_reg(pd, dm, 0, 8, ZERO | IBV_ACCESS_REMOTE_WRITE, &mr),
			 -EINVAL);
	assert_null(mr);
	assert_int_equal(dm_reg(pd, dm, 8, 16, ZERO | WRITE, &mr), 0);
	assert_null(mr->ibv.addr);
	assert_int_equal(mr_check(&core, mr->ibv.lkey, pd, 0, 4, 12, WRITE, &host),
			 MR_OK);
	assert_ptr_equal(host, dm->host + 12);
	assert_int_equal(mr_check(&core, mr->ibv.lkey, pd, 0, 4, 13, WRITE, &host),
			 MR_RANGE);
	assert_int_equal(dm_free(dm), -EBUSY);
	/* rereg_mr can change the region's access rights, not its memory. */
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, &core, 8, 0),
			 -EINVAL);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, ZERO),
			 0);
	assert_null(mr->ibv.addr);
	assert_int_equal(mr_check(&core, mr->ibv.lkey, pd, 0, 4, 12, WRITE, &host),
			 MR_ACCESS);
	assert_int_equal(mr_dereg(mr), 0);
	assert_int_equal(dm_free(dm), 0);
	end();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(there_is_so_much),
		cmocka_unit_test(copies_stay_inside),
		cmocka_unit_test(a_region_of_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
