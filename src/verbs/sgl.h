/* SPDX-License-Identifier: BSD-2-Clause */
/* sgl.h - SGE lists: the payload of a work request, and where a message is placed. The
 * turn is held: a checked key stays valid until the turn is given. */
#ifndef VERBS_SGL_H
#define VERBS_SGL_H

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>

#include "sys/guard.h"
#include "verbs/mr.h"
#include "verbs/rq.h"
#include "verbs/verr.h"

struct pd;
struct qp;

/* An SGE list whose keys were checked; valid until the turn is given. */
struct span {
	unsigned n;
	struct piece {
		uint8_t *host;
		uint32_t len;
	} v[SGE_MAX];
	bool ours; /* inline data: one piece, in the send queue itself, which is
		    * always mapped */
};

/* Resolves the SGEs of the work request at index; access: 0 or IBV_ACCESS_LOCAL_WRITE.
 * Returns 0, or -EACCES after logging the reason. */
int span_of_wqe(struct qp *qp, uint32_t index, int access, struct span *out);

/* Fills iov with the pieces that hold bytes [off, off + len). Returns their number. */
unsigned span_iov(const struct span *s, uint32_t off, uint32_t len, struct iovec *iov);
int span_copy(void *dst, const struct span *s, uint32_t off, uint32_t len);

/* Copies len bytes to offset off of an SGE list. Returns 0, -EACCES or -EFAULT. */
int scatter(struct qp *qp, const struct pd *pd, const struct ibv_sge *sge, unsigned n,
	    uint64_t off, const void *data, uint32_t len);

static inline enum verr verr_of(int rc) /* for the result of the calls above */
{
	return rc == -EFAULT ? VERR_LOCAL_FAULT : VERR_LOCAL_KEY;
}

#endif
