/* SPDX-License-Identifier: BSD-2-Clause */
#include "abi/abi.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* A field that is no operation, or one that is never called. */
static bool is_other(size_t at)
{
	return at == offsetof(struct verbs_context, priv) ||
	       at == offsetof(struct verbs_context, ABI_placeholder1) ||
	       at == offsetof(struct verbs_context, ABI_placeholder2);
}

static void *word(const struct verbs_context *v, size_t at)
{
	void *p;

	memcpy(&p, (const char *)v + at, sizeof(p));
	return p;
}

static void fills_every_operation(void **state)
{
	/* What newer headers have in front of it, functions of the library call. */
	const size_t first = offsetof(struct verbs_context, query_port);
	const size_t ops = offsetof(struct verbs_context, context.ops);
	struct verbs_context v;

	(void)state;
	memset(&v, 0, sizeof(v));
	abi_ops_none(&v);
	for (size_t at = 0; at < offsetof(struct verbs_context, _ABI_placeholder3);
	     at += sizeof(void *))
		if (at < first || is_other(at))
			assert_null(word(&v, at));
		else
			assert_non_null(word(&v, at));
	for (size_t at = 0; at < sizeof(struct ibv_context_ops); at += sizeof(void *))
		assert_non_null(word(&v, ops + at));
	assert_int_equal(v.sz, 0);
	assert_null(v.context.device);
	assert_int_equal(v.context.cmd_fd, 0);
}

static void each_answers_in_its_way(void **state)
{
	struct verbs_context v;

	(void)state;
	abi_ops_none(&v);
	errno = 0;
	assert_int_equal(v.advise_mr(NULL, 0, 0, NULL, 0), EOPNOTSUPP);
	assert_int_equal(errno, EOPNOTSUPP);
	errno = 0;
	assert_null(v.alloc_dm(NULL, NULL));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_int_equal(v.context.ops.poll_cq(NULL, 1, NULL), -EOPNOTSUPP);
	assert_null(v.context.ops.alloc_mw(NULL, IBV_MW_TYPE_1));
	assert_int_equal(v.context.ops.post_send(NULL, NULL, NULL), EOPNOTSUPP);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fills_every_operation),
		cmocka_unit_test(each_answers_in_its_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
