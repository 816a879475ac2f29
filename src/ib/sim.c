/* SPDX-License-Identifier: BSD-2-Clause */
/* sim.c - makes the two NICs and their objects; see sim.h. */
#include "ib/sim.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "ib/sim_own.h"
#include "net/fault.h"
#include "net/lid.h"
#include "net/loop.h"
#include "net/roce.h"
#include "shm/peers.h"
#include "shm/shm.h"
#include "sys/clock.h"
#include "verbs/device_testing.h"
#include "verbs/due.h"
#include "verbs/mr.h"
#include "verbs/netport.h"
#include "verbs/xrc.h"

void sim_die(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: %s does not hold\n", file, line, what);
	abort();
}

/* --- a host in common ---------------------------------------------------- */

static void no_datagram(void *arg, const struct dgram *d)
{
	(void)arg;
	(void)d;
}

static void on_piped(void *arg, const struct dgram *d, uint64_t now)
{
	struct sim_node *n = arg;
	struct dgram in = *d;

	in.link = n->link;
	ib_input(&n->core, &in, now);
}

static void on_gone(void *arg, uint16_t slot)
{
	struct sim_node *n = arg;

	peers_gone(peers_of(&n->core), slot);
}

static void on_said(void *arg, struct host_said *said)
{
	struct sim_node *n = arg;

	peers_said(peers_of(&n->core), said);
}

/* The QP should go to the wire; with same_host there is none, so it waits for ever. */
static void on_refused(void *arg, struct qp *qp)
{
	struct sim_node *n = arg;

	(void)qp;
	n->refused++;
}

static const struct host_ops host_ops = { no_datagram, on_gone, on_said };
static const struct peers_ops peers_ops = {
	.refused = on_refused,
	.datagram = on_piped,
};

static void share_host(struct sim_node *n, const struct sim_conf *conf)
{
	enum local_way way = conf->off[n->side] ? LOCAL_OFF
			     : conf->pipe_only	? LOCAL_PIPE
						: LOCAL_AUTO;

	MUST(host_open(&n->host, &host_ops, n) == 0);
	n->core.slot = host_slot(n->host);
	MUST(peers_open(&n->core, n->host, way, "it is off", &peers_ops, n) == 0);
}

static void leave_host(struct sim_node *n)
{
	if (!n->host)
		return;
	peers_close(&n->core);
	host_close(n->host);
	n->host = NULL;
}

/* --- making -------------------------------------------------------------- */

static struct device *infiniband(int side)
{
	const uint8_t guid[8] = { 2, [7] = (uint8_t)(side + 1) };
	struct device *dev = calloc(1, sizeof(*dev));
	struct port p = {
		.number = 1,
		.link_layer = IBV_LINK_LAYER_INFINIBAND,
		.active = true,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.width = 2,
		.speed = 32, /* 100 Gb/s */
		.lid = (uint16_t)(4 + 4 * side),
		.lmc = 1,
		.sm_lid = 1,
		.pkeys = 3,
		.pkey = { PKEY_DEFAULT, 0x8005 },
		.gids = 1,
		.gid = { { .gid.raw = { 0xfe, 0x80 }, .used = true } },
	};
	uint64_t g;

	MUST(dev);
	memcpy(&g, guid, sizeof(g));
	memcpy(p.gid[0].gid.raw + 8, guid, sizeof(guid));
	device_init(dev, &device_ib, "sim", g, &p, NULL);
	return dev;
}

static struct device *ethernet(int side, const struct sim_conf *conf)
{
	const uint32_t mtu = conf->netdev_mtu ? conf->netdev_mtu : 4200;
	struct device *dev;
	struct netdev net = {
		.name = "veth0", .ifindex = 7, .running = true, .naddrs = 2,
		.mac = { 2, 0, 0, 0, 0, (uint8_t)(side + 1) },
		.mtu = mtu,
		.payload = (uint32_t)roce_payload(mtu),
		.addr = {
			{ { 0xfe, 0x80, [15] = (uint8_t)(side + 1) } },
			{ { [10] = 0xff, 0xff, 10, 0, 0, (uint8_t)(side + 1) } },
		},
	};

	MUST(device_create(&device_roce, &net, NULL, &dev) == 0);
	return dev;
}

static void node_open(struct sim *s, int side, const struct sim_conf *conf)
{
	struct sim_node *n = &s->node[side];

	n->sim = s;
	n->side = side;
	MUST(core_init(&n->core, (uint16_t)(side + 1)) == 0);
	MUST(ib_open(&n->core, 1) == 0);
	n->core.recv_wait_ns = conf->late;
	n->dev = conf->infiniband ? infiniband(side) : ethernet(side, conf);
	n->dev->core = &n->core;
	n->ctx.core = &n->core;
	n->ctx.dev = n->dev;
	n->ctx.ibv = &n->ibv;
	n->ibv.device = &n->dev->ibv;
	list_init(&n->ctx.node);
	MUST(event_queue_init(&n->ctx.async) == 0);
	MUST(fcntl(n->ctx.async.fd, F_SETFL, O_NONBLOCK) == 0);
	MUST(pd_alloc(&n->core, &n->ibv, &n->pd) == 0);
	if (conf->same_host)
		share_host(n, conf);
}

