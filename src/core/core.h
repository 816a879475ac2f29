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
	QPN_REST = 1022,      /* spare numbers beyond max_qp: a freed number is
			       * given again only after this many others, so that
			       * a late packet does not find a new QP */
	MKEY_INDEX_BITS = 24, /* key = index (24) | generation (8) */
	CORE_ROOMS = 8,	      /* rooms that may keep state here, plus 1 */
	MKEY_PAGE_BITS = 12,  /* keys in a page of the key table, as bits */
	MKEY_PAGES = 1 << (MKEY_INDEX_BITS - MKEY_PAGE_BITS),
	MKEY_EXPORT_PAGES = 16, /* pages of keys in the export table */
};

struct core {
	struct turn turn;	  /* see sys/turn.h */
	struct lock lock;	  /* the tables: adding, removing */
	uint16_t slot;		  /* this NIC's number on the host, 1..1022 */
	_Atomic(struct qp *) due; /* stack of QPs with work: core/due.h */
	/* The turn's holder reads qps without the lock; what a cleared slot pointed to
	 * may be freed after turn_pass(). */
	struct qp **qps;       /* [QPN_INDICES] */
	uint16_t *qp_free;     /* [QPN_INDICES] circular queue of free indices, .. */
	uint32_t qp_free_head; /* .. which start here; qp_count are in use */
	uint32_t qp_count;
	struct heap *timers;		  /* the engine's heap of qp->timer, or NULL */
	struct mkey_page *_Atomic *mkeys; /* two-level: core/mkey.c */
	uint32_t mkey_pages, mkey_place;  /* pages in use; place of the first page */
	uint16_t mkey_exports[MKEY_EXPORT_PAGES]; /* numbers of the pages in it */
	_Atomic uint32_t mkey_changes; /* count of keys that ended or changed */
	uint32_t mkey_fresh;	       /* top of the stack of never used indices */
	uint32_t mkey_free, mkey_free_last, mkey_free_count; /* queue of used indices */
	/* Numbers of existing objects, limited to caps by count_up(). */
	_Atomic uint32_t pds, mrs, mws, ahs, cqs;
	_Atomic size_t dm_bytes;  /* device memory in use, caps.max_dm at most */
	_Atomic uint32_t handles; /* the last handle given */
	struct null_memory null;
	struct list pd_list, dm_list, mcast, devices, contexts, windows;
	struct list xrc_domains;
	struct list xrc_stand_ins; /* linked by qp->xrc_node; under the turn */
	/* Serialises opening and closing named XRC domains. Taken outside of the turn. */
	struct lock xrc_lock;
	/* Tells other processes that this one has the domain. Returns 0 and *claim for
	 * xrc_unclaim(), or -errno. NULL: there are no other processes. Turn held. */
	int (*xrc_claim)(struct core *core, const struct xrc_name *name, void **claim);
	void (*xrc_unclaim)(void *claim);
	/* Does another process have the domain? Turn not held. */
	bool (*xrc_elsewhere)(struct core *core, const struct xrc_name *name);
	struct share *share; /* core/share.h; NULL: ibv_open_qp is not served */
	/* Tells the openers of a QP about an event of it. Turn held. */
	void (*qp_raised)(struct qp *qp, enum ibv_event_type type);
	struct list qp1s;  /* core/qp1.h; written under the turn */
	struct srq **srqs; /* [QPN_INDICES], as qps */
	uint32_t srq_next, srq_count;
	void *kept[CORE_ROOMS]; /* state of rooms above core: core/room.h */
	/* The table for other processes of the host (core/exports.h), or NULL.
	 * exports_wait() waits, without the turn, until no process writes to a region
	 * that was removed from the table: 0, or -EBUSY where a write does not end. */
	struct exports *exports;
	int (*exports_wait)(struct core *core, const struct mkey *mk);
	/* Called for each region of program memory: mr_added before it enters the
	 * export table, mr_removed when no thread uses it any more. NULL: not needed.
	 * Turn not held. */
	void (*mr_added)(struct core *core, const struct mkey *mk);
	void (*mr_removed)(struct core *core, const struct mkey *mk);
	uint64_t (*clock)(void); /* NULL: time stands still during a turn */
	/* Everything that arrived by this time has been taken in (core/timeout.h).
	 * NEVER where the engine sets no time: there all input is taken in before
	 * timers run. */
	uint64_t heard;
	bool must_hear; /* a timer waits for heard to advance */
	uint32_t spent; /* work of this turn that sent nothing, in datagrams */
	bool dead;	/* descriptors lost, or forked */
	bool hurry;	/* send everything that might otherwise wait */
	bool leaving;	/* in exit(): a locked QP is never unlocked again */
};

/* Tells clang's analysis that the turn is held: for functions called through a table,
 * and where the core is reached under another name. */
static inline void turn_is_held(const struct core *core) ASSERTS(core->turn)
{
	(void)core;
}

int core_init(struct core *core, uint16_t slot); /* 0 or -ENOMEM */
void core_fini(struct core *core);		 /* all its objects must be gone */

/* Counts one more object unless max exist. Returns 0 or -ENOMEM. */
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

/* Returns a new number for the handle fields that programs see. */
static inline uint32_t core_handle(struct core *core)
{
	return 1 + atomic_fetch_add_explicit(&core->handles, 1, memory_order_relaxed);
}

#endif
