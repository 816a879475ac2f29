/* SPDX-License-Identifier: BSD-2-Clause */
/* race_random_test.c - race.c against a list of all accesses, each of which says for
 * itself what it is known by.  A small shadow may miss, and never invents.  A seed
 * repeats a run: sys/seeds_testing.h. */
#include "check/race.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "sys/rand.h"
#include "sys/seeds_testing.h"

enum { QUEUES = 4, KINDS = RACE_ANSWERS + 1, STEPS = 3000, SPACES = 2 };

struct known {
	struct race_access a;
	uint64_t number;
	bool over;  /* somebody may know that it was executed */
	bool fence; /* a fence was posted behind it */
};

/* The newest access that is met, of each queue and kind */
struct meeting {
	uint64_t newest[QUEUES][KINDS];
};

struct world {
	struct prng rand;
	struct race *r;
	uint32_t queue[QUEUES];
	struct known known[STEPS];
	unsigned n;
	uint64_t number;
	unsigned met;
};

static uint64_t below(struct world *w, uint64_t n)
{
	return rand_u64(&w->rand) % n;
}

/* Lengths of all levels, at few places. */
static struct race_access any(struct world *w)
{
	const uint64_t len = 1ull << below(w, 28);

	return (struct race_access){
		.space = below(w, SPACES),
		.at = 0x7f0000000000 + below(w, 1ull << (8 + below(w, 20))),
		.len = len + below(w, len),
		.queue = w->queue[below(w, QUEUES)],
		.kind = (enum race_kind)below(w, KINDS),
		.tag = below(w, 1000),
	};
}

static bool writes(const struct race_access *a)
{
	return a->kind == RACE_WRITES || a->kind == RACE_ANSWERS;
}

static bool race(const struct known *k, const struct race_access *a)
{
	const struct race_access *o = &k->a;

	if (k->over || o->space != a->space || o->at >= a->at + a->len ||
	    a->at >= o->at + o->len || (!writes(o) && !writes(a)))
		return false;
	if (o->queue != a->queue)
		return true;
	return o->kind == RACE_ANSWERS && a->kind != RACE_ANSWERS && !k->fence;
}

static unsigned place_of(const struct world *w, uint32_t queue)
{
	unsigned i = 0;

	while (w->queue[i] != queue)
		i++;
	return i;
}

struct taken {
	struct world *w;
	struct meeting m;
};

static void take(const struct race_access *open, uint64_t number, void *arg)
{
	struct taken *t = arg;
	uint64_t *newest = &t->m.newest[place_of(t->w, open->queue)][open->kind];

	if (*newest < number)
		*newest = number;
}

static void expect(struct world *w, const struct race_access *a, struct meeting *m)
{
	memset(m, 0, sizeof(*m));
	for (unsigned i = 0; i < w->n; i++)
		if (race(&w->known[i], a))
			m->newest[place_of(w, w->known[i].a.queue)][w->known[i].a.kind] =
				w->known[i].number;
}

static void post(struct world *w, bool small)
{
	const struct race_access a = any(w);
	struct taken t = { .w = w };
	struct meeting m;

	w->number = race_post(w->r);
	expect(w, &a, &m);
	w->met += race_meet(w->r, &a, take, &t);
	if (!small)
		assert_memory_equal(&t.m, &m, sizeof(m));
	for (int q = 0; q < QUEUES; q++)
		for (int k = 0; k < KINDS; k++)
			assert_true(t.m.newest[q][k] <= m.newest[q][k]);
	if (below(w, 4) == 0)
		return;
	race_open(w->r, &a);
	w->known[w->n++] = (struct known){ .a = a, .number = w->number };
}

static void done(struct world *w)
{
	const uint32_t q = w->queue[below(w, QUEUES)];
	const uint64_t upto = below(w, w->number + 1);

	race_done(w->r, q, upto);
	for (unsigned i = 0; i < w->n; i++)
		if (w->known[i].a.queue == q && w->known[i].number <= upto)
			w->known[i].over = true;
}

static void fence(struct world *w, uint32_t q)
{
	race_fence(w->r, q, w->number);
	for (unsigned i = 0; i < w->n; i++)
		if (w->known[i].a.queue == q && w->known[i].number < w->number)
			w->known[i].fence = true;
}

/* A message, with a fence or without. */
static void tell(struct world *w)
{
	const uint32_t q = w->queue[below(w, QUEUES)];

	w->number = race_post(w->r);
	if (below(w, 2))
		fence(w, q);
	race_tell(w->r, q, w->number);
	for (unsigned i = 0; i < w->n; i++) {
		struct known *k = &w->known[i];

		if (k->a.queue == q &&
		    (k->a.kind == RACE_WRITES || k->a.kind == RACE_ATOMIC || k->fence))
			k->over = true;
	}
}

static void all_over(struct world *w, uint32_t queue)
{
	for (unsigned i = 0; i < w->n; i++)
		if (!queue || w->known[i].a.queue == queue)
			w->known[i].over = true;
}

static void anew(struct world *w)
{
	const uint64_t i = below(w, QUEUES);

	race_queue_end(w->r, w->queue[i]);
	all_over(w, w->queue[i]);
	w->queue[i] = race_queue(w->r);
}

static unsigned run(uint64_t seed, uint32_t most)
{
	struct world *w = calloc(1, sizeof(*w));
	unsigned met;

	assert_non_null(w);
	rand_seed(&w->rand, seed);
	w->r = race_new(most);
	for (int i = 0; i < QUEUES; i++)
		w->queue[i] = race_queue(w->r);
	for (int i = 0; i < STEPS; i++) {
		switch (below(w, 100)) {
		case 0 ... 9:
			done(w);
			break;
		case 10 ... 13:
			tell(w);
			break;
		case 14:
			race_heard(w->r);
			all_over(w, 0);
			break;
		case 15:
			anew(w);
			break;
		case 16 ... 17:
			w->number = race_post(w->r);
			fence(w, w->queue[below(w, QUEUES)]);
			break;
		default:
			post(w, most < STEPS);
			break;
		}
	}
	met = w->met;
	race_free(w->r);
	free(w);
	return met;
}

static void at_random(void **state)
{
	const struct seeds s = seeds_chosen(100);
	unsigned met = 0;

	(void)state;
	for (uint64_t seed = s.first; seed <= s.last; seed++) {
		seed_show(seed);
		met += run(seed, 4096);
		met += run(seed, 16);
	}
	if (s.all)
		assert_true(met > 100 * s.last);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(at_random) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
