/* SPDX-License-Identifier: BSD-2-Clause */
/* mkey.h - the table of memory keys.  For mr.c and mw.c; everybody else goes
 * through mr_check().
 *
 * Entries are read without a lock by the holder of the turn, so pages of the
 * table never move and live as long as the core.
 */
#ifndef CORE_MKEY_H
#define CORE_MKEY_H

#include <stdint.h>

struct core;
struct mkey;

/* So many indices rest before one of them is used again; together with the
 * generation a stale key stays dead for 256 times as many registrations. */
enum { MKEY_REST = 4096 };

int mkey_table_init(struct core *core);		/* 0 or -ENOMEM */
void mkey_table_fini(struct core *core);

/* Give mk a key and publish it: it must be filled.  0 or -ENOMEM. */
int mkey_add(struct core *core, struct mkey *mk);

/* The key stops working.  Turn held: nobody is inside the region when this
 * returns, and nobody gets in after. */
void mkey_del(struct core *core, struct mkey *mk);

/* What key stands for, valid or not, or NULL.  Turn held. */
struct mkey *mkey_find(struct core *core, uint32_t key);

#endif
