/* SPDX-License-Identifier: BSD-2-Clause */
/* tags - tag matching by what programs call: two processes, or one with both ends.
 *
 * Each end has an SRQ with tags and a QP; it receives what the other sends, eager
 * messages and rendezvous of many sizes, by tags in another order than they were added,
 * and unexpected ones; all bytes are checked.  Then data that may not be read, at both.
 */
#include <endian.h>
#include <err.h>
#include <infiniband/tm_types.h>
#include <infiniband/verbs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../stress/peer.h"

#define CHECK(cond)                                                                      \
	do {                                                                             \
		if (!(cond))                                                             \
			errx(1, "%s:%d: %s does not hold", __FILE__, __LINE__, #cond);   \
	} while (0)

enum {
	TAGS = 24,
	ROUNDS = 20,
	SLOT = 70000,
	MEM = TAGS * SLOT,
	SMALL = 8192, /* length of a receive for unexpected messages */
	SMALLS = 64,
	FIRST_WR = 1000,
	WAIT_S = 30,
};

struct card {
	uint32_t qpn, rkey;
	uint64_t addr;
	union ibv_gid gid;
};

struct end {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *scq;
	struct ibv_cq_ex *cq;
	struct ibv_srq *srq;
	struct ibv_qp *qp;
	struct ibv_mr *out_mr, *in_mr, *small_mr;
	uint8_t *out, *in, *small;
	struct card mine, theirs;
	uint32_t unexpected;
	uint32_t len[TAGS]; /* length of the message for each tag */
	int gid_index;
};

struct wc {
	uint64_t wr_id, tag;
	enum ibv_wc_status status;
	enum ibv_wc_opcode opcode;
	unsigned flags;
	uint32_t len, priv;
};

/* --- objects --------------------------------------------------------------- */

static struct ibv_context *open_named(const char *name)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = NULL;

	CHECK(list);
	for (int i = 0; list[i] && !ctx; i++)
		if (!strcmp(ibv_get_device_name(list[i]), name))
			ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!ctx)
		errx(1, "cannot open %s", name);
	return ctx;
}

static uint8_t *memory(struct end *e, size_t n, unsigned access, struct ibv_mr **mr)
{
	uint8_t *at = aligned_alloc(4096, (n + 4095) / 4096 * 4096);

	CHECK(at);
	*mr = ibv_reg_mr(e->pd, at, n, access);
	CHECK(*mr);
	return at;
}

static void make(struct end *e, const char *device, int gid_index)
{
	struct ibv_cq_init_attr_ex ca = {
		.cqe = 1000, .wc_flags = IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_TM_INFO
	};
	struct ibv_srq_init_attr_ex sa = {
		.attr = { .max_wr = SMALLS, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.tm_cap = { .max_num_tags = TAGS, .max_ops = 16 },
	};
	struct ibv_qp_init_attr qa = { .qp_type = IBV_QPT_RC,
				       .cap = { .max_send_wr = 32, .max_send_sge = 1 } };
	struct ibv_device_attr_ex attr;

	e->gid_index = gid_index;
	e->ctx = open_named(device);
	CHECK(!ibv_query_device_ex(e->ctx, NULL, &attr));
	CHECK(attr.tm_caps.flags & IBV_TM_CAP_RC && attr.tm_caps.max_num_tags >= TAGS);
	e->pd = ibv_alloc_pd(e->ctx);
	CHECK(e->pd);
	e->scq = ibv_create_cq(e->ctx, 1000, NULL, NULL, 0);
	e->cq = ibv_create_cq_ex(e->ctx, &ca);
	CHECK(e->scq && e->cq);
	sa.pd = e->pd;
	sa.cq = ibv_cq_ex_to_cq(e->cq);
	e->srq = ibv_create_srq_ex(e->ctx, &sa);
	CHECK(e->srq);
	qa.send_cq = qa.recv_cq = e->scq;
	qa.srq = e->srq;
	e->qp = ibv_create_qp(e->pd, &qa);
	CHECK(e->qp);
	e->out = memory(e, MEM, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ,
			&e->out_mr);
	e->in = memory(e, MEM, IBV_ACCESS_LOCAL_WRITE, &e->in_mr);
	e->small = memory(e, SMALLS * SMALL, IBV_ACCESS_LOCAL_WRITE, &e->small_mr);
	e->mine = (struct card){ .qpn = e->qp->qp_num,
				 .rkey = e->out_mr->rkey,
				 .addr = (uintptr_t)e->out };
	CHECK(!ibv_query_gid(e->ctx, 1, gid_index, &e->mine.gid));
}

static void connect_qp(struct end *e)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qp_access_flags = IBV_ACCESS_REMOTE_READ,
		.path_mtu = IBV_MTU_1024,
		.dest_qp_num = e->theirs.qpn,
		.max_dest_rd_atomic = 8,
		.max_rd_atomic = 8,
		.min_rnr_timer = 1,
		.timeout = 16, /* 2 s in all: the other end shares its processor */
		.retry_cnt = 7,
		.rnr_retry = 7,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = e->theirs.gid,
				      .sgid_index = (uint8_t)e->gid_index,
				      .hop_limit = 64 } },
	};

	CHECK(!ibv_modify_qp(e->qp, &a,
			     IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				     IBV_QP_ACCESS_FLAGS));
	a.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(e->qp, &a,
			     IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU |
				     IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
				     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER));
	a.qp_state = IBV_QPS_RTS;
	CHECK(!ibv_modify_qp(e->qp, &a,
			     IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT |
				     IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				     IBV_QP_MAX_QP_RD_ATOMIC));
}

