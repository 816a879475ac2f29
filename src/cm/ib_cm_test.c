/* SPDX-License-Identifier: BSD-2-Clause */
/* How a connection is made, message by message. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "cm/fix.h"
#include "net/dgram.h"
#include "sys/mark.h"

static int reject(struct prog *p, const char *private)
{
	return p->conn->proto->reject(p->conn, CM_REJ_CONSUMER, private, strlen(private),
				      p->f->now);
}

/* --- connections without disturbance ------------------------------------- */

static void both_learn_of_each_other(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	const struct note *n;

	(void)state;
	pair_connect(f, &p);
	n = fix_told(p.l, 0, CM_EV_REQUEST, 0);
	assert_int_equal(n->peer.qpn, 0xa00001);
	assert_int_equal(n->peer.psn, 0x111111);
	assert_int_equal(n->peer.resources, 4);
	assert_int_equal(n->peer.depth, 3);
	assert_int_equal(n->peer.retry_count, 6);
	assert_int_equal(n->peer.rnr_retry, 5);
	assert_int_equal(n->peer.ack_timeout, 19);
	assert_int_equal(n->from.src_port, FIX_PORT);
	assert_int_equal(n->from.dst_port, 999);
	assert_int_equal(n->peer.private_len, 56);
	assert_memory_equal(n->private, "ask", 4);
	n = fix_told(p.a, 0, CM_EV_RESPONSE, 0);
	assert_int_equal(n->peer.qpn, 0xb00001);
	assert_int_equal(n->peer.psn, 0x222222);
	assert_int_equal(n->peer.resources, 2);
	assert_int_equal(n->peer.depth, 1);
	assert_int_equal(n->peer.private_len, 196);
	assert_memory_equal(n->private, "yes", 4);
	assert_int_equal(f->sent, 3);

	assert_int_equal(fix_disconnect(p.a), 0);
	fix_run(f, FIX_MS);
	fix_told(p.b, 1, CM_EV_DISCONNECTED, 0);
	assert_int_equal(p.a->n, 1);
	assert_int_equal(fix_disconnect(p.b), 0);
	fix_run(f, FIX_MS);
	fix_told(p.a, 1, CM_EV_DISCONNECTED, 0);
	fix_run(f, 3 * FIX_S);
	fix_told(p.a, 2, CM_EV_TIMEWAIT_EXIT, 0);
	fix_told(p.b, 2, CM_EV_TIMEWAIT_EXIT, 0);
	assert_int_equal(f->sent, 5);
	assert_int_equal(fix_disconnect(p.a), -EINVAL);
	assert_int_equal(p.a->n, 3);
	assert_int_equal(p.b->n, 3);
	pair_close(&p);
	fix_close(f);
}

static void nobody_listens(void **state)
{
	struct fix *f = fix_open(1);
	struct prog *a = prog_new(f, 0);

	(void)state;
	fix_connect(a, FIX_SPACE, 1, NULL);
	fix_run(f, 40 * FIX_MS);
	assert_int_equal(a->n, 0);
	fix_run(f, 20 * FIX_MS);
	fix_told(a, 0, CM_EV_REJECTED, CM_REJ_INVALID_SERVICE);
	prog_free(a);
	fix_close(f);
}

/* The request comes shortly before its listener exists. */
static void somebody_is_about_to_listen(void **state)
{
	struct fix *f = fix_open(1);
	struct prog *a = prog_new(f, 0), *l = prog_new(f, 1);
	struct cm_listener *listener;

	(void)state;
	fix_connect(a, FIX_SPACE, 1, NULL);
	fix_run(f, 20 * FIX_MS);
	listener = fix_listen(l, FIX_SPACE, 1);
	fix_run(f, 40 * FIX_MS);
	fix_told(l, 0, CM_EV_REQUEST, 0);
	prog_free(a);
	cm_unbind(fix_cm(f, 1), listener);
	cm_ib_proto.close(l->note[0].conn, f->now);
	prog_free(l);
	fix_close(f);
}

static void the_program_says_no(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	const struct note *n;

	(void)state;
	fix_run(f, FIX_MS);
	fix_take(p.b, p.l, 0);
	assert_int_equal(reject(p.b, "no!"), 0);
	fix_run(f, FIX_MS);
	n = fix_told(p.a, 0, CM_EV_REJECTED, CM_REJ_CONSUMER);
	assert_int_equal(n->peer.private_len, 148);
	assert_memory_equal(n->private, "no!", 4);
	assert_int_equal(reject(p.b, "no!"), -EINVAL);
	pair_close(&p);
	fix_close(f);
}

