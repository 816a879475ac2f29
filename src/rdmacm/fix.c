/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.c - see fix.h. */
#include "rdmacm/fix.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "rdmacm/cma_event.h"
#include "rdmacm/cma_qp.h"
#include "rdmacm/resolve.h"
#include "sys/addr.h"
#include "sys/sockaddr.h"

struct fix fix;

static struct cm_conn conns[64];
static unsigned nconns;

void fix_say(const char *fmt, ...)
{
	size_t n = strlen(fix.said);
	va_list ap;

	va_start(ap, fmt);
	if (n)
		fix.said[n++] = ' ';
	vsnprintf(fix.said + n, sizeof(fix.said) - n, fmt, ap);
	va_end(ap);
}

const char *fix_said(void)
{
	static char said[sizeof(fix.said)];

	strcpy(said, fix.said);
	fix.said[0] = '\0';
	return said;
}

/* --- the CM -------------------------------------------------------------- */

static struct cm_conn *new_conn(void)
{
	assert_true(nconns < sizeof(conns) / sizeof(conns[0]));
	conns[nconns] = (struct cm_conn){ 0 };
	return &conns[nconns++];
}

static void heard(const struct cm_param *self)
{
	fix.self = *self;
	memcpy(fix.private, self->private ? self->private : "", self->private_len);
}

int cm_gate_bind(struct ibv_context *ctx, struct cm_service *s, struct cm_listener **out)
{
	(void)ctx;
	fix_say("bind");
	if (fix.binds_fail && fix.binds_fail--)
		return -EADDRINUSE;
	if (fix.rc)
		return fix.rc;
	if (!s->port)
		s->port = 4000;
	fix.service = *s;
	*out = (struct cm_listener *)&fix.service;
	return 0;
}

int cm_gate_listen(struct ibv_context *ctx, struct cm_listener *l, int backlog,
		   bool datagram, struct cm_owner *owner)
{
	(void)ctx;
	(void)l;
	(void)backlog;
	fix_say(datagram ? "listen_datagram" : "listen");
	fix.owner = owner;
	return fix.rc;
}

void cm_gate_unbind(struct ibv_context *ctx, struct cm_listener *l)
{
	(void)ctx;
	(void)l;
	fix_say("unbind");
}

int cm_gate_connect(struct ibv_context *ctx, const struct cm_target *to,
		    const struct cm_param *self, struct cm_owner *owner,
		    struct cm_conn **out)
{
	(void)ctx;
	fix_say("connect");
	if (fix.rc)
		return fix.rc;
	fix.to = *to;
	heard(self);
	fix.owner = owner;
	*out = new_conn();
	return 0;
}

void cm_gate_taken(struct ibv_context *ctx, struct cm_conn *c)
{
	(void)ctx;
	(void)c;
	fix_say("taken");
}

int cm_gate_accept(struct ibv_context *ctx, struct cm_conn *c,
		   const struct cm_param *self, struct cm_owner *owner)
{
	(void)ctx;
	fix_say("accept");
	heard(self);
	if (!fix.rc)
		c->owner = owner;
	return fix.rc;
}

int cm_gate_reject(struct ibv_context *ctx, struct cm_conn *c, uint16_t reason,
		   const void *private, size_t len)
{
	(void)ctx;
	(void)c;
	(void)private;
	fix_say("reject:%u:%zu", reason, len);
	return fix.rc;
}

int cm_gate_attach(struct ibv_context *ctx, struct cm_conn *c)
{
	(void)ctx;
	(void)c;
	fix_say("attach");
	return fix.attach_rc;
}

int cm_gate_established(struct ibv_context *ctx, struct cm_conn *c)
{
	(void)ctx;
	(void)c;
	fix_say("established");
	return fix.rc;
}

int cm_gate_disconnect(struct ibv_context *ctx, struct cm_conn *c)
{
	(void)ctx;
	(void)c;
	fix_say("disconnect");
	return fix.rc;
}

void cm_gate_close(struct ibv_context *ctx, struct cm_conn *c)
{
	(void)ctx;
	(void)c;
	fix_say("close");
}

int cm_gate_await(struct ibv_context *ctx, int fd, bool (*has)(void *arg), void *arg)
{
	(void)ctx;
	(void)fd;
	fix_say("await");
	if (fix.awaited)
		fix.awaited();
	return fix.await_rc ? fix.await_rc : has(arg);
}

bool cm_gate_knows(struct ibv_context *ctx)
{
	(void)ctx;
	return !fix.foreign;
}

bool cm_gate_has_ip(struct ibv_context *ctx, const uint8_t ip[16])
{
	union ibv_gid own;

	for (int i = 0; i < FIX_GIDS; i++)
		if (!ibv_query_gid(ctx, 1, i, &own) && !memcmp(own.raw, ip, 16))
			return true;
	return false;
}

/* --- a fabric ------------------------------------------------------------ */

static bool is_at(const uint8_t ip[16], const char *text)
{
	uint8_t other[16];

	assert_int_equal(inet_pton(AF_INET6, text, other), 1);
	return memcmp(ip, other, 16) == 0;
}

int cm_gate_find(struct ibv_context *ctx, const uint8_t ip[16], uint8_t gid[16])
{
	(void)ctx;
	fix_say("find");
	if (!is_at(ip, "::ffff:127.1.0.2") && !is_at(ip, "fe80::6"))
		return fix.find_rc ? fix.find_rc : -EHOSTUNREACH;
	assert_int_equal(inet_pton(AF_INET6, "fe80::6", gid), 1);
	return 0;
}

void cm_gate_ip(struct ibv_context *ctx, uint8_t ip[16])
{
	(void)ctx;
	assert_int_equal(inet_pton(AF_INET6, "::ffff:127.1.0.1", ip), 1);
}

