/* SPDX-License-Identifier: BSD-2-Clause */
/* spread.c - a QP of B spreads frames over the queues of an indirection table; A sends
 * the frames. */
#include "feature.h"
#include "raw.h"

enum {
	QUEUES = 4,
	KEY = 40,
};

static struct ibv_wq *wq[QUEUES];
static struct ibv_cq *cq[QUEUES];
static struct ibv_rwq_ind_table *table;
static struct ibv_flow *flow;
static uint8_t key[KEY];

/* --- frames ----------------------------------------------------------------- */

/* Toeplitz's hash by its definition: each bit i of the input that is 1 adds the 32 bits
 * of the key from bit i on. */
static uint32_t hash_of(unsigned i)
{
	uint8_t frame[FRAME];
	const uint8_t *in = frame + 26; /* in: the addresses, then the ports */
	uint32_t hash = 0;

	frame_of(frame, i);
	for (unsigned bit = 0; bit < 12 * 8; bit++)
		for (unsigned k = 0; k < 32 && in[bit / 8] >> (7 - bit % 8) & 1; k++) {
			unsigned at = bit + k;

			hash ^= (uint32_t)(key[at / 8] >> (7 - at % 8) & 1) << (31 - k);
		}
	return hash;
}

static void send_all(struct side *s)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < FRAMES; i++) {
		struct ibv_sge sge = local(s, i * STEP, FRAME);
		struct ibv_send_wr wr = wr_of(IBV_WR_SEND, &sge, i);

		frame_of(s->buf + i * STEP, i);
		CHECK(!post_send(s->qp, &wr));
		CHECK(poll_one(s->scq, &wc, 10000) && !wc.status);
	}
}

/* --- queues ------------------------------------------------------------------ */

static int state(struct ibv_wq *q, enum ibv_wq_state to)
{
	struct ibv_wq_attr a = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = to };

	return ibv_modify_wq(q, &a);
}

static int post(struct side *s, unsigned q, unsigned i)
{
	struct ibv_sge sge = local(s, (q * FRAMES + i) * STEP, STEP);
	struct ibv_recv_wr *bad, wr = { .wr_id = i, .sg_list = &sge, .num_sge = 1 };

	return ibv_post_wq_recv(wq[q], &wr, &bad);
}

static void open_queue(struct side *s, unsigned q)
{
	struct ibv_wq_init_attr a = { .wq_type = IBV_WQT_RQ,
				      .max_wr = FRAMES,
				      .max_sge = 1,
				      .pd = s->pd,
				      .wq_context = s };

	CHECK((a.cq = cq[q] = ibv_create_cq(s->ctx, FRAMES, NULL, NULL, 0)));
	CHECK((wq[q] = ibv_create_wq(s->ctx, &a)));
	CHECK(wq[q]->state == IBV_WQS_RESET && wq[q]->wq_context == s &&
	      wq[q]->cq == cq[q]);
	CHECK(post(s, q, 0) == EINVAL);
	CHECK(!state(wq[q], IBV_WQS_RDY) && wq[q]->state == IBV_WQS_RDY);
	for (unsigned i = 0; i < FRAMES; i++)
		CHECK(!post(s, q, i));
	CHECK(post(s, q, 0) == ENOMEM);
}

static struct ibv_qp *spreading(struct side *s)
{
	struct ibv_qp_init_attr_ex a = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.pd = s->pd,
		.rwq_ind_tbl = table,
		.rx_hash_conf = { .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
				  .rx_hash_key_len = KEY - 1,
				  .rx_hash_key = key,
				  .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 |
							 IBV_RX_HASH_DST_IPV4 |
							 IBV_RX_HASH_SRC_PORT_UDP |
							 IBV_RX_HASH_DST_PORT_UDP },
	};

	/* The length of the key. */
	CHECK(!ibv_create_qp_ex(s->ctx, &a) && errno == EINVAL);
	a.rx_hash_conf.rx_hash_key_len = KEY;
	a.rx_hash_conf.rx_hash_fields_mask |= IBV_RX_HASH_INNER;
	CHECK(!ibv_create_qp_ex(s->ctx, &a) && errno == EOPNOTSUPP);
	a.rx_hash_conf.rx_hash_fields_mask &= ~(uint64_t)IBV_RX_HASH_INNER;
	a.cap.max_recv_wr = 1;
	CHECK(!ibv_create_qp_ex(s->ctx, &a) && errno == EINVAL);
	a.cap.max_recv_wr = 0;
	a.qp_type = IBV_QPT_UD;
	CHECK(!ibv_create_qp_ex(s->ctx, &a) && errno == EOPNOTSUPP);
	a.qp_type = IBV_QPT_RAW_PACKET;
	return ibv_create_qp_ex(s->ctx, &a);
}