static void drop(struct end *e)
{
	CHECK(!ibv_destroy_qp(e->qp) && !ibv_destroy_srq(e->srq));
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(e->cq)) && !ibv_destroy_cq(e->scq));
	CHECK(!ibv_dereg_mr(e->out_mr) && !ibv_dereg_mr(e->in_mr) &&
	      !ibv_dereg_mr(e->small_mr));
	CHECK(!ibv_dealloc_pd(e->pd) && !ibv_close_device(e->ctx));
	free(e->out);
	free(e->in);
	free(e->small);
}

/* --- steps ----------------------------------------------------------------- */

/* The length of a round's message for a tag; both ends compute the same. */
static uint32_t length_of(int round, int tag)
{
	uint32_t x = (uint32_t)(round * 7919 + tag * 104729);

	return tag % 3 == 0 ? x % 40 : tag % 3 == 1 ? x % 5000 : x % SLOT;
}

static uint8_t byte_of(int round, int tag, uint32_t i)
{
	return (uint8_t)((uint32_t)(round * 31 + tag * 17) + i * 7 + i / 256);
}

static int is_eager(int round, int tag)
{
	return (round + tag) % 2 == 0;
}

static void receive(struct end *e, uint64_t i)
{
	struct ibv_sge sge = { (uintptr_t)e->small + i * SMALL, SMALL,
			       e->small_mr->lkey };
	struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

	CHECK(!ibv_post_srq_recv(e->srq, &wr, &bad));
}

static uint32_t add(struct end *e, int tag, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)e->in + (size_t)tag * SLOT, len,
			       e->in_mr->lkey };
	struct ibv_ops_wr *bad, wr = {
		.opcode = IBV_WR_TAG_ADD,
		.flags = IBV_OPS_TM_SYNC,
		.tm = { .unexpected_cnt = e->unexpected,
			.add = { .recv_wr_id = FIRST_WR + (uint64_t)tag,
				 .sg_list = &sge,
				 .num_sge = 1,
				 .tag = 0x1234567800000000 + (uint64_t)tag,
				 .mask = UINT64_MAX } },
	};

	CHECK(!ibv_post_srq_ops(e->srq, &wr, &bad));
	return wr.tm.handle;
}

/* The message for a tag: TMH and data, or TMH and RVH. */
static void send(struct end *e, int round, int tag, uint32_t len, uint32_t rkey)
{
	uint8_t *at = e->out + (size_t)tag * SLOT;
	struct ibv_sge sge = { (uintptr_t)at, len + 16, e->out_mr->lkey };
	struct ibv_send_wr *bad, wr = { .wr_id = (uint64_t)tag,
					.opcode = IBV_WR_SEND,
					.sg_list = &sge,
					.num_sge = 1,
					.send_flags = IBV_SEND_SIGNALED };
	struct ibv_tmh h = { .opcode =
				     is_eager(round, tag) ? IBV_TMH_EAGER : IBV_TMH_RNDV,
			     .app_ctx = htobe32((uint32_t)round),
			     .tag = htobe64(0x1234567800000000 + (uint64_t)tag) };
	struct ibv_rvh r = { .va = htobe64((uintptr_t)at + 32),
			     .rkey = htobe32(rkey),
			     .len = htobe32(len) };
	const uint32_t head = is_eager(round, tag) ? 16 : 32;

	memcpy(at, &h, sizeof(h));
	memcpy(at + 16, &r, head - 16);
	for (uint32_t i = 0; i < len; i++)
		at[head + i] = byte_of(round, tag, i);
	if (head == 32)
		sge.length = 32;
	CHECK(!ibv_post_send(e->qp, &wr, &bad));
}

