/* SPDX-License-Identifier: BSD-2-Clause */
/* The engine's input: datagrams of any content, between work requests and the
 * passing of time, on an RC, a UC, a UD and an SRQ-fed RC QP that are in RTS.
 *
 * The input is a list of steps: a byte that says what (enum step, modulo), and
 * what that takes (STEP below).  Bytes that are missing are 0.  The world is
 * made anew for each input, so that an input does the same every time.
 *
 * Beside crashes it looks for: memory written that no peer may write, more
 * completions than requests, datagrams sent that are not well formed. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ib/ib.h"
#include "input.h"
#include "must.h"
#include "net/batch.h"
#include "net/ip_addr.h"
#include "net/roce.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/cq.h"
#include "verbs/due.h"
#include "verbs/event.h"
#include "verbs/mr.h"
#include "verbs/netport.h"
#include "verbs/qp.h"
#include "verbs/transport.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"
#include "wire/icrc.h"

enum step {
	PACKET,	   /* how (enum how), length (2, big-endian), BTH ... */
	RECV,	   /* bits 0-1: QP; 2-7: SGE length in units of 64 */
	SEND,	   /* bits 0-1: QP; 2-5: kind; then length in units of 16 */
	TIME,	   /* bits 0-4: 2^n microseconds, 2^22 at most */
	TAKE_SOME, /* sends what is due, but the link takes only the first n datagrams */
	POLL,	   /* polls the CQs */
	STEPS
};

/* flags of a PACKET */
enum how {
	HOW_QP = 3,	   /* which: put into the BTH */
	HOW_RAW = 4,	   /* the destination QP stays as it is */
	HOW_KEY = 8,	   /* RETH and AtomicETH get the region's key */
	HOW_STRANGER = 16, /* the packet comes from another address */
	HOW_BAD_CRC = 32,  /* the input's last four bytes are the ICRC */
	HOW_ID = 64, /* sealed with identification 1, which the link reports as exact */
	HOW_READ_ONLY = 128, /* HOW_KEY: the read-only region's */
};

enum {
	QPS = 4,
	REGION = 4096,
	MTU = 256,
	PKT_MAX = 2 * MTU,
	BASE_PSN = 0,
	PEER_QPN = 0x11,
	QKEY = 0x11111111,
	WRS = 8
};

static const uint8_t us[16] = { [10] = 0xff, 0xff, 10, 0, 0, 1 };
static const uint8_t peer[16] = { [10] = 0xff, 0xff, 10, 0, 0, 2 };

struct world {
	struct core core;
	struct device *dev;
	struct ibv_context ibv;
	struct context ctx;
	struct pd *pd, *other_pd;
	struct cq *cq;
	struct srq *srq;
	struct qp *qp[QPS];
	uint8_t *open, *read_only, *local, *foreign; /* REGION bytes each */
	struct mr *open_mr, *read_only_mr, *local_mr, *foreign_mr;
	struct ah *ah;
	struct link wire, *link; /* link: around wire */
	struct dgram coming;	 /* the datagram that wire gives next */
	struct batch *batch;
	struct part {
		struct qp *qp;
		unsigned first, n;
	} part[QPS];
	unsigned parts;
	uint64_t now;
	unsigned posted, completed;
};

static int wire_recv(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct world *w = container_of(link, struct world, wire);

	(void)n;
	(void)now;
	*v = w->coming;
	v->iov = &v->one;
	return 1;
}

static void wire_close(struct link *link)
{
	(void)link;
}

enum { PORT_FROM = 0xc001 };

static const struct link_ops wire_ops = { .recv = wire_recv, .close = wire_close };

/* --- the world ----------------------------------------------------------- */

/* A region whose first byte has the address 0. */
static uint8_t *region(struct pd *pd, int access, struct mr **mr)
{
	uint8_t *at = malloc(REGION);

	MUST(at);
	memset(at, 0xa5, REGION);
	MUST(mr_reg(pd, at, REGION, 0, access, mr) == 0);
	return at;
}

