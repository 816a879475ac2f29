/* SPDX-License-Identifier: BSD-2-Clause */
/* unseen.c - see unseen.h. */
#include "direct/unseen.h"

#include "sys/checks.h"
#include "sys/lock.h"

/* More than the counts that are added */
#define CHANGE (1ull << 48)

static struct brief_lock lock;
static struct list peers GUARDED_BY(lock) = { &peers, &peers };
static uint64_t changes GUARDED_BY(lock); /* counts that went away, or came */
static bool lent GUARDED_BY(lock);	  /* stays set */

static uint64_t mapped_times(const struct exports *b)
{
	const uint32_t said = atomic_load_explicit(&b->lines, memory_order_acquire),
		       lines = said < EXPORT_THREADS ? said : EXPORT_THREADS;
	uint64_t n = 0;

	for (unsigned i = 0; i < lines; i++)
		n += atomic_load_explicit(&b->thread[i].entries, memory_order_acquire);
	return n;
}

static void look_at(const struct unseen *u, struct check_unseen *out)
{
	uint64_t begun;

	if (u->exports)
		out->times += mapped_times(u->exports);
	if (u->shut) {
		out->now = true; /* a copy that had begun may go on */
	} else if (u->counts) {
		begun = __atomic_load_n(&u->counts->begun, __ATOMIC_ACQUIRE);
		out->times += begun;
		out->now |= begun != __atomic_load_n(&u->counts->ended, __ATOMIC_ACQUIRE);
	}
}

static struct check_unseen look_at_all(void)
{
	struct check_unseen out = { 0 };

	brief_take(&lock);
	out.times = changes;
	out.lent = lent;
	list_for(n, &peers) look_at(container_of(n, struct unseen, node), &out);
	brief_give(&lock);
	return out;
}

void unseen_add(struct unseen *u)
{
	brief_take(&lock);
	list_add_tail(&peers, &u->node);
	brief_give(&lock);
	checks_unseen = look_at_all;
}

void unseen_del(struct unseen *u)
{
	brief_take(&lock);
	list_del(&u->node);
	changes += CHANGE;
	brief_give(&lock);
}

void unseen_gate(struct unseen *u, const struct gate_counts *counts, bool shut)
{
	brief_take(&lock);
	if (u->counts)
		changes += CHANGE;
	u->counts = counts;
	u->shut = shut;
	brief_give(&lock);
}

void unseen_exports(struct unseen *u, const struct exports *b)
{
	brief_take(&lock);
	if (u->exports != b)
		changes += CHANGE;
	u->exports = b;
	lent |= b != NULL;
	brief_give(&lock);
}

/* Nothing is looked at in the child. */
NO_TSA void unseen_forked(void)
{
	brief_init(&lock);
}