static struct ibv_flow *rule(struct ibv_qp *qp)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
	} r = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL,
			  .size = sizeof(r),
			  .num_of_specs = 1,
			  .port = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH,
			 .size = sizeof(r.eth),
			 .val = { .dst_mac = { 2, 0x55, 0, 0, 0, 1 } },
			 .mask = { .dst_mac = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } } },
	};

	return ibv_create_flow(qp, &r.attr);
}

static void open_spread(struct side *s)
{
	struct ibv_rwq_ind_table_init_attr a = { .log_ind_tbl_size = 2, .ind_tbl = wq };
	struct ibv_qp_attr init = { .qp_state = IBV_QPS_INIT, .port_num = 1 };

	for (unsigned i = 0; i < KEY; i++)
		key[i] = (uint8_t)(i * 29 + 3);
	for (unsigned q = 0; q < QUEUES; q++)
		open_queue(s, q);
	a.log_ind_tbl_size = 30;
	CHECK(!ibv_create_rwq_ind_table(s->ctx, &a) && errno == EINVAL);
	a.log_ind_tbl_size = 2;
	CHECK((table = ibv_create_rwq_ind_table(s->ctx, &a)));
	CHECK((s->qp = spreading(s)));
	CHECK(ibv_modify_qp(s->qp, &init, IBV_QP_STATE | IBV_QP_PORT) == EOPNOTSUPP);
	CHECK((flow = rule(s->qp)));
}

static void close_spread(struct side *s)
{
	CHECK(ibv_destroy_wq(wq[0]) == EBUSY);
	CHECK(ibv_destroy_rwq_ind_table(table) == EBUSY);
	CHECK(ibv_destroy_qp(s->qp) == EBUSY);
	CHECK(!ibv_destroy_flow(flow) && !ibv_destroy_qp(s->qp));
	CHECK(ibv_destroy_wq(wq[0]) == EBUSY);
	CHECK(!ibv_destroy_rwq_ind_table(table));
	for (unsigned q = 0; q < QUEUES; q++) {
		CHECK(ibv_destroy_cq(cq[q]) == EBUSY);
		CHECK(!ibv_destroy_wq(wq[q]) && !ibv_destroy_cq(cq[q]));
	}
}

/* --- what comes ---------------------------------------------------------------- */

/* Each frame is in the queue that its hash selects; the frames of a queue are in their
 * order. */
static void check_spread(struct side *s)
{
	unsigned taken[QUEUES] = { 0 };
	uint8_t frame[FRAME];
	struct ibv_wc wc;

	for (unsigned i = 0; i < FRAMES; i++) {
		unsigned q = hash_of(i) % QUEUES;

		CHECK(poll_one(cq[q], &wc, 10000) && !wc.status);
		CHECK(wc.qp_num == wq[q]->wq_num && wc.byte_len == FRAME);
		CHECK(wc.opcode == IBV_WC_RECV && wc.wr_id == taken[q]++);
		frame_of(frame, i);
		CHECK(!memcmp(s->buf + (q * FRAMES + wc.wr_id) * STEP, frame, FRAME));
	}
	for (unsigned q = 0; q < QUEUES; q++) {
		CHECK(taken[q]); /* otherwise the test proves nothing */
		expect_none(cq[q]);
	}
	/* A queue that goes to ERR flushes its receives, and takes no more frames. */
	CHECK(!state(wq[0], IBV_WQS_ERR));
	for (unsigned i = taken[0]; i < FRAMES; i++)
		CHECK(poll_one(cq[0], &wc, 0) && wc.status == IBV_WC_WR_FLUSH_ERR &&
		      wc.wr_id == i);
	CHECK(state(wq[0], IBV_WQS_RDY) == EINVAL);
}

