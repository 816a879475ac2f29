/* SPDX-License-Identifier: BSD-2-Clause */
/* What a connection does when messages are lost or repeated, or a program takes
 * its time. */
#include <errno.h>

#include "cm/fix.h"

/* --- loss and repetition ------------------------------------------------- */

enum { MADS = 12 }; /* REQs, MRAs ... DREP, DREP again */

/* A connection from REQ to DREP, in which the n-th MAD is lost or comes twice. The
 * network takes 100 us, so no step may take longer than a few quick tries. */
static void live(int lose, int repeat)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);
	unsigned a, b;

	f->hold = FIX_HOLD * FIX_MS;
	f->lose = lose;
	f->repeat = repeat;
	pair_connect(f, &p);
	assert_int_equal(fix_disconnect(p.a), 0);
	fix_run(f, FIX_HOLD * FIX_MS);
	fix_told(p.b, 1, CM_EV_DISCONNECTED, 0);
	assert_int_equal(fix_disconnect(p.b), 0);
	fix_run(f, FIX_HOLD * FIX_MS);
	fix_told(p.a, 1, CM_EV_DISCONNECTED, 0);
	fix_run(f, 5 * FIX_S);
	a = p.a->n;
	b = p.b->n;
	fix_told(p.a, a - 1, CM_EV_TIMEWAIT_EXIT, 0);
	fix_told(p.b, b - 1, CM_EV_TIMEWAIT_EXIT, 0);
	assert_int_equal(a, 3);
	assert_int_equal(b, 3);
	assert_int_equal(p.l->n, 1);
	assert_in_range(f->sent, 7, MADS);
	pair_close(&p);
	fix_close(f);
}

static void each_is_lost(void **state)
{
	(void)state;
	for (int i = 0; i < MADS; i++)
		live(i, -1);
}

static void each_comes_twice(void **state)
{
	(void)state;
	for (int i = 0; i < MADS; i++)
		live(-1, i);
}

/* A REQ that comes again is answered with the REP, before the REP's own timer. */
static void a_reply_is_asked_for(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);

	(void)state;
	fix_run(f, 20 * FIX_MS);
	fix_take(p.b, p.l, 0);
	f->lose = (int)f->sent;
	fix_accept(p.b, 2, NULL);
	fix_run(f, 10 * FIX_MS);
	assert_int_equal(p.a->n, 0);
	fix_run(f, 40 * FIX_MS);
	fix_told(p.a, 0, CM_EV_RESPONSE, 0);
	pair_close(&p);
	fix_close(f);
}

/* A copy of a REQ comes after the program has rejected it: the peer hears the same again,
 * and the program nothing. A copy that comes long after is a new request. */
static void a_rejected_request_comes_again(void **state)
{
	(void)state;
	for (int closed = 0; closed < 2; closed++) {
		struct fix *f = fix_open(1);
		struct pair p = pair_open(f);
		struct cm_msg req, rej;

		fix_run(f, FIX_MS);
		assert_int_equal(cm_mad_parse(&req, f->last[0] + GSI_HDRS, MAD_LEN), 0);
		assert_int_equal(req.type, CM_REQ);
		fix_take(p.b, p.l, 0);
		assert_int_equal(p.b->conn->proto->reject(p.b->conn, 28, "no", 3, f->now),
				 0);
		fix_run(f, FIX_MS);
		fix_told(p.a, 0, CM_EV_REJECTED, 28);
		if (closed) {
			prog_free(p.b);
			p.b = prog_new(f, 1);
		}
		fix_mad(f, 1, 1, &req);
		fix_run(f, FIX_MS);
		assert_int_equal(p.l->n, 1);
		assert_int_equal(f->sent_type[CM_REJ], 2);
		assert_int_equal(cm_mad_parse(&rej, f->last[1] + GSI_HDRS, MAD_LEN), 0);
		assert_int_equal(rej.reason, 28);
		assert_memory_equal(rej.private, "no", 3);
		assert_int_equal(p.a->n, 1);
		fix_run(f, 3 * FIX_S);
		fix_mad(f, 1, 1, &req);
		fix_run(f, FIX_MS);
		assert_int_equal(p.l->n, 2);
		p.l->note[1].conn->proto->close(p.l->note[1].conn, f->now);
		pair_close(&p);
		fix_close(f);
	}
}

static void nobody_answers(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);

	(void)state;
	f->cut = true;
	fix_run(f, 68 * FIX_S);
	assert_int_equal(p.a->n, 0);
	fix_run(f, 2 * FIX_S);
	fix_told(p.a, 0, CM_EV_UNREACHABLE, -ETIMEDOUT);
	/* 1 + 15 tries, and 6 more within the first interval, ever more rarely. */
	assert_int_equal(f->sent_type[CM_REQ], 1 + 15 + 6);
	assert_int_equal(f->sent_type[CM_REJ], 1);
	assert_int_equal(p.l->n, 0);
	pair_close(&p);
	fix_close(f);
}

