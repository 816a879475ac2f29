/* SPDX-License-Identifier: BSD-2-Clause */
/* iWARP's connections with peers that stall, flood, hang up, or do not speak MPA. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm/iw_fix.h"

static void a_silent_peer(void **state)
{
	int fd = fx_raw_connect();

	(void)state;
	fx_run(IWC_REQUEST_NS / 2);
	assert_false(fx_raw_ended(fd));
	fx_run(IWC_REQUEST_NS);
	fx_raw_wait_end(fd);
	assert_int_equal(fx.listener.n, 0);
	close(fd);
}

static void garbage(void **state)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
	int fd = fx_raw_connect();

	(void)state;
	assert_int_equal(send(fd, http, sizeof(http), MSG_NOSIGNAL), sizeof(http));
	fx_raw_wait_end(fd);
	assert_int_equal(fx.listener.n, 0);
	assert_int_equal(cm_counter(fx.cm[1], CM_IW_GARBAGE), 1);
	close(fd);
}

/* Bytes that follow the request wait in the kernel. */
static void a_flood_behind_the_request(void **state)
{
	static uint8_t flood[65536];
	int fd = fx_raw_connect();

	(void)state;
	fx_raw_hello(fd, false, MPA_ENHANCED, 2);
	for (int i = 0; i < 100; i++)
		(void)send(fd, flood, sizeof(flood), MSG_NOSIGNAL | MSG_DONTWAIT);
	fx_take(0);
	fx_run(100 * MS);
	assert_int_equal(fx.prog[1].n, 0);
	close(fd);
}

static void many_silent_peers_make_place(void **state)
{
	enum { MANY = IWC_HALF_MAX };
	const struct rlimit lim = { 1024, 1024 };
	int *fd = calloc(MANY, sizeof(int));

	(void)state;
	(void)setrlimit(RLIMIT_NOFILE, &lim);
	for (int i = 0; i < MANY; i++) {
		fd[i] = fx_raw_connect();
		fx_run(MS);
	}
	fx_ask(fx.service.port, "me");
	fx_run(100 * MS);
	assert_int_equal(fx.listener.n, 0);
	fx_run(2 * SEC);
	fx_wait(&fx.listener, 1);
	assert_true(cm_counter(fx.cm[1], CM_IW_EVICTED) > 0);
	fx_take(0);
	for (int i = 0; i < MANY; i++)
		close(fd[i]);
	free(fd);
}

/* A flood at one listener does not reach another. */
static void a_flood_elsewhere(void **state)
{
	enum { MANY = IWC_HALF_MAX };
	const struct rlimit lim = { 1024, 1024 };
	struct cm_listener *flooded = fx.l;
	int *fd = calloc(MANY, sizeof(int));

	(void)state;
	(void)setrlimit(RLIMIT_NOFILE, &lim);
	for (int i = 0; i < MANY; i++) {
		fd[i] = fx_raw_connect();
		if (i % 16 == 15)
			fx_run(MS);
	}
	assert_int_equal(flooded->coming, MANY);
	fx.service.port = 0;
	fx_listen(4);
	fx_ask(fx.service.port, "me");
	fx_take(0);
	assert_true(fx.s->now < IWC_EVICT_NS);
	cm_unbind(fx.cm[1], flooded);
	for (int i = 0; i < MANY; i++)
		close(fd[i]);
	free(fd);
}

