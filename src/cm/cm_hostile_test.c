/* SPDX-License-Identifier: BSD-2-Clause */
/* What can a peer do that means harm, or a stranger that poses as the peer? */
#include <errno.h>

#include "cm/fix.h"
#include "sys/log_testing.h"

/* Sends m to side `to`, with its peer's address. */
static void inject(struct fix *f, int to, const struct cm_msg *m)
{
	fix_mad(f, to, (uint8_t)(1 + !to), m);
}

/* --- a stranger who does not know the IDs -------------------------------- */

/* A REJ that has only the receiver's ID, as a process sends it that does not know the
 * REQ. It is valid only while we do not know the peer's ID. */
static void a_rej_without_the_peers_id(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	struct conn *a;
	struct cm_msg m;

	(void)state;
	pair_connect(f, &p);
	a = conn_of(p.a->conn);
	m = (struct cm_msg){ .type = CM_REJ,
			     .tid = a->tid,
			     .remote_id = a->local_id,
			     .reason = CM_REJ_INVALID_SERVICE };
	inject(f, 0, &m);
	assert_int_equal(a->state, ST_ESTABLISHED);
	assert_int_equal(p.a->n, 1);
	pair_close(&p);
	fix_close(f);
}

/* A REJ that has only the sender's ID is valid only with the REQ's TID. */
static void a_rej_without_our_id(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	struct conn *b;
	struct cm_msg m;

	(void)state;
	pair_connect(f, &p);
	b = conn_of(p.b->conn);
	m = (struct cm_msg){ .type = CM_REJ,
			     .tid = b->tid + 1,
			     .local_id = b->remote_id,
			     .reason = CM_REJ_TIMEOUT };
	inject(f, 1, &m);
	assert_int_equal(b->state, ST_ESTABLISHED);
	assert_int_equal(p.b->n, 1);
	m.tid--;
	inject(f, 1, &m);
	fix_told(p.b, 1, CM_EV_REJECTED, CM_REJ_TIMEOUT);
	pair_close(&p);
	fix_close(f);
}

/* An answer must have the TID of its request. */
static void an_answer_to_nothing(void **state)
{
	static const struct {
		uint16_t space;
		enum cm_type type;
	} what[] = {
		{ FIX_SPACE, CM_REP },
		{ FIX_SPACE, CM_REJ },
		{ FIX_UDP, CM_SIDR_REP },
	};

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct fix *f = fix_open(1);
		struct prog *a = prog_new(f, 0);
		struct conn *c;
		struct cm_msg m;

		f->cut = true;
		fix_connect(a, what[i].space, 0xa00001, NULL);
		c = conn_of(a->conn);
		m = (struct cm_msg){ .type = what[i].type,
				     .tid = c->tid ^ 1 << 7,
				     .local_id = 5,
				     .remote_id = c->local_id };
		inject(f, 0, &m);
		assert_int_equal(a->n, 0);
		m.tid = c->tid;
		inject(f, 0, &m);
		assert_int_equal(a->n, 1);
		prog_free(a);
		fix_close(f);
	}
}

/* The first index and generation differ from run to run. */
static void identifiers_begin_anywhere(void **state)
{
	uint32_t id[2];

	(void)state;
	for (uint64_t seed = 0; seed < 2; seed++) {
		struct fix *f = fix_open(seed * 10);
		struct prog *a = prog_new(f, 0);

		fix_connect(a, FIX_SPACE, 1, NULL);
		id[seed] = conn_of(a->conn)->local_id;
		prog_free(a);
		fix_close(f);
	}
	assert_int_equal(id_slot(id[0]), id_slot(id[1]));
	assert_int_not_equal(id[0] >> ID_GEN_BITS, id[1] >> ID_GEN_BITS);
	assert_int_not_equal((uint8_t)id[0], (uint8_t)id[1]);
}

/* A DREQ implies that the RTU was lost, but only if it names our QP. */
static void an_end_of_another_qp(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	struct conn *b;
	struct cm_msg m;

	(void)state;
	fix_run(f, FIX_MS);
	fix_take(p.b, p.l, 0);
	f->cut = true;
	fix_accept(p.b, 0xb00001, NULL);
	b = conn_of(p.b->conn);
	m = (struct cm_msg){ .type = CM_DREQ,
			     .tid = 1,
			     .local_id = b->remote_id,
			     .remote_id = b->local_id,
			     .qpn = 0xb00002 };
	inject(f, 1, &m);
	assert_int_equal(b->state, ST_REP_SENT);
	assert_int_equal(p.b->n, 0);
	m.qpn--;
	inject(f, 1, &m);
	fix_told(p.b, 0, CM_EV_ESTABLISHED, 0);
	fix_told(p.b, 1, CM_EV_DISCONNECTED, 0);
	f->cut = false;
	pair_close(&p);
	fix_close(f);
}

