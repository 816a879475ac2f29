/* SPDX-License-Identifier: BSD-2-Clause */
/* sgl.h - SGE lists: what a work request's payload is, and where a message goes.
 * Turn held: what the keys were checked for lasts until it is given. */
#ifndef CORE_SGL_H
#define CORE_SGL_H

#include <errno.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/mr.h"
#include "core/rq.h"
#include "core/verr.h"

struct pd;
struct qp;

/* An SGE list whose keys were checked: good until the turn ends. */
struct span {
	unsigned n;
	struct piece {
		uint8_t *host;
		uint32_t len;
	} v[SGE_MAX];
	bool ours; /* inline data: one piece of the send queue, which is always there */
};

/* Resolve a work request's SGEs; access: 0 or IBV_ACCESS_LOCAL_WRITE.  0, or
 * -EACCES and a line in the log. */
int span_of_wqe(struct qp *qp, uint32_t index, int access, struct span *out);

/* Up to max pieces that hold [off, off + len).  Returns how many. */
unsigned span_iov(const struct span *s, uint32_t off, uint32_t len, struct iovec *iov);
int span_copy(void *dst, const struct span *s, uint32_t off, uint32_t len);

/* Put len bytes at offset off of an SGE list.  0, -EACCES, -EFAULT. */
int scatter(struct qp *qp, const struct pd *pd, const struct ibv_sge *sge, unsigned n,
	    uint64_t off, const void *data, uint32_t len);

static inline enum verr verr_of(int rc) /* of the calls above */
{
	return rc == -EFAULT ? VERR_LOCAL_FAULT : VERR_LOCAL_KEY;
}

#endif
