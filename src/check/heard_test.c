/* SPDX-License-Identifier: BSD-2-Clause */
/* heard_test.c - peers that write to memory unseen. */
#include "check/heard.h"

#include "check/fix.h"
#include "verbs/mr.h"

enum { KEY = 77, LEN = 256 };

static uint8_t at[4096];
static struct mr mr;
static struct check_unseen unseen;
static uint64_t id;

static struct check_unseen look(void)
{
	return unseen;
}

/* Inline, so that each call is a place of its own. */
static inline __attribute__((always_inline)) void post(void)
{
	const struct ibv_sge sge = { (uintptr_t)at, LEN, KEY };

	assert_int_equal(fix_post(IBV_WR_SEND, ++id, sge, IBV_SEND_SIGNALED), 0);
}

static void reap(void)
{
	fix_reap(id, IBV_WC_SEND, IBV_WC_SUCCESS);
}

#define FINDS(call) FIX_FINDS("buffer-changed", call)

static void who_wrote_may_have_answered(void **state)
{
	(void)state;
	post();
	unseen.times++;
	at[0]++;
	FIX_FINDS_NOTHING(reap());
	unseen.times++;
	post(); /* of which nobody could know */
	at[0]++;
	FINDS(reap());
}

static void who_is_writing(void **state)
{
	(void)state;
	unseen.now = true;
	post();
	unseen.now = false;
	at[0]++;
	FIX_FINDS_NOTHING(reap());
	post();
	at[0]++;
	FINDS(reap());
}

/* When a peer writes to what it maps is not known. */
static void memory_that_is_mapped(void **state)
{
	(void)state;
	unseen.lent = true;
	unseen.times++;
	post();
	at[0]++;
	FINDS(reap());
	mr.mkey.access = IBV_ACCESS_REMOTE_WRITE;
	post();
	at[0]++;
	FIX_FINDS_NOTHING(reap());
	mr.mkey.access = 0;
}

static void numbers_differ(void **state)
{
	uint64_t was = heard_post();

	(void)state;
	for (int i = 0; i < 1000; i++) {
		const uint64_t number = heard_post();

		assert_true(number == was + 1 && heard_newest() == number);
		was = number;
	}
	heard_look();
	assert_true(heard_newest() == was);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_wrote_may_have_answered),
		cmocka_unit_test(who_is_writing),
		cmocka_unit_test(memory_that_is_mapped),
		cmocka_unit_test(numbers_differ),
	};

	fix_open("buffer-changed");
	checks_unseen = look;
	mr.mkey = (struct mkey){
		.key = KEY, .base = (uintptr_t)at, .length = sizeof(at), .host = at
	};
	object_made(&mr.live, LIVE_MR);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
