/* SPDX-License-Identifier: BSD-2-Clause */
/* between_test.c - requests of different processes in this process's memory. */
#include "check/fix.h"

enum { WRITE = IBV_ACCESS_REMOTE_WRITE, READ = IBV_ACCESS_REMOTE_READ };
enum { ATOMIC = IBV_ACCESS_REMOTE_ATOMIC, FIRST = 1 << 14, SECOND = 2 << 14 };

static uint8_t memory[256];

static void reach(uint32_t qpn, int how, unsigned at, unsigned len, uint64_t posted)
{
	checks->reaches(&(struct check_access){ .host = memory + at,
						.va = at,
						.len = len,
						.posted = posted,
						.qpn = qpn,
						.pid = (pid_t)(qpn >> 14),
						.how = how });
}

/* Times before and after all that happens here */
static const uint64_t early = 1, late = UINT64_MAX;

#define FINDS(call) FIX_FINDS("one-sided-race", call)

static void both_were_posted(void **state)
{
	(void)state;
	FIX_FINDS_NOTHING(reach(FIRST, WRITE, 0, 64, early));
	FINDS(reach(SECOND, READ, 63, 8, early));
	assert_non_null(strstr(fix.log,
			       "the READ of QP 0x008000, process 2, of 8 bytes at "
			       "0x3f"));
	assert_non_null(strstr(fix.log,
			       "meets the WRITE of QP 0x004000, process 1, of 64 "
			       "bytes at 0x0"));
	FINDS(reach(SECOND, ATOMIC, 8, 8, early));
}

static void the_first_was_executed(void **state)
{
	(void)state;
	reach(FIRST, WRITE, 0, 64, late);
	FIX_FINDS_NOTHING(reach(SECOND, WRITE, 0, 64, late));
}

static void who_does_not_say_when(void **state)
{
	(void)state;
	FIX_FINDS_NOTHING(reach(SECOND, WRITE, 128, 8, 0));
	FINDS(reach(FIRST, WRITE, 128, 8, early));
}

static void what_never_meets(void **state)
{
	(void)state;
	reach(FIRST, WRITE, 200, 8, early);
	FIX_FINDS_NOTHING(reach(FIRST + 1, WRITE, 200, 8, early)); /* one process */
	FIX_FINDS_NOTHING(reach(SECOND, WRITE, 208, 8, early));
	reach(FIRST, READ, 216, 8, early);
	FIX_FINDS_NOTHING(reach(SECOND, READ, 216, 8, early));
	FIX_FINDS_NOTHING(reach(SECOND, ATOMIC, 216, 8, early));
	reach(FIRST, ATOMIC, 224, 8, early);
	FIX_FINDS_NOTHING(reach(SECOND, ATOMIC, 224, 8, early));
	reach(FIRST, IBV_ACCESS_FLUSH_GLOBAL, 232, 8, early);
	FIX_FINDS_NOTHING(reach(SECOND, WRITE, 232, 8, early));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_were_posted),
		cmocka_unit_test(the_first_was_executed),
		cmocka_unit_test(who_does_not_say_when),
		cmocka_unit_test(what_never_meets),
	};

	fix_open("one-sided-race");
	return cmocka_run_group_tests(tests, NULL, NULL);
}