static void open_device(struct world *w)
{
	static const struct netdev net = {
		.name = "fuzz0",
		.ifindex = 1,
		.mac = { 2, 0, 0, 0, 0, 1 },
		.mtu = 1500,
		.payload = 1416,
		.running = true,
		.naddrs = 1,
		.addr = { { { [10] = 0xff, 0xff, 10, 0, 0, 1 } } },
	};
	static const struct identity id = { .fw_ver = "1" };

	MUST(core_init(&w->core, 5) == 0);
	MUST(ib_open(&w->core, 1) == 0);
	MUST(device_create(&device_roce, &net, &id, &w->dev) == 0);
	w->dev->core = &w->core;
	w->ctx.core = &w->core;
	w->ctx.dev = w->dev;
	w->ctx.ibv = &w->ibv;
	w->ibv.device = &w->dev->ibv;
	list_init(&w->ctx.node);
	MUST(event_queue_init(&w->ctx.async) == 0);
	fcntl(w->ctx.async.fd, F_SETFL, O_NONBLOCK);
}

static const struct ibv_ah_attr to_peer = {
	.is_global = 1,
	.port_num = 1,
	.grh = { .dgid.raw = { [10] = 0xff, 0xff, 10, 0, 0, 2 },
		 .sgid_index = 1,
		 .hop_limit = 64 },
};

static void bring(struct world *w, struct qp *qp)
{
	struct ibv_qp_attr a = {
		.port_num = 1,
		.qkey = QKEY,
		.qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
				   IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC,
		.path_mtu = IBV_MTU_256,
		.dest_qp_num = PEER_QPN,
		.rq_psn = BASE_PSN,
		.sq_psn = BASE_PSN,
		.max_dest_rd_atomic = 4,
		.max_rd_atomic = 4,
		.min_rnr_timer = 12,
		.timeout = 14,
		.retry_cnt = 3,
		.rnr_retry = 3,
		.ah_attr = to_peer,
	};
	bool ud = qp->type == IBV_QPT_UD, rc = qp->type == IBV_QPT_RC;

	a.qp_state = IBV_QPS_INIT;
	MUST(qp_modify(qp, &a,
		       IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
			       (ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS),
		       w->now) == 0);
	a.qp_state = IBV_QPS_RTR;
	MUST(qp_modify(qp, &a,
		       ud ? IBV_QP_STATE
			  : IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				       IBV_QP_RQ_PSN |
				       (rc ? IBV_QP_MAX_DEST_RD_ATOMIC |
							IBV_QP_MIN_RNR_TIMER
					   : 0),
		       w->now) == 0);
	a.qp_state = IBV_QPS_RTS;
	MUST(qp_modify(qp, &a,
		       IBV_QP_STATE | IBV_QP_SQ_PSN |
			       (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT |
						IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC
				   : 0),
		       w->now) == 0);
}

static struct world *world_open(void)
{
	static const enum ibv_qp_type type[QPS] = {
		IBV_QPT_RC,
		IBV_QPT_UC,
		IBV_QPT_UD,
		IBV_QPT_RC,
	};
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 2 } };
	struct world *w = calloc(1, sizeof(*w));
	int all = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
		  IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;

	MUST(w);
	w->now = 1000000000;
	w->wire = (struct link){ .ops = &wire_ops, .run_max = 4, .mtu = 9000 };
	MUST(roce_wrap(&w->link, &w->wire, 4791) == 0);
	w->batch = calloc(1, sizeof(*w->batch));
	MUST(w->batch);
	roce_leaves_from(w->link, PORT_FROM);
	w->ctx.link = w->link;
	batch_reset(w->batch);
	open_device(w);
	MUST(pd_alloc(&w->core, &w->ibv, &w->pd) == 0);
	MUST(pd_alloc(&w->core, &w->ibv, &w->other_pd) == 0);
	w->open = region(w->pd, all, &w->open_mr);
	w->read_only = region(w->pd, IBV_ACCESS_REMOTE_READ, &w->read_only_mr);
	w->local = region(w->pd, IBV_ACCESS_LOCAL_WRITE, &w->local_mr);
	w->foreign = region(w->other_pd, all, &w->foreign_mr);
	MUST(cq_create(&w->ctx, 256, NULL, NULL, &w->cq) == 0);
	MUST(srq_create(&w->ctx, w->pd, &srq, &w->srq) == 0);
	MUST(ah_create(w->pd, &w->ctx, &to_peer, &w->ah) == 0);
	for (int i = 0; i < QPS; i++) {
		struct ibv_qp_init_attr_ex a = {
			.send_cq = (struct ibv_cq *)&w->cq->ex,
			.recv_cq = (struct ibv_cq *)&w->cq->ex,
			.srq = i == 3 ? &w->srq->ibv : NULL,
			.cap = { .max_send_wr = WRS,
				 .max_recv_wr = WRS,
				 .max_send_sge = 2,
				 .max_recv_sge = 2 },
			.qp_type = type[i],
			.sq_sig_all = 1,
			.comp_mask = IBV_QP_INIT_ATTR_PD,
			.pd = &w->pd->ibv,
		};

		MUST(qp_create(&w->ctx, &a, &ib_transport, &w->qp[i]) == 0);
		bring(w, w->qp[i]);
	}
	return w;
}

