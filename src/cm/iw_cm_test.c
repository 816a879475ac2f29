/* SPDX-License-Identifier: BSD-2-Clause */
/* iWARP's connections: two NICs, real TCP over loopback, virtual time; and peers
 * that are none. */
#include <arpa/inet.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "cm/iw_int.h"
#include "iwarp/sim.h"
#include "sys/dgram.h"

enum { NOTES = 32, SPACE = 0x0106, TICK_US = 200 };

static const uint8_t here[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

struct told {
	enum cm_event_type type;
	int status;
	struct cm_conn *conn;
	struct cm_param peer;
	char data[64];
};

struct prog { struct cm_owner owner; unsigned n; struct told told[NOTES]; };

static struct {
	struct sim *s;
	struct sim_pair p;
	struct cm *cm[2];
	struct cm_service service;
	struct cm_listener *l;
	struct prog listener, prog[2];
	struct cm_conn *conn[2];
	struct batch batch;
} t;

static bool on_event(struct cm_owner *owner, const struct cm_event *ev)
{
	struct prog *p = (struct prog *)owner;
	struct told *n = &p->told[p->n++];

	assert_true(p->n <= NOTES);
	n->type = ev->type;
	n->status = ev->status;
	n->conn = ev->conn;
	memset(n->data, 0, sizeof(n->data));
	if (!ev->peer)
		return true;
	n->peer = *ev->peer;
	memcpy(n->data, ev->peer->private,
	       ev->peer->private_len < 63 ? ev->peer->private_len : 63);
	return true;
}

static void run(uint64_t ns)
{
	for (uint64_t end = t.s->now + ns; t.s->now < end;) {
		for (int i = 0; i < 2; i++) {
			cm_look(&t.s->node[i].core, t.s->now);
			(void)cm_input(&t.s->node[i].core, t.s->now);
			batch_reset(&t.batch);
			(void)cm_output(&t.s->node[i].core, &t.batch, t.s->now);
		}
		sim_run(t.s, 1);
		t.s->now += ns > SEC ? ns / 100 : MS;
	}
}

/* The kernel's part takes real time. */
static bool wait_for(const struct prog *p, unsigned n)
{
	for (int i = 0; i < 2000 && p->n < n; i++) {
		run(MS);
		if (p->n < n)
			usleep(TICK_US);
	}
	return p->n >= n;
}

static const struct told *told(const struct prog *p, unsigned i,
			       enum cm_event_type type, int status)
{
	assert_true(wait_for(p, i + 1));
	assert_int_equal(p->told[i].type, type);
	assert_int_equal(p->told[i].status, status);
	return &p->told[i];
}

static void listen_here(int backlog)
{
	t.service = (struct cm_service){ .space = SPACE, .port = t.service.port,
					 .iwarp = true, .only_iwarp = true };
	memcpy(t.service.ip, here, 16);
	assert_int_equal(cm_bind(t.cm[1], &t.service, &t.l), 0);
	assert_int_equal(cm_listen(t.cm[1], t.l, backlog, false, &t.listener.owner), 0);
}

static int begin(void **state)
{
	(void)state;
	memset(&t, 0, sizeof(t));
	t.s = sim_open();
	t.p = sim_pair(t.s, NULL);
	t.listener.owner.event = t.prog[0].owner.event = t.prog[1].owner.event = on_event;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cm_open(&t.s->node[i].core, NULL, NULL, 1), 0);
		t.cm[i] = t.s->node[i].core.cm;
	}
	listen_here(4);
	return 0;
}

/* Nothing is left, whatever happened. */
static int end(void **state)
{
	(void)state;
	if (t.l)
		cm_unbind(t.cm[1], t.l);
	for (int i = 0; i < 2; i++)
		if (t.conn[i])
			cm_iw_proto.close(t.conn[i], t.s->now);
	run(3 * SEC);
	sim_unpair(t.s, &t.p);
	run(MS);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(t.cm[i]->iw->n, 0);
		assert_int_equal(t.cm[i]->iw->sockets, 0);
		assert_int_equal(t.cm[i]->iw->half_n, 0);
		assert_int_equal(cm_deadline(t.cm[i]), NEVER);
		cm_close(&t.s->node[i].core);
	}
	sim_close(t.s);
	return 0;
}

