/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs_fix.c - the verbs of fix.h. A WRITE is a copy within this process, to memory that
 * must be registered; it completes once it is made. */
#include <errno.h>
#include <infiniband/verbs.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/os.h"
#include "sys/addr.h"
#include "sys/list.h"

#undef ibv_reg_mr

enum { DEPTH = 32768, GRH = 40, INLINE = 512, PORTS = 8 };

struct fake_channel {
	struct ibv_comp_channel ch; /* must be first */
	struct fake_cq *events[64];
	unsigned n;
};

struct fake_cq {
	struct ibv_cq cq; /* must be first */
	struct ibv_wc wc[DEPTH];
	unsigned put, got;
	bool armed;
};

struct fake_send {
	struct ibv_send_wr wr;
	struct ibv_sge sge;
	uint8_t data[INLINE]; /* data of an inline send */
	uint8_t dgid[16];     /* destination of a datagram */
};

struct fake_qp {
	struct ibv_qp qp; /* must be first */
	struct list node;
	struct fake_qp *peer;
	uint8_t ip[16]; /* of a UD QP */
	struct fake_send *sends;
	struct ibv_sge *receives;
	uint64_t *receive_ids;
	unsigned sput, sgot, rput, rgot;
	unsigned most_sends, most_receives;
	bool signal_all, failed;
};

struct fake_mr {
	struct ibv_mr mr;
	struct list node;
	int access;
};
struct fake_ah {
	struct ibv_ah ah;
	uint8_t dgid[16];
};
struct fake_port {
	uint8_t ip[16];
	struct ibv_pd pd;
};

static struct list qps, mrs;
static struct ibv_device devices[2];
static struct ibv_context contexts[2];
static struct ibv_pd pds[2];
static struct fake_port ports[PORTS];
static unsigned nports;
static uint32_t next_key, next_qpn;

/* --- completions --------------------------------------------------------- */

static void push(struct ibv_cq *ibv, const struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)ibv;
	struct fake_channel *ch = (struct fake_channel *)ibv->channel;

	assert_true(cq->put - cq->got < (unsigned)ibv->cqe);
	cq->wc[cq->put++ % DEPTH] = *wc;
	if (!cq->armed)
		return;
	cq->armed = false;
	assert_true(ch->n < 64);
	ch->events[ch->n++] = cq;
	assert_int_equal(eventfd_write(ch->ch.fd, 1), 0);
}

static int poll_cq(struct ibv_cq *ibv, int n, struct ibv_wc *wc)
{
	struct fake_cq *cq = (struct fake_cq *)ibv;
	int i = 0;

	if (!fix.hold)
		fix_deliver();
	while (i < n && cq->got != cq->put)
		wc[i++] = cq->wc[cq->got++ % DEPTH];
	return i;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	(void)solicited_only;
	((struct fake_cq *)cq)->armed = true;
	return 0;
}

/* --- posting ------------------------------------------------------------- */

static int post_recv(struct ibv_qp *ibv, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;

	for (; wr; wr = wr->next) {
		unsigned i = qp->rput % qp->most_receives;

		*bad = wr;
		if (qp->rput - qp->rgot >= qp->most_receives)
			return ENOMEM;
		qp->receives[i] = wr->num_sge ? wr->sg_list[0] : (struct ibv_sge){ 0 };
		qp->receive_ids[i] = wr->wr_id;
		qp->rput++;
	}
	return 0;
}

static int post_send(struct ibv_qp *ibv, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;

	for (; wr; wr = wr->next) {
		struct fake_send *s = &qp->sends[qp->sput % qp->most_sends];

		*bad = wr;
		if (qp->sput - qp->sgot >= qp->most_sends)
			return ENOMEM;
		s->wr = *wr;
		s->sge = wr->num_sge ? wr->sg_list[0] : (struct ibv_sge){ 0 };
		if (wr->send_flags & IBV_SEND_INLINE && wr->num_sge) {
			assert_true(s->sge.length <= INLINE);
			memcpy(s->data, (void *)(uintptr_t)s->sge.addr, s->sge.length);
			s->sge.addr = (uintptr_t)s->data;
		}
		if (ibv->qp_type == IBV_QPT_UD)
			memcpy(s->dgid, ((struct fake_ah *)wr->wr.ud.ah)->dgid, 16);
		qp->sput++;
	}
	return 0;
}

