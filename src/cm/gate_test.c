/* SPDX-License-Identifier: BSD-2-Clause */
/* The gate to the CM, with a CM that only records its calls. */
#include "cm/gate.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "cm/cm_int.h"
#include "sys/guard.h"
#include "sys/held.h"
#include "sys/inside.h"
#include "sys/pid.h"
#include "verbs/device.h"
#include "verbs/event.h"

static struct core core;
static struct device dev = { .kind = &device_ib };
static struct context context = { .core = &core, .dev = &dev };
static struct ibv_context *const ours = &context.verbs.context;
static struct cm cm;
static struct cm_listener listener;
static struct cm_target to_ib = { .route = { .dlid = 4 } };
static struct cm_conn conn;
static struct cm_service service;
static struct cm_owner owner;
static struct sa_group group;
static struct cm_member *const member = (struct cm_member *)&group;
static struct cm_param param;
static char told[64]; /* what the CM was asked for */
static int answer;
static uint16_t reason;

static char said[100]; /* what the NIC was asked for, a word each */
static uint8_t asked_ip[16];
static int site_rc;
static uint64_t last;

/* The CM must be called with the turn held, which no other thread can have then. */
static int tell(const char *what)
{
	assert_int_equal(lock_look(&core.turn.lock) != LOCK_FREE, 1);
	assert_int_equal(inside_calls, 1);
	assert_int_equal(held.depth, 1);
	strcpy(told, what);
	return answer;
}

static bool was_told(const char *what)
{
	bool yes = strcmp(told, what) == 0;

	told[0] = '\0';
	return yes;
}

/* Time does not stand still, so only its direction is known. */
static void is_now(uint64_t now)
{
	assert_true(now && now >= last);
	last = now;
}

/* --- the NIC ------------------------------------------------------------- */

static void say(const char *what)
{
	size_t n = strlen(said);

	snprintf(said + n, sizeof(said) - n, "%s%s", n ? " " : "", what);
}

static const char *was_said(void)
{
	static char copy[sizeof(said)];

	strcpy(copy, said);
	said[0] = '\0';
	return copy;
}

/* What may wait is called without the turn. */
static int without_turn(struct core *c, const char *what, const uint8_t *ip)
{
	assert_ptr_equal(c, &core);
	assert_int_equal(lock_look(&core.turn.lock), LOCK_FREE);
	assert_int_equal(inside_calls, 1);
	if (ip)
		memcpy(asked_ip, ip, sizeof(asked_ip));
	say(what);
	return site_rc;
}

static NO_TSA void leave(struct core *c)
{
	assert_ptr_equal(c, &core);
	turn_give(&core.turn);
	say("leave");
}

static int open_udp_port(struct core *c, const uint8_t *ip)
{
	return without_turn(c, ip ? "port" : "port-any", ip);
}

static int await_event(struct core *c, int fd, bool (*has)(void *arg), void *arg)
{
	(void)fd;
	(void)without_turn(c, "await", NULL);
	return has(arg);
}

static int find_gid(struct core *c, const uint8_t ip[16], uint8_t gid[16])
{
	memcpy(gid, ip, 16);
	return without_turn(c, "find", ip);
}

static int serve_service(struct core *c, uint64_t id)
{
	assert_int_equal(id, 77);
	return without_turn(c, "serve", NULL);
}

static const struct cm_site site = {
	.leave = leave,
	.open_port = open_udp_port,
	.await = await_event,
	.find = find_gid,
	.serve = serve_service,
};

/* --- the CM -------------------------------------------------------------- */

void cm_send_mads(struct cm *c, uint64_t now)
{
	assert_ptr_equal(c, &cm);
	is_now(now);
	assert_int_equal(lock_look(&core.turn.lock) != LOCK_FREE, 1);
	say("send");
}

struct room_key cm_key;

int cm_bind(struct cm *c, struct cm_service *s, struct cm_listener **out)
{
	assert_ptr_equal(c, &cm);
	assert_ptr_equal(s, &service);
	*out = &listener;
	return tell("bind");
}

int cm_listen(struct cm *c, struct cm_listener *l, int backlog, bool datagram,
	      struct cm_owner *o)
{
	assert_ptr_equal(c, &cm);
	assert_ptr_equal(l, &listener);
	assert_ptr_equal(o, &owner);
	assert_int_equal(backlog, 7);
	return tell(datagram ? "listen-datagram" : "listen");
}