static struct cm_param param(int side, const char *data)
{
	return (struct cm_param){
		.qpn = t.p.qp[side]->qpn, .service_type = CM_RC,
		.resources = 7, .depth = 5, .private = data, .private_len = strlen(data),
	};
}

static void ask(uint16_t port, const char *data)
{
	struct cm_target to = { .space = SPACE, .dst_port = port, .iwarp = true };
	struct cm_param p = param(0, data);

	memcpy(to.way.src, here, 16);
	memcpy(to.way.dst, here, 16);
	assert_int_equal(cm_iw_proto.connect(t.cm[0], &to, &p, &t.prog[0].owner,
					     &t.conn[0], t.s->now), 0);
}

/* The i-th request becomes prog[1]'s. */
static void own(unsigned i)
{
	t.conn[1] = told(&t.listener, i, CM_EV_REQUEST, 0)->conn;
	cm_own(t.cm[1], t.conn[1], &t.prog[1].owner);
}

static int accept_it(const char *data)
{
	struct cm_param p = param(1, data);
	int rc = cm_iw_proto.accept(t.conn[1], &p, t.s->now);

	return rc ? rc : cm_iw_proto.attach(t.conn[1], t.s->now);
}

static void connect_all(void)
{
	ask(t.service.port, "ask");
	own(0);
	assert_int_equal(accept_it("yes"), 0);
	told(&t.prog[0], 0, CM_EV_RESPONSE, 0);
	assert_int_equal(cm_iw_proto.attach(t.conn[0], t.s->now), 0);
	told(&t.prog[1], 0, CM_EV_ESTABLISHED, 0);
}

/* --- a peer by hand ------------------------------------------------------------------- */

