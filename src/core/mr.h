/* SPDX-License-Identifier: BSD-2-Clause */
/* mr.h - memory regions and windows: the one door from a
 * key to an address (IBTA vol. 1, 10.6).
 *
 * lkey and rkey of a region are the same key: index (24 bits) | generation (8
 * bits, never 0 together with index 0).  The memory behind mr_check() may be
 * touched until the holder of the turn gives it: deregistration clears the
 * entry, then passes the turn.
 */
#ifndef CORE_MR_H
#define CORE_MR_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "core/flush.h"
#include "core/mkey.h"
#include "core/pd.h"
#include "core/verr.h"
#include "sys/list.h"
#include "sys/live.h"

struct context;
struct core;
struct dm;
struct mr;
struct mw;
struct qp;
struct swqe;

/* What programs may ask for, of a region, a QP or a window: all that there is
 * and the bits that may be ignored.  Of a window's the remote rights count. */
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
	bool imported; /* a second name: nothing but ibv, key and PD */
	struct dm *dm; /* of device memory; or NULL */
	bool leaving;  /* its key is gone, but not yet all who used it */
};
struct mw {
	struct live live;
	struct ibv_mw ibv;
	struct mkey mkey;
	struct core *core;
	struct list node; /* type 2, bound: in core->windows */
};

/* addr: start in this process; iova: what peers and SGEs call it (taken as 0
 * for zero-based).  access is checked: REMOTE_WRITE and REMOTE_ATOMIC need
 * LOCAL_WRITE; unknown mandatory bits are refused.  addr need not be mapped
 * for ON_DEMAND; otherwise a range that is not accessible gives -EFAULT.
 * ON_DEMAND with addr NULL and length SIZE_MAX is implicit: all of memory.
 * A length of 0 is -EINVAL at a page's start, as it is in the kernel. */
int mr_reg(struct pd *pd, void *addr, size_t length, uint64_t iova, int access,
	   struct mr **out);
/* What access may be asked for at all.  0; -EINVAL; -EOPNOTSUPP: FLUSH rights that the
 * device of pd has not. */
int mr_check_access(const struct pd *pd, int access);
/* A region that is like this, for callers that have checked it. */
int mr_make(struct pd *pd, const struct mkey *like, struct mr **out);
/* A region of device memory, whose access must have IBV_ACCESS_ZERO_BASED. */
int dm_reg(struct pd *pd, struct dm *dm, uint64_t offset, size_t length, int access,
	   struct mr **out);
int null_mr_alloc(struct pd *pd, struct mr **out); /* 0 or -ENOMEM */
void null_mr_release(struct core *core);	   /* one of them is gone */
/* The key stays the same; an error changes nothing.  -EBUSY: bound windows. */
int mr_rereg(struct mr *mr, int flags, struct pd *pd, void *addr, size_t length,
	     int access);
int mr_dereg(struct mr *mr); /* passes the turn; 0 or -EBUSY */
/* A second name, in pd, of the region with this handle, which is its key, for which
 * ok(mr, arg) says yes.  -ENOENT. */
int mr_import(struct pd *pd, uint32_t handle,
	      bool (*ok)(const struct mr *mr, const void *arg), const void *arg,
	      struct mr **out);
void mr_unimport(struct mr *mr);
/* IBV_ADVISE_MR_FLAG_FLUSH: pages are there when it returns.  -EOPNOTSUPP: advice
 * that there is not; -ENOENT: no such region; -EPERM: another PD's, or it cannot be
 * written, or its memory cannot; -EINVAL: not ON_DEMAND; -EFAULT: outside of it, or of
 * memory. */
int mr_advise(struct pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	      const struct ibv_sge *sge, uint32_t n);
int mw_alloc(struct pd *pd, enum ibv_mw_type type, struct mw **out);
int mw_dealloc(struct mw *mw); /* bound or not */

/* Execute a bind, in SQ order.  info as ibv_bind_mw gives it;
 * length 0 unbinds (type 1).  qpn: the QP it is bound through.  Returns
 * IBV_WC_SUCCESS or IBV_WC_MW_BIND_ERR. */
enum ibv_wc_status mw_bind(struct core *core, uint32_t old_rkey, uint32_t new_rkey,
			   enum ibv_mw_type type, uint32_t qpn, struct pd *pd,
			   const struct ibv_mw_bind_info *info) REQUIRES(core->turn);

/* IBV_WR_LOCAL_INV and SEND with Invalidate: the key stops working.  Only
 * type 2 windows of this pd and, unless qpn is 0 (any or none), bound to this
 * QP.  0, -EACCES. */
int mkey_invalidate(struct core *core, uint32_t key, struct pd *pd, uint32_t qpn)
	REQUIRES(core->turn);
/* IBV_WR_BIND_MW or IBV_WR_LOCAL_INV, when its turn has come.  The same, and why
 * if not: VERR_BIND, VERR_INVALIDATE. */
enum ibv_wc_status mw_work(struct qp *qp, const struct swqe *w, enum verr *verr);
/* The QP goes: its windows are bound no more. */
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

/* May len bytes at va behind key be reached by pd (and qpn, for type 2
 * windows) with all the rights in access (0: read locally)?  MR_OK and
 * *host, the first byte's address here.  A len of 0 is not checked by
 * callers, as the specification has it. */
enum mr_why mr_check(struct core *core, uint32_t key, const struct pd *pd, uint32_t qpn,
		     uint64_t va, uint64_t len, int access, uint8_t **host);

/* May all that is behind key be reached so? */
enum mr_why mr_check_whole(struct core *core, uint32_t key, const struct pd *pd,
			   uint32_t qpn, int access);

/* A region of some PD: so it is as long as no key has ended or changed. */
struct mr_found {
	uint32_t key, mkey_changes;
	int access;
	uint64_t base, length;
	uint8_t *host;
};

/* The same without the turn, by a thread whose word in the export table says that it is
 * inside (direct/words.h); as a window's key is not for SGEs, MR_INVALID for one.  What
 * is found is remembered. */
enum mr_why mr_check_inside(struct core *core, struct mr_found *f, uint32_t key,
			    const struct pd *pd, uint64_t va, uint64_t len, int access,
			    uint8_t **host);

/* ... by f, which remembers one of the same PD; or NULL: it is to be looked for. */
static inline uint8_t *mr_again(struct core *core, const struct mr_found *f, uint32_t key,
				uint64_t va, uint64_t len, int access)
{
	if (f->key != key || (f->access & access) != access ||
	    f->mkey_changes !=
		    atomic_load_explicit(&core->mkey_changes, memory_order_acquire) ||
	    len > f->length || va - f->base > f->length - len)
		return NULL;
	return (uint8_t *)((uintptr_t)f->host + (uintptr_t)(va - f->base));
}

/* Change n bytes, or an atomic's 8, at host, where mr_check() has just said that
 * key allows it; upward, the last 64 bytes last.  As of a NIC that has pinned the
 * region: also where the program has since protected it against writing (not
 * ON_DEMAND).  0 or -EFAULT: the memory is gone.  Turn held. */
int mr_write(struct core *core, uint32_t key, uint8_t *host, const void *src, size_t n);
int mr_cmp_swap(struct core *core, uint32_t key, uint64_t *at, uint64_t compare,
		uint64_t swap, uint64_t *orig);
int mr_fetch_add(struct core *core, uint32_t key, uint64_t *at, uint64_t add,
		 uint64_t *orig);

const char *mr_why_str(enum mr_why why); /* "key unknown", ... */

#endif
