/* SPDX-License-Identifier: BSD-2-Clause */
/* The peers of a datagram socket, and how long their QPs are known. */
#include "rsocket/dgpeer.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/os.h"
#include "rsocket/rsocket.h"
#include "sys/sockaddr.h"

static struct rsock_dgram *dg;
static int fd;

static int begin(void **state)
{
	fix_begin(state);
	fd = rsocket_open(AF_INET, SOCK_DGRAM, 0);
	assert_true(fd >= 0);
	dg = rsock_dgram_of(fix_sock(fd));
	dg->sock.opt.sizes.rq = 4;
	return 0;
}

static int end(void **state)
{
	assert_int_equal(rsocket_close(fd), 0);
	return fix_end(state);
}

static struct rsock_dgpeer *peer(uint8_t host, uint16_t port)
{
	struct sockaddr_in a = fix_addr(host, port);
	struct rsock_dgpeer *p;

	assert_int_equal(rsock_dgpeer_for(dg, (struct sockaddr *)&a, &p), 0);
	return p;
}

static void one_for_each_address(void **state)
{
	struct rsock_dgpeer *p = peer(1, 7);

	(void)state;
	assert_ptr_equal(peer(1, 7), p);
	assert_ptr_not_equal(peer(1, 8), p);
	assert_ptr_not_equal(peer(2, 7), p);
	assert_int_equal(dg->npeers, 3);
	assert_int_equal(fix.qps, 1); /* all from our one address */
}

static void it_is_known_for_a_second(void **state)
{
	struct rsock_dgpeer *p = peer(1, 7);

	(void)state;
	assert_false(rsock_dgpeer_known(p));
	rsock_dgpeer_learn(p, 5);
	assert_true(rsock_dgpeer_known(p));
	fix.now += RSOCK_S;
	assert_false(rsock_dgpeer_known(p));
	rsock_dgpeer_learn(p, 6);
	assert_true(rsock_dgpeer_known(p));
	assert_int_equal(p->qpn, 6);
	assert_int_equal(fix.ahs, 1);
	rsock_dgpeer_learn(p, 0); /* QPN 0: the peer has no QP */
	assert_false(rsock_dgpeer_known(p));
}

static void a_message_says_that_it_is_there(void **state)
{
	struct rsock_dgpeer *p = peer(1, 7), *other = peer(1, 8);
	struct rsock_dgmsg m = { .port = 7 };

	(void)state;
	memcpy(m.ip, p->ip, 16);
	rsock_dgpeer_learn(p, 5);
	rsock_dgpeer_learn(other, 5);
	fix.now += RSOCK_S / 2;
	rsock_dgpeer_heard(dg, &m);
	fix.now += RSOCK_S / 2;
	assert_true(rsock_dgpeer_known(p));
	assert_false(rsock_dgpeer_known(other));
}

static void without_an_address_handle_it_goes_by_udp(void **state)
{
	struct rsock_dgpeer *p = peer(1, 7);

	(void)state;
	fix_fail(1);
	rsock_dgpeer_learn(p, 5);
	assert_false(rsock_dgpeer_known(p));
	rsock_dgpeer_learn(p, 5);
	assert_true(rsock_dgpeer_known(p));
}

/* The peer that was quiet for longest is forgotten, but not the one that we are connected
 * to. */
static void only_so_many_are_remembered(void **state)
{
	struct rsock_dgpeer *first = peer(1, 1), *second = peer(1, 2);

	(void)state;
	dg->peer = first;
	for (uint16_t i = 3; i <= RSOCK_PEERS_MAX; i++)
		peer(1, i);
	assert_int_equal(dg->npeers, RSOCK_PEERS_MAX);
	peer(1, 3); /* used again, so 2 is the oldest */
	assert_int_equal(second->port, 2);
	peer(1, RSOCK_PEERS_MAX + 1);
	assert_int_equal(dg->npeers, RSOCK_PEERS_MAX);
	list_for(n, &dg->peers)
		assert_int_not_equal(container_of(n, struct rsock_dgpeer, node)->port, 2);
	assert_ptr_equal(peer(1, 1), first);
}

static void what_cannot_be_made(void **state)
{
	struct sockaddr_in a = fix_addr(1, 7);
	struct rsock_dgpeer *p;

	(void)state;
	fix_fail(1);
	assert_int_equal(rsock_dgpeer_for(dg, (struct sockaddr *)&a, &p), -ENODEV);
	assert_int_equal(dg->npeers, 0);
}

int main(void)
{
	/* clang-format off */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(one_for_each_address, begin, end),
		cmocka_unit_test_setup_teardown(it_is_known_for_a_second, begin, end),
		cmocka_unit_test_setup_teardown(a_message_says_that_it_is_there, begin, end),
		cmocka_unit_test_setup_teardown(without_an_address_handle_it_goes_by_udp,
						begin, end),
		cmocka_unit_test_setup_teardown(only_so_many_are_remembered, begin, end),
		cmocka_unit_test_setup_teardown(what_cannot_be_made, begin, end),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
