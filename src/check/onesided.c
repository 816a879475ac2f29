/* SPDX-License-Identifier: BSD-2-Clause */
/* onesided.c - requests that meet in memory without an order: one-sided-race,
 * buffer-read-early, announce-before-done (docs/dev/races.md).  check_wr.own[0] is the
 * request's number in race.h. */
#include <stdlib.h>
#include <string.h>

#include "check/check.h"
#include "check/heard.h"
#include "check/parts.h"
#include "check/race.h"
#include "check/region.h"
#include "sys/guard.h"
#include "sys/log.h"
#include "sys/newer.h"

enum {
	OPEN_MOST = 1 << 16,
	HERE = 1,	/* the space of this process's own memory */
	WRITTEN = 1024, /* WRITEs that an announcement may name */
	NAMED = 16,	/* those that a SEND has named */
	LOOKED_AT = 128 /* bytes of a SEND */
};

/* An open WRITE, by the address where it begins */
struct written {
	uint64_t at, peer, number;
	uint32_t queue;
	const struct check_wr *w;
};

/* What is kept of a request for a report */
struct event {
	uint64_t number, wr_id, at, remote_addr;
	check_trace trace;
	uint32_t queue, qpn, length;
	uint8_t opcode;
};

/* A WRITE that a SEND has named */
struct named {
	struct event write, send;
};

static struct brief_lock lock;
static struct race *race GUARDED_BY(lock);
/* May an access be open, of any queue?  Changes with the lock held.  If none is, a SEND
 * meets nothing, and tells of nothing. */
static atomic_bool any_open;
static uint32_t numbers[RACE_QUEUES]; /* of queue pairs, by component */
static struct written written[WRITTEN] GUARDED_BY(lock);
static struct named named[NAMED] GUARDED_BY(lock);
static unsigned named_n GUARDED_BY(lock);    /* free-running */
static unsigned named_left GUARDED_BY(lock); /* those that are in use */

static void start(void)
{
	struct race *made = race_new(OPEN_MOST);

	brief_take(&lock);
	race = made;
	brief_give(&lock);
	if (!made)
		log_warn("checks: no memory for one-sided-race, buffer-read-early and "
			 "announce-before-done: they are off");
}

static uint64_t mix(uint64_t h, uint64_t more)
{
	h = (h ^ more) * 0x9e3779b97f4a7c15u;
	return h ^ h >> 29;
}

/* --- what a request touches ------------------------------------------------- */

static bool is_atomic(const struct check_wr *w)
{
	return w->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	       w->opcode == IBV_WR_ATOMIC_FETCH_AND_ADD;
}

static bool is_answered(const struct check_wr *w)
{
	return w->opcode == IBV_WR_RDMA_READ || is_atomic(w);
}

static bool is_send(const struct check_wr *w)
{
	return w->opcode == IBV_WR_SEND || w->opcode == IBV_WR_SEND_WITH_IMM ||
	       w->opcode == IBV_WR_SEND_WITH_INV;
}

static bool gathers_memory(const struct check_wr *w)
{
	return is_send(w) || w->opcode == IBV_WR_RDMA_WRITE ||
	       w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
}

/* Does it show somebody that what was posted before was executed? */
static bool is_message(const struct check_wr *w)
{
	return w->opcode != IBV_WR_RDMA_WRITE && w->opcode != IBV_WR_RDMA_READ;
}

/* The memory of the peer that w touches; len 0: none. */
static struct race_access remote_of(const struct check_qp *qp, const struct check_wr *w)
{
	struct race_access a = {
		.space = mix(qp->peer, w->rkey) | 2, /* not HERE */
		.at = w->remote_addr,
		.queue = qp->component,
		.tag = (uintptr_t)w,
	};

