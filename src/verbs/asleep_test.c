/* SPDX-License-Identifier: BSD-2-Clause */
/* A thread that sleeps in ibv_get_cq_event() while completions wait has a line of the
 * log; one that may be woken, or whose completions others take, has none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/log_testing.h"
#include "verbs/asleep.h"
#include "verbs/cq.h"
#include "verbs/test_ctx.h"

static struct test_ctx t;
static struct channel *ch;
static struct cq *cq[2];
static char text[1024];

static void open_two(void)
{
	test_open(&t);
	assert_int_equal(channel_create(&t.ctx, &ch), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(cq_create(&t.ctx, 8, ch, NULL, &cq[i]), 0);
}

static void close_two(void)
{
	for (int i = 0; i < 2; i++) {
		cq_ack_all(cq[i]);
		assert_int_equal(cq_destroy(cq[i]), 0);
	}
	assert_int_equal(channel_destroy(ch), 0);
	test_close(&t);
}

static void push(struct cq *to)
{
	const struct cqe e = { .qp_num = 7 };

	assert_true(cq_push(to, &e, false));
}

static void poll_one(struct cq *from)
{
	struct ibv_wc wc;

	assert_int_equal(cq_poll(from, 1, &wc), 1);
}

static bool sleeps(void)
{
	return asleep_begin(ch);
}

/* The engine looks when it should next.  Returns whether the log has these words. */
static bool looks(const char *words)
{
	const uint64_t at = source_at(&t.core.asleep);

	assert_true(at != NEVER);
	LOGGED(text, "warn", asleep_source(&t.core)->ops->run(&t.core.asleep, at));
	return words ? strstr(text, words) != NULL : text[0] == '\0';
}

static bool is_watched(void)
{
	return source_at(&t.core.asleep) != NEVER;
}

static void a_queue_that_was_never_armed(void **state)
{
	char want[64];

	(void)state;
	open_two();
	push(cq[0]);
	push(cq[0]);
	assert_true(sleeps());
	assert_true(
		looks("while 2 entries wait to be polled; the queue was never armed: "));
	snprintf(want, sizeof(want), "completion queue %u: for 1 s ", cq[0]->ex.handle);
	assert_non_null(strstr(text, want));
	assert_false(is_watched());
	close_two();
}

static void entries_that_come_while_it_sleeps(void **state)
{
	uint64_t first;

	(void)state;
	open_two();
	assert_true(sleeps());
	first = source_at(&t.core.asleep);
	assert_true(looks(NULL));
	assert_int_equal(source_at(&t.core.asleep), first + 2000000000);
	push(cq[1]);
	first = source_at(&t.core.asleep);
	assert_true(looks(NULL));
	assert_int_equal(source_at(&t.core.asleep), first + 1000000000);
	assert_true(
		looks("while 1 entries wait to be polled; the queue was never armed: "));
	close_two();
}

static void an_arm_that_came_before_the_last_event(void **state)
{
	(void)state;
	open_two();
	cq_arm(cq[0], false);
	push(cq[0]);
	assert_ptr_equal(channel_pop(ch), cq[0]);
	poll_one(cq[0]);
	push(cq[0]);
	assert_true(sleeps());
	assert_true(
		looks("the queue is not armed: arm it (ibv_req_notify_cq), then poll"));
	close_two();
}

/* The completion of a SEND waits, too, in a queue that is not armed ever. */
static void the_queue_that_was_armed_is_named(void **state)
{
	char want[64];

	(void)state;
	for (int armed = 0; armed < 2; armed++) {
		open_two();
		cq_arm(cq[armed], false);
		push(cq[armed]);
		assert_ptr_equal(channel_pop(ch), cq[armed]);
		poll_one(cq[armed]);
		push(cq[1 - armed]);
		assert_true(sleeps());
		push(cq[armed]);
		assert_true(looks(NULL));
		snprintf(want, sizeof(want), "completion queue %u: for 1 s ",
			 cq[armed]->ex.handle);
		assert_true(looks(want));
		close_two();
	}
}

/* It arms and waits, but does not poll: the next event comes for the next entry. */
static void an_event_that_was_not_followed_by_a_poll(void **state)
{
	(void)state;
	open_two();
	cq_arm(cq[0], false);
	push(cq[0]);
	assert_ptr_equal(channel_pop(ch), cq[0]);
	cq_arm(cq[0], false);
	assert_true(sleeps());
	assert_true(looks("the queue has raised its event for them: "));
	close_two();
}

static void entries_that_are_not_solicited(void **state)
{
	(void)state;
	open_two();
	cq_arm(cq[0], true);
	assert_true(sleeps());
	push(cq[0]);
	assert_true(looks(NULL));
	assert_true(looks("the queue is armed for solicited entries only: "));
	close_two();
}

