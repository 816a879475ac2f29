/* SPDX-License-Identifier: BSD-2-Clause */
/* Tag matching: A is a plain RC QP that sends, B has an SRQ with tags.  Every test runs
 * by every way. */
#include "ib/fix.h"

#include <endian.h>

#include "core/post.h"
#include "core/rq.h"
#include "core/tm.h"

enum { RECEIVES = 32, BIG = 100000 };

struct tags {
	struct fix *f; /* its mem and mr; its own pair idles */
	struct srq *srq;
	struct cq *cq[2]; /* A's, and the SRQ's */
	struct cq *scq;	  /* of B's sends */
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

static struct tags *open_tags(const struct sim_conf *conf)
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

/* Every tag is free again. */
static unsigned used(struct tags *t)
{
	unsigned n = t->srq->tm->size;

	list_for(i, &t->srq->tm->free) n--;
	return n;
}

static void close_tags(struct tags *t)
{
	struct sim *s = t->f->s;

	assert_true(cq_empty(t->scq)); /* requests of its own complete nowhere */
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

static struct ibv_wc wc_of(struct tags *t, int side, uint64_t wr_id,
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

static void expect(struct tags *t, uint64_t wr_id, enum ibv_wc_opcode opcode,
		   unsigned flags, uint32_t len, uint64_t tag)
{
	struct cqe e;

	wc_of(t, 1, wr_id, IBV_WC_SUCCESS, &e);
	assert_int_equal(e.opcode, opcode);
	assert_int_equal(e.flags, flags);
	assert_int_equal(e.byte_len, len);
	assert_int_equal(e.tm_tag, tag);
	assert_int_equal(e.flags & IBV_WC_TM_MATCH ? e.tm_priv : 0, tag ? 0xabcd : 0);
	assert_int_equal(e.qp_num, t->qp[1]->qpn);
}

/* A tag with its buffer at B's offset at, of two pieces if it is long. */
static uint32_t add(struct tags *t, uint64_t tag, size_t at, uint32_t len)
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

/* A receive for what no tag matches, at the end of B's memory. */
static void receive(struct tags *t, uint64_t wr_id)
{
	struct ibv_sge sge = sim_sge(t->f->mr[1], FIX_MEM - 8192, 8192);
	struct ibv_recv_wr wr = { .wr_id = wr_id, .sg_list = &sge, .num_sge = 1 };

	assert_int_equal(srq_post(t->srq, &wr, NULL), 0);
}

static void send_raw(struct tags *t, const void *head, size_t n, size_t len,
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

static void send(struct tags *t, uint8_t opcode, uint64_t tag, size_t len)
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

static struct request request(struct tags *t, uint64_t tag, size_t at, uint32_t len)
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

/* A receive of A's, for FIN. */
static void take_fin(struct tags *t, uint64_t wr_id)
{
	struct ibv_sge sge = sim_sge(t->f->mr[0], 4096, 16);

	sim_recv(t->qp[0], wr_id, &sge, 1);
}

static void fin_came(struct tags *t, uint64_t wr_id, uint64_t tag)
{
	struct ibv_tmh h;

	assert_int_equal(wc_of(t, 0, wr_id, IBV_WC_SUCCESS, NULL).byte_len, 16);
	memcpy(&h, t->f->mem[0] + 4096, sizeof(h));
	assert_int_equal(h.opcode, IBV_TMH_FIN);
	assert_int_equal(be32toh(h.app_ctx), 0xabcd);
	assert_int_equal(be64toh(h.tag), tag);
}

static void sent(struct tags *t)
{
	wc_of(t, 0, 7, IBV_WC_SUCCESS, NULL);
}

/* --- */

static void messages_that_match_leave_their_header(struct tags *t)
{
	static const uint32_t len[] = { 16, 17, 1024, 1040, 1041, 50000 };

	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		uint32_t n = len[i] - 16;

		add(t, i + 1, 4096, n);
		send(t, IBV_TMH_EAGER, i + 1, len[i]);
		sent(t);
		expect(t, i + 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID,
		       n, i + 1);
		assert_memory_equal(t->f->mem[1] + 4096, t->f->mem[0] + 16, n);
	}
	add(t, 9, 4096, 100); /* with immediate, and a longer buffer */
	send(t, IBV_TMH_EAGER, 9, 50);
	sent(t);
	expect(t, 509, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 34, 9);
	add(t, 9, 4096, 100);
	send_raw(t, NULL, 0, 50, IBV_WR_SEND_WITH_IMM);
	sent(t);
	assert_int_equal(wc_of(t, 1, 509, IBV_WC_SUCCESS, NULL).wc_flags,
			 IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID | IBV_WC_WITH_IMM);
}

static void what_does_not_match_keeps_it(struct tags *t)
{
	static const struct {
		uint8_t opcode;
		uint32_t len;
		enum ibv_wc_opcode wc;
	} m[] = {
		{ IBV_TMH_EAGER, 16, IBV_WC_TM_RECV },
		{ IBV_TMH_EAGER, 5000, IBV_WC_TM_RECV },
		{ IBV_TMH_RNDV, 16, IBV_WC_TM_RECV }, /* without RVH */
		{ IBV_TMH_RNDV, 65, IBV_WC_TM_RECV }, /* too long for one */
		{ IBV_TMH_NO_TAG, 5000, IBV_WC_TM_NO_TAG },
		{ IBV_TMH_FIN, 16, IBV_WC_TM_NO_TAG },
		{ 200, 16, IBV_WC_TM_NO_TAG },
		{ IBV_TMH_EAGER, 15, IBV_WC_TM_NO_TAG }, /* without TMH */
		{ IBV_TMH_EAGER, 0, IBV_WC_TM_NO_TAG },
	};

	add(t, 1, 0, 100);
	for (size_t i = 0; i < sizeof(m) / sizeof(m[0]); i++) {
		uint64_t tag = m[i].opcode == IBV_TMH_RNDV || m[i].len < 16 ? 1 : 2;

		receive(t, i);
		send(t, m[i].opcode, tag, m[i].len);
		sent(t);
		expect(t, i, m[i].wc, 0, m[i].len, 0);
		assert_memory_equal(t->f->mem[1] + FIX_MEM - 8192, t->f->mem[0],
				    m[i].len);
	}
	assert_int_equal(t->srq->tm->unexpected, 4);
	send(t, IBV_TMH_EAGER, 1, 20); /* that one has waited all the time */
	sent(t);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 4, 1);
}

static void a_write_takes_a_receive(struct tags *t)
{
	struct ibv_sge sge = sim_sge(t->f->mr[0], 0, 64);
	struct ibv_send_wr wr = { .wr_id = 7,
				  .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.wr.rdma.remote_addr = t->f->mr[1]->mkey.base;
	wr.wr.rdma.rkey = t->f->mr[1]->mkey.key;
	receive(t, 1); /* what comes before leaves nothing behind */
	send(t, IBV_TMH_EAGER, 5, 20);
	receive(t, 3);
	sim_send(t->qp[0], &wr);
	sent(t);
	sent(t);
	expect(t, 1, IBV_WC_TM_RECV, 0, 20, 0);
	expect(t, 3, IBV_WC_RECV_RDMA_WITH_IMM, IBV_WC_WITH_IMM, 64, 0);
	assert_int_equal(t->srq->tm->unexpected, 1);
}

static void a_message_without_a_receive_waits(struct tags *t)
{
	send(t, IBV_TMH_EAGER, 5, 20);
	assert_false(sim_run(t->f->s, 20 * MS));
	assert_true(cq_empty(t->cq[0]));
	add(t, 5, 0, 100);
	sent(t);
	expect(t, 505, IBV_WC_TM_RECV, IBV_WC_TM_MATCH | IBV_WC_TM_DATA_VALID, 4, 5);
	assert_int_equal(t->srq->tm->unexpected, 0);
}

static void a_rendezvous_fetches_its_data(struct tags *t)
{
	static const uint32_t len[] = { 0, 1, 1000, 1024, 1025, BIG };

	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++) {
		struct request r = request(t, i + 1, 8192 + i, len[i]);

		take_fin(t, 77);
		add(t, i + 1, 8192, len[i] + 3);
		send_raw(t, &r, sizeof(r), i == 3 ? 64 : sizeof(r), IBV_WR_SEND);
		sent(t);
		expect(t, i + 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, len[i], i + 1);
		expect(t, i + 501, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, len[i], 0);
		assert_memory_equal(t->f->mem[1] + 8192, t->f->mem[0] + 8192 + i, len[i]);
		fin_came(t, 77, i + 1);
	}
	sim_run(t->f->s, SEC);
	assert_int_equal(used(t), 0);
	assert_int_equal(t->srq->tm->unexpected, 0);
}

struct seen {
	unsigned matched, valid, fins, sends;
};

static void look(struct tags *t, struct seen *s)
{
	struct cqe e;

	while (cq_pop(t->cq[1], &e) || cq_pop(t->cq[0], &e)) {
		assert_int_equal(e.status, IBV_WC_SUCCESS);
		s->matched += e.flags == IBV_WC_TM_MATCH;
		s->valid += e.flags == IBV_WC_TM_DATA_VALID;
		s->fins += e.wr_id == 77;
		s->sends += e.wr_id == 7;
	}
}

/* More than the send queue has places for, and the program's own work between. */
static void many_rendezvous_at_once(struct tags *t)
{
	enum { N = 30, LEN = 3000 };
	struct ibv_sge sge = sim_sge(t->f->mr[1], 0, 8);
	struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_READ,
				  .sg_list = &sge,
				  .num_sge = 1 };
	struct seen seen = { 0 };

	wr.wr.rdma.remote_addr = t->f->mr[0]->mkey.base;
	wr.wr.rdma.rkey = t->f->mr[0]->mkey.key;
	for (unsigned i = 0; i < N; i++) {
		take_fin(t, 77);
		add(t, i + 1, 8192 + i * LEN, LEN);
	}
	for (unsigned i = 0; i < N; i++) {
		struct request r = request(t, i + 1, 8192 + i * LEN, LEN);

		if (i % 8 == 0) /* all that it was promised, at the worst time */
			for (int j = 0; j < 4; j++)
				sim_send(t->qp[1], &wr);
		send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
		look(t, &seen);
		while (seen.sends <= i) { /* the request lies in A's memory */
			assert_true(sim_step(t->f->s));
			look(t, &seen);
		}
	}
	while (seen.valid < N || seen.fins < N) {
		assert_true(sim_step(t->f->s));
		look(t, &seen);
	}
	assert_int_equal(seen.matched, N);
	assert_memory_equal(t->f->mem[1] + 8192, t->f->mem[0] + 8192, N * LEN);
}

static void a_full_send_queue_keeps_no_rendezvous_out(struct tags *t)
{
	struct request r = request(t, 1, 8192, 100);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .wr_id = 3 }, *bad;
	unsigned n = 0;

