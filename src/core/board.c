/* SPDX-License-Identifier: BSD-2-Clause */
/* board.c - see board.h. */
#include "core/board.h"

#include <stddef.h>
#include <string.h>

#include "core/mkey.h"
#include "core/mr.h"

static uint32_t mr_place(uint32_t key)
{
	return key >> (32 - MKEY_INDEX_BITS) & (BOARD_MRS - 1);
}

/* --- writing ------------------------------------------------------------- */

static void begin(_Atomic uint32_t *version)
{
	atomic_fetch_add(version, 1);
	atomic_thread_fence(memory_order_seq_cst);
}

static void end(_Atomic uint32_t *version)
{
	atomic_fetch_add(version, 1);
}

void board_put_mr(struct core *core, const struct mkey *mk)
{
	struct board_mr *e;

	if (!core->board || !mkey_on_board(core, mk->key))
		return;
	e = &core->board->mr[mr_place(mk->key)];
	begin(&e->version);
	e->key = mk->key;
	e->pd = mk->pd->ibv.handle;
	e->access = (uint32_t)mk->access;
	e->base = mk->base;
	e->length = mk->length;
	e->host = (uintptr_t)mk->host;
	end(&e->version);
}

void board_del_mr(struct core *core, uint32_t key)
{
	struct board_mr *e;

	if (!core->board || !mkey_on_board(core, key))
		return;
	e = &core->board->mr[mr_place(key)];
	if (e->key != key)
		return;
	begin(&e->version);
	e->key = 0;
	end(&e->version);
}

void board_put_qp(struct core *core, uint32_t qpn, const struct board_qp *from)
{
	struct board_qp *e;

	if (!core->board)
		return;
	e = &core->board->qp[qpn_index(qpn)];
	begin(&e->version);
	e->open = from->open;
	e->pd = from->pd;
	e->access = from->access;
	e->dest_qp = from->dest_qp;
	e->path = from->path;
	e->reads = from->reads;
	atomic_store_explicit(&e->executed, from->executed, memory_order_relaxed);
	end(&e->version);
}

void board_set_executed(struct core *core, uint32_t qpn, uint32_t psn)
{
	if (core->board)
		atomic_store_explicit(&core->board->qp[qpn_index(qpn)].executed, psn,
				      memory_order_release);
}

/* --- reading ------------------------------------------------------------- */

/* The version is an entry's first word. */
static bool get(const void *entry, void *out, size_t size)
{
	const _Atomic uint32_t *version = entry;
	uint32_t before = atomic_load_explicit(version, memory_order_acquire);

	memcpy(out, entry, size);
	atomic_thread_fence(memory_order_acquire);
	return !(before & 1) &&
	       atomic_load_explicit(version, memory_order_relaxed) == before;
}

bool board_get_mr(const struct board *b, uint32_t key, struct board_mr *out)
{
	return get(&b->mr[mr_place(key)], out, sizeof(*out));
}

bool board_get_qp(const struct board *b, uint32_t qpn, struct board_qp *out)
{
	return get(&b->qp[qpn_index(qpn)], out, sizeof(*out));
}

const _Atomic uint32_t *board_mr_version(const struct board *b, uint32_t key)
{
	return &b->mr[mr_place(key)].version;
}

const _Atomic uint32_t *board_qp_version(const struct board *b, uint32_t qpn)
{
	return &b->qp[qpn_index(qpn)].version;
}

uint32_t board_get_executed(const struct board *b, uint32_t qpn)
{
	return atomic_load_explicit(&b->qp[qpn_index(qpn)].executed,
				    memory_order_acquire);
}
