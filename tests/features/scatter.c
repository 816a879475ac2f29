/* SPDX-License-Identifier: BSD-2-Clause */
/* scatter.c - what B gets of A's frames: with or without the VLAN tag, which the
 * completion has then, and with or without the frame check sequence. */
#include "feature.h"
#include "raw.h"

enum {
	RECEIVERS = 5, /* the last one is a work queue */
	QUEUE = RECEIVERS - 1,
	KINDS = 3,
	C_TAG = 0x8100,
	S_TAG = 0x88a8,
	TCI = 0xa007, /* priority 5, VLAN 7 */
	WIRE = FRAME + 8,
	MASK = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
};

static const unsigned tag_of_kind[KINDS] = { 0, C_TAG, S_TAG };

static struct receiver {
	bool strips, fcs;
	struct ibv_cq_ex *cq;
	struct ibv_qp *qp;
	struct ibv_flow *flow;
} receivers[RECEIVERS] = {
	{ .strips = false, .fcs = false }, { .strips = true, .fcs = false },
	{ .strips = false, .fcs = true },  { .strips = true, .fcs = true },
	{ .strips = true, .fcs = true },
};
static struct ibv_wq *queue;
static struct ibv_rwq_ind_table *table;

/* --- frames ------------------------------------------------------------------ */

static uint32_t add_tag(uint8_t *at, unsigned type)
{
	memmove(at + 16, at + 12, FRAME - 12);
	at[12] = (uint8_t)(type >> 8);
	at[13] = (uint8_t)type;
	at[14] = TCI >> 8;
	at[15] = TCI & 0xff;
	return FRAME + 4;
}

/* What A sends.  Returns its length. */
static uint32_t build(uint8_t at[WIRE], unsigned to, unsigned kind)
{
	frame_of(at, to * KINDS + kind);
	at[4] = 1;
	at[5] = (uint8_t)to;
	return kind ? add_tag(at, tag_of_kind[kind]) : FRAME;
}

/* The CRC of IEEE 802.3, bit by bit. */
static uint32_t crc_of(const uint8_t *at, uint32_t len)
{
	uint32_t crc = ~0u;

	for (uint32_t i = 0; i < 8 * len; i++)
		crc = crc >> 1 ^
		      ((crc ^ (uint32_t)at[i / 8] >> i % 8) & 1 ? 0xedb88320 : 0);
	return ~crc;
}

/* What receiver r gets.  Returns the length; *tag: what the completion says. */
static uint32_t expected(uint8_t at[WIRE], unsigned r, unsigned kind, unsigned *tag)
{
	uint32_t len = build(at, r, kind);
	const uint32_t crc = crc_of(at, len);

	*tag = tag_of_kind[kind] == C_TAG && receivers[r].strips ? TCI : 0;
	if (*tag) {
		len -= 4;
		memmove(at + 12, at + 16, len - 12);
	}
	for (unsigned i = 0; receivers[r].fcs && i < 4; i++)
		at[len++] = (uint8_t)(crc >> 8 * i);
	return len;
}

static void send_to(struct side *s, unsigned to, unsigned kind)
{
	const uint32_t len = build(s->buf, to, kind);
	struct ibv_sge sge = local(s, 0, len);
	struct ibv_send_wr wr = wr_of(IBV_WR_SEND, &sge, 0);
	struct ibv_wc wc;

	CHECK(!post_send(s->qp, &wr));
	CHECK(poll_one(s->scq, &wc, 10000) && !wc.status);
}

/* --- receivers ----------------------------------------------------------------- */

static struct ibv_flow *rule(struct ibv_qp *qp, unsigned to)
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
			 .val = { .dst_mac = { 2, 0x55, 0, 0, 1, (uint8_t)to } },
			 .mask = { .dst_mac = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } } },
	};

	return ibv_create_flow(qp, &r.attr);
}

static void open_queue(struct side *s, struct receiver *r)
{
	static uint8_t key[40];
	struct ibv_wq_init_attr a = { .wq_type = IBV_WQT_RQ,
				      .max_wr = KINDS,
				      .max_sge = 1,
				      .pd = s->pd,
				      .cq = ibv_cq_ex_to_cq(r->cq),
				      .comp_mask = IBV_WQ_INIT_ATTR_FLAGS };
	struct ibv_rwq_ind_table_init_attr of = { .ind_tbl = &queue };
	struct ibv_wq_attr ready = { .attr_mask = IBV_WQ_ATTR_STATE,
				     .wq_state = IBV_WQS_RDY };
	struct ibv_qp_init_attr_ex q = {
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.pd = s->pd,
		.rx_hash_conf = { .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
				  .rx_hash_key_len = sizeof(key),
				  .rx_hash_key = key },
	};

	a.create_flags = IBV_WQ_FLAGS_DELAY_DROP;
	CHECK(!ibv_create_wq(s->ctx, &a) && errno == EOPNOTSUPP);
	a.create_flags = IBV_WQ_FLAGS_CVLAN_STRIPPING | IBV_WQ_FLAGS_SCATTER_FCS |
			 IBV_WQ_FLAGS_PCI_WRITE_END_PADDING;
	CHECK((queue = ibv_create_wq(s->ctx, &a)) && !ibv_modify_wq(queue, &ready));
	CHECK((table = q.rwq_ind_tbl = ibv_create_rwq_ind_table(s->ctx, &of)));
	CHECK((r->qp = ibv_create_qp_ex(s->ctx, &q)));
}

