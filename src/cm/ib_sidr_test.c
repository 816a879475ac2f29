/* SPDX-License-Identifier: BSD-2-Clause */
/* Which QP serves a datagram port? */
#include <errno.h>

#include "cm/fix.h"

static void a_port_has_a_qp(void **state)
{
	(void)state;
	for (int lose = -1; lose < 2; lose++) {
		struct fix *f = fix_open(1);
		struct prog *l = prog_new(f, 1), *b = prog_new(f, 1), *a = prog_new(f, 0);
		struct cm_listener *listener = fix_listen(l, FIX_UDP, 4);
		const struct note *n;

		f->lose = lose;
		fix_connect(a, FIX_UDP, 5, "who?");
		fix_run(f, (lose ? 1 : FIX_HOLD) * FIX_MS);
		n = fix_told(l, 0, CM_EV_REQUEST, 0);
		assert_true(n->from.datagram);
		assert_int_equal(n->peer.private_len, 180);
		assert_memory_equal(n->private, "who?", 5);
		fix_take(b, l, 0);
		fix_accept(b, 0xb00002, "me");
		fix_run(f, FIX_HOLD * FIX_MS);
		assert_int_equal(l->n, 1);
		n = fix_told(a, 0, CM_EV_ESTABLISHED, 0);
		assert_int_equal(n->peer.qpn, 0xb00002);
		assert_int_equal(n->peer.qkey, 0x1234);
		assert_int_equal(n->peer.private_len, 136);
		assert_memory_equal(n->private, "me", 3);
		assert_int_equal(a->n, 1);
		cm_unbind(fix_cm(f, 1), listener);
		prog_free(l);
		prog_free(a);
		prog_free(b);
		fix_close(f);
	}
}

/* A copy of the request comes after the answer went out: the program hears of one
 * request, even if it has closed that one. A copy that comes long after is a new request.
 */
static void a_copy_comes_after_the_answer(void **state)
{
	(void)state;
	for (int closed = 0; closed < 2; closed++) {
		struct fix *f = fix_open(1);
		struct prog *l = prog_new(f, 1), *b = prog_new(f, 1), *a = prog_new(f, 0);
		struct cm_listener *listener = fix_listen(l, FIX_UDP, 4);
		struct cm_msg m;
		int before;

		fix_connect(a, FIX_UDP, 5, NULL);
		fix_run(f, FIX_MS);
		assert_int_equal(cm_mad_parse(&m, f->last[0] + GSI_HDRS, MAD_LEN), 0);
		assert_int_equal(m.type, CM_SIDR_REQ);
		fix_take(b, l, 0);
		fix_accept(b, 0xb00002, NULL);
		fix_run(f, FIX_MS);
		fix_told(a, 0, CM_EV_ESTABLISHED, 0);
		if (closed)
			prog_free(b);
		before = (int)f->sent_type[CM_SIDR_REP];
		fix_mad(f, 1, 1, &m);
		fix_run(f, FIX_MS);
		assert_int_equal(l->n, 1);
		assert_int_equal(f->sent_type[CM_SIDR_REP], before + 1);
		assert_int_equal(a->n, 1);
		fix_run(f, 3 * FIX_S);
		fix_mad(f, 1, 1, &m);
		fix_run(f, FIX_MS);
		assert_int_equal(l->n, 2);
		l->note[1].conn->proto->close(l->note[1].conn, f->now);
		cm_unbind(fix_cm(f, 1), listener);
		prog_free(l);
		prog_free(a);
		if (!closed)
			prog_free(b);
		fix_close(f);
	}
}

