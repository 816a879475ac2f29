/* SPDX-License-Identifier: BSD-2-Clause */
/* Random lives of iWARP connections over streams that cut, delay, damage and break:
 * events come in order, and nothing is left. A seed repeats a run:
 * sys/seeds_testing.h. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cm/iw_int.h"
#include "iwarp/sim.h"
#include "net/dgram.h"
#include "sys/seeds_testing.h"

enum { SEEDS = 800, STEPS = 150, EVENTS = 8 };

struct prog {
	struct cm_owner owner;
	unsigned n;
	enum cm_event_type told[EVENTS];
	bool attached, parted;
	struct cm_conn *conn;
};

static struct life {
	struct sim *s;
	struct sim_pair p;
	struct cm *cm[2];
	struct cm_listener *l;
	struct prog listener, prog[2];
	struct stream *stream; /* the initiator's */
	struct prng rng;
	unsigned damage; /* bytes in a thousand */
} t;

static unsigned total[CM_EV_FAILED + 1];

static bool chance(unsigned percent)
{
	return rand_below(&t.rng, 100) < percent;
}

static bool on_event(struct cm_owner *owner, const struct cm_event *ev)
{
	struct prog *p = (struct prog *)owner;

	if (p == &t.listener) {
		if (chance(10))
			return false; /* no memory */
		p->conn = ev->conn;
	}
	assert_true(p->n < EVENTS);
	p->told[p->n++] = ev->type;
	total[ev->type]++;
	return true;
}

static void damage(void *arg, uint8_t *at, size_t n)
{
	(void)arg;
	for (size_t i = 0; i < n; i++)
		if (rand_below(&t.rng, 1000) < t.damage)
			at[i] ^= (uint8_t)(1u << rand_below(&t.rng, 8));
}

static void tick(uint64_t ns)
{
	for (int i = 0; i < 2; i++) {
		list_for_safe(n, &t.cm[i]->iw->all)
		{
			struct iwc *c = container_of(n, struct iwc, node);

			/* In ASKED the descriptor only tells that the peer is gone. */
			if (c->state != IWC_ASKED || rand_below(&t.rng, 1000) == 0)
				iwc_progress(c, t.s->now);
		}
		cm_run(t.cm[i], t.s->now);
	}
	sim_run(t.s, 1);
	t.s->now += ns;
}

static void start(uint64_t seed)
{
	struct stream_loop_conf conf = { .latency = 100000,
					 .jitter = 300000,
					 .seed = seed };
	struct cm_service service = { .space = 0x0106, .port = 7471, .any = true };
	struct cm_target from = { .src_port = 7471, .iwarp = true };
	struct stream *peer;
	struct iwc *c;

	memset(&t, 0, sizeof(t));
	rand_seed(&t.rng, seed);
	t.s = sim_open();
	t.p = sim_pair(t.s, NULL);
	t.listener.owner.event = t.prog[0].owner.event = t.prog[1].owner.event = on_event;
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cm_open(&t.cm[i], &t.s->node[i].core, NULL, NULL, seed),
				 0);
	}
	assert_int_equal(cm_bind(t.cm[1], &service, &t.l), 0);
	assert_int_equal(cm_listen(t.cm[1], t.l, 2, false, &t.listener.owner), 0);
	assert_int_equal(stream_loop_pair(&t.stream, &peer, &conf), 0);
	t.damage = chance(20) ? 5 : 0;
	stream_loop_tap(t.stream, damage, NULL);
	stream_loop_tap(peer, damage, NULL);
	c = iwc_new(t.cm[0]);
	assert_non_null(c);
	c->base.owner = &t.prog[0].owner;
	c->fallback = chance(30); /* otherwise c tries again, in vain */
	c->qpn = t.p.qp[0]->qpn;
	c->ird = c->ord = 4;
	t.prog[0].conn = &c->base;
	iwc_ask(c, t.stream, t.s->now);
	(void)iwc_come(t.l, peer, &from, t.s->now);
}

static void attach(struct prog *p)
{
	if (!cm_iw_proto.attach(p->conn, t.s->now))
		p->attached = true;
}

