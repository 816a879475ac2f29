/* SPDX-License-Identifier: BSD-2-Clause */
/* target.h - what a connected QP does with its peer's request: the receive that a
 * message fills, and the memory that a WRITE, READ or atomic names (IBTA vol. 1,
 * 9.7.4.1; RFC 5040, 5; RFC 7306, 5).
 *
 * A step checks first and changes something only if all checks pass. How the peer
 * learns of a refusal (a NAK, a Terminate, nothing) is up to the transport. Turn and
 * qp->lock held.
 */
#ifndef VERBS_TARGET_H
#define VERBS_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/cq.h"
#include "verbs/qp.h"
#include "verbs/target_state.h"
#include "wire/aeth.h"

#define REQUEST_MAX 0x80000000u /* longest message in bytes: IBTA 9.7.4.1.7 */

/* --- receives ------------------------------------------------------------ */

/* Begins a SEND whose first n bytes are data; whole: it has no more. Takes a receive
 * by target_take_recv() or by its tag (verbs/srq_hooks.h); the first *skip bytes are not
 * placed. REFUSED_NO_RECV, REFUSED_RECV_SHORT. */
enum refusal target_begin_send(struct qp *qp, struct target *t, const void *data,
			       uint32_t n, bool whole, uint32_t *skip) REQUIRES(qp->lock);
/* Takes a receive for a message that begins. REFUSED_NO_RECV. */
enum refusal target_take_recv(struct qp *qp, struct target *t) REQUIRES(qp->lock);
/* Appends data to the receive. */
enum refusal target_fill_recv(struct qp *qp, struct target *t, const void *data,
			      uint32_t len);
/* Invalidates rkey, as the message that ends asks. REFUSED_INVALIDATE. */
enum refusal target_invalidate(struct qp *qp, uint32_t rkey);
/* Completes the receive. *cqe: opcode, flags, imm, byte_len and source. */
void target_complete(struct qp *qp, struct target *t, struct cqe *cqe, bool solicited)
	REQUIRES(qp->lock);
/* Ends the current receive, if any, with the error of this refusal. After
 * REFUSED_NO_RECV and REFUSED_MEMORY the flush of the QP ends it instead. */
void target_fail_recv(struct qp *qp, struct target *t, enum refusal why, uint64_t now)
	REQUIRES(qp->lock);

/* --- a message in one piece, and a receive with one SGE ---------------------- */

/* Copies the message into the QP's next receive. The turn is held, so the region that is
 * found stays registered during the copy. */
__attribute__((always_inline)) static inline bool target_fill_first(
	struct qp *qp, struct mr_found *into, const uint8_t *payload, uint32_t len)
	REQUIRES(qp->lock)
{
	const struct ibv_sge *sge = rq_first(&qp->rq);
	const int access = IBV_ACCESS_LOCAL_WRITE;
	uint8_t *host;

	if (!sge || len > sge->length)
		return false;
	if (!len)
		return true;
	host = mr_again(qp->core, into, sge->lkey, sge->addr, len, access);
	if (!host && mr_check_inside(qp->core, into, sge->lkey, qp->pd, sge->addr, len,
				     access, &host) != MR_OK)
		return false;
	return mr_write(qp->core, sge->lkey, host, payload, len) == 0;
}

/* Completes a receive, which has this place in its queue. May fail the QP (CQ full). */
__attribute__((always_inline)) static inline void target_complete_plain(
	struct qp *qp, uint64_t wr_id, uint16_t places, _Atomic uint32_t *queue,
	uint32_t len, bool solicited, uint64_t now) REQUIRES(qp->lock)
{
	struct cqe cqe, *in_place = cq_begin(qp->recv_cq);
	struct cqe *to = in_place ? in_place : &cqe;

	cqe_succeeds(to, wr_id, qp->qpn, IBV_WC_RECV, len, now);
	to->src_qp = qp->attr.dest_qp_num;
	to->sl = qp->path.sl;
	to->places = places;
	to->queue = queue;
	if (in_place)
		cq_end(qp->recv_cq, solicited);
	else
		rq_push(qp, &cqe, solicited);
}

/* Takes the QP's next receive, fills it with the message and completes it. *into: the
 * region of the receive before. Returns false if the receive is another one, or refuses
 * the message: target_begin_send() and what follows decide. May fail the QP (CQ full). */
