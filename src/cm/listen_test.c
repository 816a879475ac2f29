/* SPDX-License-Identifier: BSD-2-Clause */
/* Which process and listener is a request for? */
#include <errno.h>
#include <unistd.h>

#include "cm/fix.h"
#include "host/host.h"
#include "ib/ib.h"
#include "net/ip_addr.h"
#include "net/link.h"
#include "verbs/due.h"

static struct cm_listener *take(struct cm *cm, struct prog *p, bool any, bool v6,
				int side, uint16_t port)
{
	struct cm_service s = { .space = FIX_SPACE, .port = port, .any = any, .v6 = v6 };
	struct cm_listener *l = NULL;

	fix_ip(side, s.ip);
	assert_int_equal(cm_bind(cm, &s, &l), 0);
	assert_int_equal(cm_listen(cm, l, 1, false, &p->owner), 0);
	return l;
}

static void an_address_before_its_wildcard(void **state)
{
	struct fix *f = fix_open(1);
	struct cm *cm = fix_cm(f, 0);
	struct prog *p = prog_new(f, 0);
	struct cm_listener *any4 = take(cm, p, true, false, 0, 5),
			   *one = take(cm, p, false, false, 0, 5),
			   *both = take(cm, p, true, true, 0, 6);
	struct cm_target to = { .space = FIX_SPACE, .src_port = 5 };

	(void)state;
	fix_ip(0, to.src_ip);
	assert_ptr_equal(find_listener(cm, &to, false), one);
	assert_null(find_listener(cm, &to, true));
	fix_ip(1, to.src_ip);
	assert_ptr_equal(find_listener(cm, &to, false), any4);
	to.src_port = 6;
	assert_ptr_equal(find_listener(cm, &to, false), both);
	both->service.v6_only = true;
	assert_null(find_listener(cm, &to, false));
	to.src_ip[0] = 0xfd;
	assert_ptr_equal(find_listener(cm, &to, false), both);
	to.src_port = 5;
	assert_null(find_listener(cm, &to, false));
	to.src_port = 6;
	to.space = FIX_UDP;
	assert_null(find_listener(cm, &to, false));
	cm_unbind(cm, any4);
	cm_unbind(cm, one);
	cm_unbind(cm, both);
	prog_free(p);
	fix_close(f);
}

/* --- several processes of a host ----------------------------------------- */

struct proc {
	struct host *host;
	struct core core;
	struct cm *cm;
	struct dgram got;
	unsigned n;
	uint8_t bytes[512];
};

static void on_datagram(void *arg, const struct dgram *d)
{
	struct proc *p = arg;

	p->n++;
	p->got = *d;
	memcpy(p->bytes, d->iov[0].iov_base, d->len);
	p->got.one = (struct iovec){ p->bytes, d->len };
}

static void on_gone(void *arg, uint16_t slot)
{
	struct proc *p = arg;

	cm_gone(p->cm, slot, 0);
}

static const struct host_ops ops = { .datagram = on_datagram, .gone = on_gone };

static bool is_far;

static bool same_host(const uint8_t ip[16])
{
	(void)ip;
	return !is_far;
}

static unsigned addresses(uint8_t (*ip)[16], unsigned max)
{
	assert_true(max >= 2);
	fix_ip(0, ip[0]);
	fix_ip(1, ip[1]);
	return 2;
}

static const struct cm_site site = { .same_host = same_host,
				     .addresses = addresses,
				     .by_host = true };

static void proc_open(struct proc *p)
{
	memset(p, 0, sizeof(*p));
	assert_int_equal(host_open(&p->host, &ops, p), 0);
	assert_int_equal(core_init(&p->core, host_slot(p->host)), 0);
	assert_int_equal(ib_open(&p->core, 1), 0);
	assert_int_equal(cm_open(&p->cm, &p->core, p->host, &site, 1), 0);
	assert_int_equal(cm_use_link(p->cm, NULL, &fix_wire, 4791), 0);
}

static void proc_close(struct proc *p)
{
	cm_close(p->cm);
	ib_close(&p->core);
	host_close(p->host);
	core_fini(&p->core);
}

static uint16_t some_port(void)
{
	return (uint16_t)(1024 + getpid() % 30000);
}

