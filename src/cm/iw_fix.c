/* SPDX-License-Identifier: BSD-2-Clause */
/* iw_fix.c - see iw_fix.h. */
#include "cm/iw_fix.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

const uint8_t fx_here[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };

struct iw_fix fx;

static bool on_event(struct cm_owner *owner, const struct cm_event *ev)
{
	struct iw_prog *p = (struct iw_prog *)owner;
	struct iw_told *n = &p->told[p->n++];

	assert_true(p->n <= FX_NOTES);
	n->type = ev->type;
	n->status = ev->status;
	n->conn = ev->conn;
	if (ev->from)
		n->from = *ev->from;
	memset(n->data, 0, sizeof(n->data));
	if (!ev->peer)
		return true;
	n->peer = *ev->peer;
	memcpy(n->data, ev->peer->private,
	       ev->peer->private_len < 63 ? ev->peer->private_len : 63);
	return true;
}

/* One turn of both NICs; the next one is ns later. */
static void run_both(uint64_t ns)
{
	for (int i = 0; i < 2; i++) {
		(void)cm_input(fx.cm[i], SOURCE_TURN, fx.s->now);
		cm_run(fx.cm[i], fx.s->now);
	}
	sim_run(fx.s, 1);
	fx.s->now += ns;
}

void fx_run(uint64_t ns)
{
	for (uint64_t end = fx.s->now + ns; fx.s->now < end;)
		run_both(ns > SEC ? ns / 100 : MS);
}

/* Next to no virtual time passes, so no timeout ends before the kernel has done its
 * part. */
void fx_wait_kernel(void)
{
	run_both(IWC_LOOK_NS);
	sched_yield();
}

void fx_wait(const struct iw_prog *p, unsigned n)
{
	while (p->n < n)
		fx_wait_kernel();
}

const struct iw_told *fx_told(const struct iw_prog *p, unsigned i,
			      enum cm_event_type type, int status)
{
	fx_wait(p, i + 1);
	assert_int_equal(p->told[i].type, type);
	assert_int_equal(p->told[i].status, status);
	return &p->told[i];
}

void fx_listen(int backlog)
{
	fx.service = (struct cm_service){ .space = FX_SPACE,
					  .port = fx.service.port,
					  .iwarp = true,
					  .only_iwarp = true };
	memcpy(fx.service.ip, fx_here, 16);
	assert_int_equal(cm_bind(fx.cm[1], &fx.service, &fx.l), 0);
	assert_int_equal(cm_listen(fx.cm[1], fx.l, backlog, false, &fx.listener.owner),
			 0);
}

int fx_begin(void **state)
{
	(void)state;
	memset(&fx, 0, sizeof(fx));
	fx.s = sim_open();
	fx.p = sim_pair(fx.s, NULL);
	fx.listener.owner.event = fx.prog[0].owner.event = fx.prog[1].owner.event =
		on_event;
	for (int i = 0; i < 2; i++) {
		/* Tests that run at the same time must not choose the same ports. */
		assert_int_equal(cm_open(&fx.cm[i], &fx.s->node[i].core, NULL, NULL,
					 (uint64_t)getpid()),
				 0);
	}
	fx_listen(4);
	return 0;
}

/* Nothing may be left, whatever the test did. */
int fx_end(void **state)
{
	(void)state;
	if (fx.l)
		cm_unbind(fx.cm[1], fx.l);
	for (int i = 0; i < 2; i++)
		if (fx.conn[i])
			cm_iw_proto.close(fx.conn[i], fx.s->now);
	fx_run(3 * SEC);
	sim_unpair(&fx.p);
	fx_run(MS);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(fx.cm[i]->iw->n, 0);
		assert_int_equal(fx.cm[i]->iw->sockets, 0);
		assert_int_equal(fx.cm[i]->iw->half_n, 0);
		assert_int_equal(cm_deadline(fx.cm[i]), NEVER);
		cm_close(fx.cm[i]);
	}
	sim_close(fx.s);
	return 0;
}

struct cm_param fx_param(int side, const char *data)
{
	return (struct cm_param){
		.qpn = fx.p.qp[side]->qpn,
		.service_type = CM_RC,
		.resources = 7,
		.depth = 5,
		.private = data,
		.private_len = strlen(data),
	};
}

