/* SPDX-License-Identifier: BSD-2-Clause */
/* now.c - copies to and from a peer's memory that is mapped here, without a system
 * call: by the posting thread without the turn, or by the thread that has the turn.
 *
 * All checks are made while inside (words.h): a thread that takes away a mapping, a
 * region of either process, or the peer's QP waits for this thread's word.
 */
#include <string.h>

#include "core/core.h"
#include "core/exports.h"
#include "core/mr.h"
#include "core/qp.h"
#include "direct/direct.h"
#include "direct/map.h"
#include "direct/words.h"
#include "sys/guard.h"
#include "sys/lock.h"

enum {
	MOST = 64 << 10, /* longest copy by the posting thread */
	/* A thread that was stopped in the middle of a copy continues it whatever was
	 * taken away meanwhile: at most this many bytes. */
	PIECE = 2048,
};

/* Reads from the peer's export table what its QP allows. */
static bool look_again(struct by by, struct allowed *a)
{
	struct exported_qp to;

	a->known = false;
	if (!exports_get_qp(by.r->exports, by.qp->attr.dest_qp_num, &to) || !to.open ||
	    to.dest_qp != by.qp->qpn || to.path != by.path)
		return false;
	a->known = true;
	a->version = to.version;
	a->pd = to.pd;
	a->access = to.access;
	/* More READs at once than the peer takes are an error. Where that is possible
	 * the peer must count them. */
	if (to.reads < by.qp->attr.max_rd_atomic)
		a->access &=
			~(unsigned)(IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC);
	return true;
}

static inline bool qp_allows(struct by by, struct allowed *a)
{
	const _Atomic uint32_t *v =
		exports_qp_version(by.r->exports, by.qp->attr.dest_qp_num);

	return (a->known &&
		atomic_load_explicit(v, memory_order_acquire) == a->version) ||
	       look_again(by, a);
}

/* What a copy may use while this thread is inside. Passed by value where a call is not
 * inlined, so that it stays in registers. */
struct job {
	struct by by;
	struct allowed *allowed;
	struct mapping *m;
	const struct swqe *w; /* the request, in the posting thread; else NULL */
};

/* Is the mapped region still registered? */
static inline bool is_lent(const struct mapping *m)
{
	return atomic_load_explicit(m->version, memory_order_acquire) == m->lent.version;
}

/* Has nothing been taken away since this thread checked? */
static inline bool goes_on(const struct job *j)
{
	const _Atomic uint32_t *qp =
		exports_qp_version(j->by.r->exports, j->by.qp->attr.dest_qp_num);

	return is_lent(j->m) &&
	       atomic_load_explicit(qp, memory_order_acquire) == j->allowed->version;
}

/* Returns where the range lies in this process; NULL: not mapped, or not certainly
 * allowed. */
static inline uint8_t *find(const struct job *j, struct range r, unsigned access)
{
	const struct mapping *m = j->m;
	struct allowed *a = j->allowed;
	uint64_t off = r.va - m->va;

	if (m->lent.key != r.key || atomic_load_explicit(&m->bad, memory_order_relaxed) ||
	    !is_lent(m) || !qp_allows(j->by, a) || m->pd != a->pd ||
	    (m->access & a->access & access) != access || r.len > m->length ||
	    off > m->length - r.len)
		return NULL;
	return m->at + off;
}

static inline uint8_t *local(const struct job *j, const struct ibv_sge *sge, int access)
{
	const struct qp *qp = j->by.qp;
	struct mr_found *f = &j->allowed->ours;
	uint8_t *host;

	if (j->w->flags & IBV_SEND_INLINE)
		return (uint8_t *)(uintptr_t)sge->addr;
	host = mr_again(qp->core, f, sge->lkey, sge->addr, sge->length, access);
	if (host)
		return host;
	return mr_check_inside(qp->core, f, sge->lkey, qp->pd, sge->addr, sge->length,
			       access, &host) == MR_OK
		       ? host
		       : NULL;
}

