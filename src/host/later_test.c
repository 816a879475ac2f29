/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams for services whose sender cannot be judged yet. The owner of each slot is
 * this process. A sender is this process under another user, as after setuid(); it can
 * be judged once the owner has answered. */
#include <sys/socket.h>

#include "host/fix.h"
#include "host/host.h"
#include "host/host_own.h"
#include "host/name.h"
#include "sys/clock.h"

enum { MS = 1000000, EACH = 16, ALL = 64, SENDERS = 5 };

static const struct msg_proof proof = { { 1, 2, 3 } };

struct owner {
	uint16_t slot;
	/* connection on which the owner is asked; -1: it was not asked */
	int listener, fd;
};

static struct side a;
static struct owner one, other;

static void make_owner(struct owner *o, uint16_t slot)
{
	o->slot = host_slot(a.host) == slot ? (uint16_t)(slot + 100) : slot;
	o->listener = name_listen(o->slot);
	o->fd = -1;
	assert_true(o->listener >= 0);
}

static int set_up(void **state)
{
	(void)state;
	need_netns();
	begin(&a);
	make_owner(&one, 9);
	make_owner(&other, 10);
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	host_close(a.host);
	close(one.fd);
	close(one.listener);
	close(other.fd);
	close(other.listener);
	return 0;
}

/* The first connection asks who has the slot and is closed; the second asks for the
 * proof. */
static void answer(struct owner *o)
{
	struct sent_hello hello;

	close(accept(o->listener, NULL, NULL));
	o->fd = accept(o->listener, NULL, NULL);
	put_proved(&hello, o->slot, &proof);
	assert_int_equal(send(o->fd, &hello, sizeof(hello), MSG_NOSIGNAL), sizeof(hello));
}

/* len bytes arrive from the n-th other user's process, which claims slot. */
static void comes_from(unsigned n, uint16_t slot, uint32_t len)
{
	struct {
		struct msg_hello hello;
		struct msg_dgram head;
		uint8_t data[16];
	} m;
	struct dgram d = { .ip_id = -1, .len = len, .iovcnt = 1 };

	assert_true(len <= sizeof(m.data));
	d.one = (struct iovec){ m.data, len };
	d.iov = &d.one;
	msg_put_hello(&m.hello, slot, &proof);
	msg_put_dgram(&m.head, &d);
	host_take_dgram(a.host, geteuid() + n, getpid(), &m,
			offsetof(__typeof__(m), data) + len);
}

static void comes(uint16_t slot, uint32_t len)
{
	comes_from(1, slot, len);
}

static uint16_t slot_of_nobody(void)
{
	return host_slot(a.host) == 30 ? 31 : 30;
}

static void expect(unsigned got, uint32_t last, uint64_t refused)
{
	assert_int_equal(a.got, got);
	assert_int_equal(a.last.len, last);
	assert_int_equal(host_stats(a.host)->refused, refused);
}

/* A datagram that could be judged at once waits behind its sender's earlier ones; a
 * refused one does not delay those behind it. */
static void test_they_keep_their_order(void **state)
{
	(void)state;
	comes(other.slot, 1);
	answer(&other);
	run(&a);
	expect(1, 1, 0);
	comes(one.slot, 2);
	comes(other.slot, 3);
	comes(one.slot, 4);
	comes(slot_of_nobody(), 5);
	comes(other.slot, 6);
	for (int i = 0; i < 3; i++)
		run_next(&a);
	host_judge_soon(a.host);
	run(&a);
	expect(1, 1, 0);
	comes_from(2, other.slot, 7); /* not behind another user's */
	expect(2, 7, 0);
	answer(&one);
	run(&a);
	expect(6, 6, 1);
	assert_true(list_empty(&a.host->waiting));
}

/* The owner's answer ends the wait, however long the interval has become. */
static void test_an_answer_is_not_waited_for(void **state)
{
	(void)state;
	comes(one.slot, 1);
	while (a.host->alarm_at < clock_ns() + 40 * MS)
		run_next(&a);
	assert_true(host_has_alarm(a.host));
	answer(&one);
	run(&a);
	expect(1, 1, 0);
}

/* A look caused by some other owner's answer does not count as a try; otherwise tries
 * would run out before the owner can answer. */
static void test_answers_of_others_are_no_tries(void **state)
{
	uint64_t start = clock_ns();

	(void)state;
	comes(one.slot, 1);
	/* Its own tries go on meanwhile, and end it where this thread does not run. */
	for (int i = 0; i < 100 && clock_ns() - start < 100 * MS; i++) {
		host_judge_soon(a.host);
		run(&a);
		expect(0, 0, 0);
	}
	while (!list_empty(&a.host->waiting))
		run_next(&a);
	expect(0, 0, 1);
	/* 2 + 4 ... + 128 ms, at least */
	assert_true(clock_ns() - start > 250 * MS);
}

/* Limits for one user and for all together, which one user cannot fill alone. */
static void test_how_many_wait(void **state)
{
	(void)state;
	for (unsigned n = 1; n <= SENDERS; n++) {
		expect(0, 0, n - 1);
		for (int i = 0; i < EACH + 1; i++)
			comes_from(n, one.slot, 1);
	}
	expect(0, 0, SENDERS * (EACH + 1) - ALL);
	answer(&one);
	run(&a);
	expect(ALL, 1, SENDERS * (EACH + 1) - ALL);
	comes(one.slot, 2);
	expect(ALL + 1, 2, SENDERS * (EACH + 1) - ALL);
}

/* Datagrams that wait are dropped when the NIC is closed. */
static void test_they_wait_at_the_end(void **state)
{
	(void)state;
	comes(one.slot, 1);
	comes(one.slot, 2);
	assert_false(list_empty(&a.host->waiting));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_they_keep_their_order),
		TEST(test_an_answer_is_not_waited_for),
		TEST(test_answers_of_others_are_no_tries),
		TEST(test_how_many_wait),
		TEST(test_they_wait_at_the_end),
	};

	enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
