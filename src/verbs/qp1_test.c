/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/qp1.h"

#include "verbs/due.h"
#include "verbs/qp_fixture.h"

static struct link other_link;

static void take(const struct qp1_user *by, const struct qp1_mad *m, uint64_t now)
{
	(void)by;
	(void)m;
	(void)now;
	fail();
}

static const struct qp1_user user = { take };

static struct link_to to_peer(const struct fix *t)
{
	return (struct link_to){
		.grh = true,
		.sgid = t->dev->port.gid[0].gid.raw,
		.dgid = t->dev->port.gid[0].gid.raw,
		.told = true,
	};
}

static void each_link_has_one(void **state)
{
	struct qp1 *a, *b;
	struct fix *t;

	(void)state;
	t = fix_open(8);
	assert_null(qp1_of(&t->core, &test_link));
	assert_int_equal(qp1_open(&t->core, NULL, &test_link, &fake_transport, &user, &a),
			 0);
	assert_int_equal(qp1_open(&t->core, t->dev, &other_link, &fake_transport, &user,
				  &b),
			 0);
	assert_ptr_equal(qp1_of(&t->core, &test_link), a);
	assert_ptr_equal(qp1_of(&t->core, &other_link), b);
	for (int i = 0; i < 2; i++) {
		const struct qp *qp = qp1_qp(i ? b : a);

		turn_is_held(&t->core);
		assert_int_equal(qp->qpn, 1);
		assert_int_equal(qp->state, IBV_QPS_RTS);
		assert_int_equal(qp->attr.qkey, 0x80010000);
		assert_int_equal(qp_hears(qp, 0xffff), 0);
		assert_int_equal(qp_hears(qp, 0x8001), -1);
		/* QP1 cannot be found like a program's QP. */
		assert_null(qp_find(&t->core, qp->qpn));
	}
	assert_int_equal(t->core.qps.count, 0);
	qp1_close(b);
	qp1_close(a);
	assert_null(qp1_of(&t->core, &test_link));
	assert_int_equal(t->core.counts.cqs, 2);
	fix_close(t);
}

/* qp1_send() copies the MAD; QP1_SENDS of them may wait, and leave in their order. */
static void it_sends(void **state)
{
	uint8_t mad[QP1_MAD] = { 0 };
	struct link_to to;
	struct fix *t;
	struct swqe *w;
	struct qp1 *q;
	struct qp *qp;

	(void)state;
	t = fix_open(8);
	to = to_peer(t);
	assert_int_equal(qp1_open(&t->core, NULL, &test_link, &fake_transport, &user, &q),
			 0);
	qp = qp1_qp(q);
	for (unsigned i = 0; i < QP1_SENDS; i++) {
		assert_true(qp1_has_room(q));
		assert_int_equal(qp1_psn(q), i);
		mad[0] = (uint8_t)i;
		assert_int_equal(qp1_send(q, &to, 0, mad), 0);
	}
	assert_true(due_any(&t->core));
	assert_false(qp1_has_room(q));
	assert_int_equal(qp1_send(q, &to, 0, mad), -ENOMEM);
	assert_int_equal(qp1_psn(q), QP1_SENDS);
	w = sq_at(&qp->sq, 7);
	assert_int_equal(w->length, QP1_MAD);
	assert_int_equal(*(uint8_t *)(uintptr_t)sq_sges(&qp->sq, 7)->addr, 7);
	assert_int_equal(w->ud.qpn, 1);
	assert_int_equal(w->ud.qkey, 0x80010000);
	assert_ptr_equal(w->ud.path.link, &test_link);
	assert_int_equal(w->flags & IBV_SEND_SIGNALED, 0);
	qp_is_held(qp);
	/* What has gone makes room, though nobody polls for it. */
	for (int i = 0; i < QP1_SENDS; i++)
		sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, 0);
	for (int i = 0; i < QP1_SENDS; i++)
		assert_int_equal(qp1_send(q, &to, 0, mad), 0);
	assert_false(qp1_has_room(q));
	sq_complete(qp, IBV_WC_SUCCESS, VERR_NONE, 0);
	/* The P_Key's entry is free. */
	assert_int_equal(qp1_send(q, &to, 1, mad), -EINVAL);
	assert_int_equal(qp1_send(q, &to, PKEY_TABLE, mad), -EINVAL);
	to.dgid = (uint8_t[16]){ 0 };
	assert_int_equal(qp1_send(q, &to, 0, mad), -EINVAL);
	assert_true(qp1_has_room(q));
	qp1_close(q);
	assert_false(due_any(&t->core));
	fix_close(t);
}

static void a_transport_may_refuse(void **state)
{
	struct fix *t;
	struct qp1 *q;

	(void)state;
	t = fix_open(8);
	fake.open_rc = -ENOMEM;
	assert_int_equal(qp1_open(&t->core, NULL, &test_link, &fake_transport, &user, &q),
			 -ENOMEM);
	fake.open_rc = 0;
	fake.enter_rc = -ENOMEM;
	assert_int_equal(qp1_open(&t->core, NULL, &test_link, &fake_transport, &user, &q),
			 -ENOMEM);
	fake.enter_rc = 0;
	assert_true(list_empty(&t->core.qp1s));
	assert_int_equal(t->core.counts.cqs, 2);
	fix_close(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_link_has_one),
		cmocka_unit_test(it_sends),
		cmocka_unit_test(a_transport_may_refuse),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
