/* SPDX-License-Identifier: BSD-2-Clause */
/* cma_event.c - event channels: what the engine tells, and what the program
 * reads, which is where QPs follow (docs/cm.md). */
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "abi/cma.h"
#include "sys/fd.h"

pthread_mutex_t cma_lock = PTHREAD_MUTEX_INITIALIZER;

/* --- channels ------------------------------------------------------------ */

struct cma_channel *cma_channel_new(void)
{
	struct cma_channel *ch = calloc(1, sizeof(*ch));

	if (!ch) {
		errno = ENOMEM;
		return NULL;
	}
	ch->ch.fd = fd_raise(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC));
	if (ch->ch.fd < 0) {
		free(ch);
		return NULL;
	}
	list_init(&ch->events);
	return ch;
}

void cma_channel_free(struct cma_channel *ch)
{
	list_for_safe(n, &ch->events) free(container_of(n, struct cma_event, node));
	close(ch->ch.fd);
	free(ch);
}

EXPORT struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct cma_channel *ch;

	if (cma_result(cma_init()))
		return NULL;
	ch = cma_channel_new();
	return ch ? &ch->ch : NULL;
}

EXPORT void rdma_destroy_event_channel(struct rdma_event_channel *ch)
{
	cma_channel_free((struct cma_channel *)ch);
}

/* --- putting in ---------------------------------------------------------- */