/* Events for solicited entries have come: the program leaves the others until then. */
static void entries_before_one_that_is_solicited(void **state)
{
	const struct cqe e = { .qp_num = 7 };

	(void)state;
	open_two();
	for (int i = 0; i < 2; i++) {
		cq_arm(cq[0], true);
		assert_true(sleeps());
		push(cq[0]);
		assert_true(looks(NULL));
		if (i == 1) /* longer than another program's queue would be left */
			assert_true(looks(NULL));
		assert_true(cq_push(cq[0], &e, true));
		asleep_end(ch);
		assert_ptr_equal(channel_pop(ch), cq[0]);
		poll_one(cq[0]);
		poll_one(cq[0]);
	}
	close_two();
}

static void a_good_program_is_not_looked_at(void **state)
{
	(void)state;
	open_two();
	for (int i = 0; i < 3; i++) {
		cq_arm(cq[0], false);
		assert_false(sleeps());
		push(cq[0]);
		asleep_end(ch);
		assert_ptr_equal(channel_pop(ch), cq[0]);
		cq_arm(cq[0], false);
		poll_one(cq[0]);
	}
	/* Arms late; but the event comes at once. */
	push(cq[0]);
	cq_arm(cq[0], false);
	assert_false(sleeps());
	assert_false(is_watched());
	assert_ptr_equal(channel_pop(ch), cq[0]);
	close_two();
}

static void completions_of_sends_may_wait(void **state)
{
	(void)state;
	open_two();
	push(cq[0]);
	cq_arm(cq[1], false);
	assert_false(sleeps());
	asleep_end(ch);
	push(cq[1]);
	assert_ptr_equal(channel_pop(ch), cq[1]);
	poll_one(cq[1]);
	cq_arm(cq[1], true);
	assert_true(sleeps());
	for (int i = 0; i < 5; i++)
		assert_true(looks(NULL));
	assert_true(is_watched());
	close_two();
}

static void a_thread_that_wakes_is_left_alone(void **state)
{
	(void)state;
	open_two();
	push(cq[0]);
	assert_true(sleeps());
	asleep_end(ch);
	assert_true(looks(NULL));
	assert_false(is_watched());
	/* It wakes, polls and sleeps again, each time within the second. */
	assert_true(sleeps());
	for (int i = 0; i < 3; i++) {
		asleep_end(ch);
		poll_one(cq[0]);
		push(cq[0]);
		sleeps();
		assert_true(looks(NULL));
	}
	/* Somebody arms. */
	poll_one(cq[0]);
	cq_arm(cq[0], false);
	assert_true(looks(NULL));
	assert_false(is_watched());
	close_two();
}

/* An event has come by the time of the look, or another thread polls or waits. */
static void others_may_take_the_entries(void **state)
{
	(void)state;
	open_two();
	push(cq[0]);
	atomic_store(&cq[0]->armer, pthread_self() + 1);
	assert_true(sleeps());
	assert_true(looks(NULL));
	atomic_store(&cq[0]->armer, pthread_self());
	atomic_store(&cq[0]->taker, pthread_self() + 1);
	assert_true(looks(NULL));
	atomic_store(&cq[0]->taker, 0);
	cq_arm(cq[0], false);
	assert_true(looks(NULL));
	assert_false(is_watched());
	assert_ptr_equal(channel_pop(ch), cq[0]);
	asleep_end(ch);
	ch->asleep.who = pthread_self() + 1;
	assert_false(sleeps());
	assert_false(is_watched());
	close_two();
}

/* The program destroys the channel, and cancels its thread after that. By then the memory
 * may be something else's. */
static void a_channel_that_is_gone_is_not_touched(void **state)
{
	struct channel *memory = malloc(sizeof(*memory)), was;

	(void)state;
	assert_non_null(memory);
	memset(memory, 0x55, sizeof(*memory));
	memcpy(&was, memory, sizeof(was));
	asleep_end(memory);
	assert_memory_equal(memory, &was, sizeof(was));
	free(memory);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_queue_that_was_never_armed),
		cmocka_unit_test(entries_that_come_while_it_sleeps),
		cmocka_unit_test(an_arm_that_came_before_the_last_event),
		cmocka_unit_test(the_queue_that_was_armed_is_named),
		cmocka_unit_test(an_event_that_was_not_followed_by_a_poll),
		cmocka_unit_test(entries_that_are_not_solicited),
		cmocka_unit_test(entries_before_one_that_is_solicited),
		cmocka_unit_test(a_good_program_is_not_looked_at),
		cmocka_unit_test(completions_of_sends_may_wait),
		cmocka_unit_test(a_thread_that_wakes_is_left_alone),
		cmocka_unit_test(others_may_take_the_entries),
		cmocka_unit_test(a_channel_that_is_gone_is_not_touched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