/* --- the network --------------------------------------------------------- */

static void check_key(uint32_t key, uint64_t addr, uint32_t len, int access)
{
	list_for(n, &mrs)
	{
		struct fake_mr *m = container_of(n, struct fake_mr, node);

		if (m->mr.rkey != key)
			continue;
		assert_true(m->access & access);
		assert_true(addr >= (uintptr_t)m->mr.addr &&
			    addr + len <= (uintptr_t)m->mr.addr + m->mr.length);
		return;
	}
	fail_msg("no memory has the key %u", key);
}

static void told(struct fake_qp *qp, const struct fake_send *s, enum ibv_wc_status status)
{
	struct ibv_wc wc = { .wr_id = s->wr.wr_id, .status = status };

	if (qp->signal_all || s->wr.send_flags & IBV_SEND_SIGNALED || status)
		push(qp->qp.send_cq, &wc);
}

/* Copies data of len bytes into qp's next receive, behind a GRH's place. */
static void receive(struct fake_qp *qp, const struct ibv_wc *wc, const void *data,
		    uint32_t len, uint32_t grh)
{
	unsigned i = qp->rgot++ % qp->most_receives;
	struct ibv_sge *sge = &qp->receives[i];
	struct ibv_wc full = *wc;

	if (len + grh) {
		check_key(sge->lkey, sge->addr, len + grh, IBV_ACCESS_LOCAL_WRITE);
		assert_true(len + grh <= sge->length);
		memcpy((uint8_t *)(uintptr_t)sge->addr + grh, data, len);
	}
	full.wr_id = qp->receive_ids[i];
	full.byte_len = len + grh;
	push(qp->qp.recv_cq, &full);
}

/* Writes a GRH; an IPv4 header is in the last 20 bytes of its place. */
static void write_grh(struct fake_qp *to, const uint8_t from[16])
{
	struct ibv_sge *sge = &to->receives[to->rgot % to->most_receives];
	uint8_t *grh = (uint8_t *)(uintptr_t)sge->addr;

	memset(grh, 0, GRH);
	if (addr_is_v4(from))
		memcpy(grh + 32, from + 12, 4);
	else
		memcpy(grh + 8, from, 16);
}

static struct fake_qp *qp_of(uint32_t qpn, const uint8_t ip[16])
{
	list_for(n, &qps)
	{
		struct fake_qp *qp = container_of(n, struct fake_qp, node);

		if (qp->qp.qp_num == qpn && !memcmp(qp->ip, ip, 16))
			return qp;
	}
	return NULL;
}

/* A datagram without such a QP, or a receive there, is lost. */
static void send_datagram(struct fake_qp *qp, struct fake_send *s)
{
	struct fake_qp *to = qp_of(s->wr.wr.ud.remote_qpn, s->dgid);
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };

	if (to && to->rgot != to->rput) {
		write_grh(to, qp->ip);
		receive(to, &wc, (void *)(uintptr_t)s->sge.addr, s->sge.length, GRH);
	}
	told(qp, s, IBV_WC_SUCCESS);
}

/* Executes a send. Returns false if the peer has no receive for it yet. */
static bool send_one(struct fake_qp *qp, struct fake_send *s)
{
	bool imm = s->wr.opcode == IBV_WR_RDMA_WRITE_WITH_IMM;
	bool send = s->wr.opcode == IBV_WR_SEND;
	struct ibv_wc wc = { .wc_flags = imm ? IBV_WC_WITH_IMM : 0,
			     .imm_data = s->wr.imm_data };
	struct fake_qp *to = qp->peer;

	if ((imm || send) && to->rgot == to->rput) {
		assert_false(fix.iwarp); /* on iWARP that would end the connection */
		return false;
	}
	if (!send && s->sge.length) {
		check_key(s->wr.wr.rdma.rkey, s->wr.wr.rdma.remote_addr, s->sge.length,
			  IBV_ACCESS_REMOTE_WRITE);
		memcpy((void *)(uintptr_t)s->wr.wr.rdma.remote_addr,
		       (void *)(uintptr_t)s->sge.addr, s->sge.length);
	}
	if (imm)
		receive(to, &wc, NULL, 0, 0);
	if (send)
		receive(to, &wc, (void *)(uintptr_t)s->sge.addr, s->sge.length, 0);
	told(qp, s, IBV_WC_SUCCESS);
	return true;
}