static int bind_to(struct proc *p, bool any, bool v6, bool v6_only, int side,
		   struct cm_listener **l)
{
	struct cm_service s = { .space = FIX_SPACE,
				.port = some_port(),
				.any = any,
				.v6 = v6,
				.v6_only = v6_only };

	fix_ip(side, s.ip);
	return cm_bind(p->cm, &s, l);
}

static void one_port_one_process(void **state)
{
	struct proc p, q;
	struct cm_listener *a, *b, *c;

	(void)state;
	proc_open(&p);
	proc_open(&q);
	/* An address excludes itself and the wildcards that include it. */
	assert_int_equal(bind_to(&p, false, false, false, 0, &a), 0);
	assert_int_equal(bind_to(&q, false, false, false, 0, &b), -EADDRINUSE);
	assert_int_equal(bind_to(&q, true, false, false, 0, &b), -EADDRINUSE);
	assert_int_equal(bind_to(&q, true, true, false, 0, &b), -EADDRINUSE);
	assert_int_equal(bind_to(&q, true, true, true, 0, &b), 0);
	assert_int_equal(bind_to(&q, false, false, false, 1, &c), 0);
	cm_unbind(q.cm, b);
	cm_unbind(q.cm, c);
	cm_unbind(p.cm, a);
	/* A wildcard excludes all addresses of its families. */
	assert_int_equal(bind_to(&p, true, true, false, 0, &a), 0);
	assert_int_equal(bind_to(&q, true, false, false, 0, &b), -EADDRINUSE);
	assert_int_equal(bind_to(&q, false, false, false, 1, &b), -EADDRINUSE);
	cm_unbind(p.cm, a);
	assert_int_equal(bind_to(&q, false, false, false, 1, &b), 0);
	cm_unbind(q.cm, b);
	proc_close(&p);
	proc_close(&q);
}

static void any_port_is_a_free_one(void **state)
{
	struct cm_service s = { .space = FIX_SPACE, .any = true }, t = s;
	struct cm_listener *a, *b;
	struct proc p;

	(void)state;
	proc_open(&p);
	assert_int_equal(cm_bind(p.cm, &s, &a), 0);
	assert_int_equal(cm_bind(p.cm, &t, &b), 0);
	assert_true(s.port >= 32768 && t.port >= 32768 && s.port != t.port);
	cm_unbind(p.cm, a);
	cm_unbind(p.cm, b);
	proc_close(&p);
}

/* The port gives p a MAD. */
static void give_at(struct proc *p, const struct cm_msg *m, uint64_t now)
{
	uint8_t mad[MAD_LEN], src[16], dst[16];

	cm_mad_build(mad, m);
	fix_ip(1, src);
	fix_ip(0, dst);
	fix_raw_mad(&p->core, src, dst, mad, now);
}

/* ... and p, which has heard all, handles it. */
static void give(struct proc *p, const struct cm_msg *m)
{
	give_at(p, m, 0);
	forward_run(p->cm, 0);
}

/* q takes in what was forwarded to it. */
static void take_in(struct proc *q)
{
	q->got.iov = &q->got.one;
	cm_forwarded(q->cm, &q->got);
	assert_int_equal(cm_deadline(q->cm), 0);
	cm_run(q->cm, 0);
}