int cm_gate_serve(struct ibv_context *ctx, const struct cm_service *s)
{
	(void)ctx;
	assert_int_not_equal(s->port, 0);
	fix_say("serve:%x", s->space);
	if (fix.serves_fail && fix.serves_fail--)
		return fix.serve_rc;
	return open("/dev/null", O_RDONLY | O_CLOEXEC);
}

int cm_gate_path(struct ibv_context *ctx, const struct cm_route *route,
		 uint64_t patience_ns, struct cm_owner *owner)
{
	(void)ctx;
	fix_say("path");
	assert_true(is_at(route->src, "fe80::5") && is_at(route->dst, "fe80::6"));
	fix.patience_ns = patience_ns;
	fix.owner = owner;
	return fix.rc;
}

void cm_gate_path_forget(struct ibv_context *ctx, const struct cm_owner *owner)
{
	(void)ctx;
	(void)owner;
	fix_say("forget");
}

int cm_gate_join(struct ibv_context *ctx, const struct sa_group *want,
		 uint64_t patience_ns, struct cm_owner *owner, struct cm_member **out)
{
	(void)ctx;
	(void)patience_ns;
	fix_say("join:%u", want->join_state);
	fix.group = *want;
	fix.owner = owner;
	*out = (struct cm_member *)&fix.group;
	return fix.rc;
}

void cm_gate_part(struct ibv_context *ctx, struct cm_member *m)
{
	(void)ctx;
	assert_ptr_equal(m, &fix.group);
	fix_say("part");
}

/* --- tests --------------------------------------------------------------- */

int fix_begin(void **state)
{
	(void)state;
	fix = (struct fix){ .devices = FIX_DEVICES };
	nconns = 0;
	return 0;
}

int fix_end(void **state)
{
	(void)state;
	assert_int_equal(fix.made, 0);
	return 0;
}

struct sockaddr_in fix_addr(const char *ip, uint16_t port)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(port) };

	assert_int_equal(inet_pton(AF_INET, ip, &a.sin_addr), 1);
	return a;
}

struct sockaddr_in6 fix_addr6(const char *ip, uint16_t port)
{
	struct sockaddr_in6 a = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	assert_int_equal(inet_pton(AF_INET6, ip, &a.sin6_addr), 1);
	return a;
}

struct cma_id *fix_id(struct cma_channel *ch, enum rdma_port_space ps)
{
	struct cma_id *id;

	assert_int_equal(cma_create(ch ? &ch->ch : NULL, NULL, ps, &id), 0);
	return id;
}

struct cma_id *fix_resolved(struct cma_channel *ch, enum rdma_port_space ps,
			    const char *ip, uint16_t port)
{
	struct sockaddr_in a = fix_addr(ip, port);
	struct cma_id *id = fix_id(ch, ps);

	assert_int_equal(cma_complete(id,
				      cma_resolve_addr(id, NULL, (struct sockaddr *)&a),
				      RDMA_CM_EVENT_ADDR_RESOLVED),
			 0);
	if (ch)
		fix_ack(ch, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(cma_complete(id, cma_resolve_route(id, 2000),
				      RDMA_CM_EVENT_ROUTE_RESOLVED),
			 0);
	if (ch)
		fix_ack(ch, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

void fix_tell(struct cma_id *id, enum cm_event_type type, int status)
{
	const struct cm_param peer = {
		.qpn = 99,
		.psn = 1234,
		.qkey = 5,
		.resources = 2,
		.depth = 3,
		.rnr_retry = 6,
		.ece_vendor = 8,
		.private = "hello",
		.private_len = 6,
	};
	const struct cm_event ev = {
		.type = type, .status = status, .peer = &peer, .from = &fix.to
	};

	assert_true(id->owner.event(&id->owner, &ev));
}

struct cm_conn *fix_ask(struct cma_id *listener, const char *ip, bool datagram)
{
	struct cm_target from = { .datagram = datagram,
				  .src_port = 7174,
				  .dst_port = 5000,
				  .space = RDMA_PS_TCP,
				  .mtu = IBV_MTU_2048 };
	const struct cm_param peer = {
		.qpn = 99, .psn = 1, .resources = 4, .depth = 200, .ece_vendor = 8
	};
	struct cm_event ev = {
		.type = CM_EV_REQUEST, .from = &from, .peer = &peer, .conn = new_conn()
	};
	struct sockaddr_in a = fix_addr(ip, 0);

	sockaddr_ip((struct sockaddr *)&a, from.route.src);
	sockaddr_ip((struct sockaddr *)&a, from.src_ip);
	a = fix_addr("192.0.2.9", 0);
	sockaddr_ip((struct sockaddr *)&a, from.route.dst);
	sockaddr_ip((struct sockaddr *)&a, from.dst_ip);
	assert_true(listener->owner.event(&listener->owner, &ev));
	return ev.conn;
}

struct cma_event *fix_event(struct cma_channel *ch, enum rdma_cm_event_type type,
			    int status)
{
	struct pollfd p = { .fd = ch->ch.fd, .events = POLLIN };
	struct cma_event *e;

	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(cma_get_event(ch, &e), 0);
	assert_string_equal(cma_event_name(e->ev.event), cma_event_name(type));
	assert_int_equal(e->ev.status, status);
	return e;
}

void fix_ack(struct cma_channel *ch, enum rdma_cm_event_type type, int status)
{
	cma_done(fix_event(ch, type, status));
}

void fix_qp(struct cma_id *id)
{
	struct ibv_qp_init_attr attr = { .cap = { .max_send_wr = 1, .max_recv_wr = 1 },
					 .qp_type = id->id.qp_type };

	assert_int_equal(cma_create_qp_of(id, NULL, &attr), 0);
}