static void check_without_the_first(struct side *s)
{
	unsigned others = 0;
	struct ibv_wc wc;

	(void)s;
	for (unsigned i = 0; i < FRAMES; i++)
		others += hash_of(i) % QUEUES != 0;
	for (unsigned q = 1; others; q = q % (QUEUES - 1) + 1)
		if (poll_one(cq[q], &wc, 1)) {
			CHECK(!wc.status);
			others--;
		}
	expect_none(cq[0]);
	CHECK(!state(wq[0], IBV_WQS_RESET) && !state(wq[0], IBV_WQS_RDY));
}

/* --- a CQ that is full ------------------------------------------------------------ */

static void open_small(struct side *s)
{
	struct ibv_wq_init_attr a = {
		.wq_type = IBV_WQT_RQ, .max_wr = FRAMES, .max_sge = 1, .pd = s->pd
	};
	struct ibv_rwq_ind_table_init_attr of = { .log_ind_tbl_size = 0, .ind_tbl = wq };

	CHECK((a.cq = cq[0] = ibv_create_cq(s->ctx, 4, NULL, NULL, 0)));
	CHECK(cq[0]->cqe < FRAMES);
	CHECK((wq[0] = ibv_create_wq(s->ctx, &a)) && !state(wq[0], IBV_WQS_RDY));
	for (unsigned i = 0; i < FRAMES; i++)
		CHECK(!post(s, 0, i));
	CHECK((table = ibv_create_rwq_ind_table(s->ctx, &of)));
	CHECK((s->qp = spreading(s)) && (flow = rule(s->qp)));
}

/* The work queue gets the event, not the QP. */
static void check_small(struct side *s)
{
	expect_event(s, IBV_EVENT_CQ_ERR, cq[0]);
	expect_event(s, IBV_EVENT_WQ_FATAL, wq[0]);
	expect_no_event(s);
	CHECK(!ibv_destroy_flow(flow) && !ibv_destroy_qp(s->qp));
	CHECK(!ibv_destroy_rwq_ind_table(table) && !ibv_destroy_wq(wq[0]));
	CHECK(!ibv_destroy_cq(cq[0]));
}

/* Work queues and tables end with their context. */
static void close_with_queues(struct side *s)
{
	struct ibv_context *ctx = ibv_open_device(s->ctx->device);
	struct ibv_wq_init_attr a = { .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1 };
	struct ibv_rwq_ind_table_init_attr of = { .log_ind_tbl_size = 0, .ind_tbl = wq };
	struct side other = { .ctx = ctx };

	CHECK(ctx && (other.pd = a.pd = ibv_alloc_pd(ctx)));
	CHECK((a.cq = ibv_create_cq(ctx, 4, NULL, NULL, 0)));
	CHECK((wq[0] = ibv_create_wq(ctx, &a)));
	/* A queue of another context. */
	CHECK(!ibv_create_rwq_ind_table(s->ctx, &of) && errno == EINVAL);
	CHECK((table = ibv_create_rwq_ind_table(ctx, &of)));
	CHECK(spreading(&other));
	CHECK(!ibv_close_device(ctx));
}

static void spread(void)
{
	if (!raw_here())
		return;
	ON_B(s) open_spread(s);
	sync_sides();
	ON_A(s) send_all(s);
	ON_B(s) check_spread(s);
	sync_sides();
	ON_A(s) send_all(s);
	ON_B(s) check_without_the_first(s);
	sync_sides();
	ON_B(s)
	{
		close_spread(s);
		open_small(s);
	}
	sync_sides();
	ON_A(s)
	{
		send_all(s);
		CHECK(!ibv_destroy_qp(s->qp));
	}
	ON_B(s)
	{
		check_small(s);
		close_with_queues(s);
	}
}

const struct feature spread_rows[] = {
	{ "spread", spread, true },
	{ "counters", counters, true },
	{ "scattered", scattered, true },
	{ NULL, NULL, false },
};