static void token(int fd)
{
	static const uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* An event goes unread: who polls must not see it.  One token too many (kernels
 * before 5.8) is a wake-up for nothing. */
static void drop_token(int fd)
{
	uint64_t one;
	struct iovec iov = { &one, sizeof(one) };

	(void)preadv2(fd, &iov, 1, -1, RWF_NOWAIT);
}

static bool put(struct cma_id *id, struct cma_event *e)
{
	struct cma_channel *ch;
	bool going;

	e->id = id;
	pthread_mutex_lock(&cma_lock);
	ch = (struct cma_channel *)id->id.channel;
	going = id->going;
	if (!going) {
		list_add_tail(&ch->events, &e->node);
		token(ch->ch.fd);
	}
	pthread_mutex_unlock(&cma_lock);
	if (going)
		free(e);
	return !going;
}

int cma_post(struct cma_id *id, enum rdma_cm_event_type type, int status,
	     struct cma_group *group)
{
	struct cma_event *e = calloc(1, sizeof(*e));

	if (!e)
		return -ENOMEM;
	e->ev = (struct rdma_cm_event){ .id = &id->id, .event = type, .status = status };
	e->group = group;
	return put(id, e) ? 0 : -ECANCELED;
}

/* In the engine, under its turn: nothing but a note. */
bool cma_on_event(struct cm_owner *owner, const struct cm_event *ev)
{
	struct cma_id *id = container_of(owner, struct cma_id, owner);
	struct cma_event *e = calloc(1, sizeof(*e));

	if (!e)
		return false;
	e->raw = true;
	e->type = ev->type;
	e->ev.id = &id->id;
	e->ev.status = ev->status;
	if (ev->type == CM_EV_REQUEST)
		e->conn = ev->conn;
	if (ev->from)
		e->from = *ev->from;
	if (ev->peer) {
		e->peer = *ev->peer;
		if (e->peer.private_len > CMA_PRIVATE_MAX)
			e->peer.private_len = CMA_PRIVATE_MAX;
		memcpy(e->private, ev->peer->private, e->peer.private_len);
		e->peer.private = e->private;
	}
	return put(id, e);
}

/* --- taking out ---------------------------------------------------------- */

/* MPA has room for more than the API. */
static uint8_t private_len(const struct cma_event *e)
{
	return e->peer.private_len < 255 ? (uint8_t)e->peer.private_len : 255;
}

/* The peer's words, from here: what it takes is what we may have out. */
static void fill_conn(struct cma_event *e)
{
	const struct cm_param *p = &e->peer;

	e->ev.param.conn = (struct rdma_conn_param){
		.private_data = p->private_len ? e->private : NULL,
		.private_data_len = private_len(e),
		.responder_resources = p->depth,
		.initiator_depth = p->resources,
		.flow_control = p->flow_control,
		.retry_count = p->retry_count,
		.rnr_retry_count = p->rnr_retry,
		.srq = p->srq,
		.qp_num = p->qpn,
	};
}

static void fill_ud(struct cma_event *e)
{
	struct rdma_ud_param *ud = &e->ev.param.ud;

	memset(&e->ev.param, 0, sizeof(e->ev.param));
	ud->private_data = e->peer.private_len ? e->private : NULL;
	ud->private_data_len = (uint8_t)e->peer.private_len;
	ud->qp_num = e->peer.qpn;
	ud->qkey = e->peer.qkey;
}

/* A request becomes an id.  False: nothing to tell. */
static bool on_request(struct cma_event *e)
{
	struct cma_id *listener = e->id;

	if (e->from.datagram)
		fill_ud(e);
	else
		fill_conn(e);
	e->ev.event = RDMA_CM_EVENT_CONNECT_REQUEST;
	e->ev.listen_id = &listener->id;
	if (cma_id_for_request(e)) {
		cma_gate()->close(listener->ctx, e->conn);
		return false;
	}
	return true;
}

/* The peer may take less than it was offered, not more. */
static void learn(struct cma_id *id, const struct cm_param *p)
{
	id->peer_qpn = p->qpn;
	id->peer_psn = p->psn;
	if (p->depth < id->resources)
		id->resources = p->depth;
	if (p->resources < id->depth)
		id->depth = p->resources;
	id->rnr_retry = p->rnr_retry;
	id->peer_ece =
		(struct ibv_ece){ .vendor_id = p->ece_vendor, .options = p->ece_options };
}

/* The connection stands and becomes the QP's. */
static bool on_iwarp_response(struct cma_event *e)
{
	struct cma_id *id = e->id;
	int rc = 0;

	fill_conn(e);
	learn(id, &e->peer);
	cma_set_src_port(id, e->from.src_port);
	if (id->id.qp)
		rc = cma_qp_prepare(id);
	if (!rc)
		rc = cma_gate()->attach(id->ctx, id->conn);
	e->ev.event = rc ? RDMA_CM_EVENT_CONNECT_ERROR : RDMA_CM_EVENT_ESTABLISHED;
	e->ev.status = rc;
	if (rc)
		cma_gate()->reject(id->ctx, id->conn, 0, NULL, 0);
	return true;
}

/* The peer accepts: the QP first, then the peer is told. */
static bool on_response(struct cma_event *e)
{
	struct cma_id *id = e->id;
	int rc;

	fill_conn(e);
	learn(id, &e->peer);
	if (!id->id.qp) {
		e->ev.event = RDMA_CM_EVENT_CONNECT_RESPONSE;
		return true;
	}
	rc = cma_qp_connect(id);
	if (rc) {
		cma_gate()->reject(id->ctx, id->conn, CM_REJ_CONSUMER, NULL, 0);
		e->ev.event = RDMA_CM_EVENT_CONNECT_ERROR;
		e->ev.status = rc;
		return true;
	}
	e->ev.event = RDMA_CM_EVENT_ESTABLISHED;
	/* Else the peer has changed its mind: the next event says how. */
	return cma_gate()->established(id->ctx, id->conn) == 0;
}

static void on_established(struct cma_event *e)
{
	struct cma_id *id = e->id;

	e->ev.event = RDMA_CM_EVENT_ESTABLISHED;
	if (!cma_is_datagram(id))
		return;
	fill_ud(e);
	cma_fill_ah(id, id->to.way.dst, &e->ev.param.ud.ah_attr);
	id->peer_ece = (struct ibv_ece){ .vendor_id = e->peer.ece_vendor,
					 .options = e->peer.ece_options };
}

static void on_rejected(struct cma_event *e)
{
	e->ev.event = RDMA_CM_EVENT_REJECTED;
	e->ev.param.conn.private_data = e->peer.private_len ? e->private : NULL;
	e->ev.param.conn.private_data_len = private_len(e);
	cma_qp_error(e->id);
}

static void on_unreachable(struct cma_event *e)
{
	e->ev.event = RDMA_CM_EVENT_UNREACHABLE;
	if (e->peer.private_len)
		fill_ud(e);
}

/* What has to be done before the program reads e.  False: it is no event. */
static bool process(struct cma_event *e)
{
	if (!e->raw) {
		if (e->group)
			cma_group_joined(e);
		return true;
	}
	switch (e->type) {
	case CM_EV_REQUEST:
		return on_request(e);
	case CM_EV_RESPONSE:
		return cma_is_iwarp(e->id) ? on_iwarp_response(e) : on_response(e);
	case CM_EV_ESTABLISHED:
		on_established(e);
		break;
	case CM_EV_REJECTED:
		on_rejected(e);
		break;
	case CM_EV_UNREACHABLE:
		on_unreachable(e);
		break;
	case CM_EV_FAILED:
		e->ev.event = RDMA_CM_EVENT_CONNECT_ERROR;
		cma_qp_error(e->id);
		break;
	case CM_EV_DISCONNECTED:
		e->ev.event = RDMA_CM_EVENT_DISCONNECTED;
		break;
	case CM_EV_TIMEWAIT_EXIT:
		e->ev.event = RDMA_CM_EVENT_TIMEWAIT_EXIT;
		break;
	}
	return true;
}

static struct cma_event *take(struct cma_channel *ch)
{
	struct cma_event *e = NULL;

	pthread_mutex_lock(&cma_lock);
	if (!list_empty(&ch->events)) {
		e = container_of(ch->events.next, struct cma_event, node);
		list_del(&e->node);
		e->id->got++;
		e->id->busy++;
		if (e->group)
			e->group->busy++;
	}
	pthread_mutex_unlock(&cma_lock);
	return e;
}

/* Its id and its group are not looked at any more. */
static void looked_at(struct cma_event *e)
{
	pthread_mutex_lock(&cma_lock);
	e->id->busy--;
	if (e->group)
		e->group->busy--;
	e->group = NULL;
	pthread_cond_broadcast(&e->id->acked);
	pthread_mutex_unlock(&cma_lock);
}

static void done(struct cma_event *e)
{
	pthread_mutex_lock(&cma_lock);
	e->id->done++;
	pthread_cond_broadcast(&e->id->acked);
	pthread_mutex_unlock(&cma_lock);
	free(e);
}

EXPORT int rdma_get_cm_event(struct rdma_event_channel *channel,
			     struct rdma_cm_event **event)
{
	struct cma_event *e;
	uint64_t one;

	if (!channel || !event)
		return cma_result(-EINVAL);
	for (;;) {
		bool tell;

		if (read(channel->fd, &one, sizeof(one)) < 0)
			return -1;
		e = take((struct cma_channel *)channel);
		if (!e)
			continue;
		tell = process(e);
		looked_at(e);
		if (tell)
			break;
		done(e);
	}
	*event = &e->ev;
	return 0;
}

EXPORT int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	if (!event)
		return cma_result(-EINVAL);
	done((struct cma_event *)event);
	return 0;
}

