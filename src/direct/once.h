/* SPDX-License-Identifier: BSD-2-Clause */
/* once.h - the straight way of a WRITE, READ or atomic by the posting thread: one SGE,
 * one piece, a region and a QP that were looked at before. Everything else is in now.c.
 * For post.c, into which all of it is compiled.
 */
#ifndef DIRECT_ONCE_H
#define DIRECT_ONCE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "direct/direct.h"
#include "direct/map.h"
#include "direct/words.h"
#include "sys/caught.h"
#include "verbs/exports.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

#define INLINE __attribute__((always_inline)) static inline

/* A thread that was stopped in the middle of a copy continues it whatever was taken away
 * meanwhile: at most this many bytes. */
enum { PIECE = 2048 };

/* Is the mapped region still registered? */
INLINE bool is_lent(const struct reached *f)
{
	return atomic_load_explicit(f->mr_now, memory_order_acquire) == f->mr_version;
}

/* Has nothing been taken away since this thread checked? */
INLINE bool goes_on(const struct visit *v)
{
	const struct reached *f = &v->allowed->far;

	return is_lent(f) &&
	       atomic_load_explicit(f->qp_now, memory_order_acquire) == f->qp_version;
}

/* Was the mapping the region's until the copy had ended? A thread that takes the region
 * away changes the version first, and then waits. If it gave up waiting (torn), this
 * thread may have touched memory that belongs to no region. */
INLINE bool counts(const struct visit *v)
{
	const struct reached *f = &v->allowed->far;

	/* The compiler moves nothing of the copy down, and the processor no load (a
	 * READ). */
	atomic_signal_fence(memory_order_seq_cst);
	atomic_thread_fence(memory_order_acquire);
	return is_lent(f) || atomic_load(&v->by.r->exports->torn) == f->m->torn;
}

/* Returns the mapping for key; call it while inside, as it may be removed before. */
INLINE struct mapping *mapping(const struct by *by, uint32_t key)
{
	return atomic_load_explicit(&by->r->map[map_place(key)], memory_order_acquire);
}

/* Begins a visit, or one to another region, or checks anew. False: not inside. */
INLINE bool visit_begin(struct visit *v, uint32_t key)
{
	const struct reached *f = &v->allowed->far;

	visit_end(v);
	v->word = words_enter(v->by.qp->core, key, v->by.qp->attr.dest_qp_num);
	if (!v->word)
		return false;
	if (__builtin_expect(f->key == key && f->serial == maps_serial(v->by.r) &&
				     goes_on(v),
			     1))
		return true;
	if (visit_look(v, key))
		return true;
	visit_end(v);
	return false;
}

INLINE bool visit_region(struct visit *v, uint32_t key)
{
	return (v->word && v->allowed->far.key == key && goes_on(v)) ||
	       visit_begin(v, key);
}

/* Does the range lie in the region, and is it certainly allowed? */
INLINE bool visit_allows(const struct visit *v, uint64_t va, uint32_t len,
			 unsigned access)
{
	const struct reached *f = &v->allowed->far;

	return (f->rights & access) == access && len <= f->length &&
	       va - f->va <= f->length - len;
}

/* Only if visit_allows(). */
INLINE uint8_t *visit_at(const struct visit *v, uint64_t va)
{
	return v->allowed->far.at + (va - v->allowed->far.va);
}

/* Returns where the range lies in this process; NULL: not certainly allowed. */
INLINE uint8_t *visit_find(const struct visit *v, uint64_t va, uint32_t len,
			   unsigned access)
{
	return visit_allows(v, va, len, access) ? visit_at(v, va) : NULL;
}

/* Marks the mapping as bad: pages of it, or of our memory, are missing. Inside. */
void visit_fault(const struct visit *v);

/* False: a fault. */
INLINE bool copy_few(uint8_t *to, const uint8_t *from, uint32_t len)
{
	if (len == 8 && (uintptr_t)to % 8 == 0)
		return caught_copy_8(to, from);
	return !caught_copy(to, from, len);
}