	if (!qp->peer)
		return a;
	if (w->opcode == IBV_WR_RDMA_READ)
		a.kind = RACE_READS;
	else if (w->opcode == IBV_WR_RDMA_WRITE ||
		 w->opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
		a.kind = RACE_WRITES;
	else if (is_atomic(w) || w->opcode == IBV_WR_ATOMIC_WRITE)
		a.kind = RACE_ATOMIC;
	else
		return a;
	a.len = a.kind == RACE_ATOMIC ? 8 : w->length;
	return a;
}

/* An SGE as memory of this process; len 0: not known. */
static struct race_access peers_of(const struct check_qp *qp, const struct check_wr *w,
				   unsigned i)
{
	const struct ibv_sge *g = &w->sge[i];
	const bool is_inline = w->flags & IBV_SEND_INLINE;
	const uint64_t at = is_inline ? g->addr : region_at(g->lkey, g->addr, g->length);

	return (struct race_access){
		.space = HERE,
		.at = at,
		.len = at ? g->length : 0,
		.queue = qp->component,
		.kind = is_answered(w) ? RACE_ANSWERS : RACE_READS,
		.tag = (uintptr_t)w,
	};
}

/* --- an earlier request that is met ------------------------------------------ */

/* The request is outstanding, since its access is open; its memory stays until the
 * completion has passed `lock'. */
static struct event event_of(const struct check_wr *w, uint32_t queue)
{
	return (struct event){
		.number = w->own[0],
		.wr_id = w->wr_id,
		.at = w->at,
		.remote_addr = w->remote_addr,
		.trace = w->trace,
		.queue = queue,
		.qpn = numbers[queue],
		.length = w->length,
		.opcode = w->opcode,
	};
}

static void keep_newest(const struct race_access *open, uint64_t number, void *arg)
{
	const struct check_wr *w = (const struct check_wr *)(uintptr_t)open->tag;
	struct event *e = arg;

	if (number > e->number)
		*e = event_of(w, open->queue);
}

static void report_race(const struct check_qp *qp, const struct check_wr *w,
			const struct event *e)
{
	const struct check_before before = { "the other was posted", e->trace, e->at };

	check_report_at(CHECK_ONE_SIDED_RACE, w->trace, &before, 1,
			"QP 0x%06x: %s of %u bytes at 0x%llx (rkey 0x%08x, wr_id 0x%llx) "
			"meets the %s of QP 0x%06x of %u bytes at 0x%llx (wr_id 0x%llx), "
			"whose completion was not polled: nothing orders the two",
			qp->qpn, check_opcode(w->opcode), w->length,
			(unsigned long long)w->remote_addr, w->rkey,
			(unsigned long long)w->wr_id, check_opcode(e->opcode), e->qpn,
			e->length, (unsigned long long)e->remote_addr,
			(unsigned long long)e->wr_id);
}

static void report_early(const struct check_qp *qp, const struct check_wr *w,
			 const struct event *e)
{
	const struct check_before before = { "posted", e->trace, e->at };

	check_report_at(CHECK_BUFFER_READ_EARLY, w->trace, &before, 1,
			"QP 0x%06x: this %s (wr_id 0x%llx) takes bytes that the %s of QP "
			"0x%06x (wr_id 0x%llx) is still to fill: its completion was not "
			"polled%s",
			qp->qpn, check_opcode(w->opcode), (unsigned long long)w->wr_id,
			check_opcode(e->opcode), e->qpn, (unsigned long long)e->wr_id,
			e->qpn == qp->qpn ? ", and there is no IBV_SEND_FENCE" : "");
}

/* --- announcements ------------------------------------------------------------ */

static struct written *written_at(uint64_t at, uint64_t peer) REQUIRES(lock)
{
	return &written[mix(peer, at) >> 32 & (WRITTEN - 1)];
}

static bool is_open(uint32_t queue, uint64_t number) REQUIRES(lock)
{
	const struct race_access a = { .kind = RACE_WRITES, .queue = queue };

	return race_is_open(race, &a, number);
}

static void name(const struct check_qp *qp, const struct check_wr *send,
		 const struct written *x) REQUIRES(lock)
{
	struct named *n = &named[named_n++ % NAMED];

	named_left += !n->write.number;
	n->write = event_of(x->w, x->queue);
	n->send = event_of(send, qp->component);
}

/* Is this the address of an open WRITE to the same process, by another queue pair? */
static void look_up(const struct check_qp *qp, const struct check_wr *send, uint64_t at)
	REQUIRES(lock)
{
	const struct written *x = written_at(at, qp->process);

	if (at && x->at == at && x->peer == qp->process && x->queue != qp->component &&
	    is_open(x->queue, x->number) && !region_has(at))
		name(qp, send, x);
}

static unsigned copy_start(const struct check_wr *w, uint8_t to[LOOKED_AT])
{
	unsigned n = 0;

	for (unsigned i = 0; i < w->num_sge && n < LOOKED_AT; i++) {
		const struct ibv_sge *g = &w->sge[i];
		const uint32_t left = LOOKED_AT - n;
		const uint32_t len = g->length < left ? g->length : left;
		const uint64_t at = w->flags & IBV_SEND_INLINE
					    ? g->addr
					    : region_at(g->lkey, g->addr, len);

		if (!at || guard_copy(to + n, (const void *)(uintptr_t)at, len))
			break;
		n += len;
	}
	return n;
}

static void find_names(const struct check_qp *qp, const struct check_wr *w) REQUIRES(lock)
{
	uint8_t bytes[LOOKED_AT];
	unsigned n;

	guard_enter();
	n = copy_start(w, bytes);
	guard_leave();
	for (unsigned i = 0; i + 8 <= n; i += 4) {
		uint64_t v;

		memcpy(&v, bytes + i, sizeof(v));
		look_up(qp, w, v);
		look_up(qp, w, __builtin_bswap64(v));
	}
}

static void report_named(const struct named *n)
{
	const struct check_before before = { "the WRITE was posted", n->write.trace,
					     n->write.at };

	check_report_at(CHECK_ANNOUNCE_BEFORE_DONE, n->send.trace, &before, 1,
			"QP 0x%06x: this %s (wr_id 0x%llx) names 0x%llx, where the %s of "
			"QP 0x%06x (wr_id 0x%llx) had no completion yet: the peer may "
			"read the message before the data",
			n->send.qpn, check_opcode(n->send.opcode),
			(unsigned long long)n->send.wr_id,
			(unsigned long long)n->write.remote_addr,
			check_opcode(n->write.opcode), n->write.qpn,
			(unsigned long long)n->write.wr_id);
}

/* Takes out one of the queue's WRITEs up to that number that a SEND has named, and that
 * nothing has told of since. */
static bool take_named(uint32_t queue, uint64_t number, struct named *out) REQUIRES(lock)
{
	for (unsigned i = 0; i < NAMED && named_left; i++) {
		struct named *n = &named[i];
		const uint64_t write = n->write.number;

		if (!write || n->write.queue != queue || write > number)
			continue;
		*out = *n;
		memset(n, 0, sizeof(*n));
		named_left--;
		if (is_open(queue, write))
			return true;
	}
	return false;
}

/* --- events ------------------------------------------------------------------- */

static void begin_queue(struct check_qp *qp) REQUIRES(lock)
{
	if (qp->component)
		return;
	qp->component = race_queue(race);
	numbers[qp->component] = qp->qpn;
}

static void note_write(const struct check_qp *qp, const struct check_wr *w) REQUIRES(lock)
{
	*written_at(w->remote_addr, qp->process) = (struct written){
		.at = w->remote_addr,
		.peer = qp->process,
		.number = w->own[0],
		.queue = qp->component,
		.w = w,
	};
}

/* The peer's memory. Who has a message may tell of it at once: it does not stay open. */
static void touch_remote(const struct check_qp *qp, const struct check_wr *w,
			 struct event *met) REQUIRES(lock)
{
	if (check_is_on(CHECK_ONE_SIDED_RACE)) {
		const struct race_access a = remote_of(qp, w);

		race_meet(race, &a, keep_newest, met);
		if (!is_message(w))
			race_open(race, &a);
	}
	if (w->opcode == IBV_WR_RDMA_WRITE && w->length && qp->peer)
		note_write(qp, w);
}

/* This process's memory. */
static void touch_local(const struct check_qp *qp, const struct check_wr *w,
			struct event *met) REQUIRES(lock)
{
	const bool answered = is_answered(w);