static void open_qp(struct side *s, struct receiver *r)
{
	struct ibv_qp_init_attr_ex a = {
		.send_cq = s->scq,
		.recv_cq = ibv_cq_ex_to_cq(r->cq),
		.cap = { 1, KINDS, 1, 1, 0 },
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = MASK,
		.pd = s->pd,
		.create_flags = (r->strips ? IBV_QP_CREATE_CVLAN_STRIPPING : 0u) |
				(r->fcs ? IBV_QP_CREATE_SCATTER_FCS : 0u),
	};
	struct ibv_qp_attr to = { .port_num = 1, .qp_state = IBV_QPS_INIT };

	CHECK((r->qp = ibv_create_qp_ex(s->ctx, &a)));
	CHECK(!ibv_modify_qp(r->qp, &to, IBV_QP_STATE | IBV_QP_PORT));
	to.qp_state = IBV_QPS_RTR;
	CHECK(!ibv_modify_qp(r->qp, &to, IBV_QP_STATE));
}

static void post(struct side *s, unsigned r, unsigned kind)
{
	struct ibv_sge sge = local(s, (r * KINDS + kind) * STEP, STEP);
	struct ibv_recv_wr *bad, wr = { .wr_id = kind, .sg_list = &sge, .num_sge = 1 };

	CHECK(r == QUEUE ? !ibv_post_wq_recv(queue, &wr, &bad)
			 : !ibv_post_recv(receivers[r].qp, &wr, &bad));
}

static void open_receivers(struct side *s)
{
	struct ibv_cq_init_attr_ex of = {
		.cqe = KINDS, .wc_flags = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_CVLAN
	};

	for (unsigned r = 0; r < RECEIVERS; r++) {
		CHECK((receivers[r].cq = ibv_create_cq_ex(s->ctx, &of)));
		r == QUEUE ? open_queue(s, &receivers[r]) : open_qp(s, &receivers[r]);
		CHECK((receivers[r].flow = rule(receivers[r].qp, r)));
		for (unsigned kind = 0; kind < KINDS; kind++)
			post(s, r, kind);
	}
}

static void close_receivers(void)
{
	for (unsigned r = 0; r < RECEIVERS; r++) {
		CHECK(!ibv_destroy_flow(receivers[r].flow));
		CHECK(!ibv_destroy_qp(receivers[r].qp));
		if (r == QUEUE)
			CHECK(!ibv_destroy_rwq_ind_table(table) &&
			      !ibv_destroy_wq(queue));
		CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(receivers[r].cq)));
	}
}

/* --- what comes ------------------------------------------------------------------ */

/* Waits up to 10 s for a completion, and lets the caller read it. */
static void next(struct ibv_cq_ex *cq)
{
	struct ibv_poll_cq_attr none = { 0 };
	const uint64_t begin = now_ms();
	int rc;

	while ((rc = ibv_start_poll(cq, &none)) == ENOENT)
		CHECK(now_ms() - begin < 10000);
	CHECK(!rc);
}

static void check(struct side *s, unsigned r, unsigned kind)
{
	struct ibv_cq_ex *cq = receivers[r].cq;
	const uint8_t *got = s->buf + (r * KINDS + kind) * STEP;
	uint8_t want[WIRE];
	unsigned tag;
	const uint32_t len = expected(want, r, kind, &tag);

	next(cq);
	CHECK(cq->status == IBV_WC_SUCCESS && cq->wr_id == kind);
	CHECK(ibv_wc_read_opcode(cq) == IBV_WC_RECV && !ibv_wc_read_wc_flags(cq));
	CHECK(ibv_wc_read_byte_len(cq) == len && ibv_wc_read_cvlan(cq) == tag);
	CHECK(!memcmp(got, want, len));
	ibv_end_poll(cq);
}

static void stop_stripping(struct side *s)
{
	struct ibv_wq_attr a = { .attr_mask = IBV_WQ_ATTR_FLAGS,
				 .flags_mask = IBV_WQ_FLAGS_SCATTER_FCS };

	CHECK(ibv_modify_wq(queue, &a) == EOPNOTSUPP);
	a.flags_mask = IBV_WQ_FLAGS_CVLAN_STRIPPING;
	CHECK(!ibv_modify_wq(queue, &a));
	receivers[QUEUE].strips = false;
	for (unsigned kind = 0; kind < KINDS; kind++)
		post(s, QUEUE, kind);
}

void scattered(void)
{
	if (!raw_here())
		return;
	ON_B(s) open_receivers(s);
	sync_sides();
	for (unsigned i = 0; i < RECEIVERS * KINDS; i++) {
		ON_A(s) send_to(s, i / KINDS, i % KINDS);
		ON_B(s) check(s, i / KINDS, i % KINDS);
	}
	ON_B(s) stop_stripping(s);
	sync_sides();
	for (unsigned kind = 0; kind < KINDS; kind++) {
		ON_A(s) send_to(s, QUEUE, kind);
		ON_B(s) check(s, QUEUE, kind);
	}
	sync_sides();
	ON_A(s) CHECK(!ibv_destroy_qp(s->qp));
	ON_B(s) close_receivers();
}
