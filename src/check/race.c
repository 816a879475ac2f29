/* SPDX-License-Identifier: BSD-2-Clause */
/* race.c - see race.h.
 *
 * The shadow is a ring of entries, found by a hash of (space, level, cell).  A level's
 * cells are so large that an access of the level lies in two at most: 64 bytes, 1 KiB,
 * ... Entries that are no longer open are dropped where somebody comes across them. */
#include "check/race.h"

#include <stdlib.h>
#include <string.h>

enum {
	LEVELS = 8,
	LEVEL_BITS = 4,	 /* a cell is 16 cells of the level below */
	CELL_BITS = 6,	 /* a cell of level 0 has 64 bytes */
	CELLS_MOST = 64, /* of a level; else all accesses of the level are looked at */
	NONE = UINT32_MAX,
};

/* the chains of an entry: one or two cells, and its level */
enum chain { FIRST, SECOND, LEVEL, CHAINS };

struct link {
	uint32_t next, prev; /* the chain's head has prev NONE */
	uint32_t head;	     /* the chain's place in heads[]; NONE: in no chain */
};

struct entry {
	struct race_access a;
	uint64_t number; /* 0: unused */
	uint32_t seen;	 /* by the search with that count */
	struct link in[CHAINS];
};

/* A component of the vector clock: the newest request that is known to have been
 * executed.  An access with a higher number is open. */
struct component {
	uint64_t all;
	uint64_t writes; /* of WRITEs: answers may still be missing */
	uint64_t fenced; /* for later requests of the same queue alone */
	uint32_t free;	 /* the next unused component */
};

struct race {
	struct entry *entry;
	uint32_t most, next;	/* next: the entry to be used */
	uint32_t *heads;	/* [cells, then levels] */
	uint32_t cells, search; /* cells: a power of two */
	uint32_t used[LEVELS];	/* entries of each level */
	uint32_t answers;	/* entries of RACE_ANSWERS */
	uint64_t clock;
	uint64_t heard; /* every component is at least this */
	uint64_t forgotten;
	uint32_t queues, spare; /* spare: head of the unused components */
	struct component of[RACE_QUEUES];
};

/* --- the clock ------------------------------------------------------------------ */

static bool is_open(const struct race *r, const struct race_access *a, uint64_t number)
{
	const struct component *c = &r->of[a->queue];
	const bool answers = a->kind == RACE_READS || a->kind == RACE_ANSWERS;

	if (number <= r->heard || number <= c->all)
		return false;
	return answers || number > c->writes;
}

static void raise_to(uint64_t *component, uint64_t number)
{
	if (*component < number)
		*component = number;
}

uint64_t race_post(struct race *r)
{
	return ++r->clock;
}

void race_done(struct race *r, uint32_t queue, uint64_t number)
{
	raise_to(&r->of[queue].all, number);
}

void race_fence(struct race *r, uint32_t queue, uint64_t number)
{
	raise_to(&r->of[queue].fenced, number - 1);
}

void race_tell(struct race *r, uint32_t queue, uint64_t number)
{
	raise_to(&r->of[queue].writes, number);
	raise_to(&r->of[queue].all, r->of[queue].fenced);
}

void race_heard(struct race *r)
{
	r->heard = r->clock;
}

/* --- queues --------------------------------------------------------------------- */

uint32_t race_queue(struct race *r)
{
	uint32_t q = r->spare;

	if (q)
		r->spare = r->of[q].free;
	else if (r->queues < RACE_QUEUES - 1)
		q = ++r->queues;
	else
		return 0;
	r->of[q] = (struct component){ .all = r->clock };
	return q;
}

void race_queue_end(struct race *r, uint32_t queue)
{
	if (!queue)
		return;
	r->of[queue].all = UINT64_MAX;
	r->of[queue].free = r->spare;
	r->spare = queue;
}

/* --- the shadow ----------------------------------------------------------------- */

static unsigned cell_shift(unsigned level)
{
	return CELL_BITS + LEVEL_BITS * level;
}

static unsigned level_of(uint64_t len)
{
	unsigned level = 0;

	while (level < LEVELS - 1 && len > 1ull << cell_shift(level))
		level++;
	return level;
}

