/* SPDX-License-Identifier: BSD-2-Clause */
/* target.h - what a connected QP does with its peer's request: the receive that
 * a message fills, and the memory that a WRITE, READ or atomic names (IBTA vol. 1,
 * 9.7.4.1; RFC 5040, 5; RFC 7306, 5).
 *
 * A step checks first and changes something only if all is well.  What the peer
 * hears of a refusal (a NAK, a Terminate, nothing) is the transport's matter.
 * Turn and qp->lock held.
 */
#ifndef CORE_TARGET_H
#define CORE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/cq.h"
#include "core/mr.h"
#include "core/qp.h"
#include "core/rq.h"
#include "core/verr.h"

#define REQUEST_MAX 0x80000000u /* bytes of a message: IBTA 9.7.4.1.7 */

enum refusal {
	ACCEPTED,
	REFUSED_NO_RECV,    /* no receive is posted */
	REFUSED_RECV_SHORT, /* the message is longer than its receive */
	REFUSED_RECV_SGE,   /* the receive's SGE: key, rights or memory */
	REFUSED_INVALIDATE, /* the rkey cannot be invalidated */
	REFUSED_PLACE,	    /* the packet does not go on as the message began */
	REFUSED_LENGTH,	    /* a length that does not fit the packet, or the message */
	REFUSED_TOO_LONG,   /* longer than REQUEST_MAX */
	REFUSED_OPERATION,  /* not among the QP's qp_access_flags */
	REFUSED_ALIGNMENT,  /* an atomic's address */
	REFUSED_TOO_MANY,   /* READs and atomics at once: max_dest_rd_atomic */
	REFUSED_KEY,	    /* rkey, range or rights: target.why */
	REFUSED_MEMORY,	    /* the region's memory is not mapped any more */
	REFUSED_SRQ,	    /* XRC: no SRQ of this number in the domain */
	REFUSALS
};

/* Of a QP, zeroed at first. */
struct target {
	/* The receive that a message fills: taken, not complete. */
	bool have_recv;
	struct rwqe recv;
	uint64_t filled;
	/* Of a QP whose SRQ matches tags: what its completion says; opcode 0: as of
	 * any other message. */
	struct {
		uint8_t opcode, flags;
		uint32_t priv;
		uint64_t tag;
	} tm;
	/* The WRITE under way. */
	struct {
		uint64_t va;
		uint32_t rkey, len, left;
	} write;
	/* Of the latest REFUSED_KEY and REFUSED_RECV_SGE. */
	struct {
		uint64_t va, len;
		uint32_t rkey;
		int access;
		enum mr_why why;
		enum verr verr;
	} refused;
};

/* --- receives ------------------------------------------------------------ */

/* A SEND begins with these n bytes; whole: there are no more.  Its receive is that of
 * target_take_recv(), or a tag's (core/tm.h); *skip bytes do not go there.
 * REFUSED_NO_RECV, REFUSED_RECV_SHORT. */
enum refusal target_begin_send(struct qp *qp, struct target *t, const void *data,
			       uint32_t n, bool whole, uint32_t *skip) REQUIRES(qp->lock);
/* A message begins that needs a receive.  REFUSED_NO_RECV. */
enum refusal target_take_recv(struct qp *qp, struct target *t) REQUIRES(qp->lock);
/* More of the message: data goes behind what came before. */
enum refusal target_fill_recv(struct qp *qp, struct target *t, const void *data,
			      uint32_t len);
/* The message that ends here asks for a key of this host to stop working.
 * REFUSED_INVALIDATE. */
enum refusal target_invalidate(struct qp *qp, uint32_t rkey);
/* The receive is complete.  *cqe: opcode, flags, imm, byte_len, and of whom. */
void target_complete(struct qp *qp, struct target *t, struct cqe *cqe, bool solicited)
	REQUIRES(qp->lock);
/* The receive under way, if there is one, ends as this refusal says; most end
 * one that is under way, REFUSED_NO_RECV and REFUSED_MEMORY leave it to the
 * flush of the QP. */
void target_fail_recv(struct qp *qp, struct target *t, enum refusal why, uint64_t now)
	REQUIRES(qp->lock);

/* --- memory -------------------------------------------------------------- */

/* May the peer do what access says to len bytes at va behind rkey?  len 0:
 * always.  *host: the first byte's address here. */
enum refusal target_reach(struct qp *qp, struct target *t, uint32_t rkey, uint64_t va,
			  uint64_t len, int access, uint8_t **host);
/* Does the QP allow access?  REFUSED_OPERATION. */
enum refusal target_allows(const struct qp *qp, int access);
/* Both, and is len within the limit? */
enum refusal target_check(struct qp *qp, struct target *t, uint32_t rkey, uint64_t va,
			  uint32_t len, int access, uint8_t **host);
/* A WRITE of len bytes begins. */
enum refusal target_begin_write(struct qp *qp, struct target *t, uint32_t rkey,
				uint64_t va, uint32_t len);
/* Its next n bytes: checked again, as the region may be gone meanwhile. */
enum refusal target_write(struct qp *qp, struct target *t, const void *data, uint32_t n);
/* n bytes of a peer's WRITE, wherever they belong: to va behind rkey.  The QP allows
 * WRITEs. */
enum refusal target_place(struct qp *qp, struct target *t, uint32_t rkey, uint64_t va,
			  const void *data, uint32_t n);
/* An atomic on 8 bytes: *at is where they lie. */
enum refusal target_check_atomic(struct qp *qp, struct target *t, uint32_t rkey,
				 uint64_t va, uint64_t **at);

/* The same for an atomic write. */
enum refusal target_check_atomic_write(struct qp *qp, struct target *t, uint32_t rkey,
				       uint64_t va, uint64_t **at);

/* It is carried out there: an addition, or (compare not NULL) a swap.  *orig: what was
 * there. */
enum refusal target_atomic(struct qp *qp, uint32_t rkey, uint64_t *at,
			   const uint64_t *compare, uint64_t swap_add, uint64_t *orig);

/* 8 bytes take the place of others in one step. */
enum refusal target_atomic_write(struct qp *qp, uint32_t rkey, uint64_t *at,
				 const void *value);

/* A FLUSH of len bytes, or of the whole region, as the FETH says (annex A19): what was
 * written there before is where all can see it. */
enum refusal target_flush(struct qp *qp, struct target *t, uint32_t rkey, uint64_t va,
			  uint32_t len, uint32_t feth);

/* The event of an RC QP of IBTA that the refusal ends (9.9.3), or -1. */
int target_event(enum refusal why);

/* --- words --------------------------------------------------------------- */

enum { TARGET_WHY_LEN = 128 };
/* What is wrong, for a line in the log: buf or a constant. */
const char *target_why(const struct target *t, enum refusal why,
		       char buf[static TARGET_WHY_LEN]);

#endif
