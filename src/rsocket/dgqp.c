/* SPDX-License-Identifier: BSD-2-Clause */
/* dgqp.c - see dgqp.h. */
#include "rsocket/dgqp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include "rsocket/format.h"
#include "rsocket/os.h"
#include "sys/addr.h"
#include "sys/sockaddr.h"

#define DRAIN_NS (100 * RSOCK_MS)

static uint16_t receives_of(const struct rsock_dgqp *q)
{
	return q->dg->sock.opt.sizes.rq;
}

/* --- slots --------------------------------------------------------------- */

uint8_t *rsock_dgqp_memory(struct rsock_dgqp *q, uint32_t slot)
{
	return q->mem + (size_t)slot * q->slot_size;
}

int rsock_dgqp_slot(struct rsock_dgqp *q)
{
	int slot = __builtin_ffsll((long long)q->free_slots) - 1;

	if (slot >= 0)
		q->free_slots &= ~(1ull << slot);
	return slot;
}

void rsock_dgqp_receive(struct rsock_dgqp *q, uint32_t slot)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)rsock_dgqp_memory(q, slot),
		.length = q->slot_size,
		.lkey = q->mr->lkey,
	};
	struct ibv_recv_wr *bad, wr = { .wr_id = slot, .sg_list = &sge, .num_sge = 1 };

	(void)ibv_post_recv(q->qp, &wr, &bad); /* a QP in error receives nothing */
}

/* --- the QP -------------------------------------------------------------- */

static int to_rts(struct ibv_qp *qp)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = RDMA_UDP_QKEY,
	};
	int rc = ibv_modify_qp(qp, &a,
			       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				       IBV_QP_QKEY);

	a.qp_state = IBV_QPS_RTR;
	if (!rc)
		rc = ibv_modify_qp(qp, &a, IBV_QP_STATE);
	a.qp_state = IBV_QPS_RTS;
	if (!rc)
		rc = ibv_modify_qp(qp, &a, IBV_QP_STATE | IBV_QP_SQ_PSN);
	return -rc;
}

static int make_queues(struct rsock_dgqp *q)
{
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_UD,
		.sq_sig_all = 1,
		.cap = { .max_send_wr = RSOCK_DG_SLOTS,
			 .max_recv_wr = receives_of(q),
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
	};
	struct epoll_event ev = { .events = EPOLLIN };

	q->ch = ibv_create_comp_channel(q->port.ctx);
	if (!q->ch || fcntl(q->ch->fd, F_SETFL, O_NONBLOCK) ||
	    epoll_ctl(q->dg->ep, EPOLL_CTL_ADD, q->ch->fd, &ev))
		return -errno;
	q->rcq = ibv_create_cq(q->port.ctx, receives_of(q), q, q->ch, 0);
	q->scq = ibv_create_cq(q->port.ctx, RSOCK_DG_SLOTS, q, q->ch, 0);
	if (!q->rcq || !q->scq)
		return -errno;
	attr.send_cq = q->scq;
	attr.recv_cq = q->rcq;
	q->qp = ibv_create_qp(q->port.pd, &attr);
	return q->qp ? to_rts(q->qp) : -errno;
}

