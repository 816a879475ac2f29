/* SPDX-License-Identifier: BSD-2-Clause */
/* async.c - asynchronous events; see event.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/alloc.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/cq.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/qp.h"
#include "verbs/rq.h"

/* What an event is about: selects the element's place in the union, and the counter
 * that an acknowledgement increments. */
enum subject { ABOUT_PORT, ABOUT_CQ, ABOUT_QP, ABOUT_SRQ, ABOUT_WQ };

static enum subject subject(enum ibv_event_type type)
{
	switch ((int)type) {
	case IBV_EVENT_CQ_ERR:
		return ABOUT_CQ;
	case IBV_EVENT_QP_FATAL:
	case IBV_EVENT_QP_REQ_ERR:
	case IBV_EVENT_QP_ACCESS_ERR:
	case IBV_EVENT_COMM_EST:
	case IBV_EVENT_SQ_DRAINED:
	case IBV_EVENT_PATH_MIG:
	case IBV_EVENT_PATH_MIG_ERR:
	case IBV_EVENT_QP_LAST_WQE_REACHED:
		return ABOUT_QP;
	case IBV_EVENT_SRQ_ERR:
	case IBV_EVENT_SRQ_LIMIT_REACHED:
		return ABOUT_SRQ;
	case IBV_EVENT_WQ_FATAL:
		return ABOUT_WQ;
	}
	return ABOUT_PORT; /* also the device, and events that only newer headers name */
}

void context_lost(struct context *ctx, const char *what, int err)
{
	if (atomic_exchange(&ctx->dead, true) || ctx->core->dead)
		return;
	log_error("%s: the descriptor of %s is lost (%s): the program closed "
		  "it; open the device again",
		  ctx->dev->ibv.name, what, strerror(-err));
	async_raise(ctx, IBV_EVENT_DEVICE_FATAL, NULL);
}

void async_raise(struct context *ctx, enum ibv_event_type type, void *element)
{
	struct async *a = turn_alloc(sizeof(*a));
	int rc;

	if (!a) {
		log_error("%s: asynchronous event %d is lost: no memory",
			  ctx->dev->ibv.name, (int)type);
		return;
	}
	a->type = type;
	a->element = subject(type) == ABOUT_PORT ? NULL : element;
	lock_take(&ctx->async.lock);
	list_add_tail(&ctx->async.waiting, &a->node);
	lock_give(&ctx->async.lock);
	rc = event_queue_post(&ctx->async);
	if (rc)
		context_lost(ctx, "its asynchronous events", rc);
}

static void fill_event(struct ibv_async_event *event, const struct async *a)
{
	event->event_type = a->type;
	switch (subject(a->type)) {
	case ABOUT_PORT:
		event->element.port_num = 1;
		break;
	case ABOUT_CQ:
		event->element.cq = a->element;
		break;
	case ABOUT_QP:
		event->element.qp = a->element;
		break;
	case ABOUT_SRQ:
		event->element.srq = a->element;
		break;
	case ABOUT_WQ:
		event->element.wq = a->element;
		break;
	}
}

/* Takes the next event; false if it was dropped meanwhile. */
bool async_pop(struct context *ctx, struct ibv_async_event *event)
{
	struct async *a = NULL;

	lock_take(&ctx->async.lock);
	if (!list_empty(&ctx->async.waiting)) {
		a = container_of(ctx->async.waiting.next, struct async, node);
		list_del(&a->node);
		fill_event(event, a);
		if (a->element)
			list_add_tail(&ctx->async.got, &a->node);
		else
			free(a);
	}
	lock_give(&ctx->async.lock);
	return a != NULL;
}

int async_get(struct context *ctx, struct ibv_async_event *event)
{
	int rc;

	do {
		rc = event_queue_wait(&ctx->async);
		if (rc)
			return rc;
	} while (!async_pop(ctx, event));
	return 0;
}

/* Programs may read these counters: they are in the public structs. */
static void count_ack(pthread_mutex_t *mutex, pthread_cond_t *cond, uint32_t *n)
{
	pthread_mutex_lock(mutex);
	++*n;
	pthread_cond_signal(cond);
	pthread_mutex_unlock(mutex);
}

static struct context *ctx_of_event(struct ibv_async_event *event, void **element)
{
	switch (subject(event->event_type)) {
	case ABOUT_PORT:
		break;
	case ABOUT_CQ: {
		struct ibv_cq *cq = *element = event->element.cq;

		count_ack(&cq->mutex, &cq->cond, &cq->async_events_completed);
		return container_of(cq, struct cq, ex)->ctx;
	}
	case ABOUT_QP: {
		struct ibv_qp *qp = *element = event->element.qp;

		count_ack(&qp->mutex, &qp->cond, &qp->events_completed);
		return container_of(qp, struct qp, ex.qp_base)->ctx;
	}
	case ABOUT_SRQ: {
		struct ibv_srq *srq = *element = event->element.srq;

		count_ack(&srq->mutex, &srq->cond, &srq->events_completed);
		return container_of(srq, struct srq, ibv)->ctx;
	}
	case ABOUT_WQ: {
		struct ibv_wq *wq = *element = event->element.wq;

		count_ack(&wq->mutex, &wq->cond, &wq->events_completed);
		return cq_of(wq->cq)->ctx;
	}
	}
	return NULL;
}

