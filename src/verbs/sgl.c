/* SPDX-License-Identifier: BSD-2-Clause */
/* sgl.c - see sgl.h. */
#include "verbs/sgl.h"

#include <errno.h>
#include <string.h>

#include "sys/guard.h"
#include "sys/log.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

static void log_refused(const struct qp *qp, const struct ibv_sge *sge, int access,
			enum mr_why why)
{
	log_info("QP 0x%06x: lkey 0x%08x, %u bytes at 0x%llx: %s", qp->qpn, sge->lkey,
		 sge->length, (unsigned long long)sge->addr, mr_why_str(why));
	if (checks)
		checks->denied(qp->qpn, false, sge->lkey, sge->addr, sge->length, access,
			       (int)why);
}

static int span_of_sges(struct qp *qp, const struct ibv_sge *sge, unsigned n, int access,
			struct span *out)
{
	out->n = 0;
	for (unsigned i = 0; i < n; i++) {
		enum mr_why why;
		uint8_t *host;

		if (sge[i].length == 0)
			continue;
		why = mr_check(qp->core, sge[i].lkey, qp->pd, qp->qpn, sge[i].addr,
			       sge[i].length, access, &host);
		if (why != MR_OK) {
			log_refused(qp, &sge[i], access, why);
			return -EACCES;
		}
		out->v[out->n++] = (struct piece){ host, sge[i].length };
	}
	return 0;
}

int span_of_wqe(struct qp *qp, uint32_t index, int access, struct span *out)
{
	const struct swqe *w = sq_at(&qp->sq, index);
	const struct ibv_sge *sge = sq_sges(&qp->sq, index);

	out->ours = w->flags & IBV_SEND_INLINE;
	if (!out->ours)
		return span_of_sges(qp, sge, w->num_sge, access, out);
	out->n = w->length > 0;
	out->v[0] = (struct piece){ (uint8_t *)(uintptr_t)sge->addr, w->length };
	return 0;
}

unsigned span_iov(const struct span *s, uint32_t off, uint32_t len, struct iovec *iov)
{
	unsigned i = 0, n = 0;

	while (len > 0 && off >= s->v[i].len)
		off -= s->v[i++].len;
	for (; len > 0; i++, off = 0) {
		uint32_t take = s->v[i].len - off;

		if (take > len)
			take = len;
		iov[n++] = (struct iovec){ s->v[i].host + off, take };
		len -= take;
	}
	return n;
}

struct copy {
	uint8_t *dst;
	const struct iovec *iov;
	unsigned n;
};

static void do_copy(void *arg)
{
	const struct copy *c = arg;
	uint8_t *to = c->dst;

	for (unsigned i = 0; i < c->n; i++) {
		memcpy(to, c->iov[i].iov_base, c->iov[i].iov_len);
		to += c->iov[i].iov_len;
	}
}

int span_copy(void *dst, const struct span *s, uint32_t off, uint32_t len)
{
	struct iovec iov[SGE_MAX];
	struct copy c = { dst, iov, 0 };

	if (s->ours) {
		memcpy(dst, s->v[0].host + off, len);
		return 0;
	}
	if (off <= s->v[0].len && len <= s->v[0].len - off) /* the common case: all
							     * in the first piece */
		return guard_copy(dst, s->v[0].host + off, len);
	c.n = span_iov(s, off, len, iov);
	return guard_call(do_copy, &c);
}

/* Bytes [off, off + len) of an SGE list, or what is left of them. */
struct sge_parts {
	const struct ibv_sge *sge;
	unsigned n;
	uint64_t off;
	uint32_t len;
};

/* Takes the next part, which lies in one SGE. Returns false if there is none. */
static bool sge_next(struct sge_parts *p, struct ibv_sge *part)
{
	uint32_t left;

	while (p->n > 0 && p->off >= p->sge->length) {
		p->off -= p->sge++->length;
		p->n--;
	}
	if (p->n == 0 || p->len == 0)
		return false;
	left = p->sge->length - (uint32_t)p->off;
	*part = (struct ibv_sge){ p->sge->addr + p->off, left < p->len ? left : p->len,
				  p->sge->lkey };
	p->len -= part->length;
	p->off += part->length;
	return true;
}

/* Checks an SGE that data is written to. Returns 0, or -EACCES after logging the
 * reason. */
static int check_part(struct qp *qp, const struct pd *pd, const struct ibv_sge *sge,
		      uint8_t **host)
{
	enum mr_why why = mr_check(qp->core, sge->lkey, pd, qp->qpn, sge->addr,
				   sge->length, IBV_ACCESS_LOCAL_WRITE, host);

	if (why != MR_OK)
		log_refused(qp, sge, IBV_ACCESS_LOCAL_WRITE, why);
	return why == MR_OK ? 0 : -EACCES;
}

int scatter(struct qp *qp, const struct pd *pd, const struct ibv_sge *sge, unsigned n,
	    uint64_t off, const void *data, uint32_t len)
{
	struct sge_parts parts = { sge, n, off, len };
	const uint8_t *from = data;
	struct ibv_sge part;
	uint8_t *host;

	while (sge_next(&parts, &part)) {
		if (check_part(qp, pd, &part, &host))
			return -EACCES;
		if (mr_write(qp->core, part.lkey, host, from, part.length) != 0) {
			log_info("QP 0x%06x: lkey 0x%08x, %u bytes at 0x%llx: "
				 "memory is no longer mapped",
				 qp->qpn, part.lkey, part.length,
				 (unsigned long long)part.addr);
			return -EFAULT;
		}
		from += part.length;
	}
	return 0;
}