/* Returns 0, or -EFAULT for either side's memory; a retry by another way tells which. */
static inline int copy_piece(const struct job *j, uint8_t *to, const uint8_t *from,
			     uint32_t len)
{
	int rc = caught_copy(to, from, len);

	if (rc)
		atomic_store_explicit(&j->m->bad, true, memory_order_relaxed);
	return rc;
}

/* Copies in pieces. True: all was copied. */
static inline bool copy_one(const struct job *j, uint8_t *to, const uint8_t *from,
			    uint32_t len)
{
	for (; len > PIECE; to += PIECE, from += PIECE, len -= PIECE)
		if (copy_piece(j, to, from, PIECE) || !goes_on(j))
			return false;
	return !copy_piece(j, to, from, len);
}

static inline bool copy_sge(const struct job *j, const struct ibv_sge *sge,
			    uint8_t *there)
{
	bool read = j->w->opcode == IBV_WR_RDMA_READ;
	uint8_t *here = local(j, sge, read ? IBV_ACCESS_LOCAL_WRITE : 0);

	return here && copy_one(j, read ? here : there, read ? there : here, sge->length);
}

__attribute__((noinline)) static enum reach_did copy_sges(struct job j,
							  const struct ibv_sge *sge,
							  uint8_t *there)
{
	for (unsigned i = 0; i < j.w->num_sge; there += sge->length, i++, sge++) {
		if (i && !goes_on(&j))
			return REACH_NOT;
		if (sge->length && !copy_sge(&j, sge, there))
			return REACH_NOT;
	}
	return REACH_DONE;
}

/* The common case is one SGE. */
static inline enum reach_did copy(const struct job *j, const struct ibv_sge *sge,
				  uint8_t *there)
{
	if (j->w->num_sge != 1)
		return copy_sges(*j, sge, there);
	return copy_sge(j, sge, there) ? REACH_DONE : REACH_NOT;
}

static inline enum reach_did atomic(const struct job *j, const struct ibv_sge *sge,
				    uint8_t *there)
{
	const struct swqe *w = j->w;
	uint8_t *here =
		w->num_sge == 1 && !((uintptr_t)there % 8) && !(w->remote_addr % 8)
			? local(j, sge, IBV_ACCESS_LOCAL_WRITE)
			: NULL;
	uint64_t *at = (uint64_t *)(void *)there, was;

	if (!here)
		return REACH_NOT;
	if (w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD
		    ? caught_fetch_add(at, w->atomic.compare_add, &was)
		    : caught_cmp_swap(at, w->atomic.compare_add, w->atomic.swap, &was)) {
		atomic_store_explicit(&j->m->bad, true, memory_order_relaxed);
		return REACH_NOT;
	}
	return caught_copy(here, &was, sizeof(was)) ? REACH_FAULT : REACH_DONE;
}

/* Returns the access that the peer must allow; 0: the operation is not done here. */
static inline unsigned needs(const struct qp *qp, const struct swqe *w)
{
	switch (w->opcode) {
	case IBV_WR_RDMA_WRITE:
		return w->length && w->length <= MOST ? IBV_ACCESS_REMOTE_WRITE : 0;
	case IBV_WR_RDMA_READ:
		return w->length && w->length <= MOST && qp->attr.max_rd_atomic
			       ? IBV_ACCESS_REMOTE_READ
			       : 0;
	case IBV_WR_ATOMIC_CMP_AND_SWP:
	case IBV_WR_ATOMIC_FETCH_AND_ADD:
		return w->length == 8 && qp->attr.max_rd_atomic ? IBV_ACCESS_REMOTE_ATOMIC
								: 0;
	default:
		return 0;
	}
}

/* Was the mapping the region's until the copy had ended? A thread that takes the
 * region away changes the version first, and then waits. If it gave up waiting (torn),
 * this thread may have touched memory that belongs to no region. */
static inline bool counts(const struct job *j)
{
	atomic_signal_fence(memory_order_seq_cst);
	return is_lent(j->m) || atomic_load(&j->by.r->exports->torn) == j->m->torn;
}

