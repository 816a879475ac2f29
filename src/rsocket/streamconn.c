/* SPDX-License-Identifier: BSD-2-Clause */
/* streamconn.c - see streamconn.h. */
#include "rsocket/streamconn.h"

#include <errno.h>
#include <string.h>

#include "rsocket/listener.h"
#include "rsocket/os.h"
#include "rsocket/wait.h"
#include "sys/sockaddr.h"

enum { RESOLVE_MS = 2000 };

/* --- events of rdma_cm --------------------------------------------------- */

static int error_of(const struct rdma_cm_event *ev)
{
	switch ((int)ev->event) {
	case RDMA_CM_EVENT_REJECTED:
		return ECONNREFUSED;
	case RDMA_CM_EVENT_UNREACHABLE:
		return ev->status == -ENETUNREACH ? ENETUNREACH : ETIMEDOUT;
	default:
		return ev->status < 0 ? -ev->status : ECONNRESET;
	}
}

static void on_established(struct rsock_stream *st, const struct rdma_cm_event *ev)
{
	const struct rdma_conn_param *p = &ev->param.conn;
	struct rs_conn peer;

	if (st->sock.state != RSOCK_CONNECTING)
		return;
	if (st->passive) { /* the REQ's private data is parsed already */
		st->sock.state = RSOCK_UP;
	} else if (rs_conn_parse(p->private_data, p->private_data_len, &peer)) {
		rs_start(&st->ep.s, &peer);
		st->sock.state = RSOCK_UP;
	} else {
		rsock_conn_fail(st, ECONNREFUSED);
	}
	st->was_up = st->sock.state == RSOCK_UP;
	rsock_conn_progress(st); /* publishes the second half of rbuf */
	rsock_wake(&st->sock);
}

/* Handles an event. Returns false if it says nothing of the connection, or is of an id
 * that was given up. */
static bool take_event(struct rsock_stream *st, const struct rdma_cm_event *ev)
{
	if (ev->id != st->id)
		return false;
	switch ((int)ev->event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		on_established(st, ev);
		return true;
	case RDMA_CM_EVENT_REJECTED:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_DISCONNECTED:
		/* Data that the peer sent before is here already. */
		rsock_conn_progress(st);
		rsock_conn_fail(st, error_of(ev));
		return true;
	default:
		return false;
	}
}

enum rsock_after rsock_connect_event(struct rsock *rs, struct rdma_cm_event *ev)
{
	struct rsock_stream *st = rsock_stream_of(rs);
	bool settled, up;

	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		return rsock_listener_request(st, ev);
	pthread_mutex_lock(&rs->lock);
	settled = take_event(st, ev);
	up = st->was_up;
	pthread_mutex_unlock(&rs->lock);
	return settled ? rsock_listener_settle(st, up) : RSOCK_AFTER_NOTHING;
}

/* --- connecting ---------------------------------------------------------- */

static int start_connect(struct rsock_stream *st, const struct sockaddr *a)
{
	struct sockaddr_storage to = { 0 };
	struct rdma_conn_param param;
	uint8_t data[RS_CONN_SIZE];
	int rc = rsock_bind_make_id(st);

	memcpy(&to, a, sockaddr_len(a));
	if (rc)
		return rc;
	if (rdma_resolve_addr(st->id, NULL, (struct sockaddr *)&to, RESOLVE_MS) ||
	    rdma_resolve_route(st->id, RESOLVE_MS))
		return -errno;
	rc = rsock_conn_open(st);
	if (!rc)
		rc = rsock_bind_to_service(st);
	if (rc)
		return rc;
	rsock_conn_param(st, &param, data);
	st->sock.state = RSOCK_CONNECTING;
	return rdma_connect(st->id, &param) ? -errno : 0;
}