/* --- an earlier peer ----------------------------------------------------- */

/* A peer was killed, comes back, and uses the old ID for a new connection. */
static void an_identifier_comes_back(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	struct conn *a, *again;
	struct prog *q = prog_new(f, 0);

	(void)state;
	pair_connect(f, &p);
	f->cut = true;
	fix_connect(q, FIX_SPACE, 0xa00002, NULL);
	fix_run(f, 0);
	f->cut = false;
	a = conn_of(p.a->conn);
	again = conn_of(q->conn);
	struct cm_msg m = { 0 };

	/* The new process's REQ, with the old one's ID. */
	assert_int_equal(cm_mad_parse(&m, again->mad, MAD_LEN), 0);
	m.local_id = a->local_id;
	inject(f, 1, &m);
	assert_int_equal(cm_counter(fix_cm(f, 1), CM_RX_DUPLICATE), 0);
	assert_int_equal(cm_counter(fix_cm(f, 1), CM_RX_STALE), 1);
	assert_int_equal(conn_of(p.b->conn)->state, ST_DREQ_SENT);
	fix_run(f, FIX_MS);
	/* After the old connection has ended on both sides, the ID may be used. */
	assert_int_equal(fix_disconnect(p.a), 0);
	fix_run(f, FIX_MS);
	inject(f, 1, &m);
	fix_told(p.l, 1, CM_EV_REQUEST, 0);
	inject(f, 1, &m);
	assert_int_equal(p.l->n, 2);
	assert_int_equal(cm_counter(fix_cm(f, 1), CM_RX_DUPLICATE), 1);
	p.l->note[1].conn->proto->close(p.l->note[1].conn, f->now);
	prog_free(q);
	pair_close(&p);
	fix_close(f);
}

/* --- a request that poses as the peer's ---------------------------------- */

enum { QPN_SHIFT = 14, A_QPN = FIX_SLOT << QPN_SHIFT | 1 };

/* Connects from a QP whose number has a's slot, as on one host all have. */
static struct pair pair_of_one_host(struct fix *f)
{
	struct pair p = { prog_new(f, 1), prog_new(f, 0), prog_new(f, 1), NULL };

	f->one_host = true;
	p.listener = fix_listen(p.l, FIX_SPACE, 4);
	fix_connect(p.a, FIX_SPACE, A_QPN, "ask");
	pair_connect(f, &p);
	return p;
}

/* A REQ as another process would send it that has this ID and this QP. */
static struct cm_msg made_up(struct fix *f, uint32_t id, uint32_t qpn)
{
	struct prog *q = prog_new(f, 0);
	struct cm_msg m = { 0 };

	f->cut = true;
	fix_connect(q, FIX_SPACE, qpn, NULL);
	assert_int_equal(cm_mad_parse(&m, conn_of(q->conn)->mad, MAD_LEN), 0);
	prog_free(q);
	fix_run(f, 0);
	f->cut = false;
	m.local_id = id;
	return m;
}

/* Any user may send such a REQ from the host's address. Neither end may notice. */
static void a_request_that_another_process_made_up(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_of_one_host(f);
	uint32_t id = conn_of(p.a->conn)->local_id;
	struct cm_msg of_qp = made_up(f, id + 1, A_QPN),
		      of_id = made_up(f, id, A_QPN + 1);
	unsigned sent;

	(void)state;
	sent = f->sent;
	for (int i = 0; i < 100; i++) {
		inject(f, 1, i % 2 ? &of_qp : &of_id);
		if (i % 10 == 9)
			fix_run(f, FIX_MS);
	}
	fix_run(f, 60 * FIX_S);
	assert_int_equal(cm_counter(fix_cm(f, 1), CM_RX_STALE), 100);
	assert_int_equal(conn_of(p.a->conn)->state, ST_ESTABLISHED);
	assert_int_equal(conn_of(p.b->conn)->state, ST_ESTABLISHED);
	assert_int_equal(p.a->n, 1);
	assert_int_equal(p.b->n, 1);
	assert_int_equal(p.l->n, 1);
	/* One refusal for each REQ; a REP and its RTU once in a millisecond. */
	assert_in_range(f->sent - sent, 100 + 2, 100 + 2 * 11);
	pair_close(&p);
	fix_close(f);
}

/* Anybody may send requests: of each reason to refuse one, the log is told once a second.
 */
