/* SPDX-License-Identifier: BSD-2-Clause */
/* order.c - see order.h. */
#include "verbs/order.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "sys/list.h"
#include "sys/lock.h"
#include "sys/order_spec.h"
#include "sys/rand.h"
#include "sys/source.h"
#include "verbs/core.h"
#include "verbs/cq.h"
#include "verbs/mr.h"

enum {
	SWAP_NS = 10000000,  /* how long an entry waits for one of another QP at most */
	PIECE_MOST = 64,     /* bytes of a WRITE that are written at once */
	BETWEEN_NS = 200000, /* after the last byte */
};

/* An entry that is not in its CQ yet. */
struct held {
	struct list node; /* in the order of arrival */
	struct cq *cq;
	struct cqe e;
	bool solicited;
	bool swap; /* it is due once an entry of another QP has come to its CQ */
	uint64_t due;
};

struct order {
	struct core *core;
	struct order_spec spec; /* never changes */
	struct source source;
	struct lock lock; /* outside of the locks of CQs; guards: */
	/* What is drawn for one kind does not depend on how many of the other came. */
	struct prng completions, writes;
	struct list held;
};

static struct held *held_of(struct list *node)
{
	return container_of(node, struct held, node);
}

/* --- life ------------------------------------------------------------------ */

static void run_source(struct source *s, uint64_t now)
{
	order_run(container_of(s, struct order, source)->core, now);
}

int order_open(struct core *core, const char *text)
{
	static const struct source_ops ops = { .run = run_source };
	static const struct cq_hooks hooks = { order_hold, order_forget, order_disown };
	struct order_spec spec;
	struct order *o;
	struct prng seeds;
	char err[256];

	core->order = NULL;
	core->cq_hooks = NULL;
	if (!*text || order_parse(text, &spec, err, sizeof(err)))
		return 0;
	o = calloc(1, sizeof(*o));
	if (!o)
		return -ENOMEM;
	o->core = core;
	o->spec = spec;
	rand_seed(&seeds, spec.seed);
	rand_seed(&o->completions, rand_u64(&seeds));
	rand_seed(&o->writes, rand_u64(&seeds));
	lock_init(&o->lock);
	list_init(&o->held);
	source_init(&o->source, &ops);
	core->order = o;
	core->cq_hooks = &hooks;
	return 0;
}

void order_close(struct core *core)
{
	struct order *o = core->order;

	core->order = NULL;
	core->cq_hooks = NULL;
	if (!o)
		return;
	list_for_safe(n, &o->held)
	{
		list_del(n);
		free(held_of(n));
	}
	free(o);
}

struct source *order_source(struct core *core)
{
	return core->order ? &core->order->source : NULL;
}

bool order_one(const struct core *core)
{
	return core->order && core->order->spec.one;
}

/* --- completions ----------------------------------------------------------- */

/* Returns the last entry of the QP that is held for cq, or NULL. */
static struct held *last_of(struct order *o, const struct cq *cq, uint32_t qpn)
{
	struct held *last = NULL;

	list_for(n, &o->held) if (held_of(n)->cq == cq && held_of(n)->e.qp_num == qpn)
		last = held_of(n);
	return last;
}

/* An entry of another QP goes to cq: those that waited for it follow. */
static void end_swaps(struct order *o, const struct cq *cq, uint32_t qpn, uint64_t now)
{
	list_for(n, &o->held)
	{
		struct held *h = held_of(n);

		if (h->cq != cq || h->e.qp_num == qpn || !h->swap)
			continue;
		h->swap = false;
		h->due = now;
		source_sooner(&o->source, now);
	}
}

/* Draws how long the entry is held: 0: not at all. */
static uint64_t draw_delay(struct order *o, bool *swap)
{
	*swap = rand_chance(&o->completions, o->spec.swap);
	if (*swap)
		return SWAP_NS;
	return rand_chance(&o->completions, o->spec.delay) ? o->spec.delay_ns : 0;
}

static bool add_held(struct order *o, struct cq *cq, const struct cqe *e, bool solicited,
		     uint64_t due, bool swap)
{
	struct held *h = malloc(sizeof(*h));

	if (!h)
		return false;
	*h = (struct held){
		.cq = cq, .e = *e, .solicited = solicited, .swap = swap, .due = due
	};
	list_add_tail(&o->held, &h->node);
	cq->held++;
	source_sooner(&o->source, due);
	return true;
}

