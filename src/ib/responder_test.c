/* SPDX-License-Identifier: BSD-2-Clause */
/* Requests that break a rule: the NAK, completion and event that the specification names,
 * and untouched memory. */
#include "ib/fix.h"

#include <sys/mman.h>

#include "sys/guard.h"
#include "sys/log_testing.h"

static struct ib_fields packet(const struct fix *f, enum ib_kind kind,
			       enum ib_place place, uint32_t psn)
{
	return (struct ib_fields){
		.opcode = ib_opcode(IB_RC, kind, place, IB_NONE),
		.pkey = 0xffff,
		.migreq = true,
		.ackreq = true,
		.dest_qp = f->p.qp[1]->qpn,
		.psn = psn,
		.va = f->mr[1]->mkey.base,
		.rkey = f->mr[1]->mkey.key,
	};
}

/* The responder has failed with this syndrome and event (-1: none). */
static void refused(struct fix *f, uint8_t syndrome, int event)
{
	fix_quiet(f);
	assert_true(f->n > 0);
	assert_int_equal(f->log[f->n - 1].side, 1);
	assert_int_equal(f->log[f->n - 1].f.syndrome, syndrome);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_int_equal(sim_event(f->s, 1), event);
	assert_int_equal(sim_event(f->s, 1), -1);
}

static void post_with(struct fix *f, enum ibv_wr_opcode op, size_t at, uint32_t len,
		      uint32_t rkey)
{
	struct ibv_sge sge = sim_sge(f->mr[0], 0, len);
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = op,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.rdma = { f->mr[1]->mkey.base + at, rkey },
	};

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = f->mr[1]->mkey.base + at;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 1;
	}
	sim_send(f->p.qp[0], &wr);
}

static void remote_access(enum ibv_wr_opcode op, size_t at, uint32_t len, uint32_t x)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	uint8_t *copy = malloc(FIX_MEM);

	memcpy(copy, f->mem[1], FIX_MEM);
	post_with(f, op, at, len, f->mr[1]->mkey.key ^ x);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_REM_ACCESS_ERR).vendor_err,
			 VERR_REMOTE_ACCESS);
	refused(f, 0x62, IBV_EVENT_QP_ACCESS_ERR);
	assert_memory_equal(copy, f->mem[1], FIX_MEM);
	free(copy);
	fix_close(f);
}

/* A request that is refused ends the QP, so a peer fills no log with them. */
static void a_flood_does_not_fill_the_log(void **state)
{
	enum { FLOOD = 100, FEW = 3 };
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = packet(f, IB_READ, IB_ONLY, 0);
	char text[FLOOD * 256];
	unsigned lines = 0;

	(void)state;
	p.rkey++;
	p.dma_len = 8;
	LOGGED(
		text, "info", for (int i = 0; i < FLOOD; i++) {
			sim_inject(f->s, 0, &p, NULL, 0);
			fix_quiet(f);
		});
	for (const char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	assert_in_range(lines, 1, FEW);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	fix_close(f);
}

static void wrong_rkey(void **state)
{
	(void)state;
	remote_access(IBV_WR_RDMA_WRITE, 0, 3000, 1);
	remote_access(IBV_WR_RDMA_READ, 0, 3000, 0x100);
	remote_access(IBV_WR_ATOMIC_FETCH_AND_ADD, 0, 8, 0x100);
}

static void out_of_range(void **state)
{
	(void)state;
	remote_access(IBV_WR_RDMA_WRITE, FIX_MEM - 2999, 3000, 0);
	remote_access(IBV_WR_RDMA_READ, (size_t)-1, 1, 0);
	remote_access(IBV_WR_ATOMIC_FETCH_AND_ADD, FIX_MEM, 8, 0);
}

static void region_without_the_right(void **state)
{
	static const struct {
		enum ibv_wr_opcode op;
		int without;
	} v[] = {
		{ IBV_WR_RDMA_WRITE, IBV_ACCESS_REMOTE_WRITE },
		{ IBV_WR_RDMA_READ, IBV_ACCESS_REMOTE_READ },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_ACCESS_REMOTE_ATOMIC },
	};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct fix *f = fix_open(IBV_QPT_RC, NULL);
		struct mr *mr = sim_mr(f->s, 1, f->mem[1], 4096, FIX_ALL & ~v[i].without);

		post_with(f, v[i].op, 0, 8, mr->mkey.key);
		fix_wc(f, 0, 1, IBV_WC_REM_ACCESS_ERR);
		refused(f, 0x62, IBV_EVENT_QP_ACCESS_ERR);
		assert_int_equal(mr_dereg(mr), 0);
		fix_close(f);
	}
}

