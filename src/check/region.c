/* SPDX-License-Identifier: BSD-2-Clause */
/* region.c - see region.h. A region's memory is read from the region itself, since
 * ibv_rereg_mr() changes it; the region is not freed before region_gone(). */
#include "check/region.h"

#include <stdlib.h>
#include <string.h>

#include "sys/procmaps.h"
#include "verbs/mr.h"

enum { CHAINS = 1024 };

struct region {
	struct region *next;
	const struct mr *mr;
	const uint8_t *plain; /* mr's memory, when it was found so; NULL */
	uint64_t plain_len;
};

static struct brief_lock lock;
static struct region *chain[CHAINS] GUARDED_BY(lock);

static struct region **chain_of(uint32_t key) REQUIRES(lock)
{
	return &chain[key * 0x9e3779b1u >> 22];
}

static struct region *find_region(const struct mr *mr) REQUIRES(lock)
{
	struct region *r = *chain_of(mr->mkey.key);

	while (r && r->mr != mr)
		r = r->next;
	return r;
}

void region_made(struct check_object *o)
{
	const struct mr *mr = container_of(o->live, struct mr, live);
	struct region *r;

	if (o->kind != LIVE_MR || mr->imported)
		return;
	brief_take(&lock);
	r = find_region(mr) ? NULL : malloc(sizeof(*r));
	if (r) {
		struct region **head = chain_of(mr->mkey.key);

		*r = (struct region){ .next = *head, .mr = mr };
		*head = r;
	}
	brief_give(&lock);
}

void region_gone(struct check_object *o)
{
	const struct mr *mr = container_of(o->live, struct mr, live);
	struct region **at, *r;

	if (o->kind != LIVE_MR || mr->imported)
		return;
	brief_take(&lock);
	r = find_region(mr);
	if (r) {
		at = chain_of(mr->mkey.key);
		while (*at != r)
			at = &(*at)->next;
		*at = r->next;
		free(r);
	}
	brief_give(&lock);
}

uint64_t region_at(uint32_t lkey, uint64_t addr, uint64_t len)
{
	const struct mkey *k;
	struct region *r;
	uint64_t at = 0;

	brief_take(&lock);
	for (r = *chain_of(lkey); r; r = r->next) {
		k = &r->mr->mkey;
		if (k->key != lkey || k->is_null || atomic_load(&k->moving))
			continue;
		if (len <= k->length && addr - k->base <= k->length - len)
			at = (uintptr_t)k->host + (addr - k->base);
		break;
	}
	brief_give(&lock);
	return at;
}

bool region_is_open(uint64_t at, uint64_t len)
{
	const int writes = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
	bool open = false;

	brief_take(&lock);
	for (unsigned i = 0; i < CHAINS; i++)
		for (const struct region *r = chain[i]; r; r = r->next) {
			const uint64_t from = (uintptr_t)r->mr->mkey.host;

			open |= r->mr->mkey.access & writes &&
				(at < from ? from - at < len
					   : at - from < r->mr->mkey.length);
		}
	brief_give(&lock);
	return open;
}

bool region_has(uint64_t address)
{
	bool has = false;

	brief_take(&lock);
	for (unsigned i = 0; i < CHAINS; i++)
		for (const struct region *r = chain[i]; r; r = r->next)
			has |= address - (uintptr_t)r->mr->mkey.host < r->mr->mkey.length;
	brief_give(&lock);
	return has;
}

/* --- how it is mapped ----------------------------------------------------------- */

static bool is_plain(const struct procmap *m)
{
	return !strncmp(m->perms, "rw-", 3);
}

void region_look(struct check_object *o)
{
	const struct mr *mr = container_of(o->live, struct mr, live);
	const struct mkey *k = &mr->mkey;
	const uint64_t from = (uintptr_t)k->host;
	struct region *r;
	bool plain;

	if (o->kind != LIVE_MR || mr->imported || !from || k->is_null ||
	    k->access & IBV_ACCESS_ON_DEMAND)
		return;
	plain = mapped_all_so(from, from + k->length, is_plain);
	brief_take(&lock);
	r = find_region(mr);
	if (r && plain) {
		r->plain = k->host;
		r->plain_len = k->length;
	}
	brief_give(&lock);
}

bool region_is_plain(uint32_t lkey)
{
	bool plain = false;

	brief_take(&lock);
	for (const struct region *r = *chain_of(lkey); r; r = r->next)
		if (r->mr->mkey.key == lkey)
			plain = r->plain && r->plain == r->mr->mkey.host &&
				r->plain_len == r->mr->mkey.length;
	brief_give(&lock);
	return plain;
}
