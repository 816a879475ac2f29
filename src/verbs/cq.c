/* SPDX-License-Identifier: BSD-2-Clause */
/* cq.c - see cq.h. */
#include "verbs/cq.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "sys/ack_wait.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/like.h"
#include "verbs/pd.h"
#include "verbs/ring.h"

struct cq *cq_of(struct ibv_cq *ibv)
{
	return container_of(ibv, struct cq, ex);
}

static uint32_t ring_size(int cqe)
{
	uint32_t size = 1;

	while (size < (uint32_t)cqe)
		size *= 2;
	return size;
}

static int make_ring(struct pd *in, int cqe, struct cqe **ring)
{
	char whose[LIKE_TEXT];

	if (cqe < 1 || (uint32_t)cqe > caps.max_cqe) {
		log_info("completion queue of %d entries refused: it may have 1 to %u%s",
			 cqe, caps.max_cqe, like_limit_text(LIKE_max_cqe, whose));
		return -EINVAL;
	}
	*ring = ring_alloc(in, ring_size(cqe), sizeof(**ring));
	return *ring ? 0 : -ENOMEM;
}

static void enter_channel(struct channel *ch, struct cq *cq)
{
	lock_take(&ch->queue.lock);
	ch->ibv.refcnt++;
	list_add_tail(&ch->asleep.cqs, &cq->in_channel);
	lock_give(&ch->queue.lock);
}

static void leave_channel(struct channel *ch, struct cq *cq)
{
	lock_take(&ch->queue.lock);
	ch->ibv.refcnt--;
	list_del(&cq->in_channel);
	lock_give(&ch->queue.lock);
}

int cq_create_in(struct pd *in, struct context *ctx, int cqe, struct channel *ch,
		 void *cq_context, struct cq **out)
{
	struct cqe *ring;
	struct cq *cq;
	int rc = make_ring(in, cqe, &ring);

	if (rc)
		return rc;
	rc = count_up(&ctx->core->counts.cqs, caps.max_cq);
	if (rc)
		goto free_ring;
	cq = calloc(1, sizeof(*cq));
	if (!cq) {
		rc = -ENOMEM;
		goto uncount;
	}
	cq->core = ctx->core;
	cq->hooks = ctx->core->cq_hooks;
	cq->ordered = cq->hooks;
	cq->ctx = ctx;
	cq->channel = ch;
	cq->in = in;
	if (in)
		pd_use(in);
	cq->ring = ring;
	cq->size = ring_size(cqe);
	cq->cap = (uint32_t)cqe;
	cq->solicited = UINT32_MAX; /* before the first entry */
	brief_init(&cq->lock);
	list_init(&cq->event_node);
	cq->ex.context = ctx->ibv;
	cq->ex.cq_context = cq_context;
	cq->ex.handle = core_handle(ctx->core);
	cq->ex.cqe = cqe;
	pthread_mutex_init(&cq->ex.mutex, NULL);
	pthread_cond_init(&cq->ex.cond, NULL);
	if (ch) {
		cq->ex.channel = &ch->ibv;
		enter_channel(ch, cq);
	}
	live_add(&cq->live, LIVE_CQ, ctx->ibv);
	*out = cq;
	return 0;
uncount:
	count_down(&ctx->core->counts.cqs);
free_ring:
	ring_free(in, ring, ring_size(cqe), sizeof(*ring));
	return rc;
}

int cq_create(struct context *ctx, int cqe, struct channel *ch, void *cq_context,
	      struct cq **out)
{
	return cq_create_in(NULL, ctx, cqe, ch, cq_context, out);
}

/* Waits until the program has acknowledged the events it fetched (IBTA 11.2.8.4; as
 * ibv_destroy_cq() does). No more events can be fetched. */
static void wait_for_acks(struct cq *cq)
{
	struct ack_wait wait = { 0 };

	pthread_mutex_lock(&cq->ex.mutex);
	while (cq->ex.comp_events_completed != cq->events_got)
		if (ack_wait(&wait, &cq->ex.cond, &cq->ex.mutex))
			log_hint("destroy_cq waits: the program has fetched %u events of "
				 "completion queue %u and acknowledged %u "
				 "(ibv_ack_cq_events)",
				 cq->events_got, cq->ex.handle,
				 cq->ex.comp_events_completed);
	pthread_mutex_unlock(&cq->ex.mutex);
}

/* CQs that wait_for_acks(): no table has them any more, and another thread may
 * acknowledge their events. */
static struct lock leaving_lock;
static struct leaving {
	struct leaving *next;
	const struct cq *cq;
} * leaving GUARDED_BY(leaving_lock);

