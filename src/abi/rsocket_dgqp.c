/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_dgqp.c - datagram rsockets: QPs, one for each address of ours, and
 * whom they send to.  All under rs->lock. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "abi/rsocket_dgram.h"
#include "sys/addr.h"
#include "sys/sockaddr.h"

#define KNOWN_NS 1000000000u	/* then it is asked again, if it has not said a word */
#define DRAIN_NS 100000000u

enum { PEERS_MAX = 4096 };

/* --- slots ------------------------------------------------------------------------------ */

uint8_t *dg_qp_memory(struct dg_qp *q, uint32_t slot)
{
	return q->mem + (size_t)slot * q->slot_size;
}

int dg_qp_slot(struct dg_qp *q)
{
	int slot = __builtin_ffsll((long long)q->free_slots) - 1;

	if (slot >= 0)
		q->free_slots &= ~(1ull << slot);
	return slot;
}

void dg_qp_receive(struct dg_qp *q, uint32_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)dg_qp_memory(q, slot), .length = q->slot_size,
		.lkey = q->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };

	(void)ibv_post_recv(q->qp, &wr, &bad);	/* a QP in error receives nothing */
}

/* --- the QP -------------------------------------------------------------------------------- */

static int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT, .port_num = 1, .qkey = RDMA_UDP_QKEY,
	};
	int rc = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_PKEY_INDEX |
				       IBV_QP_PORT | IBV_QP_QKEY);

	a.qp_state = IBV_QPS_RTR;
	if (!rc)
		rc = ibv_modify_qp(qp, &a, IBV_QP_STATE);
	a.qp_state = IBV_QPS_RTS;
	if (!rc)
		rc = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return -rc;
}

static int make_queues(struct dg_qp *q)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD, .sq_sig_all = 1,
		.cap = { .max_send_wr = DG_SLOTS, .max_recv_wr = q->rs->rq_size,
			 .max_send_sge = 1, .max_recv_sge = 1 },
	};
	struct epoll_event ev = { .events = EPOLLIN };

	q->ch = ibv_create_comp_channel(q->dev->ctx);
	if (!q->ch || fcntl(q->ch->fd, F_SETFL, O_NONBLOCK) ||
	    epoll_ctl(q->rs->dg->ep, EPOLL_CTL_ADD, q->ch->fd, &ev))
		return -errno;
	q->rcq = ibv_create_cq(q->dev->ctx, q->rs->rq_size, q, q->ch, 0);
	q->scq = ibv_create_cq(q->dev->ctx, DG_SLOTS, q, q->ch, 0);
	if (!q->rcq || !q->scq)
		return -errno;
	attr.send_cq = q->scq;
	attr.recv_cq = q->rcq;
	q->qp = ibv_create_qp(q->dev->pd, &attr);
	return q->qp ? to_rts(q->qp) : -errno;
}

