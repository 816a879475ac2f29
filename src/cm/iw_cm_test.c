/* SPDX-License-Identifier: BSD-2-Clause */
/* iWARP's connections with both ends ours, and the ports that they need. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm/iw_fix.h"
#include "verbs/round.h"

/* --- both ends ----------------------------------------------------------- */

static void connected_and_parted(void **state)
{
	const struct iw_told *n;

	(void)state;
	fx_connect();
	n = &fx.listener.told[0];
	assert_string_equal(n->data, "ask");
	assert_memory_equal(n->from.src_ip, fx_here, 16);
	assert_memory_equal(n->from.dst_ip, fx_here, 16);
	assert_int_equal(n->from.src_port, fx.service.port);
	assert_int_equal(n->from.dst_port, fx.prog[0].told[0].from.src_port);
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

/* The transport reports that the QP failed; the id may be gone before that. */
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
	fx_take(0);
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
	fx_take(0);
	assert_int_equal(fx_accept("yes"), 0);
	fx_told(&fx.prog[0], 0, CM_EV_RESPONSE, 0);
}

static void the_asker_leaves(void **state)
{
	(void)state;
	fx_ask(fx.service.port, "");
	fx_take(0);
	cm_iw_proto.close(fx.conn[0], fx.s->now);
	fx.conn[0] = NULL;
	while (iwc_of(fx.conn[1])->state == IWC_ASKED)
		fx_wait_kernel();
	assert_int_equal(fx_accept(""), -EINVAL);
}

static void a_qp_that_does_not_fit(void **state)
{
	struct cm_param p = fx_param(1, "");

	(void)state;
	fx_ask(fx.service.port, "");
	fx_take(0);
	p.qpn = 12345;
	assert_int_equal(cm_iw_proto.accept(fx.conn[1], &p, fx.s->now), -EINVAL);
	sim_modify(fx.s, fx.p.qp[1], IBV_QPS_ERR);
	assert_int_equal(fx_accept(""), -EINVAL);
	assert_int_equal(cm_iw_proto.reject(fx.conn[1], 0, NULL, 0, fx.s->now), 0);
	fx_told(&fx.prog[0], 0, CM_EV_REJECTED, -ECONNREFUSED);
}

/* Turns of the listener's connection management alone, until it waits for its NIC to take
 * in everything that has come. */
static void until_it_waits(void)
{
	struct round *r = &fx.s->node[1].core.round;

	for (r->must_hear = false; !r->must_hear; sched_yield()) {
		(void)cm_input(fx.cm[1], SOURCE_ALL, fx.s->now);
		cm_run(fx.cm[1], fx.s->now);
	}
}

/* A client that has ESTABLISHED asks for its next connection: the request is found before
 * the RTR of the first, and told after it. */
static void one_after_the_other(void **state)
{
	struct round *r = &fx.s->node[1].core.round;
	int fd;

	(void)state;
	fx_ask(fx.service.port, "");
	fx_take(0);
	assert_int_equal(fx_accept(""), 0);
	fx_told(&fx.prog[0], 0, CM_EV_RESPONSE, 0);
	r->heard = 0;
	assert_int_equal(cm_iw_proto.attach(fx.conn[0], fx.s->now), 0);
	fd = fx_raw_connect();
	fx_raw_hello(fd, false, MPA_ENHANCED, 2);
	until_it_waits();
	assert_int_equal(fx.listener.n, 1);
	assert_int_equal(fx.prog[1].n, 0);
	while (!iwc_of(fx.conn[1])->ready)
		sim_run(fx.s, 1);
	r->heard = fx.s->now;
	cm_run(fx.cm[1], fx.s->now);
	assert_int_equal(fx.prog[1].told[0].type, CM_EV_ESTABLISHED);
	assert_int_equal(fx.listener.n, 2);
	r->heard = NEVER;
	cm_iw_proto.close(fx.listener.told[1].conn, fx.s->now);
	close(fd);
}

/* A client ends one connection and asks for the next: the request is found before the
 * end, and told after it. */