static void a_flood_does_not_fill_the_log(void **state)
{
	enum { FLOOD = 300, FEW = 10 };
	struct fix *f = fix_open(1);
	struct pair p = pair_of_one_host(f);
	struct cm_msg m = made_up(f, conn_of(p.a->conn)->local_id, A_QPN + 1);
	const uint64_t service = m.service_id;
	const uint8_t mtu = m.mtu;
	char text[FLOOD * 256];
	unsigned lines = 0;

	(void)state;
	LOGGED(
		text, "info", for (int i = 0; i < FLOOD; i++) {
			m.service_id = i % 3 ? service : (service & ~0xffffull) | 1;
			m.mtu = i % 3 == 1 ? 7 : mtu;
			inject(f, 1, &m);
			if (i % 30 == 29)
				fix_run(f, 100 * FIX_MS);
		});
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	assert_in_range(lines, 3, FEW);
	assert_int_equal(cm_counter(fix_cm(f, 1), CM_RX_NO_SERVICE), FLOOD / 3);
	assert_int_equal(cm_counter(fix_cm(f, 1), CM_RX_MTU), FLOOD / 3);
	assert_int_equal(cm_counter(fix_cm(f, 1), CM_RX_STALE), FLOOD / 3);
	pair_close(&p);
	fix_close(f);
}

/* The peer asks anew and has forgotten the old connection, which therefore ends. */
static void a_request_of_one_that_has_forgotten(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_of_one_host(f);
	struct conn *a = conn_of(p.a->conn);
	struct cm_msg m = made_up(f, a->local_id + 1, A_QPN);

	(void)state;
	p.a->conn = NULL;
	a->base.owner = NULL;
	a->held = false;
	conn_become(a, ST_IDLE);
	inject(f, 1, &m);
	fix_run(f, 10 * FIX_MS);
	fix_told(p.b, 1, CM_EV_DISCONNECTED, 0);
	inject(f, 1, &m);
	fix_told(p.l, 1, CM_EV_REQUEST, 0);
	p.l->note[1].conn->proto->close(p.l->note[1].conn, f->now);
	pair_close(&p);
	fix_close(f);
}

/* A REQ that names the QP of another process does not keep that process from
 * connecting. */
static void a_qp_of_another_process(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = { prog_new(f, 1), prog_new(f, 0), prog_new(f, 1), NULL };
	struct cm_msg m;

	(void)state;
	f->one_host = true;
	p.listener = fix_listen(p.l, FIX_SPACE, 4);
	fix_connect(p.a, FIX_SPACE, A_QPN + (1 << QPN_SHIFT), NULL);
	pair_connect(f, &p);
	m = made_up(f, conn_of(p.a->conn)->local_id + 1, A_QPN + (1 << QPN_SHIFT));
	m.local_id += 1 << ID_SLOT_SHIFT;
	inject(f, 1, &m);
	assert_int_equal(cm_counter(fix_cm(f, 1), CM_RX_STALE), 0);
	fix_told(p.l, 1, CM_EV_REQUEST, 0);
	p.l->note[1].conn->proto->close(p.l->note[1].conn, f->now);
	pair_close(&p);
	fix_close(f);
}

/* On another host a CA's GUID tells whose QP it is. */
static void a_qp_of_another_ca(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	uint32_t id;
	struct cm_msg m;

	(void)state;
	pair_connect(f, &p);
	id = conn_of(p.a->conn)->local_id;
	m = made_up(f, id, 0xa00001);
	m.ca_guid++;
	inject(f, 1, &m);
	assert_int_equal(cm_counter(fix_cm(f, 1), CM_RX_STALE), 0);
	assert_int_equal(conn_of(p.b->conn)->state, ST_ESTABLISHED);
	fix_told(p.l, 1, CM_EV_REQUEST, 0);
	p.l->note[1].conn->proto->close(p.l->note[1].conn, f->now);
	m.ca_guid--;
	m.tid++;
	inject(f, 1, &m);
	assert_int_equal(cm_counter(fix_cm(f, 1), CM_RX_STALE), 1);
	assert_int_equal(conn_of(p.b->conn)->state, ST_DREQ_SENT);
	pair_close(&p);
	fix_close(f);
}

/* --- a peer that asks for much ------------------------------------------- */

static void many_listeners(void **state)
{
	enum { N = 900 };
	struct fix *f = fix_open(1);
	struct prog *p = prog_new(f, 0);
	struct cm_listener *l[N];

	(void)state;
	for (unsigned i = 0; i < N; i++) {
		struct cm_service s = { .space = FIX_SPACE,
					.any = true,
					.port = (uint16_t)(1 + i) };

		assert_int_equal(cm_bind(fix_cm(f, 0), &s, &l[i]), 0);
		assert_int_equal(cm_listen(fix_cm(f, 0), l[i], 0, false, &p->owner), 0);
	}
	for (unsigned i = 0; i < N; i++)
		cm_unbind(fix_cm(f, 0), l[i]);
	prog_free(p);
	fix_close(f);
}

