/* SPDX-License-Identifier: BSD-2-Clause */
/* mr.h - memory regions and windows: the only way from a key to an address (IBTA vol.
 * 1, 10.6).
 *
 * lkey and rkey of a region are the same key: index (24 bits) | generation (8 bits,
 * never 0 together with index 0). The memory that mr_check() returns may be touched
 * until the holder gives the turn: deregistration clears the entry, then passes the
 * turn.
 */
#ifndef VERBS_MR_H
#define VERBS_MR_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/guard.h"
#include "sys/list.h"
#include "sys/live.h"
#include "verbs/core.h"
#include "verbs/flush.h"
#include "verbs/mkey.h"
#include "verbs/pd.h"
#include "verbs/verr.h"

struct context;
struct core;
struct mr;
struct mw;
struct qp;
struct swqe;

/* The access flags that programs may ask for, of a region, a QP or a window: all
 * supported flags and the optional ones, which may be ignored. For a window only the
 * remote rights count. */
#define ACCESS_KNOWN                                                                     \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |     \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ZERO_BASED |         \
	 IBV_ACCESS_ON_DEMAND | IBV_ACCESS_HUGETLB | (unsigned)ACCESS_FLUSH |            \
	 (unsigned)IBV_ACCESS_OPTIONAL_RANGE)

struct mr *mr_of(struct ibv_mr *ibv);
struct mw *mw_of(struct ibv_mw *ibv);

struct mr {
	struct live live;
	struct ibv_mr ibv;
	struct mkey mkey;
	struct core *core;
	bool imported; /* a second object: only ibv, key and PD are used */
	bool leaving;  /* its key is removed, but threads may still use it */
	/* Of a region whose memory is not the program's: the region ends. Else NULL. */
	void (*release)(struct mr *mr);
	void *of; /* release()'s own */
};
struct mw {
	struct live live;
	struct ibv_mw ibv;
	struct mkey mkey;
	struct core *core;
	uint32_t index;	  /* of its key, without the generation */
	struct list node; /* in core->windows while a type 2 window is bound */
};

/* The key that a bind gives to a window. Of the key that the program names only the
 * generation counts (IBTA 10.6.7), as for RNICs. */
static inline uint32_t mw_key(const struct mw *mw, uint32_t rkey)
{
	return mw->index << MKEY_GENERATION_BITS |
	       (rkey & ((1u << MKEY_GENERATION_BITS) - 1));
}

/* Registers memory. addr: its start in this process; iova: the address by which peers
 * and SGEs name it (taken as 0 for zero-based). Returns -EINVAL for REMOTE_WRITE or
 * REMOTE_ATOMIC without LOCAL_WRITE, for unknown mandatory flags, and for length 0 at
 * a page's start (as the kernel does); -EFAULT for a range that is not accessible,
 * unless ON_DEMAND. ON_DEMAND with addr NULL and length SIZE_MAX covers all of memory
 * (implicit ODP). */
int mr_reg(struct pd *pd, void *addr, size_t length, uint64_t iova, int access,
	   struct mr **out);
/* Checks access flags alone. Returns 0; -EINVAL; -EOPNOTSUPP for FLUSH rights that pd's
 * device does not have. */
int mr_check_access(const struct pd *pd, int access);
/* Makes a region as described by `like`, which the caller has checked. */
int mr_make(struct pd *pd, const struct mkey *like, struct mr **out);
int null_mr_alloc(struct pd *pd, struct mr **out); /* 0 or -ENOMEM */
/* Changes a region in place, keeping its key; on an error nothing changes. Returns
 * -EBUSY if windows are bound to it. */
int mr_rereg(struct mr *mr, int flags, struct pd *pd, void *addr, size_t length,
	     int access);
int mr_dereg(struct mr *mr); /* passes the turn; 0 or -EBUSY */
/* Makes a second object in pd for the region with this handle (its key) for which
 * ok(mr, arg) is true. Returns 0 or -ENOENT. */
int mr_import(struct pd *pd, uint32_t handle,
	      bool (*ok)(const struct mr *mr, const void *arg), const void *arg,
	      struct mr **out);
void mr_unimport(struct mr *mr);
/* ibv_advise_mr; with IBV_ADVISE_MR_FLAG_FLUSH the pages are present on return.
 * Returns 0; -EOPNOTSUPP: unknown advice; -ENOENT: no such region; -EPERM: a region of
 * another PD, or one that cannot be written, or whose memory cannot; -EINVAL: not
 * ON_DEMAND; -EFAULT: outside of the region or not mapped. */
int mr_advise(struct pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	      const struct ibv_sge *sge, uint32_t n);
int mw_alloc(struct pd *pd, enum ibv_mw_type type, struct mw **out);
int mw_dealloc(struct mw *mw); /* a bound window may be deallocated */

