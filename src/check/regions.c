/* SPDX-License-Identifier: BSD-2-Clause */
/* regions.c - regions whose memory or registration ends too early: region-in-use,
 * region-unmapped, unmapped-first. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <unistd.h>

#include "check/check.h"
#include "check/parts.h"
#include "sys/cancel.h"
#include "sys/procmaps.h"
#include "verbs/qp.h"
#include "verbs/verr.h"

enum { SOME = 256 };

static const struct check_wr *user_of(const struct check_queue *q, uint32_t lkey)
{
	struct check_wr *w;

	if (q->unsure)
		return NULL;
	check_for_each(w, q) for (unsigned i = 0; i < w->num_sge;
				  i++) if (w->sge[i].lkey == lkey && w->sge[i].length &&
					   !(w->opcode != CHECK_RECV &&
					     w->flags & IBV_SEND_INLINE)) return w;
	return NULL;
}

static bool report_user(const struct check_mr *mr, const struct check_wr *w,
			const char *what, uint32_t number)
{
	const struct check_before before[] = {
		{ "the request was posted", w ? w->trace : 0, w ? w->at : 0 },
		{ "the region was registered", mr->o.made, mr->o.made_at },
	};

	if (!w)
		return false;
	check_report(CHECK_REGION_IN_USE, before, 2,
		     "the region of %" PRIu64 " bytes at 0x%" PRIx64 " (lkey 0x%08x) is "
		     "deregistered while a %s of wr_id 0x%" PRIx64
		     " that names it is outstanding on %s 0x%06x",
		     mr->length, mr->addr, mr->lkey, check_opcode(w->opcode), w->wr_id,
		     what, number);
	return true;
}

static bool is_used(const struct check_mr *mr, struct check_object *o)
{
	struct check_qp *qp = (struct check_qp *)o;
	struct check_srq *srq = (struct check_srq *)o;
	bool is;

	if (o->kind == LIVE_QP) {
		/* In ERR all is flushed: its completions may wait to be polled. */
		if (qp_of(qp->ibv)->state == IBV_QPS_ERR)
			return false;
		brief_take(&qp->lock);
		is = report_user(mr, user_of(&qp->sq, mr->lkey), "QP", qp->qpn) ||
		     report_user(mr, user_of(&qp->rq, mr->lkey), "QP", qp->qpn);
		brief_give(&qp->lock);
		return is;
	}
	brief_take(&srq->lock);
	is = report_user(mr, user_of(&srq->rq, mr->lkey), "SRQ", srq->ibv->handle);
	brief_give(&srq->lock);
	return is;
}

static bool is_used_by_any(const struct check_mr *mr, enum live_kind kind)
{
	struct check_object *o[SOME];
	unsigned n, skip = 0;

	do {
		n = check_list(kind, skip, o, SOME);
		for (unsigned i = 0; i < n; i++)
			if (is_used(mr, o[i]))
				return true;
		skip += n;
	} while (n == SOME);
	return false;
}

/* Are all pages mapped? Regions on demand may be of memory that is not. */
static bool is_mapped(const struct check_mr *mr)
{
	const uint64_t page = (uint64_t)getpagesize(), lo = mr->addr & ~(page - 1);
	bool is;
	int was;

	if (!mr->addr || !mr->length || mr->access & IBV_ACCESS_ON_DEMAND)
		return true;
	was = cancel_hold(); /* the caller may hold a lock */
	is = !msync((void *)(uintptr_t)lo, mr->addr + mr->length - lo, MS_ASYNC) ||
	     errno != ENOMEM;
	cancel_let(was);
	return is;
}

/* pagemap: bits of an entry */
#define PAGE_PRESENT (1ull << 63)
#define PAGE_SWAPPED (1ull << 62)

/* Is the page at `at` private memory that the kernel has no bytes of? */
static bool is_empty(int pagemap, uint64_t at)
{
	const uint64_t page = (uint64_t)getpagesize();
	uint64_t entry;

	return pread(pagemap, &entry, sizeof(entry),
		     (off_t)(at / page * sizeof(entry))) == sizeof(entry) &&
	       !(entry & (PAGE_PRESENT | PAGE_SWAPPED));
}

/* Private memory without a file? Shared memory has bytes elsewhere. */
static bool is_private(const struct procmap *m)
{
	return m->perms[3] == 'p' && !m->inode;
}

/* Registration has read the first and the last byte, so these pages had bytes, which stay
 * or are swapped: are they others now? The program has given them back (madvise), or has
 * mapped something else there, and has not touched it yet. */
static bool is_given_back(const struct check_mr *mr)
{
	const int was = cancel_hold();
	bool is = false;
	int fd;

	if (mr->addr && mr->length && !(mr->access & IBV_ACCESS_ON_DEMAND) &&
	    mapped_all_so(mr->addr, mr->addr + mr->length, is_private) &&
	    (fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC)) >= 0) {
		is = is_empty(fd, mr->addr) || is_empty(fd, mr->addr + mr->length - 1);
		close(fd);
	}
	cancel_let(was);
	return is;
}

static void look_at_memory(const struct check_mr *mr)
{
	const struct check_before before = { "it was registered", mr->o.made,
					     mr->o.made_at };
	const bool mapped = is_mapped(mr);

	if (!mapped || is_given_back(mr))
		check_report(CHECK_UNMAPPED_FIRST, &before, 1,
			     "the region of %" PRIu64 " bytes at 0x%" PRIx64
			     " (lkey 0x%08x) is deregistered, and its memory was %s "
			     "before",
			     mr->length, mr->addr, mr->lkey,
			     mapped ? "given back (madvise), or mapped anew,"
				    : "unmapped");
}

static void destroys(struct check_object *o)
{
	const struct check_mr *mr = (const struct check_mr *)o;

	if (o->kind != LIVE_MR)
		return;
	if (!is_used_by_any(mr, LIVE_QP))
		(void)is_used_by_any(mr, LIVE_SRQ);
	if (check_is_on(CHECK_UNMAPPED_FIRST))
		look_at_memory(mr);
}

/* The region of the first SGE of w that is not mapped. */
static const struct check_mr *unmapped_of(const struct check_wr *w)
{
	for (unsigned i = 0; i < w->num_sge; i++) {
		const struct check_mr *mr = check_mr_of_key(w->sge[i].lkey);

		if (mr && !mr->o.gone && !is_mapped(mr))
			return mr;
	}
	return NULL;
}

static void fails(struct check_qp *qp, struct check_wr *w, struct ibv_wc *wc)
{
	struct check_before before = { "the region was registered", 0, 0 };
	const struct check_mr *mr;

	if (wc->vendor_err != VERR_LOCAL_FAULT || !w)
		return;
	mr = unmapped_of(w);
	before.where = mr ? mr->o.made : 0;
	check_report_at(CHECK_REGION_UNMAPPED, w->trace, &before, 1,
			"QP 0x%06x: the %s of wr_id 0x%" PRIx64 " has failed: its memory "
			"is registered and not mapped any more",
			qp->qpn, check_opcode(w->opcode), w->wr_id);
}

const struct check_part regions_part = {
	.name = "regions",
	.first = CHECK_REGION_IN_USE,
	.last = CHECK_UNMAPPED_FIRST,
	.destroys = destroys,
	.fails = fails,
};
