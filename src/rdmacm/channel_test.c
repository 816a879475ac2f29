/* SPDX-License-Identifier: BSD-2-Clause */
/* Events of a channel wait, are read, taken back and moved. */
#include "rdmacm/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include <cmocka.h>
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

#include "rdmacm/fix.h"
#include "sys/held.h"

static struct cma_event *put(struct cma_source *s)
{
	struct cma_event *e = calloc(1, sizeof(*e));

	assert_non_null(e);
	assert_int_equal(cma_put(s, e), 0);
	return e;
}

static bool readable(struct cma_channel *ch)
{
	struct pollfd p = { .fd = ch->ch.fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void take_all(struct cma_channel *ch, unsigned n)
{
	struct cma_event *e;

	for (; n; n--) {
		assert_true(readable(ch));
		e = cma_take(ch);
		assert_non_null(e);
		cma_looked_at(e);
		cma_done(e);
	}
	assert_false(readable(ch));
	assert_null(cma_take(ch));
}

static void in_the_order_they_came(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_source s;
	struct cma_event *first, *second;

	(void)state;
	cma_source_open(&s, ch);
	assert_null(cma_take(ch));
	first = put(&s);
	second = put(&s);
	assert_true(readable(ch));
	assert_ptr_equal(cma_take(ch), first);
	assert_true(readable(ch));
	assert_ptr_equal(cma_take(ch), second);
	assert_false(readable(ch));
	assert_int_equal(s.busy, 2);
	cma_looked_at(first);
	cma_looked_at(second);
	assert_int_equal(s.busy, 0);
	cma_done(second);
	cma_done(first);
	cma_wait_acked(&s);
	cma_source_close(&s);
	cma_channel_free(ch);
}

static void a_stopped_source_takes_none(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_source s, other;
	struct list unread;

	(void)state;
	cma_source_open(&s, ch);
	cma_source_open(&other, ch);
	put(&s);
	put(&other);
	put(&s);
	list_init(&unread);
	cma_source_stop(&s, &unread);
	for (int i = 0; i < 2; i++) {
		struct cma_event *e = container_of(unread.next, struct cma_event, node);

		assert_false(list_empty(&unread));
		list_del(&e->node);
		free(e);
	}
	assert_true(list_empty(&unread));
	assert_int_equal(cma_put(&s, calloc(1, sizeof(struct cma_event))), -ECANCELED);
	take_all(ch, 1); /* events of the other id */
	cma_channel_free(ch);
}

static void those_of_one_group_go(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	/* Any pointer serves as a group. */
	struct cma_group *group = (struct cma_group *)ch;
	struct cma_source s;
	struct cma_event *e;
	struct list unread;

	(void)state;
	cma_source_open(&s, ch);
	put(&s);
	e = put(&s);
	e->group = group;
	list_init(&unread);
	cma_take_back(&s, group, &unread);
	assert_ptr_equal(unread.next, &e->node);
	assert_ptr_equal(e->node.next, &unread);
	free(e);
	take_all(ch, 1);
	cma_channel_free(ch);
}

static void what_waits_moves_along(void **state)
{
	struct cma_channel *from = cma_channel_new(), *to = cma_channel_new();
	struct cma_source s, other;

	(void)state;
	cma_source_open(&s, from);
	cma_source_open(&other, from);
	put(&s);
	put(&other);
	put(&s);
	cma_source_move(&s, to);
	put(&s);
	take_all(to, 3);
	take_all(from, 1);
	cma_channel_free(from);
	cma_channel_free(to);
}

static void waiting_ends(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	struct cma_source s;

	(void)state;
	cma_source_open(&s, ch);
	put(&s);
	assert_true(cma_channel_has(ch));
	assert_int_equal(cma_channel_wait(ch), 0);
	take_all(ch, 1);
	assert_false(cma_channel_has(ch));
	assert_int_equal(cma_channel_blocks(ch), 0);
	assert_int_equal(fcntl(ch->ch.fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(cma_channel_blocks(ch), -EAGAIN);
	cma_channel_free(ch);
	assert_true(cma_channel_has(ch)); /* nothing to wait for any more */
}

/* The other process of a fork has taken an event's token, or left its own. */
static void tokens_that_are_too_many_go(void **state)
{
	struct cma_channel *ch = cma_channel_new();

	(void)state;
	assert_int_equal(eventfd_write(ch->ch.fd, 2), 0);
	assert_null(cma_take(ch));
	assert_null(cma_take(ch));
	assert_false(readable(ch));
	cma_channel_free(ch);
}

/* AddressSanitizer does not see that the frames of a cancelled thread are gone. */
static void forget_frames(void *arg)
{
	(void)arg;
#ifdef __SANITIZE_ADDRESS__
	enum { BELOW = 16384, ABOVE = 1024 };
	char here;

	__asan_unpoison_memory_region((void *)((uintptr_t)&here - BELOW), BELOW + ABOVE);
#endif
}

static void *waits(void *arg)
{
	pthread_cleanup_push(forget_frames, NULL);
	held_begin();
	held_begin();
	cma_channel_wait(arg);
	pthread_cleanup_pop(0);
	return arg;
}

/* Only the wait can be cancelled, however many calls are nested. */
static void only_the_wait_can_be_cancelled(void **state)
{
	struct cma_channel *ch = cma_channel_new();
	pthread_t t;
	void *end;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, waits, ch), 0);
	assert_int_equal(pthread_cancel(t), 0);
	assert_int_equal(pthread_join(t, &end), 0);
	assert_ptr_equal(end, PTHREAD_CANCELED);
	cma_channel_free(ch);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(in_the_order_they_came, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(a_stopped_source_takes_none, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(those_of_one_group_go, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(what_waits_moves_along, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(waiting_ends, fix_begin, fix_end),
		cmocka_unit_test_setup_teardown(tokens_that_are_too_many_go, fix_begin,
						fix_end),
		cmocka_unit_test_setup_teardown(only_the_wait_can_be_cancelled, fix_begin,
						fix_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