	/* A has no receive: they wait, and fill the queue. */
	while (qp_post_send(t->qp[1], &wr, &bad) == 0)
		n++;
	assert_true(n >= 16);
	due_add(t->qp[1]->core, t->qp[1]);
	add(t, 1, 8192, 100);
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	sent(t);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 100, 1);
	assert_int_not_equal(qp_post_send(t->qp[1], &wr, &bad), 0);
	for (unsigned i = 0; i < n + 1; i++) {
		take_fin(t, i);
		wc_of(t, 0, i, IBV_WC_SUCCESS, NULL);
	}
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 100, 0);
	assert_memory_equal(t->f->mem[1] + 8192, t->f->mem[0] + 8192, 100);
}

static void a_rendezvous_waits_for_who_builds(struct tags *t, bool completes)
{
	struct request r = request(t, 1, 8192, 100);

	add(t, 1, 8192, 100);
	take_fin(t, 77);
	post_start(t->qp[1]);
	t->qp[1]->ex.wr_id = 1;
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	sent(t);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 100, 1);
	sim_run(t->f->s, 10 * MS);
	assert_true(cq_empty(t->cq[1]));
	if (completes)
		assert_int_equal(post_complete(t->qp[1]), 0);
	else
		assert_true(post_abort(t->qp[1]));
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 100, 0);
	fin_came(t, 77, 1);
}