/* Answers that are kept do not use up the connections. */
static void so_many_answers_are_kept(void **state)
{
	struct fix *f = fix_open(1);
	struct prog *l = prog_new(f, 1);
	struct cm_listener *listener = fix_listen(l, FIX_UDP, 4);
	struct cm *cm = fix_cm(f, 1);
	unsigned used;

	(void)state;
	cm->answered = ANSWERS_MAX - 1;
	for (unsigned i = 0; i < 3; i++) {
		struct prog *a = prog_new(f, 0), *b = prog_new(f, 1);

		fix_connect(a, FIX_UDP, 5, NULL);
		fix_run(f, FIX_MS);
		fix_take(b, l, i);
		fix_accept(b, 0xb00002, NULL);
		fix_run(f, FIX_MS);
		fix_told(a, 0, CM_EV_ESTABLISHED, 0);
		used = cm->used - cm->free_n;
		prog_free(b);
		assert_int_equal(cm->used - cm->free_n, used - (i > 0));
		assert_int_equal(cm->answered, ANSWERS_MAX);
		prog_free(a);
	}
	fix_run(f, 3 * FIX_S);
	assert_int_equal(cm->answered, ANSWERS_MAX - 1);
	cm_unbind(cm, listener);
	prog_free(l);
	fix_close(f);
}

static void no_such_port(void **state)
{
	struct fix *f = fix_open(1);
	struct prog *a = prog_new(f, 0), *l = prog_new(f, 1);
	struct cm_listener *listener = fix_listen(l, FIX_SPACE, 4);

	(void)state;
	fix_connect(a, FIX_UDP, 5, NULL);
	fix_run(f, 60 * FIX_MS);
	fix_told(a, 0, CM_EV_UNREACHABLE, CM_SIDR_UNSUPPORTED);
	assert_int_equal(l->n, 0);
	cm_unbind(fix_cm(f, 1), listener);
	prog_free(a);
	prog_free(l);
	fix_close(f);
}

static void rejected(void **state)
{
	struct fix *f = fix_open(1);
	struct prog *a = prog_new(f, 0), *l = prog_new(f, 1);
	struct cm_listener *listener = fix_listen(l, FIX_UDP, 4);

	(void)state;
	fix_connect(a, FIX_UDP, 5, NULL);
	fix_run(f, FIX_MS);
	l->note[0].conn->proto->close(l->note[0].conn, f->now);
	fix_run(f, FIX_MS);
	fix_told(a, 0, CM_EV_UNREACHABLE, CM_SIDR_REJECT);
	cm_unbind(fix_cm(f, 1), listener);
	prog_free(a);
	prog_free(l);
	fix_close(f);
}

/* The request comes again while the program decides, perhaps by way of another process:
 * the name leads here although the listener is gone. */
static void the_listener_ends_first(void **state)
{
	struct fix *f = fix_open(1);
	struct prog *a = prog_new(f, 0), *l = prog_new(f, 1), *b = prog_new(f, 1);
	struct cm_listener *listener = fix_listen(l, FIX_UDP, 4);
	struct list *all = &fix_cm(f, 1)->listeners;

	(void)state;
	fix_connect(a, FIX_UDP, 5, NULL);
	fix_run(f, FIX_MS);
	fix_take(b, l, 0);
	cm_unbind(fix_cm(f, 1), listener);
	assert_false(list_empty(all));
	fix_run(f, FIX_S);
	fix_accept(b, 0xb00002, NULL);
	assert_true(list_empty(all));
	fix_run(f, FIX_MS);
	fix_told(a, 0, CM_EV_ESTABLISHED, 0);
	prog_free(a);
	prog_free(l);
	prog_free(b);
	fix_close(f);
}

static void nobody_answers(void **state)
{
	struct fix *f = fix_open(1);
	struct prog *a = prog_new(f, 0);

	(void)state;
	f->cut = true;
	fix_connect(a, FIX_UDP, 5, NULL);
	fix_run(f, 70 * FIX_S);
	fix_told(a, 0, CM_EV_UNREACHABLE, -ETIMEDOUT);
	prog_free(a);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_port_has_a_qp),
		cmocka_unit_test(a_copy_comes_after_the_answer),
		cmocka_unit_test(so_many_answers_are_kept),
		cmocka_unit_test(no_such_port),
		cmocka_unit_test(rejected),
		cmocka_unit_test(the_listener_ends_first),
		cmocka_unit_test(nobody_answers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