static int make_memory(struct dg_qp *q)
{
	q->mtu = 128u << q->dev->mtu;
	if (q->mtu > DG_MTU)
		q->mtu = DG_MTU;
	q->slot_size = DG_GRH + q->mtu;
	q->mem_size = (size_t)(DG_SLOTS + q->rs->rq_size) * q->slot_size;
	q->mem = mmap(NULL, q->mem_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (q->mem == MAP_FAILED) {
		q->mem = NULL;
		return -ENOMEM;
	}
	q->free_slots = ~0ull;
	q->mr = ibv_reg_mr(q->dev->pd, q->mem, q->mem_size, IBV_ACCESS_LOCAL_WRITE);
	return q->mr ? 0 : -errno;
}

int dg_qp_for(struct rsock *rs, const uint8_t ip[16], uint32_t ifindex,
	      struct dg_qp **out)
{
	struct dg_qp *q;
	int rc;

	list_for(n, &rs->dg->qps) {
		*out = container_of(n, struct dg_qp, node);
		if (!memcmp((*out)->ip, ip, 16))
			return 0;
	}
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	list_init(&q->node);
	q->rs = rs;
	q->ifindex = ifindex;
	memcpy(q->ip, ip, 16);
	rc = cma_init();
	if (!rc)
		rc = cma_dev_of(ip, ifindex, CMA_ROCE, &q->dev, &q->sgid_index);
	if (!rc)
		rc = make_memory(q);
	if (!rc)
		rc = make_queues(q);
	if (rc) {
		dg_qp_free(q);
		return rc;
	}
	for (uint32_t i = 0; i < rs->rq_size; i++)
		dg_qp_receive(q, DG_SLOTS + i);
	list_add_tail(&rs->dg->qps, &q->node);
	*out = q;
	return 0;
}

void dg_qp_free(struct dg_qp *q)
{
	list_del(&q->node);
	if (q->qp)
		ibv_destroy_qp(q->qp);
	if (q->rcq)
		ibv_destroy_cq(q->rcq);
	if (q->scq)
		ibv_destroy_cq(q->scq);
	if (q->ch)
		ibv_destroy_comp_channel(q->ch);
	if (q->mr)
		ibv_dereg_mr(q->mr);
	if (q->mem)
		munmap(q->mem, q->mem_size);
	free(q);
}

/* --- messages -------------------------------------------------------------------------------- */

/* Is the sender's address the one that it gives in its header?  An IPv4 header is
 * in the last 20 bytes of a GRH's place (IBTA annex A17).  Packets from any of
 * 127/8 come from 127.0.0.1. */
static bool is_from(const uint8_t grh[DG_GRH], const uint8_t ip[16])
{
	if (!addr_is_v4(ip))
		return !memcmp(grh + 8, ip, 16);
	return !memcmp(grh + 32, ip + 12, ip[12] == 127 ? 1 : 4);
}

/* What has no header of ours, or another's address, is nobody's. */
static void came(struct dg_qp *q, const struct ibv_wc *wc)
{
	const uint8_t *grh = dg_qp_memory(q, (uint32_t)wc->wr_id);
	uint8_t *at = dg_qp_memory(q, (uint32_t)wc->wr_id) + DG_GRH;
	struct dg_msg *m = NULL;
	struct rs_ud h;
	size_t header;

	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	header = wc->status == IBV_WC_SUCCESS && wc->byte_len > DG_GRH ?
			rs_ud_parse(at, wc->byte_len - DG_GRH, &h) : 0;
	if (header && is_from(grh, h.ip) && dg_wants(q->rs->dg, h.ip, h.port))
		m = calloc(1, sizeof(*m));
	if (!m) {
		dg_qp_receive(q, (uint32_t)wc->wr_id);
		return;
	}
	m->qp = q;
	m->slot = (uint32_t)wc->wr_id;
	m->data = at + header;
	m->len = wc->byte_len - DG_GRH - (uint32_t)header;
	m->port = h.port;
	m->ifindex = q->ifindex;
	memcpy(m->ip, h.ip, 16);
	list_add_tail(&q->rs->dg->msgs, &m->node);
}

bool dg_qp_progress(struct dg_qp *q)
{
	bool any = false;
	struct ibv_cq *cq;
	struct ibv_wc wc[16];
	uint32_t all = 0;
	void *context;
	int n;

	while ((q->armed_r || q->armed_s) && !ibv_get_cq_event(q->ch, &cq, &context)) {
		ibv_ack_cq_events(cq, 1);
		*(cq == q->rcq ? &q->armed_r : &q->armed_s) = false;
		any = true;
	}
	/* Bad ones go back at once: whoever sends those may send for ever. */
	while (all < q->rs->rq_size && (n = ibv_poll_cq(q->rcq, 16, wc)) > 0) {
		for (int i = 0; i < n; i++)
			came(q, &wc[i]);
		all += (uint32_t)n;
		any = true;
	}
	while ((n = ibv_poll_cq(q->scq, 16, wc)) > 0) {
		for (int i = 0; i < n; i++)
			q->free_slots |= 1ull << wc[i].wr_id;
		any = true;
	}
	return any;
}

/* What was sent leaves the house, in time. */
void dg_qp_drain(struct dg_qp *q)
{
	uint64_t end = rsock_now() + DRAIN_NS;

	while (q->free_slots != ~0ull && rsock_now() < end)
		dg_qp_progress(q);
}

void dg_qp_arm(struct dg_qp *q)
{
	if (!q->armed_r)
		q->armed_r = !ibv_req_notify_cq(q->rcq, 0);
	if (!q->armed_s && !q->free_slots)
		q->armed_s = !ibv_req_notify_cq(q->scq, 0);
}

int dg_qp_send(struct dg_qp *q, struct dg_peer *to, uint32_t slot, uint32_t len)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)dg_qp_memory(q, slot), .length = len,
		.lkey = q->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = slot, .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND,
		.wr.ud = { .ah = to->ah, .remote_qpn = to->qpn,
			   .remote_qkey = RDMA_UDP_QKEY },
	};
	int rc = ibv_post_send(q->qp, &wr, &bad);

	if (rc)
		q->free_slots |= 1ull << slot;
	return -rc;
}