/* --- leaving ------------------------------------------------------------- */

static void unlink_events(struct cma_id *id, struct list *into)
{
	struct cma_channel *ch = (struct cma_channel *)id->id.channel;

	list_for_safe(n, &ch->events)
	{
		if (container_of(n, struct cma_event, node)->id != id)
			continue;
		list_del(n);
		list_add_tail(into, n);
		if (cma_is_mine(id))
			drop_token(ch->ch.fd);
	}
}

void cma_stop(struct cma_id *id)
{
	struct list mine;

	list_init(&mine);
	pthread_mutex_lock(&cma_lock);
	id->going = true;
	unlink_events(id, &mine);
	while (id->busy && cma_is_mine(id))
		pthread_cond_wait(&id->acked, &cma_lock);
	pthread_mutex_unlock(&cma_lock);
	list_for_safe(n, &mine)
	{
		struct cma_event *e = container_of(n, struct cma_event, node);

		if (e->conn)
			cma_gate()->close(id->ctx, e->conn);
		free(e);
	}
}

void cma_wait_acked(struct cma_id *id)
{
	pthread_mutex_lock(&cma_lock);
	while (id->got != id->done && cma_is_mine(id))
		pthread_cond_wait(&id->acked, &cma_lock);
	pthread_mutex_unlock(&cma_lock);
}