bool cq_ack_leaving(struct cq *cq, unsigned n)
{
	bool found = false;

	lock_take(&leaving_lock);
	for (struct leaving *l = leaving; l && !found; l = l->next)
		found = l->cq == cq;
	if (found)
		cq_ack_events(cq, n);
	lock_give(&leaving_lock);
	return found;
}

/* The list lies on the stacks of threads that are not there. */
NO_TSA void cq_forked(void)
{
	lock_init(&leaving_lock);
	leaving = NULL;
}

static void leave_acked(struct cq *cq)
{
	struct leaving own = { .cq = cq }, **at;

	lock_take(&leaving_lock);
	own.next = leaving;
	leaving = &own;
	lock_give(&leaving_lock);
	live_del(&cq->live);
	if (cq->channel) {
		channel_drop(cq->channel, cq);
		wait_for_acks(cq);
	}
	lock_take(&leaving_lock);
	for (at = &leaving; *at != &own; at = &(*at)->next)
		;
	*at = own.next;
	lock_give(&leaving_lock);
}

int cq_destroy(struct cq *cq)
{
	uint32_t users = atomic_load(&cq->users);

	if (users) {
		log_info("completion queue %u is not destroyed: %u work queues "
			 "use it",
			 cq->ex.handle, users);
		return -EBUSY;
	}
	if (cq->hooks)
		cq->hooks->forget(cq, 0);
	leave_acked(cq);
	if (cq->channel)
		leave_channel(cq->channel, cq);
	async_forget(cq->ctx, &cq->ex);
	count_down(&cq->core->counts.cqs);
	pthread_cond_destroy(&cq->ex.cond);
	pthread_mutex_destroy(&cq->ex.mutex);
	brief_take(&cq->lock); /* waits for a poll in progress; later ones find
				* nothing */
	cq->tail = cq->head;
	brief_give(&cq->lock);
	ring_free(cq->in, cq->ring, cq->size, sizeof(*cq->ring));
	if (cq->in)
		pd_unuse(cq->in);
	context_free(cq->ctx, cq);
	return 0;
}

void cq_ack_all(struct cq *cq)
{
	pthread_mutex_lock(&cq->ex.mutex);
	cq->ex.comp_events_completed = cq->events_got;
	pthread_cond_broadcast(&cq->ex.cond);
	pthread_mutex_unlock(&cq->ex.mutex);
}

static uint32_t head(const struct cq *cq)
{
	return atomic_load_explicit(&cq->head, memory_order_relaxed);
}

static uint32_t tail(const struct cq *cq)
{
	return atomic_load_explicit(&cq->tail, memory_order_relaxed);
}

static void set_head(struct cq *cq, uint32_t to) REQUIRES(cq->lock)
{
	atomic_store_explicit(&cq->head, to, memory_order_relaxed);
}

static void set_tail(struct cq *cq, uint32_t to) REQUIRES(cq->lock)
{
	atomic_store_explicit(&cq->tail, to, memory_order_relaxed);
}

static struct cqe *entry_at(struct cq *cq, uint32_t index) REQUIRES(cq->lock)
{
	return &cq->ring[index & (cq->size - 1)];
}

int cq_resize(struct cq *cq, int cqe)
{
	struct cqe *ring, *old;
	int rc = make_ring(cq->in, cqe, &ring);
	uint32_t size, n, was;

	if (rc)
		return rc;
	size = ring_size(cqe);
	brief_take(&cq->lock);
	old = cq->ring;
	was = cq->size;
	n = head(cq) - tail(cq);
	if (n + cq->held > (uint32_t)cqe) {
		brief_give(&cq->lock);
		ring_free(cq->in, ring, size, sizeof(*ring));
		log_info("completion queue %u: resize to %d entries refused: %u "
			 "completions wait to be polled",
			 cq->ex.handle, cqe, n);
		return -EINVAL;
	}
	for (uint32_t i = tail(cq); i != head(cq); i++)
		ring[i & (size - 1)] = *entry_at(cq, i);
	cq->ring = ring;
	cq->size = size;
	cq->cap = (uint32_t)cqe;
	cq->ex.cqe = cqe;
	brief_give(&cq->lock);
	ring_free(cq->in, old, was, sizeof(*old));
	return 0;
}

/* Does an entry of this kind wait to be polled, other than those that events have
 * told of? */
static bool untold(const struct cq *cq, enum cq_wants what) REQUIRES(cq->lock)
{
	const uint32_t n = head(cq) - tail(cq);

	return n > cq->told &&
	       (what == CQ_ANY || (what == CQ_SOLICITED && cq->solicited - tail(cq) < n));
}

static void set_armed(struct cq *cq, enum cq_wants to) REQUIRES(cq->lock)
{
	atomic_store_explicit(&cq->armed, to, memory_order_relaxed);
}

/* Counts the event, which the caller raises when it has given the lock. Returns false if
 * there is no channel to raise it on. */