static void a_reply_is_not_answered(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);

	(void)state;
	fix_run(f, FIX_MS);
	fix_take(p.b, p.l, 0);
	f->cut = true;
	fix_accept(p.b, 2, NULL);
	fix_run(f, 80 * FIX_S);
	fix_told(p.b, 0, CM_EV_UNREACHABLE, -ETIMEDOUT);
	assert_int_equal(p.b->n, 1);
	pair_close(&p);
	fix_close(f);
}

static void cannot_accept(struct prog *p)
{
	const struct cm_param self = { .qpn = 2 };

	assert_int_equal(cm_accept(p->conn, &self, &p->owner, p->f->now), -EINVAL);
	assert_int_equal(p->n, 0);
}

/* A peer that gives up says so, even to a peer whose ID it never learned. A program that
 * has not accepted yet gets no event; accepting fails. */
static void given_up(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);

	(void)state;
	fix_run(f, FIX_MS);
	fix_take(p.b, p.l, 0);
	prog_free(p.a);
	fix_run(f, FIX_MS);
	assert_int_equal(conn_of(p.b->conn)->state, ST_IDLE);
	cannot_accept(p.b);
	p.a = prog_new(f, 0);
	pair_close(&p);
	fix_close(f);
}

/* --- slow programs ------------------------------------------------------- */

static void a_slow_listener_asks_for_time(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);

	(void)state;
	fix_run(f, 30 * FIX_S);
	assert_int_equal(p.a->n, 0);
	assert_in_range(f->sent_type[CM_MRA], 1, 9);
	assert_int_equal(f->sent_type[CM_REQ], f->sent_type[CM_MRA] + 1);
	fix_take(p.b, p.l, 0);
	fix_accept(p.b, 2, NULL);
	fix_run(f, FIX_MS);
	fix_told(p.a, 0, CM_EV_RESPONSE, 0);
	assert_int_equal(fix_established(p.a), 0);
	fix_run(f, FIX_MS);
	fix_told(p.b, 0, CM_EV_ESTABLISHED, 0);
	pair_close(&p);
	fix_close(f);
}

static void a_slow_client_asks_for_time(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_accepted(f);

	(void)state;
	fix_run(f, 30 * FIX_S);
	assert_in_range(f->sent_type[CM_MRA], 1, 9);
	assert_int_equal(f->sent_type[CM_REP], f->sent_type[CM_MRA] + 1);
	assert_int_equal(fix_established(p.a), 0);
	fix_run(f, FIX_MS);
	fix_told(p.b, 0, CM_EV_ESTABLISHED, 0);
	pair_close(&p);
	fix_close(f);
}

/* After an MRA the answer is still asked for soon. */
static void the_rtu_after_an_mra_is_lost(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_accepted(f);

	(void)state;
	fix_run(f, FIX_HOLD * FIX_MS);
	assert_int_equal(f->sent_type[CM_MRA], 1);
	f->lose = (int)f->sent;
	assert_int_equal(fix_established(p.a), 0);
	fix_run(f, FIX_S);
	fix_told(p.b, 0, CM_EV_ESTABLISHED, 0);
	pair_close(&p);
	fix_close(f);
}

/* The first data of the peer replaces a lost RTU. */
static void established_by_what_came(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_accepted(f);

	(void)state;
	fix_run(f, FIX_MS);
	f->cut = true;
	assert_int_equal(fix_established(p.a), 0);
	fix_run(f, FIX_MS);
	assert_int_equal(fix_established(p.b), 0);
	fix_told(p.b, 0, CM_EV_ESTABLISHED, 0);
	f->cut = false;
	fix_run(f, 3 * FIX_S); /* nothing is sent again */
	assert_int_equal(p.b->n, 1);
	assert_int_equal(f->sent_type[CM_REP], 1);
	pair_close(&p);
	fix_close(f);
}

static void the_request_waits_while_its_sender_ends(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = pair_open(f);

	(void)state;
	fix_run(f, FIX_MS);
	prog_free(p.a);
	p.a = prog_new(f, 0);
	fix_run(f, FIX_MS);
	assert_int_equal(p.l->n, 1);
	fix_take(p.b, p.l, 0);
	cannot_accept(p.b);
	pair_close(&p);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_is_lost),
		cmocka_unit_test(each_comes_twice),
		cmocka_unit_test(a_reply_is_asked_for),
		cmocka_unit_test(a_rejected_request_comes_again),
		cmocka_unit_test(nobody_answers),
		cmocka_unit_test(a_reply_is_not_answered),
		cmocka_unit_test(given_up),
		cmocka_unit_test(a_slow_listener_asks_for_time),
		cmocka_unit_test(a_slow_client_asks_for_time),
		cmocka_unit_test(the_rtu_after_an_mra_is_lost),
		cmocka_unit_test(established_by_what_came),
		cmocka_unit_test(the_request_waits_while_its_sender_ends),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