	if (!answered && !(gathers_memory(w) && race_has_answers(race)))
		return;
	for (unsigned i = 0; i < w->num_sge; i++) {
		const struct race_access a = peers_of(qp, w, i);

		if (answered)
			race_open(race, &a);
		else
			race_meet(race, &a, keep_newest, met);
	}
}

static void post(struct check_qp *qp, struct check_wr *w)
{
	struct event met, early;

	if (is_send(w) && !atomic_load_explicit(&any_open, memory_order_relaxed))
		return;
	brief_take(&lock);
	if (!race) {
		brief_give(&lock);
		return;
	}
	if (!is_send(w))
		any_open = true;
	met.number = early.number = 0;
	begin_queue(qp);
	w->own[0] = race_post(race);
	if (w->flags & IBV_SEND_FENCE)
		race_fence(race, qp->component, w->own[0]);
	touch_local(qp, w, &early);
	touch_remote(qp, w, &met);
	if (is_send(w) && qp->peer)
		find_names(qp, w);
	if (is_message(w))
		race_tell(race, qp->component, w->own[0]);
	brief_give(&lock);
	if (met.number)
		report_race(qp, w, &met);
	if (early.number)
		report_early(qp, w, &early);
}

/* All that the queue has posted is over, or was never done. */
static void close_all(struct check_qp *qp)
{
	brief_take(&lock);
	if (race && qp->component)
		race_done(race, qp->component, race_newest(race));
	brief_give(&lock);
}

static void refused(struct check_qp *qp, const struct check_wr *w, int rc)
{
	(void)rc;
	if (w->opcode != CHECK_RECV)
		close_all(qp);
}

/* Though a peer may have spoken by memory that it maps? */
static bool is_still_open(const struct event *write)
{
	bool open;

	heard_look();
	brief_take(&lock);
	open = is_open(write->queue, write->number);
	brief_give(&lock);
	return open;
}

static void complete_send(struct check_qp *qp, const struct check_wr *w, bool success)
{
	struct named n;
	bool found;

	if (!w->own[0])
		return; /* nothing was open when it was posted, nor before it since */
	do {
		brief_take(&lock);
		found = success && race && take_named(qp->component, w->own[0], &n);
		if (!found && race)
			race_done(race, qp->component, w->own[0]);
		brief_give(&lock);
		if (found && is_still_open(&n.write))
			report_named(&n);
	} while (found);
}

static void heard(void)
{
	if (!atomic_load_explicit(&any_open, memory_order_relaxed))
		return;
	brief_take(&lock);
	if (race)
		race_heard(race);
	any_open = false;
	brief_give(&lock);
}

static void spoke(uint64_t number, bool lent)
{
	(void)number, (void)lent;
	heard();
}

static void complete(struct check_qp *qp, struct check_wr *w, const struct ibv_wc *wc)
{
	if (w ? w->opcode == CHECK_RECV : wc->opcode & IBV_WC_RECV)
		heard();
	else if (w)
		complete_send(qp, w, wc->status == IBV_WC_SUCCESS);
	else
		close_all(qp);
}

static void wrote(const void *host, uint64_t len, bool done)
{
	(void)host;
	(void)len;
	if (!done) /* afterwards the program might have seen it already */
		heard();
}

/* --- queue pairs --------------------------------------------------------------- */

static uint64_t peer_of(const struct ibv_ah_attr *ah)
{
	uint64_t half[2];

	if (!ah->is_global)
		return mix(1, ah->dlid) | 1;
	memcpy(half, ah->grh.dgid.raw, sizeof(half));
	return mix(mix(2, half[0]), half[1]) | 1;
}

static void modified(struct check_qp *qp, const struct ibv_qp_attr *attr, int mask)
{
	if (mask & IBV_QP_AV)
		qp->peer = peer_of(&attr->ah_attr);
	/* The upper 10 of 24 bits are the process, where the peer has urnic. */
	if (mask & IBV_QP_DEST_QPN)
		qp->process = mix(qp->peer, attr->dest_qp_num >> 14);
	if (mask & IBV_QP_STATE &&
	    (attr->qp_state == IBV_QPS_RESET || attr->qp_state == IBV_QPS_ERR))
		close_all(qp);
}

static void gone(struct check_object *o)
{
	struct check_qp *qp = (struct check_qp *)o;

	region_gone(o);
	if (o->kind != LIVE_QP)
		return;
	brief_take(&lock);
	if (race && qp->component)
		race_queue_end(race, qp->component);
	qp->component = 0;
	brief_give(&lock);
}

const struct check_part onesided_part = {
	.name = "onesided",
	.first = CHECK_ANNOUNCE_BEFORE_DONE,
	.last = CHECK_ONE_SIDED_RACE,
	.start = start,
	.post = post,
	.refused = refused,
	.complete = complete,
	.wrote = wrote,
	.spoke = spoke,
	.modified = modified,
	.made = region_made,
	.gone = gone,
};
