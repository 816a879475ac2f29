/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.c - see conn.h. */
#include "rsocket/conn.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>

int rsock_stream_new(const struct rsock_kind *kind, int domain, struct rsock_stream **out)
{
	struct rsock_stream *st = calloc(1, sizeof(*st));

	if (!st)
		return -ENOMEM;
	rsock_init(&st->sock, kind, domain, SOCK_STREAM);
	rsock_backlog_init(&st->backlog, &st->sock.entry);
	rsock_child_init(&st->child, &st->sock.entry);
	list_init(&st->maps);
	*out = st;
	return 0;
}

int rsock_conn_open(struct rsock_stream *st)
{
	int rc = rsock_ep_create(&st->ep, st->id, &st->sock.opt.sizes);

	st->sock.sizes_fixed = true;
	st->sock.sleep_fd = rc ? -1 : st->ep.ch->fd;
	return rc;
}

void rsock_conn_close(struct rsock_stream *st)
{
	rsock_ep_destroy(&st->ep);
	list_for_safe(n, &st->maps)
	{
		struct rsock_map *m = container_of(n, struct rsock_map, node);

		list_del(n);
		if (m->mr)
			ibv_dereg_mr(m->mr);
		free(m);
	}
	st->sock.sizes_fixed = false;
	st->sock.sleep_fd = -1;
}

void rsock_conn_param(const struct rsock_stream *st, struct rdma_conn_param *p,
		      uint8_t data[RS_CONN_SIZE])
{
	struct rs_conn self;

	rs_self(&st->ep.s, &self);
	rs_conn_pack(&self, data);
	*p = (struct rdma_conn_param){
		.private_data = data,
		.private_data_len = RS_CONN_SIZE,
		.flow_control = 1,
		.retry_count = 7,
		.rnr_retry_count = 7,
	};
}

/* --- sending ------------------------------------------------------------- */

void rsock_conn_fail(struct rsock_stream *st, int err)
{
	bool ended = st->read_end && st->write_end;

	if (st->sock.state == RSOCK_DOWN)
		return;
	st->sock.state = RSOCK_DOWN;
	st->read_end = st->write_end = true;
	/* After a disconnect, or the last data of both ends, no data has been lost. */
	if (!st->peer_disconnected && !st->said_disconnect && !ended)
		st->sock.err = err;
	rsock_wake(&st->sock);
}

int rsock_conn_post(struct rsock_stream *st, const struct rs_write *w,
		    const void *payload)
{
	int rc = rsock_ep_post(&st->ep, w, payload);

	if (rc)
		rsock_conn_fail(st, rc == -EIO ? EIO : ECONNRESET);
	return rc;
}

static void grant(struct rsock_stream *st)
{
	struct rs_write w;

	while (st->sock.state == RSOCK_UP && !st->peer_disconnected &&
	       rs_grant_due(&st->ep.s)) {
		rs_send_grant(&st->ep.s, &w);
		if (rsock_conn_post(st, &w, NULL))
			return;
	}
}

static void send_due_controls(struct rsock_stream *st)
{
	struct rs_write w;

	for (unsigned i = 0; st->controls_due && i <= RS_SHUTDOWN; i++) {
		if (st->sock.state != RSOCK_UP || st->peer_disconnected)
			st->controls_due = 0;
		if (!(st->controls_due & 1u << i) || !rs_may_control(&st->ep.s))
			continue;
		st->controls_due &= ~(1u << i);
		rs_send_control(&st->ep.s, (enum rs_control)i, &w);
		(void)rsock_conn_post(st, &w, NULL);
	}
}

void rsock_conn_control(struct rsock_stream *st, enum rs_control what)
{
	st->controls_due |= 1u << what;
	rsock_conn_progress(st);
}

void rsock_conn_grant(struct rsock_stream *st)
{
	if (rs_may_control(&st->ep.s))
		grant(st);
	else
		rsock_conn_progress(st);
}

/* --- receiving ----------------------------------------------------------- */

/* The peer sends nothing more. On iWARP it waits for our end of the TCP connection (see
 * "Closing" in docs/dev/rsocket.md). */
static void on_disconnect(struct rsock_stream *st)
{
	st->read_end = st->write_end = st->peer_disconnected = true;
	if (st->ep.by_send)
		rdma_disconnect(st->id);
}