static void drain_events(struct world *w)
{
	struct ibv_async_event ev;

	while (async_get(&w->ctx, &ev) == 0)
		async_ack(&ev);
}

static void poll_cq(struct world *w)
{
	struct ibv_wc wc[16];
	int n;

	while ((n = cq_poll(w->cq, 16, wc)) > 0)
		w->completed += (unsigned)n;
	MUST(w->completed <= w->posted);
	drain_events(w);
}

static void must_be_untouched(const uint8_t *at)
{
	for (int i = 0; i < REGION; i++)
		MUST(at[i] == 0xa5);
}

static void world_close(struct world *w)
{
	poll_cq(w);
	must_be_untouched(w->read_only);
	must_be_untouched(w->foreign);
	for (int i = 0; i < QPS; i++)
		MUST(qp_destroy(w->qp[i]) == 0);
	drain_events(w);
	MUST(ah_destroy(w->ah) == 0);
	MUST(srq_destroy(w->srq) == 0);
	MUST(cq_destroy(w->cq) == 0);
	MUST(mr_dereg(w->open_mr) == 0 && mr_dereg(w->read_only_mr) == 0);
	MUST(mr_dereg(w->local_mr) == 0 && mr_dereg(w->foreign_mr) == 0);
	MUST(pd_free(w->pd) == 0 && pd_free(w->other_pd) == 0);
	event_queue_fini(&w->ctx.async);
	list_del(&w->dev->node);
	free(w->dev);
	w->link->ops->close(w->link);
	ib_close(&w->core);
	core_fini(&w->core);
	free(w->open);
	free(w->read_only);
	free(w->local);
	free(w->foreign);
	free(w->batch);
	free(w);
}

/* --- what goes out ------------------------------------------------------- */

static void check_sent(const struct dgram *d)
{
	uint8_t bytes[IB_HDR_MAX + PKT_MAX + 8]; /* pad and ICRC */
	struct icrc_path path = { .sport = PORT_FROM, .dport = 4791 };
	struct ib_pkt pkt;
	size_t n = 0;

	MUST(d->iovcnt > 0 && d->iovcnt <= DGRAM_IOV_MAX && d->len <= sizeof(bytes));
	for (unsigned i = 0; i < d->iovcnt; i++) {
		MUST(d->iov[i].iov_len <= sizeof(bytes) - n);
		memcpy(bytes + n, d->iov[i].iov_base, d->iov[i].iov_len);
		n += d->iov[i].iov_len;
	}
	MUST(n == d->len && n % 4 == 0);
	MUST(memcmp(ip_of(d)->from.ip, us, 16) == 0 &&
	     memcmp(ip_of(d)->to.ip, peer, 16) == 0);
	/* The link fills in the ports when it sends. */
	MUST(ip_of(d)->from.port == 0 && ip_of(d)->to.port == 0);
	MUST(ib_parse(&pkt, bytes, n - ICRC_LEN) == 0);
	MUST(pkt.payload_len <= MTU);
	memcpy(path.src, ip_of(d)->from.ip, 16);
	memcpy(path.dst, ip_of(d)->to.ip, 16);
	MUST(icrc_start(&path, (uint16_t)d->ip_id, n, bytes, n - ICRC_LEN) ==
	     icrc_get(bytes + n - ICRC_LEN));
}