static void a_mad_is_forwarded(void **state)
{
	struct cm_msg m = { .type = CM_REQ, .local_id = 5, .qpn = 9 };
	struct cm_listener *l;
	struct proc p, q;
	uint8_t from[16];

	(void)state;
	proc_open(&p);
	proc_open(&q);
	fix_ip(1, from);
	m.service_id = (uint64_t)FIX_SPACE << 16 | some_port();
	m.private[1] = 0x40;
	memcpy(m.private + 16, (uint8_t[]){ 10, 0, 0, 2 }, 4);
	memcpy(m.private + 32, (uint8_t[]){ 10, 0, 0, 1 }, 4);
	/* Nobody listens: refused after a while. */
	give(&p, &m);
	assert_int_equal(cm_deadline(p.cm), 50 * FIX_MS);
	gsi_run(p.cm, 50 * FIX_MS);
	assert_int_equal(cm_counter(p.cm, CM_RX_NO_SERVICE), 1);
	/* By the service's name. */
	for (int any = 0; any < 2; any++) {
		assert_int_equal(bind_to(&q, any, any, false, 0, &l), 0);
		q.n = 0;
		give(&p, &m);
		host_run(q.host);
		assert_int_equal(q.n, 1);
		assert_true(q.got.mad);
		assert_memory_equal(ip_of(&q.got)->from.ip, from, 16);
		cm_unbind(q.cm, l);
	}
	/* A half open connection keeps the name. */
	struct prog *owner = prog_new(NULL, 0);
	struct cm_conn *half;

	assert_int_equal(bind_to(&q, false, false, false, 0, &l), 0);
	assert_int_equal(cm_listen(q.cm, l, 1, false, &owner->owner), 0);
	give(&p, &m);
	host_run(q.host);
	take_in(&q);
	assert_int_equal(owner->n, 1);
	half = owner->note[0].conn;
	cm_unbind(q.cm, l);
	q.n = 0;
	give(&p, &m); /* again */
	host_run(q.host);
	assert_int_equal(q.n, 1);
	assert_int_equal(bind_to(&p, false, false, false, 0, &l), -EADDRINUSE);
	assert_int_equal(bind_to(&q, false, false, false, 0, &l), 0);
	cm_unbind(q.cm, l);
	assert_int_equal(bind_to(&p, false, false, false, 0, &l), 0);
	cm_unbind(p.cm, l);
	half->proto->close(half, 0);
	free(owner);
	/* By the slot in the communication ID. */
	m = (struct cm_msg){ .type = CM_DREQ,
			     .local_id = 5,
			     .remote_id = (uint32_t)q.core.slot << ID_SLOT_SHIFT };
	q.n = 0;
	give(&p, &m);
	for (int i = 0; i < 3; i++)
		host_run(q.host);
	assert_int_equal(q.n, 1);
	assert_int_equal(cm_counter(p.cm, CM_RX_FORWARDED), 5);
	/* A forwarded MAD is not forwarded again. */
	take_in(&q);
	assert_int_equal(cm_counter(q.cm, CM_RX_NO_ID), 1);
	m.remote_id = (uint32_t)p.core.slot << ID_SLOT_SHIFT;
	cm_mad_build(q.bytes, &m);
	take_in(&q);
	assert_int_equal(cm_counter(q.cm, CM_RX_NO_ID), 2);
	assert_int_equal(cm_counter(q.cm, CM_RX_FORWARDED), 0);
	proc_close(&p);
	proc_close(&q);
}

/* --- the order of two ways ------------------------------------------------ */

/* A program of q that listens, and has accepted a request of p's. */
struct server {
	struct proc p, q;
	struct cm_listener *l;
	struct prog *prog;
	struct cm_msg req, rtu;
	struct cm_route back; /* from p to q */
};

static void server_open(struct server *s)
{
	const struct cm_param self = { .qpn = 2 };

	proc_open(&s->p);
	proc_open(&s->q);
	s->prog = prog_new(NULL, 0);
	assert_int_equal(bind_to(&s->q, true, false, false, 0, &s->l), 0);
	assert_int_equal(cm_listen(s->q.cm, s->l, 4, false, &s->prog->owner), 0);
	fix_ip(0, s->back.src);
	fix_ip(1, s->back.dst);
	s->req = (struct cm_msg){
		.type = CM_REQ,
		.local_id = (uint32_t)s->p.core.slot << ID_SLOT_SHIFT | 5,
		.qpn = (uint32_t)s->p.core.slot << 14 | 9,
		.service_id = (uint64_t)FIX_SPACE << 16 | some_port(),
	};
	s->req.private[1] = 0x40;
	memcpy(s->req.private + 16, (uint8_t[]){ 10, 0, 0, 2 }, 4);
	memcpy(s->req.private + 32, (uint8_t[]){ 10, 0, 0, 1 }, 4);
	give(&s->q, &s->req);
	assert_int_equal(s->prog->n, 1);
	s->prog->conn = s->prog->note[0].conn;
	cm_taken(s->q.cm, s->prog->conn);
	assert_int_equal(cm_accept(s->prog->conn, &self, &s->prog->owner, 0), 0);
	s->rtu = (struct cm_msg){ .type = CM_RTU,
				  .local_id = s->req.local_id,
				  .remote_id = conn_of(s->prog->conn)->local_id };
	s->req.local_id++; /* the next request */
	s->req.qpn++;
}

