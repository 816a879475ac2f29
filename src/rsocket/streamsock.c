/* SPDX-License-Identifier: BSD-2-Clause */
/* streamsock.c - see streamsock.h; also the options and keepalives of streams. */
#include "rsocket/streamsock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>

#include "rsocket/bind.h"
#include "rsocket/close.h"
#include "rsocket/connect.h"
#include "rsocket/io.h"
#include "rsocket/option.h"
#include "rsocket/os.h"
#include "rsocket/service.h"

static void progress(struct rsock *rs)
{
	rsock_conn_progress(rsock_stream_of(rs));
}

/* --- options ------------------------------------------------------------- */

static int set_option(struct rsock *rs, int level, int name, const void *val,
		      socklen_t len)
{
	struct rsock_stream *st = rsock_stream_of(rs);
	int rc = rsock_option_set(rs, level, name, val, len), reuse = rs->reuse;

	if (rc || level != SOL_SOCKET)
		return rc;
	if (name == SO_REUSEADDR && st->id)
		rdma_set_option(st->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &reuse,
				sizeof(reuse));
	if (name == SO_KEEPALIVE) {
		st->kept = rsock_now();
		if (rs->opt.keepalive)
			rsock_service_keep_alive();
	}
	return 0;
}

static uint8_t tcp_state(const struct rsock_stream *st)
{
	switch (st->sock.state) {
	case RSOCK_LISTENING:
		return TCP_LISTEN;
	case RSOCK_CONNECTING:
		return TCP_SYN_SENT;
	case RSOCK_UP:
		if (st->read_end)
			return st->write_end ? TCP_CLOSE : TCP_CLOSE_WAIT;
		return st->write_end ? TCP_FIN_WAIT2 : TCP_ESTABLISHED;
	case RSOCK_NEW:
	case RSOCK_BOUND:
	case RSOCK_WAITING:
	case RSOCK_DOWN:
		break;
	}
	return TCP_CLOSE;
}

/* Programs use TCP_INFO to find out whether a connection exists, so little else is filled
 * in. */
static int get_tcp_info(struct rsock *rs, void *val, socklen_t *len)
{
	struct tcp_info info = {
		.tcpi_state = tcp_state(rsock_stream_of(rs)),
		.tcpi_snd_mss = 4096,
		.tcpi_rcv_mss = 4096,
		.tcpi_rcv_space = rs->opt.sizes.rcvbuf * 2,
	};

	if (*len > sizeof(info))
		*len = sizeof(info);
	memcpy(val, &info, *len);
	return 0;
}

static int get_option(struct rsock *rs, int level, int name, void *val, socklen_t *len)
{
	bool info = level == IPPROTO_TCP && name == TCP_INFO;

	if (info || (level == SOL_SOCKET && name == SO_ERROR))
		progress(rs);
	return info ? get_tcp_info(rs, val, len)
		    : rsock_option_get(rs, level, name, val, len);
}

/* --- keepalives ---------------------------------------------------------- */

/* Posts a WRITE of no bytes every keep_idle seconds: if it is not acknowledged, the QP
 * fails. */
static void tick(struct rsock *rs)
{
	int idle = rs->opt.keep_idle ? rs->opt.keep_idle : RSOCK_KEEP_IDLE;
	struct rsock_stream *st = rsock_stream_of(rs);
	struct rs_write w;

	if (pthread_mutex_trylock(&rs->lock))
		return; /* another thread uses it */
	rsock_conn_progress(st);
	if (rs->opt.keepalive && rs->state == RSOCK_UP && !st->said_disconnect &&
	    !st->peer_disconnected &&
	    rsock_now() - st->kept >= (uint64_t)idle * RSOCK_S &&
	    rs_may_control(&st->ep.s)) {
		st->kept = rsock_now();
		rs_send_keepalive(&st->ep.s, &w);
		(void)rsock_conn_post(st, &w, NULL);
	}
	pthread_mutex_unlock(&rs->lock);
}

/* --- the kind ------------------------------------------------------------ */

static const struct rsock_kind kind = {
	.progress = progress,
	.may_spin = rsock_conn_may_spin,
	.arm = rsock_conn_arm,
	.take_events = rsock_conn_take_events,
	.events = rsock_conn_events,
	.bind = rsock_bind,
	.connect = rsock_connect,
	.name = rsock_name,
	.send = rsock_send,
	.receive = rsock_receive,
	.set_option = set_option,
	.get_option = get_option,
	.shutdown = rsock_shutdown,
	.close = rsock_close,
	.event = rsock_connect_event,
	.tick = tick,
	.is_over = rsock_close_is_over,
	.at_exit = rsock_close_at_exit,
	.free = rsock_close_free,
};

int rsock_streamsock_new(int domain, struct rsock **out)
{
	struct rsock_stream *st;
	int rc = rsock_stream_new(&kind, domain, &st);

	if (!rc)
		*out = &st->sock;
	return rc;
}
