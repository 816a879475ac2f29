/* SPDX-License-Identifier: BSD-2-Clause */
/* Random lives of connections over a network that loses, repeats, delays and reorders:
 * each request gets one answer, both ends agree at the end, and nothing is left. A
 * seed repeats a run: sys/seeds_testing.h. */
#include <errno.h>
#include <stdio.h>

#include "cm/fix.h"
#include "sys/seeds_testing.h"

enum { SEEDS = 300, ASKERS = 12, STEPS = 120 };

struct life {
	struct fix *f;
	struct prog *l, *a[ASKERS], *b[ASKERS];
	struct cm_listener *listener;
	unsigned owned, cuts;
};

static bool chance(struct life *x, unsigned percent)
{
	return rand_below(&x->f->rng, 100) < percent;
}

static bool told(const struct prog *p, enum cm_event_type type)
{
	for (unsigned i = 0; p && i < p->n; i++)
		if (p->note[i].type == type)
			return true;
	return false;
}

static unsigned told_times(const struct prog *p, enum cm_event_type type)
{
	unsigned n = 0;

	for (unsigned i = 0; i < p->n; i++)
		n += p->note[i].type == type;
	return n;
}

/* What programs do at random times; a call may be refused, as an event may have come
 * before it. */
static void passive_step(struct life *x)
{
	struct cm_param yes = { .qpn = 0x500 + x->owned };

	if (x->owned < x->l->n && x->owned < ASKERS && chance(x, 50)) {
		struct prog *b = x->b[x->owned] = prog_new(x->f, 1);

		fix_take(b, x->l, x->owned++);
		return;
	}
	for (unsigned i = 0; i < x->owned; i++) {
		struct prog *b = x->b[i];

		if (!chance(x, 10))
			continue;
		yes.qpn = 0x500 + i;
		switch (rand_below(&x->f->rng, 6)) {
		case 0:
			(void)b->conn->proto->reject(b->conn, CM_REJ_CONSUMER, NULL, 0,
						     x->f->now);
			break;
		case 1:
			(void)b->conn->proto->disconnect(b->conn, x->f->now);
			break;
		default:
			(void)cm_accept(b->conn, &yes, &b->owner, x->f->now);
			break;
		}
	}
}

static void active_step(struct life *x, unsigned i)
{
	struct prog *a = x->a[i];

	if (!a->conn) {
		fix_connect(a, FIX_SPACE, 0x100 + i, "hello");
	} else if (told(a, CM_EV_RESPONSE)) {
		if (chance(x, 60))
			(void)a->conn->proto->established(a->conn, x->f->now);
		else if (chance(x, 50))
			(void)a->conn->proto->disconnect(a->conn, x->f->now);
		else if (chance(x, 10))
			(void)a->conn->proto->reject(a->conn, CM_REJ_CONSUMER, NULL, 0,
						     x->f->now);
	}
}

/* One answer, then one end. */
static void is_sane(const struct prog *p, bool active)
{
	unsigned bad = told_times(p, CM_EV_REJECTED) + told_times(p, CM_EV_UNREACHABLE);
	unsigned ends = bad + told_times(p, CM_EV_DISCONNECTED);

	assert_true(ends <= 1);
	assert_true(told_times(p, CM_EV_RESPONSE) <= (active ? 1u : 0u));
	assert_true(told_times(p, CM_EV_ESTABLISHED) <= (active ? 0u : 1u));
	assert_true(told_times(p, CM_EV_TIMEWAIT_EXIT) <= 1);
	if (told(p, CM_EV_TIMEWAIT_EXIT))
		assert_int_equal(p->note[p->n - 1].type, CM_EV_TIMEWAIT_EXIT);
	if (active && told(p, CM_EV_DISCONNECTED))
		assert_true(told(p, CM_EV_RESPONSE));
}

static unsigned total[CM_EV_TIMEWAIT_EXIT + 1];

static void sum_up(const struct prog *p)
{
	for (unsigned i = 0; i < p->n; i++)
		total[p->note[i].type]++;
}

/* The message of the peer's end may be lost for good; then this end finds out by
 * itself. */
static void wind_up(struct life *x, struct prog *b)
{
	struct cm_param yes = { .qpn = 0x600 };
	enum conn_state s = conn_of(b->conn)->state;

	assert_true(x->cuts || s != ST_ESTABLISHED);
	if (s == ST_REQ_RCVD)
		assert_int_equal(cm_accept(b->conn, &yes, &b->owner, x->f->now), 0);
	else if (s == ST_ESTABLISHED)
		assert_int_equal(b->conn->proto->disconnect(b->conn, x->f->now), 0);
}

static void all_come_to_an_end(struct life *x)
{
	/* The network heals, and programs answer what waits for them. */
	x->f->loss = x->f->again = 0;
	fix_run(x->f, 100 * FIX_S);
	for (unsigned i = 0; i < ASKERS; i++)
		is_sane(x->a[i], true);
	for (unsigned i = 0; i < x->owned; i++)
		is_sane(x->b[i], false);
	sum_up(x->l);
	for (unsigned i = 0; i < ASKERS; i++) {
		sum_up(x->a[i]);
		prog_free(x->a[i]);
	}
	fix_run(x->f, 100 * FIX_S);
	for (unsigned i = 0; i < x->owned; i++)
		wind_up(x, x->b[i]);
	fix_run(x->f, 100 * FIX_S);
	/* The peers learn of the end, whatever they were told before. */
	for (unsigned i = 0; i < x->owned; i++) {
		enum conn_state s = conn_of(x->b[i]->conn)->state;

		assert_true(s == ST_IDLE || s == ST_DREQ_RCVD);
		sum_up(x->b[i]);
		prog_free(x->b[i]);
	}
	for (unsigned i = x->owned; i < x->l->n; i++)
		cm_ib_proto.close(x->l->note[i].conn, x->f->now);
	cm_unbind(fix_cm(x->f, 1), x->listener);
	prog_free(x->l);
	fix_close(x->f);
}

static void live(uint64_t seed)
{
	struct life x = { .f = fix_open(seed) };

	x.f->loss = (uint32_t)rand_below(&x.f->rng, 400000);
	x.f->again = (uint32_t)rand_below(&x.f->rng, 200000);
	x.f->jitter = rand_below(&x.f->rng, 300 * FIX_MS);
	x.l = prog_new(x.f, 1);
	x.listener = fix_listen(x.l, FIX_SPACE, 1 + (int)rand_below(&x.f->rng, 8));
	for (unsigned i = 0; i < ASKERS; i++)
		x.a[i] = prog_new(x.f, 0);
	for (unsigned i = 0; i < STEPS; i++) {
		active_step(&x, (unsigned)rand_below(&x.f->rng, ASKERS));
		passive_step(&x);
		x.f->cut = rand_chance(&x.f->rng, 20000);
		x.cuts += x.f->cut;
		fix_run(x.f,
			x.f->cut ? 100 * FIX_S : rand_below(&x.f->rng, 400 * FIX_MS));
		x.f->cut = false;
	}
	for (unsigned i = 0; i < ASKERS; i++)
		if (!x.a[i]->conn)
			active_step(&x, i);
	all_come_to_an_end(&x);
}

static void random_lives(void **state)
{
	const struct seeds s = seeds_chosen(SEEDS);

	(void)state;
	for (uint64_t seed = s.first; seed <= s.last; seed++) {
		seed_show(seed);
		live(seed);
	}
	/* Every event occurred often. */
	for (unsigned i = 0; s.all && i <= CM_EV_TIMEWAIT_EXIT; i++)
		assert_true(total[i] > 100);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(random_lives),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