static int try_poll(struct end *e, struct wc *wc)
{
	struct ibv_poll_cq_attr none = { 0 };
	struct ibv_wc_tm_info info;
	int rc = ibv_start_poll(e->cq, &none);

	CHECK(rc == 0 || rc == ENOENT);
	if (rc)
		return 0;
	ibv_wc_read_tm_info(e->cq, &info);
	*wc = (struct wc){ .wr_id = e->cq->wr_id,
			   .status = e->cq->status,
			   .opcode = ibv_wc_read_opcode(e->cq),
			   .flags = ibv_wc_read_wc_flags(e->cq),
			   .len = ibv_wc_read_byte_len(e->cq),
			   .tag = info.tag,
			   .priv = info.priv };
	ibv_end_poll(e->cq);
	return 1;
}

static void wait_for(struct end *e, struct wc *wc)
{
	time_t until = time(NULL) + WAIT_S;

	while (!try_poll(e, wc))
		if (time(NULL) > until)
			errx(1, "no completion within %d s", WAIT_S);
}

static void wait_send(struct end *e, struct ibv_wc *wc)
{
	time_t until = time(NULL) + WAIT_S;

	while (!ibv_poll_cq(e->scq, 1, wc))
		if (time(NULL) > until)
			errx(1, "no completion of a send within %d s", WAIT_S);
}

/* --- rounds ---------------------------------------------------------------- */

struct seen {
	int matched, valid, fins;
};

static void look_at(struct end *e, const struct wc *wc, int round, struct seen *seen)
{
	int tag = (int)(wc->wr_id - FIRST_WR);

	CHECK(wc->status == IBV_WC_SUCCESS);
	/* The FIN of a rendezvous that this side has sent. */
	if (wc->opcode == IBV_WC_TM_NO_TAG) {
		struct ibv_tmh h;

		memcpy(&h, e->small + wc->wr_id * SMALL, sizeof(h));
		CHECK(wc->len == 16 && h.opcode == IBV_TMH_FIN);
		CHECK(be32toh(h.app_ctx) == (uint32_t)round);
		receive(e, wc->wr_id);
		seen->fins++;
		return;
	}
	CHECK(wc->opcode == IBV_WC_TM_RECV && tag >= 0 && tag < TAGS);
	if (wc->flags & IBV_WC_TM_MATCH) {
		CHECK(wc->tag == 0x1234567800000000 + (uint64_t)tag);
		CHECK(wc->priv == (uint32_t)round);
		seen->matched++;
	}
	if (!(wc->flags & IBV_WC_TM_DATA_VALID))
		return;
	seen->valid++;
	CHECK(wc->len == e->len[tag]);
	for (uint32_t i = 0; i < wc->len; i++)
		CHECK(e->in[(size_t)tag * SLOT + i] == byte_of(round, tag, i));
}

static int rendezvous(int round)
{
	int n = 0;

	for (int tag = 0; tag < TAGS; tag++)
		n += !is_eager(round, tag);
	return n;
}

static void prepare(struct end *e, int round)
{
	for (int tag = 0; tag < TAGS; tag++) {
		e->len[tag] = length_of(round, tag);
		if (e->len[tag] > SLOT - 32)
			e->len[tag] = SLOT - 32;
		add(e, tag, e->len[tag]);
	}
}

static void post_round(struct end *e, int round)
{
	for (int i = 0; i < TAGS; i++) {
		int tag = (i * 7 + round) % TAGS;

		send(e, round, tag, e->len[tag], e->mine.rkey);
	}
}

static void finish_round(struct end *e, int round)
{
	struct seen seen = { 0 };
	struct ibv_wc sent;
	struct wc wc;

	while (seen.valid < TAGS || seen.matched < TAGS ||
	       seen.fins < rendezvous(round)) {
		wait_for(e, &wc);
		look_at(e, &wc, round, &seen);
	}
	for (int i = 0; i < TAGS; i++) {
		wait_send(e, &sent);
		CHECK(sent.status == IBV_WC_SUCCESS && sent.opcode == IBV_WC_SEND);
	}
	CHECK(!ibv_poll_cq(e->scq, 1, &sent));
}

/* Sent before the tag is added: the program receives the message, and the tags become
 * active when the program has said that it knows. */
static void send_unexpected(struct end *e)
{
	send(e, 0, 0, 100, e->mine.rkey);
}

