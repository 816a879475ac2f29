/* SPDX-License-Identifier: BSD-2-Clause */
/* The names that programs print of work requests. */
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

const char *ibv_wr_opcode_str(enum ibv_wr_opcode opcode);

static void names(void **state)
{
	static const struct {
		int opcode;
		const char *name;
	} row[] = {
		{ IBV_WR_RDMA_WRITE, "rdma-write" },
		{ IBV_WR_SEND_WITH_IMM, "send-with-imm" },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, "atomic-fetch-and-add" },
		{ IBV_WR_TSO, "tso" },
		{ IBV_WR_DRIVER1, "driver1" },
		{ 12, "unknown" },
		{ 13, "unknown" },
		{ 14, "flush" },
		{ 15, "atomic-write" },
		{ 16, "unknown" },
		{ -1, "unknown" },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++)
		assert_string_equal(ibv_wr_opcode_str((enum ibv_wr_opcode)row[i].opcode),
				    row[i].name);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(names) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