struct sim *sim_open(const struct sim_conf *conf)
{
	struct loop_conf lc = {
		.latency = conf->latency ? conf->latency : 10000,
		.depth = 100000,
		.mtu = 4200 + 100,
		.run_max = conf->run_max ? conf->run_max : 16,
		.hide_ids = conf->hide_ids,
	};
	struct sim *s = calloc(1, sizeof(*s));
	char err[100];

	MUST(s);
	s->now = 1000000;
	s->same_host = conf->same_host;
	node_open(s, SIM_A, conf);
	node_open(s, SIM_B, conf);
	MUST(loop_pair(&s->node[0].link, &s->node[1].link, &lc) == 0);
	if (conf->fault)
		MUST(fault_wrap(&s->node[0].link, s->node[0].link, conf->fault, err,
				sizeof(err)) == 0);
	for (int i = 0; i < 2; i++) {
		struct sim_node *n = &s->node[i];

		if (conf->infiniband) {
			MUST(lid_wrap(&n->link, n->link) == 0);
		} else {
			MUST(roce_wrap(&n->link, n->link, 4791) == 0);
			roce_leaves_from(n->link, (uint16_t)(0xc000 + i));
		}
		n->ctx.link = n->link;
	}
	return s;
}

void sim_close(struct sim *s)
{
	for (int i = 0; i < 2; i++) {
		struct sim_node *n = &s->node[i];

		n->link->ops->close(n->link);
		MUST(pd_free(n->pd) == 0);
		event_queue_fini(&n->ctx.async);
		free(n->dev);
		leave_host(n);
		ib_close(&n->core);
		core_fini(&n->core);
	}
	free(s);
}

struct cq *sim_cq(struct sim *s, int side, int cqe)
{
	struct cq *cq;

	MUST(cq_create(&s->node[side].ctx, cqe, NULL, NULL, &cq) == 0);
	return cq;
}

struct qp *sim_qp(struct sim *s, int side, enum ibv_qp_type type, struct cq *scq,
		  struct cq *rcq, struct srq *srq, const struct ibv_qp_cap *cap)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = (struct ibv_cq *)&scq->ex,
		.recv_cq = (struct ibv_cq *)&rcq->ex,
		.srq = srq ? &srq->ibv : NULL,
		.cap = *cap,
		.qp_type = type,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = &s->node[side].pd->ibv,
	};

	return sim_qp_of(s, side, &a);
}

struct qp *sim_qp_of(struct sim *s, int side, struct ibv_qp_init_attr_ex *attr)
{
	struct sim_node *n = &s->node[side];
	struct qp *qp;

	MUST(n->nqps < SIM_QPS);
	MUST(qp_create(&n->ctx, attr, &ib_transport, &qp) == 0);
	n->due[n->nqps] = NEVER;
	n->qps[n->nqps++] = qp;
	return qp;
}

void sim_destroy(struct sim *s, struct qp *qp)
{
	struct sim_node *n = &s->node[qp->core == &s->node[1].core];

	for (unsigned i = 0; i < n->nqps; i++) {
		if (n->qps[i] != qp)
			continue;
		n->qps[i] = n->qps[--n->nqps];
		n->due[i] = n->due[n->nqps];
		break;
	}
	MUST(qp_destroy(qp) == 0);
}

void sim_leave(struct sim *s, int side)
{
	struct sim_node *n = &s->node[side];

	while (n->nqps)
		sim_destroy(s, n->qps[0]);
	leave_host(n);
	n->stopped = true;
}

void sim_enter(struct sim *s, const struct sim_conf *conf)
{
	for (int i = 0; i < 2; i++) {
		struct sim_node *n = &s->node[i];

		MUST(!n->host && !n->nqps);
		share_host(n, conf);
		n->stopped = false;
		n->refused = 0;
	}
}

static uint8_t or8(uint8_t v, uint8_t dflt)
{
	return v ? v : dflt;
}

static void modify(struct sim *s, struct qp *qp, struct ibv_qp_attr *a, int mask)
{
	MUST(qp_modify(qp, a, mask | IBV_QP_STATE, s->now) == 0);
}

static void meet(struct sim *s, struct qp *qp, const struct qp *peer)
{
	struct peer *p;

	(void)s;
	turn_take(&qp->core->turn);
	p = peers_peer(peers_of(qp->core), qpn_slot(peer->qpn));
	MUST(p);
	lock_take(&qp->lock);
	if (qp->transport != &shm_transport)
		MUST(qp_change_transport(qp, &shm_transport) == 0);
	shm_connect(qp, p);
	lock_give(&qp->lock);
	turn_give(&qp->core->turn);
}