uint64_t cm_id_of_service(const struct cm_service *s)
{
	assert_ptr_equal(s, &service);
	return 77;
}

bool cm_needs_port(const struct cm_listener *l)
{
	return !l->service.only_iwarp;
}

int cm_path(struct cm *c, const struct cm_route *route, uint64_t patience_ns,
	    struct cm_owner *o, uint64_t now)
{
	assert_ptr_equal(c, &cm);
	assert_ptr_equal(route, &to_ib.route);
	assert_ptr_equal(o, &owner);
	assert_int_equal(patience_ns, 5);
	is_now(now);
	return tell("path");
}

void cm_path_forget(struct cm *c, const struct cm_owner *o)
{
	assert_ptr_equal(c, &cm);
	assert_ptr_equal(o, &owner);
	tell("forget");
}

int cm_join(struct cm *c, const struct sa_group *want, uint64_t patience_ns,
	    struct cm_owner *o, struct cm_member **out, uint64_t now)
{
	assert_ptr_equal(c, &cm);
	assert_ptr_equal(want, &group);
	assert_int_equal(patience_ns, 5);
	assert_ptr_equal(o, &owner);
	is_now(now);
	*out = member;
	return tell("join");
}

void cm_part(struct cm *c, struct cm_member *m, uint64_t now)
{
	assert_ptr_equal(c, &cm);
	assert_ptr_equal(m, member);
	is_now(now);
	tell("part");
}

void cm_unbind(struct cm *c, struct cm_listener *l)
{
	assert_ptr_equal(c, &cm);
	assert_ptr_equal(l, &listener);
	tell("unbind");
}

void cm_taken(struct cm *c, struct cm_conn *conn_)
{
	assert_ptr_equal(c, &cm);
	assert_ptr_equal(conn_, &conn);
	tell("taken");
}

static int connect_by(const char *what, struct cm *c, const struct cm_param *self,
		      struct cm_owner *o, struct cm_conn **out, uint64_t now)
{
	assert_ptr_equal(c, &cm);
	assert_ptr_equal(self, &param);
	assert_ptr_equal(o, &owner);
	is_now(now);
	*out = &conn;
	return tell(what);
}

static int ib_connect(struct cm *c, const struct cm_target *to,
		      const struct cm_param *self, struct cm_owner *o,
		      struct cm_conn **out, uint64_t now)
{
	assert_false(to->iwarp);
	return connect_by("connect", c, self, o, out, now);
}

static int iw_connect(struct cm *c, const struct cm_target *to,
		      const struct cm_param *self, struct cm_owner *o,
		      struct cm_conn **out, uint64_t now)
{
	assert_true(to->iwarp);
	return connect_by("connect-iwarp", c, self, o, out, now);
}

static int of_conn(struct cm_conn *c, uint64_t now, const char *word)
{
	assert_ptr_equal(c, &conn);
	is_now(now);
	return tell(word);
}

int cm_accept(struct cm_conn *c, const struct cm_param *self, struct cm_owner *o,
	      uint64_t now)
{
	assert_ptr_equal(self, &param);
	assert_ptr_equal(o, &owner);
	return of_conn(c, now, "accept");
}

static int fake_reject(struct cm_conn *c, uint16_t why, const void *private, size_t len,
		       uint64_t now)
{
	assert_int_equal(len, 4);
	assert_string_equal(private, "why");
	reason = why;
	return of_conn(c, now, "reject");
}

static int established(struct cm_conn *c, uint64_t now)
{
	return of_conn(c, now, "established");
}

static int disconnect(struct cm_conn *c, uint64_t now)
{
	return of_conn(c, now, "disconnect");
}

static int attach(struct cm_conn *c, uint64_t now)
{
	return of_conn(c, now, "attach");
}

static void conn_close(struct cm_conn *c, uint64_t now)
{
	of_conn(c, now, "close");
}

const struct cm_proto cm_ib_proto = {
	.name = "ib",
	.connect = ib_connect,
	.reject = fake_reject,
	.established = established,
	.disconnect = disconnect,
	.close = conn_close,
};
const struct cm_proto cm_iw_proto = {
	.name = "iwarp",
	.connect = iw_connect,
	.attach = attach,
	.close = conn_close,
};

/* --- each call ----------------------------------------------------------- */

static struct cm_target to_roce, to_iwarp = { .iwarp = true };
static struct cm_listener *bound;
static struct cm_conn *made;

static int go_bind(struct ibv_context *ctx)
{
	return cm_gate_bind(ctx, &service, &bound);
}