void fx_ask(uint16_t port, const char *data)
{
	struct cm_target to = { .space = FX_SPACE,
				.src_port = fx.src_port,
				.dst_port = port,
				.iwarp = true };
	struct cm_param p = fx_param(0, data);

	memcpy(to.route.src, fx_here, 16);
	memcpy(to.route.dst, fx_here, 16);
	assert_int_equal(cm_iw_proto.connect(fx.cm[0], &to, &p, &fx.prog[0].owner,
					     &fx.conn[0], fx.s->now),
			 0);
}

void fx_take(unsigned i)
{
	fx.conn[1] = fx_told(&fx.listener, i, CM_EV_REQUEST, 0)->conn;
	cm_taken(fx.cm[1], fx.conn[1]);
}

int fx_accept(const char *data)
{
	struct cm_param p = fx_param(1, data);

	return cm_accept(fx.conn[1], &p, &fx.prog[1].owner, fx.s->now);
}

void fx_connect(void)
{
	fx_ask(fx.service.port, "ask");
	fx_take(0);
	assert_int_equal(fx_accept("yes"), 0);
	fx_told(&fx.prog[0], 0, CM_EV_RESPONSE, 0);
	assert_int_equal(cm_iw_proto.attach(fx.conn[0], fx.s->now), 0);
	fx_told(&fx.prog[1], 0, CM_EV_ESTABLISHED, 0);
}

/* --- a peer that the test plays ------------------------------------------ */

static struct sockaddr_in addr_of(uint16_t port)
{
	return (struct sockaddr_in){ .sin_family = AF_INET,
				     .sin_port = htons(port),
				     .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
}

int fx_raw_connect(void)
{
	struct sockaddr_in a = addr_of(fx.service.port);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

int fx_raw_listen(uint16_t *port)
{
	struct sockaddr_in a = addr_of(0);
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	assert_int_equal(listen(fd, 4), 0);
	*port = fx_raw_port(fd);
	return fd;
}

/* Takes the connection and its request; returns the revision that it asks for. */
int fx_raw_accept(int l, int *fd)
{
	uint8_t hello[MPA_HELLO_MAX];
	ssize_t n;

	*fd = accept(l, NULL, NULL);
	assert_true(*fd >= 0);
	do {
		fx_run(MS);
		n = recv(*fd, hello, sizeof(hello), MSG_DONTWAIT);
	} while (n < 0);
	assert_true(n >= MPA_HELLO_LEN);
	return hello[17];
}

void fx_raw_hello(int fd, bool reply, uint8_t flags, uint8_t revision)
{
	struct mpa_hello h = { .reply = reply,
			       .flags = flags,
			       .revision = revision,
			       .ird = 3,
			       .ord = 2,
			       .peer_to_peer = !reply,
			       .rtr = reply ? 0 : MPA_RTR_WRITE };
	uint8_t at[MPA_HELLO_MAX];
	size_t n = mpa_hello_build(at, &h);

	assert_int_equal(send(fd, at, n, MSG_NOSIGNAL), n);
}

bool fx_raw_ended(int fd)
{
	char c;
	ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT);

	return n == 0 || (n < 0 && errno == ECONNRESET);
}

void fx_raw_wait_end(int fd)
{
	while (!fx_raw_ended(fd))
		fx_wait_kernel();
}

void fx_raw_wait_rejected(int fd)
{
	uint8_t at[MPA_HELLO_MAX];
	struct mpa_hello h;
	ssize_t n;

	while ((n = recv(fd, at, sizeof(at), MSG_DONTWAIT | MSG_PEEK)) < MPA_HELLO_LEN) {
		assert_int_not_equal(n, 0);
		fx_wait_kernel();
	}
	assert_int_equal(mpa_hello_parse(&h, at, (size_t)n), 0);
	assert_true(h.reply && h.flags & MPA_REJECT);
	assert_int_equal(recv(fd, at, (size_t)n, 0), n);
	fx_raw_wait_end(fd);
}

uint16_t fx_raw_port(int fd)
{
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &len), 0);
	return ntohs(a.sin_port);
}