static void server_close(struct server *s)
{
	if (s->prog->n > 2 && s->prog->note[2].type == CM_EV_REQUEST)
		s->prog->note[2].conn->proto->close(s->prog->note[2].conn, 0);
	s->prog->conn->proto->close(s->prog->conn, 0);
	cm_unbind(s->q.cm, s->l);
	free(s->prog);
	proc_close(&s->p);
	proc_close(&s->q);
}

/* p forwards its own message, or one that came to it by UDP. */
static void forward(struct server *s, const struct cm_msg *m, bool by_udp)
{
	uint8_t mad[MAD_LEN];

	s->p.cm->udp_port = by_udp ? 4791 : 0;
	cm_mad_build(mad, m);
	assert_int_equal(forward_to_slot(s->p.cm, s->q.core.slot, &s->back, mad), 0);
}

/* q looks at its connections of host/, as the engine does when it must hear all. */
static void hear(struct server *s)
{
	unsigned n = s->q.n;

	for (int i = 0; i < 4 && s->q.n == n; i++)
		host_run(s->q.host);
	assert_int_equal(s->q.n, n + 1);
	s->q.got.iov = &s->q.got.one;
	cm_forwarded(s->q.cm, &s->q.got);
}

static void assert_in_order(const struct server *s)
{
	assert_int_equal(s->prog->n, 3);
	assert_int_equal(s->prog->note[1].type, CM_EV_ESTABLISHED);
	assert_int_equal(s->prog->note[2].type, CM_EV_REQUEST);
}

/* A client confirms one connection by host/, and asks for the next by UDP. */
static void a_request_does_not_overtake(void **state)
{
	struct server s;

	(void)state;
	server_open(&s);
	s.q.core.round.heard = 0;
	forward(&s, &s.rtu, false);
	give_at(&s.q, &s.req, 10);
	cm_run(s.q.cm, 10);
	assert_int_equal(s.prog->n, 1);
	assert_true(s.q.core.round.must_hear);
	assert_int_equal(cm_deadline(s.q.cm), 0);
	hear(&s);
	cm_run(s.q.cm, 11);
	assert_int_equal(s.prog->n, 2);
	s.q.core.round.heard = 10;
	cm_run(s.q.cm, 12);
	assert_in_order(&s);
	server_close(&s);
}

/* host/ had no room for a DREQ, which therefore came by UDP. */
static void an_end_does_not_overtake(void **state)
{
	struct server s;
	struct cm_msg dreq;

	(void)state;
	server_open(&s);
	dreq = s.rtu;
	dreq.type = CM_DREQ;
	dreq.qpn = 2;
	s.q.core.round.heard = 0;
	forward(&s, &s.rtu, false);
	give_at(&s.q, &dreq, 10);
	cm_run(s.q.cm, 10);
	hear(&s);
	s.q.core.round.heard = 10;
	cm_run(s.q.cm, 11);
	assert_int_equal(s.prog->n, 3);
	assert_int_equal(s.prog->note[1].type, CM_EV_ESTABLISHED);
	assert_int_equal(s.prog->note[2].type, CM_EV_DISCONNECTED);
	server_close(&s);
}

/* The same, and another process, which has the port, has forwarded the DREQ. */
static void a_forwarded_end_does_not_overtake(void **state)
{
	struct server s;
	struct cm_msg dreq;

	(void)state;
	server_open(&s);
	dreq = s.rtu;
	dreq.type = CM_DREQ;
	dreq.qpn = 2;
	s.q.core.round.heard = 0;
	forward(&s, &dreq, true);
	hear(&s);
	cm_run(s.q.cm, 10);
	assert_int_equal(s.prog->n, 1);
	assert_true(s.q.core.round.must_hear);
	forward(&s, &s.rtu, false);
	hear(&s);
	cm_run(s.q.cm, 11);
	assert_int_equal(s.prog->n, 2);
	assert_int_equal(s.prog->note[1].type, CM_EV_ESTABLISHED);
	s.q.core.round.heard = 10;
	cm_run(s.q.cm, 12);
	assert_int_equal(s.prog->n, 3);
	assert_int_equal(s.prog->note[2].type, CM_EV_DISCONNECTED);
	server_close(&s);
}

/* The RTU came by UDP, for want of room, and the DREQ behind it by host/, where it found
 * room: the DREQ implies the RTU. */
