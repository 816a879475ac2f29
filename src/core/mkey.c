/* SPDX-License-Identifier: BSD-2-Clause */
/* mkey.c - see mkey.h. */
#include "core/mkey.h"

#include <stdlib.h>

#include "core/core.h"
#include "sys/secret.h"

enum {
	PAGE_BITS = MKEY_PAGE_BITS,
	PAGE_SLOTS = 1 << PAGE_BITS,
	GENERATION_BITS = 32 - MKEY_INDEX_BITS,
	/* The lower 4 bits of a page's number are its place in the export table; the
	 * upper 8 bits tell apart the SHARING pages that have this place. The first
	 * and the last value of these are not used, so that no key is 0 or all ones. */
	PLACES = MKEY_EXPORT_PAGES,
	SHARING = MKEY_PAGES / PLACES,
};

struct mkey_page {
	struct mkey_slot {
		_Atomic(struct mkey *) mkey;
		uint32_t next_free; /* under core->lock */
		uint8_t generation; /* of the next key; under core->lock */
		uint8_t step;	    /* odd increment of generation */
	} slot[PAGE_SLOTS];
};

static struct mkey_slot *slot_at(struct core *core, uint32_t index)
{
	struct mkey_page *page;

	page = atomic_load_explicit(&core->mkeys[index >> PAGE_BITS],
				    memory_order_acquire);
	return page ? &page->slot[index & (PAGE_SLOTS - 1)] : NULL;
}

/* Draws the number of the next page at random, with the places of the export table in
 * turn. 0: there are no more. */
static uint32_t draw_page(const struct core *core, struct secret *s) REQUIRES(core->lock)
{
	uint32_t place = (core->mkey_place + core->mkey_pages) % PLACES;
	uint32_t start = secret_below(s, SHARING - 2);

	for (uint32_t i = 0; i < SHARING - 2; i++) {
		uint32_t page = (1 + (start + i) % (SHARING - 2)) * PLACES + place;

		if (!atomic_load_explicit(&core->mkeys[page], memory_order_relaxed))
			return page;
	}
	return 0;
}

/* Adds all indices of the page, in random order, to the stack of fresh ones. */
static void fill_page(struct core *core, struct mkey_page *page, uint32_t number,
		      struct secret *s) REQUIRES(core->lock)
{
	uint16_t order[PAGE_SLOTS];

	for (uint16_t i = 0; i < PAGE_SLOTS; i++)
		order[i] = i;
	secret_shuffle(s, order, PAGE_SLOTS);
	for (unsigned i = 0; i < PAGE_SLOTS; i++) {
		struct mkey_slot *slot = &page->slot[order[i]];
		uint32_t word = secret_word(s);

		slot->generation = (uint8_t)word;
		slot->step = (uint8_t)(word >> 8 | 1);
		slot->next_free = core->mkey_fresh;
		core->mkey_fresh = number << PAGE_BITS | order[i];
	}
}

static void add_page(struct core *core) REQUIRES(core->lock)
{
	struct secret s = { 0 };
	uint32_t number = draw_page(core, &s);
	struct mkey_page *page = number ? calloc(1, sizeof(*page)) : NULL;

	if (!page)
		return;
	fill_page(core, page, number, &s);
	if (core->mkey_pages < PLACES)
		core->mkey_exports[number % PLACES] = (uint16_t)number;
	core->mkey_pages++;
	atomic_store_explicit(&core->mkeys[number], page, memory_order_release);
}

/* Takes an index that was never used. 0: the table is full, or no memory. */
static uint32_t take_fresh(struct core *core) REQUIRES(core->lock)
{
	uint32_t index;

	if (!core->mkey_fresh)
		add_page(core);
	index = core->mkey_fresh;
	if (index)
		core->mkey_fresh = slot_at(core, index)->next_free;
	return index;
}

static uint32_t take_rested(struct core *core) REQUIRES(core->lock)
{
	uint32_t index = core->mkey_free;

	if (index) {
		core->mkey_free = slot_at(core, index)->next_free;
		core->mkey_free_count--;
	}
	return index;
}

static uint32_t take_index(struct core *core) REQUIRES(core->lock)
{
	uint32_t index = 0;

	if (core->mkey_free_count < MKEY_REST)
		index = take_fresh(core);
	return index ? index : take_rested(core);
}

static void give_index(struct core *core, uint32_t index) REQUIRES(core->lock)
{
	slot_at(core, index)->next_free = 0;
	if (core->mkey_free_count++)
		slot_at(core, core->mkey_free_last)->next_free = index;
	else
		core->mkey_free = index;
	core->mkey_free_last = index;
}

int mkey_add(struct core *core, struct mkey *mk)
{
	struct mkey_slot *slot;
	uint32_t index;

	lock_take(&core->lock);
	index = take_index(core);
	if (index) {
		slot = slot_at(core, index);
		mk->key = index << GENERATION_BITS | slot->generation;
		atomic_store_explicit(&slot->mkey, mk, memory_order_release);
	}
	lock_give(&core->lock);
	return index ? 0 : -ENOMEM;
}

void mkey_del(struct core *core, struct mkey *mk)
{
	uint32_t index = mk->key >> GENERATION_BITS;
	struct mkey_slot *slot = slot_at(core, index);

	lock_take(&core->lock);
	atomic_store_explicit(&slot->mkey, NULL, memory_order_relaxed);
	/* The key's generation and not the slot's is advanced, because binds change a
	 * window's generation. */
	slot->generation = (uint8_t)(mk->key + slot->step);
	give_index(core, index);
	lock_give(&core->lock);
	atomic_fetch_add(&core->mkey_changes, 1);
}

struct mkey *mkey_find(struct core *core, uint32_t key)
{
	struct mkey_slot *slot = slot_at(core, key >> GENERATION_BITS);
	struct mkey *mk;

	if (!slot)
		return NULL;
	mk = atomic_load_explicit(&slot->mkey, memory_order_acquire);
	return mk && mk->key == key ? mk : NULL;
}

bool mkey_is_exported(const struct core *core, uint32_t key)
{
	uint32_t page = key >> (GENERATION_BITS + PAGE_BITS);

	return core->mkey_exports[page % PLACES] == page && page;
}
