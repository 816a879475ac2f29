/* SPDX-License-Identifier: BSD-2-Clause */
/* live.c - the table of live objects; see live.h.  A hash table that chains the objects
 * themselves, so adding one cannot fail. */
#include "sys/live.h"

#include <stddef.h>
#include <stdlib.h>

#include "sys/checks.h"
#include "sys/inside.h"
#include "sys/lock.h"

enum {
	FIRST_BITS = 6,
	REST = 64,   /* freed objects that are kept back */
	OTHERS = 16, /* objects passed over in the time that showing one takes */
};

static struct live *first[1 << FIRST_BITS];
static struct lock table_lock;
static struct {
	struct live **chain; /* [1 << bits] */
	unsigned bits;
	size_t count;
	struct live *oldest, **newest; /* of live_rest(): a queue */
	unsigned resting;
} table GUARDED_BY(table_lock) = { .chain = first,
				   .bits = FIRST_BITS,
				   .newest = &table.oldest };

/* A signal handler that interrupts the holder is told (inside.h). */
static void hold_table(void) ACQUIRES(table_lock)
{
	inside_begin();
	lock_take(&table_lock);
}

static void let_go(void) RELEASES(table_lock)
{
	lock_give(&table_lock);
	inside_end();
}

/* The chain of l, from its address alone: l may be freed. */
static size_t chain_of(const struct live *l, unsigned bits)
{
	return (size_t)(((uint64_t)(uintptr_t)l * 0x9e3779b97f4a7c15u) >> (64 - bits));
}

static struct live **link_to(const struct live *l) REQUIRES(table_lock)
{
	struct live **at = &table.chain[chain_of(l, table.bits)];

	while (*at && *at != l)
		at = &(*at)->next;
	return at;
}

/* Without memory the chains only get longer. */
static void grow_table(void) REQUIRES(table_lock)
{
	const unsigned bits = table.bits + 2;
	struct live **chain = calloc((size_t)1 << bits, sizeof(struct live *));

	if (!chain)
		return;
	for (size_t i = 0; i < (size_t)1 << table.bits; i++) {
		while (table.chain[i]) {
			struct live *l = table.chain[i];
			struct live **to = &chain[chain_of(l, bits)];

			table.chain[i] = l->next;
			l->next = *to;
			*to = l;
		}
	}
	if (table.chain != first)
		free(table.chain);
	table.chain = chain;
	table.bits = bits;
}

void live_add(struct live *l, enum live_kind kind, const void *owner)
{
	struct live **at;

	hold_table();
	if (table.count++ >> table.bits)
		grow_table();
	at = &table.chain[chain_of(l, table.bits)];
	*l = (struct live){ .next = *at, .owner = owner, .kind = kind };
	*at = l;
	let_go();
	if (checks)
		checks->made(l, kind);
}

static void take_out(struct live **at) REQUIRES(table_lock)
{
	struct live *l = *at;

	*at = l->next;
	l->kind = LIVE_NONE;
	table.count--;
}

void live_del(struct live *l)
{
	enum live_kind kind = LIVE_NONE;
	struct live **at;

	hold_table();
	at = link_to(l);
	if (*at) {
		kind = l->kind;
		take_out(at);
	}
	let_go();
	if (checks && kind)
		checks->gone(l, kind);
}

bool live_find(const struct live *l, enum live_kind kind, const void **owner)
{
	bool found;

	if (!l)
		return false;
	hold_table();
	found = *link_to(l) && l->kind == kind;
	if (found)
		*owner = l->owner;
	let_go();
	return found;
}

void live_rest(struct live *l)
{
	hold_table();
	*l = (struct live){ .kind = LIVE_NONE };
	*table.newest = l;
	table.newest = &l->next;
	table.resting++;
	let_go();
}

struct live *live_rested(void)
{
	struct live *l = NULL;

	hold_table();
	if (table.resting > REST) {
		l = table.oldest;
		table.oldest = l->next;
		table.resting--;
	}
	let_go();
	return l;
}

static void take_to(struct live **at, struct live *of[LIVE_KINDS]) REQUIRES(table_lock)
{
	struct live *l = *at, **to = &of[l->kind];

	take_out(at);
	l->next = *to;
	*to = l;
}

void live_take(const void *owner, struct live *of[LIVE_KINDS])
{
	hold_table();
	for (size_t i = 0; i < (size_t)1 << table.bits; i++) {
		struct live **at = &table.chain[i];

		while (*at) {
			if ((*at)->owner == owner)
				take_to(at, of);
			else
				at = &(*at)->next;
		}
	}
	let_go();
	for (int kind = 0; checks && kind < LIVE_KINDS; kind++)
		for (const struct live *l = of[kind]; l; l = l->next)
			checks->gone(l, (enum live_kind)kind);
}

/* *at is a hash value, whose upper bits number the chain: the order stays when the table
 * grows. */
bool live_next(enum live_kind kind, uint64_t *at, unsigned n,
	       void (*fn)(struct live *l, void *arg), void *arg)
{
	size_t chains, i;

	hold_table();
	chains = (size_t)1 << table.bits;
	i = (size_t)(*at >> (64 - table.bits));
	for (unsigned seen = 0; i < chains && seen / OTHERS < n; i++, seen++) {
		for (struct live *l = table.chain[i]; l; l = l->next, seen++) {
			if (l->kind != kind)
				continue;
			fn(l, arg);
			seen += OTHERS;
		}
	}
	*at = (uint64_t)i << (64 - table.bits);
	let_go();
	return i < chains;
}

const char *live_name(enum live_kind kind)
{
	static const char *const names[] = {
		[LIVE_NONE] = "object",
		[LIVE_CONTEXT] = "device context",
		[LIVE_PD] = "protection domain",
		[LIVE_MR] = "memory region",
		[LIVE_MW] = "memory window",
		[LIVE_AH] = "address handle",
		[LIVE_CHANNEL] = "completion channel",
		[LIVE_CQ] = "completion queue",
		[LIVE_SRQ] = "shared receive queue",
		[LIVE_QP] = "queue pair",
		[LIVE_DM] = "device memory",
		[LIVE_TD] = "thread domain",
		[LIVE_XRCD] = "XRC domain",
		[LIVE_FLOW] = "flow",
		[LIVE_COUNTERS] = "counters object",
		[LIVE_WQ] = "work queue",
		[LIVE_WQ_TABLE] = "indirection table",
		[LIVE_CM_ID] = "rdma_cm id",
		[LIVE_CM_CHANNEL] = "event channel",
		[LIVE_CM_EVENT] = "rdma_cm event",
		[LIVE_BUF] = "buffer",
	};

	return names[kind];
}

/* A fork that leaves the lock to a thread in the middle of a change leaves the child
 * chains that can be walked; it may miss an object. */
NO_TSA bool live_hold(enum lock_how how)
{
	return lock_get(&table_lock, how);
}

NO_TSA void live_let_go(void)
{
	lock_give(&table_lock);
}

NO_TSA void live_forked(void)
{
	lock_init(&table_lock);
}
