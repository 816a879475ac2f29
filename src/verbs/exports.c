/* SPDX-License-Identifier: BSD-2-Clause */
/* exports.c - see exports.h. */
#include "verbs/exports.h"

#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "verbs/mkey.h"
#include "verbs/pd.h"

static_assert(MKEY_EXPORT_PAGES << MKEY_PAGE_BITS == EXPORT_MRS,
	      "pages of keys that fill the export table");

static uint32_t mr_place(uint32_t key)
{
	return key >> (32 - MKEY_INDEX_BITS) & (EXPORT_MRS - 1);
}

/* --- writing ------------------------------------------------------------- */

static void begin_change(_Atomic uint32_t *version)
{
	atomic_fetch_add(version, 1);
	atomic_thread_fence(memory_order_seq_cst);
}

static void end_change(_Atomic uint32_t *version)
{
	atomic_fetch_add(version, 1);
}

void exports_put_mr(struct core *core, const struct mkey *mk)
{
	struct exported_mr *e;

	if (!core->exports || !mkey_is_exported(&core->mkeys, mk->key))
		return;
	e = &core->exports->mr[mr_place(mk->key)];
	begin_change(&e->version);
	e->key = mk->key;
	e->pd = mk->pd->ibv.handle;
	e->access = (uint32_t)mk->access;
	e->base = mk->base;
	e->length = mk->length;
	e->host = (uintptr_t)mk->host;
	end_change(&e->version);
}

void exports_del_mr(struct core *core, uint32_t key)
{
	struct exported_mr *e;

	if (!core->exports || !mkey_is_exported(&core->mkeys, key))
		return;
	e = &core->exports->mr[mr_place(key)];
	if (e->key != key)
		return;
	begin_change(&e->version);
	e->key = 0;
	end_change(&e->version);
}

void exports_put_qp(struct core *core, uint32_t qpn, const struct exported_qp *from)
{
	struct exported_qp *e;

	if (!core->exports)
		return;
	e = &core->exports->qp[qpn_index(qpn)];
	begin_change(&e->version);
	e->open = from->open;
	e->pd = from->pd;
	e->access = from->access;
	e->dest_qp = from->dest_qp;
	e->path = from->path;
	e->reads = from->reads;
	end_change(&e->version);
}

/* --- reading ------------------------------------------------------------- */

/* Copies an entry, whose first word is its version; false if the version was odd or
 * changed. */
static bool get_entry(const void *entry, void *out, size_t size)
{
	const _Atomic uint32_t *version = entry;
	uint32_t before = atomic_load_explicit(version, memory_order_acquire);

	/* Plain: a copy that was torn is thrown away. The fence keeps the copy before the
	 * second look. */
	memcpy(out, entry, size);
	atomic_thread_fence(memory_order_acquire);
	return !(before & 1) &&
	       atomic_load_explicit(version, memory_order_relaxed) == before;
}

bool exports_get_mr(const struct exports *b, uint32_t key, struct exported_mr *out)
{
	return get_entry(&b->mr[mr_place(key)], out, sizeof(*out));
}

bool exports_get_qp(const struct exports *b, uint32_t qpn, struct exported_qp *out)
{
	return get_entry(&b->qp[qpn_index(qpn)], out, sizeof(*out));
}

const _Atomic uint32_t *exports_mr_version(const struct exports *b, uint32_t key)
{
	return &b->mr[mr_place(key)].version;
}

const _Atomic uint32_t *exports_qp_version(const struct exports *b, uint32_t qpn)
{
	return &b->qp[qpn_index(qpn)].version;
}