static uint32_t head_of(const struct race *r, uint64_t space, unsigned level,
			uint64_t cell)
{
	uint64_t h = (space ^ (cell + level) * 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;

	return (uint32_t)(h >> 32) & (r->cells - 1);
}

static struct link *link_in(struct race *r, uint32_t i, uint32_t head)
{
	for (int c = 0; c < CHAINS; c++)
		if (r->entry[i].in[c].head == head)
			return &r->entry[i].in[c];
	return NULL;
}

static void chain_put(struct race *r, uint32_t i, enum chain chain, uint32_t head)
{
	struct link *l = &r->entry[i].in[chain];
	const uint32_t next = r->heads[head];

	/* Both chains of an entry may have the same head: then it is in one. */
	if (chain == SECOND && r->entry[i].in[FIRST].head == head)
		return;
	*l = (struct link){ .next = next, .prev = NONE, .head = head };
	if (next != NONE)
		link_in(r, next, head)->prev = i;
	r->heads[head] = i;
}

static void drop_access(struct race *r, uint32_t i)
{
	struct entry *e = &r->entry[i];

	for (int c = 0; c < CHAINS; c++) {
		struct link *l = &e->in[c];

		if (l->head == NONE)
			continue;
		if (l->prev == NONE)
			r->heads[l->head] = l->next;
		else
			link_in(r, l->prev, l->head)->next = l->next;
		if (l->next != NONE)
			link_in(r, l->next, l->head)->prev = l->prev;
		l->head = NONE;
	}
	r->used[level_of(e->a.len)]--;
	r->answers -= e->a.kind == RACE_ANSWERS;
	e->number = 0;
}

/* --- meeting -------------------------------------------------------------------- */

static bool accesses_overlap(const struct race_access *a, const struct race_access *b)
{
	return a->space == b->space &&
	       (a->at < b->at ? b->at - a->at < a->len : a->at - b->at < b->len);
}

static bool writes(enum race_kind kind)
{
	return kind == RACE_WRITES || kind == RACE_ANSWERS;
}

static bool conflict(enum race_kind a, enum race_kind b)
{
	return writes(a) || writes(b);
}

/* Nothing is before a request of its own queue in a way that could matter, but an answer
 * that no fence has waited for. */
static bool is_ordered(const struct race *r, const struct entry *e,
		       const struct race_access *a)
{
	if (e->a.queue != a->queue)
		return false;
	return e->a.kind != RACE_ANSWERS || a->kind == RACE_ANSWERS ||
	       e->number <= r->of[a->queue].fenced;
}

/* Whatever meets e meets the new access of the same queue, too, and that stays open for
 * longer. */
static bool covers(const struct race_access *a, const struct entry *e)
{
	return a->queue == e->a.queue && a->kind == e->a.kind && a->at <= e->a.at &&
	       e->a.at - a->at <= a->len && e->a.len <= a->len - (e->a.at - a->at);
}

struct search {
	const struct race_access *a;
	race_met *met;
	void *arg;
	unsigned found;
	bool opens; /* what the access covers is dropped */
};

static void visit(struct race *r, uint32_t i, struct search *s)
{
	struct entry *e = &r->entry[i];

	if (!is_open(r, &e->a, e->number)) {
		drop_access(r, i);
		return;
	}
	if (e->seen == r->search || !accesses_overlap(&e->a, s->a))
		return;
	e->seen = r->search;
	if (s->opens) {
		if (covers(s->a, e))
			drop_access(r, i);
		return;
	}
	if (conflict(e->a.kind, s->a->kind) && !is_ordered(r, e, s->a)) {
		s->found++;
		if (s->met)
			s->met(&e->a, e->number, s->arg);
	}
}

static void walk(struct race *r, uint32_t head, struct search *s)
{
	for (uint32_t next, i = r->heads[head]; i != NONE; i = next) {
		next = link_in(r, i, head)->next;
		visit(r, i, s);
	}
}

static void search(struct race *r, struct search *s)
{
	const uint64_t first = s->a->at, last = first + (s->a->len - 1);

	r->search++;
	for (unsigned level = 0; level < LEVELS; level++) {
		const unsigned shift = cell_shift(level);
		const uint64_t n = (last >> shift) - (first >> shift);

		if (!r->used[level])
			continue;
		if (n >= CELLS_MOST) {
			walk(r, r->cells + level, s);
			continue;
		}
		for (uint64_t c = 0; c <= n; c++)
			walk(r, head_of(r, s->a->space, level, (first >> shift) + c), s);
	}
}

static bool is_seen(const struct race_access *a)
{
	return a->queue && a->len && a->len <= 1ull << 32 &&
	       a->at + (a->len - 1) >= a->at;
}

unsigned race_meet(struct race *r, const struct race_access *a, race_met *met, void *arg)
{
	struct search s = { .a = a, .met = met, .arg = arg };

	if (is_seen(a))
		search(r, &s);
	return s.found;
}

void race_open(struct race *r, const struct race_access *a)
{
	struct search s = { .a = a, .opens = true };
	const unsigned level = level_of(a->len);
	const unsigned shift = cell_shift(level);
	const uint32_t i = r->next;
	struct entry *e = &r->entry[i];

	if (!is_seen(a))
		return;
	search(r, &s);
	if (e->number) {
		r->forgotten += is_open(r, &e->a, e->number);
		drop_access(r, i);
	}
	r->next = (i + 1) & (r->most - 1);
	e->a = *a;
	e->number = r->clock;
	e->seen = 0;
	chain_put(r, i, FIRST, head_of(r, a->space, level, a->at >> shift));
	chain_put(r, i, SECOND,
		  head_of(r, a->space, level, (a->at + (a->len - 1)) >> shift));
	chain_put(r, i, LEVEL, r->cells + level);
	r->used[level]++;
	r->answers += a->kind == RACE_ANSWERS;
}

bool race_has_answers(const struct race *r)
{
	return r->answers;
}

uint64_t race_newest(const struct race *r)
{
	return r->clock;
}

bool race_is_open(const struct race *r, const struct race_access *a, uint64_t number)
{
	return is_open(r, a, number);
}

uint64_t race_forgotten(const struct race *r)
{
	return r->forgotten;
}

/* --- the table ------------------------------------------------------------------- */

struct race *race_new(uint32_t most)
{
	struct race *r = calloc(1, sizeof(*r));

	if (!r)
		return NULL;
	r->most = most;
	r->cells = 2 * most;
	r->entry = calloc(most, sizeof(*r->entry));
	r->heads = malloc((r->cells + LEVELS) * sizeof(*r->heads));
	if (!r->entry || !r->heads) {
		race_free(r);
		return NULL;
	}
	memset(r->heads, 0xff, (r->cells + LEVELS) * sizeof(*r->heads));
	for (uint32_t i = 0; i < most; i++)
		for (int c = 0; c < CHAINS; c++)
			r->entry[i].in[c].head = NONE;
	return r;
}

void race_free(struct race *r)
{
	free(r->entry);
	free(r->heads);
	free(r);
}
