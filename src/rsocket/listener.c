/* SPDX-License-Identifier: BSD-2-Clause */
/* listener.c - see listener.h. */
#include "rsocket/listener.h"

#include <errno.h>
#include <string.h>

#include "rsocket/service_thread.h"
#include "rsocket/wait.h"
#include "sys/sockaddr.h"

/* --- ids and addresses --------------------------------------------------- */

int rsock_bind_make_id(struct rsock_stream *st)
{
	struct rdma_event_channel *ch;
	int yes = 1, rc;

	if (st->id)
		return 0;
	rc = rsock_service(&ch);
	if (rc)
		return rc;
	if (rdma_create_id(NULL, &st->id, st, RDMA_PS_TCP))
		return -errno;
	if (st->sock.reuse)
		rdma_set_option(st->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes,
				sizeof(yes));
	if (st->sock.v6only)
		rdma_set_option(st->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes,
				sizeof(yes));
	return 0;
}

int rsock_bind_to_service(struct rsock_stream *st)
{
	struct rdma_event_channel *ch;
	int rc = rsock_service(&ch);

	if (!rc && rdma_migrate_id(st->id, ch))
		rc = -errno;
	return rc;
}

int rsock_bind(struct rsock *rs, const struct sockaddr *addr, socklen_t len)
{
	struct rsock_stream *st = rsock_stream_of(rs);
	struct sockaddr_storage a = { 0 };
	int rc;

	(void)len; /* checked by the caller */
	if (rs->state != RSOCK_NEW)
		return -EINVAL;
	rc = rsock_bind_make_id(st);
	if (rc)
		return rc;
	memcpy(&a, addr, sockaddr_len(addr));
	if (rdma_bind_addr(st->id, (struct sockaddr *)&a))
		return -errno;
	rs->state = RSOCK_BOUND;
	st->bound = true;
	addr = rdma_get_local_addr(st->id);
	memcpy(&st->local, addr, sockaddr_len(addr));
	return 0;
}

int rsock_name(struct rsock *rs, bool peer, struct sockaddr *a, socklen_t *len)
{
	struct sockaddr_storage none = { .ss_family = (sa_family_t)rs->domain };
	struct rsock_stream *st = rsock_stream_of(rs);

	if (peer && rs->state != RSOCK_UP && !st->was_up)
		return -ENOTCONN;
	if (!st->id || rs->state == RSOCK_NEW)
		rsock_tell(rs, (struct sockaddr *)&none, a, len);
	else
		rsock_tell(rs,
			   peer ? rdma_get_peer_addr(st->id)
				: rdma_get_local_addr(st->id),
			   a, len);
	return 0;
}

/* Requests that may wait in rdma_cm unread. More are lost, and the peers repeat them. */
enum { REQUESTS = 128 };

static struct rsock_stream *stream_of(struct rsock_entry *e)
{
	return rsock_stream_of(rsock_of(e));
}

/* --- accepting ----------------------------------------------------------- */

/* Accepts the request of child, whose lock is held. */
static int accept_now(struct rsock_stream *child)
{
	struct rdma_conn_param param;
	uint8_t data[RS_CONN_SIZE];
	int rc;

	if (child->sock.state != RSOCK_WAITING) /* the client has given up */
		return -ECONNABORTED;
	rc = rsock_conn_open(child);
	if (rc) {
		rdma_reject(child->id, NULL, 0);
		return rc;
	}
	rs_start(&child->ep.s, &child->peer);
	child->sock.state = RSOCK_CONNECTING;
	rsock_conn_param(child, &param, data);
	return rdma_accept(child->id, &param);
}

/* Accepts as many requests as the backlog allows. Calls verbs, so no lock of ours may be
 * held but perhaps the listener's. */
static void accept_more(struct rsock_backlog *b)
{
	struct rsock_child *c;

	while ((c = rsock_backlog_next(b))) {
		struct rsock_stream *child = stream_of(c->owner);
		int rc;

		pthread_mutex_lock(&child->sock.lock);
		rc = accept_now(child);
		if (rc)
			rsock_conn_fail(child, ECONNABORTED);
		pthread_mutex_unlock(&child->sock.lock);
		if (rc && rsock_listener_settle(child, false) == RSOCK_AFTER_PUT)
			rsock_put(&child->sock);
		rsock_put(&child->sock);
	}
}

enum rsock_after rsock_listener_settle(struct rsock_stream *child, bool made)
{
	struct rsock_backlog *b;