static void take_unexpected(struct end *e)
{
	struct ibv_ops_wr *bad, del = { .wr_id = 9, .opcode = IBV_WR_TAG_DEL };
	struct ibv_wc sent;
	struct ibv_tmh h;
	struct wc wc;

	wait_for(e, &wc);
	CHECK(wc.opcode == IBV_WC_TM_RECV && wc.flags == 0 && wc.len == 116);
	memcpy(&h, e->small + wc.wr_id * SMALL, sizeof(h));
	CHECK(be64toh(h.tag) == 0x1234567800000000);
	CHECK(e->small[wc.wr_id * SMALL + 16 + 99] == byte_of(0, 0, 99));
	receive(e, wc.wr_id);
	e->unexpected++;
	wait_send(e, &sent);
	del.tm.handle = add(e, 3, 10);
	del.flags = IBV_OPS_SIGNALED;
	CHECK(!ibv_post_srq_ops(e->srq, &del, &bad));
	wait_for(e, &wc);
	CHECK(wc.opcode == IBV_WC_TM_DEL && wc.status == IBV_WC_SUCCESS && wc.wr_id == 9);
	CHECK(!ibv_post_srq_ops(e->srq, &del, &bad));
	wait_for(e, &wc);
	CHECK(wc.opcode == IBV_WC_TM_DEL && wc.status == IBV_WC_TM_ERR);
}

/* a names data that b may not read: b's READ is refused by a, and both QPs end.
 *
 * Only where the link loses nothing: a QP in the error state is silent (IBTA 10.3.1.5),
 * so a lost NAK leaves b with RETRY_EXC, and a's SEND is flushed where its ACK was lost
 * or comes after the READ. */
static void refuse_at_sender(struct end *e)
{
	struct ibv_async_event ev;
	struct ibv_wc sent;

	send(e, 1, 0, 100, e->mine.rkey ^ 0xff);
	wait_send(e, &sent);
	CHECK(sent.status == IBV_WC_SUCCESS);
	do {
		CHECK(!ibv_get_async_event(e->ctx, &ev));
		ibv_ack_async_event(&ev);
	} while (ev.event_type != IBV_EVENT_QP_ACCESS_ERR);
}

static void refuse_at_receiver(struct end *e)
{
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr a;
	struct wc wc;

	wait_for(e, &wc);
	CHECK(wc.opcode == IBV_WC_TM_RECV && wc.flags == IBV_WC_TM_MATCH);
	wait_for(e, &wc);
	CHECK(wc.status == IBV_WC_REM_ACCESS_ERR && wc.wr_id == FIRST_WR);
	CHECK(!ibv_query_qp(e->qp, &a, IBV_QP_STATE, &init));
	CHECK(a.qp_state == IBV_QPS_ERR);
}

/* --- who plays what -------------------------------------------------------- */

static struct end ends[2];
static int here = 2, sock = -1; /* in one process both ends are here */
static int lossy;

static void each(void (*fn)(struct end *e))
{
	for (int i = 0; i < here; i++)
		fn(&ends[i]);
}

static void each_of(void (*fn)(struct end *e, int round), int round)
{
	for (int i = 0; i < here; i++)
		fn(&ends[i], round);
}

static void in_step(void)
{
	char c = 0;

	if (sock >= 0)
		peer_swap(sock, &c, &c, 1);
}

static void meet(void)
{
	if (here == 2) {
		ends[0].theirs = ends[1].mine;
		ends[1].theirs = ends[0].mine;
	} else {
		peer_swap(sock, &ends[0].mine, &ends[0].theirs, sizeof(struct card));
	}
}

static void small_receives(struct end *e)
{
	for (uint64_t i = 0; i < SMALLS; i++)
		receive(e, i);
}

static void one_tag(struct end *e)
{
	add(e, 0, 100);
}

static void play(int is_a)
{
	each(connect_qp);
	each(small_receives);
	in_step();
	for (int round = 0; round < ROUNDS; round++) {
		each_of(prepare, round);
		in_step();
		each_of(post_round, round);
		each_of(finish_round, round);
		in_step();
	}
	each(send_unexpected);
	each(take_unexpected);
	in_step();
	if (lossy)
		return;
	each(one_tag);
	in_step();
	if (here == 2 || is_a)
		refuse_at_sender(&ends[0]);
	if (here == 2 || !is_a)
		refuse_at_receiver(&ends[here - 1]);
	in_step();
}

int main(int argc, char **argv)
{
	const char *device = "roce_lo", *host = NULL, *port = NULL;
	int gid_index = 1, c;

	while ((c = getopt(argc, argv, "d:g:lp:c:")) != -1) {
		if (c == 'd')
			device = optarg;
		else if (c == 'g')
			gid_index = atoi(optarg);
		else if (c == 'l')
			lossy = 1;
		else if (c == 'p')
			port = optarg;
		else if (c == 'c')
			host = optarg;
		else
			errx(1,
			     "usage: tags [-d DEVICE] [-g GID] [-l] [-p PORT [-c HOST]]");
	}
	if (port) {
		here = 1;
		sock = peer_meet(host, port);
	}
	for (int i = 0; i < here; i++)
		make(&ends[i], device, gid_index);
	meet();
	play(host != NULL);
	each(drop);
	return 0;
}
