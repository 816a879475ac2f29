/* SPDX-License-Identifier: BSD-2-Clause */
/* live_kind.h - the kinds of objects, and what each object begins with: see live.h. */
#ifndef SYS_LIVE_KIND_H
#define SYS_LIVE_KIND_H

enum live_kind {
	LIVE_NONE,
	LIVE_CONTEXT,
	LIVE_PD,
	LIVE_MR,
	LIVE_MW,
	LIVE_AH,
	LIVE_CHANNEL,
	LIVE_CQ,
	LIVE_SRQ,
	LIVE_QP,
	LIVE_DM,
	LIVE_TD,
	LIVE_XRCD,
	LIVE_FLOW,
	LIVE_COUNTERS,
	LIVE_WQ,
	LIVE_WQ_TABLE,
	LIVE_CM_ID, /* of rdma_cm; no context owns these three and LIVE_BUF */
	LIVE_CM_CHANNEL,
	LIVE_CM_EVENT,
	LIVE_BUF,
	LIVE_KINDS,
};

/* The first member of each object.  An allocator writes its own data at the start of
 * freed memory and leaves the rest as it was; inline functions of verbs.h read
 * object->context before they call us. */
struct live {
	struct live *next;
	const void *owner; /* the ibv_context that owns the object */
	enum live_kind kind;
};

#endif
