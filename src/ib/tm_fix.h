/* SPDX-License-Identifier: BSD-2-Clause */
/* tm_fix.h - for tests of tag matching: A is a plain RC QP that sends, B has an SRQ
 * with tags.  Every test runs over each of `ways`. */
#ifndef IB_TM_FIX_H
#define IB_TM_FIX_H

#include "ib/fix.h"

#include <endian.h>

#include "verbs/post.h"
#include "verbs/rq.h"
#include "verbs/tm.h"

enum { RECEIVES = 32, BIG = 100000 };

struct tags {
	struct fix *f; /* for its memory and regions; its own QPs are idle */
	struct srq *srq;
	struct cq *cq[2]; /* A's CQ, and the SRQ's */
	struct cq *scq;	  /* for B's sends */
	struct qp *qp[2];
};

static const struct way {
	const char *name;
	struct sim_conf conf;
} ways[] = {
	{ "IPv4", { 0 } },
	{ "IPv6", { .ipv6 = true } },
	{ "with loss", { .fault = "drop=0.03,seed=5", .rnr_retry = 7 } },
	{ "one host", { .same_host = true } },
	{ "one host, pipe only", { .same_host = true, .pipe_only = true } },
};

static inline struct tags *open_tags(const struct sim_conf *conf)
{
	struct tags *t = calloc(1, sizeof(*t));
	struct ibv_srq_init_attr a = { .attr = { .max_wr = 256, .max_sge = 1 } };
	struct ibv_qp_cap cap = {
		.max_send_wr = 16, .max_recv_wr = 64, .max_send_sge = 2, .max_recv_sge = 1
	};
	struct sim_node *b;

	t->f = fix_open(IBV_QPT_RC, conf);
	t->f->s->tap = NULL;
	b = &t->f->s->node[1];
	for (int i = 0; i < 2; i++)
		t->cq[i] = sim_cq(t->f->s, i, 1000);
	t->scq = sim_cq(t->f->s, 1, 100);
	assert_int_equal(srq_create_tm(&b->ctx, b->pd, t->cq[1],
				       &(struct ibv_tm_cap){ 64, 8 }, &a, &t->srq),
			 0);
	t->qp[0] = sim_qp(t->f->s, 0, IBV_QPT_RC, t->cq[0], t->cq[0], NULL, &cap);
	t->qp[1] = sim_qp(t->f->s, 1, IBV_QPT_RC, t->scq, t->scq, t->srq, &cap);
	sim_bring(t->f->s, t->qp[0], t->qp[1], &t->f->conf);
	sim_bring(t->f->s, t->qp[1], t->qp[0], &t->f->conf);
	return t;
}

/* The number of tags in use. */
static inline unsigned used(struct tags *t)
{
	unsigned n = tm_list_of(t->srq)->size;

	list_for(i, &tm_list_of(t->srq)->free) n--;
	return n;
}

static inline void close_tags(struct tags *t)
{
	struct sim *s = t->f->s;

	/* The SRQ's own READs and SENDs complete nowhere */
	assert_true(cq_empty(t->scq));
	for (int i = 0; i < 2; i++)
		sim_destroy(s, t->qp[i]);
	assert_int_equal(used(t), 0);
	assert_int_equal(srq_destroy(t->srq), 0);
	for (int i = 0; i < 2; i++)
		assert_int_equal(cq_destroy(t->cq[i]), 0);
	assert_int_equal(cq_destroy(t->scq), 0);
	fix_close(t->f);
	free(t);
}

static inline struct ibv_wc wc_of(struct tags *t, int side, uint64_t wr_id,
				  enum ibv_wc_status status, struct cqe *raw)
{
	struct cqe e;
	struct ibv_wc wc = { 0 };

	while (cq_empty(t->cq[side]))
		assert_true(sim_step(t->f->s));
	assert_true(cq_pop(t->cq[side], &e));
	if (e.status != status || e.wr_id != wr_id)
		print_error("wr_id %lu, status %d, vendor_err %u\n", e.wr_id, e.status,
			    e.vendor_err);
	assert_int_equal(e.status, status);
	assert_int_equal(e.wr_id, wr_id);
	if (raw)
		*raw = e;
	wc.opcode = e.opcode;
	wc.wc_flags = e.flags;
	wc.byte_len = e.byte_len;
	wc.imm_data = e.imm;
	return wc;
}