static void the_active_side_says_no(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_accepted(f);

	(void)state;
	fix_run(f, FIX_MS);
	assert_int_equal(reject(p.a, "oh"), 0);
	fix_run(f, FIX_MS);
	fix_told(p.b, 0, CM_EV_REJECTED, CM_REJ_CONSUMER);
	assert_int_equal(fix_established(p.a), -EINVAL);
	pair_close(&p);
	fix_close(f);
}

/* --- limits, and invalid messages ---------------------------------------- */

/* The passive side's port carries 512 bytes, and the REQ asks for 1024. The n-th MAD is
 * lost or comes twice. */
static void meet(int lose, int repeat)
{
	struct fix *f = fix_open(1);
	struct pair p;
	const struct note *n;

	f->hold = FIX_HOLD * FIX_MS;
	f->mtu[0] = IBV_MTU_1024;
	f->mtu[1] = IBV_MTU_512;
	f->lose = lose;
	f->repeat = repeat;
	p = pair_open(f);
	pair_connect(f, &p);
	n = fix_told(p.l, 0, CM_EV_REQUEST, 0);
	assert_int_equal(p.l->n, 1);
	assert_int_equal(n->from.mtu, IBV_MTU_512);
	assert_memory_equal(n->private, "ask", 4);
	n = fix_told(p.a, 0, CM_EV_RESPONSE, 0);
	assert_int_equal(n->peer.mtu, IBV_MTU_512);
	assert_int_equal(p.a->n, 1);
	pair_close(&p);
	fix_close(f);
}

static void ports_of_different_mtu(void **state)
{
	enum { MADS = 5 }; /* REQ, REJ, REQ, REP, RTU */

	(void)state;
	for (int i = -1; i < MADS; i++) {
		meet(i, -1);
		meet(-1, i);
	}
}

/* A copy of the first REQ comes when the second one has made the connection, to which it
 * does no harm. */
static void the_refused_req_comes_late(void **state)
{
	struct fix *f = fix_open(1);
	struct cm_msg req;
	struct pair p;

	(void)state;
	f->mtu[0] = IBV_MTU_1024;
	f->mtu[1] = IBV_MTU_512;
	p = pair_open(f);
	assert_int_equal(cm_mad_parse(&req, conn_of(p.a->conn)->mad, MAD_LEN), 0);
	assert_int_equal(req.mtu, IBV_MTU_1024);
	f->hold = FIX_MS;
	pair_connect(f, &p);
	fix_mad(f, 1, 1, &req);
	fix_run(f, FIX_S);
	assert_int_equal(p.a->n, 1);
	assert_int_equal(p.b->n, 1);
	assert_int_equal(conn_of(p.a->conn)->state, ST_ESTABLISHED);
	assert_int_equal(conn_of(p.b->conn)->state, ST_ESTABLISHED);
	pair_close(&p);
	fix_close(f);
}

/* The port of the active side carries less: the REQ asks for no more than that. Within a
 * host ports do not count. */
static void what_a_req_asks_for_is_used(void **state)
{
	(void)state;
	for (int one_host = 0; one_host <= 1; one_host++) {
		struct fix *f = fix_open(1);
		struct pair p;

		f->one_host = one_host;
		f->mtu[1] = one_host ? IBV_MTU_256 : IBV_MTU_4096;
		p = pair_open(f);
		pair_connect(f, &p);
		assert_int_equal(fix_told(p.l, 0, CM_EV_REQUEST, 0)->from.mtu,
				 IBV_MTU_1024);
		assert_int_equal(fix_told(p.a, 0, CM_EV_RESPONSE, 0)->peer.mtu,
				 IBV_MTU_1024);
		assert_int_equal(f->sent, 3);
		pair_close(&p);
		fix_close(f);
	}
}

/* REJs of a peer that says nothing of use: no MTU, one that is not smaller, none at all.
 */
static void a_rejected_mtu_is_told(void **state)
{
	static const uint8_t said[][2] = {
		{ 0, IBV_MTU_512 }, { 1, IBV_MTU_1024 }, { 1, IBV_MTU_4096 }, { 1, 0 }
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		struct fix *f = fix_open(1);
		struct prog *a = prog_new(f, 0);
		struct cm_msg rej = { .type = CM_REJ, .reason = CM_REJ_INVALID_MTU };

		fix_connect(a, FIX_SPACE, 1, NULL);
		rej.tid = conn_of(a->conn)->tid;
		rej.remote_id = conn_of(a->conn)->local_id;
		rej.info_len = said[i][0];
		rej.info[0] = said[i][1];
		fix_mad(f, 0, 2, &rej);
		fix_told(a, 0, CM_EV_REJECTED, CM_REJ_INVALID_MTU);
		prog_free(a);
		fix_close(f);
	}
}

