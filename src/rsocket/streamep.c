/* SPDX-License-Identifier: BSD-2-Clause */
/* streamep.c - see streamep.h. */
#include "rsocket/streamep.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "rsocket/wait.h"

enum {
	BATCH = 32, /* completions that are polled at a time */
	CONTROL = 1,
	/* Bits of wr_id. PART: the WRITE before an iWARP message, whose completion does
	 * not count. */
	PART = 2,
};

/* --- buffers ------------------------------------------------------------- */

static int make_region(struct rsock_endpoint *ep, struct rsock_region *r, size_t size,
		       unsigned access)
{
	r->at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		     0);
	if (r->at == MAP_FAILED) {
		r->at = NULL;
		return -ENOMEM;
	}
	r->size = size;
	r->mr = ibv_reg_mr(ep->id->pd, r->at, size, access);
	return r->mr ? 0 : -errno;
}

static void drop_region(struct rsock_region *r)
{
	if (r->mr)
		ibv_dereg_mr(r->mr);
	if (r->at)
		munmap(r->at, r->size);
	*r = (struct rsock_region){ 0 };
}

static int make_buffers(struct rsock_endpoint *ep, const struct rsock_sizes *sizes)
{
	enum { REMOTE = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
	size_t shared = (size_t)RS_TARGETS * sizeof(struct rs_sge) +
			sizes->iomaps * sizeof(struct rs_iomap);
	int rc = make_region(ep, &ep->rbuf, (size_t)sizes->rcvbuf * 2, REMOTE);
	struct rs_memory m;

	if (!rc)
		rc = make_region(ep, &ep->sbuf, (size_t)sizes->sndbuf * 2,
				 IBV_ACCESS_LOCAL_WRITE);
	if (!rc)
		rc = make_region(ep, &ep->shared, shared, REMOTE);
	if (!rc && ep->by_send)
		rc = make_region(ep, &ep->messages, (size_t)ep->receives * RS_MESSAGE,
				 IBV_ACCESS_LOCAL_WRITE);
	if (rc)
		return rc;
	m = (struct rs_memory){
		.rbuf = ep->rbuf.at,
		.sbuf = ep->sbuf.at,
		.rbuf_size = sizes->rcvbuf * 2,
		.sbuf_size = sizes->sndbuf * 2,
		.shared = ep->shared.at,
		.rbuf_key = ep->rbuf.mr->rkey,
		.shared_key = ep->shared.mr->rkey,
		.sq = sizes->sq,
		.rq = sizes->rq,
		.iomaps = sizes->iomaps,
		.no_rnr = ep->by_send,
	};
	rs_init(&ep->s, &m);
	return 0;
}

/* --- the QP -------------------------------------------------------------- */

static uint8_t *message_at(const struct rsock_endpoint *ep, uint64_t slot)
{
	return ep->messages.at + slot * RS_MESSAGE;
}

/* Posts receives into n <= BATCH slots. */
static int post_receives(struct rsock_endpoint *ep, const uint64_t *slots, int n)
{
	struct ibv_recv_wr wr[BATCH], *bad;
	struct ibv_sge sge[BATCH];

	for (int i = 0; i < n; i++) {
		wr[i] = (struct ibv_recv_wr){ .wr_id = slots[i],
					      .next = i + 1 < n ? &wr[i + 1] : NULL };
		if (!ep->by_send)
			continue;
		sge[i] = (struct ibv_sge){
			.addr = (uintptr_t)message_at(ep, slots[i]),
			.length = RS_MESSAGE,
			.lkey = ep->messages.mr->lkey,
		};
		wr[i].sg_list = &sge[i];
		wr[i].num_sge = 1;
	}
	return n ? -ibv_post_recv(ep->id->qp, wr, &bad) : 0;
}

static int post_all_receives(struct rsock_endpoint *ep)
{
	uint64_t slots[BATCH];
	int rc = 0, n;

	for (int at = 0; !rc && at < ep->receives; at += n) {
		for (n = 0; n < BATCH && at + n < ep->receives; n++)
			slots[n] = (uint64_t)(at + n);
		rc = post_receives(ep, slots, n);
	}
	return rc;
}

static int make_qp(struct rsock_endpoint *ep, const struct rsock_sizes *sizes)
{
	uint32_t sends = (uint32_t)(sizes->sq + RS_CONTROLS) * (ep->by_send ? 2 : 1);
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = sends,
			 .max_recv_wr = (uint32_t)ep->receives,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = sizes->inline_size > RS_IMAGE_MAX
						    ? sizes->inline_size
						    : RS_IMAGE_MAX },
	};

	ep->ch = ibv_create_comp_channel(ep->id->verbs);
	if (!ep->ch || fcntl(ep->ch->fd, F_SETFL, O_NONBLOCK))
		return -errno;
	ep->rcq = ibv_create_cq(ep->id->verbs, ep->receives, ep, ep->ch, 0);
	ep->scq = ibv_create_cq(ep->id->verbs, (int)sends, ep, ep->ch, 0);
	if (!ep->rcq || !ep->scq)
		return -errno;
	attr.recv_cq = ep->rcq;
	attr.send_cq = ep->scq;
	if (rdma_create_qp(ep->id, ep->id->pd, &attr))
		return -errno;
	return post_all_receives(ep);
}