static void an_end_and_the_next(void **state)
{
	struct round *r = &fx.s->node[1].core.round;
	uint64_t came;
	int fd;

	(void)state;
	fx_connect();
	r->heard = 0;
	assert_int_equal(cm_iw_proto.disconnect(fx.conn[0], fx.s->now), 0);
	fd = fx_raw_connect();
	fx_raw_hello(fd, false, MPA_ENHANCED, 2);
	until_it_waits();
	came = fx.s->now;
	while (!iwc_of(fx.conn[1])->ended) {
		fx.s->now++;
		sim_run(fx.s, 1);
	}
	r->heard = came;
	cm_run(fx.cm[1], fx.s->now);
	assert_int_equal(fx.prog[1].n, 1);
	assert_int_equal(fx.listener.n, 1);
	r->heard = fx.s->now;
	cm_run(fx.cm[1], fx.s->now);
	assert_int_equal(fx.prog[1].told[1].type, CM_EV_DISCONNECTED);
	assert_int_equal(fx.listener.n, 2);
	r->heard = NEVER;
	cm_iw_proto.close(fx.listener.told[1].conn, fx.s->now);
	close(fd);
}

/* What waits to be told ends with its listener, and with its peer's program. */
static void what_waits_ends(void **state)
{
	struct round *r = &fx.s->node[1].core.round;
	int fd = fx_raw_connect();

	(void)state;
	r->heard = 0;
	fx_raw_hello(fd, false, MPA_ENHANCED, 2);
	until_it_waits();
	assert_int_equal(cm_deadline(fx.cm[1]), 0);
	cm_unbind(fx.cm[1], fx.l);
	fx.l = NULL;
	r->heard = NEVER;
	fx_raw_wait_end(fd);
	assert_int_equal(fx.listener.n, 0);
	close(fd);
}

/* The reply of a server that ended an earlier connection waits, too. */
static void a_reply_waits(void **state)
{
	struct round *r = &fx.s->node[0].core.round;

	(void)state;
	fx_ask(fx.service.port, "");
	fx_take(0);
	r->heard = 0;
	assert_int_equal(fx_accept("yes"), 0);
	while (!r->must_hear)
		fx_wait_kernel();
	assert_int_equal(fx.prog[0].n, 0);
	r->heard = NEVER;
	assert_string_equal(fx_told(&fx.prog[0], 0, CM_EV_RESPONSE, 0)->data, "yes");
}

/* A socket bound to this address, which shares its port with others that share. */
static int shared_socket(uint16_t port)
{
	static const int one = 1;
	struct sockaddr_in a = { .sin_family = AF_INET,
				 .sin_port = htons(port),
				 .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)), 0);
	if (!bind(fd, (struct sockaddr *)&a, sizeof(a)))
		return fd;
	close(fd);
	return -1;
}

/* Another connection has the port: bind() would succeed, connect() would not. */
static void a_port_that_is_taken(void **state)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
				  .sin_port = htons(fx.service.port),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = shared_socket(0);

	(void)state;
	assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof(to)), 0);
	fx.src_port = fx_raw_port(fd);
	fx_ask(fx.service.port, "ask");
	fx_take(0);
	assert_int_equal(fx_accept("yes"), 0);
	fx_told(&fx.prog[0], 0, CM_EV_RESPONSE, 0);
	assert_int_not_equal(fx.prog[0].told[0].from.src_port, fx.src_port);
	assert_int_equal(fx.prog[0].told[0].from.src_port,
			 fx.listener.told[0].from.dst_port);
	close(fd);
}

static void a_port_that_is_free(void **state)
{
	uint16_t port;
	int fd = fx_raw_listen(&port);

	(void)state;
	close(fd);
	fx.src_port = port;
	fx_ask(fx.service.port, "ask");
	fx_take(0);
	assert_int_equal(fx.listener.told[0].from.dst_port, port);
}

static void a_type_of_service(void **state)
{
	struct cm_param p = fx_param(1, "");
	int tos = 0;
	socklen_t len = sizeof(tos);

	(void)state;
	fx_ask(fx.service.port, "");
	fx_take(0);
	p.tclass = 0x20;
	assert_int_equal(cm_iw_proto.accept(fx.conn[1], &p, fx.s->now), 0);
	assert_int_equal(getsockopt(((struct iwc *)fx.conn[1])->stream->fd, IPPROTO_IP,
				    IP_TOS, &tos, &len),
			 0);
	assert_int_equal(tos, 0x20);
}