void async_ack(struct ibv_async_event *event)
{
	void *element = NULL;
	struct context *ctx = ctx_of_event(event, &element);

	if (!ctx)
		return;
	lock_take(&ctx->async.lock);
	list_for(n, &ctx->async.got)
	{
		struct async *a = container_of(n, struct async, node);

		if (a->element == element && a->type == event->event_type) {
			list_del(&a->node);
			free(a);
			break;
		}
	}
	lock_changed(&ctx->async.acked);
	lock_give(&ctx->async.lock);
}

static bool holds(const struct list *events, const void *element)
{
	list_for(n, events) if (container_of(n, struct async, node)->element ==
				element) return true;
	return false;
}

static const char *event_name(enum ibv_event_type type)
{
	static const char *const name[] = {
#define NAME(e) [IBV_EVENT_##e] = "IBV_EVENT_" #e
		NAME(CQ_ERR),
		NAME(QP_FATAL),
		NAME(QP_REQ_ERR),
		NAME(QP_ACCESS_ERR),
		NAME(COMM_EST),
		NAME(SQ_DRAINED),
		NAME(PATH_MIG),
		NAME(PATH_MIG_ERR),
		NAME(SRQ_ERR),
		NAME(SRQ_LIMIT_REACHED),
		NAME(QP_LAST_WQE_REACHED),
		NAME(WQ_FATAL),
#undef NAME
	};

	return type < sizeof(name) / sizeof(name[0]) && name[type] ? name[type] : "?";
}

/* "destroy_qp of QP 0x00000a" */
static void name_wait(const struct async *a, char *text, size_t size)
{
	switch (subject(a->type)) {
	case ABOUT_CQ:
		snprintf(text, size, "destroy_cq of completion queue %u",
			 ((struct ibv_cq *)a->element)->handle);
		break;
	case ABOUT_QP:
		snprintf(text, size, "destroy_qp of QP 0x%06x",
			 ((struct ibv_qp *)a->element)->qp_num);
		break;
	case ABOUT_SRQ:
		snprintf(text, size, "destroy_srq of SRQ 0x%06x",
			 container_of(a->element, struct srq, ibv)->num);
		break;
	case ABOUT_WQ:
		snprintf(text, size, "destroy_wq of work queue 0x%06x",
			 ((struct ibv_wq *)a->element)->wq_num);
		break;
	case ABOUT_PORT: /* waits for nobody */
		break;
	}
}

/* Says what the destruction of an element waits for. */
static void say_wait(struct context *ctx, const void *element) REQUIRES(ctx->async.lock)
{
	char what[64] = "", events[256] = "";
	size_t n = 0;
	unsigned missing = 0;

	list_for(node, &ctx->async.got)
	{
		const struct async *a = container_of(node, struct async, node);

		if (a->element != element)
			continue;
		if (!missing++)
			name_wait(a, what, sizeof(what));
		if (n < sizeof(events))
			n += (size_t)snprintf(events + n, sizeof(events) - n, "%s%s",
					      n ? ", " : "", event_name(a->type));
	}
	log_hint(
		"%s waits: the program has fetched %u events that it has not acknowledged "
		"(ibv_ack_async_event): %s",
		what, missing, events);
}

/* Waits until no fetched event of the element is left. */
static void await_acks(struct context *ctx, const void *element) REQUIRES(ctx->async.lock)
{
	const uint64_t end = clock_ns() + 1000000000u;
	bool said = false;

	while (holds(&ctx->async.got, element)) {
		if (said) {
			lock_sleep(&ctx->async.lock, &ctx->async.acked);
		} else if (clock_ns() < end) {
			lock_nap(&ctx->async.lock, &ctx->async.acked);
		} else {
			say_wait(ctx, element);
			said = true;
		}
	}
}

void async_forget(struct context *ctx, void *element)
{
	unsigned dropped = 0;

	lock_take(&ctx->async.lock);
	list_for_safe(n, &ctx->async.waiting)
	{
		struct async *a = container_of(n, struct async, node);

		if (a->element == element) {
			list_del(&a->node);
			free(a);
			dropped++;
		}
	}
	event_queue_drop(&ctx->async, dropped);
	await_acks(ctx, element);
	lock_give(&ctx->async.lock);
}

void async_ack_all(struct context *ctx)
{
	lock_take(&ctx->async.lock);
	list_for_safe(n, &ctx->async.got) free(container_of(n, struct async, node));
	list_init(&ctx->async.got);
	lock_changed(&ctx->async.acked);
	lock_give(&ctx->async.lock);
}