/* What programs do at any time; each call may be refused. */
static void act(struct prog *p, int side)
{
	struct cm_param self = { .qpn = t.p.qp[side]->qpn,
				 .resources = 4,
				 .depth = 4,
				 .private = "data",
				 .private_len = 4 };

	switch (rand_below(&t.rng, 9)) {
	case 0:
	case 1:
	case 2:
		if (!side && p->n)
			attach(p);
		else if (side && !cm_accept(p->conn, &self, &p->owner, t.s->now))
			p->attached = true;
		break;
	case 3:
		p->parted = true;
		(void)cm_iw_proto.disconnect(p->conn, t.s->now);
		break;
	case 4:
		if (chance(30))
			(void)cm_iw_proto.reject(p->conn, 0, "no", 2, t.s->now);
		break;
	case 5:
		(void)cm_iw_proto.established(p->conn, t.s->now);
		break;
	case 6:
		if (!chance(10))
			break;
		cm_iw_proto.close(p->conn, t.s->now);
		p->conn = NULL;
		break;
	case 7:
		if (chance(20)) {
			p->parted = true;
			sim_modify(t.s, t.p.qp[side], IBV_QPS_ERR);
		}
		break;
	default:
		break;
	}
}

static void own(void)
{
	t.prog[1].conn = t.listener.conn;
	t.listener.conn = NULL;
	cm_taken(t.cm[1], t.prog[1].conn);
}

/* One answer, then an end if there was a connection. */
static void judge(const struct prog *p, int side)
{
	for (unsigned i = 0; i < p->n; i++) {
		bool first = i == 0;

		switch (p->told[i]) {
		case CM_EV_RESPONSE:
			assert_true(first && !side);
			break;
		case CM_EV_ESTABLISHED:
			assert_true(first && side);
			break;
		case CM_EV_REJECTED:
			assert_true(first && !side);
			break;
		case CM_EV_DISCONNECTED:
			/* The end may come before the RTR. */
			assert_true(p->attached && (i == 1 || (side && p->parted)));
			break;
		case CM_EV_UNREACHABLE:
		case CM_EV_FAILED:
			assert_true(first);
			break;
		case CM_EV_PATH:
		case CM_EV_GROUP:
		case CM_EV_REQUEST:
		case CM_EV_TIMEWAIT_EXIT:
			fail();
			break;
		}
	}
}

static void finish(void)
{
	struct prog *all[] = { &t.prog[0], &t.prog[1], &t.listener };

	cm_unbind(t.cm[1], t.l);
	for (int i = 0; i < 3; i++)
		if (all[i]->conn)
			cm_iw_proto.close(all[i]->conn, t.s->now);
	for (int i = 0; i < 100; i++)
		tick(100 * MS);
	sim_unpair(&t.p);
	tick(MS);
	for (int i = 0; i < 2; i++) {
		judge(&t.prog[i], i);
		assert_int_equal(t.cm[i]->iw->n, 0);
		assert_int_equal(t.cm[i]->iw->half_n, 0);
		assert_int_equal(cm_deadline(t.cm[i]), NEVER);
		cm_close(t.cm[i]);
	}
	sim_close(t.s);
}

static void live(uint64_t seed)
{
	start(seed);
	for (int i = 0; i < STEPS; i++) {
		tick(MS / 2);
		if (t.listener.conn && chance(30))
			own();
		for (int side = 0; side < 2; side++)
			if (t.prog[side].conn && chance(8))
				act(&t.prog[side], side);
		if (chance(1) && chance(20))
			tick(90 * SEC);
	}
	finish();
}

static void random_lives(void **state)
{
	const struct seeds s = seeds_chosen(SEEDS);

	(void)state;
	for (uint64_t seed = s.first; seed <= s.last; seed++) {
		seed_show(seed);
		live(seed);
	}
	for (unsigned i = 0; s.all && i <= CM_EV_FAILED; i++)
		assert_true(i == CM_EV_TIMEWAIT_EXIT || i == CM_EV_PATH ||
			    i == CM_EV_GROUP || total[i] > 5);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(random_lives) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
