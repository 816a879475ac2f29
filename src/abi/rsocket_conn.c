/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_conn.c - from rsocket() to a connection. */
#include <string.h>

#include "abi/rsocket.h"
#include "sys/sockaddr.h"

/* REQUESTS: that may be unread below us, where they would have to come again. */
enum { RESOLVE_MS = 2000, BACKLOG_MAX = 1024, REQUESTS = 128 };

/* --- making ------------------------------------------------------------------------------ */

EXPORT int rsocket(int domain, int type, int protocol)
{
	int kind = type & ~(SOCK_NONBLOCK | SOCK_CLOEXEC), rc;
	struct rsock *rs;

	if (domain != AF_INET && domain != AF_INET6)
		return cma_result(-EAFNOSUPPORT);
	if ((kind != SOCK_STREAM && kind != SOCK_DGRAM) ||
	    (kind == SOCK_STREAM && protocol && protocol != IPPROTO_TCP) ||
	    (kind == SOCK_DGRAM && protocol && protocol != IPPROTO_UDP))
		return cma_result(-EPROTONOSUPPORT);
	rc = rsock_new(domain, kind, &rs);
	if (rc)
		return cma_result(rc);
	rs->nonblock = type & SOCK_NONBLOCK;
	if (kind == SOCK_DGRAM)
		rc = rsock_dgram_new(rs);
	if (!rc)
		rc = rsock_publish(rs);
	if (!rc)
		return rs->fd;
	rsock_put(rs);
	return cma_result(rc);
}

static int make_id(struct rsock *rs)
{
	struct rdma_event_channel *ch;
	int yes = 1, rc;

	if (rs->id)
		return 0;
	rc = rsock_service(&ch);
	if (rc)
		return rc;
	if (rdma_create_id(NULL, &rs->id, rs, RDMA_PS_TCP))
		return -errno;
	if (rs->reuse)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR,
				&yes, sizeof(yes));
	if (rs->v6only)
		rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY,
				&yes, sizeof(yes));
	return 0;
}

static bool fits(const struct rsock *rs, const struct sockaddr *a, socklen_t len)
{
	return a && len >= sizeof(sa_family_t) && a->sa_family == rs->domain &&
	       len >= sockaddr_len(a);
}

static int do_bind(struct rsock *rs, const struct sockaddr *addr, socklen_t len)
{
	struct sockaddr_storage a = { 0 };
	int rc;

	if (!fits(rs, addr, len))
		return -EINVAL;
	if (!rsock_is_stream(rs))
		return rsock_dgram_bind(rs, addr, len);
	if (rs->state != RSOCK_NEW)
		return -EINVAL;
	rc = make_id(rs);
	if (rc)
		return rc;
	memcpy(&a, addr, sockaddr_len(addr));
	if (rdma_bind_addr(rs->id, (struct sockaddr *)&a))
		return -errno;
	rs->state = RSOCK_BOUND;
	rs->bound = true;
	addr = rdma_get_local_addr(rs->id);
	memcpy(&rs->local, addr, sockaddr_len(addr));
	return 0;
}

EXPORT int rbind(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct rsock *rs = rsock_get(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = do_bind(rs, addr, addrlen);
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	return cma_result(rc);
}

/* --- listening ------------------------------------------------------------------------------ */

static void set_backlog(struct rsock *rs, int backlog)
{
	pthread_mutex_lock(&accept_lock);
	rs->backlog = backlog < 1 ? 1 : backlog > BACKLOG_MAX ? BACKLOG_MAX : backlog;
	pthread_mutex_unlock(&accept_lock);
	rsock_accept_more(rs);
}

/* The id's events go to the service thread from here on. */
static int to_service(struct rsock *rs)
{
	struct rdma_event_channel *ch;
	int rc = rsock_service(&ch);

	if (!rc && rdma_migrate_id(rs->id, ch))
		rc = -errno;
	return rc;
}

static int do_listen(struct rsock *rs, int backlog)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)rs->domain };
	int rc = 0;

	if (!rsock_is_stream(rs))
		return -EOPNOTSUPP;
	if (rs->state == RSOCK_LISTENING) {
		set_backlog(rs, backlog);
		return 0;
	}
	if (rs->state == RSOCK_NEW)
		rc = do_bind(rs, (struct sockaddr *)&any, sizeof(any));
	if (!rc && rs->state != RSOCK_BOUND)
		rc = -EINVAL;
	if (!rc)
		rc = to_service(rs);
	if (rc)
		return rc;
	set_backlog(rs, backlog);
	rs->state = RSOCK_LISTENING;
	if (!rdma_listen(rs->id, rs->backlog > REQUESTS ? rs->backlog : REQUESTS))
		return 0;
	rs->state = RSOCK_BOUND;
	return -errno;
}