static inline enum reach_did work(const struct job *j, unsigned access,
				  const struct ibv_sge *sge)
{
	const struct swqe *w = j->w;
	uint8_t *there =
		find(j, (struct range){ w->remote_addr, w->rkey, w->length }, access);
	enum reach_did did;

	if (!there)
		return REACH_NOT;
	if (access != IBV_ACCESS_REMOTE_ATOMIC) {
		did = copy(j, sge, there);
		return did == REACH_DONE && !counts(j) ? REACH_NOT : did;
	}
	did = atomic(j, sge, there);
	return did != REACH_NOT && !counts(j) ? REACH_LOST : did;
}

/* Returns the mapping for key; call it while inside, as it may be removed before. */
static inline struct mapping *mapping(struct by by, uint32_t key)
{
	return atomic_load_explicit(&by.r->map[map_place(key)], memory_order_acquire);
}

enum reach_did reach_at_once(struct by by, struct allowed *a, const struct swqe *w,
			     const struct ibv_sge *sge)
{
	unsigned access = needs(by.qp, w);
	enum reach_did did = REACH_NOT;
	_Atomic uint64_t *word;
	struct mapping *m;

	if (!access)
		return REACH_NOT;
	word = words_enter(by.qp->core, w->rkey, by.qp->attr.dest_qp_num);
	if (!word)
		return REACH_NOT;
	m = mapping(by, w->rkey);
	if (m)
		did = work(&(struct job){ by, a, m, w }, access, sge);
	words_leave(word);
	return did;
}

/* --- with the turn -------------------------------------------------------- */

static bool copy_span(const struct job *j, const struct span *span, uint32_t off,
		      uint32_t len, uint8_t *there, bool read)
{
	struct iovec here[SGE_MAX];
	unsigned n = span_iov(span, off, len, here);

	for (unsigned i = 0; i < n; there += here[i++].iov_len) {
		uint8_t *at = here[i].iov_base;

		if ((i && !goes_on(j)) ||
		    !copy_one(j, read ? at : there, read ? there : at,
			      (uint32_t)here[i].iov_len))
			return false;
	}
	return true;
}

/* A long copy releases qp->lock meanwhile, as in vm.c. The word is cleared before the
 * lock is taken again, so that no thread waits for this one while it waits for the
 * lock. */
static NO_TSA bool copy_and_leave(const struct job *j, _Atomic uint64_t *word,
				  const struct span *span, uint32_t off, uint32_t len,
				  uint8_t *there, bool read)
{
	bool let_go = lets_go(&j->by, len), did;

	if (let_go)
		lock_give(&j->by.qp->lock);
	did = copy_span(j, span, off, len, there, read) && counts(j);
	words_leave(word);
	if (let_go)
		lock_take(&j->by.qp->lock);
	return did;
}

bool reach_mapped(const struct by *by, const struct range *at, const struct span *span,
		  uint32_t off, uint32_t len, bool read, unsigned access)
{
	struct allowed allowed = { .known = false };
	struct job j = { *by, &allowed, mapping(*by, at->key), NULL };
	_Atomic uint64_t *word;
	uint8_t *there;

	if (!j.m)
		return false;
	word = words_enter(by->qp->core, at->key, by->qp->attr.dest_qp_num);
	if (!word)
		return false;
	there = find(&j, *at, access);
	if (there)
		return copy_and_leave(&j, word, span, off, len, there + off, read);
	words_leave(word);
	return false;
}

bool reach_executed_now(const struct by *by, uint32_t key, uint32_t psn)
{
	_Atomic uint64_t *word;
	struct allowed a;
	bool yes;

	if (!mapping(*by, key))
		return false;
	word = words_enter(by->qp->core, key, by->qp->attr.dest_qp_num);
	if (!word)
		return false;
	yes = mapping(*by, key) && look_again(*by, &a) &&
	      exports_get_executed(by->r->exports, by->qp->attr.dest_qp_num) == psn;
	words_leave(word);
	return yes;
}
