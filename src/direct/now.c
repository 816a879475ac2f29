/* SPDX-License-Identifier: BSD-2-Clause */
/* now.c - copies to and from a peer's memory that is mapped here, without a system
 * call: by the posting thread without the turn, or by the thread that has the turn.
 *
 * All checks are made while inside (words.h): a thread that takes away a mapping, a
 * region of either process, or the peer's QP waits for this thread's word.
 */
#include <string.h>

#include "direct/direct.h"
#include "direct/map.h"
#include "direct/once.h"
#include "direct/words.h"
#include "sys/lock.h"
#include "verbs/core.h"
#include "verbs/exports.h"
#include "verbs/mr.h"
#include "verbs/qp.h"
#include "verbs/transport.h"

enum {
	/* The posting thread looks after so many bytes whether another thread waits for
	 * qp->lock. */
	STRETCH = 256 << 10,
	MOST_OF_MANY = 64 << 10, /* longest request of several SGEs done at once */
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

bool visit_look(struct visit *v, uint32_t key)
{
	const struct reach *r = v->by.r;
	struct allowed *a = v->allowed;
	uint64_t serial = maps_serial(r);
	struct mapping *m = mapping(&v->by, key);

	a->far = (struct reached){ 0 }; /* no peer has serial 0 */
	if (!m || m->lent.key != key || atomic_load(&m->bad) || !qp_allows(v->by, a) ||
	    m->pd != a->pd)
		return false;
	a->far = (struct reached){
		.key = key,
		.rights = m->access & a->access,
		.mr_version = m->lent.version,
		.mr_now = m->version,
		.qp_version = a->version,
		.qp_now = exports_qp_version(r->exports, v->by.qp->attr.dest_qp_num),
		.serial = serial,
		.va = m->va,
		.length = m->length,
		.at = m->at,
		.m = m,
	};
	return goes_on(v);
}

void visit_fault(const struct visit *v)
{
	atomic_store(&v->allowed->far.m->bad, true);
	maps_changed(v->by.r);
}

static inline uint8_t *local(const struct visit *v, const struct ibv_sge *sge,
			     unsigned flags, int access)
{
	const struct qp *qp = v->by.qp;
	struct mr_found *f = &v->allowed->ours;
	uint8_t *host;

	if (flags & IBV_SEND_INLINE)
		return (uint8_t *)(uintptr_t)sge->addr;
	host = mr_again(qp->core, f, sge->lkey, sge->addr, sge->length, access);
	if (host)
		return host;
	return mr_check_inside(qp->core, f, sge->lkey, qp->pd, sge->addr, sge->length,
			       access, &host) == MR_OK
		       ? host
		       : NULL;
}

/* Copies in pieces. True: all was copied. */
static inline bool copy_one(const struct visit *v, uint8_t *to, const uint8_t *from,
			    uint32_t len)
{
	for (; len > PIECE; to += PIECE, from += PIECE, len -= PIECE)
		if (!copy_piece(v, to, from, PIECE) || !goes_on(v))
			return false;
	return copy_piece(v, to, from, len);
}

/* Copies len bytes until another thread waits for qp->lock. */
__attribute__((noinline)) static enum reach_did copy_long(struct visit *v, uint8_t *to,
							  const uint8_t *from,
							  uint32_t len)
{
	struct qp *qp = v->by.qp;
	uint32_t n;

	qp_is_held(qp);
	for (v->done = 0;;) {
		n = len - v->done < STRETCH ? len - v->done : STRETCH;
		if (!copy_one(v, to + v->done, from + v->done, n))
			return REACH_NOT;
		v->done += n;
		if (v->done == len)
			return REACH_DONE;
		if (!goes_on(v))
			return REACH_NOT;
		if (lock_is_awaited(&qp->lock) || v->done >= POST_AT_ONCE)
			return REACH_SOME;
	}
}

static enum reach_did copy_sge(struct visit *v, const struct ibv_send_wr *wr,
			       const struct ibv_sge *sge, uint8_t *there)
{
	bool read = wr->opcode == IBV_WR_RDMA_READ;
	uint8_t *here = local(v, sge, wr->send_flags, read ? IBV_ACCESS_LOCAL_WRITE : 0);
	uint8_t *to = read ? here : there, *from = read ? there : here;

	if (!here)
		return REACH_NOT;
	if (sge->length > STRETCH)
		return copy_long(v, to, from, sge->length);
	return copy_one(v, to, from, sge->length) ? REACH_DONE : REACH_NOT;
}

__attribute__((noinline)) static enum reach_did copy_sges(struct visit *v,
							  const struct ibv_send_wr *wr,
							  uint8_t *there)
{
	for (int i = 0; i < wr->num_sge; there += wr->sg_list[i++].length) {
		if (i && !goes_on(v))
			return REACH_NOT;
		if (wr->sg_list[i].length &&
		    copy_sge(v, wr, &wr->sg_list[i], there) != REACH_DONE)
			return REACH_NOT;
	}
	return REACH_DONE;
}

static enum reach_did move_bytes(struct visit *v, const struct ibv_send_wr *wr,
				 uint32_t len, unsigned access)
{
	enum reach_did did;
	uint8_t *there;

	if (!visit_region(v, wr->wr.rdma.rkey))
		return REACH_NOT;
	there = visit_find(v, wr->wr.rdma.remote_addr, len, access);
	if (!there)
		return REACH_NOT;
	if (wr->num_sge == 1)
		did = copy_sge(v, wr, wr->sg_list, there);
	else if (len <= MOST_OF_MANY)
		did = copy_sges(v, wr, there);
	else
		return REACH_NOT;
	return did != REACH_NOT && !counts(v) ? REACH_NOT : did;
}

static enum reach_did do_atomic(struct visit *v, const struct ibv_send_wr *wr,
				uint32_t len)
{
	uint64_t va = wr->wr.atomic.remote_addr;
	uint8_t *there, *here;

	if (len != 8 || wr->num_sge != 1 || !v->by.qp->attr.max_rd_atomic ||
	    !visit_region(v, wr->wr.atomic.rkey))
		return REACH_NOT;
	there = visit_find(v, va, len, IBV_ACCESS_REMOTE_ATOMIC);
	if (!there || (uintptr_t)there % 8 || va % 8)
		return REACH_NOT;
	here = local(v, wr->sg_list, wr->send_flags, IBV_ACCESS_LOCAL_WRITE);
	return here ? fetch_once(v, wr, there, here) : REACH_NOT;
}

enum reach_did reach_at_once(struct visit *v, const struct ibv_send_wr *wr, uint32_t len)
{
	if (wr->opcode == IBV_WR_RDMA_WRITE)
		return len ? move_bytes(v, wr, len, IBV_ACCESS_REMOTE_WRITE) : REACH_NOT;
	if (wr->opcode == IBV_WR_RDMA_READ)
		return len && v->by.qp->attr.max_rd_atomic
			       ? move_bytes(v, wr, len, IBV_ACCESS_REMOTE_READ)
			       : REACH_NOT;
	if (wr->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD ||
	    wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP)
		return do_atomic(v, wr, len);
	return REACH_NOT;
}

/* --- with the turn -------------------------------------------------------- */

static bool copy_span(const struct visit *v, const struct span *span, uint32_t off,
		      uint32_t len, uint8_t *there, bool read)
{
	struct iovec here[SGE_MAX];
	unsigned n = span_iov(span, off, len, here);

	for (unsigned i = 0; i < n; there += here[i++].iov_len) {
		uint8_t *at = here[i].iov_base;

		if ((i && !goes_on(v)) ||
		    !copy_one(v, read ? at : there, read ? there : at,
			      (uint32_t)here[i].iov_len))
			return false;
	}
	return true;
}

/* A long copy releases qp->lock meanwhile, as in vm.c. The word is cleared before the
 * lock is taken again, so that no thread waits for this one while it waits for the
 * lock. */
static NO_TSA bool copy_and_leave(struct visit *v, const struct span *span, uint32_t off,
				  uint32_t len, uint8_t *there, unsigned access)
{
	struct qp *qp = v->by.qp;
	bool let_go = lets_go(&v->by, len), did;

	if (let_go)
		lock_give(&qp->lock);
	did = copy_span(v, span, off, len, there, access != IBV_ACCESS_REMOTE_WRITE) &&
	      counts(v);
	visit_end(v);
	if (let_go)
		lock_take(&qp->lock);
	return did;
}

bool reach_mapped(const struct by *by, const struct range *at, const struct span *span,
		  uint32_t off, uint32_t len, unsigned access)
{
	struct allowed allowed = { .known = false };
	struct visit v = { .by = *by, .allowed = &allowed };
	uint8_t *there;

	if (!mapping(by, at->key) || !visit_begin(&v, at->key))
		return false;
	there = visit_find(&v, at->va, at->len, access);
	if (there)
		return copy_and_leave(&v, span, off, len, there + off, access);
	visit_end(&v);
	return false;
}

bool reach_is_mapped(const struct by *by, uint32_t key)
{
	const struct mapping *m = mapping(by, key);
	_Atomic uint64_t *word;
	bool yes;

	if (!m)
		return false;
	word = words_enter(by->qp->core, key, by->qp->attr.dest_qp_num);
	if (!word)
		return false;
	m = mapping(by, key);
	yes = m && m->lent.key == key && !atomic_load(&m->bad) &&
	      atomic_load_explicit(m->version, memory_order_acquire) == m->lent.version;
	words_leave(word);
	return yes;
}