static void release_held(struct held *h)
{
	list_del(&h->node);
	h->cq->held--;
	(void)cq_push_now(h->cq, &h->e, h->solicited);
	free(h);
}

/* The CQ has no room for more, or memory is short: all that is held for it goes first. */
static void release_all(struct order *o, const struct cq *cq)
{
	list_for_safe(n, &o->held) if (held_of(n)->cq == cq) release_held(held_of(n));
}

bool order_hold(struct cq *cq, const struct cqe *e, bool solicited, uint64_t now)
{
	struct order *o = cq->core->order;
	struct held *before;
	uint64_t ns, due;
	bool swap, kept;

	lock_take(&o->lock);
	ns = draw_delay(o, &swap);
	before = last_of(o, cq, e->qp_num);
	due = now + ns;
	if (before && before->due > due)
		due = before->due;
	kept = (ns || before) && cq_has_room(cq) &&
	       add_held(o, cq, e, solicited, due, swap && !before);
	if (!kept)
		end_swaps(o, cq, e->qp_num, now);
	if (!kept && before)
		release_all(o, cq);
	lock_give(&o->lock);
	return kept;
}

void order_run(struct core *core, uint64_t now)
{
	struct order *o = core->order;

	lock_take(&o->lock);
	list_for_safe(n, &o->held) if (held_of(n)->due <= now) release_held(held_of(n));
	source_set(&o->source, order_next(core));
	lock_give(&o->lock);
}

uint64_t order_next(const struct core *core)
{
	uint64_t next = NEVER;

	list_for(n, &core->order->held) if (held_of(n)->due < next) next =
		held_of(n)->due;
	return next;
}

void order_forget(struct cq *cq, uint32_t qpn)
{
	struct order *o = cq->core->order;

	lock_take(&o->lock);
	list_for_safe(n, &o->held)
	{
		struct held *h = held_of(n);

		if (h->cq != cq || (qpn && h->e.qp_num != qpn))
			continue;
		list_del(n);
		cq->held--;
		brief_take(&cq->lock);
		cqe_leaves(&h->e);
		brief_give(&cq->lock);
		free(h);
	}
	lock_give(&o->lock);
}

void order_disown(struct cq *cq, const _Atomic uint32_t *queue)
{
	struct order *o = cq->core->order;

	lock_take(&o->lock);
	list_for(n, &o->held) if (held_of(n)->cq == cq && held_of(n)->e.places &&
				  held_of(n)->e.queue == queue) held_of(n)
		->e.places = 0;
	lock_give(&o->lock);
}

/* --- the bytes of a WRITE -------------------------------------------------- */

int order_backwards(const struct order_pieces *p, size_t n, uint64_t seed)
{
	struct prng rng;
	size_t left = n - 1;
	int rc = p->put(p->arg, left, 1);

	rand_seed(&rng, seed);
	if (!rc && left)
		p->between(p->arg);
	while (!rc && left) {
		const size_t most = left < PIECE_MOST ? left : PIECE_MOST,
			     piece = 1 + rand_below(&rng, most);

		left -= piece;
		rc = p->put(p->arg, left, piece);
	}
	return rc;
}

struct place {
	struct core *core;
	uint32_t key;
	uint8_t *host;
	const uint8_t *src;
};

static int put_bytes(void *arg, size_t at, size_t n)
{
	const struct place *to = arg;

	return mr_write(to->core, to->key, to->host + at, to->src + at, n);
}

/* Long enough for a program that polls the last byte to see it. */
static void wait_a_moment(void *arg)
{
	const struct timespec moment = { .tv_nsec = BETWEEN_NS };

	(void)arg;
	nanosleep(&moment, NULL);
}

bool order_turns(struct core *core, uint64_t *seed)
{
	struct order *o = core->order;
	bool turns;

	lock_take(&o->lock);
	turns = rand_chance(&o->writes, o->spec.write);
	*seed = rand_u64(&o->writes);
	lock_give(&o->lock);
	return turns;
}

int order_write(struct core *core, uint32_t key, uint8_t *host, const void *src, size_t n)
{
	struct place to = { core, key, host, src };
	const struct order_pieces pieces = { put_bytes, wait_a_moment, &to };
	uint64_t seed;

	return order_turns(core, &seed) && n ? order_backwards(&pieces, n, seed)
					     : mr_write(core, key, host, src, n);
}