static struct sockaddr_in addr_of(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

static int raw_connect(void)
{
	struct sockaddr_in a = addr_of(t.service.port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static int raw_listen(uint16_t *port)
{
	struct sockaddr_in a = addr_of(0);
	socklen_t len = sizeof(a);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 4), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	*port = ntohs(a.sin_port);
	return fd;
}

/* Takes the connection and its request; returns the revision that it asks for. */
static int raw_accept(int l, int *fd)
{
	uint8_t hello[MPA_HELLO_MAX];
	ssize_t n;

	*fd = accept(l, NULL, NULL);
	assert_true(*fd >= 0);
	do {
		run(MS);
		n = recv(*fd, hello, sizeof(hello), MSG_DONTWAIT);
	} while (n < 0);
	assert_true(n >= MPA_HELLO_LEN);
	return hello[17];
}

static void raw_hello(int fd, bool reply, uint8_t flags, uint8_t revision)
{
	struct mpa_hello h = { .reply = reply, .flags = flags, .revision = revision,
			       .ird = 3, .ord = 2, .peer_to_peer = !reply,
			       .rtr = reply ? 0 : MPA_RTR_WRITE };
	uint8_t at[MPA_HELLO_MAX];
	size_t n = mpa_hello_build(at, &h);

	assert_int_equal(send(fd, at, n, MSG_NOSIGNAL), n);
}

/* The other end hangs up, now or soon. */
static bool raw_ended(int fd)
{
	char c;

	for (int i = 0; i < 500; i++) {
		ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT);

		if (n == 0 || (n < 0 && errno == ECONNRESET))
			return true;
		run(MS);
		usleep(TICK_US);
	}
	return false;
}

/* --- both ends ----------------------------------------------------------------------------- */

static void connected_and_parted(void **state)
{
	const struct told *n;

	(void)state;
	connect_all();
	n = &t.listener.told[0];
	assert_string_equal(n->data, "ask");
	assert_int_equal(n->peer.resources, 7);
	assert_int_equal(n->peer.depth, 5);
	n = &t.prog[0].told[0];
	assert_string_equal(n->data, "yes");
	assert_int_equal(t.p.qp[0]->state, IBV_QPS_RTS);
	assert_int_equal(t.p.qp[1]->state, IBV_QPS_RTS);
	assert_int_equal(cm_iw_proto.disconnect(t.conn[0], t.s->now), 0);
	told(&t.prog[0], 1, CM_EV_DISCONNECTED, 0);
	told(&t.prog[1], 1, CM_EV_DISCONNECTED, 0);
	assert_int_equal(t.p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(cm_iw_proto.disconnect(t.conn[1], t.s->now), 0);
	assert_int_equal(cm_iw_proto.disconnect(t.conn[1], t.s->now), -EINVAL);
	assert_int_equal(t.prog[1].n, 2);
}

/* The transport says that it is over, and the id may be gone first. */
static void the_qp_fails(void **state)
{
	(void)state;
	connect_all();
	sim_modify(t.s, t.p.qp[1], IBV_QPS_ERR);
	told(&t.prog[1], 1, CM_EV_DISCONNECTED, 0);
	cm_iw_proto.close(t.conn[0], t.s->now);
	t.conn[0] = NULL;
	run(10 * MS);
	assert_int_equal(t.p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(t.prog[0].n, 1);
}

static void rejected(void **state)
{
	(void)state;
	ask(t.service.port, "ask");
	own(0);
	assert_int_equal(cm_iw_proto.reject(t.conn[1], 28, "no!", 3, t.s->now), 0);
	assert_string_equal(told(&t.prog[0], 0, CM_EV_REJECTED, -ECONNREFUSED)->data,
			    "no!");
	assert_int_equal(accept_it(""), -EINVAL);
}

static void nobody_listens(void **state)
{
	(void)state;
	cm_unbind(t.cm[1], t.l);
	t.l = NULL;
	ask(t.service.port, "");
	run(20 * MS);
	assert_int_equal(t.prog[0].n, 0);
	told(&t.prog[0], 0, CM_EV_REJECTED, -ECONNREFUSED);
}

static void somebody_listens_soon(void **state)
{
	(void)state;
	cm_unbind(t.cm[1], t.l);
	ask(t.service.port, "ask");
	run(20 * MS);
	listen_here(1);
	own(0);
	assert_int_equal(accept_it("yes"), 0);
	told(&t.prog[0], 0, CM_EV_RESPONSE, 0);
}

static void the_asker_leaves(void **state)
{
	(void)state;
	ask(t.service.port, "");
	own(0);
	cm_iw_proto.close(t.conn[0], t.s->now);
	t.conn[0] = NULL;
	for (int i = 0; i < 20; i++) {
		run(MS);
		usleep(TICK_US);
	}
	assert_int_equal(accept_it(""), -EINVAL);
}

static void a_qp_that_does_not_fit(void **state)
{
	struct cm_param p = param(1, "");

	(void)state;
	ask(t.service.port, "");
	own(0);
	p.qpn = 12345;
	assert_int_equal(cm_iw_proto.accept(t.conn[1], &p, t.s->now), -EINVAL);
	sim_modify(t.s, t.p.qp[1], IBV_QPS_ERR);
	assert_int_equal(accept_it(""), -EINVAL);
	assert_int_equal(cm_iw_proto.reject(t.conn[1], 0, NULL, 0, t.s->now), 0);
	told(&t.prog[0], 0, CM_EV_REJECTED, -ECONNREFUSED);
}

/* More than the backlog wait in the kernel. */
static void a_full_backlog_is_served_later(void **state)
{
	int fd[3];

	(void)state;
	cm_unbind(t.cm[1], t.l);
	listen_here(1);
	for (int i = 0; i < 3; i++) {
		fd[i] = raw_connect();
		raw_hello(fd[i], false, MPA_ENHANCED, 2);
		(void)wait_for(&t.listener, 1);
	}
	run(100 * MS);
	assert_int_equal(t.listener.n, 1);
	own(0);
	assert_true(wait_for(&t.listener, 2));
	cm_iw_proto.close(t.conn[1], t.s->now);
	t.conn[1] = NULL;
	own(1);
	assert_true(wait_for(&t.listener, 3));
	cm_iw_proto.close(t.listener.told[2].conn, t.s->now);
	for (int i = 0; i < 3; i++)
		close(fd[i]);
}

/* --- strangers -------------------------------------------------------------------------------- */

static void a_silent_peer(void **state)
{
	int fd = raw_connect();

	(void)state;
	assert_false(raw_ended(fd));
	run(IWC_REQUEST_NS);
	assert_true(raw_ended(fd));
	assert_int_equal(t.listener.n, 0);
	close(fd);
}

static void garbage(void **state)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
	int fd = raw_connect();

	(void)state;
	assert_int_equal(send(fd, http, sizeof(http), MSG_NOSIGNAL), sizeof(http));
	assert_true(raw_ended(fd));
	assert_int_equal(t.listener.n, 0);
	assert_int_equal(cm_counter(t.cm[1], CM_IW_GARBAGE), 1);
	close(fd);
}

/* What is sent on behind the request waits in the kernel. */
static void a_flood_behind_the_request(void **state)
{
	static uint8_t flood[65536];
	int fd = raw_connect();

	(void)state;
	raw_hello(fd, false, MPA_ENHANCED, 2);
	for (int i = 0; i < 100; i++)
		(void)send(fd, flood, sizeof(flood), MSG_NOSIGNAL | MSG_DONTWAIT);
	own(0);
	run(100 * MS);
	assert_int_equal(t.prog[1].n, 0);
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
		fd[i] = raw_connect();
		run(MS);
	}
	ask(t.service.port, "me");
	run(100 * MS);
	assert_int_equal(t.listener.n, 0);
	run(2 * SEC);
	assert_true(wait_for(&t.listener, 1));
	assert_true(cm_counter(t.cm[1], CM_IW_EVICTED) > 0);
	own(0);
	for (int i = 0; i < MANY; i++)
		close(fd[i]);
	free(fd);
}

static void a_peer_that_never_answers(void **state)
{
	uint16_t port;
	int l = raw_listen(&port), fd;

	(void)state;
	ask(port, "");
	assert_int_equal(raw_accept(l, &fd), 2);
	run(IWC_REPLY_NS - SEC);
	assert_int_equal(t.prog[0].n, 0);
	run(2 * SEC);
	told(&t.prog[0], 0, CM_EV_UNREACHABLE, -ETIMEDOUT);
	close(fd);
	close(l);
}

/* RFC 6581, 10 */
static void a_peer_of_revision_1(void **state)
{
	uint16_t port;
	int l = raw_listen(&port), fd;

	(void)state;
	ask(port, "");
	assert_int_equal(raw_accept(l, &fd), 2);
	close(fd);
	for (int i = 0; i < 20; i++)
		run(MS);
	assert_int_equal(raw_accept(l, &fd), 1);
	raw_hello(fd, true, 0, 1);
	told(&t.prog[0], 0, CM_EV_RESPONSE, 0);
	assert_int_equal(cm_counter(t.cm[0], CM_IW_REVISION_1), 1);
	assert_int_equal(cm_iw_proto.attach(t.conn[0], t.s->now), 0);
	close(fd);
	told(&t.prog[0], 1, CM_EV_DISCONNECTED, 0);
	close(l);
}

static void a_peer_that_hangs_up_on_both(void **state)
{
	uint16_t port;
	int l = raw_listen(&port), fd;

	(void)state;
	ask(port, "");
	for (int i = 2; i; i--) {
		assert_int_equal(raw_accept(l, &fd), i);
		close(fd);
		for (int j = 0; j < 20; j++)
			run(MS);
	}
	told(&t.prog[0], 0, CM_EV_REJECTED, -ECONNRESET);
	close(l);
}

static void a_reply_that_is_none(void **state)
{
	uint16_t port;
	int l = raw_listen(&port), fd;

	(void)state;
	ask(port, "");
	raw_accept(l, &fd);
	raw_hello(fd, false, MPA_ENHANCED, 2);
	told(&t.prog[0], 0, CM_EV_FAILED, -EPROTO);
	close(fd);
	close(l);
}

/* The QP is told; so the program hears of a connection, and of its end. */
static void the_peer_ends_before_the_qp_is_there(void **state)
{
	uint16_t port;
	int l = raw_listen(&port), fd;

	(void)state;
	ask(port, "");
	raw_accept(l, &fd);
	raw_hello(fd, true, MPA_ENHANCED, 2);
	told(&t.prog[0], 0, CM_EV_RESPONSE, 0);
	close(fd);
	run(10 * MS);
	assert_int_equal(cm_iw_proto.attach(t.conn[0], t.s->now), 0);
	told(&t.prog[0], 1, CM_EV_DISCONNECTED, 0);
	close(l);
}

static void the_rtr_never_comes(void **state)
{
	int fd = raw_connect();

	(void)state;
	raw_hello(fd, false, MPA_ENHANCED, 2);
	own(0);
	assert_int_equal(t.listener.told[0].peer.resources, 3);
	assert_int_equal(accept_it(""), 0);
	run(IWC_REQUEST_NS / 2);
	assert_int_equal(t.prog[1].n, 0);
	run(IWC_REQUEST_NS);
	told(&t.prog[1], 0, CM_EV_UNREACHABLE, -ETIMEDOUT);
	close(fd);
}

/* --- ports ---------------------------------------------------------------------------------------- */

static void a_program_has_the_port(void **state)
{
	struct cm_service s = { .space = SPACE, .iwarp = true, .only_iwarp = true };
	struct cm_listener *l;
	uint16_t port;
	int fd = raw_listen(&port);

	(void)state;
	s.port = port;
	memcpy(s.ip, here, 16);
	assert_int_equal(cm_bind(t.cm[1], &s, &l), 0);
	assert_int_equal(cm_listen(t.cm[1], l, 1, false, &t.listener.owner), -EADDRINUSE);
	cm_unbind(t.cm[1], l);
	s.only_iwarp = false;
	assert_int_equal(cm_bind(t.cm[1], &s, &l), 0);
	assert_int_equal(cm_listen(t.cm[1], l, 1, false, &t.listener.owner), 0);
	cm_unbind(t.cm[1], l);
	close(fd);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(connected_and_parted,
			begin, end),
		cmocka_unit_test_setup_teardown(the_qp_fails,
			begin, end),
		cmocka_unit_test_setup_teardown(rejected,
			begin, end),
		cmocka_unit_test_setup_teardown(nobody_listens,
			begin, end),
		cmocka_unit_test_setup_teardown(somebody_listens_soon,
						begin, end),
		cmocka_unit_test_setup_teardown(the_asker_leaves,
			begin, end),
		cmocka_unit_test_setup_teardown(a_qp_that_does_not_fit,
			begin, end),
		cmocka_unit_test_setup_teardown(a_full_backlog_is_served_later,
			begin, end),
		cmocka_unit_test_setup_teardown(a_silent_peer,
			begin, end),
		cmocka_unit_test_setup_teardown(garbage,
			begin, end),
		cmocka_unit_test_setup_teardown(a_flood_behind_the_request,
			begin, end),
		cmocka_unit_test_setup_teardown(many_silent_peers_make_place,
			begin, end),
		cmocka_unit_test_setup_teardown(a_peer_that_never_answers,
			begin, end),
		cmocka_unit_test_setup_teardown(a_peer_of_revision_1,
			begin, end),
		cmocka_unit_test_setup_teardown(a_peer_that_hangs_up_on_both,
			begin, end),
		cmocka_unit_test_setup_teardown(a_reply_that_is_none,
			begin, end),
		cmocka_unit_test_setup_teardown(the_peer_ends_before_the_qp_is_there,
			begin, end),
		cmocka_unit_test_setup_teardown(the_rtr_never_comes,
			begin, end),
		cmocka_unit_test_setup_teardown(a_program_has_the_port,
			begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
