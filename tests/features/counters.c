/* SPDX-License-Identifier: BSD-2-Clause */
/* counters.c - rules of B count the frames that A sends. */
#include "feature.h"
#include "raw.h"

enum { PACKETS_AT = 0, BYTES_AT = 2, BOTH_AT = 3, VALUES = 5, LONGER = 200, LAST = 5 };

/* Sends n frames of len bytes to 02:55:0:0:0:to. */
static void send_to(struct side *s, uint8_t to, unsigned n, uint32_t len)
{
	struct ibv_wc wc;

	for (unsigned i = 0; i < n; i++) {
		struct ibv_sge sge = local(s, 0, len);
		struct ibv_send_wr wr = wr_of(IBV_WR_SEND, &sge, i);

		frame_of(s->buf, i);
		s->buf[5] = to;
		CHECK(!post_send(s->qp, &wr));
		CHECK(poll_one(s->scq, &wc, 10000) && !wc.status);
	}
}

static int attach(struct ibv_counters *c, enum ibv_counter_description what, uint32_t at)
{
	struct ibv_counter_attach_attr a = { .counter_desc = what, .index = at };

	return ibv_attach_counters_point_flow(c, &a, NULL);
}

static struct ibv_counters *counters_make(struct ibv_context *ctx)
{
	struct ibv_counters_init_attr a = { 0 };
	struct ibv_counters *c = ibv_create_counters(ctx, &a);

	CHECK(c && c->context == ctx);
	return c;
}

/* A rule of qp for frames to 02:55:0:0:0:to that names the counters so many times. */
static struct ibv_flow *counted(struct ibv_qp *qp, uint8_t to, struct ibv_counters *c,
				uint8_t times)
{
	struct {
		struct ibv_flow_attr attr;
		struct ibv_flow_spec_eth eth;
		struct ibv_flow_spec_counter_action count[2];
	} __attribute__((packed)) r = {
		.attr = { .type = IBV_FLOW_ATTR_NORMAL,
			  .size = sizeof(r),
			  .num_of_specs = (uint8_t)(1 + times),
			  .port = 1 },
		.eth = { .type = IBV_FLOW_SPEC_ETH,
			 .size = sizeof(r.eth),
			 .val = { .dst_mac = { 2, 0x55, 0, 0, 0, to } },
			 .mask = { .dst_mac = { 0xff, 0xff, 0xff, 0xff, 0xff, 0xff } } },
	};
	uint64_t aligned[(sizeof(r) + 7) / 8];

	for (unsigned i = 0; i < 2; i++)
		r.count[i] =
			(struct ibv_flow_spec_counter_action){ IBV_FLOW_SPEC_ACTION_COUNT,
							       sizeof(r.count[0]), c };
	memcpy(aligned, &r, sizeof(r));
	return ibv_create_flow(qp, (struct ibv_flow_attr *)aligned);
}

static bool is_refused(const struct ibv_flow *f)
{
	return !f && errno == EINVAL;
}

static void receives(struct side *s, struct ibv_qp *qp, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		struct ibv_sge sge = local(s, i * STEP, STEP);
		struct ibv_recv_wr *bad, wr = { .sg_list = &sge, .num_sge = 1 };

		CHECK(!ibv_post_recv(qp, &wr, &bad));
	}
}

static struct {
	struct ibv_counters *c;
	struct ibv_qp *qp[2];
	struct ibv_flow *flow[2];
} counts;

/* Posts one receive for the first QP, so that most of its frames are dropped. */
static void open_counts(struct side *s)
{
	struct ibv_counters *c = counts.c = counters_make(s->ctx);
	uint64_t v[VALUES];

	for (unsigned i = 0; i < 2; i++)
		CHECK((counts.qp[i] = raw_qp(s, 2 * LAST)));
	/* Nothing is attached to the counters. */
	CHECK(is_refused(counted(counts.qp[0], 1, c, 1)));
	CHECK(!attach(c, IBV_COUNTER_PACKETS, PACKETS_AT));
	CHECK(!attach(c, IBV_COUNTER_BYTES, BYTES_AT));
	CHECK(!attach(c, IBV_COUNTER_PACKETS, BOTH_AT));
	CHECK(!attach(c, IBV_COUNTER_BYTES, BOTH_AT));
	CHECK(attach(c, (enum ibv_counter_description)2, 0) == EOPNOTSUPP);
	/* No rule is bound to them. */
	CHECK(ibv_read_counters(c, v, VALUES, 0) == EINVAL);
	CHECK(is_refused(counted(counts.qp[0], 1, NULL, 1)));
	CHECK(is_refused(counted(counts.qp[0], 1, c, 2)));
	for (unsigned i = 0; i < 2; i++)
		CHECK((counts.flow[i] = counted(counts.qp[i], (uint8_t)(1 + i), c, 1)));
	receives(s, counts.qp[0], 1);
	receives(s, counts.qp[1], LAST);
	CHECK(attach(c, IBV_COUNTER_BYTES, 1) == EBUSY);
	CHECK(ibv_destroy_counters(c) == EBUSY);
}

