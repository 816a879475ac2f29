/* SPDX-License-Identifier: BSD-2-Clause */
/* A connection whose peer's process is killed, on another host. */
#include <errno.h>

#include "cm/fix.h"

enum { SIDES = 2, CONNECTED = 1 }; /* RESPONSE or ESTABLISHED came before */

static struct prog *of_side(const struct pair *p, int side)
{
	return side == 0 ? p->a : p->b;
}

/* Ends a process whose host has other processes, which know nothing of its
 * connections. */
static void kill_process(struct prog *p)
{
	struct conn *c = conn_of(p->conn);

	p->conn = NULL;
	c->base.owner = NULL;
	c->held = false;
	conn_become(c, ST_IDLE);
}

static void who_lives_is_asked_and_no_more(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	unsigned sent;

	(void)state;
	pair_connect(f, &p);
	sent = f->sent;
	fix_run(f, 60 * FIX_S);
	/* An RTU each 3.75 to 5 s from a; from b a REP, which a answers with an RTU. */
	assert_in_range(f->sent - sent, 3 * 12, 3 * 16);
	for (int side = 0; side < SIDES; side++) {
		struct prog *q = of_side(&p, side);

		assert_int_equal(q->n, CONNECTED);
		assert_int_equal(conn_of(q->conn)->state, ST_ESTABLISHED);
	}
	pair_close(&p);
	fix_close(f);
}

/* Answers to SIDR_REQs that are kept for copies of them do not make questions rarer. */
static void kept_answers_are_asked_nothing(void **state)
{
	enum { KEPT = 900, MOST_S = 5 };
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	struct cm *cm = fix_cm(f, 0);

	(void)state;
	pair_connect(f, &p);
	cm->used += KEPT;
	cm->answered = KEPT;
	fix_run(f, MOST_S * FIX_S); /* one question */
	assert_in_range(conn_of(p.a->conn)->timer.at - f->now, 1, MOST_S * FIX_S);
	cm->used -= KEPT;
	cm->answered = 0;
	pair_close(&p);
	fix_close(f);
}

static void a_process_is_killed(void **state)
{
	(void)state;
	for (int side = 0; side < SIDES; side++) {
		struct fix *f = fix_open(2);
		struct pair p = pair_open(f);
		struct prog *left = of_side(&p, !side);

		pair_connect(f, &p);
		kill_process(of_side(&p, side));
		fix_run(f, 5 * FIX_S + FIX_MS);
		fix_told(left, CONNECTED, CM_EV_DISCONNECTED, 0);
		pair_close(&p);
		fix_close(f);
	}
}

static void the_last_process_of_a_host_is_killed(void **state)
{
	(void)state;
	for (int side = 0; side < SIDES; side++) {
		struct fix *f = fix_open(3);
		struct pair p = pair_open(f);
		struct prog *left = of_side(&p, !side);

		pair_connect(f, &p);
		kill_process(of_side(&p, side));
		f->dead[side] = true;
		fix_run(f, 10 * FIX_S);
		fix_told(left, CONNECTED, CM_EV_DISCONNECTED, 0);
		assert_int_equal(left->n, CONNECTED + 2); /* TIMEWAIT_EXIT */
		pair_close(&p);
		fix_close(f);
	}
}