/* Disconnected before the RTR: reported as the end of a connection, not as a failure. */
static void parted_at_once(void **state)
{
	int fd = fx_raw_connect();

	(void)state;
	fx_raw_hello(fd, false, MPA_ENHANCED, 2);
	fx_take(0);
	assert_int_equal(fx_accept(""), 0);
	assert_int_equal(cm_iw_proto.disconnect(fx.conn[1], fx.s->now), 0);
	fx_told(&fx.prog[1], 0, CM_EV_DISCONNECTED, 0);
	close(fd);
}

/* The QP fails after the reply has gone out. */
static void a_qp_that_fails_meanwhile(void **state)
{
	struct cm_param p = fx_param(1, "");
	int fd = fx_raw_connect();

	(void)state;
	fx_raw_hello(fd, false, MPA_ENHANCED, 2);
	fx_take(0);
	assert_int_equal(cm_iw_proto.accept(fx.conn[1], &p, fx.s->now), 0);
	sim_modify(fx.s, fx.p.qp[1], IBV_QPS_ERR);
	assert_int_equal(cm_iw_proto.attach(fx.conn[1], fx.s->now), -EINVAL);
	fx_raw_wait_end(fd);
	assert_int_equal(cm_iw_proto.attach(fx.conn[1], fx.s->now), -EINVAL);
	close(fd);
}

/* Connects n sockets, then sends the requests. */
static void ask_at_once(int *fd, int n)
{
	for (int i = 0; i < n; i++)
		fd[i] = fx_raw_connect();
	while (cm_counter(fx.cm[1], CM_IW_ACCEPTED) < (uint64_t)n)
		fx_run(MS);
	for (int i = 0; i < n; i++)
		fx_raw_hello(fd[i], false, MPA_ENHANCED, 2);
	fx_wait(&fx.listener, 1);
}

/* More requests than the backlog wait, here or in the kernel, and come one by one. */
static void a_full_backlog_is_served_later(void **state)
{
	int fd[3];

	(void)state;
	cm_unbind(fx.cm[1], fx.l);
	fx_listen(1);
	ask_at_once(fd, 3);
	fx_run(100 * MS);
	assert_int_equal(fx.listener.n, 1);
	fx_take(0);
	fx_wait(&fx.listener, 2);
	cm_iw_proto.close(fx.conn[1], fx.s->now);
	fx.conn[1] = NULL;
	fx_take(1);
	fx_wait(&fx.listener, 3);
	cm_iw_proto.close(fx.listener.told[2].conn, fx.s->now);
	assert_int_equal(cm_counter(fx.cm[1], CM_RX_BACKLOG), 0);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
}

/* No program reads the first request: the second is rejected; the third peer has left. */
static void a_full_backlog_is_never_served(void **state)
{
	int fd[3];

	(void)state;
	cm_unbind(fx.cm[1], fx.l);
	fx_listen(1);
	ask_at_once(fd, 3);
	close(fd[2]);
	fx_run(IWC_REPLY_NS + SEC);
	fx_raw_wait_rejected(fd[1]);
	assert_int_equal(cm_counter(fx.cm[1], CM_RX_BACKLOG), 1);
	assert_int_equal(cm_counter(fx.cm[1], CM_IW_LOST), 1);
	assert_int_equal(fx.listener.n, 1);
	fx_take(0);
	close(fd[0]);
	close(fd[1]);
}

/* A process that ends refuses what it has not answered: the request that its program has
 * not read, and the one behind it. */
static void who_leaves_refuses_what_waits(void **state)
{
	int fd[2];

	(void)state;
	cm_unbind(fx.cm[1], fx.l);
	fx_listen(1);
	ask_at_once(fd, 2);
	fx_run(10 * MS);
	assert_int_equal(fx.listener.n, 1);
	assert_false(fx_raw_ended(fd[0]));
	(void)cm_leave(fx.cm[1], fx.s->now);
	for (int i = 0; i < 2; i++) {
		fx_raw_wait_rejected(fd[i]);
		close(fd[i]);
	}
	fx_take(0);
}