	if (!rsock_child_settle(&child->child, made, &b))
		return RSOCK_AFTER_NOTHING;
	if (b && made)
		rsock_wake(rsock_of(b->owner));
	else if (b)
		accept_more(b);
	if (b)
		rsock_entry_put(b->owner);
	return made ? RSOCK_AFTER_NOTHING : RSOCK_AFTER_PUT;
}

/* --- requests ------------------------------------------------------------ */

/* Makes a socket for a request. It costs little until it is accepted: it has no QP and no
 * buffers. */
static struct rsock_stream *make_child(struct rsock_stream *listener,
				       struct rdma_cm_event *ev)
{
	const struct rdma_conn_param *p = &ev->param.conn;
	struct rsock_stream *st;
	struct rs_conn peer;

	if (!rs_conn_parse(p->private_data, p->private_data_len, &peer) ||
	    rsock_stream_new(listener->sock.kind, listener->sock.domain, &st))
		return NULL;
	pthread_mutex_lock(&listener->sock.lock);
	st->sock.opt = listener->sock.opt;
	pthread_mutex_unlock(&listener->sock.lock);
	st->id = ev->id;
	st->id->context = st;
	st->passive = true;
	st->peer = peer;
	st->sock.state = RSOCK_WAITING;
	return st;
}

enum rsock_after rsock_listener_request(struct rsock_stream *st, struct rdma_cm_event *ev)
{
	struct rsock_stream *child = NULL;

	if (rsock_backlog_has_room(&st->backlog))
		child = make_child(st, ev);
	if (!child) {
		rdma_reject(ev->id, NULL, 0);
		return RSOCK_AFTER_DESTROY_ID;
	}
	rsock_backlog_add(&st->backlog, &child->child);
	accept_more(&st->backlog);
	return RSOCK_AFTER_NOTHING;
}

/* --- the program's calls ------------------------------------------------- */

static int begin_listening(struct rsock_stream *st)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)st->sock.domain };
	int rc = 0;

	if (st->sock.state == RSOCK_NEW)
		rc = rsock_bind(&st->sock, (struct sockaddr *)&any, sizeof(any));
	if (!rc && st->sock.state != RSOCK_BOUND)
		rc = -EINVAL;
	return rc ? rc : rsock_bind_to_service(st);
}

int rsock_listen(struct rsock_stream *st, int backlog)
{
	int rc;

	if (st->sock.state == RSOCK_LISTENING) {
		rsock_backlog_limit(&st->backlog, backlog);
		accept_more(&st->backlog);
		return 0;
	}
	rc = begin_listening(st);
	if (rc)
		return rc;
	rsock_backlog_limit(&st->backlog, backlog);
	st->sock.state = RSOCK_LISTENING;
	if (!rdma_listen(st->id, st->backlog.max > REQUESTS ? st->backlog.max : REQUESTS))
		return 0;
	st->sock.state = RSOCK_BOUND;
	return -errno;
}

static bool may_accept(struct rsock *rs)
{
	return rs->state != RSOCK_LISTENING || rsock_conn_readable(rs);
}

/* Waits for a connection that is ready. Returns 0 or -errno. */
static int take_child(struct rsock_stream *st, struct rsock_child **out)
{
	do {
		int rc = rsock_wait(&st->sock, may_accept, st->sock.nonblock, false,
				    RSOCK_FOREVER);

		if (rc || st->sock.state != RSOCK_LISTENING)
			return rc ? rc : -EINVAL;
		*out = rsock_backlog_take(&st->backlog);
	} while (!*out);
	return 0;
}

int rsock_accept(struct rsock_stream *st, struct sockaddr *a, socklen_t *len)
{
	struct rsock_stream *child;
	struct rsock_child *c;
	int rc = take_child(st, &c), fd;

	if (rc)
		return rc;
	child = stream_of(c->owner);
	/* Another thread may close the new descriptor at once. */
	rsock_entry_hold(c->owner);
	fd = rsock_entry_publish(&child->sock.entry);
	if (fd < 0)
		rsock_backlog_give_back(&st->backlog, c);
	else
		rsock_tell(&child->sock, rdma_get_peer_addr(child->id), a, len);
	rsock_put(&child->sock);
	if (fd < 0)
		return fd;
	pthread_mutex_unlock(&st->sock.lock);
	accept_more(&st->backlog);
	pthread_mutex_lock(&st->sock.lock);
	return fd;
}

void rsock_listener_empty(struct rsock_stream *st)
{
	struct list all;

	list_init(&all);
	rsock_backlog_empty(&st->backlog, &all);
	list_for_safe(n, &all)
	{
		struct rsock_child *c = container_of(n, struct rsock_child, node);

		list_del(n);
		rsock_entry_put(c->owner);
	}
}