void cma_forget_group(struct cma_group *g)
{
	struct cma_channel *ch;

	pthread_mutex_lock(&cma_lock);
	ch = (struct cma_channel *)g->id->id.channel;
	list_for_safe(n, &ch->events)
	{
		struct cma_event *e = container_of(n, struct cma_event, node);

		if (e->group != g)
			continue;
		list_del(n);
		if (cma_is_mine(g->id))
			drop_token(ch->ch.fd);
		free(e);
	}
	while (g->busy && cma_is_mine(g->id))
		pthread_cond_wait(&g->id->acked, &cma_lock);
	pthread_mutex_unlock(&cma_lock);
}

/* As the kernel's: what waits goes along, what was read must be acknowledged. */
void cma_move(struct cma_id *id, struct cma_channel *to)
{
	pthread_mutex_lock(&cma_lock);
	if (id->id.channel) {
		struct list mine;

		list_init(&mine);
		unlink_events(id, &mine);
		list_for_safe(n, &mine)
		{
			list_del(n);
			list_add_tail(&to->events, n);
			token(to->ch.fd);
		}
	}
	id->id.channel = &to->ch;
	while (id->got != id->done && cma_is_mine(id))
		pthread_cond_wait(&id->acked, &cma_lock);
	pthread_mutex_unlock(&cma_lock);
}

int cma_complete(struct cma_id *id)
{
	struct rdma_cm_event *ev;

	if (!id->sync)
		return 0;
	if (id->id.event) {
		rdma_ack_cm_event(id->id.event);
		id->id.event = NULL;
	}
	if (rdma_get_cm_event(id->id.channel, &ev))
		return -1;
	id->id.event = ev;
	if (!ev->status)
		return 0;
	if (ev->event == RDMA_CM_EVENT_REJECTED)
		return cma_result(-ECONNREFUSED);
	return cma_result(ev->status < 0 ? ev->status : -ev->status);
}

EXPORT const char *rdma_event_str(enum rdma_cm_event_type event)
{
	/* clang-format off */
	static const char *const names[] = {
#define NAME(e) [e] = #e
		NAME(RDMA_CM_EVENT_ADDR_RESOLVED), NAME(RDMA_CM_EVENT_ADDR_ERROR),
		NAME(RDMA_CM_EVENT_ROUTE_RESOLVED), NAME(RDMA_CM_EVENT_ROUTE_ERROR),
		NAME(RDMA_CM_EVENT_CONNECT_REQUEST),
		NAME(RDMA_CM_EVENT_CONNECT_RESPONSE),
		NAME(RDMA_CM_EVENT_CONNECT_ERROR), NAME(RDMA_CM_EVENT_UNREACHABLE),
		NAME(RDMA_CM_EVENT_REJECTED), NAME(RDMA_CM_EVENT_ESTABLISHED),
		NAME(RDMA_CM_EVENT_DISCONNECTED), NAME(RDMA_CM_EVENT_DEVICE_REMOVAL),
		NAME(RDMA_CM_EVENT_MULTICAST_JOIN),
		NAME(RDMA_CM_EVENT_MULTICAST_ERROR), NAME(RDMA_CM_EVENT_ADDR_CHANGE),
		NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT),
#undef NAME
	};
	/* clang-format on */

	return (unsigned)event < sizeof(names) / sizeof(names[0]) ? names[event]
								  : "UNKNOWN EVENT";
}
