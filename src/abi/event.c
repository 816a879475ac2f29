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
	return abi_leave(channel_destroy(channel_of(ibv)));
}

/* Waits for an event's token. */
static int wait_for_token(struct channel *ch)
{
	bool in_vain;
	int rc;

	inside_begin();
	in_vain = asleep_begin(ch);
	abi_end();
	pthread_cleanup_push(asleep_end, ch);
	if (in_vain)
		nic_doubts(abi_of(ch->ibv.context)->nic);
	rc = event_queue_wait(&ch->queue);
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
	*out = (struct ibv_cq *)&cq->ex;
	*cq_context = cq->ex.cq_context;
	return 0;
}

EXPORT void ibv_ack_cq_events(struct ibv_cq *ibv, unsigned n)
{
	const void *owner;

	if (!n || !abi_alone() || !live_find(LIVE(cq_of, ibv), LIVE_CQ, &owner) ||
	    !abi_enter(ibv->context))
		return;
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
