/* SPDX-License-Identifier: BSD-2-Clause */
/* hint.c - lines of the log for what keeps a program waiting for a second, while segments
 * come all the time, or none at all (verbs/hang.h).  They are looked for only where a
 * segment is refused, dropped or sent again. */
#include <stdio.h>

#include "shm/shm_qp.h"
#include "sys/addr.h"
#include "sys/log.h"
#include "verbs/timeout.h"

const char *segment_name(unsigned op)
{
	/* by SEGMENT_FIRST and SEGMENT_LAST */
	static const char *const names[][4] = {
		[KIND_SEND] = { "SEND_MIDDLE", "SEND_FIRST", "SEND_LAST", "SEND_ONLY" },
		[KIND_WRITE] = { "WRITE_MIDDLE", "WRITE_FIRST", "WRITE_LAST",
				 "WRITE_ONLY" },
	};
	static const char *const others[KINDS] = {
		[KIND_READ] = "READ",		[KIND_CMP_SWAP] = "CMP_SWAP",
		[KIND_FETCH_ADD] = "FETCH_ADD", [KIND_ATOMIC_WRITE] = "ATOMIC_WRITE",
		[KIND_FLUSH] = "FLUSH",		[KIND_WORD] = "ACK",
	};
	const unsigned kind = segment_kind(op);

	return others[kind] ? others[kind] : names[kind][op & SEGMENT_ONLY];
}

const char *peer_text(const struct qp *qp, char text[static PEER_TEXT])
{
	const struct peer *p = shm_qp(qp)->peer;
	const struct reach *r = p ? &p->reach : NULL;
	char gid[INET6_ADDRSTRLEN], process[32] = "";

	addr_text(qp->attr.ah_attr.grh.dgid.raw, gid);
	if (r && r->slot == qp->core->slot)
		snprintf(process, sizeof(process), ", in this process");
	else if (r && r->pid > 0)
		snprintf(process, sizeof(process), ", process %d", (int)r->pid);
	snprintf(text, PEER_TEXT, "QP 0x%06x at %s%s", qp->attr.dest_qp_num, gid,
		 process);
	return text;
}

void hint_rnr(struct shm_qp *q, uint64_t now)
{
	const struct qp *qp = q->qp;
	char to[PEER_TEXT];

	qp_is_held(qp);
	if (hang_seen(&q->src.rnr, q->src.s.una, now))
		hang_tell_rnr(qp, q->src.s.una, peer_text(qp, to));
}

/* Where the timeout is long enough, or there is none, this comes before the failure. */
void hint_silent(struct shm_qp *q, uint64_t now)
{
	struct qp *qp = q->qp;
	char to[PEER_TEXT];

	qp_is_held(qp);
	if (q->src.s.una != (qp->attr.sq_psn & PSN_MASK) && ack_timeout_ns(qp))
		return;
	if (hang_seen(&q->src.silent, q->src.s.una, now))
		hang_tell_silence(qp, q->src.s.una, peer_text(qp, to));
}

void hint_no_recv(struct shm_qp *q, uint64_t now)
{
	char from[PEER_TEXT];

	if (hang_seen(&q->dst.no_recv, q->dst.expected, now))
		hang_tell_no_recv(q->qp, q->dst.expected, peer_text(q->qp, from));
}

/* A number that was agreed on wrongly shows before the first segment is taken. */
void hint_number(struct shm_qp *q, const struct rec *r, uint64_t now)
{
	char from[PEER_TEXT];

	if (hang_seen(&q->dst.astray, q->dst.expected, now))
		hang_tell_number(q->qp, q->dst.expected, r->psn & PSN_MASK,
				 peer_text(q->qp, from));
}

void hint_dropped(struct peer *p, const struct rec *r, const char *why, uint64_t now)
{
	const unsigned psn = r->psn & PSN_MASK;
	const char *name = segment_name(r->opcode);

	if (hang_seen(&p->drops[r->dst % PEER_DROPS], r->dst, now))
		log_hint("QP 0x%06x: for 1 s packets from QP 0x%06x of this host have "
			 "been dropped (%s, PSN %u): %s",
			 r->dst, r->src, name, psn, why);
	else if (log_level >= LOG_INFO && log_allowed(&p->l->said_dropped))
		log_info("%s for QP 0x%06x from QP 0x%06x of this host, PSN %u, "
			 "dropped: %s",
			 name, r->dst, r->src, psn, why);
}