int rsock_ep_create(struct rsock_endpoint *ep, struct rdma_cm_id *id,
		    const struct rsock_sizes *sizes)
{
	int rc;

	*ep = (struct rsock_endpoint){
		.id = id,
		.by_send = id->verbs->device->transport_type == IBV_TRANSPORT_IWARP,
	};
	ep->receives = sizes->rq + (ep->by_send ? RS_CONTROLS_SENT : RS_CONTROLS);
	rc = make_buffers(ep, sizes);
	return rc ? rc : make_qp(ep, sizes);
}

void rsock_ep_destroy(struct rsock_endpoint *ep)
{
	if (ep->id && ep->id->qp)
		rdma_destroy_qp(ep->id);
	drop_region(&ep->rbuf);
	drop_region(&ep->sbuf);
	drop_region(&ep->shared);
	drop_region(&ep->messages);
	if (ep->rcq)
		ibv_destroy_cq(ep->rcq);
	if (ep->scq)
		ibv_destroy_cq(ep->scq);
	if (ep->ch)
		ibv_destroy_comp_channel(ep->ch);
	*ep = (struct rsock_endpoint){ 0 };
}

/* --- posting ------------------------------------------------------------- */

/* On iWARP a SEND with the immediate follows the WRITE. */
int rsock_ep_post(struct rsock_endpoint *ep, const struct rs_write *w,
		  const void *payload)
{
	const void *from = payload ? payload : w->from ? w->from : w->image;
	bool two = w->has_imm && ep->by_send;
	struct ibv_sge data = {
		.addr = (uintptr_t)from, .length = w->len,
		.lkey = w->from ? ep->sbuf.mr->lkey : 0,
	}, message = { .addr = (uintptr_t)&w->imm, .length = RS_MESSAGE };
	struct ibv_send_wr *bad, send = {
		.wr_id = (uint64_t)w->sbuf_bytes << 8 | (w->control ? CONTROL : 0),
		.sg_list = &message, .num_sge = 1, .opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
	}, write = {
		.wr_id = two ? PART : send.wr_id, .next = two ? &send : NULL,
		.sg_list = &data, .num_sge = w->len ? 1 : 0,
		.opcode = w->has_imm && !two ? IBV_WR_RDMA_WRITE_WITH_IMM :
					       IBV_WR_RDMA_WRITE,
		.send_flags = (from != w->from ? IBV_SEND_INLINE : 0u) |
			      (two ? 0u : IBV_SEND_SIGNALED),
		.imm_data = htobe32(w->imm),
		.wr.rdma = { .remote_addr = w->addr, .rkey = w->key },
	};

	return -ibv_post_send(ep->id->qp, two && !w->len ? &send : &write, &bad);
}

