/* SPDX-License-Identifier: BSD-2-Clause */
/* keys.c - accesses that a key does not allow: stale-key, access-flag, wrong-pd,
 * region-range. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "check/check.h"
#include "check/parts.h"
#include "verbs/mr.h"
#include "verbs/verr.h"

enum { TEXT = 320 };

/* The names of the flags that are missing, "IBV_ACCESS_REMOTE_WRITE". */
static void name_flags(int missing, char text[TEXT])
{
	static const struct {
		int flag;
		const char *name;
	} flags[] = {
		{ IBV_ACCESS_LOCAL_WRITE, "IBV_ACCESS_LOCAL_WRITE" },
		{ IBV_ACCESS_REMOTE_WRITE, "IBV_ACCESS_REMOTE_WRITE" },
		{ IBV_ACCESS_REMOTE_READ, "IBV_ACCESS_REMOTE_READ" },
		{ IBV_ACCESS_REMOTE_ATOMIC, "IBV_ACCESS_REMOTE_ATOMIC" },
		{ IBV_ACCESS_MW_BIND, "IBV_ACCESS_MW_BIND" },
	};

	text[0] = '\0';
	for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++)
		if (missing & flags[i].flag)
			snprintf(text + strlen(text), TEXT - strlen(text), "%s%s",
				 text[0] ? " and " : "", flags[i].name);
}

static const char *why_stale(const struct check_denied *d, const struct check_mr *mr)
{
	if (mr)
		return mr->o.gone ? "its region was deregistered" : "it was invalidated";
	return d->why == MR_INVALID ? "its window is not bound"
				    : "no region of this process had it";
}

static void say_access(const struct check_denied *d, const struct check_mr *mr,
		       char text[TEXT])
{
	char flags[TEXT];

	name_flags(mr ? d->access & ~mr->access : d->access, flags);
	snprintf(text, TEXT,
		 mr ? "the region was registered without %.120s"
		    : "it needs %.120s, which the window does not have",
		 flags);
}

static void say_range(const struct check_denied *d, const struct check_mr *mr,
		      char text[TEXT])
{
	if (!mr)
		snprintf(text, TEXT, "it reaches beyond the window");
	else
		snprintf(text, TEXT,
			 "the region has %" PRIu64 " bytes at 0x%" PRIx64 "%s",
			 mr->length, mr->iova,
			 d->va - mr->iova + d->len > UINT32_MAX
				 ? ", and the end lies beyond 4 GiB: was the length cut "
				   "to 32 bits?"
				 : "");
}

/* Which check is it, and what does it say? mr: NULL: the key is a window's, or none. */
static enum check judge_denied(const struct check_denied *d, const struct check_mr *mr,
			       char text[TEXT])
{
	char flags[TEXT];

	switch (d->why) {
	case CHECK_DENIED_BY_QP:
		name_flags(d->access, flags);
		snprintf(text, TEXT, "qp_access_flags of the queue pair lack %.120s",
			 flags);
		return CHECK_ACCESS_FLAG;
	case MR_ACCESS:
		say_access(d, mr, text);
		return CHECK_ACCESS_FLAG;
	case MR_RANGE:
		say_range(d, mr, text);
		return CHECK_REGION_RANGE;
	case MR_PD:
	case MR_QP:
		snprintf(text, TEXT,
			 "the region belongs to another protection domain, or the "
			 "window to another queue pair");
		return CHECK_WRONG_PD;
	default:
		snprintf(text, TEXT, "%s", why_stale(d, mr));
		return CHECK_STALE_KEY;
	}
}

static void report_denied(struct check_qp *qp, const struct check_denied *d,
			  const struct check_wr *w)
{
	const struct check_mr *mr =
		d->why == CHECK_DENIED_BY_QP ? NULL : check_mr_of_key(d->key);
	const struct check_before before[] = {
		{ "the region was registered", mr ? mr->o.made : 0, 0 },
		{ "it was deregistered", mr ? mr->o.ended : 0, mr ? mr->o.ended_at : 0 },
	};
	char why[TEXT], what[TEXT];
	enum check check = judge_denied(d, mr, why);

	if (d->why == CHECK_DENIED_BY_QP)
		snprintf(what, TEXT, "a request of the peer");
	else
		snprintf(what, TEXT, "%s %" PRIu64 " bytes at 0x%" PRIx64 " by %s 0x%08x",
			 d->remote ? "a request of the peer for" : "a request with",
			 d->len, d->va, d->remote ? "rkey" : "lkey", d->key);
	if (w)
		check_report_at(check, w->trace, before, 2,
				"QP 0x%06x: %s is refused: %s", qp->qpn, what, why);
	else
		check_report_made(check, mr ? &mr->o : &qp->o, before + 1, 1,
				  "QP 0x%06x: %s is refused: %s", qp->qpn, what, why);
}

static void denied(struct check_qp *qp, const struct check_denied *d)
{
	report_denied(qp, d, NULL);
}

static void fails(struct check_qp *qp, struct check_wr *w, struct ibv_wc *wc)
{
	if (w && wc->vendor_err == VERR_LOCAL_KEY && !qp->denied.remote && qp->denied.key)
		report_denied(qp, &qp->denied, w);
}

const struct check_part keys_part = {
	.name = "keys",
	.first = CHECK_STALE_KEY,
	.last = CHECK_REGION_RANGE,
	.denied = denied,
	.fails = fails,
};
