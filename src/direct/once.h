/* SPDX-License-Identifier: BSD-2-Clause */
/* once.h - the straight way of a WRITE, READ or atomic by the posting thread: one SGE,
 * one piece, a region and a QP that were looked at before. Everything else is in now.c.
 * For ib/lane_wr.c, into which all of it is compiled.
 *
 * A visit stays in registers as long as its address is given to no function, so what is
 * not inlined gets a copy (INLINE, visit_slowly(), reach_slowly()).
 */
#ifndef DIRECT_ONCE_H
#define DIRECT_ONCE_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/exports.h"
#include "core/mr.h"
#include "core/qp.h"
#include "direct/direct.h"
#include "direct/map.h"
#include "direct/words.h"
#include "sys/caught.h"

#define INLINE __attribute__((always_inline)) static inline

/* A thread that was stopped in the middle of a copy continues it whatever was taken away
 * meanwhile: at most this many bytes. */
enum { PIECE = 2048 };

/* Is the mapped region still registered? */
INLINE bool is_lent(const struct mapping *m)
{
	return atomic_load_explicit(m->version, memory_order_acquire) == m->lent.version;
}

/* Has nothing been taken away since this thread checked? */
INLINE bool goes_on(const struct visit *v)
{
	return is_lent(v->m) &&
	       atomic_load_explicit(v->qp_version, memory_order_acquire) ==
		       v->allowed->version;
}

/* Was the mapping the region's until the copy had ended? A thread that takes the region
 * away changes the version first, and then waits. If it gave up waiting (torn), this
 * thread may have touched memory that belongs to no region. */
INLINE bool counts(const struct visit *v)
{
	atomic_signal_fence(memory_order_seq_cst);
	return is_lent(v->m) || atomic_load(&v->by.r->exports->torn) == v->m->torn;
}

/* Returns the mapping for key; call it while inside, as it may be removed before. */
INLINE struct mapping *mapping(const struct by *by, uint32_t key)
{
	return atomic_load_explicit(&by->r->map[map_place(key)], memory_order_acquire);
}

/* Begins a visit, or one to another region, or checks anew. False: not inside. */
INLINE bool visit_begin(struct visit *v, uint32_t key)
{
	const uint32_t dest = v->by.qp->attr.dest_qp_num;
	struct allowed *a = v->allowed;
	struct mapping *m;
	struct visit copy;

	visit_end(v);
	v->word = words_enter(v->by.qp->core, key, dest);
	if (!v->word)
		return false;
	m = mapping(&v->by, key);
	if (!m)
		goto leave;
	v->key = key;
	v->m = m;
	v->qp_version = exports_qp_version(v->by.r->exports, dest);
	if (m->lent.key == key && a->known && a->key == key &&
	    a->mr_version == m->lent.version && goes_on(v) &&
	    !atomic_load_explicit(&m->bad, memory_order_relaxed))
		return true;
	copy = *v;
	if (visit_look(&copy))
		return true;
leave:
	visit_end(v);
	return false;
}

INLINE bool visit_region(struct visit *v, uint32_t key)
{
	return (v->word && v->key == key && goes_on(v)) || visit_begin(v, key);
}

/* Returns where the range lies in this process; NULL: not mapped, or not certainly
 * allowed. */
INLINE uint8_t *visit_find(const struct visit *v, uint64_t va, uint32_t len,
			   unsigned access)
{
	const struct mapping *m = v->m;
	uint64_t off = va - m->va;

	if ((v->allowed->both & access) != access || len > m->length ||
	    off > m->length - len)
		return NULL;
	return m->at + off;
}

/* Returns 0, or -EFAULT for either side's memory; a retry by another way tells which. */
INLINE int copy_piece(const struct visit *v, uint8_t *to, const uint8_t *from,
		      uint32_t len)
{
	int rc = caught_copy(to, from, len);

	if (__builtin_expect(rc, 0))
		atomic_store_explicit(&v->m->bad, true, memory_order_relaxed);
	return rc;
}

/* Is it an operation that reach_at_once() executes? */
static inline bool is_direct(enum ibv_wr_opcode opcode)
{
	const unsigned all = 1u << IBV_WR_RDMA_WRITE | 1u << IBV_WR_RDMA_READ |
			     1u << IBV_WR_ATOMIC_CMP_AND_SWP |
			     1u << IBV_WR_ATOMIC_FETCH_AND_ADD;

	return opcode == IBV_WR_RDMA_WRITE ||
	       ((unsigned)opcode < 32 && all >> opcode & 1);
}

INLINE enum reach_did reach_slowly(struct visit *v, const struct ibv_send_wr *wr,
				   uint32_t len)
{
	struct visit copy = *v;
	enum reach_did did = reach_at_once(&copy, wr, len);

	*v = copy;
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
	if (rc) {
		atomic_store_explicit(&v->m->bad, true, memory_order_relaxed);
		return REACH_NOT;
	}
	if (caught_copy(here, &was, sizeof(was)))
		return REACH_FAULT;
	return counts(v) ? REACH_DONE : REACH_LOST;
}

/* Finds both addresses of a request. False: not by what was looked at before. */
INLINE bool find_both(struct visit *v, const struct ibv_sge *sge, uint32_t len,
		      uint64_t va, unsigned far, int near, uint8_t **there,
		      uint8_t **here)
{
	*there = visit_find(v, va, len, far);
	*here = mr_again(v->by.qp->core, &v->allowed->ours, sge->lkey, sge->addr, len,
			 near);
	return *there && *here;
}

/* reach_at_once() for a request of one SGE, one piece long at most and not inline. */
INLINE enum reach_did reach_once(struct visit *v, const struct ibv_send_wr *wr,
				 uint32_t len)
{
	const struct ibv_sge *sge = wr->sg_list;
	uint8_t *here, *there;

	if (wr->opcode == IBV_WR_RDMA_WRITE) {
		if (!visit_region(v, wr->wr.rdma.rkey))
			return REACH_NOT;
		if (find_both(v, sge, len, wr->wr.rdma.remote_addr,
			      IBV_ACCESS_REMOTE_WRITE, 0, &there, &here))
			return copy_piece(v, there, here, len) || !counts(v) ? REACH_NOT
									     : REACH_DONE;
	} else if (wr->opcode == IBV_WR_RDMA_READ && v->by.qp->attr.max_rd_atomic) {
		if (!visit_region(v, wr->wr.rdma.rkey))
			return REACH_NOT;
		if (find_both(v, sge, len, wr->wr.rdma.remote_addr,
			      IBV_ACCESS_REMOTE_READ, IBV_ACCESS_LOCAL_WRITE, &there,
			      &here))
			return copy_piece(v, here, there, len) || !counts(v) ? REACH_NOT
									     : REACH_DONE;
	} else if ((wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
		    wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP) &&
		   len == 8 && v->by.qp->attr.max_rd_atomic) {
		uint64_t va = wr->wr.atomic.remote_addr;

		if (!visit_region(v, wr->wr.atomic.rkey))
			return REACH_NOT;
		if (find_both(v, sge, len, va, IBV_ACCESS_REMOTE_ATOMIC,
			      IBV_ACCESS_LOCAL_WRITE, &there, &here) &&
		    !(((uintptr_t)there | va) % 8))
			return fetch_once(v, wr, there, here);
	}
	return reach_slowly(v, wr, len);
}

#endif