/* Without the refusal the REP would be repeated for 68 s. */
static void a_host_is_gone_that_was_to_agree(void **state)
{
	struct fix *f = fix_open(4);
	struct pair p = pair_open(f);

	(void)state;
	pair_connect(f, &p);
	kill_process(p.b);
	f->dead[1] = true;
	assert_int_equal(fix_disconnect(p.a), 0);
	fix_run(f, 2 * FIX_S);
	fix_told(p.a, 1, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

static void refuse(struct fix *f, const uint8_t packet[GSI_PACKET])
{
	struct refusal *r = &f->refusal[0][0];

	fix_ip(1, r->ip);
	memcpy(r->quote, packet, GSI_PACKET);
	f->refusals[0] = 1;
}

static bool is_suspected(struct fix *f, int side)
{
	return fix_cm(f, side)->suspect_at != NEVER;
}

static void until_suspected(struct fix *f, bool asked)
{
	for (int i = 0; i < 10000; i++) {
		if (is_suspected(f, 0) && fix_cm(f, 0)->suspect[0].asked == asked)
			return;
		fix_run(f, FIX_MS);
	}
	fail();
}

/* The process that had the port has ended; another takes the port a moment later. */
static void a_refusal_proves_nothing(void **state)
{
	struct fix *f = fix_open(5);
	struct pair p = pair_open(f);

	(void)state;
	pair_connect(f, &p);
	answered(conn_of(p.b->conn)); /* a Linux peer does not ask */
	for (int i = 0; i < 20; i++) {
		f->dead[1] = true;
		until_suspected(f, false);
		/* A refusal of a packet that left before the second question proves
		 * nothing more. */
		send_again(conn_of(p.a->conn));
		fix_run(f, 300 * FIX_MS);
		f->dead[1] = false;
		fix_run(f, 40 * FIX_S);
		assert_false(is_suspected(f, 0));
	}
	assert_int_equal(p.a->n, CONNECTED);
	pair_close(&p);
	fix_close(f);
}

/* The same, if such a refusal is seen only after the second question. */
static void a_refusal_comes_late(void **state)
{
	uint8_t old[GSI_PACKET];
	struct fix *f = fix_open(14);
	struct pair p = pair_open(f);

	(void)state;
	pair_connect(f, &p);
	answered(conn_of(p.b->conn)); /* a Linux peer does not ask */
	f->dead[1] = true;
	until_suspected(f, false);
	f->dead[1] = false;
	memcpy(old, f->last[0], sizeof(old));
	until_suspected(f, true);
	assert_memory_not_equal(old, f->last[0], sizeof(old));
	refuse(f, old);
	fix_run(f, 200 * FIX_MS);
	assert_int_equal(f->refusals[0], 0);
	assert_int_equal(p.a->n, CONNECTED);
	assert_true(is_suspected(f, 0));
	fix_run(f, FIX_S); /* the second question goes out */
	refuse(f, f->last[0]);
	fix_run(f, FIX_S);
	fix_told(p.a, CONNECTED, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

/* A host that sends anything in between is not gone. */
static void a_word_takes_the_suspicion_away(void **state)
{
	struct fix *f = fix_open(6);
	struct pair p = pair_open(f);

	(void)state;
	pair_connect(f, &p);
	f->dead[1] = true;
	until_suspected(f, false);
	f->dead[1] = false;
	assert_int_equal(fix_disconnect(p.b), 0);
	fix_run(f, FIX_MS);
	assert_int_equal(fix_cm(f, 0)->suspect[0].until, 0);
	fix_told(p.a, 1, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

/* The result is that of a kernel where no program listens, but not within the first
 * second. */
static void nobody_is_there(void **state)
{
	struct fix *f = fix_open(7);
	struct pair p = pair_open(f);
	struct prog *q = prog_new(f, 0);

	(void)state;
	fix_connect(q, FIX_UDP, 0xa00002, "port");
	f->dead[1] = true;
	fix_run(f, FIX_S);
	assert_int_equal(p.a->n + q->n, 0);
	fix_run(f, FIX_S);
	fix_told(p.a, 0, CM_EV_REJECTED, CM_REJ_INVALID_SERVICE);
	fix_told(q, 0, CM_EV_UNREACHABLE, CM_SIDR_UNSUPPORTED);
	prog_free(q);
	pair_close(&p);
	fix_close(f);
}

static void who_comes_soon_is_found(void **state)
{
	struct fix *f = fix_open(8);
	struct pair p = pair_open(f);

	(void)state;
	f->dead[1] = true;
	fix_run(f, FIX_S);
	f->dead[1] = false;
	fix_run(f, 5 * FIX_S);
	pair_connect(f, &p);
	pair_close(&p);
	fix_close(f);
}

/* The client ends before it has the REP. */
static void nobody_takes_the_answer(void **state)
{
	struct fix *f = fix_open(9);
	struct pair p = pair_accepted(f);

	(void)state;
	kill_process(p.a);
	f->dead[0] = true;
	fix_run(f, 2 * FIX_S);
	fix_told(p.b, 0, CM_EV_REJECTED, CM_REJ_INVALID_ID);
	pair_close(&p);
	fix_close(f);
}

/* A stranger who knows our port can cause a refusal, but does not know what our MADs
 * contain. */
static void a_refusal_is_made_up(void **state)
{
	struct fix *f = fix_open(10);
	struct pair p = pair_open(f);
	struct conn *c;

	(void)state;
	pair_connect(f, &p);
	c = conn_of(p.a->conn);
	for (int i = 0; i < 60; i++) {
		struct cm_msg m = conn_msg(c, CM_RTU);
		uint8_t packet[GSI_PACKET];

		/* Each quoted MAD is wrong in one field; the last packet has no MAD. */
		m.tid ^= i % 4 == 0;
		m.remote_id ^= i % 4 == 1;
		m.local_id ^= i % 4 == 2 ? 0x100 : 0;
		memcpy(packet, f->last[0], sizeof(packet));
		cm_mad_build(packet + GSI_HDRS, &m);
		if (i % 4 == 3)
			packet[0] = 0x0a;
		refuse(f, packet);
		fix_run(f, FIX_S);
		assert_false(is_suspected(f, 0));
	}
	fix_run(f, 6 * FIX_S);
	assert_int_equal(f->refusals[0], 0); /* all of them were looked at */
	assert_int_equal(p.a->n, CONNECTED);
	pair_close(&p);
	fix_close(f);
}

/* Connects a to listener l; b accepts. */
static void join(struct fix *f, struct prog *a, struct prog *l, struct prog *b,
		 uint32_t qpn)
{
	fix_run(f, FIX_MS);
	fix_take(b, l, 0);
	l->n = 0;
	fix_accept(b, qpn, NULL);
	fix_run(f, FIX_MS);
	assert_int_equal(fix_established(a), 0);
	fix_run(f, FIX_MS);
}

static struct prog *connect_to(struct fix *f, uint8_t host, uint32_t qpn)
{
	struct cm_param self = { .qpn = qpn, .retry_count = 6 };
	struct prog *q = prog_new(f, 0);
	struct cm_target to;

	fix_target(&to, 0, FIX_SPACE);
	to.route.dst[15] = to.dst_ip[15] = host;
	assert_int_equal(cm_ib_proto.connect(fix_cm(f, 0), &to, &self, &q->owner,
					     &q->conn, f->now),
			 0);
	return q;
}

/* Of twenty hosts each second one is gone: more than can be suspected at one time if all
 * twenty were refused. */
static void one_host_is_gone_and_others_are_not(void **state)
{
	enum { N = 20 };
	struct fix *f = fix_open(11);
	struct prog *l = prog_new(f, 1), *a[N], *b[N];
	struct cm_listener *listener = fix_listen(l, FIX_SPACE, N);

	(void)state;
	for (int i = 0; i < N; i++) {
		a[i] = connect_to(f, (uint8_t)(10 + i), 0xa00001 + (uint32_t)i);
		b[i] = prog_new(f, 1);
		join(f, a[i], l, b[i], 2 + (uint32_t)i);
	}
	f->dead_host = 13;
	kill_process(b[3]);
	fix_run(f, 8 * FIX_S);
	for (int i = 0; i < N; i++)
		assert_int_equal(a[i]->n, i == 3 ? CONNECTED + 2 : CONNECTED);
	fix_told(a[3], CONNECTED, CM_EV_DISCONNECTED, 0);
	for (int i = 0; i < N; i++)
		if (i != 3)
			kill_process(b[i]);
	f->dead_host = 0;
	f->dead[1] = true;
	fix_run(f, 20 * FIX_S);
	for (int i = 0; i < N; i++) {
		fix_told(a[i], CONNECTED, CM_EV_DISCONNECTED, 0);
		prog_free(a[i]);
		prog_free(b[i]);
	}
	cm_unbind(fix_cm(f, 1), listener);
	prog_free(l);
	fix_close(f);
}

/* One connection's owner has no memory for the event: it is reported later. */
static void it_cannot_be_told_at_once(void **state)
{
	struct fix *f = fix_open(12);
	struct pair p = pair_open(f);

	(void)state;
	pair_connect(f, &p);
	kill_process(p.b);
	p.a->deaf = true;
	fix_run(f, 12 * FIX_S);
	p.a->deaf = false;
	fix_run(f, 6 * FIX_S);
	fix_told(p.a, CONNECTED, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

/* The peer has disconnected while no packet passed, and keeps its id. */
static void the_peer_is_done_with_it(void **state)
{
	struct fix *f = fix_open(13);
	struct pair p = pair_open(f);

	(void)state;
	pair_connect(f, &p);
	f->cut = true;
	assert_int_equal(fix_disconnect(p.a), 0);
	fix_run(f, 100 * FIX_S);
	fix_told(p.a, CONNECTED, CM_EV_DISCONNECTED, -ETIMEDOUT);
	assert_int_equal(p.b->n, CONNECTED);
	f->cut = false;
	fix_run(f, 5 * FIX_S + FIX_MS);
	fix_told(p.b, CONNECTED, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

/* All connections end together, and no more than some 50 a second are asked before
 * that. */
static void many_connections(bool is_host)
{
	enum { N = 400 };
	struct fix *f = fix_open(8);
	struct prog *l = prog_new(f, 1), *a[N], *b[N];
	struct cm_listener *listener = fix_listen(l, FIX_SPACE, 4);
	unsigned sent;

	for (int i = 0; i < N; i++) {
		a[i] = prog_new(f, 0);
		b[i] = prog_new(f, 1);
		fix_connect(a[i], FIX_SPACE, 0xa00001 + (uint32_t)i, NULL);
		join(f, a[i], l, b[i], 2 + (uint32_t)i);
	}
	sent = f->sent;
	fix_run(f, 60 * FIX_S);
	assert_in_range(f->sent - sent, 3 * 60 * 45, 3 * 60 * 65);
	f->dead[1] = is_host;
	for (int i = 0; i < N; i++)
		kill_process(b[i]);
	fix_run(f, 3 * FIX_S);
	for (int i = 0; i < N; i++) {
		fix_told(a[i], 1, CM_EV_DISCONNECTED, 0);
		prog_free(a[i]);
		prog_free(b[i]);
	}
	cm_unbind(fix_cm(f, 1), listener);
	prog_free(l);
	fix_close(f);
}

static void many_to_a_host(void **state)
{
	(void)state;
	many_connections(true);
}

static void many_to_a_process(void **state)
{
	(void)state;
	many_connections(false);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kept_answers_are_asked_nothing),
		cmocka_unit_test(who_lives_is_asked_and_no_more),
		cmocka_unit_test(a_process_is_killed),
		cmocka_unit_test(the_last_process_of_a_host_is_killed),
		cmocka_unit_test(a_host_is_gone_that_was_to_agree),
		cmocka_unit_test(a_refusal_proves_nothing),
		cmocka_unit_test(a_refusal_comes_late),
		cmocka_unit_test(a_word_takes_the_suspicion_away),
		cmocka_unit_test(nobody_is_there),
		cmocka_unit_test(who_comes_soon_is_found),
		cmocka_unit_test(nobody_takes_the_answer),
		cmocka_unit_test(a_refusal_is_made_up),
		cmocka_unit_test(one_host_is_gone_and_others_are_not),
		cmocka_unit_test(it_cannot_be_told_at_once),
		cmocka_unit_test(the_peer_is_done_with_it),
		cmocka_unit_test(many_to_a_host),
		cmocka_unit_test(many_to_a_process),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