void sim_bring(struct sim *s, struct qp *qp, const struct qp *peer,
	       const struct sim_conf *c)
{
	int side = qp->core == &s->node[1].core;
	bool ud = qp->type == IBV_QPT_UD;
	bool asks = qp->reliable && qp->type != IBV_QPT_XRC_RECV;
	bool answers = qp->reliable && qp->type != IBV_QPT_XRC_SEND;
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = 0x11111111,
		.pkey_index = c->pkey_index,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = c->path_mtu ? c->path_mtu : IBV_MTU_1024,
		.dest_qp_num = peer ? peer->qpn : 0,
		.rq_psn = c->psn[!side],
		.sq_psn = c->psn[side],
		.max_dest_rd_atomic = or8(c->rd_atomic, 16),
		.max_rd_atomic = or8(c->rd_atomic, 16),
		.min_rnr_timer = or8(c->min_rnr_timer, 12),
		.timeout = or8(c->timeout, 14),
		.retry_cnt = or8(c->retry_cnt, 7),
		.rnr_retry = or8(c->rnr_retry, 7),
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .sgid_index = c->ipv6 ? 0 : 1, .hop_limit = 64 } },
	};

	a.ah_attr.grh.dgid = device_gid(s->node[!side].dev, c->ipv6 ? 0 : 1);
	a.ah_attr.dlid = device_lid(s->node[!side].dev);
	a.ah_attr.is_global = !c->infiniband;
	a.ah_attr.static_rate = c->static_rate[side];
	modify(s, qp, &a,
	       IBV_QP_PKEY_INDEX | IBV_QP_PORT |
		       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
	if (s->same_host)
		meet(s, qp, peer);
	a.qp_state = IBV_QPS_RTR;
	modify(s, qp, &a,
	       ud ? 0
		  : IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			       (answers ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER
					: 0));
	a.qp_state = IBV_QPS_RTS;
	modify(s, qp, &a,
	       IBV_QP_SQ_PSN | (qp->reliable ? IBV_QP_TIMEOUT : 0) |
		       (asks ? IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
					IBV_QP_MAX_QP_RD_ATOMIC
			     : 0));
}

struct sim_pair sim_pair(struct sim *s, enum ibv_qp_type type,
			 const struct sim_conf *conf)
{
	const struct ibv_qp_cap cap = {
		.max_send_wr = 256,
		.max_recv_wr = 256,
		.max_send_sge = 8,
		.max_recv_sge = 8,
		.max_inline_data = 256,
	};
	struct sim_pair p;

	for (int i = 0; i < 2; i++) {
		p.cq[i] = sim_cq(s, i, 1000);
		p.qp[i] = sim_qp(s, i, type, p.cq[i], p.cq[i], NULL, &cap);
	}
	for (int i = 0; i < 2; i++)
		sim_bring(s, p.qp[i], type == IBV_QPT_UD ? NULL : p.qp[!i], conf);
	return p;
}

void sim_xrc(struct sim *s, struct cq *scq, struct xrcd *xrcd,
	     const struct sim_conf *conf, struct qp **from, struct qp **to)
{
	struct ibv_qp_init_attr_ex target = {
		.qp_type = IBV_QPT_XRC_RECV,
		.comp_mask = IBV_QP_INIT_ATTR_XRCD,
		.xrcd = &xrcd->ibv,
	}, initiator = {
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.cap = { .max_send_wr = 256, .max_send_sge = 1 },
		.pd = &s->node[0].pd->ibv,
		.send_cq = (struct ibv_cq *)&scq->ex,
	};

	*from = sim_qp_of(s, 0, &initiator);
	*to = sim_qp_of(s, 1, &target);
	sim_bring(s, *from, *to, conf);
	sim_bring(s, *to, *from, conf);
}

void sim_unpair(struct sim *s, const struct sim_pair *p)
{
	for (int i = 0; i < 2; i++) {
		if (p->qp[i])
			sim_destroy(s, p->qp[i]);
		MUST(cq_destroy(p->cq[i]) == 0);
	}
}

struct mr *sim_mr(struct sim *s, int side, void *at, size_t n, int access)
{
	struct mr *mr;

	MUST(mr_reg(s->node[side].pd, at, n, (uintptr_t)at, access, &mr) == 0);
	return mr;
}

struct ibv_sge sim_sge(const struct mr *mr, size_t off, size_t n)
{
	return (struct ibv_sge){ mr->mkey.base + off, (uint32_t)n, mr->mkey.key };
}

void sim_send(struct qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	MUST(qp_post_send(qp, wr, &bad) >= 0);
	due_add(qp->core, qp);
}

void sim_recv(struct qp *qp, uint64_t wr_id, struct ibv_sge *sge, int n)
{
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = sge, .num_sge = n }, *bad;

	MUST(qp_post_recv(qp, &wr, &bad) >= 0);
}