/* A's frames to the second QP come last: when they have completed, all frames are
 * counted. */
static void check_counts(struct side *s, unsigned completions, uint64_t packets,
			 uint64_t bytes)
{
	uint64_t v[VALUES];
	struct ibv_wc wc;

	for (unsigned i = 0; i < completions; i++)
		CHECK(poll_one(s->rcq, &wc, 10000) && !wc.status);
	expect_none(s->rcq);
	for (uint32_t flags = 0; flags < 2; flags++) {
		memset(v, 0xee, sizeof(v));
		CHECK(!ibv_read_counters(counts.c, v, VALUES, flags));
		CHECK(v[PACKETS_AT] == packets && v[BYTES_AT] == bytes);
		CHECK(v[BOTH_AT] == packets + bytes && !v[1] && !v[VALUES - 1]);
	}
	CHECK(ibv_read_counters(counts.c, v, BOTH_AT, 0) == EINVAL);
	CHECK(ibv_read_counters(counts.c, v, VALUES, 2) == EINVAL);
}

static void close_counts(struct side *s)
{
	struct ibv_counter_attach_attr a = { .counter_desc = IBV_COUNTER_BYTES };
	struct ibv_counters *c = counts.c;
	uint64_t v[VALUES];

	CHECK(ibv_attach_counters_point_flow(c, &a, counts.flow[1]) == EOPNOTSUPP);
	CHECK(!ibv_destroy_flow(counts.flow[1]));
	CHECK(ibv_read_counters(c, v, VALUES, 0) == EINVAL);
	CHECK(!attach(c, IBV_COUNTER_PACKETS, 1));
	CHECK(!ibv_destroy_counters(c));
	CHECK(ibv_destroy_counters(c) == ENOENT);
	CHECK(is_refused(counted(counts.qp[0], 1, c, 1))); /* the counters are freed */
	for (unsigned i = 0; i < 2; i++)
		CHECK(!ibv_destroy_qp(counts.qp[i]));
	(void)s;
}

/* Counters end with their context, and cannot be used with another one. */
static void close_with_counters(struct side *s)
{
	struct ibv_context *ctx = ibv_open_device(s->ctx->device);
	struct ibv_qp *qp = raw_qp(s, 1);
	struct ibv_counters *c;

	CHECK(ctx && qp);
	c = counters_make(ctx);
	CHECK(!attach(c, IBV_COUNTER_PACKETS, 0));
	CHECK(is_refused(counted(qp, 1, c, 1)));
	CHECK(!ibv_close_device(ctx) && !ibv_destroy_qp(qp));
}

/* A has the first rule for frames that it sends itself; they come back to other sockets
 * only. */
static struct ibv_flow *own_rule(struct side *s)
{
	struct ibv_flow *own = counted(s->qp, 1, NULL, 0);

	CHECK(own);
	receives(s, s->qp, 1);
	return own;
}

void counters(void)
{
	const uint64_t bytes = FRAMES * FRAME + LAST * LONGER;
	struct ibv_flow *own = NULL;

	if (!raw_here())
		return;
	ON_A(s) own = own_rule(s);
	ON_B(s) open_counts(s);
	sync_sides();
	ON_A(s)
	{
		send_to(s, 1, FRAMES, FRAME);
		send_to(s, 3, 3, FRAME); /* frames that no rule wants */
		send_to(s, 2, LAST, LONGER);
	}
	ON_B(s)
	{
		check_counts(s, 1 + LAST, FRAMES + LAST, bytes);
		CHECK(!ibv_destroy_flow(counts.flow[0]));
		receives(s, counts.qp[1], LAST);
	}
	sync_sides();
	ON_A(s)
	{
		send_to(s, 1, FRAMES, FRAME); /* frames whose rule has gone */
		send_to(s, 2, LAST, LONGER);
		expect_none(s->rcq);
		CHECK(!ibv_destroy_flow(own) && !ibv_destroy_qp(s->qp));
	}
	ON_B(s)
	{
		check_counts(s, LAST, FRAMES + 2 * LAST, bytes + LAST * LONGER);
		close_counts(s);
		close_with_counters(s);
	}
}
