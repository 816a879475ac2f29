/* SPDX-License-Identifier: BSD-2-Clause */
/* event.c - completion channels and asynchronous events. */
#include "verbs/event.h"

#include "abi/abi.h"
#include "driver/nic.h"
#include "verbs/asleep.h"
#include "verbs/cq.h"

EXPORT struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *ibv)
{
	struct channel *ch;

	if (!abi_enter_on(LIVE(context_of, ibv), LIVE_CONTEXT, EBADF))
		return NULL;
	return abi_leave(channel_create(&abi_of(ibv)->ctx, &ch)) ? NULL : &ch->ibv;
}

EXPORT int ibv_destroy_comp_channel(struct ibv_comp_channel *ibv)
{
	if (!abi_enter_on(LIVE(channel_of, ibv), LIVE_CHANNEL, ENOENT))
		return errno;
	nic_wait_stop(abi_of(ibv->context)->nic, channel_of(ibv));
	return abi_leave(channel_destroy(channel_of(ibv)));
}

/* Not, if the program has destroyed the channel beside the thread. */
static bool is_there(struct channel *ch)
{
	const void *owner;

	return live_find(&ch->live, LIVE_CHANNEL, &owner);
}

static void end_wait(void *arg)
{
	struct nic_wait *w = arg;

	if (is_there(w->ch))
		nic_wait_end(w);
	asleep_end(w->ch);
}

/* Waits for an event's token. */
static int wait_for_token(struct channel *ch)
{
	struct nic_wait w = { .nic = abi_of(ch->ibv.context)->nic, .ch = ch };
	bool in_vain;
	int rc;

	inside_begin();
	in_vain = asleep_begin(ch);
	pthread_cleanup_push(end_wait, &w);
	if (in_vain)
		nic_doubts(w.nic);
	rc = nic_wait_begin(&w);
	abi_end();
	if (!rc)
		rc = is_there(ch) ? event_queue_wait(&ch->queue) : -EBADF;
	w.got = !rc;
	pthread_cleanup_pop(1);
	return rc;
}

/* get_cq_event() and get_async_event() sleep before abi_enter(), unless the program made
 * the descriptor O_NONBLOCK, so that signal handlers may poll meanwhile. They sleep in
 * read(), which continues after a handler with SA_RESTART, as programs expect. */
static int get_cq_event(struct ibv_comp_channel *ibv, struct cq **cq)
{
	struct ibv_context *ctx = ibv->context;
	int rc;

	if (checks)
		checks->waits(&channel_of(ibv)->live);
	do {
		rc = abi_of(ctx)->ctx.dead ? -EIO : wait_for_token(channel_of(ibv));
		if (rc)
			return rc;
		if (!abi_enter(ctx))
			return -EIO;
		*cq = channel_pop(channel_of(ibv));
		abi_end();
	} while (!*cq);
	return 0;
}

EXPORT int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **out,
			    void **cq_context)
{
	const void *owner;
	struct cq *cq;

	if (!abi_alone())
		return -1;
	if (!GIVEN("get_cq_event", out) || !GIVEN("get_cq_event", cq_context))
		return -1;
	if (!live_find(LIVE(channel_of, ibv), LIVE_CHANNEL, &owner)) {
		errno = EBADF;
		return -1;
	}
	if (abi_result(get_cq_event(ibv, &cq)))
		return -1;
	if (checks)
		checks->got(&cq->live);
	*out = (struct ibv_cq *)&cq->ex;
	*cq_context = cq->ex.cq_context;
	return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *ibv, unsigned n)
{
	const void *owner;

	if (!n || !ibv || !abi_alone())
		return;
	if (!live_find(LIVE(cq_of, ibv), LIVE_CQ, &owner)) {
		(void)cq_ack_leaving(cq_of(ibv), n);
		return;
	}
	if (!abi_enter(ibv->context))
		return;
	if (checks)
		checks->acked(&cq_of(ibv)->live, n);
	cq_ack_events(cq_of(ibv), n);
	abi_end();
}

/* Works on a dead context, too, since DEVICE_FATAL is an event. But a forked child would
 * take its parent's events, so it is refused. */
static int get_async_event(struct ibv_context *ibv, struct ibv_async_event *event)
{
	struct context *ctx;
	const void *self;
	bool got;
	int rc;

	if (!live_find(LIVE(context_of, ibv), LIVE_CONTEXT, &self))
		return -EBADF;
	ctx = &abi_of(ibv)->ctx;
	do {
		rc = abi_forked(ibv) ? -EIO : event_queue_wait(&ctx->async);
		if (rc)
			return rc;
		inside_begin();
		got = async_pop(ctx, event);
		abi_end();
	} while (!got);
	return 0;
}

EXPORT int ibv_get_async_event(struct ibv_context *ibv, struct ibv_async_event *event)
{
	if (!abi_alone() || !GIVEN("get_async_event", event))
		return -1;
	return abi_result(get_async_event(ibv, event)) ? -1 : 0;
}

EXPORT void ibv_ack_async_event(struct ibv_async_event *event)
{
	if (!abi_alone() || !GIVEN("ack_async_event", event))
		return;
	inside_begin();
	async_ack(event);
	abi_end();
}