static void a_rendezvous_waits_for_its_builder(struct tags *t)
{
	a_rendezvous_waits_for_who_builds(t, true);
	a_rendezvous_waits_for_who_builds(t, false);
}

static void a_rendezvous_that_the_qp_cannot_do_is_the_programs(struct tags *t)
{
	struct request r = request(t, 1, 8192, 100);
	struct ibv_ops_wr del = { .opcode = IBV_WR_TAG_DEL };
	uint32_t handle;

	t->qp[1]->attr.max_rd_atomic = 0; /* or: it may not READ */
	handle = add(t, 1, 8192, 100);
	receive(t, 4);
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	sent(t);
	expect(t, 4, IBV_WC_TM_RECV, 0, sizeof(r), 0);
	assert_memory_equal(t->f->mem[1] + FIX_MEM - 8192, &r, sizeof(r));
	del.tm.handle = handle;
	assert_int_equal(tm_post(t->srq, &del, NULL), 0);
}

/* --- what goes wrong --- */

static void failed(struct tags *t, int side)
{
	sim_run(t->f->s, SEC);
	assert_int_equal(t->qp[side]->state, IBV_QPS_ERR);
}

static void a_message_too_long_for_its_tag_fails(struct tags *t)
{
	add(t, 1, 0, 100);
	send(t, IBV_TMH_EAGER, 1, 117);
	wc_of(t, 0, 7, IBV_WC_REM_INV_REQ_ERR, NULL);
	wc_of(t, 1, 501, IBV_WC_LOC_LEN_ERR, NULL);
	failed(t, 1);
}