void rsock_connect_reset(struct rsock_stream *st)
{
	struct rdma_cm_id *id = st->id;
	struct rsock *rs = &st->sock;

	if (id)
		rsock_rdma_stop(id);
	rsock_conn_close(st);
	st->id = NULL;
	rs->state = RSOCK_NEW;
	rs->err = 0;
	st->read_end = st->write_end = false;
	pthread_mutex_unlock(&rs->lock);
	if (id) /* waits until events of id that are being read are done */
		rdma_destroy_id(id);
	pthread_mutex_lock(&rs->lock);
	if (rs->state == RSOCK_NEW && st->bound && !rsock_bind_make_id(st) &&
	    !rdma_bind_addr(st->id, (struct sockaddr *)&st->local))
		rs->state = RSOCK_BOUND;
}

static bool is_settled(struct rsock *rs)
{
	return rs->state != RSOCK_CONNECTING;
}

static int finish_connect(struct rsock_stream *st)
{
	struct rsock *rs = &st->sock;
	int rc = rsock_wait(rs, is_settled, rs->nonblock, false, RSOCK_FOREVER);

	if (rc)
		return rc == -EAGAIN ? -EINPROGRESS : rc;
	if (st->was_up) /* if it has ended since, a read says so */
		return 0;
	rc = -rs->err;
	rs->err = 0;
	return rc ? rc : -ECONNABORTED;
}

/* Prepares another attempt after a failure. Returns the error of the failed attempt if
 * the program has not got it yet. */
static int try_again(struct rsock_stream *st)
{
	int rc = -st->sock.err;

	if (st->passive || st->was_up)
		return -EISCONN;
	rsock_connect_reset(st);
	/* Not 0: the program has not been told of the error yet. */
	return rc;
}

int rsock_connect(struct rsock *rs, const struct sockaddr *a, socklen_t len)
{
	struct rsock_stream *st = rsock_stream_of(rs);
	int rc = 0;

	switch (rs->state) {
	case RSOCK_NEW:
	case RSOCK_BOUND:
		break;
	case RSOCK_CONNECTING:
		return -EALREADY;
	case RSOCK_UP:
		return -EISCONN;
	case RSOCK_DOWN:
		rc = try_again(st);
		break;
	case RSOCK_LISTENING:
	case RSOCK_WAITING:
		return -EOPNOTSUPP;
	}
	if (rc)
		return rc;
	(void)len; /* checked by the caller */
	rc = start_connect(st, a);
	if (!rc)
		return finish_connect(st);
	rsock_connect_reset(st);
	return rc;
}

/* BRIEF: how long rclose() may wait unless the program has set SO_LINGER. LATER: how long
 * the service thread then waits. */
#define BRIEF_NS       (20 * RSOCK_MS)
#define BRIEF_IWARP_NS (1 * RSOCK_MS)
#define LATER_NS       (10 * RSOCK_S)

enum { LINGER_MAX = 100000 };

/* --- sending RS_DISCONNECT ----------------------------------------------- */

/* Has everything that was sent arrived? A completed WRITE is in the peer's memory. On
 * iWARP it only means that TCP has the data, which TCP may lose if something comes in
 * after we have closed. So there the peer has to disconnect, too. */
static bool is_over(struct rsock *rs)
{
	const struct rsock_stream *st = rsock_stream_of(rs);

	if (rs->state != RSOCK_UP)
		return true;
	return !st->controls_due && !st->ep.s.data_out && !st->ep.s.control_out &&
	       (!st->ep.by_send || st->peer_disconnected);
}

static void say_disconnect(struct rsock_stream *st)
{
	if (st->said_disconnect || st->peer_disconnected)
		return;
	st->said_disconnect = true;
	rsock_conn_control(st, RS_DISCONNECT);
}

static void begin_disconnect(struct rsock_stream *st)
{
	if (st->sock.state != RSOCK_UP)
		return;
	st->read_end = st->write_end = true;
	rsock_wake(&st->sock);
	say_disconnect(st);
}

/* Sends RS_DISCONNECT, and waits until everything that was sent has arrived. Returns
 * false if that takes longer than ns. */