static int go_listen(struct ibv_context *ctx)
{
	return cm_gate_listen(ctx, &listener, 7, false, &owner);
}

static int go_listen_datagram(struct ibv_context *ctx)
{
	return cm_gate_listen(ctx, &listener, 7, true, &owner);
}

static int go_connect(struct ibv_context *ctx)
{
	return cm_gate_connect(ctx, &to_roce, &param, &owner, &made);
}

static int go_connect_iwarp(struct ibv_context *ctx)
{
	return cm_gate_connect(ctx, &to_iwarp, &param, &owner, &made);
}

static int go_taken(struct ibv_context *ctx)
{
	cm_gate_taken(ctx, &conn);
	return 0;
}

static int go_accept(struct ibv_context *ctx)
{
	return cm_gate_accept(ctx, &conn, &param, &owner);
}

static int go_reject(struct ibv_context *ctx)
{
	return cm_gate_reject(ctx, &conn, 28, "why", 4);
}

static int go_established(struct ibv_context *ctx)
{
	return cm_gate_established(ctx, &conn);
}

static int go_disconnect(struct ibv_context *ctx)
{
	return cm_gate_disconnect(ctx, &conn);
}

static int go_attach(struct ibv_context *ctx)
{
	return cm_gate_attach(ctx, &conn);
}

/* A route with a LID needs no UDP port. */
static int go_connect_ib(struct ibv_context *ctx)
{
	return cm_gate_connect(ctx, &to_ib, &param, &owner, &made);
}

static int go_path(struct ibv_context *ctx)
{
	return cm_gate_path(ctx, &to_ib.route, 5, &owner);
}

static int go_join(struct ibv_context *ctx)
{
	struct cm_member *m;

	return cm_gate_join(ctx, &group, 5, &owner, &m);
}

/* Returns nothing. */
static int go_part(struct ibv_context *ctx)
{
	cm_gate_part(ctx, member);
	return 0;
}

/* Returns nothing. */
static int go_path_forget(struct ibv_context *ctx)
{
	cm_gate_path_forget(ctx, &owner);
	return 0;
}

/* unbind and close return nothing. */
static int go_unbind(struct ibv_context *ctx)
{
	cm_gate_unbind(ctx, &listener);
	return 0;
}

static int go_close(struct ibv_context *ctx)
{
	cm_gate_close(ctx, &conn);
	return 0;
}

static bool never(void *arg)
{
	(void)arg;
	return false;
}

static int go_await(struct ibv_context *ctx)
{
	return cm_gate_await(ctx, -1, never, NULL);
}

static const struct row {
	int (*go)(struct ibv_context *ctx);
	const char *nic; /* calls that the NIC gets */
	const char *cm;	 /* calls that the CM gets */
	const struct cm_proto *proto;
	bool answers;
} rows[] = {
	{ go_bind, "send leave", "bind", NULL, true },
	{ go_listen, "port-any send leave", "listen", NULL, true },
	{ go_listen_datagram, "port-any send leave", "listen-datagram", NULL, true },
	{ go_unbind, "send leave", "unbind", NULL, false },
	{ go_connect, "port send leave", "connect", NULL, true },
	{ go_connect_iwarp, "send leave", "connect-iwarp", NULL, true },
	{ go_connect_ib, "send leave", "connect", NULL, true },
	{ go_path, "send leave", "path", NULL, true },
	{ go_join, "send leave", "join", NULL, true },
	{ go_part, "send leave", "part", NULL, false },
	{ go_path_forget, "send leave", "forget", NULL, false },
	{ go_taken, "send leave", "taken", NULL, false },
	{ go_accept, "send leave", "accept", &cm_iw_proto, true },
	{ go_reject, "send leave", "reject", &cm_ib_proto, true },
	{ go_established, "send leave", "established", &cm_ib_proto, true },
	{ go_disconnect, "send leave", "disconnect", &cm_ib_proto, true },
	{ go_attach, "send leave", "attach", &cm_iw_proto, true },
	{ go_attach, "", "", &cm_ib_proto, false },
	{ go_close, "send leave", "close", &cm_ib_proto, false },
	{ go_await, "await", "", NULL, false },
};

#define ROWS (sizeof(rows) / sizeof(rows[0]))