static void data_too_long_for_its_tag_fails(struct tags *t)
{
	struct request r = request(t, 1, 8192, 101);

	add(t, 1, 0, 100);
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	wc_of(t, 0, 7, IBV_WC_REM_INV_REQ_ERR, NULL);
	wc_of(t, 1, 501, IBV_WC_LOC_LEN_ERR, NULL);
	failed(t, 1);
	assert_int_equal(used(t), 0);
}

static void data_that_may_not_be_read_fails(struct tags *t)
{
	struct request r = request(t, 1, 8192, 100);

	add(t, 1, 0, 100);
	r.r.rkey ^= 0xff;
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	sent(t);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 100, 1);
	wc_of(t, 1, 501, IBV_WC_REM_ACCESS_ERR, NULL);
	failed(t, 1);
	assert_int_equal(used(t), 0);
}

static void a_buffer_with_a_wrong_key_fails(struct tags *t)
{
	struct request r = request(t, 1, 8192, 100);
	struct ibv_sge sge = sim_sge(t->f->mr[1], 0, 100);
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_ADD,
				 .tm.add = { .recv_wr_id = 501,
					     .sg_list = &sge,
					     .num_sge = 1,
					     .tag = 1,
					     .mask = ~0ull } };

	sge.lkey ^= 0xff;
	assert_int_equal(tm_post(t->srq, &wr, NULL), 0);
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	sent(t);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 100, 1);
	wc_of(t, 1, 501, IBV_WC_LOC_PROT_ERR, NULL);
	failed(t, 1);
}