static void fail_qp(struct fake_qp *qp, enum ibv_wc_status status)
{
	struct ibv_wc wc = { .status = IBV_WC_WR_FLUSH_ERR };

	qp->failed = true;
	for (; qp->sgot != qp->sput; qp->sgot++) {
		told(qp, &qp->sends[qp->sgot % qp->most_sends], status);
		status = IBV_WC_WR_FLUSH_ERR;
	}
	for (; qp->rgot != qp->rput; qp->rgot++) {
		wc.wr_id = qp->receive_ids[qp->rgot % qp->most_receives];
		push(qp->qp.recv_cq, &wc);
	}
}

void fix_lose(enum ibv_wc_status status)
{
	list_for(n, &qps) fail_qp(container_of(n, struct fake_qp, node), status);
}

void fix_deliver(void)
{
	list_for(n, &qps)
	{
		struct fake_qp *qp = container_of(n, struct fake_qp, node);

		if (qp->sgot != qp->sput && (qp->failed || fix.lost))
			fail_qp(qp, fix.lost ? fix.lost : IBV_WC_WR_FLUSH_ERR);
		while (qp->sgot != qp->sput) {
			struct fake_send *s = &qp->sends[qp->sgot % qp->most_sends];

			if (qp->qp.qp_type == IBV_QPT_UD)
				send_datagram(qp, s);
			else if (!qp->peer || !send_one(qp, s))
				break;
			qp->sgot++;
		}
	}
}

void fix_link(struct ibv_qp *a, struct ibv_qp *b)
{
	((struct fake_qp *)a)->peer = (struct fake_qp *)b;
	((struct fake_qp *)b)->peer = (struct fake_qp *)a;
}

/* --- the calls ----------------------------------------------------------- */

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *context)
{
	struct fake_channel *ch = fix_may_make() ? calloc(1, sizeof(*ch)) : NULL;

	if (!ch)
		return NULL;
	ch->ch.context = context;
	ch->ch.fd = eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC);
	fix.channels++;
	return &ch->ch;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *ch)
{
	close(ch->fd);
	free(ch);
	fix.channels--;
	return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *context, int cqe, void *cq_context,
			     struct ibv_comp_channel *channel, int comp_vector)
{
	struct fake_cq *cq = fix_may_make() ? calloc(1, sizeof(*cq)) : NULL;

	(void)comp_vector;
	if (!cq)
		return NULL;
	assert_true(cqe > 0 && cqe <= DEPTH);
	cq->cq.context = context;
	cq->cq.channel = channel;
	cq->cq.cq_context = cq_context;
	cq->cq.cqe = cqe;
	fix.cqs++;
	return &cq->cq;
}

int ibv_destroy_cq(struct ibv_cq *cq)
{
	free(cq);
	fix.cqs--;
	return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *ibv, struct ibv_cq **cq, void **context)
{
	struct fake_channel *ch = (struct fake_channel *)ibv;
	eventfd_t one;

	if (eventfd_read(ibv->fd, &one))
		return -1;
	*cq = &ch->events[0]->cq;
	*context = (*cq)->cq_context;
	memmove(ch->events, ch->events + 1, --ch->n * sizeof(ch->events[0]));
	return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int nevents)
{
	(void)cq;
	(void)nevents;
}

struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	struct fake_mr *m = fix_may_make() ? calloc(1, sizeof(*m)) : NULL;

	if (!m)
		return NULL;
	next_key++;
	m->mr = (struct ibv_mr){ .pd = pd,
				 .addr = addr,
				 .length = length,
				 .lkey = next_key,
				 .rkey = next_key };
	m->access = access;
	list_add_tail(&mrs, &m->node);
	fix.mrs++;
	return &m->mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
				uint64_t iova, unsigned int access)
{
	assert_int_equal(iova, (uintptr_t)addr);
	return ibv_reg_mr(pd, addr, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	struct fake_mr *m = (struct fake_mr *)mr;

	list_del(&m->node);
	free(m);
	fix.mrs--;
	return 0;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *qp = fix_may_make() ? calloc(1, sizeof(*qp)) : NULL;

	if (!qp)
		return NULL;
	qp->qp = (struct ibv_qp){ .context = pd->context,
				  .pd = pd,
				  .send_cq = attr->send_cq,
				  .recv_cq = attr->recv_cq,
				  .qp_num = ++next_qpn,
				  .qp_type = attr->qp_type };
	qp->signal_all = attr->sq_sig_all;
	qp->most_sends = attr->cap.max_send_wr;
	qp->most_receives = attr->cap.max_recv_wr;
	qp->sends = calloc(qp->most_sends, sizeof(*qp->sends));
	qp->receives = calloc(qp->most_receives, sizeof(*qp->receives));
	qp->receive_ids = calloc(qp->most_receives, sizeof(*qp->receive_ids));
	assert_true(qp->sends && qp->receives && qp->receive_ids);
	if (attr->qp_type == IBV_QPT_UD)
		memcpy(qp->ip, container_of(pd, struct fake_port, pd)->ip, 16);
	list_add_tail(&qps, &qp->node);
	fix.qps++;
	return &qp->qp;
}

int ibv_destroy_qp(struct ibv_qp *ibv)
{
	struct fake_qp *qp = (struct fake_qp *)ibv;

	if (qp->peer) {
		qp->peer->peer = NULL;
		qp->peer->failed = true;
	}
	list_del(&qp->node);
	free(qp->sends);
	free(qp->receives);
	free(qp->receive_ids);
	free(qp);
	fix.qps--;
	return 0;
}

int ibv_modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	assert_true(mask & IBV_QP_STATE);
	qp->state = attr->qp_state;
	return 0;
}

struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct fake_ah *ah = fix_may_make() ? calloc(1, sizeof(*ah)) : NULL;

	if (!ah)
		return NULL;
	assert_true(attr->is_global);
	ah->ah.pd = pd;
	memcpy(ah->dgid, attr->grh.dgid.raw, 16);
	fix.ahs++;
	return &ah->ah;
}

int ibv_destroy_ah(struct ibv_ah *ah)
{
	free(ah);
	fix.ahs--;
	return 0;
}

/* Each address is a port of its own, but all of 127/8 is one. */
int rsock_rdma_port(const uint8_t ip[16], uint32_t ifindex, struct rsock_port *out)
{
	static const uint8_t lo[16] = { [10] = 0xff, 0xff, 127, 0, 0, 1 };
	static const uint8_t other[16] = { [10] = 0xff, 0xff, 192, 0, 2, 1 };
	struct fake_port *p = ports;

	(void)ifindex;
	if (addr_is_v4(ip) && addr_is_loopback(ip))
		ip = fix.stand_in ? other : lo;
	if (!fix_may_make())
		return -ENODEV;
	while (p < ports + nports && memcmp(p->ip, ip, 16))
		p++;
	if (p == ports + nports) {
		assert_true(nports < PORTS);
		nports++;
		memcpy(p->ip, ip, 16);
		p->pd.context = &contexts[0];
	}
	*out = (struct rsock_port){ .ctx = &contexts[0], .pd = &p->pd, .mtu = 1024 };
	memcpy(out->gid, ip, 16);
	return 0;
}

/* --- beginning ----------------------------------------------------------- */

struct ibv_context *fix_context(bool iwarp)
{
	return &contexts[iwarp];
}

struct ibv_pd *fix_pd(bool iwarp)
{
	return &pds[iwarp];
}

void fix_verbs_begin(void)
{
	list_init(&qps);
	list_init(&mrs);
	nports = 0;
	for (int i = 0; i < 2; i++) {
		devices[i].transport_type = i ? IBV_TRANSPORT_IWARP : IBV_TRANSPORT_IB;
		contexts[i] = (struct ibv_context){
			.device = &devices[i],
			.ops = { .poll_cq = poll_cq,
				 .req_notify_cq = req_notify_cq,
				 .post_send = post_send,
				 .post_recv = post_recv },
		};
		pds[i].context = &contexts[i];
	}
}