/* False: a fault at either side; a retry by another way tells at which. */
INLINE bool copy_piece(const struct visit *v, uint8_t *to, const uint8_t *from,
		       uint32_t len)
{
	bool did = copy_few(to, from, len);

	if (__builtin_expect(!did, 0))
		visit_fault(v);
	return did;
}

/* Executes an atomic on 8 aligned bytes and stores its result. */
INLINE enum reach_did fetch_once(const struct visit *v, const struct ibv_send_wr *wr,
				 uint8_t *there, uint8_t *here)
{
	uint64_t *at = (uint64_t *)(void *)there, was;
	int rc;

	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD)
		rc = caught_fetch_add(at, wr->wr.atomic.compare_add, &was);
	else
		rc = caught_cmp_swap(at, wr->wr.atomic.compare_add, wr->wr.atomic.swap,
				     &was);
	if (__builtin_expect(rc, 0)) {
		visit_fault(v);
		return REACH_NOT;
	}
	if (!copy_few(here, (const uint8_t *)&was, sizeof(was)))
		return REACH_FAULT;
	return counts(v) ? REACH_DONE : REACH_LOST;
}

/* Are both sides of a request those that were looked at before? */
INLINE bool both_allow(const struct visit *v, const struct ibv_sge *sge, uint64_t va,
		       unsigned far, int near)
{
	return visit_allows(v, va, sge->length, far) &&
	       mr_allows(v->by.qp->core, &v->allowed->ours, sge->lkey, sge->addr,
			 sge->length, near);
}

INLINE enum reach_did move_once(struct visit *v, const struct ibv_send_wr *wr, bool read)
{
	unsigned far = read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE;
	int near = read ? IBV_ACCESS_LOCAL_WRITE : 0;
	const struct ibv_sge *sge = wr->sg_list;
	uint64_t va = wr->wr.rdma.remote_addr;
	uint8_t *here, *there;

	if (!visit_region(v, wr->wr.rdma.rkey))
		return REACH_NOT;
	if (__builtin_expect(!both_allow(v, sge, va, far, near), 0))
		return reach_at_once(v, wr, sge->length);
	there = visit_at(v, va);
	here = mr_at(&v->allowed->ours, sge->addr);
	return copy_piece(v, read ? here : there, read ? there : here, sge->length) &&
			       counts(v)
		       ? REACH_DONE
		       : REACH_NOT;
}

INLINE enum reach_did atomic_once(struct visit *v, const struct ibv_send_wr *wr)
{
	const struct ibv_sge *sge = wr->sg_list;
	uint64_t va = wr->wr.atomic.remote_addr;
	uint8_t *there;

	if (!visit_region(v, wr->wr.atomic.rkey))
		return REACH_NOT;
	if (__builtin_expect(sge->length != 8 || va % 8 ||
				     !both_allow(v, sge, va, IBV_ACCESS_REMOTE_ATOMIC,
						 IBV_ACCESS_LOCAL_WRITE),
			     0))
		return reach_at_once(v, wr, sge->length);
	there = visit_at(v, va);
	if (__builtin_expect((uintptr_t)there % 8, 0))
		return REACH_NOT;
	return fetch_once(v, wr, there, mr_at(&v->allowed->ours, sge->addr));
}

/* reach_at_once() for a request of one SGE, one piece long at most and not inline. */
INLINE enum reach_did reach_once(struct visit *v, const struct ibv_send_wr *wr)
{
	if (wr->opcode == IBV_WR_RDMA_WRITE)
		return move_once(v, wr, false);
	if (!v->by.qp->attr.max_rd_atomic)
		return REACH_NOT;
	if (wr->opcode == IBV_WR_RDMA_READ)
		return move_once(v, wr, true);
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	    wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		return atomic_once(v, wr);
	return REACH_NOT;
}

#endif