EXPORT int rlisten(int socket, int backlog)
{
	struct rsock *rs = rsock_get(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = do_listen(rs, backlog);
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	return cma_result(rc);
}

static struct rsock *first_child(struct rsock *rs)
{
	struct rsock *child = NULL;

	pthread_mutex_lock(&accept_lock);
	if (!list_empty(&rs->ready)) {
		child = container_of(rs->ready.next, struct rsock, node);
		list_del(&child->node);
		child->listener = NULL;
	}
	pthread_mutex_unlock(&accept_lock);
	return child;
}

/* The program has no descriptor for it: it stays the first to be had. */
static void give_back(struct rsock *rs, struct rsock *child)
{
	pthread_mutex_lock(&accept_lock);
	child->listener = rs;
	list_add_tail(rs->ready.next, &child->node);
	pthread_mutex_unlock(&accept_lock);
}

/* On an IPv6 socket an IPv4 address is a mapped one. */
static void tell(const struct rsock *rs, const struct sockaddr *a, struct sockaddr *addr,
		 socklen_t *len)
{
	struct sockaddr_in6 mapped = { .sin6_family = AF_INET6,
				       .sin6_port = htons(sockaddr_port(a)) };
	socklen_t has;

	if (!addr || !len)
		return;
	if (rs->domain == AF_INET6 && a->sa_family == AF_INET) {
		sockaddr_ip(a, mapped.sin6_addr.s6_addr);
		a = (const struct sockaddr *)&mapped;
	}
	has = sockaddr_len(a);
	memcpy(addr, a, *len < has ? *len : has);
	*len = has;
}

static bool may_accept(struct rsock *rs)
{
	return rs->state != RSOCK_LISTENING || rsock_readable(rs);
}

static int do_accept(struct rsock *rs, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsock *child;
	int rc;

	do {
		rc = rsock_wait(rs, may_accept, rs->nonblock, false, -1);
		if (rc || rs->state != RSOCK_LISTENING)
			return rc ? rc : -EINVAL;
		child = first_child(rs);
	} while (!child);
	rc = rsock_publish(child);
	if (rc)
		give_back(rs, child);
	else
		tell(child, rdma_get_peer_addr(child->id), addr, addrlen);
	return rc ? rc : child->fd;
}

EXPORT int raccept(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsock *rs = rsock_get(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = do_accept(rs, addr, addrlen);
	pthread_mutex_unlock(&rs->lock);
	if (rc >= 0)
		rsock_accept_more(rs);
	rsock_put(rs);
	return cma_result(rc);
}

/* --- connecting ------------------------------------------------------------------------------- */

void rsock_format(struct rsock *rs, struct rdma_conn_param *p, uint8_t data[RS_CONN_SIZE])
{
	struct rs_conn self;

	rs_self(&rs->s, &self);
	rs_conn_pack(&self, data);
	*p = (struct rdma_conn_param){
		.private_data = data, .private_data_len = RS_CONN_SIZE,
		.flow_control = 1, .retry_count = 7, .rnr_retry_count = 7,
	};
}

static bool is_settled(struct rsock *rs)
{
	return rs->state != RSOCK_CONNECTING;
}

static int start_connect(struct rsock *rs, const struct sockaddr *addr)
{
	struct sockaddr_storage to = { 0 };
	struct rdma_conn_param param;
	uint8_t data[RS_CONN_SIZE];
	int rc = make_id(rs);

	memcpy(&to, addr, sockaddr_len(addr));
	if (rc)
		return rc;
	if (rdma_resolve_addr(rs->id, NULL, (struct sockaddr *)&to, RESOLVE_MS) ||
	    rdma_resolve_route(rs->id, RESOLVE_MS))
		return -errno;
	rc = rsock_ep_create(rs);
	if (!rc)
		rc = to_service(rs);
	if (rc)
		return rc;
	rsock_format(rs, &param, data);
	rs->state = RSOCK_CONNECTING;
	if (!rdma_connect(rs->id, &param))
		return 0;
	rc = -errno;
	rs->state = RSOCK_NEW;
	return rc;
}

/* After a failure the socket can be used for another attempt, with the address that
 * it was bound to. */
static void reset(struct rsock *rs)
{
	struct rdma_cm_id *id = rs->id;

	if (id)			/* from here on no event moves the QP */
		cma_stop(cma_of(id));
	rsock_ep_destroy(rs);
	rs->id = NULL;
	rs->state = RSOCK_NEW;
	rs->err = 0;
	rs->read_end = rs->write_end = rs->armed_r = rs->armed_s = false;
	pthread_mutex_unlock(&rs->lock);
	if (id)
		rdma_destroy_id(id);
	pthread_mutex_lock(&rs->lock);
	if (rs->state == RSOCK_NEW && rs->bound && !make_id(rs) &&
	    !rdma_bind_addr(rs->id, (struct sockaddr *)&rs->local))
		rs->state = RSOCK_BOUND;
}

void rsock_stop_listening(struct rsock *rs)
{
	reset(rs);
	pthread_mutex_unlock(&rs->lock);
	rsock_free_children(rs);
	pthread_mutex_lock(&rs->lock);
	rsock_wake(rs);
}

static int finish_connect(struct rsock *rs)
{
	int rc = rsock_wait(rs, is_settled, rs->nonblock, false, -1);

	if (rc)
		return rc == -EAGAIN ? -EINPROGRESS : rc;
	if (rs->was_up)			/* perhaps it has ended since: that is read */
		return 0;
	rc = -rs->err;
	rs->err = 0;
	return rc ? rc : -ECONNABORTED;
}

static int do_connect(struct rsock *rs, const struct sockaddr *addr, socklen_t len)
{
	int rc;

	if (!fits(rs, addr, len))
		return addr && len >= sizeof(sa_family_t) ? -EAFNOSUPPORT : -EINVAL;
	if (!rsock_is_stream(rs))
		return rsock_dgram_connect(rs, addr, len);
	switch (rs->state) {
	case RSOCK_NEW: case RSOCK_BOUND:
		break;
	case RSOCK_CONNECTING:
		return -EALREADY;
	case RSOCK_UP:
		return -EISCONN;
	case RSOCK_DOWN:
		if (rs->passive || rs->was_up)
			return -EISCONN;
		rc = -rs->err;
		reset(rs);
		if (rc)			/* nobody has been told yet */
			return rc;
		break;
	case RSOCK_LISTENING: case RSOCK_WAITING:
		return -EOPNOTSUPP;
	}
	rc = start_connect(rs, addr);
	if (rc) {
		reset(rs);
		return rc;
	}
	return finish_connect(rs);
}

EXPORT int rconnect(int socket, const struct sockaddr *addr, socklen_t addrlen)
{
	struct rsock *rs = rsock_get(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = do_connect(rs, addr, addrlen);
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	return cma_result(rc);
}

/* --- names --------------------------------------------------------------------------------------- */

int rsock_name(struct rsock *rs, bool peer, struct sockaddr *addr, socklen_t *len)
{
	struct sockaddr_storage none = { .ss_family = (sa_family_t)rs->domain };

	if (!rsock_is_stream(rs))
		return rsock_dgram_name(rs, peer, addr, len);
	if (peer && rs->state != RSOCK_UP && !rs->was_up)
		return -ENOTCONN;
	if (!rs->id || rs->state == RSOCK_NEW)
		tell(rs, (struct sockaddr *)&none, addr, len);
	else
		tell(rs, peer ? rdma_get_peer_addr(rs->id) : rdma_get_local_addr(rs->id),
		     addr, len);
	return 0;
}

static int get_name(int socket, bool peer, struct sockaddr *addr, socklen_t *len)
{
	struct rsock *rs = rsock_get(socket);
	struct sockaddr none = { 0 };
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	/* Who asks for the length alone (librspreload) may give no room. */
	rc = len && (addr || *len == 0) ?
		rsock_name(rs, peer, addr ? addr : &none, len) : -EFAULT;
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	return cma_result(rc);
}

EXPORT int rgetpeername(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return get_name(socket, true, addr, addrlen);
}

EXPORT int rgetsockname(int socket, struct sockaddr *addr, socklen_t *addrlen)
{
	return get_name(socket, false, addr, addrlen);
}
