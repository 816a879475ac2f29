/* SPDX-License-Identifier: BSD-2-Clause */
/* core.h - one NIC as the verbs objects see it: the tables that its devices
 * share.  A process has one; a unit test has as many as it likes. */
#ifndef CORE_CORE_H
#define CORE_CORE_H

#include <errno.h>
#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/null_memory.h"
#include "sys/list.h"
#include "sys/lock.h"
#include "sys/qpn.h"
#include "sys/turn.h"

struct heap;
struct qp;
struct mkey;
struct mkey_page;
struct exports;
struct share;
struct xrc_name;

enum {
	QPN_FIRST = 2,	      /* 0 is reserved, 1 is the GSI */
	QPN_REST = 1022,      /* so many more than QPs: a number that
			       * was in use comes after so many others,
			       * as a late packet must not find a new QP */
	MKEY_INDEX_BITS = 24, /* key = index (24) | generation (8) */
	CORE_ROOMS = 8,	      /* so many rooms, and one, may keep something */
	MKEY_PAGE_BITS = 12,  /* of those in a page of the table of keys */
	MKEY_PAGES = 1 << (MKEY_INDEX_BITS - MKEY_PAGE_BITS),
	MKEY_EXPORT_PAGES = 16, /* pages of keys in the export table */
};

struct core {
	struct turn turn;	  /* see sys/turn.h */
	struct lock lock;	  /* the tables: adding, removing */
	uint16_t slot;		  /* this NIC's, 1..1022 */
	_Atomic(struct qp *) due; /* stack of QPs with work: core/due.h */
	/* Read by the holder of the turn without the lock; a slot that is
	 * cleared is free for use by others after turn_pass(). */
	struct qp **qps;       /* [QPN_INDICES] */
	uint16_t *qp_free;     /* [QPN_INDICES] a queue of indices: from */
	uint32_t qp_free_head; /* .. here all but those of qp_count QPs */
	uint32_t qp_count;
	struct heap *timers;		  /* the engine's, of qp->timer; or NULL */
	struct mkey_page *_Atomic *mkeys; /* two-level: core/mkey.c */
	uint32_t mkey_pages, mkey_place;  /* so many; where the first one went */
	uint16_t mkey_exports[MKEY_EXPORT_PAGES]; /* page that has this part of it */
	_Atomic uint32_t mkey_changes; /* so many keys have ended, or changed */
	uint32_t mkey_fresh;	       /* a stack */
	uint32_t mkey_free, mkey_free_last, mkey_free_count; /* a queue */
	/* Objects that exist, held to caps by count_up(). */
	_Atomic uint32_t pds, mrs, mws, ahs, cqs;
	_Atomic size_t dm_bytes;  /* of caps.max_dm */
	_Atomic uint32_t handles; /* the last one given */
	struct null_memory null;
	struct list pd_list, dm_list, mcast, devices, contexts, windows;
	struct list xrc_domains;
	struct list xrc_stand_ins; /* struct qp.xrc_node; under the turn */
	/* Outside of the turn: domains with a name are opened and closed one by one. */
	struct lock xrc_lock;
	/* Other processes see that this one has that domain.  0 and what to give back,
	 * or -errno.  NULL: there are no others.  Turn held. */
	int (*xrc_claim)(struct core *core, const struct xrc_name *name, void **claim);
	void (*xrc_unclaim)(void *claim);
	/* Does another process have it?  Turn not held. */
	bool (*xrc_elsewhere)(struct core *core, const struct xrc_name *name);
	struct share *share; /* core/share.h; NULL: target QPs are not opened */
	/* An event of a QP that has openers: they are told.  Turn held. */
	void (*qp_raised)(struct qp *qp, enum ibv_event_type type);
	struct list qp1s;  /* core/qp1.h; written under the turn */
	struct srq **srqs; /* [QPN_INDICES], as qps */
	uint32_t srq_next, srq_count;
	void *kept[CORE_ROOMS]; /* by rooms above: core/room.h */
	/* For other processes of the host (core/exports.h), or NULL; and how to
	 * wait, without the turn, until none of them writes to a region that is
	 * no longer on it: 0, or -EBUSY where that does not end. */
	struct exports *exports;
	int (*exports_wait)(struct core *core, const struct mkey *mk);
	/* Told of each region of a program's memory before it is in the export table, and
	 * when nobody is inside any more; or NULL.  Turn not held. */
	void (*mr_added)(struct core *core, const struct mkey *mk);
	void (*mr_removed)(struct core *core, const struct mkey *mk);
	uint64_t (*clock)(void); /* NULL: a turn takes no time */
	/* All that had come in by then has been taken in (core/timeout.h).
	 * NEVER where nobody says so: who runs timers has looked before. */
	uint64_t heard;
	bool must_hear; /* a timer waits for it */
	uint32_t spent; /* datagrams' worth of work of a turn
			 * that put none out */
	bool dead;	/* descriptors lost, or forked */
	bool hurry;	/* all goes out that might wait */
	bool leaving;	/* exit(): a QP that is locked stays so */
};

/* The turn is held, though clang cannot see that: in what is called through a table or by
 * who has the core by another name. */
static inline void turn_is_held(const struct core *core) ASSERTS(core->turn)
{
	(void)core;
}

int core_init(struct core *core, uint16_t slot); /* 0 or -ENOMEM */
void core_fini(struct core *core);		 /* everything is gone */

/* One more object of a kind, unless there are max: 0 or -ENOMEM. */
static inline int count_up(_Atomic uint32_t *n, uint32_t max)
{
	if (atomic_fetch_add_explicit(n, 1, memory_order_relaxed) < max)
		return 0;
	atomic_fetch_sub_explicit(n, 1, memory_order_relaxed);
	return -ENOMEM;
}

static inline void count_down(_Atomic uint32_t *n)
{
	atomic_fetch_sub_explicit(n, 1, memory_order_relaxed);
}

/* A number for the handle fields that programs see. */
static inline uint32_t core_handle(struct core *core)
{
	return 1 + atomic_fetch_add_explicit(&core->handles, 1, memory_order_relaxed);
}

#endif