static bool count_event(struct cq *cq) REQUIRES(cq->lock)
{
	set_armed(cq, CQ_IDLE);
	cq->owed = CQ_IDLE;
	cq->told += cq->channel != NULL;
	return cq->channel;
}

/* Is the event that an arm has put off due, since nothing waits any more that events have
 * told of? */
static bool is_due(const struct cq *cq) REQUIRES(cq->lock)
{
	return !cq->told && untold(cq, cq->owed);
}

bool cq_may_arm(const struct cq *cq)
{
	return brief_comes_free(&cq->lock) &&
	       (!cq->channel || lock_comes_free(&cq->channel->queue.lock));
}

int cq_arm(struct cq *cq, bool solicited_only)
{
	bool now;

	atomic_store_explicit(&cq->armer, pthread_self(), memory_order_relaxed);
	brief_take(&cq->lock);
	/* Arming for solicited events does not weaken an earlier request for any
	 * event. */
	if (!solicited_only)
		set_armed(cq, CQ_ANY);
	else if (cq_armed(cq) == CQ_IDLE)
		set_armed(cq, CQ_SOLICITED);
	if (untold(cq, cq_armed(cq)))
		cq->owed = cq_armed(cq);
	now = is_due(cq) && count_event(cq);
	brief_give(&cq->lock);
	if (now)
		channel_raise(cq->channel, cq);
	return 0;
}

void cq_polled(struct cq *cq)
{
	bool now;

	atomic_store_explicit(&cq->taker, pthread_self(), memory_order_relaxed);
	brief_take(&cq->lock);
	now = untold(cq, cq->owed) && count_event(cq);
	cq->owed = CQ_IDLE;
	brief_give(&cq->lock);
	if (now)
		channel_raise(cq->channel, cq);
}

void cq_ack_events(struct cq *cq, unsigned n)
{
	pthread_mutex_lock(&cq->ex.mutex);
	cq->ex.comp_events_completed += n;
	pthread_cond_broadcast(&cq->ex.cond);
	pthread_mutex_unlock(&cq->ex.mutex);
}

