/* SPDX-License-Identifier: BSD-2-Clause */
/* What other processes may know of regions and QPs, and when. */
#include "core/board.h"

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

#include "core/mr.h"

/* A key with this index, of the first 65,536 that the process took. */
#define KEY(index) ((BOARD_MRS + (uint32_t)(index)) << 8)

static struct core core;
static struct pd pd = { .ibv.handle = 77 };

static int open_board(void **state)
{
	(void)state;
	core.board = mmap(NULL, sizeof(*core.board), PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(core.board, MAP_FAILED);
	for (uint16_t i = 0; i < MKEY_BOARD_PAGES; i++)
		core.mkey_board[i] = (uint16_t)(MKEY_BOARD_PAGES + i);
	return 0;
}

static int close_board(void **state)
{
	(void)state;
	munmap(core.board, sizeof(*core.board));
	core.board = NULL;
	return 0;
}

/* All of its fields say n. */
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
	struct board_mr got;

	(void)state;
	assert_true(board_get_mr(core.board, mk.key, &got));
	assert_int_equal(got.key, 0);
	board_put_mr(&core, &mk);
	assert_true(board_get_mr(core.board, mk.key, &got));
	assert_int_equal(got.key, mk.key);
	assert_int_equal(got.pd, 77);
	assert_int_equal(got.access, 9);
	assert_int_equal(got.base, 9);
	assert_int_equal(got.length, 9);
	assert_int_equal(got.host, 9);
	board_del_mr(&core, KEY(5) | 2); /* another in its place */
	assert_true(board_get_mr(core.board, mk.key, &got));
	assert_int_equal(got.key, mk.key);
	board_del_mr(&core, mk.key);
	assert_true(board_get_mr(core.board, mk.key, &got));
	assert_int_equal(got.key, 0);
}

static void keys_beyond_the_board_are_not_on_it(void **state)
{
	struct mkey last = numbered(KEY(BOARD_MRS - 1), 1);
	struct mkey beyond = numbered(KEY(BOARD_MRS), 1), first = beyond;
	struct board_mr got;

	(void)state;
	board_put_mr(&core, &last);
	assert_true(board_get_mr(core.board, last.key, &got));
	assert_int_equal(got.key, last.key);
	board_put_mr(&core, &beyond);
	assert_true(board_get_mr(core.board, beyond.key, &got));
	assert_int_equal(got.key, 0);
	/* Nor do they spoil what has the place that would be theirs. */
	first.key = KEY(0);
	board_put_mr(&core, &first);
	board_put_mr(&core, &beyond);
	board_del_mr(&core, beyond.key);
	assert_true(board_get_mr(core.board, beyond.key, &got));
	assert_int_equal(got.key, first.key);
}

static void a_qp_is_found_by_its_number(void **state)
{
	const struct board_qp qp = {
		.open = 1,
		.pd = 2,
		.access = 3,
		.dest_qp = 4,
		.path = 5,
		.reads = 6,
		.executed = 7,
	};
	struct board_qp got;

	(void)state;
	board_put_qp(&core, 0x12 << QPN_INDEX_BITS | 7, &qp);
	assert_true(board_get_qp(core.board, 0x12 << QPN_INDEX_BITS | 7, &got));
	got.version = 0;
	assert_memory_equal(&got, &qp, sizeof(qp));
	board_set_executed(&core, 7, 8); /* no change of the entry */
	assert_int_equal(board_get_executed(core.board, 7), 8);
	assert_true(board_get_qp(core.board, 7, &got));
	assert_int_equal(got.version, 2);
	assert_int_equal(board_get_executed(core.board, 8), 0);
	assert_true(board_get_qp(core.board, 0x12 << QPN_INDEX_BITS | 8, &got));
	assert_int_equal(got.open, 0);
}

static void what_is_changing_is_not_read(void **state)
{
	struct board_qp qp;
	struct board_mr mr;

	(void)state;
	core.board->mr[3].version++;
	assert_false(board_get_mr(core.board, KEY(3), &mr));
	core.board->mr[3].version++;
	assert_true(board_get_mr(core.board, KEY(3), &mr));
	core.board->qp[3].version++;
	assert_false(board_get_qp(core.board, 3, &qp));
	core.board->qp[3].version++;
	assert_true(board_get_qp(core.board, 3, &qp));
}

static void without_a_board_nothing_happens(void **state)
{
	struct board *board = core.board;
	struct mkey mk = numbered(KEY(1), 1);

	(void)state;
	core.board = NULL;
	board_put_mr(&core, &mk);
	board_del_mr(&core, mk.key);
	board_put_qp(&core, 1, &(struct board_qp){ .open = 1 });
	board_set_executed(&core, 1, 5);
	core.board = board;
}

static _Noreturn void change_for_ever(uint32_t key)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint64_t n = 1;; n++) {
		struct mkey mk = numbered(key, n & 0xffffff);

		board_put_mr(&core, &mk);
		if (n % 7 == 0)
			board_del_mr(&core, key);
	}
}

/* Another process reads while it changes: one change or the other, whole. */
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
		struct board_mr e;

		if (!board_get_mr(core.board, key, &e) || e.key != key)
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
		cmocka_unit_test_setup_teardown(a_region_is_there_until_it_goes, open_board,
						close_board),
		cmocka_unit_test_setup_teardown(keys_beyond_the_board_are_not_on_it, open_board,
						close_board),
		cmocka_unit_test_setup_teardown(a_qp_is_found_by_its_number, open_board,
						close_board),
		cmocka_unit_test_setup_teardown(what_is_changing_is_not_read, open_board,
						close_board),
		cmocka_unit_test_setup_teardown(without_a_board_nothing_happens, open_board,
						close_board),
		cmocka_unit_test_setup_teardown(nobody_reads_half_a_change, open_board,
						close_board),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