static void an_end_that_overtakes_tells_both(void **state)
{
	struct server s;
	struct cm_msg dreq;

	(void)state;
	server_open(&s);
	dreq = s.rtu;
	dreq.type = CM_DREQ;
	dreq.qpn = 2;
	s.q.core.round.heard = 0;
	give_at(&s.q, &s.rtu, 10);
	forward(&s, &dreq, false);
	hear(&s);
	cm_run(s.q.cm, 10);
	s.q.core.round.heard = 10;
	cm_run(s.q.cm, 11);
	assert_int_equal(s.prog->n, 3);
	assert_int_equal(s.prog->note[1].type, CM_EV_ESTABLISHED);
	assert_int_equal(s.prog->note[2].type, CM_EV_DISCONNECTED);
	server_close(&s);
}

/* Another process has the port, and what it forwards comes by a connection of its own. */
static void a_forwarded_request_does_not_overtake(void **state)
{
	struct server s;

	(void)state;
	server_open(&s);
	s.q.core.round.heard = 0;
	forward(&s, &s.req, true);
	hear(&s);
	cm_run(s.q.cm, 10);
	assert_int_equal(s.prog->n, 1);
	assert_true(s.q.core.round.must_hear);
	forward(&s, &s.rtu, false);
	hear(&s);
	s.q.core.round.heard = 10;
	cm_run(s.q.cm, 11);
	assert_in_order(&s);
	server_close(&s);
}

/* Any user may send MADs by UDP from this host, and they wait. What a process of this
 * user forwards meanwhile is not lost. */
static void a_flood_keeps_nothing_out(void **state)
{
	struct server s;
	struct cm_msg m;

	(void)state;
	server_open(&s);
	m = s.rtu;
	m.type = CM_DREP;
	m.remote_id ^= 1 << ID_GEN_BITS; /* nobody's */
	s.q.core.round.heard = 0;
	for (int i = 0; i < 2 * BOX_MAX; i++)
		give_at(&s.q, &m, 10);
	for (int i = 0; i < BOX_MAX; i++) {
		if (i % 64 == 63)
			cm_run(s.q.cm, 10);
		forward(&s, &m, true);
		hear(&s);
	}
	forward(&s, &s.rtu, false);
	hear(&s);
	cm_run(s.q.cm, 10);
	assert_int_equal(cm_counter(s.q.cm, CM_RX_FULL), 0);
	assert_int_equal(s.prog->n, 2);
	assert_int_equal(s.prog->note[1].type, CM_EV_ESTABLISHED);
	s.q.core.round.heard = NEVER;
	cm_run(s.q.cm, 11);
	server_close(&s);
}

/* Several processes have forwarded such a flood at once. */
static void a_forwarded_flood_keeps_nothing_out(void **state)
{
	struct server s;
	struct cm_msg m;

	(void)state;
	server_open(&s);
	m = s.rtu;
	m.type = CM_DREP;
	m.remote_id ^= 1 << ID_GEN_BITS; /* nobody's */
	s.q.core.round.heard = 0;
	for (int i = 0; i < BOX_MAX; i++) {
		forward(&s, &m, true);
		hear(&s);
	}
	forward(&s, &s.rtu, false);
	hear(&s);
	cm_run(s.q.cm, 10);
	assert_int_equal(s.prog->n, 2);
	assert_int_equal(s.prog->note[1].type, CM_EV_ESTABLISHED);
	assert_int_equal(cm_counter(s.q.cm, CM_RX_FULL), BOX_MAX / 4);
	s.q.core.round.heard = NEVER;
	cm_run(s.q.cm, 11);
	server_close(&s);
}

/* What comes from another host has one way, and waits for nothing. */
static void a_request_of_another_host_does_not_wait(void **state)
{
	struct server s;

	(void)state;
	server_open(&s);
	s.q.core.round.heard = 0;
	is_far = true;
	give_at(&s.q, &s.rtu, 10);
	give_at(&s.q, &s.req, 10);
	is_far = false;
	assert_false(s.q.core.round.must_hear);
	assert_in_order(&s);
	server_close(&s);
}

/* --- the peer's process -------------------------------------------------- */

/* An established connection from p to q, which watches q's process. */
static struct conn *connected(struct proc *p, const struct proc *q, struct prog *owner)
{
	struct cm *cm = p->cm;
	struct conn *c;