/* Requests that no program reads use up the pool, but not another listener's share. */
static void one_listener_starves_no_other(void **state)
{
	enum { N = 2000 };
	struct fix *f = fix_open(1);
	struct prog *deep = prog_new(f, 1), *other = prog_new(f, 1);
	struct cm_service s = { .space = FIX_SPACE, .port = FIX_PORT + 1, .any = true };
	struct cm *cm = fix_cm(f, 1);
	struct cm_target from;
	struct cm_listener *a, *b;
	struct conn *c[N];
	unsigned n = 0;

	(void)state;
	a = fix_listen(deep, FIX_SPACE, 0);
	assert_int_equal(cm_bind(cm, &s, &b), 0);
	assert_int_equal(cm_listen(cm, b, 2, false, &other->owner), 0);
	fix_target(&from, 1, FIX_SPACE);
	/* Other connections have used up the pool beyond the shares. */
	while (conn_spare(cm) > cm->reserved + 5)
		assert_non_null(c[n++] = conn_new(cm));
	for (a->pending = 0; (c[n] = listener_take(a)); n++)
		a->pending++;
	assert_int_equal(a->pending, LISTENER_SHARE);
	for (; b->pending < 2; b->pending++)
		assert_non_null(c[n++] = listener_take(b));
	assert_null(listener_take(b));
	a->pending = b->pending = 0;
	while (n > 0)
		conn_free(c[--n]);
	cm_unbind(cm, a);
	cm_unbind(cm, b);
	prog_free(deep);
	prog_free(other);
	fix_close(f);
}

/* A peer that sends MRA again and again gains ten minutes in all. */
static void time_without_end(void **state)
{
	struct fix *f = fix_open(1);
	struct prog *a = prog_new(f, 0);
	struct conn *c;
	struct cm_msg m;

	(void)state;
	f->cut = true;
	fix_connect(a, FIX_SPACE, 0xa00001, NULL);
	c = conn_of(a->conn);
	m = (struct cm_msg){ .type = CM_MRA,
			     .tid = c->tid,
			     .local_id = 5,
			     .remote_id = c->local_id,
			     .about = CM_ABOUT_REQ,
			     .service_timeout = 31 };
	for (int i = 0; i < 12; i++) {
		if (i < 10)
			assert_int_equal(a->n, 0);
		inject(f, 0, &m);
		fix_run(f, 60 * FIX_S);
	}
	fix_told(a, 0, CM_EV_UNREACHABLE, -ETIMEDOUT);
	f->cut = false;
	prog_free(a);
	fix_close(f);
}

/* --- no memory ----------------------------------------------------------- */

/* At each event of a connection there is first no memory; the event is reported later. */
static void no_memory_for_an_event(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);

	(void)state;
	fix_run(f, FIX_MS);
	fix_take(p.b, p.l, 0);
	p.a->deaf = p.b->deaf = true;
	fix_accept(p.b, 0xb00001, NULL);
	fix_run(f, FIX_MS);
	p.a->deaf = false;
	fix_run(f, FIX_S);
	fix_told(p.a, 0, CM_EV_RESPONSE, 0);
	assert_int_equal(fix_established(p.a), 0);
	fix_run(f, FIX_MS);
	assert_int_equal(p.b->n, 0);
	p.b->deaf = false;
	fix_run(f, 3 * FIX_S);
	fix_told(p.b, 0, CM_EV_ESTABLISHED, 0);
	p.a->deaf = p.b->deaf = true;
	assert_int_equal(fix_disconnect(p.a), 0);
	fix_run(f, FIX_MS);
	p.b->deaf = false;
	fix_run(f, FIX_S);
	fix_told(p.b, 1, CM_EV_DISCONNECTED, 0);
	assert_int_equal(fix_disconnect(p.b), 0);
	fix_run(f, FIX_MS);
	p.a->deaf = false;
	fix_run(f, 3 * FIX_S);
	fix_told(p.a, 1, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_memory_for_an_event),
		cmocka_unit_test(many_listeners),
		cmocka_unit_test(time_without_end),
		cmocka_unit_test(one_listener_starves_no_other),
		cmocka_unit_test(a_rej_without_the_peers_id),
		cmocka_unit_test(a_rej_without_our_id),
		cmocka_unit_test(an_answer_to_nothing),
		cmocka_unit_test(identifiers_begin_anywhere),
		cmocka_unit_test(an_end_of_another_qp),
		cmocka_unit_test(an_identifier_comes_back),
		cmocka_unit_test(a_request_that_another_process_made_up),
		cmocka_unit_test(a_flood_does_not_fill_the_log),
		cmocka_unit_test(a_request_of_one_that_has_forgotten),
		cmocka_unit_test(a_qp_of_another_process),
		cmocka_unit_test(a_qp_of_another_ca),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