__attribute__((always_inline)) static inline bool target_take_first(
	struct qp *qp, struct mr_found *into, const uint8_t *payload, uint32_t len,
	bool solicited, uint64_t now) REQUIRES(qp->lock)
{
	struct rq *rq = &qp->rq;

	if (!target_fill_first(qp, into, payload, len))
		return false;
	target_complete_plain(qp, rq_take_first(rq), 1, &rq->returned, len, solicited,
			      now);
	return true;
}

/* As target_take_first(), of the QP's SRQ. What it returns false for may have taken the
 * receive: that is t->recv then. */
bool target_take_shared(struct qp *qp, struct target *t, struct mr_found *into,
			const uint8_t *payload, uint32_t len, bool solicited,
			uint64_t now) REQUIRES(qp->lock);

/* --- memory -------------------------------------------------------------- */

/* May the peer access len bytes at va behind rkey with these rights? A len of 0 is
 * always allowed. *host: the address of the first byte here. */
enum refusal target_reach(struct qp *qp, struct target *t, uint32_t rkey, uint64_t va,
			  uint64_t len, int access, uint8_t **host);
/* The same for a request that was accepted before: its answer may have come, and the
 * program may have deregistered the region since, so no check is told of a refusal. */
enum refusal target_reach_again(struct qp *qp, struct target *t, uint32_t rkey,
				uint64_t va, uint64_t len, int access, uint8_t **host);
/* Do the QP's qp_access_flags allow access? REFUSED_OPERATION. */
enum refusal target_allows(const struct qp *qp, int access);
/* target_allows() and target_reach(), and is len within REQUEST_MAX? */
enum refusal target_check(struct qp *qp, struct target *t, uint32_t rkey, uint64_t va,
			  uint32_t len, int access, uint8_t **host);
/* Begins a WRITE of len bytes. */
enum refusal target_begin_write(struct qp *qp, struct target *t, uint32_t rkey,
				uint64_t va, uint32_t len);
/* Writes the next n bytes of the WRITE, after checking the key again, as the region
 * may be gone meanwhile. */
enum refusal target_write(struct qp *qp, struct target *t, const void *data, uint32_t n);
/* Writes n pieces of len bytes each, len > 0, none of which is the last of the WRITE. The
 * key is checked once. Returns how many were written: fewer if the WRITE is too short for
 * them, or the key or the memory forbids one; then target_write() says why. */
unsigned target_write_all(struct qp *qp, struct target *t, const void *const *data,
			  unsigned n, uint32_t len);
/* Writes n bytes of a peer's WRITE to va behind rkey, in any order. The caller knows
 * that the QP allows WRITEs. */
enum refusal target_place(struct qp *qp, struct target *t, uint32_t rkey, uint64_t va,
			  const void *data, uint32_t n);
/* Checks an atomic on 8 bytes; *at: their address here. */
enum refusal target_check_atomic(struct qp *qp, struct target *t, uint32_t rkey,
				 uint64_t va, uint64_t **at);

/* Checks an atomic write of 8 bytes; *at: their address here. */
enum refusal target_check_atomic_write(struct qp *qp, struct target *t, uint32_t rkey,
				       uint64_t va, uint64_t **at);

/* Executes an atomic at `at`: an addition, or a compare and swap if compare is not
 * NULL. *orig: the old value. */
enum refusal target_atomic(struct qp *qp, uint32_t rkey, uint64_t *at,
			   const uint64_t *compare, uint64_t swap_add, uint64_t *orig);

/* Stores 8 bytes at `at` in one step. */
enum refusal target_atomic_write(struct qp *qp, uint32_t rkey, uint64_t *at,
				 const void *value);

/* A FLUSH of len bytes, or of the whole region, as the FETH says (annex A19): makes what
 * was written there before visible to all. */
enum refusal target_flush(struct qp *qp, struct target *t, uint32_t rkey, uint64_t va,
			  uint32_t len, uint32_t feth);

/* Returns the asynchronous event of an IBTA RC QP that this refusal ends (9.9.3), or
 * -1. */
int target_event(enum refusal why);
/* Returns the NAK by which such a QP answers, or NAK_CODES if there is none: no receive
 * is posted; the payload cannot be fetched; or a SEND's key cannot be invalidated (9.9.3,
 * class J): the receive and the QP fail, and the requester finds out when its retries are
 * used up. */
enum nak_code target_nak(enum refusal why);

/* --- words --------------------------------------------------------------- */

enum { TARGET_WHY_LEN = 128 };
/* Describes the refusal for a log line: in buf or as a constant. */
const char *target_why(const struct target *t, enum refusal why,
		       char buf[static TARGET_WHY_LEN]);

#endif
