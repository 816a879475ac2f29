/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "verbs/core.h"
#include "verbs/mr.h"
#include "verbs/null_memory.h"

enum { WRITE = IBV_ACCESS_LOCAL_WRITE, LAST = (1u << 31) - 1 };

static struct core core;
static struct pd *pd;

static uint8_t *host_of(const struct mr *mr, uint64_t va, uint64_t len, int access)
{
	uint8_t *host = NULL;

	assert_int_equal(mr_check(&core, mr->ibv.lkey, pd, 0, va, len, access, &host),
			 MR_OK);
	return host;
}

static enum mr_why check(const struct mr *mr, uint64_t len, int access)
{
	uint8_t *host;

	return mr_check(&core, mr->ibv.lkey, pd, 0, 0, len, access, &host);
}

static void reads_zeroes_and_forgets(void **state)
{
	struct mr *mr, *second;
	uint8_t *from, *to;

	(void)state;
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(pd_alloc(&core, NULL, &pd), 0);
	assert_int_equal(null_mr_alloc(pd, &mr), 0);
	assert_int_equal(null_mr_alloc(pd, &second), 0);
	assert_null(mr->ibv.addr);
	to = host_of(mr, 0x1234, NULL_LENGTH, WRITE);
	memset(to, 'x', 4096);
	memset(to + LAST - 4095, 'x', 4096);
	from = host_of(mr, UINT64_MAX, NULL_LENGTH, 0);
	for (unsigned i = 0; i < 4096; i++)
		assert_int_equal(from[i] | from[LAST - i], 0);
	assert_int_equal(check(mr, NULL_LENGTH + 1, 0), MR_RANGE);
	assert_int_equal(check(mr, 8, IBV_ACCESS_REMOTE_READ), MR_ACCESS);
	assert_int_equal(mr_dereg(mr), 0);
	assert_ptr_equal(host_of(second, 0, 1, 0), from);
	assert_int_equal(mr_rereg(second, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
			 -EINVAL);
	assert_int_equal(mr_rereg(second, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, &core, 8,
				  0),
			 -EINVAL);
	assert_int_equal(mr_dereg(second), 0);
	assert_null(core.null.zeroes);
	assert_int_equal(pd_free(pd), 0);
	core_fini(&core);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_zeroes_and_forgets),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