static inline void expect(struct tags *t, uint64_t wr_id, enum ibv_wc_opcode opcode,
			  unsigned flags, uint32_t len, uint64_t tag)
{
	struct cqe e;

	wc_of(t, 1, wr_id, IBV_WC_SUCCESS, &e);
	assert_int_equal(e.opcode, opcode);
	assert_int_equal(e.flags, flags);
	assert_int_equal(e.byte_len, len);
	assert_int_equal(e.flags & IBV_WC_TM_MATCH ? e.tm_tag : 0, tag);
	assert_int_equal(e.flags & IBV_WC_TM_MATCH ? e.tm_priv : 0, tag ? 0xabcd : 0);
	assert_int_equal(e.qp_num, t->qp[1]->qpn);
	assert_int_equal(e.src_qp, t->qp[0]->qpn);
}

/* Adds a tag whose buffer is at offset at of B's memory, in two halves. */
static inline uint32_t add(struct tags *t, uint64_t tag, size_t at, uint32_t len)
{
	uint32_t half = len / 2;
	struct ibv_sge sge[2] = { sim_sge(t->f->mr[1], at, half),
				  sim_sge(t->f->mr[1], at + half, len - half) };
	struct ibv_ops_wr wr = {
		.opcode = IBV_WR_TAG_ADD,
		.tm.add = { .recv_wr_id = tag + 500,
			    .sg_list = sge,
			    .num_sge = 2,
			    .tag = tag,
			    .mask = ~0ull },
	};

	assert_int_equal(tm_post(t->srq, &wr, NULL), 0);
	return wr.tm.handle;
}

/* Posts a receive for messages that match no tag, at the end of B's memory. */
static inline void receive(struct tags *t, uint64_t wr_id)
{
	struct ibv_sge sge = sim_sge(t->f->mr[1], FIX_MEM - 8192, 8192);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	assert_int_equal(srq_post(t->srq, &wr, NULL), 0);
}

static inline void send_raw(struct tags *t, const void *head, size_t n, size_t len,
			    enum ibv_wr_opcode opcode)
{
	struct ibv_sge sge = sim_sge(t->f->mr[0], 0, len);
	struct ibv_send_wr wr = { .wr_id = 7,
				  .opcode = opcode,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = htobe32(0x1234) };

	if (n)
		memcpy(t->f->mem[0], head, n);
	sim_send(t->qp[0], &wr);
}

static inline void send_tagged(struct tags *t, uint8_t opcode, uint64_t tag, size_t len)
{
	struct ibv_tmh h = { .opcode = opcode,
			     .app_ctx = htobe32(0xabcd),
			     .tag = htobe64(tag) };

	send_raw(t, &h, sizeof(h), len, IBV_WR_SEND);
}

struct request {
	struct ibv_tmh h;
	struct ibv_rvh r;
};

static inline struct request request(struct tags *t, uint64_t tag, size_t at,
				     uint32_t len)
{
	return (struct request){
		.h = { .opcode = IBV_TMH_RNDV,
		       .app_ctx = htobe32(0xabcd),
		       .tag = htobe64(tag) },
		.r = { .va = htobe64(t->f->mr[0]->mkey.base + at),
		       .rkey = htobe32(t->f->mr[0]->mkey.key),
		       .len = htobe32(len) },
	};
}

/* Posts a receive of A, for FIN. */
static inline void take_fin(struct tags *t, uint64_t wr_id)
{
	struct ibv_sge sge = sim_sge(t->f->mr[0], 4096, 16);

	sim_recv(t->qp[0], wr_id, &sge, 1);
}

static inline void fin_came(struct tags *t, uint64_t wr_id, uint64_t tag)
{
	struct ibv_tmh h;

	assert_int_equal(wc_of(t, 0, wr_id, IBV_WC_SUCCESS, NULL).byte_len, 16);
	memcpy(&h, t->f->mem[0] + 4096, sizeof(h));
	assert_int_equal(h.opcode, IBV_TMH_FIN);
	assert_int_equal(be32toh(h.app_ctx), 0xabcd);
	assert_int_equal(be64toh(h.tag), tag);
}

static inline void sent(struct tags *t)
{
	wc_of(t, 0, 7, IBV_WC_SUCCESS, NULL);
}

static inline void run(void (*test)(struct tags *t))
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct tags *t = open_tags(&ways[i].conf);

		print_message("           %s\n", ways[i].name);
		test(t);
		close_tags(t);
	}
}

#endif
