/* SPDX-License-Identifier: BSD-2-Clause */
/* close.c - see close.h. */
#include "rsocket/close.h"

#include <errno.h>

#include "rsocket/connect.h"
#include "rsocket/listener.h"
#include "rsocket/rdma.h"
#include "rsocket/wait.h"

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
static bool disconnect(struct rsock_stream *st, uint64_t ns)
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
			!disconnect(st, st->ep.by_send ? BRIEF_IWARP_NS : BRIEF_NS);
	else if (rs->opt.linger.l_linger)
		(void)disconnect(st, linger_ns(rs));
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