#define SAME(wc, mine)                                                                   \
	static_assert(offsetof(struct ibv_wc, wc) == offsetof(struct cqe, mine), #wc)
SAME(wr_id, wr_id);
SAME(status, status);
SAME(opcode, opcode);
SAME(vendor_err, vendor_err);
SAME(byte_len, byte_len);
SAME(imm_data, imm);
SAME(qp_num, qp_num);
SAME(src_qp, src_qp);
SAME(wc_flags, flags);
SAME(pkey_index, pkey_index);
SAME(slid, slid);
SAME(sl, sl);
SAME(dlid_path_bits, dlid_path_bits);
static_assert(sizeof(struct ibv_wc) == offsetof(struct cqe, now), "all that goes before");

int cq_poll(struct cq *cq, int n, struct ibv_wc *wc)
{
	if (n < 0)
		return -EINVAL;
	return n == 0 || cq_empty(cq) ? 0 : cq_take(cq, (uint32_t)n, wc);
}

bool cq_pop(struct cq *cq, struct cqe *out)
{
	uint32_t first;
	bool any;

	if (cq_empty(cq))
		return false;
	brief_take(&cq->lock);
	first = tail(cq);
	any = first != head(cq);
	if (any) {
		*out = *entry_at(cq, first);
		cqe_leaves(out);
		set_tail(cq, first + 1);
		if (cq->told)
			cq->told--;
	}
	brief_give(&cq->lock);
	return any;
}

static void report_overrun(struct cq *cq, const struct cqe *cqe)
{
	log_error("completion queue %u is overrun: %u entries, all waiting "
		  "to be polled; a completion of QP 0x%06x is lost",
		  cq->ex.handle, cq->cap, cqe->qp_num);
	async_raise(cq->ctx, IBV_EVENT_CQ_ERR, &cq->ex);
}

static void drop_oldest(struct cq *cq) REQUIRES(cq->lock)
{
	cqe_leaves(entry_at(cq, tail(cq)));
	cq->told -= cq->told != 0;
	set_tail(cq, tail(cq) + 1);
}

/* The slow path of cq_push(): the CQ is full, armed, overrun or ordered. */
__attribute__((noinline)) bool cq_push_now(struct cq *cq, const struct cqe *cqe,
					   bool solicited)
{
	bool now = false, report = false, lost;
	uint32_t h;

	brief_take(&cq->lock);
	lost = cq->overrun;
	h = head(cq);
	if (!lost && h - tail(cq) >= cq->cap) {
		if (cq->ignore_overrun)
			drop_oldest(cq);
		else
			lost = report = cq->overrun = true;
	}
	if (!lost) {
		*entry_at(cq, h) = *cqe;
		set_head(cq, h + 1);
		if (solicited)
			cq->solicited = h;
		if (cq_armed(cq) == CQ_SOLICITED && solicited &&
		    cqe->status == IBV_WC_SUCCESS)
			atomic_store_explicit(&cq->solicits, true, memory_order_relaxed);
		now = (cq_armed(cq) == CQ_ANY ||
		       (cq_armed(cq) == CQ_SOLICITED && solicited) || is_due(cq)) &&
		      count_event(cq);
	}
	brief_give(&cq->lock);
	/* Outside of the lock, since these are system calls. The CQ cannot go away:
	 * the completing QP uses it. */
	if (report)
		report_overrun(cq, cqe);
	if (now)
		channel_raise(cq->channel, cq);
	return !lost;
}

bool cq_has_room(struct cq *cq)
{
	bool has;

	brief_take(&cq->lock);
	has = head(cq) - tail(cq) + cq->held < cq->cap;
	brief_give(&cq->lock);
	return has;
}

bool cq_push(struct cq *cq, const struct cqe *cqe, bool solicited)
{
	struct cqe *to = cq_begin(cq);

	solicited |= cqe->status != IBV_WC_SUCCESS;
	if (!to)
		return (cq->hooks && cq->hooks->hold(cq, cqe, solicited, clock_ns())) ||
		       cq_push_now(cq, cqe, solicited);
	*to = *cqe;
	cq_end(cq, solicited);
	return true;
}

void cq_forget(struct cq *cq, uint32_t qpn)
{
	uint32_t to, solicited;
	bool now;

	if (cq->hooks)
		cq->hooks->forget(cq, qpn);

	brief_take(&cq->lock);
	to = tail(cq);
	solicited = to - 1;
	for (uint32_t from = to; from != head(cq); from++) {
		const bool stays = entry_at(cq, from)->qp_num != qpn;

		/* Where it goes, an older one may be left: rather a needless event. */
		if (from == cq->solicited)
			solicited = stays ? to : to - 1;
		if (stays)
			*entry_at(cq, to++) = *entry_at(cq, from);
		else
			cqe_leaves(entry_at(cq, from));
		/* Rather a needless event than none: those that go were told of. */
		if (!stays && cq->told)
			cq->told--;
	}
	set_head(cq, to);
	cq->solicited = solicited;
	now = is_due(cq) && count_event(cq);
	brief_give(&cq->lock);
	if (now)
		channel_raise(cq->channel, cq);
}

void cq_return(struct cq *cq, _Atomic uint32_t *queue, uint32_t n)
{
	brief_take(&cq->lock);
	atomic_store_explicit(queue,
			      atomic_load_explicit(queue, memory_order_relaxed) + n,
			      memory_order_relaxed);
	brief_give(&cq->lock);
}

void cq_disown(struct cq *cq, const _Atomic uint32_t *queue)
{
	if (cq->hooks)
		cq->hooks->disown(cq, queue);
	brief_take(&cq->lock);
	for (uint32_t i = tail(cq); i != head(cq); i++)
		if (entry_at(cq, i)->places && entry_at(cq, i)->queue == queue)
			entry_at(cq, i)->places = 0;
	brief_give(&cq->lock);
}

/* --- its channel --------------------------------------------------------- */

/* A CQ with several events is in the list once; after each event it moves to the
 * list's end. */
struct cq *channel_pop(struct channel *ch)
{
	struct list *waiting = &ch->queue.waiting;
	struct cq *cq = NULL;

	lock_take(&ch->queue.lock);
	if (!list_empty(waiting)) {
		cq = container_of(waiting->next, struct cq, event_node);
		list_del(&cq->event_node);
		cq->events_got++;
		if (--cq->events_queued)
			list_add_tail(waiting, &cq->event_node);
	}
	lock_give(&ch->queue.lock);
	return cq;
}

int channel_get(struct channel *ch, struct cq **cq)
{
	struct cq *got = NULL;
	int rc;

	while (!got) {
		rc = event_queue_wait(&ch->queue);
		if (rc)
			return rc;
		got = channel_pop(ch);
	}
	*cq = got;
	return 0;
}

void channel_raise(struct channel *ch, struct cq *cq)
{
	int rc;

	lock_take(&ch->queue.lock);
	if (!cq->events_queued++)
		list_add_tail(&ch->queue.waiting, &cq->event_node);
	lock_give(&ch->queue.lock);
	rc = event_queue_post(&ch->queue);
	if (rc)
		context_lost(cq->ctx, "a completion channel", rc);
}

void channel_drop(struct channel *ch, struct cq *cq)
{
	unsigned n;

	lock_take(&ch->queue.lock);
	n = cq->events_queued;
	cq->events_queued = 0;
	list_del(&cq->event_node);
	lock_give(&ch->queue.lock);
	event_queue_drop(&ch->queue, n);
}