/* Strangers cannot use up all descriptors. */
static void no_descriptors(void **state)
{
	struct rlimit old, few;
	int silent = fx_raw_connect(), one, lowest;

	(void)state;
	fx_run(2 * SEC);
	one = fx_raw_connect();
	fx_raw_hello(one, false, MPA_ENHANCED, 2);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	lowest = dup(0);
	assert_true(lowest > 0);
	close(lowest);
	few = (struct rlimit){ (rlim_t)lowest, old.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	fx_run(MS);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(fx.listener.n, 0);
	fx_raw_wait_end(silent);
	assert_int_equal(cm_counter(fx.cm[1], CM_IW_EVICTED), 1);
	fx_take(0);
	close(silent);
	close(one);
}

static void a_peer_that_never_answers(void **state)
{
	uint16_t port;
	int l = fx_raw_listen(&port), fd;

	(void)state;
	fx_ask(port, "");
	assert_int_equal(fx_raw_accept(l, &fd), 2);
	fx_run(IWC_REPLY_NS - SEC);
	assert_int_equal(fx.prog[0].n, 0);
	fx_run(2 * SEC);
	fx_told(&fx.prog[0], 0, CM_EV_UNREACHABLE, -ETIMEDOUT);
	close(fd);
	close(l);
}

/* RFC 6581, 10 */
static void a_peer_of_revision_1(void **state)
{
	uint16_t port;
	int l = fx_raw_listen(&port), fd;

	(void)state;
	fx_ask(port, "");
	assert_int_equal(fx_raw_accept(l, &fd), 2);
	close(fd);
	for (int i = 0; i < 20; i++)
		fx_run(MS);
	assert_int_equal(fx_raw_accept(l, &fd), 1);
	fx_raw_hello(fd, true, 0, 1);
	fx_told(&fx.prog[0], 0, CM_EV_RESPONSE, 0);
	assert_int_equal(cm_counter(fx.cm[0], CM_IW_REVISION_1), 1);
	assert_int_equal(cm_iw_proto.attach(fx.conn[0], fx.s->now), 0);
	close(fd);
	fx_told(&fx.prog[0], 1, CM_EV_DISCONNECTED, 0);
	close(l);
}

/* The peer answers with its own revision while our first socket is still closing. */
static void a_reply_of_revision_1(void **state)
{
	uint16_t port;
	int l = fx_raw_listen(&fx.src_port), fd[2];

	(void)state;
	close(l);
	l = fx_raw_listen(&port);
	fx_ask(port, "");
	assert_int_equal(fx_raw_accept(l, &fd[0]), 2);
	fx_raw_hello(fd[0], true, 0, 1);
	for (int i = 0; i < 20; i++)
		fx_run(MS);
	assert_int_equal(fx_raw_accept(l, &fd[1]), 1);
	fx_raw_hello(fd[1], true, 0, 1);
	fx_told(&fx.prog[0], 0, CM_EV_RESPONSE, 0);
	for (int i = 0; i < 2; i++)
		close(fd[i]);
	close(l);
}

static void a_peer_that_hangs_up_on_both(void **state)
{
	uint16_t port;
	int l = fx_raw_listen(&port), fd;

	(void)state;
	fx_ask(port, "");
	for (int i = 2; i; i--) {
		assert_int_equal(fx_raw_accept(l, &fd), i);
		close(fd);
		for (int j = 0; j < 20; j++)
			fx_run(MS);
	}
	fx_told(&fx.prog[0], 0, CM_EV_REJECTED, -ECONNRESET);
	close(l);
}

static void a_reply_that_is_none(void **state)
{
	uint16_t port;
	int l = fx_raw_listen(&port), fd;

	(void)state;
	fx_ask(port, "");
	fx_raw_accept(l, &fd);
	fx_raw_hello(fd, false, MPA_ENHANCED, 2);
	fx_told(&fx.prog[0], 0, CM_EV_FAILED, -EPROTO);
	close(fd);
	close(l);
}

/* The QP learns that the peer has ended, so the program gets a connection and then its
 * end. */
static void the_peer_ends_before_the_qp_is_there(void **state)
{
	uint16_t port;
	int l = fx_raw_listen(&port), fd;

	(void)state;
	fx_ask(port, "");
	fx_raw_accept(l, &fd);
	fx_raw_hello(fd, true, MPA_ENHANCED, 2);
	fx_told(&fx.prog[0], 0, CM_EV_RESPONSE, 0);
	close(fd);
	fx_run(10 * MS);
	assert_int_equal(cm_iw_proto.attach(fx.conn[0], fx.s->now), 0);
	fx_told(&fx.prog[0], 1, CM_EV_DISCONNECTED, 0);
	close(l);
}

static void the_rtr_never_comes(void **state)
{
	int fd = fx_raw_connect();

	(void)state;
	fx_raw_hello(fd, false, MPA_ENHANCED, 2);
	fx_take(0);
	assert_int_equal(fx.listener.told[0].peer.resources, 3);
	assert_int_equal(fx_accept(""), 0);
	fx_run(IWC_RTR_NS / 2);
	assert_int_equal(fx.prog[1].n, 0);
	fx_run(IWC_RTR_NS);
	fx_told(&fx.prog[1], 0, CM_EV_UNREACHABLE, -ETIMEDOUT);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_fx(a_silent_peer),
		cmocka_unit_test_fx(garbage),
		cmocka_unit_test_fx(a_flood_behind_the_request),
		cmocka_unit_test_fx(many_silent_peers_make_place),
		cmocka_unit_test_fx(a_flood_elsewhere),
		cmocka_unit_test_fx(no_descriptors),
		cmocka_unit_test_fx(a_peer_that_never_answers),
		cmocka_unit_test_fx(a_peer_of_revision_1),
		cmocka_unit_test_fx(a_reply_of_revision_1),
		cmocka_unit_test_fx(a_peer_that_hangs_up_on_both),
		cmocka_unit_test_fx(a_reply_that_is_none),
		cmocka_unit_test_fx(the_peer_ends_before_the_qp_is_there),
		cmocka_unit_test_fx(the_rtr_never_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
