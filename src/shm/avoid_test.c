/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs that use the wire although their peer is on this host: both ends know it. */
#include "shm/fix.h"

static struct peers *peers_at(const struct fix *f, int side)
{
	return peers_of(&f->s->node[side].core);
}

static void a_way_is_settled_when_a_qp_begins(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	const uint32_t qpn = pair_qp(f, 0)->qpn;
	struct peers *l = peers_at(f, 0);

	(void)state;
	turn_is_held(&f->s->node[0].core);
	assert_false(peers_may_avoid(l));
	peers_begins(l, qpn); /* nobody has ever asked for it */
	assert_int_equal(peers_avoid(l, true), 0);
	assert_true(peers_may_avoid(l));
	/* What has begun before stays as it is. */
	assert_false(peers_uses_wire(l, qpn));
	assert_false(peers_avoids(pair_peer(f, 1), qpn));
	peers_begins(l, qpn);
	assert_true(peers_uses_wire(l, qpn));
	assert_true(peers_avoids(pair_peer(f, 1), qpn));
	assert_false(peers_avoids(pair_peer(f, 0), qpn));
	assert_int_equal(peers_avoid(l, false), 0);
	assert_true(peers_avoids(pair_peer(f, 1), qpn));
	peers_begins(l, qpn);
	assert_false(peers_uses_wire(l, qpn));
	assert_false(peers_avoids(pair_peer(f, 1), qpn));
	fix_close(f);
}

/* Datagrams know no beginning: they take the wire at once. */
static void datagrams_take_the_wire_at_once(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct peers *l = peers_at(f, 0);
	const uint16_t slot = f->s->node[1].core.slot;

	(void)state;
	assert_true(peers_has_pipe(l, slot));
	assert_int_equal(peers_avoid(l, true), 0);
	assert_false(peers_has_pipe(l, slot));
	assert_int_equal(peers_avoid(l, false), 0);
	assert_true(peers_has_pipe(l, slot));
	fix_close(f);
}

/* A peer that is met later is shown what was settled before. */
static void a_later_peer_is_shown(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);
	struct peers *l = peers_at(f, 0);
	struct peer *p = pair_peer(f, 0);
	atomic_bool *wires = p->wires;

	(void)state;
	assert_int_equal(peers_avoid(l, true), 0);
	p->wires = NULL;
	peers_begins(l, pair_qp(f, 0)->qpn);
	p->wires = wires;
	assert_false(peers_avoids(pair_peer(f, 1), pair_qp(f, 0)->qpn));
	avoid_show(p);
	assert_true(peers_avoids(pair_peer(f, 1), pair_qp(f, 0)->qpn));
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_way_is_settled_when_a_qp_begins),
		cmocka_unit_test(datagrams_take_the_wire_at_once),
		cmocka_unit_test(a_later_peer_is_shown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
