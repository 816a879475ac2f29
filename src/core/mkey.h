/* SPDX-License-Identifier: BSD-2-Clause */
/* mkey.h - memory keys and their table. The calls are for mr.c, mw.c and exports.c;
 * everybody else uses mr_check().
 *
 * All 32 bits of a key are random, so that a peer that knows some keys can guess
 * neither others nor those of another process. A lookup costs no more for it: pages
 * have random numbers, and the indices of a page are used in random order. The
 * generations of an index advance by a random odd step, so that each value comes once
 * before any repeats; the program also sets the last 8 bits of a window's key.
 *
 * The turn's holder reads entries without a lock, so pages of the table never move and
 * live as long as the core.
 */
#ifndef CORE_MKEY_H
#define CORE_MKEY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/fd.h"

struct core;
struct pd;

/* What a key stands for. SGEs and packets name the range as [base, base + length);
 * host is the address of base in this process. */
struct mkey {
	uint32_t key;
	bool valid; /* false: invalidated, or an unbound type 2 window */
	bool is_mw;
	bool is_null;	     /* null region: base and host are unused */
	_Atomic bool moving; /* the entry is being changed */
	int access;	     /* enum ibv_access_flags */
	struct pd *pd;
	uint64_t base, length;
	uint8_t *host;
	uint32_t qpn;	     /* type 2 window: the QP it is bound to; else 0 */
	struct mkey *region; /* window: the region it is bound to */
	/* Region: the file that other processes have mapped to reach it; lent_more:
	 * there are further files. Under the turn. */
	struct fd_id lent;
	bool lent_more;
	_Atomic unsigned windows; /* region: number of windows bound to it */
#define WINDOWS_NONE (1u << 31)	  /* ... and none can be any more */
};

/* This many indices are freed before one is used again; with the 256 generations of an
 * index, a stale key stays invalid for 256 times as many registrations. */
enum { MKEY_REST = 4096 };

/* Gives mk, which is filled, a key and publishes it. Returns 0 or -ENOMEM. */
int mkey_add(struct core *core, struct mkey *mk);

/* Removes the key for later lookups. A thread that found the key before may use it
 * until the current turn ends: see turn_pass(). */
void mkey_del(struct core *core, struct mkey *mk);

/* Does key have a place in the export table, as one of the first 65,536? */
bool mkey_is_exported(const struct core *core, uint32_t key);

/* Returns what key stands for, valid or not, or NULL. Turn held. */
struct mkey *mkey_find(struct core *core, uint32_t key);

#endif