/* A request that the QP's access flags do not allow is invalid. */
static void qp_without_the_right(void **state)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct fix *f = fix_open(IBV_QPT_RC, NULL);

		f->p.qp[1]->attr.qp_access_flags = 0;
		post_with(f, ops[i], 0, 8, f->mr[1]->mkey.key);
		assert_int_equal(fix_wc(f, 0, 1, IBV_WC_REM_INV_REQ_ERR).vendor_err,
				 VERR_REMOTE_INVALID);
		refused(f, 0x61, IBV_EVENT_QP_REQ_ERR);
		fix_close(f);
	}
}

static void another_pd(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct pd *pd;
	struct mr *mr;

	(void)state;
	assert_int_equal(pd_alloc(&f->s->node[1].core, &f->s->node[1].ibv, &pd), 0);
	assert_int_equal(mr_reg(pd, f->mem[1], 4096, (uintptr_t)f->mem[1], FIX_ALL, &mr),
			 0);
	post_with(f, IBV_WR_RDMA_WRITE, 0, 8, mr->mkey.key);
	fix_wc(f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(mr_dereg(mr), 0);
	assert_int_equal(pd_free(pd), 0);
	fix_close(f);
}

static void skewed_atomic(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	post_with(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 8, f->mr[1]->mkey.key);
	fix_wc(f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	refused(f, 0x61, IBV_EVENT_QP_REQ_ERR);
	fix_close(f);
}

/* Both the address in the request and the host address must be aligned. */
static void skewed_iova(void **state)
{
	(void)state;
	for (uint64_t skew = 0; skew < 8; skew += 4) {
		struct fix *f = fix_open(IBV_QPT_RC, NULL);
		uint64_t base = (uintptr_t)f->mem[1];
		struct mr *mr;

		assert_int_equal(mr_reg(f->s->node[1].pd, f->mem[1], 4096, base + 4,
					FIX_ALL, &mr),
				 0);
		post_with(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 8 + skew, 8, mr->mkey.key);
		fix_wc(f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
		refused(f, 0x61, IBV_EVENT_QP_REQ_ERR);
		assert_int_equal(mr_dereg(mr), 0);
		fix_close(f);
	}
}

static void longer_than_the_receive(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_recv(f, 8, 0, 2999);
	fix_recv(f, 9, 0, 10);
	fix_post(f, IBV_WR_SEND, 1, 0, 3000, 0);
	fix_wc(f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(fix_wc(f, 1, 8, IBV_WC_LOC_LEN_ERR).vendor_err,
			 VERR_LOCAL_LENGTH);
	fix_wc(f, 1, 9, IBV_WC_WR_FLUSH_ERR);
	refused(f, 0x61, -1);
	fix_close(f);
}

static void receive_with_a_bad_lkey(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ibv_sge sge = sim_sge(f->mr[1], FIX_MEM - 10, 100);

	(void)state;
	sim_recv(f->p.qp[1], 8, &sge, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 50, 0);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_REM_OP_ERR).vendor_err,
			 VERR_REMOTE_OPERATION);
	fix_wc(f, 1, 8, IBV_WC_LOC_PROT_ERR);
	refused(f, 0x63, -1);
	fix_close(f);
}

static void unmapped_memory(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	void *at = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	struct mr *mr = sim_mr(f->s, 1, at, 8192, FIX_ALL);

	(void)state;
	guard_arm();
	munmap(at, 8192);
	post_with(f, IBV_WR_RDMA_READ, (uintptr_t)at - (uintptr_t)f->mr[1]->mkey.base,
		  5000, mr->mkey.key);
	fix_wc(f, 0, 1, IBV_WC_REM_OP_ERR);
	refused(f, 0x63, IBV_EVENT_QP_ACCESS_ERR);
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

static void too_many_reads(void **state)
{
	struct sim_conf c = { .rd_atomic = 2 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);
	struct ib_fields r = packet(f, IB_READ, IB_ONLY, 0);

	(void)state;
	r.dma_len = 8;
	for (r.psn = 0; r.psn < 3; r.psn++)
		sim_inject(f->s, 0, &r, NULL, 0);
	refused(f, 0x61, IBV_EVENT_QP_REQ_ERR);
	/* The two accepted ones are answered before. */
	assert_int_equal(f->n, 3);
	fix_saw(f, 0, 1, "READ_RESP_ONLY", 0);
	fix_saw(f, 1, 1, "READ_RESP_ONLY", 1);
	fix_saw(f, 2, 1, "ACK", 2);
	fix_close(f);
}

/* Each of these, as PSN 0 on a fresh QP with a receive posted, is invalid. */
static void broken_messages(void **state)
{
	static const struct {
		enum ib_kind kind;
		enum ib_place place;
		uint32_t len, dma;
	} v[] = {
		{ IB_SEND, IB_MIDDLE, 1024, 0 }, /* nothing has begun */
		{ IB_SEND, IB_LAST, 10, 0 },
		{ IB_WRITE, IB_LAST, 10, 0 },
		{ IB_SEND, IB_FIRST, 1000, 0 }, /* not a full packet */
		{ IB_SEND, IB_ONLY, 1028, 0 },	/* longer than the MTU */
		{ IB_WRITE, IB_ONLY, 10, 11 },	/* not the length of the RETH */
		{ IB_WRITE, IB_ONLY, 10, 9 },
		/* nothing is left for the last packet */
		{ IB_WRITE, IB_FIRST, 1024, 1024 },
		{ IB_WRITE, IB_FIRST, 1024, 0x80000001 },
		{ IB_READ, IB_ONLY, 0, 0x80000001 },
		{ IB_FLUSH, IB_ONLY, 0, 0 }, /* no QP of these allows it */
		{ IB_ATOMIC_WRITE, IB_ONLY, 4, 8 },
		{ IB_ATOMIC_WRITE, IB_ONLY, 8, 16 },
		{ IB_ATOMIC_WRITE, IB_ONLY, 16, 16 },
		{ IB_ATOMIC_WRITE, IB_ONLY, 0, 0 },
	};
	uint8_t data[2048] = { 0 };

	(void)state;
	for (size_t i = 0; i < sizeof(v) / sizeof(v[0]); i++) {
		struct fix *f = fix_open(IBV_QPT_RC, NULL);
		struct ib_fields p = packet(f, v[i].kind, v[i].place, 0);

		p.dma_len = v[i].dma;
		fix_recv(f, 9, 0, 5000);
		sim_inject(f->s, 0, &p, data, v[i].len);
		refused(f, 0x61, IBV_EVENT_QP_REQ_ERR);
		fix_close(f);
	}
}

static void message_in_a_message(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = packet(f, IB_SEND, IB_FIRST, 0);
	uint8_t data[1024] = { 0 };

	(void)state;
	fix_recv(f, 9, 0, 5000);
	sim_inject(f->s, 0, &p, data, 1024);
	p.psn = 1;
	sim_inject(f->s, 0, &p, data, 1024);
	refused(f, 0x61, IBV_EVENT_QP_REQ_ERR);
	fix_wc(f, 1, 9, IBV_WC_REM_INV_REQ_ERR);
	fix_close(f);
}

/* ERR or RESET in the middle of a message: its receive is flushed, or gone. */
static void half_a_message(void **state)
{
	for (int reset = 0; reset < 2; reset++) {
		struct fix *f = fix_open(IBV_QPT_RC, NULL);
		struct ib_fields p = packet(f, IB_SEND, IB_FIRST, 0);
		uint8_t data[1024] = { 0 };

		(void)state;
		fix_recv(f, 8, 0, 5000);
		fix_recv(f, 9, 0, 5000);
		sim_inject(f->s, 0, &p, data, 1024);
		fix_quiet(f);
		fix_modify(f, 1, reset ? IBV_QPS_RESET : IBV_QPS_ERR);
		if (!reset) {
			fix_wc(f, 1, 8, IBV_WC_WR_FLUSH_ERR);
			fix_wc(f, 1, 9, IBV_WC_WR_FLUSH_ERR);
		}
		fix_no_wc(f, 1);
		fix_close(f);
	}
}

static void rnr_then_reorder(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = packet(f, IB_SEND, IB_ONLY, 0);

	(void)state;
	sim_inject(f->s, 0, &p, "x", 1);
	p.psn = 1;
	sim_inject(f->s, 0, &p, "x", 1); /* a duplicate: no gap */
	fix_quiet(f);
	assert_int_equal(f->n, 1);
	assert_int_equal(fix_saw(f, 0, 1, "ACK", 0)->f.syndrome, 0x20 | 12);
	fix_close(f);
}

/* Two packets that change places within one turn cost at most one NAK. */
static void one_ack_a_turn(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = packet(f, IB_WRITE, IB_ONLY, 0);

	(void)state;
	p.dma_len = 1;
	for (p.psn = 0; p.psn < 10; p.psn++)
		sim_inject(f->s, 0, &p, "x", 1);
	fix_quiet(f);
	assert_int_equal(f->n, 1);
	assert_int_equal(fix_saw(f, 0, 1, "ACK", 9)->f.msn, 10);
	fix_close(f);
}

/* Packets 0, 2 and 1 within one turn: 1 is not missing any more, but 2 was dropped. */
static void nak_of_what_is_missing_now(void **state)
{
	static const uint32_t order[] = { 0, 2, 1 };
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = packet(f, IB_WRITE, IB_ONLY, 0);

	(void)state;
	p.dma_len = 1;
	for (unsigned i = 0; i < 3; i++) {
		p.psn = order[i];
		sim_inject(f->s, 0, &p, "x", 1);
	}
	fix_quiet(f);
	assert_int_equal(f->n, 2);
	assert_int_equal(fix_saw(f, 0, 1, "ACK", 1)->f.syndrome, 0x1f);
	assert_int_equal(fix_saw(f, 1, 1, "ACK", 2)->f.syndrome, 0x60);
	fix_close(f);
}

/* The packet that closes a gap is acknowledged even if it did not ask: once. */
static void a_gap_that_ends(void **state)
{
	static const uint32_t order[] = { 0, 2, 1, 2 };
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = packet(f, IB_WRITE, IB_ONLY, 0);

	(void)state;
	p.dma_len = 1;
	p.ackreq = false;
	for (unsigned i = 0; i < 4; i++) {
		p.psn = order[i];
		sim_inject(f->s, 0, &p, "x", 1);
		fix_quiet(f);
	}
	assert_int_equal(f->n, 2);
	assert_int_equal(fix_saw(f, 0, 1, "ACK", 1)->f.syndrome, 0x60);
	assert_int_equal(fix_saw(f, 1, 1, "ACK", 1)->f.syndrome, 0x1f);
	fix_close(f);
}

static void established(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ib_fields p = packet(f, IB_SEND, IB_ONLY, 0);

	(void)state;
	f->p.qp[1]->state = IBV_QPS_RTR;
	fix_recv(f, 8, 0, 10);
	fix_recv(f, 9, 0, 10);
	sim_inject(f->s, 0, &p, "x", 1);
	p.psn = 1;
	sim_inject(f->s, 0, &p, "x", 1);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	assert_int_equal(sim_event(f->s, 1), IBV_EVENT_COMM_EST);
	assert_int_equal(sim_event(f->s, 1), -1);
	fix_close(f);
}

/* A type 2 window: bound, written through, invalidated by a SEND. */
static void send_with_invalidate(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct mr *mr = sim_mr(f->s, 1, f->mem[1], 8192, FIX_ALL | IBV_ACCESS_MW_BIND);
	struct mw *mw;
	struct ibv_send_wr wr = { .wr_id = 5,
				  .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED };
	uint32_t rkey;
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(mw_alloc(f->s->node[1].pd, IBV_MW_TYPE_2, &mw), 0);
	rkey = (mw->ibv.rkey & 0xffffff00) | ((mw->ibv.rkey + 1) & 0xff);
	wr.bind_mw.mw = &mw->ibv;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ &mr->ibv, (uintptr_t)f->mem[1],
							  4096, IBV_ACCESS_REMOTE_WRITE };
	sim_send(f->p.qp[1], &wr);
	fix_wc(f, 1, 5, IBV_WC_SUCCESS);

	post_with(f, IBV_WR_RDMA_WRITE, 0, 100, rkey);
	fix_recv(f, 9, 5000, 10);
	memset(&wr, 0, sizeof(wr));
	wr.wr_id = 2;
	wr.opcode = IBV_WR_SEND_WITH_INV;
	wr.invalidate_rkey = rkey;
	wr.send_flags = IBV_SEND_SIGNALED;
	sim_send(f->p.qp[0], &wr);
	wc = fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_INV);
	assert_int_equal(wc.invalidated_rkey, rkey);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_same(f, 0, 100);

	post_with(f, IBV_WR_RDMA_WRITE, 0, 100, rkey);
	fix_wc(f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(mw_dealloc(mw), 0);
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

/* 9.9.3, class J: no NAK. The requester has the ACK of what came before, and finds out by
 * its retries. */
static void a_key_that_cannot_be_invalidated(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct ibv_send_wr bad = { .wr_id = 2,
				   .opcode = IBV_WR_SEND_WITH_INV,
				   .send_flags = IBV_SEND_SIGNALED,
				   .invalidate_rkey = 0xdeadbeef },
			   good = { .wr_id = 1,
				    .next = &bad,
				    .opcode = IBV_WR_SEND,
				    .send_flags = IBV_SEND_SIGNALED };

	(void)state;
	fix_recv(f, 8, 5000, 10);
	fix_recv(f, 9, 5000, 10);
	sim_send(f->p.qp[0], &good);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	assert_int_equal(fix_wc(f, 1, 9, IBV_WC_REM_INV_REQ_ERR).vendor_err,
			 VERR_INVALIDATE);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	fix_wc(f, 0, 2, IBV_WC_RETRY_EXC_ERR);
	for (uint32_t i = 0; i < f->n; i++)
		assert_true(f->log[i].side == 0 || !(f->log[i].f.syndrome & 0x60));
	assert_int_equal(sim_event(f->s, 1), -1);
	fix_close(f);
}

/* A receive tells of it, if one is posted and the refused packet has the immediate data.
 */
static void immediate_data_and_a_wrong_rkey(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		struct fix *f = fix_open(IBV_QPT_RC, NULL);

		if (i)
			fix_recv(f, 9, 5000, 10);
		post_with(f, IBV_WR_RDMA_WRITE_WITH_IMM, 0, i == 2 ? 3000 : 100,
			  f->mr[1]->mkey.key ^ 1);
		fix_wc(f, 0, 1, IBV_WC_REM_ACCESS_ERR);
		refused(f, 0x62, IBV_EVENT_QP_ACCESS_ERR);
		if (i)
			fix_wc(f, 1, 9,
			       i == 1 ? IBV_WC_LOC_ACCESS_ERR : IBV_WC_WR_FLUSH_ERR);
		fix_close(f);
	}
}

static void a_window_goes_with_its_qp(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, NULL);
	struct sim_pair other = sim_pair(f->s, IBV_QPT_RC, &f->conf);
	struct mr *mr = sim_mr(f->s, 1, f->mem[1], 8192, FIX_ALL | IBV_ACCESS_MW_BIND);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_wc wc;
	struct mw *mw;

	(void)state;
	assert_int_equal(mw_alloc(f->s->node[1].pd, IBV_MW_TYPE_2, &mw), 0);
	wr.bind_mw.mw = &mw->ibv;
	wr.bind_mw.rkey = ibv_inc_rkey(mw->ibv.rkey);
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ &mr->ibv, (uintptr_t)f->mem[1],
							  4096, IBV_ACCESS_REMOTE_WRITE };
	sim_send(other.qp[1], &wr);
	assert_true(sim_wait(f->s, other.cq[1], SEC, &wc));
	assert_int_equal(wc.status, IBV_WC_SUCCESS);
	assert_int_equal(mr_dereg(mr), -EBUSY);
	sim_unpair(f->s, &other);
	assert_int_equal(mr_dereg(mr), 0);
	assert_int_equal(mw_dealloc(mw), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_flood_does_not_fill_the_log),
		cmocka_unit_test(wrong_rkey),
		cmocka_unit_test(out_of_range),
		cmocka_unit_test(region_without_the_right),
		cmocka_unit_test(qp_without_the_right),
		cmocka_unit_test(another_pd),
		cmocka_unit_test(skewed_atomic),
		cmocka_unit_test(skewed_iova),
		cmocka_unit_test(longer_than_the_receive),
		cmocka_unit_test(receive_with_a_bad_lkey),
		cmocka_unit_test(unmapped_memory),
		cmocka_unit_test(too_many_reads),
		cmocka_unit_test(broken_messages),
		cmocka_unit_test(message_in_a_message),
		cmocka_unit_test(half_a_message),
		cmocka_unit_test(rnr_then_reorder),
		cmocka_unit_test(one_ack_a_turn),
		cmocka_unit_test(nak_of_what_is_missing_now),
		cmocka_unit_test(a_gap_that_ends),
		cmocka_unit_test(established),
		cmocka_unit_test(send_with_invalidate),
		cmocka_unit_test(a_key_that_cannot_be_invalidated),
		cmocka_unit_test(immediate_data_and_a_wrong_rkey),
		cmocka_unit_test(a_window_goes_with_its_qp),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
