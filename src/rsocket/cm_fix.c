/* SPDX-License-Identifier: BSD-2-Clause */
/* cm_fix.c - the rdma_cm of fix.h. A connect finds the listener with its port in this
 * process; an event is in the id's channel at once. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/os.h"
#include "sys/addr.h"
#include "sys/list.h"
#include "sys/sockaddr.h"

enum { PRIVATE = 64, FIRST_PORT = 40000 };

struct fake_id {
	struct rdma_cm_id id; /* must be first */
	struct list node;
	struct fake_id *peer;
	bool listening, stopped;
	unsigned unread; /* events read and not acknowledged */
};

struct fake_event {
	struct rdma_cm_event ev; /* must be first */
	struct list node;
	/* The id whose unread counts it: for a request, the listener. */
	struct fake_id *id;
	uint8_t private[PRIVATE];
};

struct fake_channel {
	struct rdma_event_channel ch; /* must be first */
	struct list events;
};

static struct list ids = { &ids, &ids };
static uint16_t next_port = FIRST_PORT;

static struct fake_id *fake_of(struct rdma_cm_id *id)
{
	return (struct fake_id *)id;
}

/* --- channels and events ------------------------------------------------- */

struct rdma_event_channel *rdma_create_event_channel(void)
{
	struct fake_channel *ch = fix_may_make() ? calloc(1, sizeof(*ch)) : NULL;

	if (!ch)
		return NULL;
	ch->ch.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC | EFD_NONBLOCK);
	list_init(&ch->events);
	return &ch->ch;
}

void rdma_destroy_event_channel(struct rdma_event_channel *ch)
{
	close(ch->fd);
	free(ch);
}

static struct fake_event *tell(struct fake_id *id, enum rdma_cm_event_type type,
			       int status, const struct rdma_conn_param *p)
{
	struct fake_channel *ch = (struct fake_channel *)id->id.channel;
	struct fake_event *e;

	if (!ch || id->stopped)
		return NULL;
	e = calloc(1, sizeof(*e));
	assert_non_null(e);
	e->ev = (struct rdma_cm_event){ .id = &id->id, .event = type, .status = status };
	if (p && p->private_data_len) {
		memcpy(e->private, p->private_data, p->private_data_len);
		e->ev.param.conn.private_data = e->private;
		e->ev.param.conn.private_data_len = p->private_data_len;
	}
	list_add_tail(&ch->events, &e->node);
	assert_int_equal(eventfd_write(ch->ch.fd, 1), 0);
	return e;
}

void fix_tell_all(enum rdma_cm_event_type type, int status)
{
	list_for(n, &ids)
	{
		struct fake_id *id = container_of(n, struct fake_id, node);

		if (!id->listening)
			tell(id, type, status, NULL);
	}
}

int rdma_get_cm_event(struct rdma_event_channel *channel, struct rdma_cm_event **event)
{
	struct fake_channel *ch = (struct fake_channel *)channel;
	struct fake_event *e;
	eventfd_t one;

	if (eventfd_read(channel->fd, &one))
		return -1;
	if (list_empty(&ch->events)) { /* the id was stopped meanwhile */
		errno = EAGAIN;
		return -1;
	}
	e = container_of(ch->events.next, struct fake_event, node);
	list_del(&e->node);
	e->id = fake_of(e->ev.listen_id ? e->ev.listen_id : e->ev.id);
	e->id->unread++;
	*event = &e->ev;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *event)
{
	((struct fake_event *)event)->id->unread--;
	free(event);
	return 0;
}

static void drop_request(struct fake_id *child)
{
	if (child->peer) {
		child->peer->peer = NULL;
		tell(child->peer, RDMA_CM_EVENT_REJECTED, 8, NULL);
	}
	list_del(&child->node);
	free(child);
	fix.ids--;
}

void rsock_rdma_stop(struct rdma_cm_id *id)
{
	struct fake_channel *ch = (struct fake_channel *)id->channel;

	fake_of(id)->stopped = true;
	if (!ch)
		return;
	list_for_safe(n, &ch->events)
	{
		struct fake_event *e = container_of(n, struct fake_event, node);

		if (e->ev.id != id && e->ev.listen_id != id)
			continue;
		list_del(n);
		if (e->ev.id != id) /* a request that no call has read */
			drop_request(fake_of(e->ev.id));
		free(e);
	}
}

/* --- ids ----------------------------------------------------------------- */

static struct fake_id *new_id(void *context)
{
	struct fake_id *id = calloc(1, sizeof(*id));

	assert_non_null(id);
	id->id.context = context;
	list_add_tail(&ids, &id->node);
	fix.ids++;
	return id;
}

int rdma_create_id(struct rdma_event_channel *channel, struct rdma_cm_id **id,
		   void *context, enum rdma_port_space ps)
{
	assert_int_equal(ps, RDMA_PS_TCP);
	if (!fix_may_make())
		return -1;
	*id = &new_id(context)->id;
	(*id)->channel = channel;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	struct fake_id *f = fake_of(id);

	assert_int_equal(f->unread, 0); /* otherwise it would wait for ever */
	assert_null(id->qp);
	rsock_rdma_stop(id);
	if (f->peer)
		f->peer->peer = NULL;
	list_del(&f->node);
	free(f);
	fix.ids--;
	return 0;
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *channel)
{
	id->channel = channel;
	return 0;
}

