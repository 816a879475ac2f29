/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of what other processes see of regions and QPs, and when. */
#include "verbs/exports.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "verbs/mr.h"

/* A key with this index, of the first 65,536 keys that the process allocates. */
#define KEY(index) ((EXPORT_MRS + (uint32_t)(index)) << 8)

static struct core core;
static struct pd pd = { .ibv.handle = 77 };

static int open_exports(void **state)
{
	(void)state;
	core.exports = mmap(NULL, sizeof(*core.exports), PROT_READ | PROT_WRITE,
			    MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(core.exports, MAP_FAILED);
	for (uint16_t i = 0; i < MKEY_EXPORT_PAGES; i++)
		core.mkeys.exported[i] = (uint16_t)(MKEY_EXPORT_PAGES + i);
	return 0;
}

static int close_exports(void **state)
{
	(void)state;
	munmap(core.exports, sizeof(*core.exports));
	core.exports = NULL;
	return 0;
}

/* An entry with n in all of its fields. */
static struct mkey numbered(uint32_t key, uint64_t n)
{
	return (struct mkey){
		.key = key,
		.access = (int)n,
		.pd = &pd,
		.base = n,
		.length = n,
		.host = (uint8_t *)(uintptr_t)n,
	};
}

static void a_region_is_there_until_it_goes(void **state)
{
	struct mkey mk = numbered(KEY(5) | 1, 9);
	struct exported_mr got;

	(void)state;
	assert_true(exports_get_mr(core.exports, mk.key, &got));
	assert_int_equal(got.key, 0);
	exports_put_mr(&core, &mk);
	assert_true(exports_get_mr(core.exports, mk.key, &got));
	assert_int_equal(got.key, mk.key);
	assert_int_equal(got.pd, 77);
	assert_int_equal(got.access, 9);
	assert_int_equal(got.base, 9);
	assert_int_equal(got.length, 9);
	assert_int_equal(got.host, 9);
	/* Another key with the same place in the table. */
	exports_del_mr(&core, KEY(5) | 2);
	assert_true(exports_get_mr(core.exports, mk.key, &got));
	assert_int_equal(got.key, mk.key);
	exports_del_mr(&core, mk.key);
	assert_true(exports_get_mr(core.exports, mk.key, &got));
	assert_int_equal(got.key, 0);
}

static void keys_beyond_the_export_table_are_not_in_it(void **state)
{
	struct mkey last = numbered(KEY(EXPORT_MRS - 1), 1);
	struct mkey beyond = numbered(KEY(EXPORT_MRS), 1), first = beyond;
	struct exported_mr got;

	(void)state;
	exports_put_mr(&core, &last);
	assert_true(exports_get_mr(core.exports, last.key, &got));
	assert_int_equal(got.key, last.key);
	exports_put_mr(&core, &beyond);
	assert_true(exports_get_mr(core.exports, beyond.key, &got));
	assert_int_equal(got.key, 0);
	/* Keys beyond the table neither overwrite nor remove the entry whose place
	 * theirs would be. */
	first.key = KEY(0);
	exports_put_mr(&core, &first);
	exports_put_mr(&core, &beyond);
	exports_del_mr(&core, beyond.key);
	assert_true(exports_get_mr(core.exports, beyond.key, &got));
	assert_int_equal(got.key, first.key);
}

static void a_qp_is_found_by_its_number(void **state)
{
	const struct exported_qp qp = {
		.open = 1,
		.pd = 2,
		.access = 3,
		.dest_qp = 4,
		.path = 5,
		.reads = 6,
	};
	struct exported_qp got;

	(void)state;
	exports_put_qp(&core, 0x12 << QPN_INDEX_BITS | 7, &qp);
	assert_true(exports_get_qp(core.exports, 0x12 << QPN_INDEX_BITS | 7, &got));
	got.version = 0;
	assert_memory_equal(&got, &qp, sizeof(qp));
	assert_true(exports_get_qp(core.exports, 0x12 << QPN_INDEX_BITS | 8, &got));
	assert_int_equal(got.open, 0);
}

static void what_is_changing_is_not_read(void **state)
{
	struct exported_qp qp;
	struct exported_mr mr;

	(void)state;
	core.exports->mr[3].version++;
	assert_false(exports_get_mr(core.exports, KEY(3), &mr));
	core.exports->mr[3].version++;
	assert_true(exports_get_mr(core.exports, KEY(3), &mr));
	core.exports->qp[3].version++;
	assert_false(exports_get_qp(core.exports, 3, &qp));
	core.exports->qp[3].version++;
	assert_true(exports_get_qp(core.exports, 3, &qp));
}

static void without_an_export_table_nothing_happens(void **state)
{
	struct exports *exports = core.exports;
	struct mkey mk = numbered(KEY(1), 1);

	(void)state;
	core.exports = NULL;
	exports_put_mr(&core, &mk);
	exports_del_mr(&core, mk.key);
	exports_put_qp(&core, 1, &(struct exported_qp){ .open = 1 });
	core.exports = exports;
}

static _Noreturn void change_for_ever(uint32_t key)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint64_t n = 1;; n++) {
		struct mkey mk = numbered(key, n & 0xffffff);

		exports_put_mr(&core, &mk);
		if (n % 7 == 0)
			exports_del_mr(&core, key);
	}
}

/* While one process changes an entry, a reader in another sees only whole entries. */
static void nobody_reads_half_a_change(void **state)
{
	const uint32_t key = KEY(4) | 1;
	unsigned seen = 0, other = 0;
	uint64_t last = 0;
	pid_t child = fork();

	(void)state;
	if (child == 0)
		change_for_ever(key);
	for (long i = 0; i < 200000000 && (i < 300000 || other < 1000); i++) {
		struct exported_mr e;

		if (!exports_get_mr(core.exports, key, &e) || e.key != key)
			continue;
		seen++;
		other += e.base != last;
		last = e.base;
		assert_int_equal(e.access, e.base);
		assert_int_equal(e.length, e.base);
		assert_int_equal(e.host, e.base);
	}
	kill(child, SIGKILL);
	waitpid(child, NULL, 0);
	assert_true(seen > 0 && other > 0);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_region_is_there_until_it_goes, open_exports,
						close_exports),
		cmocka_unit_test_setup_teardown(keys_beyond_the_export_table_are_not_in_it, open_exports,
						close_exports),
		cmocka_unit_test_setup_teardown(a_qp_is_found_by_its_number, open_exports,
						close_exports),
		cmocka_unit_test_setup_teardown(what_is_changing_is_not_read, open_exports,
						close_exports),
		cmocka_unit_test_setup_teardown(without_an_export_table_nothing_happens, open_exports,
						close_exports),
		cmocka_unit_test_setup_teardown(nobody_reads_half_a_change, open_exports,
						close_exports),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