static void a_fin_that_is_refused_is_an_event(struct tags *t)
{
	struct request r = request(t, 1, 8192, 100);
	struct ibv_sge none = sim_sge(t->f->mr[0], 0, 4); /* FIN is longer */

	sim_recv(t->qp[0], 3, &none, 1);
	add(t, 1, 0, 100);
	send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
	sent(t);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_MATCH, 100, 1);
	expect(t, 501, IBV_WC_TM_RECV, IBV_WC_TM_DATA_VALID, 100, 0);
	wc_of(t, 0, 3, IBV_WC_LOC_LEN_ERR, NULL);
	failed(t, 1);
	assert_int_equal(sim_event(t->f->s, 1), IBV_EVENT_QP_FATAL);
	assert_int_equal(used(t), 0);
}

/* One READ is out, others wait for it; then the QP is taken away. */
static void begin_many(struct tags *t)
{
	for (unsigned i = 1; i <= 12; i++) {
		struct request r = request(t, i, 8192, 100);

		add(t, i, 8192, 100);
		send_raw(t, &r, sizeof(r), sizeof(r), IBV_WR_SEND);
		sent(t);
	}
}

static unsigned statuses(struct tags *t, uint8_t status)
{
	unsigned n = 0;
	struct cqe e;

	while (cq_pop(t->cq[1], &e))
		n += e.status == status;
	return n;
}

static void a_qp_that_ends_flushes(struct tags *t)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	unsigned there;

	begin_many(t); /* none has a FIN's receive: eight at most are through */
	assert_int_equal(qp_modify(t->qp[1], &a, IBV_QP_STATE, t->f->s->now), 0);
	there = used(t);
	assert_int_equal(there, 0);
	there = statuses(t, IBV_WC_WR_FLUSH_ERR);
	assert_true(there >= 4 && there <= 12);
}

static void a_qp_that_is_reset_frees_its_tags(struct tags *t)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RESET };

	begin_many(t);
	assert_true(used(t) >= 4); /* eight FINs are out */
	assert_int_equal(qp_modify(t->qp[1], &a, IBV_QP_STATE, t->f->s->now), 0);
	assert_int_equal(used(t), 0);
	assert_int_equal(statuses(t, IBV_WC_WR_FLUSH_ERR), 0);
}

static void a_qp_that_is_destroyed_frees_its_tags(struct tags *t)
{
	begin_many(t); /* close_tags() looks */
}

static void run(void (*test)(struct tags *t))
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++) {
		struct tags *t = open_tags(&ways[i].conf);

		print_message("           %s\n", ways[i].name);
		test(t);
		close_tags(t);
	}
}

#define TEST(name)                                                                       \
	static void test_##name(void **state)                                            \
	{                                                                                \
		(void)state;                                                             \
		run(name);                                                               \
	}
#define TESTS                                                                            \
	X(messages_that_match_leave_their_header)                                        \
	X(what_does_not_match_keeps_it)                                                  \
	X(a_write_takes_a_receive)                                                       \
	X(a_message_without_a_receive_waits)                                             \
	X(a_rendezvous_fetches_its_data)                                                 \
	X(many_rendezvous_at_once)                                                       \
	X(a_full_send_queue_keeps_no_rendezvous_out)                                     \
	X(a_rendezvous_waits_for_its_builder)                                            \
	X(a_rendezvous_that_the_qp_cannot_do_is_the_programs)                            \
	X(a_message_too_long_for_its_tag_fails)                                          \
	X(data_too_long_for_its_tag_fails)                                               \
	X(data_that_may_not_be_read_fails)                                               \
	X(a_buffer_with_a_wrong_key_fails)                                               \
	X(a_fin_that_is_refused_is_an_event)                                             \
	X(a_qp_that_ends_flushes)                                                        \
	X(a_qp_that_is_reset_frees_its_tags)                                             \
	X(a_qp_that_is_destroyed_frees_its_tags)

#define X(name) TEST(name)
TESTS
#undef X

int main(void)
{
	const struct CMUnitTest tests[] = {
#define X(name) cmocka_unit_test(test_##name),
		TESTS
#undef X
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