int rdma_set_option(struct rdma_cm_id *id, int level, int optname, void *optval,
		    size_t optlen)
{
	(void)id;
	(void)level;
	(void)optname;
	(void)optval;
	(void)optlen;
	return 0;
}

static struct fake_id *listener_of(uint16_t port)
{
	list_for(n, &ids)
	{
		struct fake_id *id = container_of(n, struct fake_id, node);

		if (id->listening && sockaddr_port(&id->id.route.addr.src_addr) == port)
			return id;
	}
	return NULL;
}

int rdma_bind_addr(struct rdma_cm_id *id, struct sockaddr *addr)
{
	struct sockaddr *src = &id->route.addr.src_addr;

	if (!fix_may_make())
		return -1;
	if (sockaddr_port(addr) && listener_of(sockaddr_port(addr))) {
		errno = EADDRINUSE;
		return -1;
	}
	memcpy(src, addr, sockaddr_len(addr));
	if (!sockaddr_port(src))
		sockaddr_set_port(src, next_port++);
	return 0;
}

static void give_device(struct rdma_cm_id *id)
{
	id->verbs = fix_context(fix.iwarp);
	id->pd = fix_pd(fix.iwarp);
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
		      int timeout_ms)
{
	struct rdma_addr *a = &id->route.addr;

	(void)timeout_ms;
	assert_null(src);
	if (!fix_may_make())
		return -1;
	memcpy(&a->dst_storage, dst, sockaddr_len(dst));
	if (!a->src_addr.sa_family) {
		memcpy(&a->src_storage, dst, sockaddr_len(dst));
		sockaddr_set_port(&a->src_addr, next_port++);
	}
	give_device(id);
	return 0;
}

int rdma_resolve_route(struct rdma_cm_id *id, int timeout_ms)
{
	(void)id;
	(void)timeout_ms;
	return 0;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd,
		   struct ibv_qp_init_attr *attr)
{
	id->qp = ibv_create_qp(pd, attr);
	return id->qp ? 0 : -1;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	assert_true(fake_of(id)->stopped); /* otherwise an event may move the QP */
	ibv_destroy_qp(id->qp);
	id->qp = NULL;
}

int rdma_listen(struct rdma_cm_id *id, int backlog)
{
	(void)backlog;
	if (!fix_may_make())
		return -1;
	fake_of(id)->listening = true;
	return 0;
}

/* --- connecting ---------------------------------------------------------- */

int rdma_connect(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	struct fake_id *to = listener_of(sockaddr_port(&id->route.addr.dst_addr)), *child;

	if (!fix_may_make())
		return -1;
	if (fix.deaf)
		return 0;
	if (!to) {
		tell(fake_of(id), RDMA_CM_EVENT_REJECTED, 8, NULL);
		return 0;
	}
	child = new_id(to->id.context);
	child->id.channel = to->id.channel;
	child->id.route.addr.src_storage = id->route.addr.dst_storage;
	child->id.route.addr.dst_storage = id->route.addr.src_storage;
	child->peer = fake_of(id);
	fake_of(id)->peer = child;
	give_device(&child->id);
	tell(child, RDMA_CM_EVENT_CONNECT_REQUEST, 0, p)->ev.listen_id = &to->id;
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *p)
{
	struct fake_id *peer = fake_of(id)->peer;

	if (!peer) {
		errno = EINVAL;
		return -1;
	}
	fix_link(id->qp, peer->id.qp);
	tell(peer, RDMA_CM_EVENT_ESTABLISHED, 0, p);
	tell(fake_of(id), RDMA_CM_EVENT_ESTABLISHED, 0, NULL);
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	(void)data;
	(void)len;
	if (fake_of(id)->peer)
		tell(fake_of(id)->peer, RDMA_CM_EVENT_REJECTED, 28, NULL);
	return 0;
}

int rdma_disconnect(struct rdma_cm_id *id)
{
	struct fake_id *peer = fake_of(id)->peer;

	if (!peer)
		return 0;
	fake_of(id)->peer = peer->peer = NULL;
	fix_deliver();
	tell(peer, RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	tell(fake_of(id), RDMA_CM_EVENT_DISCONNECTED, 0, NULL);
	return 0;
}

/* From loopback's own address all of loopback is reached. */
int rsock_rdma_source(const struct sockaddr *to, struct sockaddr_storage *from)
{
	static const uint8_t v4[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	static const uint8_t v6[16] = { [15] = 1 };
	static const uint8_t none[16], none4[16] = { [10] = 0xff, 0xff };
	uint8_t ip[16];

	sockaddr_ip((struct sockaddr *)from, ip);
	if (memcmp(ip, none, 16) && memcmp(ip, none4, 16))
		return 0;
	sockaddr_set(from, to->sa_family == AF_INET ? v4 : v6, 0, 0);
	return 0;
}
