/* SPDX-License-Identifier: BSD-2-Clause */
/* How a connection ends, and what becomes of connections whose owner lets go. */
#include <errno.h>

#include "cm/fix.h"
#include "sys/log_testing.h"

/* Steps of a connection: 0 REQ sent, 1 accepted, 2 REP arrived, 3 established, 4 DREQ on
 * its way, 5 DREQ arrived. */
static struct pair at_step(struct fix *f, int step)
{
	struct pair p = pair_open(f);

	fix_run(f, FIX_MS);
	fix_take(p.b, p.l, 0);
	if (step >= 1)
		fix_accept(p.b, 0xb00001, NULL);
	if (step >= 2)
		fix_run(f, FIX_MS);
	if (step >= 3) {
		assert_int_equal(fix_established(p.a), 0);
		fix_run(f, FIX_MS);
	}
	if (step >= 4)
		assert_int_equal(fix_disconnect(p.a), 0);
	if (step >= 5)
		fix_run(f, FIX_MS);
	return p;
}

static void let_go(struct prog **p)
{
	struct fix *f = (*p)->f;
	int side = (*p)->side;

	prog_free(*p);
	*p = prog_new(f, side);
}

static void the_passive_side_lets_go(void **state)
{
	static const struct {
		enum cm_event_type type;
		int status;
		unsigned n;
	} want[] = {
		{ CM_EV_REJECTED, CM_REJ_CONSUMER, 0 },
		{ CM_EV_REJECTED, CM_REJ_CONSUMER, 1 },
		{ CM_EV_REJECTED, CM_REJ_CONSUMER, 1 },
		{ CM_EV_DISCONNECTED, 0, 1 },
		{ CM_EV_DISCONNECTED, 0, 1 },
		{ CM_EV_DISCONNECTED, 0, 1 },
	};

	(void)state;
	for (int step = 0; step < 6; step++) {
		struct fix *f = fix_open(1);
		struct pair p = at_step(f, step);

		let_go(&p.b);
		fix_run(f, FIX_S);
		fix_told(p.a, want[step].n, want[step].type, want[step].status);
		pair_close(&p);
		fix_close(f);
	}
}

static void the_active_side_lets_go(void **state)
{
	(void)state;
	for (int step = 0; step < 6; step++) {
		struct fix *f = fix_open(1);
		struct pair p = at_step(f, step);

		let_go(&p.a);
		fix_run(f, FIX_S);
		if (step == 0) /* not accepted yet */
			assert_int_equal(p.b->n, 0);
		else if (step < 3)
			fix_told(p.b, 0, CM_EV_REJECTED,
				 step == 1 ? CM_REJ_TIMEOUT : CM_REJ_CONSUMER);
		else
			fix_told(p.b, 1, CM_EV_DISCONNECTED, 0);
		pair_close(&p);
		fix_close(f);
	}
}

/* Timewait is as long as Linux's: the path's ACK timeout. SPDK destroys an id a second
 * after its end, and hangs if TIMEWAIT_EXIT comes just then. */
static void timewait_is_the_ack_timeout(void **state)
{
	/* clang-format off */
	static const struct { uint8_t ack_timeout; uint64_t us; } wait[] = {
		{ 14, 67109 }, { 17, 536871 }, { 18, 1073742 }, { 19, 2147484 },
		{ 20, 2147484 }, { 31, 2147484 },
	};
	/* clang-format on */

	(void)state;
	for (unsigned i = 0; i < sizeof(wait) / sizeof(wait[0]); i++) {
		struct fix *f = fix_open(1);
		struct pair p = at_step(f, 3);

		conn_of(p.a->conn)->ack_timeout = wait[i].ack_timeout;
		assert_int_equal(fix_disconnect(p.a), 0);
		fix_run(f, FIX_MS);
		assert_int_equal(fix_disconnect(p.b), 0);
		/* The DREP arrives. */
		fix_run(f, f->delay);
		fix_told(p.a, 1, CM_EV_DISCONNECTED, 0);
		fix_run(f, wait[i].us * 1000 - 1000);
		assert_int_equal(p.a->n, 2);
		fix_run(f, 2000);
		fix_told(p.a, 2, CM_EV_TIMEWAIT_EXIT, 0);
		pair_close(&p);
		fix_close(f);
	}
}