	assert_int_equal(conn_reserve(cm, 1), 0);
	c = conn_new(cm);
	c->base.owner = &owner->owner;
	c->remote_id = (uint32_t)q->core.slot << ID_SLOT_SHIFT;
	fix_ip(0, c->route.src);
	fix_ip(1, c->route.dst);
	conn_become(c, ST_ESTABLISHED);
	assert_true(conn_watch(c, 0));
	return c;
}

static void run_timers(struct proc *p, uint64_t now)
{
	struct heap_node *top;

	while ((top = heap_top(&p->cm->timers)) && top->at <= now)
		conn_timer(container_of(top, struct conn, timer), now);
}

/* A closed connection of host/ does not mean that the process has ended: it may have no
 * descriptors left. */
static void a_process_that_lives_or_not(void **state)
{
	struct prog *owner = prog_new(NULL, 0);
	struct proc p, q;
	struct conn *c;

	(void)state;
	proc_open(&p);
	proc_open(&q);
	c = connected(&p, &q, owner);
	cm_gone(p.cm, (uint16_t)(q.core.slot + 1), FIX_S);
	assert_int_equal(cm_deadline(p.cm), NEVER);
	for (uint64_t i = 1; i < 5; i++) {
		cm_gone(p.cm, q.core.slot, i * FIX_S);
		/* Looks at once, then after ever longer times. */
		assert_int_equal(cm_deadline(p.cm),
				 i * FIX_S + (i > 1 ? (uint64_t)FIX_MS << (i - 2) : 0));
		run_timers(&p, (i + 1) * FIX_S);
		assert_int_equal(owner->n, 0);
	}
	assert_int_equal(c->state, ST_ESTABLISHED);
	proc_close(&q);
	host_run(p.host);
	run_timers(&p, 9 * FIX_S);
	assert_int_equal(owner->n, 1);
	fix_told(owner, 0, CM_EV_DISCONNECTED, 0);
	assert_int_equal(fix_output(p.cm), 1); /* DREQ */
	proc_close(&p);
	free(owner);
}

/* A message to a process of this host and user is forwarded to it; when it is sent
 * again, it goes by the wire. */
static void a_message_is_forwarded_to_its_peer(void **state)
{
	struct cm_msg m = { .type = CM_REJ, .tid = 5, .reason = 28 };
	struct cm_route route = { .ifindex = 3 };
	struct proc p, q;
	struct cm_msg got;

	(void)state;
	proc_open(&p);
	proc_open(&q);
	fix_ip(0, route.src);
	fix_ip(1, route.dst);
	m.remote_id = (uint32_t)q.core.slot << ID_SLOT_SHIFT | 9;
	send_mad(p.cm, &route, &m);
	assert_int_equal(fix_output(p.cm), 0);
	for (int i = 0; i < 3; i++)
		host_run(q.host);
	assert_int_equal(q.n, 1);
	assert_memory_equal(ip_of(&q.got)->from.ip, route.src, 16);
	assert_memory_equal(ip_of(&q.got)->to.ip, route.dst, 16);
	assert_int_equal(ip_of(&q.got)->ifindex, 3);
	assert_int_equal(cm_mad_parse(&got, q.bytes, MAD_LEN), 0);
	assert_int_equal(got.remote_id, m.remote_id);
	/* The slot is unknown, or no process has it. */
	for (unsigned i = 0; i < 2; i++) {
		m.remote_id = i ? (uint32_t)(SLOT_LAST + 1) << ID_SLOT_SHIFT : 0;
		send_mad(p.cm, &route, &m);
		assert_int_equal(fix_output(p.cm), 1);
	}
	proc_close(&p);
	proc_close(&q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_address_before_its_wildcard),
		cmocka_unit_test(one_port_one_process),
		cmocka_unit_test(any_port_is_a_free_one),
		cmocka_unit_test(a_mad_is_forwarded),
		cmocka_unit_test(a_request_does_not_overtake),
		cmocka_unit_test(an_end_does_not_overtake),
		cmocka_unit_test(a_forwarded_end_does_not_overtake),
		cmocka_unit_test(an_end_that_overtakes_tells_both),
		cmocka_unit_test(a_forwarded_request_does_not_overtake),
		cmocka_unit_test(a_flood_keeps_nothing_out),
		cmocka_unit_test(a_forwarded_flood_keeps_nothing_out),
		cmocka_unit_test(a_request_of_another_host_does_not_wait),
		cmocka_unit_test(a_process_that_lives_or_not),
		cmocka_unit_test(a_message_is_forwarded_to_its_peer),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
