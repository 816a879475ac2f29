/* SPDX-License-Identifier: BSD-2-Clause */
/* unseen_test.c - what peers count before they write. */
#include "direct/unseen.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "direct/direct.h"
#include "sys/checks.h"

static struct direct direct;
static struct reach reach;

static int begin(void **state)
{
	(void)state;
	list_init(&direct.reaches);
	reach_init(&reach, &direct, 1);
	return 0;
}

static bool has_changed(void)
{
	static uint64_t was;
	const uint64_t times = checks_unseen().times;
	const bool changed = times != was;

	was = times;
	return changed;
}

static void copies_by_the_kernel(void **state)
{
	(void)state;
	assert_true(gate_open(&reach.gate));
	has_changed();
	assert_false(has_changed());
	reach.gate.page->counts.begun = 1;
	assert_true(has_changed());
	assert_true(checks_unseen().now);
	reach.gate.page->counts.ended = 1;
	assert_false(checks_unseen().now);
	assert_false(has_changed());
	gate_end(&reach, false); /* shut: the page cannot be looked at */
	assert_true(checks_unseen().now);
	reach_close(&reach);
	assert_false(checks_unseen().now);
	assert_true(has_changed());
}

static void copies_to_mapped_memory(void **state)
{
	struct exports *b = mmap(NULL, sizeof(*b), PROT_READ | PROT_WRITE,
				 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(b, MAP_FAILED);
	reach.exports = b;
	b->lines = 2;
	has_changed();
	atomic_fetch_add(&b->thread[1].entries, 1); /* maps nothing of this process */
	assert_false(has_changed());
	assert_false(checks_unseen().lent);
	unseen_exports(&reach.gate.unseen, b);
	assert_true(checks_unseen().lent);
	assert_true(has_changed());
	atomic_fetch_add(&b->thread[1].entries, 1);
	assert_true(has_changed());
	atomic_fetch_add(&b->thread[2].entries, 1); /* no thread has that line */
	assert_false(has_changed());
	b->lines = UINT32_MAX; /* a peer may write anything there */
	assert_true(has_changed());
	atomic_fetch_add(&b->thread[EXPORT_THREADS - 1].entries, 1);
	assert_true(has_changed());
	reach_close(&reach);
	assert_true(checks_unseen().lent); /* for ever: mappings may outlive it */
	assert_true(has_changed());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup(copies_by_the_kernel, begin),
		cmocka_unit_test_setup(copies_to_mapped_memory, begin),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
