/* SPDX-License-Identifier: BSD-2-Clause */
/* UD QPs and peers of a datagram socket: slots, headers, strangers. */
#include "rsocket/dgqp.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/format.h"
#include "rsocket/os.h"
#include "rsocket/rsocket.h"
#include "sys/sockaddr.h"

/* --- QPs ----------------------------------------------------------------- */

static const struct rsock_kind kind = { 0 };
static const uint8_t one[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
static const uint8_t two[16] = { [10] = 0xff, 0xff, 10, 0, 0, 2 };
static struct rsock_dgram *dg;
static struct rsock_dgqp *qp_a, *qp_b;
static struct rsock_dgpeer to_b;

static int begin(void **state)
{
	fix_begin(state);
	dg = calloc(1, sizeof(*dg));
	rsock_init(&dg->sock, &kind, AF_INET, SOCK_DGRAM);
	dg->sock.opt.sizes.rq = 4;
	list_init(&dg->qps);
	list_init(&dg->peers);
	list_init(&dg->msgs);
	dg->ep = epoll_create1(0);
	assert_int_equal(rsock_dgqp_for(dg, one, 0, &qp_a), 0);
	assert_int_equal(rsock_dgqp_for(dg, two, 0, &qp_b), 0);
	to_b = (struct rsock_dgpeer){ .qpn = qp_b->qp->qp_num };
	to_b.ah = ibv_create_ah(qp_a->port.pd,
				&(struct ibv_ah_attr){
					.is_global = 1,
					.grh.dgid.raw = {
						[10] = 0xff, 0xff, 10, 0, 0, 2 } });
	return 0;
}

static void drop_messages(void)
{
	list_for_safe(n, &dg->msgs)
	{
		struct rsock_dgmsg *m = container_of(n, struct rsock_dgmsg, node);

		list_del(n);
		rsock_dgqp_receive(m->qp, m->slot);
		free(m);
	}
}

static int end(void **state)
{
	drop_messages();
	ibv_destroy_ah(to_b.ah);
	rsock_dgqp_free(qp_a);
	rsock_dgqp_free(qp_b);
	close(dg->ep);
	rsock_fini(&dg->sock);
	return fix_end(state);
}

/* Sends from qp_a (127.0.0.1) a datagram whose header names ip as the sender. */
static int send_as(const uint8_t ip[16], const char *text, uint32_t len)
{
	struct rs_ud h = { .port = 7 };
	uint8_t header[RS_HEADER_MAX], *at;
	int slot = rsock_dgqp_slot(qp_a);
	size_t n;

	assert_true(slot >= 0);
	memcpy(h.ip, ip, 16);
	n = rs_ud_pack(&h, header);
	at = rsock_dgqp_memory(qp_a, (uint32_t)slot);
	memcpy(at, header, n);
	memcpy(at + n, text, len);
	return rsock_dgqp_send(qp_a, &to_b, (uint32_t)slot, (uint32_t)n + len);
}

static int queued(void)
{
	int n = 0;

	list_for(at, &dg->msgs) n++;
	return n;
}

static void one_qp_for_each_address(void **state)
{
	struct rsock_dgqp *again;

	(void)state;
	assert_ptr_not_equal(qp_a, qp_b);
	assert_int_equal(rsock_dgqp_for(dg, two, 0, &again), 0);
	assert_ptr_equal(again, qp_b);
	assert_int_equal(fix.qps, 2);
	assert_int_equal(qp_a->qp->state, IBV_QPS_RTS);
	assert_int_equal(qp_a->mtu, 1024);
}

static void a_message_lies_in_its_slot(void **state)
{
	struct rsock_dgmsg *m;

	(void)state;
	assert_int_equal(send_as(one, "hello", 5), 0);
	assert_true(rsock_dgqp_progress(qp_b));
	assert_int_equal(queued(), 1);
	m = container_of(dg->msgs.next, struct rsock_dgmsg, node);
	assert_int_equal(m->len, 5);
	assert_memory_equal(m->data, "hello", 5);
	assert_int_equal(m->port, 7);
	assert_memory_equal(m->ip, one, 16);
	assert_ptr_equal(m->qp, qp_b);
	assert_false(rsock_dgqp_progress(qp_b));
	assert_true(rsock_dgqp_progress(qp_a)); /* the slot is free again */
	assert_true(qp_a->free_slots == ~0ull);
}

/* Headers with another sender's address, too short, and with another address of 127/8. */
static void a_sender_that_lies(void **state)
{
	(void)state;
	for (int i = 0; i < 20; i++) { /* more often than there are receives */
		assert_int_equal(send_as(two, "lie", 3), 0);
		rsock_dgqp_progress(qp_b);
		rsock_dgqp_progress(qp_a);
	}
	assert_int_equal(queued(), 0);
	assert_int_equal(send_as((const uint8_t[16]){ [10] = 0xff, 0xff, 127, 9, 9, 9 },
				 "ours", 4),
			 0);
	rsock_dgqp_progress(qp_b);
	assert_int_equal(queued(), 1);
}

static void garbage(void **state)
{
	(void)state;
	for (uint32_t len = 1; len < 64; len++) {
		int slot = rsock_dgqp_slot(qp_a);
		uint8_t *at = rsock_dgqp_memory(qp_a, (uint32_t)slot);

		for (uint32_t i = 0; i < len; i++)
			at[i] = (uint8_t)(len * 31 + i * 17);
		at[0] = 5; /* an invalid IP version */
		assert_int_equal(rsock_dgqp_send(qp_a, &to_b, (uint32_t)slot, len), 0);
		rsock_dgqp_progress(qp_b);
		rsock_dgqp_progress(qp_a);
	}
	assert_int_equal(queued(), 0);
}

static void a_connected_socket_takes_its_peers(void **state)
{
	struct rsock_dgpeer peer = { .port = 8 };

	(void)state;
	memcpy(peer.ip, one, 16);
	dg->peer = &peer;
	assert_int_equal(send_as(one, "x", 1), 0);
	rsock_dgqp_progress(qp_b);
	assert_int_equal(queued(), 0);
	peer.port = 7;
	assert_int_equal(send_as(one, "x", 1), 0);
	rsock_dgqp_progress(qp_b);
	assert_int_equal(queued(), 1);
}

static void more_than_there_are_receives(void **state)
{
	(void)state;
	for (int i = 0; i < 10; i++)
		assert_int_equal(send_as(one, "x", 1), 0);
	rsock_dgqp_progress(qp_b);
	assert_int_equal(queued(), 4); /* the others are lost */
	drop_messages();
	assert_int_equal(send_as(one, "x", 1), 0);
	rsock_dgqp_progress(qp_b);
	assert_int_equal(queued(), 1);
}

static void slots_run_out_and_drain(void **state)
{
	uint64_t begun;

	(void)state;
	fix.hold = true;
	for (int i = 0; i < RSOCK_DG_SLOTS; i++)
		assert_int_equal(send_as(one, "x", 1), 0);
	assert_int_equal(rsock_dgqp_slot(qp_a), -1);
	rsock_dgqp_arm(qp_a);
	assert_true(qp_a->armed_r && qp_a->armed_s);
	begun = fix.now;
	rsock_dgqp_drain(qp_a);
	assert_in_range(fix.now - begun, 100 * RSOCK_MS, 101 * RSOCK_MS);
	fix.hold = false;
	rsock_dgqp_drain(qp_a);
	assert_true(qp_a->free_slots == ~0ull);
	assert_true(rsock_dgqp_progress(qp_a)); /* handles the event */
	assert_false(qp_a->armed_s);
}

static void a_qp_that_failed(void **state)
{
	(void)state;
	fix_lose(IBV_WC_LOC_QP_OP_ERR);
	rsock_dgqp_progress(qp_b); /* flushed: no messages */
	assert_false(rsock_dgqp_progress(qp_b));
	assert_int_equal(queued(), 0);
}

static void what_cannot_be_made_leaves_nothing(void **state)
{
	static const uint8_t three[16] = { [10] = 0xff, 0xff, 10, 0, 0, 3 };
	struct rsock_dgqp *q;
	int rc = -1;

	(void)state;
	for (unsigned n = 1; rc && n < 20; n++) {
		fix_fail(n);
		rc = rsock_dgqp_for(dg, three, 0, &q);
		assert_true(rc == 0 || (fix.qps == 2 && fix.cqs == 4 && fix.mrs == 2));
	}
	assert_int_equal(rc, 0);
	fix.fail = 0;
	rsock_dgqp_free(q);
}

/* --- peers --------------------------------------------------------------- */

static int fd;

static int begin_peers(void **state)
{
	fix_begin(state);
	fd = rsocket_open(AF_INET, SOCK_DGRAM, 0);
	assert_true(fd >= 0);
	dg = rsock_dgram_of(fix_sock(fd));
	dg->sock.opt.sizes.rq = 4;
	return 0;
}

static int end_peers(void **state)
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
		cmocka_unit_test_setup_teardown(one_qp_for_each_address, begin, end),
		cmocka_unit_test_setup_teardown(a_message_lies_in_its_slot, begin, end),
		cmocka_unit_test_setup_teardown(a_sender_that_lies, begin, end),
		cmocka_unit_test_setup_teardown(garbage, begin, end),
		cmocka_unit_test_setup_teardown(a_connected_socket_takes_its_peers, begin,
						end),
		cmocka_unit_test_setup_teardown(more_than_there_are_receives, begin, end),
		cmocka_unit_test_setup_teardown(slots_run_out_and_drain, begin, end),
		cmocka_unit_test_setup_teardown(a_qp_that_failed, begin, end),
		cmocka_unit_test_setup_teardown(what_cannot_be_made_leaves_nothing, begin,
						end),
		cmocka_unit_test_setup_teardown(one_for_each_address, begin_peers, end_peers),
		cmocka_unit_test_setup_teardown(it_is_known_for_a_second, begin_peers, end_peers),
		cmocka_unit_test_setup_teardown(a_message_says_that_it_is_there, begin_peers, end_peers),
		cmocka_unit_test_setup_teardown(without_an_address_handle_it_goes_by_udp,
						begin_peers, end_peers),
		cmocka_unit_test_setup_teardown(only_so_many_are_remembered, begin_peers, end_peers),
		cmocka_unit_test_setup_teardown(what_cannot_be_made, begin_peers, end_peers),
	};
	/* clang-format on */

	return cmocka_run_group_tests(tests, NULL, NULL);
}