static void take_immediate(void *arg, bool good, uint32_t imm)
{
	struct rsock_stream *st = arg;

	if (st->sock.state != RSOCK_UP)
		return;
	if (!good) {
		rsock_conn_fail(st, EPROTO);
		return;
	}
	if (st->peer_disconnected)
		return;
	switch (rs_received(&st->ep.s, imm)) {
	case RS_EV_NONE:
	case RS_EV_DATA:
	case RS_EV_GRANT:
		break;
	case RS_EV_SHUTDOWN:
		st->read_end = true;
		break;
	case RS_EV_DISCONNECT:
		on_disconnect(st);
		break;
	case RS_EV_BROKEN:
		rsock_conn_fail(st, EPROTO);
		break;
	}
}

/* Handles completions. Data that came before a failure can still be read: if the send
 * queue reports a failure, the receive queue is polled once more. */
void rsock_conn_progress(struct rsock_stream *st)
{
	enum ibv_wc_status status = IBV_WC_SUCCESS;
	int n;

	if (st->sock.state < RSOCK_UP || !st->ep.rcq)
		return;
	n = rsock_ep_take_receives(&st->ep, &status, take_immediate, st);
	n += rsock_ep_take_sends(&st->ep, &status);
	if (status != IBV_WC_SUCCESS) {
		rsock_ep_take_receives(&st->ep, &status, take_immediate, st);
		rsock_conn_fail(st,
				status == IBV_WC_RETRY_EXC_ERR ? ETIMEDOUT : ECONNRESET);
	}
	send_due_controls(st);
	grant(st);
	if (n)
		rsock_wake(&st->sock);
}

/* --- sleeping and polling ------------------------------------------------ */

void rsock_conn_arm(struct rsock *rs, bool for_space)
{
	if (rs->state >= RSOCK_UP && rsock_stream_of(rs)->ep.rcq)
		rsock_ep_arm(&rsock_stream_of(rs)->ep, for_space);
}

/* Takes the channel's events, and wakes the other threads, which may wait for them. */
void rsock_conn_take_events(struct rsock *rs)
{
	if (rsock_ep_take_events(&rsock_stream_of(rs)->ep))
		rsock_wake(rs);
}

bool rsock_conn_may_spin(const struct rsock *rs)
{
	return rs->state == RSOCK_UP;
}

bool rsock_conn_readable(struct rsock *rs)
{
	struct rsock_stream *st = rsock_stream_of(rs);

	if (rs->state == RSOCK_LISTENING)
		return rsock_backlog_any_ready(&st->backlog);
	return rs->state >= RSOCK_UP && (st->ep.s.unread || st->read_end);
}

bool rsock_conn_writable(struct rsock *rs)
{
	struct rsock_stream *st = rsock_stream_of(rs);

	if (rs->state == RSOCK_DOWN || (rs->state == RSOCK_UP && st->write_end))
		return true;
	return rs->state == RSOCK_UP && rs_room(&st->ep.s, SIZE_MAX);
}

static short io_events(struct rsock *rs)
{
	return (short)((rsock_conn_readable(rs) ? POLLIN | POLLRDNORM : 0) |
		       (rsock_conn_writable(rs) ? POLLOUT | POLLWRNORM : 0));
}

short rsock_conn_events(struct rsock *rs, short asked)
{
	struct rsock_stream *st = rsock_stream_of(rs);
	short ev = io_events(rs);

	asked &= POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
	if (!asked || (ev & asked) != asked) {
		rsock_conn_progress(st);
		ev = io_events(rs);
	}
	if (rs->closed)
		return POLLNVAL;
	if (rs->state >= RSOCK_UP && st->read_end)
		ev |= POLLRDHUP;
	/* Programs take POLLHUP and POLLERR for the end, so these come after unread
	 * data. */
	if (st->ep.s.unread && !st->read_shut)
		return ev;
	if (rs->state >= RSOCK_UP && st->read_end && st->write_end)
		ev |= POLLHUP;
	if (rs->state == RSOCK_NEW || rs->state == RSOCK_BOUND)
		ev |= POLLOUT | POLLHUP;
	if (rs->err)
		ev |= POLLERR;
	return ev;
}