/* The link takes the first `taken` datagrams, as in the engine's commit(). */
static void flush(struct world *w, unsigned taken)
{
	struct batch *b = w->batch;

	for (unsigned i = 0; i < b->n; i++)
		check_sent(&b->v[i]);
	for (unsigned i = 0; i < w->parts; i++) {
		struct part *p = &w->part[i];
		unsigned got = taken < p->first ? 0 : taken - p->first;

		lock_take(&p->qp->lock);
		p->qp->transport->commit(p->qp, p->first, got < p->n ? got : p->n,
					 w->now);
		lock_give(&p->qp->lock);
		if (got < p->n)
			due_add(&w->core, p->qp);
	}
	w->parts = 0;
	batch_reset(b);
}

static void plan(struct world *w, struct qp *qp)
{
	unsigned first = w->batch->n;
	bool more;

	lock_take(&qp->lock);
	qp->transport->run(qp, w->now);
	more = qp->transport->output(qp, w->batch, w->now);
	if (w->batch->n == first)
		qp->transport->run(qp, w->now);
	lock_give(&qp->lock);
	if (more)
		due_add(&w->core, qp);
	if (w->batch->n > first)
		w->part[w->parts++] = (struct part){ qp, first, w->batch->n - first };
}

/* Bounded, since a QP that moves no data may be due for ever. */
static void work(struct world *w, unsigned taken)
{
	turn_take(&w->core.turn);
	for (int round = 0; round < 64 && due_any(&w->core); round++) {
		struct qp *due[QPS];
		unsigned n = 0;

		while (n < QPS && (due[n] = due_next(&w->core)))
			n++;
		for (unsigned i = 0; i < n; i++)
			plan(w, due[i]);
		flush(w, taken);
		taken = UINT32_MAX;
	}
	turn_give(&w->core.turn);
}

/* --- steps --------------------------------------------------------------- */

static void fix_key(uint8_t *bth, size_t len, uint32_t rkey)
{
	uint8_t hdr[IB_HDR_MAX];
	struct ib_pkt pkt;
	size_t n;

	if (ib_parse(&pkt, bth, len) ||
	    !(ib_has(&pkt, IB_RETH) || ib_has(&pkt, IB_ATOMICETH)))
		return;
	pkt.f.rkey = rkey;
	n = ib_build(hdr, &pkt.f);
	memcpy(bth + sizeof(struct bth), hdr + sizeof(struct bth),
	       n - sizeof(struct bth));
}

static void step_packet(struct world *w, struct input *in)
{
	unsigned how = take(in, 1), len = 16 + take(in, 2) % (PKT_MAX - 15);
	struct dgram got;
	size_t left = (size_t)(in->end - in->at), n = left < len ? left : len;
	uint8_t *bytes = calloc(1, len); /* exactly of its size, for ASan */
	struct icrc_path path = { .sport = 0xc002, .dport = 4791 };
	struct dgram d = {
		.len = len,
		.iovcnt = 1,
		.ip_id = how & HOW_ID ? 1 : -1,
		.ip_id_exact = how & HOW_ID,
	};
	be24_t qpn = be24(w->qp[how & HOW_QP]->qpn);

	MUST(bytes);
	memcpy(bytes, in->at, n);
	in->at += n;
	*ip_of(&d) = (struct ip_addr){
		.from.port = 0xc002,
		.to.port = 4791,
		.ttl = 64,
	};
	memcpy(ip_of(&d)->from.ip, peer, 16);
	memcpy(ip_of(&d)->to.ip, us, 16);
	if (how & HOW_STRANGER)
		ip_of(&d)->from.ip[15] = 3;
	if (!(how & HOW_RAW))
		memcpy(bytes + offsetof(struct bth, dest_qp), &qpn, 3);
	if (how & HOW_KEY)
		fix_key(bytes, len - ICRC_LEN,
			how & HOW_READ_ONLY ? w->read_only_mr->mkey.key
					    : w->open_mr->mkey.key);
	memcpy(path.src, ip_of(&d)->from.ip, 16);
	memcpy(path.dst, ip_of(&d)->to.ip, 16);
	if (!(how & HOW_BAD_CRC))
		icrc_end(icrc_start(&path, how & HOW_ID ? 1 : 0, len, bytes,
				    len - ICRC_LEN),
			 bytes + len - ICRC_LEN);
	w->coming = d;
	w->coming.one = (struct iovec){ bytes, len };
	turn_take(&w->core.turn);
	MUST(w->link->ops->recv(w->link, &got, 1, w->now) == 1);
	ib_input(&w->core, &got, w->now);
	turn_give(&w->core.turn);
	free(bytes);
	work(w, UINT32_MAX);
}