static void a_full_backlog_is_served_later(void **state)
{
	struct fix *f = fix_open(1);
	struct prog *l = prog_new(f, 1), *b[3], *a[3];
	struct cm_listener *listener = fix_listen(l, FIX_SPACE, 2);

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		a[i] = prog_new(f, 0);
		b[i] = prog_new(f, 1);
		fix_connect(a[i], FIX_SPACE, 100 + i, NULL);
	}
	fix_run(f, FIX_MS);
	assert_int_equal(l->n, 2);
	assert_int_equal(cm_counter(fix_cm(f, 1), CM_RX_BACKLOG), 1);
	fix_take(b[0], l, 0);
	fix_run(f, FIX_HOLD * FIX_MS);
	assert_int_equal(l->n, 3);
	fix_take(b[1], l, 1);
	fix_take(b[2], l, 2);
	for (unsigned i = 0; i < 3; i++) {
		fix_accept(b[i], 200 + i, NULL);
		fix_run(f, FIX_MS);
		fix_told(a[i], 0, CM_EV_RESPONSE, 0);
		prog_free(a[i]);
		prog_free(b[i]);
	}
	cm_unbind(fix_cm(f, 1), listener);
	prog_free(l);
	fix_close(f);
}

static void no_memory_for_a_request(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);

	(void)state;
	p.l->deaf = true;
	fix_run(f, FIX_MS);
	assert_int_equal(p.l->n, 0);
	p.l->deaf = false;
	f->hold = FIX_HOLD * FIX_MS;
	pair_connect(f, &p);
	pair_close(&p);
	fix_close(f);
}

static void a_stale_connection_is_ended(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	struct prog *again = prog_new(f, 0);

	(void)state;
	pair_connect(f, &p);
	fix_connect(again, FIX_SPACE, 0xa00001, NULL); /* p.a's QP */
	fix_run(f, FIX_MS);
	fix_told(again, 0, CM_EV_REJECTED, CM_REJ_STALE);
	fix_told(p.a, 1, CM_EV_DISCONNECTED, 0);
	assert_int_equal(p.l->n, 1);
	prog_free(again);
	pair_close(&p);
	fix_close(f);
}

static void strangers_are_not_heard(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	struct conn *a, *b;
	struct cm_msg m;

	(void)state;
	pair_connect(f, &p);
	a = conn_of(p.a->conn);
	b = conn_of(p.b->conn);
	m = (struct cm_msg){ .type = CM_DREQ,
			     .local_id = a->local_id,
			     .remote_id = b->local_id,
			     .qpn = b->local_qpn };
	fix_mad(f, 1, 66, &m); /* another address */
	m.local_id ^= 1;
	fix_mad(f, 1, 1, &m); /* another ID */
	m.local_id ^= 1;
	m.remote_id ^= 1;
	fix_mad(f, 1, 1, &m); /* an old ID of ours */
	m.remote_id ^= 1;
	m.qpn ^= 1;
	fix_mad(f, 1, 1, &m); /* another QP of ours */
	assert_int_equal(p.b->n, 1);
	assert_int_equal(cm_counter(fix_cm(f, 1), CM_RX_NO_ID), 3);
	m.qpn ^= 1;
	fix_mad(f, 1, 1, &m);
	fix_told(p.b, 1, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

static unsigned events(const struct prog *p, enum cm_event_type type)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->n; i++)
		n += p->note[i].type == type;
	return n;
}

/* No end was reported twice, and nothing after the end. */
static void expect_sense(const struct prog *p)
{
	unsigned ends = events(p, CM_EV_DISCONNECTED) + events(p, CM_EV_REJECTED) +
			events(p, CM_EV_UNREACHABLE);

	assert_in_range(ends, 0, 1);
	assert_in_range(events(p, CM_EV_ESTABLISHED), 0, 1);
	assert_in_range(events(p, CM_EV_RESPONSE), 0, 1);
}

/* Every message in every state, from the peer itself: none may do damage. */
static void anything_at_any_time(void **state)
{
	(void)state;
	for (unsigned step = 0; step < 5; step++) {
		for (unsigned type = 0; type < CM_TYPES; type++) {
			struct fix *f = fix_open(1);
			struct pair p = pair_open(f);
			struct cm_msg m = { .type = (enum cm_type)type };

			fix_run(f, FIX_MS);
			fix_take(p.b, p.l, 0);
			if (step > 0)
				fix_accept(p.b, 2, NULL);
			fix_run(f, FIX_MS);
			if (step > 1)
				fix_established(p.a);
			fix_run(f, FIX_MS);
			if (step > 2)
				fix_disconnect(p.a);
			if (step > 3)
				fix_run(f, FIX_MS);
			for (int to = 0; to < 2; to++) {
				struct conn *c = conn_of(to ? p.b->conn : p.a->conn);
				uint64_t before = cm_counter(fix_cm(f, to), CM_RX);

				m.local_id = c->remote_id;
				m.remote_id = c->local_id;
				m.tid = c->tid;
				m.qpn = c->local_qpn;
				fix_mad(f, to, (uint8_t)(1 + !to), &m);
				fix_mad(f, to, (uint8_t)(1 + !to), &m);
				assert_int_equal(cm_counter(fix_cm(f, to), CM_RX),
						 before + 2);
			}
			expect_sense(p.a);
			expect_sense(p.b);
			pair_close(&p);
			fix_close(f);
		}
	}
}

