/* SPDX-License-Identifier: BSD-2-Clause */
/* event.c - event queues and completion channels; see event.h.
 * Asynchronous events are in async.c. */
#include "verbs/event.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sys/cancel.h"
#include "sys/fd.h"
#include "sys/log.h"
#include "verbs/core.h"

int event_queue_init(struct event_queue *q)
{
	int fd = fd_raise(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC));
	int rc = fd < 0 ? -errno : fd_identify(fd, &q->id);

	if (rc) {
		if (fd >= 0)
			close(fd);
		return rc;
	}
	q->fd = fd;
	lock_init(&q->lock);
	list_init(&q->waiting);
	list_init(&q->got);
	q->acked = (struct lock_cond){ 0 };
	return 0;
}

/* Another eventfd may have the same identity: it then gets a needless wakeup, which is
 * harmless for a file that others write to anyway. */
static bool is_ours(const struct event_queue *q)
{
	return fd_is(q->fd, &q->id);
}

static void free_all(struct list *events)
{
	list_for_safe(n, events) free(container_of(n, struct async, node));
	list_init(events);
}

/* Only asynchronous events are left here: a channel's CQs are destroyed before it. */
void event_queue_fini(struct event_queue *q)
{
	free_all(&q->waiting);
	free_all(&q->got);
	if (is_ours(q))
		close(q->fd);
	q->fd = -1;
}

int event_queue_post(struct event_queue *q)
{
	static const uint64_t one = 1;
	int was, rc = 0;

	if (!is_ours(q))
		return -EBADF;
	was = cancel_hold();
	do
		rc = write(q->fd, &one, sizeof(one)) < 0 ? -errno : 0;
	while (rc == -EINTR);
	cancel_let(was);
	return rc;
}

int event_queue_wait(struct event_queue *q)
{
	uint64_t token;

	if (!is_ours(q))
		return -EBADF;
	return read(q->fd, &token, sizeof(token)) < 0 ? -errno : 0;
}

bool event_queue_any(struct event_queue *q)
{
	bool any;

	lock_take(&q->lock);
	any = !list_empty(&q->waiting);
	lock_give(&q->lock);
	return any;
}

bool event_queue_blocks(const struct event_queue *q)
{
	return is_ours(q) && !(fcntl(q->fd, F_GETFL) & O_NONBLOCK);
}

/* On kernels before 5.8, fd_try_token() takes none, and the tokens stay: each is only a
 * needless wakeup. */
void event_queue_drop(struct event_queue *q, unsigned n)
{
	if (!n || !is_ours(q))
		return;
	while (n-- > 0)
		if (fd_try_token(q->fd))
			return;
}

struct channel *channel_of(struct ibv_comp_channel *ibv)
{
	return container_of(ibv, struct channel, ibv);
}

int channel_create(struct context *ctx, struct channel **out)
{
	struct channel *ch = calloc(1, sizeof(*ch));
	int rc;

	if (!ch)
		return -ENOMEM;
	rc = event_queue_init(&ch->queue);
	if (rc) {
		free(ch);
		return rc;
	}
	list_init(&ch->asleep.cqs);
	list_init(&ch->asleep.node);
	ch->ctx = ctx;
	ch->ibv.context = ctx->ibv;
	ch->ibv.fd = ch->queue.fd;
	live_add(&ch->live, LIVE_CHANNEL, ctx->ibv);
	*out = ch;
	return 0;
}

int channel_destroy(struct channel *ch)
{
	bool busy;

	lock_take(&ch->queue.lock);
	busy = ch->ibv.refcnt > 0;
	lock_give(&ch->queue.lock);
	if (busy)
		return -EBUSY;
	live_del(&ch->live);
	lock_take(&ch->ctx->core->lock);
	list_del(&ch->asleep.node);
	lock_give(&ch->ctx->core->lock);
	event_queue_fini(&ch->queue);
	context_free(ch->ctx, ch);
	return 0;
}