static void step_recv(struct world *w, struct input *in)
{
	unsigned b = take(in, 1), len = (b >> 2) * 64;
	struct ibv_sge sge[2] = {
		{ 0, len / 2, w->local_mr->ibv.lkey },
		{ len / 2, len - len / 2, w->local_mr->ibv.lkey },
	};
	struct ibv_recv_wr wr = { .sg_list = sge, .num_sge = 2 }, *bad;
	struct qp *qp = w->qp[b & 3];

	if ((qp->srq ? srq_post(w->srq, &wr, &bad) : qp_post_recv(qp, &wr, &bad)) >= 0)
		w->posted++;
	due_add(&w->core, qp);
	work(w, UINT32_MAX);
}

static void step_send(struct world *w, struct input *in)
{
	/* clang-format off */
	static const enum ibv_wr_opcode kind[16] = {
		IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_SEND_WITH_INV,
		IBV_WR_RDMA_WRITE, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_CMP_AND_SWP, IBV_WR_ATOMIC_FETCH_AND_ADD,
		IBV_WR_LOCAL_INV, IBV_WR_RDMA_READ, IBV_WR_SEND, IBV_WR_RDMA_WRITE,
	};
	/* clang-format on */
	unsigned b = take(in, 1), len = take(in, 1) * 16;
	struct qp *qp = w->qp[b & 3];
	struct ibv_sge sge = { 0, len, w->local_mr->ibv.lkey };
	struct ibv_send_wr wr = { .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = kind[b >> 2 & 15] },
			   *bad;

	if (wr.opcode == IBV_WR_ATOMIC_CMP_AND_SWP ||
	    wr.opcode == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		sge.length = 8;
		wr.wr.atomic.rkey = 0x1234;
	} else if (qp->type == IBV_QPT_UD) {
		if (sge.length > MTU)
			sge.length = MTU;
		wr.wr.ud.ah = &w->ah->ibv;
		wr.wr.ud.remote_qpn = PEER_QPN;
		wr.wr.ud.remote_qkey = QKEY;
	} else {
		wr.wr.rdma.rkey = 0x1234;
	}
	wr.send_flags = b & 64 ? IBV_SEND_FENCE : 0;
	if (qp_post_send(qp, &wr, &bad) == 0)
		w->posted++;
	due_add(&w->core, qp);
	work(w, UINT32_MAX);
}

static void step_time(struct world *w, struct input *in)
{
	unsigned n = take(in, 1) & 31;

	w->now += UINT64_C(1000) << (n < 22 ? n : 22);
	for (int i = 0; i < QPS; i++)
		due_add(&w->core, w->qp[i]);
	work(w, UINT32_MAX);
}

static void step_take_some(struct world *w, struct input *in)
{
	for (int i = 0; i < QPS; i++)
		due_add(&w->core, w->qp[i]);
	work(w, take(in, 1) % 8);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, data + size };
	struct world *w;

	if (size > 8192)
		return 0;
	log_level = LOG_ERROR;
	w = world_open();
	while (in.at < in.end) {
		switch ((enum step)(take(&in, 1) % STEPS)) {
		case PACKET:
			step_packet(w, &in);
			break;
		case RECV:
			step_recv(w, &in);
			break;
		case SEND:
			step_send(w, &in);
			break;
		case TIME:
			step_time(w, &in);
			break;
		case TAKE_SOME:
			step_take_some(w, &in);
			break;
		case POLL:
			poll_cq(w);
			break;
		case STEPS:
			break;
		}
	}
	world_close(w);
	return 0;
}
