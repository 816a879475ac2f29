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
#ifndef VERBS_MKEY_H
#define VERBS_MKEY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/fd.h"
#include "sys/lock.h"

struct core;
struct mkey_page;
struct pd;

enum {
	MKEY_INDEX_BITS = 24, /* key = index (24) | generation (8) */
	MKEY_GENERATION_BITS = 32 - MKEY_INDEX_BITS,
	MKEY_PAGE_BITS = 12, /* keys in a page of the table, as bits */
	MKEY_PAGES = 1 << (MKEY_INDEX_BITS - MKEY_PAGE_BITS),
	MKEY_EXPORT_PAGES = 16, /* pages of keys in the export table */
};

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

/* The keys of a NIC. Only mkey.c uses the members. */
struct mkeys {
	struct lock lock;		      /* adding and removing keys */
	struct mkey_page *_Atomic *page;      /* [MKEY_PAGES], by a key's upper bits */
	uint32_t pages, place;		      /* pages in use; place of the first page */
	uint16_t exported[MKEY_EXPORT_PAGES]; /* pages that are in the export table */
	_Atomic uint32_t changes;	      /* count of keys that ended or changed */
	uint32_t fresh;			      /* top of the stack of never used indices */
	uint32_t free, free_last, free_count; /* queue of used indices */
};

/* What the room above verbs does about regions; each may be NULL. The turn is not held.
 */
struct region_hooks {
	/* Called for each region of program memory: added before it enters the export
	 * table, removed when no thread uses it any more. */
	void (*added)(struct core *core, const struct mkey *mk);
	void (*removed)(struct core *core, const struct mkey *mk);
	/* Waits until no process writes to a region that was taken out of the export
	 * table: 0, or -EBUSY where a write does not end. Not NULL where there is a
	 * table. */
	int (*wait)(struct core *core, const struct mkey *mk);
	/* Waits until the threads that copy without the turn, and may have looked a key
	 * up before this call, have ended their copies. */
	void (*pass)(struct core *core);
};

int mkeys_init(struct mkeys *keys); /* returns 0 or -ENOMEM */
void mkeys_fini(struct mkeys *keys);
/* Around fork(), so that the child finds the table whole. */
bool mkeys_hold(struct mkeys *keys, enum lock_how how) TRY_ACQUIRES(true, keys->lock);
void mkeys_let_go(struct mkeys *keys) RELEASES(keys->lock);

/* What a key was found to be holds while this number stays the same. */
static inline uint32_t mkeys_changes(const struct mkeys *keys)
{
	return atomic_load_explicit(&keys->changes, memory_order_acquire);
}

/* A key has changed what it stands for. */
static inline void mkeys_changed(struct mkeys *keys)
{
	atomic_fetch_add(&keys->changes, 1);
}

/* Gives mk, which is filled, a key and publishes it. Returns 0 or -ENOMEM. */
int mkey_add(struct mkeys *keys, struct mkey *mk);

/* Removes the key for later lookups. A thread that found the key before may use it
 * until the current turn ends: see turn_pass(). */
void mkey_del(struct mkeys *keys, struct mkey *mk);

/* Does key have a place in the export table, as one of the first 65,536? */
bool mkey_is_exported(const struct mkeys *keys, uint32_t key);

/* Returns what key stands for, valid or not, or NULL. Turn held. */
struct mkey *mkey_find(const struct mkeys *keys, uint32_t key);
/* Returns what has the index of key, whatever the generation, or NULL. Turn held. */
struct mkey *mkey_at(const struct mkeys *keys, uint32_t key);

#endif
