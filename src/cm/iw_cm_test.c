/* SPDX-License-Identifier: BSD-2-Clause */
/* iWARP's connections, both ends ours; and the ports that they need. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm/iw_fix.h"

/* --- both ends ----------------------------------------------------------------------------- */

static void connected_and_parted(void **state)
{
	const struct iw_told *n;

	(void)state;
	fx_connect();
	n = &fx.listener.told[0];
	assert_string_equal(n->data, "ask");
	assert_int_equal(n->peer.resources, 7);
	assert_int_equal(n->peer.depth, 5);
	n = &fx.prog[0].told[0];
	assert_string_equal(n->data, "yes");
	assert_int_equal(fx.p.qp[0]->state, IBV_QPS_RTS);
	assert_int_equal(fx.p.qp[1]->state, IBV_QPS_RTS);
	assert_int_equal(cm_iw_proto.disconnect(fx.conn[0], fx.s->now), 0);
	fx_told(&fx.prog[0], 1, CM_EV_DISCONNECTED, 0);
	fx_told(&fx.prog[1], 1, CM_EV_DISCONNECTED, 0);
	assert_int_equal(fx.p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(cm_iw_proto.disconnect(fx.conn[1], fx.s->now), 0);
	assert_int_equal(cm_iw_proto.disconnect(fx.conn[1], fx.s->now), -EINVAL);
	assert_int_equal(fx.prog[1].n, 2);
}

/* The transport says that it is over, and the id may be gone first. */
static void the_qp_fails(void **state)
{
	(void)state;
	fx_connect();
	sim_modify(fx.s, fx.p.qp[1], IBV_QPS_ERR);
	fx_told(&fx.prog[1], 1, CM_EV_DISCONNECTED, 0);
	cm_iw_proto.close(fx.conn[0], fx.s->now);
	fx.conn[0] = NULL;
	fx_run(10 * MS);
	assert_int_equal(fx.p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(fx.prog[0].n, 1);
}

static void rejected(void **state)
{
	(void)state;
	fx_ask(fx.service.port, "ask");
	fx_own(0);
	assert_int_equal(cm_iw_proto.reject(fx.conn[1], 28, "no!", 3, fx.s->now), 0);
	assert_string_equal(fx_told(&fx.prog[0], 0, CM_EV_REJECTED, -ECONNREFUSED)->data,
			    "no!");
	assert_int_equal(fx_accept(""), -EINVAL);
}

static void nobody_listens(void **state)
{
	(void)state;
	cm_unbind(fx.cm[1], fx.l);
	fx.l = NULL;
	fx_ask(fx.service.port, "");
	fx_run(20 * MS);
	assert_int_equal(fx.prog[0].n, 0);
	fx_told(&fx.prog[0], 0, CM_EV_REJECTED, -ECONNREFUSED);
}

static void somebody_listens_soon(void **state)
{
	(void)state;
	cm_unbind(fx.cm[1], fx.l);
	fx_ask(fx.service.port, "ask");
	fx_run(20 * MS);
	fx_listen(1);
	fx_own(0);
	assert_int_equal(fx_accept("yes"), 0);
	fx_told(&fx.prog[0], 0, CM_EV_RESPONSE, 0);
}

static void the_asker_leaves(void **state)
{
	(void)state;
	fx_ask(fx.service.port, "");
	fx_own(0);
	cm_iw_proto.close(fx.conn[0], fx.s->now);
	fx.conn[0] = NULL;
	for (int i = 0; i < 20; i++) {
		fx_run(MS);
		usleep(FX_TICK_US);
	}
	assert_int_equal(fx_accept(""), -EINVAL);
}

static void a_qp_that_does_not_fit(void **state)
{
	struct cm_param p = fx_param(1, "");

	(void)state;
	fx_ask(fx.service.port, "");
	fx_own(0);
	p.qpn = 12345;
	assert_int_equal(cm_iw_proto.accept(fx.conn[1], &p, fx.s->now), -EINVAL);
	sim_modify(fx.s, fx.p.qp[1], IBV_QPS_ERR);
	assert_int_equal(fx_accept(""), -EINVAL);
	assert_int_equal(cm_iw_proto.reject(fx.conn[1], 0, NULL, 0, fx.s->now), 0);
	fx_told(&fx.prog[0], 0, CM_EV_REJECTED, -ECONNREFUSED);
}

/* More than the backlog wait in the kernel. */
static void a_full_backlog_is_served_later(void **state)
{
	int fd[3];

	(void)state;
	cm_unbind(fx.cm[1], fx.l);
	fx_listen(1);
	for (int i = 0; i < 3; i++) {
		fd[i] = fx_raw_connect();
		fx_raw_hello(fd[i], false, MPA_ENHANCED, 2);
		(void)fx_wait(&fx.listener, 1);
	}
	fx_run(100 * MS);
	assert_int_equal(fx.listener.n, 1);
	fx_own(0);
	assert_true(fx_wait(&fx.listener, 2));
	cm_iw_proto.close(fx.conn[1], fx.s->now);
	fx.conn[1] = NULL;
	fx_own(1);
	assert_true(fx_wait(&fx.listener, 3));
	cm_iw_proto.close(fx.listener.told[2].conn, fx.s->now);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
}

/* --- ports ---------------------------------------------------------------------------------------- */

static void a_program_has_the_port(void **state)
{
	struct cm_service s = { .space = FX_SPACE, .iwarp = true, .only_iwarp = true };
	struct cm_listener *l;
	uint16_t port;
	int fd = fx_raw_listen(&port);

	(void)state;
	s.port = port;
	memcpy(s.ip, fx_here, 16);
	assert_int_equal(cm_bind(fx.cm[1], &s, &l), 0);
	assert_int_equal(cm_listen(fx.cm[1], l, 1, false, &fx.listener.owner), -EADDRINUSE);
	cm_unbind(fx.cm[1], l);
	s.only_iwarp = false;
	assert_int_equal(cm_bind(fx.cm[1], &s, &l), 0);
	assert_int_equal(cm_listen(fx.cm[1], l, 1, false, &fx.listener.owner), 0);
	cm_unbind(fx.cm[1], l);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_fx(connected_and_parted),
		cmocka_unit_test_fx(the_qp_fails),
		cmocka_unit_test_fx(rejected),
		cmocka_unit_test_fx(nobody_listens),
		cmocka_unit_test_fx(somebody_listens_soon),
		cmocka_unit_test_fx(the_asker_leaves),
		cmocka_unit_test_fx(a_qp_that_does_not_fit),
		cmocka_unit_test_fx(a_full_backlog_is_served_later),
		cmocka_unit_test_fx(a_program_has_the_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