/* Executes a bind, in send queue order. rkey: the new key (mw_key()), whose index is the
 * window's; the key that the window has until then does not matter, since several binds
 * may have been posted at once. handle: the window's, for another window may have got the
 * index since the post. info: as given to ibv_bind_mw; length 0 unbinds (type 1). qpn:
 * the QP that posted the bind. Returns IBV_WC_SUCCESS or IBV_WC_MW_BIND_ERR. */
enum ibv_wc_status mw_bind(struct core *core, uint32_t rkey, uint32_t handle,
			   enum ibv_mw_type type, uint32_t qpn, struct pd *pd,
			   const struct ibv_mw_bind_info *info) REQUIRES(core->turn);

/* Invalidates a key, for IBV_WR_LOCAL_INV and SEND with Invalidate. The key must be of
 * a type 2 window of this pd and, unless qpn is 0, bound to QP qpn. Returns 0 or
 * -EACCES. */
int mkey_invalidate(struct core *core, uint32_t key, struct pd *pd, uint32_t qpn)
	REQUIRES(core->turn);
/* Executes an IBV_WR_BIND_MW or IBV_WR_LOCAL_INV that is the oldest request. Returns
 * its completion status; on failure *verr is VERR_BIND or VERR_INVALIDATE. */
enum ibv_wc_status mw_work(struct qp *qp, const struct swqe *w, enum verr *verr);
/* Unbinds the windows of a QP that is being destroyed. */
void mw_forget_qp(struct core *core, uint32_t qpn) REQUIRES(core->turn);

/* why an access was refused, for the log */
enum mr_why {
	MR_OK,
	MR_NO_KEY,
	MR_INVALID,
	MR_PD,
	MR_ACCESS,
	MR_RANGE,
	MR_QP,
};

/* May a QP of pd reach len bytes at va by key with all the rights in access (0: local
 * read)? qpn matters for type 2 windows. Returns MR_OK and *host, the address of the
 * first byte here, or the reason. Callers do not check a len of 0, as the
 * specification has it. */
enum mr_why mr_check(struct core *core, uint32_t key, const struct pd *pd, uint32_t qpn,
		     uint64_t va, uint64_t len, int access, uint8_t **host);

/* mr_check() for all memory behind key, without a range. */
enum mr_why mr_check_whole(struct core *core, uint32_t key, const struct pd *pd,
			   uint32_t qpn, int access);

/* A region that was found, for one PD; valid while mkeys_changes() is unchanged. */
struct mr_found {
	uint32_t key, changes;
	int access;
	uint64_t base, length;
	uint8_t *host;
};

/* mr_check() without the turn, for a thread whose word in the export table says that
 * it is inside (direct/words.h). For SGEs, so a window's key gives MR_INVALID.
 * Remembers the region in *f. */
enum mr_why mr_check_inside(struct core *core, struct mr_found *f, uint32_t key,
			    const struct pd *pd, uint64_t va, uint64_t len, int access,
			    uint8_t **host);

/* Does f, which remembers a region of the same PD, allow the access? If not,
 * mr_check_inside() decides. */
__attribute__((always_inline)) static inline bool mr_allows(struct core *core,
							    const struct mr_found *f,
							    uint32_t key, uint64_t va,
							    uint64_t len, int access)
{
	return f->key == key && (f->access & access) == access &&
	       f->changes == mkeys_changes(&core->mkeys) && len <= f->length &&
	       va - f->base <= f->length - len;
}

/* Only if mr_allows(). */
static inline uint8_t *mr_at(const struct mr_found *f, uint64_t va)
{
	return (uint8_t *)((uintptr_t)f->host + (uintptr_t)(va - f->base));
}

/* Returns the address, or NULL: call mr_check_inside() then. */
static inline uint8_t *mr_again(struct core *core, const struct mr_found *f, uint32_t key,
				uint64_t va, uint64_t len, int access)
{
	return mr_allows(core, f, key, va, len, access) ? mr_at(f, va) : NULL;
}

/* The rest of mr_write(), after a fault. */
int mr_write_protected(struct core *core, uint32_t key, uint8_t *host, const void *src,
		       size_t n);
/* Write n bytes, or the 8 bytes of an atomic, at host, after mr_check() allowed it by
 * key. Bytes are written upward, the last 64 last. Like a NIC that pinned the region,
 * these write even to memory that the program has since write-protected (not for
 * ON_DEMAND). Return 0, or -EFAULT if the memory is gone. Turn held. */
static inline int mr_write(struct core *core, uint32_t key, uint8_t *host,
			   const void *src, size_t n)
{
	return guard_copy(host, src, n) == 0
		       ? 0
		       : mr_write_protected(core, key, host, src, n);
}
int mr_cmp_swap(struct core *core, uint32_t key, uint64_t *at, uint64_t compare,
		uint64_t swap, uint64_t *orig);
int mr_fetch_add(struct core *core, uint32_t key, uint64_t *at, uint64_t add,
		 uint64_t *orig);

const char *mr_why_str(enum mr_why why); /* "key unknown", ... */

#endif