static bool disconnect_whole(struct rsock_stream *st, uint64_t ns)
{
	uint64_t end = rsock_now() + ns;
	int rc;

	begin_disconnect(st);
	do
		rc = rsock_wait(&st->sock, is_over, false, true, rsock_left(end));
	while (rc == -EINTR);
	return !rc;
}

/* --- shutdown ------------------------------------------------------------ */

static void stop_listening(struct rsock_stream *st)
{
	rsock_connect_reset(st);
	pthread_mutex_unlock(&st->sock.lock);
	rsock_listener_empty(st);
	pthread_mutex_lock(&st->sock.lock);
	rsock_wake(&st->sock);
}

int rsock_shutdown(struct rsock *rs, int how)
{
	struct rsock_stream *st = rsock_stream_of(rs);
	bool was = st->write_end;

	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	if (rs->state == RSOCK_LISTENING && how != SHUT_WR) {
		stop_listening(st);
		return 0;
	}
	if (rs->state != RSOCK_UP && !st->was_up)
		return -ENOTCONN;
	if (how != SHUT_WR)
		st->read_end = st->read_shut = true;
	if (how == SHUT_RD || rs->state != RSOCK_UP)
		return 0;
	st->write_end = true;
	rsock_wake(rs);
	if (st->read_end)
		say_disconnect(st);
	else if (!was && !st->said_disconnect && !st->peer_disconnected)
		rsock_conn_control(st, RS_SHUTDOWN);
	return 0;
}

/* --- close --------------------------------------------------------------- */

static uint64_t linger_ns(const struct rsock *rs)
{
	int s = rs->opt.linger.l_linger;

	return (uint64_t)(s < 0 || s > LINGER_MAX ? LINGER_MAX : s) * RSOCK_S;
}

bool rsock_close(struct rsock *rs)
{
	struct rsock_stream *st = rsock_stream_of(rs);
	bool later = false;

	if (!rs->opt.linger.l_onoff)
		later = rs->state == RSOCK_UP &&
			!disconnect_whole(st, st->ep.by_send ? BRIEF_IWARP_NS : BRIEF_NS);
	else if (rs->opt.linger.l_linger)
		(void)disconnect_whole(st, linger_ns(rs));
	st->close_end = rsock_now() + LATER_NS;
	return later;
}

bool rsock_close_is_over(struct rsock *rs)
{
	struct rsock_stream *st = rsock_stream_of(rs);
	bool over;

	pthread_mutex_lock(&rs->lock);
	rsock_conn_progress(st);
	over = is_over(rs) || rsock_now() >= st->close_end;
	pthread_mutex_unlock(&rs->lock);
	return over;
}

bool rsock_close_at_exit(struct rsock *rs)
{
	bool under_way;

	if (pthread_mutex_trylock(&rs->lock))
		return false; /* another thread of the program still has the lock */
	begin_disconnect(rsock_stream_of(rs));
	rsock_conn_progress(rsock_stream_of(rs));
	under_way = !is_over(rs);
	pthread_mutex_unlock(&rs->lock);
	return under_way;
}

/* --- freeing ------------------------------------------------------------- */

static void let_go(struct rsock_stream *st)
{
	struct rdma_cm_id *id = st->id;

	if (id)
		rsock_rdma_stop(id);
	if (id && st->sock.state == RSOCK_WAITING)
		rdma_reject(id, NULL, 0);
	else if (id && st->sock.state >= RSOCK_UP)
		rdma_disconnect(id);
	/* The service thread may be reading an event now. */
	pthread_mutex_lock(&st->sock.lock);
	rsock_conn_close(st);
	pthread_mutex_unlock(&st->sock.lock);
	if (id)
		rdma_destroy_id(id);
	rsock_listener_empty(st);
}

void rsock_close_free(struct rsock *rs)
{
	if (!rsock_forked(rs))
		let_go(rsock_stream_of(rs));
	rsock_fini(rs);
}
