/* SPDX-License-Identifier: BSD-2-Clause */
/* sim.c - two NICs with iWARP devices; see sim.h. */
#include "iwarp/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/guard.h"
#include "verbs/due.h"
#include "verbs/netport.h"
#include "verbs/transport.h"

#define MUST(cond)                                                                       \
	do {                                                                             \
		if (!(cond))                                                             \
			sim_die(__LINE__, #cond);                                        \
	} while (0)

static _Noreturn void sim_die(int line, const char *what)
{
	fprintf(stderr, "sim.c:%d: %s does not hold\n", line, what);
	abort();
}

/* --- making -------------------------------------------------------------- */

static int on_attached(void *arg, struct qp *qp, struct stream *stream)
{
	struct sim_node *n = arg;

	for (int i = 0; i < SIM_PAIRS; i++) {
		if (n->conn[i].qp)
			continue;
		n->conn[i] =
			(struct sim_conn){ qp, stream, false, false, false, 0, NEVER };
		return 0;
	}
	return -ENOMEM;
}

static void on_released(void *arg, struct qp *qp, struct stream *stream)
{
	struct sim_node *n = arg;

	for (int i = 0; i < SIM_PAIRS; i++)
		if (n->conn[i].qp == qp)
			n->conn[i].qp = NULL;
	stream->ops->close(stream);
}

static void on_paused(void *arg, struct qp *qp, struct stream *stream, bool on)
{
	struct sim_node *n = arg;

	(void)stream;
	for (int i = 0; i < SIM_PAIRS; i++)
		if (n->conn[i].qp == qp)
			n->conn[i].paused = on;
}

static bool pump_out(struct sim_node *n, struct sim_conn *c, uint64_t now);

static bool on_output(void *arg, struct qp *qp, uint64_t now)
{
	struct sim_node *n = arg;

	for (int i = 0; i < SIM_PAIRS; i++)
		if (n->conn[i].qp == qp)
			(void)pump_out(n, &n->conn[i], now);
	return false;
}

static const struct iwarp_ops ops = {
	.attached = on_attached,
	.released = on_released,
	.paused = on_paused,
	.output = on_output,
};

static void node_open(struct sim *s, int side)
{
	struct sim_node *n = &s->node[side];
	struct netdev net = {
		.name = "veth0",
		.ifindex = 7,
		.running = true,
		.naddrs = 1,
		.mac = { 2, 0, 0, 0, 0, (uint8_t)(side + 1) },
		.mtu = 1500,
		.payload = 1416,
		.addr = { { { [10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(side + 1) } } },
	};

	n->sim = s;
	n->side = side;
	MUST(core_init(&n->core, (uint16_t)(side + 1)) == 0);
	MUST(iwarp_open(&n->core, &ops, n) == 0);
	MUST(device_create(&device_iwarp, &net, NULL, &n->dev) == 0);
	n->dev->core = &n->core;
	n->ctx.core = &n->core;
	n->ctx.dev = n->dev;
	n->ctx.ibv = &n->ibv;
	n->ibv.device = &n->dev->ibv;
	list_init(&n->ctx.node);
	MUST(event_queue_init(&n->ctx.async) == 0);
	MUST(fcntl(n->ctx.async.fd, F_SETFL, O_NONBLOCK) == 0);
	MUST(pd_alloc(&n->core, &n->ibv, &n->pd) == 0);
}

struct sim *sim_open(void)
{
	struct sim *s = calloc(1, sizeof(*s));

	MUST(s);
	guard_arm();
	s->now = 1000000;
	node_open(s, 0);
	node_open(s, 1);
	return s;
}

void sim_close(struct sim *s)
{
	for (int i = 0; i < 2; i++) {
		struct sim_node *n = &s->node[i];

		MUST(pd_free(n->pd) == 0);
		event_queue_fini(&n->ctx.async);
		free(n->dev);
		iwarp_close(&n->core);
		core_fini(&n->core);
	}
	free(s);
}

static struct qp *make_qp(struct sim *s, int side, struct cq *cq, struct srq *srq)
{
	struct sim_node *n = &s->node[side];
	struct ibv_qp_init_attr_ex a = {
		.send_cq = (struct ibv_cq *)&cq->ex,
		.recv_cq = (struct ibv_cq *)&cq->ex,
		.srq = srq ? &srq->ibv : NULL,
		.cap = { .max_send_wr = 256,
			 .max_recv_wr = 256,
			 .max_send_sge = 8,
			 .max_recv_sge = 8,
			 .max_inline_data = 256 },
		.qp_type = IBV_QPT_RC,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = &n->pd->ibv,
	};
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
	};
	struct qp *qp;

	MUST(qp_create(&n->ctx, &a, &iwarp_transport, &qp) == 0);
	MUST(qp_modify(qp, &init, IBV_QP_STATE | IBV_QP_ACCESS_FLAGS, s->now) == 0);
	return qp;
}

struct sim_pair sim_pair(struct sim *s, struct srq *srq_of_b)
{
	struct sim_pair p = { .stream = { NULL, NULL } };

	for (int i = 0; i < 2; i++) {
		MUST(cq_create(&s->node[i].ctx, 1000, NULL, NULL, &p.cq[i]) == 0);
		p.qp[i] = make_qp(s, i, p.cq[i], i ? srq_of_b : NULL);
	}
	return p;
}

void sim_unpair(struct sim_pair *p)
{
	for (int i = 0; i < 2; i++) {
		if (p->qp[i])
			MUST(qp_destroy(p->qp[i]) == 0);
		MUST(cq_destroy(p->cq[i]) == 0);
	}
}

struct mr *sim_mr(struct sim *s, int side, void *at, size_t n, int access)
{
	struct mr *mr;

	MUST(mr_reg(s->node[side].pd, at, n, (uintptr_t)at, access, &mr) == 0);
	return mr;
}

/* --- connecting ---------------------------------------------------------- */

static void on_ready(void *arg)
{
	struct sim_node *n = arg;

	n->ready++;
}

static void on_ended(void *arg, enum iw_end how)
{
	struct sim_node *n = arg;

	n->ended[how]++;
}

static const struct iwarp_user user = { on_ready, on_ended };

static struct iw_offer offer_of(const struct sim_conf *c, int side)
{
	uint16_t dflt = c->zero_depth ? 0 : 16;

	return (struct iw_offer){
		.revision = c->revision ? c->revision : 2,
		.crc = c->crc,
		.markers = c->markers[side],
		.rtr = side ? 0 : c->rtr,
		.ird = c->ird[side] ? c->ird[side] : dflt,
		.ord = c->ord[side] ? c->ord[side] : dflt,
	};
}

static void carry(struct sim *s, struct iw_setup *m, struct stream *st)
{
	struct iovec v = iw_setup_out(m);
	ssize_t n;

	if (v.iov_len) {
		n = st->ops->send(st, &v, 1, s->now);
		MUST(n >= 0);
		iw_setup_sent(m, (size_t)n);
	}
	v = iw_setup_room(m);
	if (v.iov_len) {
		n = st->ops->recv(st, &v, 1, s->now);
		MUST(n >= 0);
		iw_setup_received(m, (size_t)n);
	}
}

static void agree(struct sim *s, struct stream *st[2], const struct sim_conf *c,
		  struct iw_setup m[2])
{
	struct iw_offer a = offer_of(c, 0), b = offer_of(c, 1);

	MUST(iw_setup_start(&m[0], &a) == 0);
	iw_setup_listen(&m[1]);
	while (m[0].state == IW_MORE || iw_setup_out(&m[1]).iov_len) {
		carry(s, &m[0], st[0]);
		carry(s, &m[1], st[1]);
		if (m[1].state == IW_REQUEST)
			MUST(iw_setup_accept(&m[1], &b) == 0);
		s->now += 1000;
	}
	MUST(m[0].state == IW_DONE && m[1].state == IW_DONE);
	for (int i = 0; i < 2; i++)
		m[i].agreed.mss = st[i]->mss;
}

static int attach(struct sim *s, struct sim_pair *p, int side,
		  const struct iw_params *prm)
{
	struct sim_node *n = &s->node[side];
	int rc;

	turn_take(&n->core.turn);
	rc = iwarp_attach(p->qp[side], p->stream[side], prm, &user, n, s->now);
	turn_give(&n->core.turn);
	return rc;
}

void sim_connect(struct sim *s, struct sim_pair *p, const struct sim_conf *c)
{
	struct iw_setup *m = calloc(2, sizeof(*m));

	MUST(stream_loop_pair(&p->stream[0], &p->stream[1], &c->stream) == 0);
	agree(s, p->stream, c, m);
	/* The responder first: the initiator's bytes may already be on their way. */
	for (int i = 1; i >= 0; i--)
		MUST(attach(s, p, i, &m[i].agreed) == 0);
	free(m);
}

struct stream *sim_connect_raw(struct sim *s, struct sim_pair *p,
			       const struct sim_conf *c, bool b_initiator)
{
	struct iw_params prm = {
		.initiator = b_initiator,
		.revision = 2,
		.crc = c->crc,
		.markers_in = c->markers[1],
		.markers_out = c->markers[0],
		.rtr = (enum mpa_rtr)c->rtr,
		.ird = c->ird[1] ? c->ird[1] : 16,
		.ord = c->ord[1] ? c->ord[1] : 16,
		.mss = 1448,
	};

	MUST(stream_loop_pair(&p->stream[0], &p->stream[1], &c->stream) == 0);
	MUST(attach(s, p, 1, &prm) == 0);
	return p->stream[0];
}

/* --- running ------------------------------------------------------------- */

static bool pump_out(struct sim_node *n, struct sim_conn *c, uint64_t now)
{
	struct stream *st = c->stream;
	const struct iovec *iov;
	bool moved = false;
	unsigned pieces;

	qp_is_held(c->qp); /* tests have one thread */
	c->blocked = false;
	while (c->qp && !c->blocked && !c->lost &&
	       (pieces = iwarp_output(c->qp, &iov, now)) > 0) {
		ssize_t took = st->ops->send(st, iov, pieces, now);
		size_t all = 0;

		for (unsigned i = 0; i < pieces; i++)
			all += iov[i].iov_len;
		MUST(all > 0);
		if (took < 0 && took != -EFAULT) {
			iwarp_sent(c->qp, 0, now);
			c->lost = (int)took;
			return true;
		}
		iwarp_sent(c->qp, took, now);
		c->blocked = took >= 0 && (size_t)took < all;
		moved |= took > 0;
		if (took > 0)
			n->sim->sent[n->side] += (size_t)took;
	}
	return moved;
}

static bool pump_in(struct sim_conn *c, uint64_t now)
{
	struct stream *st = c->stream;
	bool moved = false;

	qp_is_held(c->qp);
	while (c->qp && !c->ended && !c->paused) {
		struct iovec iov[2];
		unsigned pieces = iwarp_room(c->qp, iov);
		ssize_t got = st->ops->recv(st, iov, pieces, now);

		if (got == 0)
			break;
		moved = true;
		if (got > 0) {
			iwarp_received(c->qp, (size_t)got, now);
		} else {
			c->ended = true;
			iwarp_hangup(c->qp, got == -ESHUTDOWN ? c->lost : (int)got, now);
		}
	}
	return moved;
}

static bool turn(struct sim_node *n, struct sim_conn *c, bool due, uint64_t now,
		 uint64_t *next)
{
	struct qp *qp = c->qp;
	bool moved, was_blocked = c->blocked;
	uint64_t at;

	lock_take(&qp->lock);
	moved = pump_in(c, now);
	at = qp->transport->run(qp, now);
	if (due || was_blocked || now >= c->timer)
		moved |= pump_out(n, c, now);
	at = qp->transport->run(qp, now);
	c->timer = at;
	switch (c->qp ? iwarp_wish(qp) : IW_WISH_NONE) {
	case IW_WISH_NONE:
		break;
	case IW_WISH_FIN:
		c->stream->ops->fin(c->stream);
		moved = true;
		break;
	case IW_WISH_CLOSE:
		iwarp_release(qp);
		moved = true;
		break;
	}
	if (c->qp && c->stream->ops->deadline(c->stream) < at && !c->ended && !c->paused)
		at = c->stream->ops->deadline(c->stream);
	lock_give(&qp->lock);
	if (at < *next)
		*next = at;
	return moved;
}

static bool take_due(struct sim_node *n, bool due[SIM_PAIRS]) REQUIRES(n->core.turn)
{
	struct qp *qp;
	bool any = false;

	for (; (qp = due_next(&n->core)); any = true)
		for (int j = 0; j < SIM_PAIRS; j++)
			due[j] |= n->conn[j].qp == qp;
	return any;
}

/* Does everything that happens at this instant.  Returns false if nothing happened. */
static bool instant(struct sim *s, uint64_t *next)
{
	bool moved = false;

	*next = NEVER;
	for (int i = 0; i < 2; i++) {
		struct sim_node *n = &s->node[i];
		bool due[SIM_PAIRS] = { false };

		turn_take(&n->core.turn);
		moved |= take_due(n, due);
		for (int j = 0; j < SIM_PAIRS; j++)
			if (n->conn[j].qp)
				moved |= turn(n, &n->conn[j], due[j], s->now, next);
		turn_give(&n->core.turn);
	}
	return moved;
}

/* Makes QPs with posted work due, as an application's post would: see due.h. */
static void post_due(struct sim *s)
{
	for (int i = 0; i < 2; i++)
		for (int j = 0; j < SIM_PAIRS; j++)
			if (s->node[i].conn[j].qp)
				due_add(&s->node[i].core, s->node[i].conn[j].qp);
}

static bool step(struct sim *s, uint64_t end)
{
	uint64_t next;

	if (instant(s, &next))
		return true;
	if (next == NEVER || next > end || next <= s->now)
		return false;
	s->now = next;
	return true;
}

void sim_run(struct sim *s, uint64_t ns)
{
	uint64_t end = s->now + ns;

	post_due(s);
	while (step(s, end))
		;
}

bool sim_wait(struct sim *s, struct cq *cq, uint64_t ns, struct ibv_wc *wc)
{
	uint64_t end = s->now + ns;

	post_due(s);
	do {
		if (cq_poll(cq, 1, wc) == 1)
			return true;
	} while (step(s, end));
	return cq_poll(cq, 1, wc) == 1;
}

int sim_event(struct sim *s, int side)
{
	struct ibv_async_event e;
	int rc = async_get(&s->node[side].ctx, &e);

	if (rc)
		return -1;
	async_ack(&e);
	return (int)e.event_type;
}

void sim_modify(struct sim *s, struct qp *qp, enum ibv_qp_state to)
{
	struct ibv_qp_attr a = { .qp_state = to };

	MUST(qp_modify(qp, &a, IBV_QP_STATE, s->now) == 0);
}