/* Many peers that connect at once lose no SYN, which would cost a second each. */
static void the_kernels_queue_is_long_enough(void **state)
{
	enum { MANY = 30 };
	struct tcp_info info;
	socklen_t len = sizeof(info);
	int fd[MANY];

	(void)state;
	cm_unbind(fx.cm[1], fx.l);
	fx_listen(1);
	for (int i = 0; i < MANY; i++)
		fd[i] = fx_raw_connect();
	for (int i = 0; i < MANY; i++) {
		assert_int_equal(getsockopt(fd[i], IPPROTO_TCP, TCP_INFO, &info, &len),
				 0);
		assert_int_equal(info.tcpi_total_retrans, 0);
		close(fd[i]);
	}
}

/* A process without iWARP sockets has no descriptor to watch. */
static void nothing_to_watch(void **state)
{
	(void)state;
	assert_int_equal(cm_fd(fx.cm[0]), -1);
	assert_true(cm_fd(fx.cm[1]) >= 0);
	cm_unbind(fx.cm[1], fx.l);
	fx.l = NULL;
	assert_int_equal(cm_fd(fx.cm[1]), -1);
}

/* --- ports --------------------------------------------------------------- */

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
	assert_int_equal(cm_listen(fx.cm[1], l, 1, false, &fx.listener.owner),
			 -EADDRINUSE);
	cm_unbind(fx.cm[1], l);
	s.only_iwarp = false;
	assert_int_equal(cm_bind(fx.cm[1], &s, &l), 0);
	assert_int_equal(cm_listen(fx.cm[1], l, 1, false, &fx.listener.owner), 0);
	cm_unbind(fx.cm[1], l);
	close(fd);
}

/* A program takes the port between our bind() and listen(). */
static void a_program_takes_the_port(void **state)
{
	struct cm_service s = { .space = FX_SPACE, .iwarp = true };
	struct cm_listener *l;
	uint16_t port;
	int fd = fx_raw_listen(&port);

	(void)state;
	close(fd);
	s.port = port;
	memcpy(s.ip, fx_here, 16);
	assert_int_equal(cm_bind(fx.cm[1], &s, &l), 0);
	assert_int_equal(iw_bind(l, false), 0);
	fd = shared_socket(port);
	assert_int_equal(listen(fd, 1), 0);
	assert_int_equal(cm_listen(fx.cm[1], l, 1, false, &fx.listener.owner), 0);
	assert_int_equal(l->tcp.fd, -1);
	iw_resume(fx.cm[1], fx.s->now);
	assert_int_equal(fx.cm[1]->iw->sockets, 1);
	cm_unbind(fx.cm[1], l);
	close(fd);
}

/* A port of our choice is ours alone, though another program would share it. */
static void a_program_wants_the_port(void **state)
{
	struct cm_service s = { .space = FX_SPACE, .iwarp = true };
	struct cm_listener *l;

	(void)state;
	memcpy(s.ip, fx_here, 16);
	assert_int_equal(cm_bind(fx.cm[1], &s, &l), 0);
	assert_int_equal(shared_socket(s.port), -1);
	cm_unbind(fx.cm[1], l);
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
		cmocka_unit_test_fx(one_after_the_other),
		cmocka_unit_test_fx(an_end_and_the_next),
		cmocka_unit_test_fx(what_waits_ends),
		cmocka_unit_test_fx(a_reply_waits),
		cmocka_unit_test_fx(a_port_that_is_taken),
		cmocka_unit_test_fx(a_port_that_is_free),
		cmocka_unit_test_fx(a_type_of_service),
		cmocka_unit_test_fx(parted_at_once),
		cmocka_unit_test_fx(a_qp_that_fails_meanwhile),
		cmocka_unit_test_fx(a_full_backlog_is_served_later),
		cmocka_unit_test_fx(a_full_backlog_is_never_served),
		cmocka_unit_test_fx(who_leaves_refuses_what_waits),
		cmocka_unit_test_fx(the_kernels_queue_is_long_enough),
		cmocka_unit_test_fx(nothing_to_watch),
		cmocka_unit_test_fx(a_program_has_the_port),
		cmocka_unit_test_fx(a_program_takes_the_port),
		cmocka_unit_test_fx(a_program_wants_the_port),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