static void passes_on(void **state)
{
	(void)state;
	to_roce.route.src[15] = 9;
	for (size_t i = 0; i < ROWS; i++) {
		const struct row *r = &rows[i];

		for (answer = 0; answer >= -EBUSY; answer -= EBUSY) {
			conn.proto = r->proto;
			bound = NULL;
			made = NULL;
			assert_int_equal(r->go(ours), r->answers ? answer : 0);
			assert_string_equal(was_said(), r->nic);
			if (!was_told(r->cm))
				fail_msg("not told to %s", r->cm);
			assert_int_equal(inside_calls, 0);
			assert_int_equal(held.depth, 0);
		}
	}
	assert_int_equal(reason, 28);
	answer = 0;
	go_bind(ours);
	assert_ptr_equal(bound, &listener);
	go_connect(ours);
	assert_ptr_equal(made, &conn);
	assert_int_equal(asked_ip[15], 9); /* the UDP port of our address */
}

/* iWARP's services need no UDP port. Without the port the CM is not asked. */
static void the_port(void **state)
{
	(void)state;
	answer = 0;
	site_rc = -EADDRINUSE;
	assert_int_equal(go_listen(ours), -EADDRINUSE);
	assert_int_equal(go_connect(ours), -EADDRINUSE);
	assert_string_equal(was_said(), "port-any port");
	assert_int_equal(go_connect_iwarp(ours), 0);
	listener.service.only_iwarp = true;
	assert_int_equal(go_listen(ours), 0);
	listener.service.only_iwarp = false;
	assert_string_equal(was_said(), "send leave send leave");
	assert_int_equal(inside_calls, 0);
}

/* A question to the fabric waits for its answer, so it is asked without the turn. */
static void the_fabric(void **state)
{
	uint8_t gid[16], ip[16] = { [15] = 9 };

	(void)state;
	site_rc = -EHOSTUNREACH;
	assert_int_equal(cm_gate_find(ours, ip, gid), -EHOSTUNREACH);
	site_rc = 5;
	assert_int_equal(cm_gate_serve(ours, &service), 5);
	assert_string_equal(was_said(), "find serve");
	assert_int_equal(asked_ip[15], 9);
	cm_gate_ip(ours, gid);
	assert_int_equal(gid[10] | gid[15], 0);
}

/* The context is not ours, is dead, or is the parent's. */
static void refuses(struct ibv_context *ctx)
{
	told[0] = '\0';
	for (size_t i = 0; i < ROWS; i++) {
		const struct row *r = &rows[i];

		conn.proto = r->proto;
		assert_int_equal(r->go(ctx), r->go == go_unbind || r->go == go_close ||
							     r->go == go_path_forget ||
							     r->go == go_taken ||
							     r->go == go_part || !*r->cm
						     ? 0
						     : -EIO);
		assert_true(was_told(""));
		assert_string_equal(was_said(), "");
		assert_int_equal(inside_calls, 0);
		assert_int_equal(held.depth, 0);
	}
}

static void refuses_contexts(void **state)
{
	struct ibv_context foreign = { 0 };

	(void)state;
	assert_true(cm_gate_knows(ours));
	assert_false(cm_gate_knows(&foreign));
	refuses(&foreign);
	context.dead = true;
	refuses(ours);
	context.dead = false;
	context.pid++;
	refuses(ours);
	context.pid--;
}

static void addresses(void **state)
{
	const struct port port = {
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
		.gids = 1,
		.gid = { { .gid.raw = { [10] = 0xff, 0xff, 192, 0, 2, 1 },
			   .used = true } },
	};
	uint8_t ip[16] = { [10] = 0xff, 0xff, 192, 0, 2, 1 };

	(void)state;
	device_init_port(&dev, &port);
	assert_true(cm_gate_has_ip(ours, ip));
	ip[15]++;
	assert_false(cm_gate_has_ip(ours, ip));
}

static int begin(void **state)
{
	(void)state;
	cm = (struct cm){ .core = &core, .site = &site };
	site_rc = 0;
	said[0] = '\0';
	context.pid = pid_own();
	live_add(&context.live, LIVE_CONTEXT, ours);
	if (core_init(&core, 1))
		return -1;
	room_put(&core, &cm_key, &cm);
	return 0;
}

static int end(void **state)
{
	(void)state;
	live_del(&context.live);
	core_fini(&core);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(passes_on, begin, end),
		cmocka_unit_test_setup_teardown(the_port, begin, end),
		cmocka_unit_test_setup_teardown(the_fabric, begin, end),
		cmocka_unit_test_setup_teardown(refuses_contexts, begin, end),
		cmocka_unit_test_setup_teardown(addresses, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
