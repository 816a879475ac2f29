/* SPDX-License-Identifier: BSD-2-Clause */
/* ending.c - sends XRC_END: a life of a target QP has ended, so its stand-ins in other
 * processes must go.  The message is repeated until each connection has taken it, also
 * after the QP is freed. */
#include <stdlib.h>

#include "ib/ib_qp.h"
#include "ib/relay.h"
#include "ib/xrc_msg.h"

struct ending {
	struct list node; /* ib->xrc.endings */
	uint32_t qpn;
	uint32_t life;		    /* this life and all before it have ended */
	bool alone;		    /* its relay was freed */
	uint64_t slots[SLOT_WORDS]; /* slots that have not been told yet */
};

struct ending *ending_make(struct ib *ib, uint32_t qpn)
{
	struct ending *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->qpn = qpn;
	list_add_tail(&ib->xrc.endings, &e->node);
	return e;
}

static void forget(struct ending *e)
{
	list_del(&e->node);
	free(e);
}

static void forget_if_said(struct ending *e)
{
	uint64_t any = 0;

	for (unsigned i = 0; i < SLOT_WORDS; i++)
		any |= e->slots[i];
	if (e->alone && !any)
		forget(e);
}

static void say(struct ib *ib, struct ending *e)
{
	const struct xrc_end m = {
		.head = { .what = XRC_END, .qpn = e->qpn },
		.life = e->life,
	};

	for (unsigned slot = 0; slot < 1 << QPN_SLOT_BITS; slot++) {
		const uint64_t bit = 1ull << slot % 64;

		if (!(e->slots[slot / 64] & bit))
			continue;
		if (xrc_pass(ib, (uint16_t)slot, &m, sizeof(m), NULL, 0) == -EAGAIN)
			xrc_again(ib);
		else
			e->slots[slot / 64] &= ~bit;
	}
}

void ending_say(struct ib *ib, struct ending *e, uint32_t life, const uint64_t *slots)
{
	e->life = life;
	for (unsigned i = 0; i < SLOT_WORDS; i++)
		e->slots[i] |= slots[i];
	say(ib, e);
}

void ending_let_go(struct ending *e)
{
	e->alone = true;
	forget_if_said(e);
}

void endings_again(struct ib *ib)
{
	list_for_safe(n, &ib->xrc.endings)
	{
		struct ending *e = container_of(n, struct ending, node);

		say(ib, e);
		forget_if_said(e);
	}
}

void endings_gone(struct ib *ib, uint16_t slot)
{
	list_for_safe(n, &ib->xrc.endings)
	{
		struct ending *e = container_of(n, struct ending, node);

		e->slots[slot / 64] &= ~(1ull << slot % 64);
		forget_if_said(e);
	}
}

void endings_close(struct ib *ib)
{
	list_for_safe(n, &ib->xrc.endings) forget(container_of(n, struct ending, node));
}