static void a_request_for_other_addresses(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	struct cm_msg m = { .type = CM_REQ,
			    .local_id = 5,
			    .qpn = 9,
			    .service_id = 0x01060000 + FIX_PORT };

	(void)state;
	fix_run(f, FIX_MS);
	fix_mad(f, 1, 1, &m); /* no addresses at all */
	m.private[1] = 0x40;  /* an IPv4 address, but 0.0.0.0 */
	fix_mad(f, 1, 1, &m);
	m.private[16] = m.private[32] = 127; /* loopback, from another host */
	fix_mad(f, 1, 1, &m);
	fix_run(f, 100 * FIX_MS); /* a service of GIDs might come */
	assert_int_equal(cm_counter(fix_cm(f, 1), CM_RX_NO_SERVICE), 3);
	assert_int_equal(p.l->n, 1);
	fix_take(p.b, p.l, 0);
	pair_close(&p);
	fix_close(f);
}

static void expect_said(struct cm *cm, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void expect_said(struct cm *cm, const char *fmt, ...)
{
	char want[200], *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	struct cm_place at = { 0 };
	va_list ap;

	while (cm_describe(cm, &at, out))
		;
	assert_int_equal(fclose(out), 0);
	mark_drop(text);
	va_start(ap, fmt);
	vsnprintf(want, sizeof(want), fmt, ap);
	va_end(ap);
	if (!strstr(text, want))
		fail_msg("no '%s' in:\n%s", want, text);
	free(text);
}

static void a_dump_has_listeners_and_connections(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	const struct conn *a, *b;

	(void)state;
	expect_said(fix_cm(f, 1), "listener port %u on any address: listening, requests",
		    FIX_PORT);
	pair_connect(f, &p);
	a = conn_of(p.a->conn);
	b = conn_of(p.b->conn);
	expect_said(fix_cm(f, 0), "connection 0x%08x to 0x%08x at ", a->local_id,
		    b->local_id);
	expect_said(fix_cm(f, 0), ": established, active; QP 0xa00001 to QP 0xb00001;");
	expect_said(fix_cm(f, 1), ": established, passive; QP 0xb00001 to QP 0xa00001;");
	assert_int_equal(fix_disconnect(p.a), 0);
	expect_said(fix_cm(f, 0), ": DREQ sent, active;");
	pair_close(&p);
	fix_close(f);
}

/* XRC is the first of the extended types. */
static void the_type_in_a_request(void **state)
{
	static const struct {
		enum cm_service_type type;
		uint8_t said, extended;
	} want[] = { { CM_RC, 0, 0 }, { CM_UC, 1, 0 }, { CM_XRC, 3, 1 } };

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		struct fix *f = fix_open(1);
		struct prog *p = prog_new(f, 0);
		struct cm_msg m;

		fix_connect_as(p, want[i].type, FIX_SPACE, 0xa00001, NULL);
		fix_run(f, FIX_MS);
		assert_int_equal(cm_mad_parse(&m, f->last[0] + GSI_HDRS, MAD_LEN), 0);
		assert_int_equal(m.type, CM_REQ);
		assert_int_equal(m.service_type, want[i].said);
		assert_int_equal(m.ext_service_type, want[i].extended);
		prog_free(p);
		fix_close(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_learn_of_each_other),
		cmocka_unit_test(nobody_listens),
		cmocka_unit_test(somebody_is_about_to_listen),
		cmocka_unit_test(the_program_says_no),
		cmocka_unit_test(the_active_side_says_no),
		cmocka_unit_test(ports_of_different_mtu),
		cmocka_unit_test(the_refused_req_comes_late),
		cmocka_unit_test(what_a_req_asks_for_is_used),
		cmocka_unit_test(a_rejected_mtu_is_told),
		cmocka_unit_test(a_full_backlog_is_served_later),
		cmocka_unit_test(no_memory_for_a_request),
		cmocka_unit_test(a_stale_connection_is_ended),
		cmocka_unit_test(strangers_are_not_heard),
		cmocka_unit_test(anything_at_any_time),
		cmocka_unit_test(a_dump_has_listeners_and_connections),
		cmocka_unit_test(a_request_for_other_addresses),
		cmocka_unit_test(the_type_in_a_request),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