/* --- peers ------------------------------------------------------------------------------------- */

bool dg_peer_known(const struct dg_peer *p)
{
	return p->qpn && p->ah && rsock_now() - p->heard < KNOWN_NS;
}

void dg_peer_learn(struct dg_peer *p, uint32_t qpn)
{
	struct ibv_ah_attr a = {
		.is_global = 1, .port_num = 1,
		.grh = { .sgid_index = (uint8_t)p->via->sgid_index, .hop_limit = 64 },
	};

	memcpy(a.grh.dgid.raw, p->ip, 16);
	if (!p->ah)
		p->ah = ibv_create_ah(p->via->dev->pd, &a);
	p->qpn = qpn;
	p->heard = rsock_now();
}

bool dg_wants(const struct rsock_dgram *dg, const uint8_t ip[16], uint16_t port)
{
	return !dg->peer || (dg->peer->port == port && !memcmp(dg->peer->ip, ip, 16));
}

static uint32_t interface(const struct sockaddr *a)
{
	return a->sa_family == AF_INET6 ?
		((const struct sockaddr_in6 *)(const void *)a)->sin6_scope_id : 0;
}

static int make_peer(struct rsock *rs, const struct sockaddr *to, struct dg_peer *p)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);
	uint8_t ip[16];
	int rc;

	sockaddr_ip(to, p->ip);
	p->port = sockaddr_port(to);
	p->ifindex = interface(to);
	if (getsockname(rs->dg->udp, (struct sockaddr *)&from, &len))
		return -errno;
	rc = cma_find_source(to, &from);
	if (rc)
		return rc;
	sockaddr_ip((struct sockaddr *)&from, ip);
	return dg_qp_for(rs, ip, interface((struct sockaddr *)&from), &p->via);
}

void dg_peer_free(struct dg_peer *p)
{
	list_del(&p->node);
	if (p->ah)
		ibv_destroy_ah(p->ah);
	free(p);
}

/* Anybody may write to us, from as many addresses as he likes. */
static void make_room(struct rsock_dgram *dg)
{
	struct dg_peer *oldest = NULL;

	if (dg->npeers < PEERS_MAX)
		return;
	list_for(n, &dg->peers) {
		struct dg_peer *p = container_of(n, struct dg_peer, node);

		if (p != dg->peer && (!oldest || p->used < oldest->used))
			oldest = p;
	}
	dg->npeers--;
	dg_peer_free(oldest);
}

int dg_peer_for(struct rsock *rs, const struct sockaddr *to, struct dg_peer **out)
{
	struct dg_peer *p;
	uint8_t ip[16];
	int rc;

	sockaddr_ip(to, ip);
	list_for(n, &rs->dg->peers) {
		p = container_of(n, struct dg_peer, node);
		if (p->port != sockaddr_port(to) || memcmp(p->ip, ip, 16) ||
		    p->ifindex != interface(to))
			continue;
		p->used = rsock_now();
		*out = p;
		return 0;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	rc = make_peer(rs, to, p);
	if (rc) {
		free(p);
		return rc;
	}
	p->used = rsock_now();
	make_room(rs->dg);
	rs->dg->npeers++;
	list_add_tail(&rs->dg->peers, &p->node);
	*out = p;
	return 0;
}