static int make_memory(struct rsock_dgqp *q)
{
	q->mtu = q->port.mtu < RSOCK_DG_MTU ? q->port.mtu : RSOCK_DG_MTU;
	q->slot_size = RSOCK_DG_GRH + q->mtu;
	q->mem_size = (size_t)(RSOCK_DG_SLOTS + receives_of(q)) * q->slot_size;
	q->mem = mmap(NULL, q->mem_size, PROT_READ | PROT_WRITE,
		      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (q->mem == MAP_FAILED) {
		q->mem = NULL;
		return -ENOMEM;
	}
	q->free_slots = ~0ull;
	q->mr = ibv_reg_mr(q->port.pd, q->mem, q->mem_size, IBV_ACCESS_LOCAL_WRITE);
	return q->mr ? 0 : -errno;
}

int rsock_dgqp_for(struct rsock_dgram *dg, const uint8_t ip[16], uint32_t ifindex,
		   struct rsock_dgqp **out)
{
	struct rsock_dgqp *q;
	int rc;

	list_for(n, &dg->qps)
	{
		q = container_of(n, struct rsock_dgqp, node);
		if (memcmp(q->ip, ip, 16))
			continue;
		*out = q;
		return 0;
	}
	q = calloc(1, sizeof(*q));
	if (!q)
		return -ENOMEM;
	list_init(&q->node);
	q->dg = dg;
	q->ifindex = ifindex;
	memcpy(q->ip, ip, 16);
	rc = rsock_rdma_port(ip, ifindex, &q->port);
	if (!rc)
		rc = make_memory(q);
	if (!rc)
		rc = make_queues(q);
	if (rc) {
		rsock_dgqp_free(q);
		return rc;
	}
	for (uint32_t i = 0; i < dg->sock.opt.sizes.rq; i++)
		rsock_dgqp_receive(q, RSOCK_DG_SLOTS + i);
	list_add_tail(&dg->qps, &q->node);
	*out = q;
	return 0;
}

void rsock_dgqp_free(struct rsock_dgqp *q)
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

/* --- messages ------------------------------------------------------------ */

/* Is the source in a GRH this address? An IPv4 header is in the last 20 bytes of a GRH's
 * place (IBTA annex A17). All of 127/8 is one. */
static bool has_source(const uint8_t grh[RSOCK_DG_GRH], const uint8_t ip[16])
{
	if (!addr_is_v4(ip))
		return !memcmp(grh + 8, ip, 16);
	return !memcmp(grh + 32, ip + 12, ip[12] == 127 ? 1 : 4);
}

/* Did the datagram come from the address in its header? From loopback's addresses packets
 * may come with the GID that stands for them, which is ours. */
static bool is_from(const struct rsock_dgqp *q, const uint8_t grh[RSOCK_DG_GRH],
		    const uint8_t ip[16])
{
	return has_source(grh, ip) ||
	       (addr_is_loopback(ip) && has_source(grh, q->port.gid));
}

/* Queues a datagram at the socket. Drops one without a header of ours, or with another
 * sender's address in it. */
static void take_datagram(struct rsock_dgqp *q, const struct ibv_wc *wc)
{
	const uint8_t *grh = rsock_dgqp_memory(q, (uint32_t)wc->wr_id);
	uint8_t *at = rsock_dgqp_memory(q, (uint32_t)wc->wr_id) + RSOCK_DG_GRH;
	struct rsock_dgmsg *m = NULL;
	struct rs_ud h;
	size_t header;

	if (wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	header = wc->status == IBV_WC_SUCCESS && wc->byte_len > RSOCK_DG_GRH
			 ? rs_ud_parse(at, wc->byte_len - RSOCK_DG_GRH, &h)
			 : 0;
	if (header && is_from(q, grh, h.ip) && rsock_dgram_wants(q->dg, h.ip, h.port))
		m = calloc(1, sizeof(*m));
	if (!m) {
		rsock_dgqp_receive(q, (uint32_t)wc->wr_id);
		return;
	}
	m->qp = q;
	m->slot = (uint32_t)wc->wr_id;
	m->data = at + header;
	m->len = wc->byte_len - RSOCK_DG_GRH - (uint32_t)header;
	m->port = h.port;
	m->ifindex = q->ifindex;
	memcpy(m->ip, h.ip, 16);
	list_add_tail(&q->dg->msgs, &m->node);
}

static bool take_sends(struct rsock_dgqp *q)
{
	struct ibv_wc wc[16];
	bool any = false;
	int n;

	while ((n = ibv_poll_cq(q->scq, 16, wc)) > 0) {
		for (int i = 0; i < n; i++)
			q->free_slots |= 1ull << wc[i].wr_id;
		any = true;
	}
	return any;
}

void rsock_dgqp_drain(struct rsock_dgqp *q)
{
	uint64_t end = rsock_now() + DRAIN_NS;

	while (q->free_slots != ~0ull && rsock_now() < end)
		take_sends(q);
}

bool rsock_dgqp_progress(struct rsock_dgqp *q)
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
	/* Datagrams that are dropped are posted again at once, and their sender may never
	 * stop, so one call takes a limited number. */
	while (all < receives_of(q) && (n = ibv_poll_cq(q->rcq, 16, wc)) > 0) {
		for (int i = 0; i < n; i++)
			take_datagram(q, &wc[i]);
		all += (uint32_t)n;
		any = true;
	}
	return take_sends(q) || any;
}

void rsock_dgqp_arm(struct rsock_dgqp *q)
{
	if (!q->armed_r)
		q->armed_r = !ibv_req_notify_cq(q->rcq, 0);
	if (!q->armed_s && !q->free_slots)
		q->armed_s = !ibv_req_notify_cq(q->scq, 0);
}

int rsock_dgqp_send(struct rsock_dgqp *q, const struct rsock_dgpeer *to, uint32_t slot,
		    uint32_t len)
{
	struct ibv_sge sge = {
		.addr = (uintptr_t)rsock_dgqp_memory(q, slot),
		.length = len,
		.lkey = q->mr->lkey,
	};
	struct ibv_send_wr *bad, wr = {
		.wr_id = slot,
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.wr.ud = { .ah = to->ah,
			   .remote_qpn = to->qpn,
			   .remote_qkey = RDMA_UDP_QKEY },
	};
	int rc = ibv_post_send(q->qp, &wr, &bad);

	if (rc)
		q->free_slots |= 1ull << slot;
	return -rc;
}

/* --- peers --------------------------------------------------------------- */

/* A peer that was quiet for so long is asked for its QP again, by UDP. */
#define KNOWN_NS RSOCK_S

bool rsock_dgpeer_known(const struct rsock_dgpeer *p)
{
	return p->qpn && p->ah && rsock_now() - p->heard < KNOWN_NS;
}

void rsock_dgpeer_learn(struct rsock_dgpeer *p, uint32_t qpn)
{
	struct ibv_ah_attr a = {
		.is_global = 1,
		.port_num = 1,
		.grh = { .sgid_index = p->via->port.sgid_index, .hop_limit = 64 },
	};

	memcpy(a.grh.dgid.raw, addr_is_loopback(p->ip) ? p->via->port.gid : p->ip, 16);
	if (!p->ah)
		p->ah = ibv_create_ah(p->via->port.pd, &a);
	p->qpn = qpn;
	p->heard = rsock_now();
}

static uint32_t interface_of(const struct sockaddr *a)
{
	return a->sa_family == AF_INET6
		       ? ((const struct sockaddr_in6 *)(const void *)a)->sin6_scope_id
		       : 0;
}

static int make_peer(struct rsock_dgram *dg, const struct sockaddr *to,
		     struct rsock_dgpeer *p)
{
	struct sockaddr_storage from = { 0 };
	socklen_t len = sizeof(from);
	uint8_t ip[16];
	int rc;

	sockaddr_ip(to, p->ip);
	p->port = sockaddr_port(to);
	p->ifindex = interface_of(to);
	if (getsockname(dg->udp, (struct sockaddr *)&from, &len))
		return -errno;
	rc = rsock_rdma_source(to, &from);
	if (rc)
		return rc;
	sockaddr_ip((struct sockaddr *)&from, ip);
	return rsock_dgqp_for(dg, ip, interface_of((struct sockaddr *)&from), &p->via);
}

void rsock_dgpeer_free(struct rsock_dgpeer *p)
{
	list_del(&p->node);
	if (p->ah)
		ibv_destroy_ah(p->ah);
	free(p);
}

/* Frees the peer that was quiet for longest, if there are too many. Strangers make peers,
 * too, and may use any number of addresses. */
static void forget_quietest(struct rsock_dgram *dg)
{
	struct rsock_dgpeer *oldest = NULL;

	if (dg->npeers < RSOCK_PEERS_MAX)
		return;
	list_for(n, &dg->peers)
	{
		struct rsock_dgpeer *p = container_of(n, struct rsock_dgpeer, node);

		if (p != dg->peer && (!oldest || p->used < oldest->used))
			oldest = p;
	}
	dg->npeers--;
	rsock_dgpeer_free(oldest);
}

int rsock_dgpeer_for(struct rsock_dgram *dg, const struct sockaddr *to,
		     struct rsock_dgpeer **out)
{
	struct rsock_dgpeer *p;
	uint8_t ip[16];
	int rc;

	sockaddr_ip(to, ip);
	list_for(n, &dg->peers)
	{
		p = container_of(n, struct rsock_dgpeer, node);
		if (p->port != sockaddr_port(to) || memcmp(p->ip, ip, 16) ||
		    p->ifindex != interface_of(to))
			continue;
		p->used = rsock_now();
		*out = p;
		return 0;
	}
	p = calloc(1, sizeof(*p));
	if (!p)
		return -ENOMEM;
	rc = make_peer(dg, to, p);
	if (rc) {
		free(p);
		return rc;
	}
	p->used = rsock_now();
	forget_quietest(dg);
	dg->npeers++;
	list_add_tail(&dg->peers, &p->node);
	*out = p;
	return 0;
}

void rsock_dgpeer_heard(struct rsock_dgram *dg, const struct rsock_dgmsg *m)
{
	list_for(n, &dg->peers)
	{
		struct rsock_dgpeer *p = container_of(n, struct rsock_dgpeer, node);

		if (p->port == m->port && !memcmp(p->ip, m->ip, 16))
			p->heard = p->used = rsock_now();
	}
}
