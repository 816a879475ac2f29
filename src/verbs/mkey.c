/* SPDX-License-Identifier: BSD-2-Clause */
/* mkey.c - see mkey.h. */
#include "verbs/mkey.h"

#include <errno.h>
#include <stdlib.h>

#include "sys/secret.h"
#include "verbs/mkey.h"

enum {
	PAGE_BITS = MKEY_PAGE_BITS,
	PAGE_SLOTS = 1 << PAGE_BITS,
	/* The lower 4 bits of a page's number are its place in the export table; the
	 * upper 8 bits tell apart the SHARING pages that have this place. The first
	 * and the last value of these are not used, so that no key is 0 or all ones. */
	PLACES = MKEY_EXPORT_PAGES,
	SHARING = MKEY_PAGES / PLACES,
};

struct mkey_page {
	struct mkey_slot {
		_Atomic(struct mkey *) mkey;
		uint32_t next_free; /* under keys->lock */
		uint8_t generation; /* of the next key; under keys->lock */
		uint8_t step;	    /* odd increment of generation */
	} slot[PAGE_SLOTS];
};

static struct mkey_slot *slot_at(const struct mkeys *keys, uint32_t index)
{
	struct mkey_page *page;

	page = atomic_load_explicit(&keys->page[index >> PAGE_BITS],
				    memory_order_acquire);
	return page ? &page->slot[index & (PAGE_SLOTS - 1)] : NULL;
}

/* Draws the number of the next page at random, with the places of the export table in
 * turn. 0: there are no more. */
static uint32_t draw_page(const struct mkeys *keys, struct secret *s) REQUIRES(keys->lock)
{
	uint32_t place = (keys->place + keys->pages) % PLACES;
	uint32_t start = secret_below(s, SHARING - 2);

	for (uint32_t i = 0; i < SHARING - 2; i++) {
		uint32_t page = (1 + (start + i) % (SHARING - 2)) * PLACES + place;

		if (!atomic_load_explicit(&keys->page[page], memory_order_relaxed))
			return page;
	}
	return 0;
}

/* Adds all indices of the page, in random order, to the stack of fresh ones. */
static void fill_page(struct mkeys *keys, struct mkey_page *page, uint32_t number,
		      struct secret *s) REQUIRES(keys->lock)
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
		slot->next_free = keys->fresh;
		keys->fresh = number << PAGE_BITS | order[i];
	}
}

static void add_page(struct mkeys *keys) REQUIRES(keys->lock)
{
	struct secret s = { 0 };
	uint32_t number = draw_page(keys, &s);
	struct mkey_page *page = number ? calloc(1, sizeof(*page)) : NULL;

	if (!page)
		return;
	fill_page(keys, page, number, &s);
	if (keys->pages < PLACES)
		keys->exported[number % PLACES] = (uint16_t)number;
	keys->pages++;
	atomic_store_explicit(&keys->page[number], page, memory_order_release);
}

/* Takes an index that was never used. 0: the table is full, or no memory. */
static uint32_t take_fresh(struct mkeys *keys) REQUIRES(keys->lock)
{
	uint32_t index;

	if (!keys->fresh)
		add_page(keys);
	index = keys->fresh;
	if (index)
		keys->fresh = slot_at(keys, index)->next_free;
	return index;
}

static uint32_t take_rested(struct mkeys *keys) REQUIRES(keys->lock)
{
	uint32_t index = keys->free;

	if (index) {
		keys->free = slot_at(keys, index)->next_free;
		keys->free_count--;
	}
	return index;
}

static uint32_t take_index(struct mkeys *keys) REQUIRES(keys->lock)
{
	uint32_t index = 0;

	if (keys->free_count < MKEY_REST)
		index = take_fresh(keys);
	return index ? index : take_rested(keys);
}

static void give_index(struct mkeys *keys, uint32_t index) REQUIRES(keys->lock)
{
	slot_at(keys, index)->next_free = 0;
	if (keys->free_count++)
		slot_at(keys, keys->free_last)->next_free = index;
	else
		keys->free = index;
	keys->free_last = index;
}

int mkeys_init(struct mkeys *keys)
{
	struct secret s = { 0 };

	/* calloc, so that the table costs memory only where it is used. */
	keys->page = calloc(MKEY_PAGES, sizeof(*keys->page));
	if (!keys->page)
		return -ENOMEM;
	lock_init(&keys->lock);
	keys->place = secret_below(&s, PLACES);
	return 0;
}

void mkeys_fini(struct mkeys *keys)
{
	for (unsigned i = 0; keys->page && i < MKEY_PAGES; i++)
		free(keys->page[i]);
	free((void *)keys->page);
}

bool mkeys_hold(struct mkeys *keys, enum lock_how how)
{
	return lock_get(&keys->lock, how);
}

void mkeys_let_go(struct mkeys *keys)
{
	lock_give(&keys->lock);
}

int mkey_add(struct mkeys *keys, struct mkey *mk)
{
	struct mkey_slot *slot;
	uint32_t index;

	lock_take(&keys->lock);
	index = take_index(keys);
	if (index) {
		slot = slot_at(keys, index);
		mk->key = index << MKEY_GENERATION_BITS | slot->generation;
		atomic_store_explicit(&slot->mkey, mk, memory_order_release);
	}
	lock_give(&keys->lock);
	return index ? 0 : -ENOMEM;
}

void mkey_del(struct mkeys *keys, struct mkey *mk)
{
	uint32_t index = mk->key >> MKEY_GENERATION_BITS;
	struct mkey_slot *slot = slot_at(keys, index);

	lock_take(&keys->lock);
	atomic_store_explicit(&slot->mkey, NULL, memory_order_relaxed);
	/* The key's generation and not the slot's is advanced, because binds change a
	 * window's generation. */
	slot->generation = (uint8_t)(mk->key + slot->step);
	give_index(keys, index);
	lock_give(&keys->lock);
	mkeys_changed(keys);
}

struct mkey *mkey_at(const struct mkeys *keys, uint32_t key)
{
	struct mkey_slot *slot = slot_at(keys, key >> MKEY_GENERATION_BITS);

	return slot ? atomic_load_explicit(&slot->mkey, memory_order_acquire) : NULL;
}

struct mkey *mkey_find(const struct mkeys *keys, uint32_t key)
{
	struct mkey *mk = mkey_at(keys, key);

	return mk && mk->key == key ? mk : NULL;
}

bool mkey_is_exported(const struct mkeys *keys, uint32_t key)
{
	uint32_t page = key >> (MKEY_GENERATION_BITS + PAGE_BITS);

	return keys->exported[page % PLACES] == page && page;
}
