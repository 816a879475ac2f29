/* SPDX-License-Identifier: BSD-2-Clause */
/* mkey.c - see mkey.h. */
#include "core/mkey.h"

#include <stdlib.h>

#include "core/core.h"
#include "core/mr.h"

enum {
	PAGE_BITS = 12,
	PAGE_SLOTS = 1 << PAGE_BITS,
	PAGES = 1 << (MKEY_INDEX_BITS - PAGE_BITS),
	INDICES = 1 << MKEY_INDEX_BITS,
	GENERATION_BITS = 32 - MKEY_INDEX_BITS,
};

struct mkey_page {
	struct mkey_slot {
		_Atomic(struct mkey *) mkey;
		uint32_t next_free;		/* core->lock */
		uint8_t generation;		/* of the next key; core->lock */
	} slot[PAGE_SLOTS];
};

int mkey_table_init(struct core *core)
{
	core->mkeys = calloc(PAGES, sizeof(*core->mkeys));
	core->mkey_end = 1;		/* so that no key is 0 */
	return core->mkeys ? 0 : -ENOMEM;
}

void mkey_table_fini(struct core *core)
{
	for (unsigned i = 0; i < PAGES; i++)
		free(core->mkeys[i]);
	free((void *)core->mkeys);
}

static struct mkey_slot *slot_at(struct core *core, uint32_t index)
{
	struct mkey_page *page;

	page = atomic_load_explicit(&core->mkeys[index >> PAGE_BITS],
				    memory_order_acquire);
	return page ? &page->slot[index & (PAGE_SLOTS - 1)] : NULL;
}

/* An index that was never used.  0: the table is full, or no memory. */
static uint32_t take_fresh(struct core *core)
{
	uint32_t index = core->mkey_end;
	struct mkey_page *page;

	if (index == INDICES)
		return 0;
	if (!slot_at(core, index)) {
		page = calloc(1, sizeof(*page));
		if (!page)
			return 0;
		atomic_store_explicit(&core->mkeys[index >> PAGE_BITS], page,
				      memory_order_release);
	}
	core->mkey_end++;
	return index;
}

static uint32_t take_rested(struct core *core)
{
	uint32_t index = core->mkey_free;

	if (index) {
		core->mkey_free = slot_at(core, index)->next_free;
		core->mkey_free_count--;
	}
	return index;
}

static uint32_t take_index(struct core *core)
{
	uint32_t index = 0;

	if (core->mkey_free_count < MKEY_REST)
		index = take_fresh(core);
	return index ? index : take_rested(core);
}

static void give_index(struct core *core, uint32_t index)
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
	/* From the key, not the slot: binds change a window's generation. */
	slot->generation = (uint8_t)(mk->key + 1);
	give_index(core, index);
	lock_give(&core->lock);
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