/* --- completions --------------------------------------------------------- */

/* Returns false if the completion is no message of rsockets. */
static bool immediate_of(const struct rsock_endpoint *ep, const struct ibv_wc *wc,
			 uint32_t *imm)
{
	if (ep->by_send == !!(wc->wc_flags & IBV_WC_WITH_IMM) ||
	    (ep->by_send && wc->byte_len != RS_MESSAGE))
		return false;
	*imm = ep->by_send ? rs_message(&ep->s, message_at(ep, wc->wr_id))
			   : be32toh(wc->imm_data);
	return true;
}

/* Handles no more completions at once than there are receives, as a peer may send faster
 * than we poll. */
int rsock_ep_take_receives(struct rsock_endpoint *ep, enum ibv_wc_status *status,
			   void (*came)(void *arg, bool good, uint32_t imm), void *arg)
{
	struct ibv_wc wc[BATCH];
	uint64_t slots[BATCH];
	int all = 0, n;

	do {
		int good = 0;

		n = ibv_poll_cq(ep->rcq, BATCH, wc);
		for (int i = 0; i < n; i++) {
			uint32_t imm = 0;
			bool is_one;

			if (wc[i].status != IBV_WC_SUCCESS) {
				*status = wc[i].status;
				continue;
			}
			slots[good++] = wc[i].wr_id;
			is_one = immediate_of(ep, &wc[i], &imm);
			came(arg, is_one, imm);
		}
		if (good && post_receives(ep, slots, good))
			*status = IBV_WC_GENERAL_ERR;
		all += n > 0 ? n : 0;
	} while (n == BATCH && all < ep->receives);
	return all;
}

int rsock_ep_take_sends(struct rsock_endpoint *ep, enum ibv_wc_status *status)
{
	struct ibv_wc wc[BATCH];
	int all = 0, n;

	do {
		n = ibv_poll_cq(ep->scq, BATCH, wc);
		for (int i = 0; i < n; i++) {
			if (wc[i].status != IBV_WC_SUCCESS &&
			    (*status == IBV_WC_SUCCESS || *status == IBV_WC_WR_FLUSH_ERR))
				*status = wc[i].status;
			if (!(wc[i].wr_id & PART))
				rs_sent(&ep->s, wc[i].wr_id & CONTROL,
					(uint32_t)(wc[i].wr_id >> 8));
		}
		all += n > 0 ? n : 0;
	} while (n == BATCH);
	return all;
}

/* --- the endpoint's events ----------------------------------------------- */

void rsock_ep_arm(struct rsock_endpoint *ep, bool for_space)
{
	if (!ep->armed_r)
		ep->armed_r = !ibv_req_notify_cq(ep->rcq, 0);
	if (!ep->armed_s && (for_space || !rs_may_control(&ep->s)))
		ep->armed_s = !ibv_req_notify_cq(ep->scq, 0);
}

bool rsock_ep_take_events(struct rsock_endpoint *ep)
{
	struct ibv_cq *cq;
	void *context;
	bool any = false;

	if (!ep->ch)
		return false;
	while (!ibv_get_cq_event(ep->ch, &cq, &context)) {
		ibv_ack_cq_events(cq, 1);
		*(cq == ep->rcq ? &ep->armed_r : &ep->armed_s) = false;
		any = true;
	}
	return any;
}

/* --- connections --------------------------------------------------------- */

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

/* --- messages that go out ------------------------------------------------ */

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

static void send_grants(struct rsock_stream *st)
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
		send_grants(st);
	else
		rsock_conn_progress(st);
}

/* --- messages that come -------------------------------------------------- */

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
	send_grants(st);
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