static void both_at_once(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = at_step(f, 3);

	(void)state;
	assert_int_equal(fix_disconnect(p.a), 0);
	assert_int_equal(fix_disconnect(p.b), 0);
	fix_run(f, FIX_MS);
	fix_told(p.a, 1, CM_EV_DISCONNECTED, 0);
	fix_told(p.b, 1, CM_EV_DISCONNECTED, 0);
	fix_run(f, 3 * FIX_S);
	fix_told(p.a, 2, CM_EV_TIMEWAIT_EXIT, 0);
	fix_told(p.b, 2, CM_EV_TIMEWAIT_EXIT, 0);
	pair_close(&p);
	fix_close(f);
}

/* Both ends send DREQ and one DREQ is lost: the other serves as its answer. */
static void both_at_once_and_one_is_lost(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = at_step(f, 3);

	(void)state;
	f->lose = (int)f->sent;
	assert_int_equal(fix_disconnect(p.a), 0);
	assert_int_equal(fix_disconnect(p.b), 0);
	fix_run(f, FIX_MS);
	assert_int_equal(f->sent_type[CM_DREQ], 2);
	fix_told(p.a, 1, CM_EV_DISCONNECTED, 0);
	fix_told(p.b, 1, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

static void the_rtu_is_lost_and_the_end_comes(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = at_step(f, 2);

	(void)state;
	f->cut = true;
	assert_int_equal(fix_established(p.a), 0);
	fix_run(f, FIX_MS);
	f->cut = false;
	assert_int_equal(fix_disconnect(p.a), 0);
	fix_run(f, FIX_MS);
	fix_told(p.b, 0, CM_EV_ESTABLISHED, 0);
	fix_told(p.b, 1, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

/* An end that did not get the REP is told that there is no answer. */
static void the_reply_is_lost_and_the_end_comes(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = at_step(f, 0);

	(void)state;
	f->cut = true;
	fix_accept(p.b, 0xb00001, NULL);
	fix_run(f, 0);
	f->cut = false;
	assert_int_equal(fix_disconnect(p.b), 0);
	fix_run(f, FIX_S);
	fix_told(p.a, 0, CM_EV_REJECTED, CM_REJ_CONSUMER);
	fix_told(p.b, 0, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

static void nobody_agrees_to_the_end(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = at_step(f, 3);

	(void)state;
	f->cut = true;
	assert_int_equal(fix_disconnect(p.a), 0);
	fix_run(f, 72 * FIX_S);
	fix_told(p.a, 1, CM_EV_DISCONNECTED, -ETIMEDOUT);
	fix_told(p.a, 2, CM_EV_TIMEWAIT_EXIT, 0);
	f->cut = false;
	pair_close(&p);
	fix_close(f);
}

/* A peer that has forgotten the connection agrees to its end. */
static void the_peer_knows_nothing(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = at_step(f, 3);

	(void)state;
	f->cut = true;
	let_go(&p.b);
	fix_run(f, 80 * FIX_S);
	f->cut = false;
	assert_int_equal(fix_disconnect(p.a), 0);
	fix_run(f, FIX_MS);
	fix_told(p.a, 1, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

/* Here the death is certain; listen_test tests how it is found out. */
static void the_peers_process_dies(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = at_step(f, 3);

	(void)state;
	f->cut = true;
	ibcm_disconnected(conn_of(p.a->conn), f->now);
	fix_told(p.a, 1, CM_EV_DISCONNECTED, 0);
	fix_run(f, 3 * FIX_S);
	fix_told(p.a, 2, CM_EV_TIMEWAIT_EXIT, 0);
	assert_int_equal(f->sent_type[CM_DREQ], 1);
	f->cut = false;
	pair_close(&p);
	fix_close(f);
}

/* exit() tells all peers. */
static void this_process_ends(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = at_step(f, 3);

	(void)state;
	assert_false(cm_leave(f->cm[0], f->now));
	p.a->conn = NULL;
	fix_run(f, FIX_MS);
	fix_told(p.b, 1, CM_EV_DISCONNECTED, 0);
	pair_close(&p);
	fix_close(f);
}

/* exit() tells all peers, though QP1's queue holds fewer MADs. */
static void this_process_ends_with_many(void **state)
{
	enum { N = 2 * QP1_SENDS + 10, PORTION = 50 };
	struct fix *f = fix_open(1);
	struct prog *a[N];
	bool more = true;

	(void)state;
	f->cut = true;
	for (unsigned i = 0; i < N; i++) {
		a[i] = prog_new(f, 0);
		fix_connect(a[i], FIX_SPACE, 1 + i, NULL);
		if (i % PORTION == 0)
			fix_run(f, 0);
	}
	fix_run(f, 0);
	for (int i = 0; more; i++) {
		assert_true(i < 3);
		more = cm_leave(f->cm[0], f->now);
		fix_run(f, 0);
	}
	assert_int_equal(f->sent_type[CM_REJ], N);
	assert_int_equal(cm_counter(fix_cm(f, 0), CM_TX_FULL), 0);
	for (unsigned i = 0; i < N; i++)
		free(a[i]);
	fix_close(f);
}

/* An ID is reused late, with another generation. */
static void identifiers_rest(void **state)
{
	struct fix *f = fix_open(1);
	uint32_t first = 0;

	(void)state;
	for (unsigned i = 0; i <= CONN_CHUNK; i++) {
		struct prog *a = prog_new(f, 0);

		fix_connect(a, FIX_SPACE, 1, NULL);
		assert_int_equal(id_slot(conn_of(a->conn)->local_id), 7);
		if (i == 0)
			first = conn_of(a->conn)->local_id;
		else
			assert_int_not_equal(conn_of(a->conn)->local_id, first);
		if (i == CONN_CHUNK) /* the first connection's index */
			assert_int_equal(conn_of(a->conn)->local_id >> ID_GEN_BITS,
					 first >> ID_GEN_BITS);
		prog_free(a);
	}
	fix_close(f);
}

/* The name of a closed listener stays until its last half-open connection is over. */
static void the_listener_ends_first(void **state)
{
	struct fix *f = fix_open(1);
	struct pair p = at_step(f, 0);
	struct list *all = &fix_cm(f, 1)->listeners;

	(void)state;
	cm_unbind(fix_cm(f, 1), p.listener);
	assert_false(list_empty(all));
	fix_accept(p.b, 0xb00001, NULL);
	fix_run(f, FIX_MS);
	assert_false(list_empty(all));
	assert_int_equal(fix_established(p.a), 0);
	fix_run(f, FIX_MS);
	assert_true(list_empty(all));
	prog_free(p.l);
	prog_free(p.a);
	prog_free(p.b);
	fix_close(f);
}

/* However high they are. */
static void all_counters_are_logged(void **state)
{
	struct fix *f = fix_open(1);
	char text[2048];

	(void)state;
	for (int c = 0; c < CM_COUNTERS; c++)
		fix_cm(f, 0)->counter[c] = UINT64_MAX;
	LOGGED(text, "info", cm_log_counters(fix_cm(f, 0)));
	assert_non_null(
		strstr(text, " info: connection management: rx 18446744073709551615 "));
	assert_non_null(strstr(text, " iw_evicted 18446744073709551615\n"));
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_passive_side_lets_go),
		cmocka_unit_test(the_active_side_lets_go),
		cmocka_unit_test(timewait_is_the_ack_timeout),
		cmocka_unit_test(both_at_once),
		cmocka_unit_test(both_at_once_and_one_is_lost),
		cmocka_unit_test(the_listener_ends_first),
		cmocka_unit_test(the_rtu_is_lost_and_the_end_comes),
		cmocka_unit_test(the_reply_is_lost_and_the_end_comes),
		cmocka_unit_test(nobody_agrees_to_the_end),
		cmocka_unit_test(the_peer_knows_nothing),
		cmocka_unit_test(the_peers_process_dies),
		cmocka_unit_test(this_process_ends),
		cmocka_unit_test(this_process_ends_with_many),
		cmocka_unit_test(identifiers_rest),
		cmocka_unit_test(all_counters_are_logged),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
