/* SPDX-License-Identifier: BSD-2-Clause */
/* The service thread's turns, one by one and in virtual time. */
#include "rsocket/service_thread.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/os.h"

static int events, ticks, freed;
static bool over;
static enum rsock_after after;

static enum rsock_after on_event(struct rsock *rs, struct rdma_cm_event *ev)
{
	(void)rs;
	(void)ev;
	events++;
	return after;
}

static void on_tick(struct rsock *rs)
{
	(void)rs;
	ticks++;
}

static bool is_over(struct rsock *rs)
{
	(void)rs;
	return over;
}

static void on_free(struct rsock *rs)
{
	freed++;
	rsock_fini(rs);
}

static const struct rsock_kind kind = {
	.event = on_event,
	.tick = on_tick,
	.is_over = is_over,
	.free = on_free,
};
static const struct rsock_kind quiet = { .free = on_free };

static struct rsock *make(const struct rsock_kind *k)
{
	struct rsock *rs = malloc(sizeof(*rs));

	assert_non_null(rs);
	rsock_init(rs, k, AF_INET, SOCK_STREAM);
	return rs;
}

static int begin(void **state)
{
	fix_begin(state);
	events = ticks = freed = 0;
	over = false;
	after = RSOCK_AFTER_NOTHING;
	return 0;
}

static void what_cannot_be_made(void **state)
{
	struct rdma_event_channel *ch = NULL;

	(void)state;
	for (unsigned i = 1; i <= 2; i++) { /* 1: the channel fails, 2: the thread */
		fix_fail(i);
		assert_int_equal(rsock_service(&ch), -ENOMEM);
		assert_null(ch);
	}
	assert_int_equal(rsock_service(&ch), 0);
	assert_non_null(ch);
	assert_true(fix.thread);
}

static struct rdma_cm_id *id_of(struct rsock *rs)
{
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;

	assert_int_equal(rsock_service(&ch), 0);
	assert_int_equal(rdma_create_id(ch, &id, rs, RDMA_PS_TCP), 0);
	return id;
}

static void an_event_goes_to_its_socket(void **state)
{
	struct rsock *rs = make(&kind);
	struct rdma_cm_id *id = id_of(rs);

	(void)state;
	fix_tell_all(RDMA_CM_EVENT_ESTABLISHED, 0);
	fix_service();
	assert_int_equal(events, 1);
	after = RSOCK_AFTER_DESTROY_ID;
	fix_tell_all(RDMA_CM_EVENT_ESTABLISHED, 0);
	fix_service();
	assert_int_equal(fix.ids, 0);
	id = id_of(rs);
	after = RSOCK_AFTER_PUT;
	fix_tell_all(RDMA_CM_EVENT_REJECTED, 0);
	fix_service();
	assert_int_equal(events, 3);
	assert_int_equal(freed, 1);
	rdma_destroy_id(id);
}

static void a_tick_every_second(void **state)
{
	struct rsock *rs = make(&kind), *other = make(&quiet);

	(void)state;
	assert_true(rsock_entry_publish(&rs->entry) >= 0);
	assert_true(rsock_entry_publish(&other->entry) >= 0);
	rsock_service_keep_alive();
	rsock_service_keep_alive();
	assert_int_equal(rsock_service_turn(RSOCK_FOREVER), 0); /* it was kicked */
	ticks = 0;
	for (int i = 1; i <= 5; i++) {
		assert_int_equal(rsock_service_turn(RSOCK_FOREVER), 0);
		assert_int_equal(ticks, i);
	}
	rsock_put(rsock_of(rsock_entry_withdraw(rs->entry.fd)));
	rsock_put(rsock_of(rsock_entry_withdraw(other->entry.fd)));
	assert_int_equal(freed, 2);
}

static void closed_ones_are_put_when_they_are_over(void **state)
{
	uint64_t begun;

	(void)state;
	rsock_service_close(make(&kind));
	rsock_service_close(make(&kind));
	assert_int_equal(rsock_service_turn(RSOCK_FOREVER), 0); /* it was kicked */
	begun = fix.now;
	assert_int_equal(rsock_service_turn(RSOCK_FOREVER), 0);
	assert_in_range(fix.now - begun, 5 * RSOCK_MS, 6 * RSOCK_MS);
	assert_int_equal(freed, 0);
	over = true;
	assert_int_equal(rsock_service_turn(RSOCK_FOREVER), 0);
	assert_int_equal(freed, 2);
}

/* The child makes a channel of its own, and sockets that its parent closes are not
 * its. */
static void after_a_fork(void **state)
{
	struct rdma_event_channel *ch, *own = NULL;
	struct rsock *rs = make(&kind);
	int status;
	pid_t pid;

	(void)state;
	assert_int_equal(rsock_service(&ch), 0);
	rsock_service_close(rs);
	pid = fork();
	if (!pid) {
		rsock_service_forked();
		over = true;
		fix.thread = false;
		if (rsock_service(&own) || own == ch || !fix.thread)
			_exit(1);
		_exit(rsock_service_turn(0) || freed);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	over = true;
	fix_service();
	assert_int_equal(freed, 1);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_cannot_be_made, begin, fix_end),
		cmocka_unit_test_setup_teardown(an_event_goes_to_its_socket, begin, fix_end),
		cmocka_unit_test_setup_teardown(a_tick_every_second, begin, fix_end),
		cmocka_unit_test_setup_teardown(closed_ones_are_put_when_they_are_over,
						begin, fix_end),
		cmocka_unit_test_setup_teardown(after_a_fork, begin, fix_end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
