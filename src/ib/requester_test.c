/* SPDX-License-Identifier: BSD-2-Clause */
/* The packets of each work request. */
#include "ib/fix.h"
#include "verbs/device_testing.h"

static const struct sim_conf conf = { .psn = { 0xfffffe, 500 } };

static void send_three(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	const struct sim_packet *p;

	(void)state;
	fix_recv(f, 9, 0, 3000);
	fix_post(f, IBV_WR_SEND, 1, 0, 3000, IBV_SEND_SOLICITED);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, 3000);

	p = fix_saw(f, 0, 0, "SEND_FIRST", 0xfffffe);
	assert_int_equal(p->payload, 1024);
	assert_int_equal(p->f.dest_qp, f->p.qp[1]->qpn);
	assert_int_equal(p->f.pkey, 0xffff);
	assert_true(p->f.migreq);
	assert_false(p->f.ackreq);
	assert_false(p->f.se);
	p = fix_saw(f, 1, 0, "SEND_MIDDLE", 0xffffff);
	assert_int_equal(p->payload, 1024);
	p = fix_saw(f, 2, 0, "SEND_LAST", 0);
	assert_int_equal(p->payload, 952);
	assert_true(p->f.ackreq);
	assert_true(p->f.se);
	p = fix_saw(f, 3, 1, "ACK", 0);
	assert_int_equal(p->f.syndrome, 0x1f);
	assert_int_equal(p->f.msn, 1);
	assert_int_equal(p->len, 12 + 4 + 4);
	fix_quiet(f);
	assert_int_equal(f->n, 4);
	fix_close(f);
}

static void write_three(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	const struct sim_packet *p;

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 100, 3001, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 100, 3001);
	p = fix_saw(f, 0, 0, "WRITE_FIRST", 0xfffffe);
	assert_int_equal(p->f.va, f->mr[1]->mkey.base + 100);
	assert_int_equal(p->f.rkey, f->mr[1]->mkey.key);
	assert_int_equal(p->f.dma_len, 3001);
	fix_saw(f, 1, 0, "WRITE_MIDDLE", 0xffffff);
	p = fix_saw(f, 2, 0, "WRITE_LAST", 0);
	assert_int_equal(p->f.pad, 3);
	assert_int_equal(p->payload, 953);
	fix_saw(f, 3, 1, "ACK", 0);
	fix_quiet(f);
	assert_int_equal(f->n, 4);
	fix_close(f);
}

static void write_imm(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	struct ibv_wc wc;

	(void)state;
	sim_recv(f->p.qp[1], 9, NULL, 0);
	sim_recv(f->p.qp[1], 10, NULL, 0);
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 1025, 0);
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 0, 0, 0);
	wc = fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	assert_int_equal(wc.byte_len, 1025);
	assert_int_equal(wc.imm_data, 0x12345678);
	wc = fix_wc(f, 1, 10, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_saw(f, 0, 0, "WRITE_FIRST", 0xfffffe);
	assert_int_equal(fix_saw(f, 1, 0, "WRITE_LAST_IMM", 0xffffff)->f.imm, 0x12345678);
	fix_saw(f, 2, 0, "WRITE_ONLY_IMM", 0);
	fix_same(f, 0, 1025);
	fix_close(f);
}

static void read_advances_psn(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	const struct sim_packet *p;

	(void)state;
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 3001, 0);
	fix_post(f, IBV_WR_RDMA_READ, 2, 4000, 1, 0);
	fix_post(f, IBV_WR_RDMA_READ, 3, 5000, 0, 0);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_SUCCESS).byte_len, 3001);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_wc(f, 0, 3, IBV_WC_SUCCESS);
	fix_same(f, 0, 3001);
	fix_same(f, 4000, 1);
	p = fix_saw(f, 0, 0, "READ_REQUEST", 0xfffffe);
	assert_int_equal(p->f.dma_len, 3001);
	assert_int_equal(p->payload, 0);
	fix_saw(f, 1, 0, "READ_REQUEST", 1);
	assert_int_equal(fix_saw(f, 2, 0, "READ_REQUEST", 2)->f.dma_len, 0);
	p = fix_saw(f, 3, 1, "READ_RESP_FIRST", 0xfffffe);
	assert_int_equal(p->f.syndrome, 0x1f);
	assert_int_equal(p->f.msn, 1);
	fix_saw(f, 4, 1, "READ_RESP_MIDDLE", 0xffffff);
	p = fix_saw(f, 5, 1, "READ_RESP_LAST", 0);
	assert_int_equal(p->payload, 953);
	fix_saw(f, 6, 1, "READ_RESP_ONLY", 1);
	assert_int_equal(fix_saw(f, 7, 1, "READ_RESP_ONLY", 2)->payload, 0);
	fix_quiet(f);
	assert_int_equal(f->n, 8); /* no ACK: the responses acknowledge */
	fix_close(f);
}

static void long_read_in_parts(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	uint32_t psn = 0xfffffe, sum = 0;

	(void)state;
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 100001, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, 100001);
	for (unsigned i = 0; i < f->n; i++) {
		const struct sim_packet *p = &f->log[i];

		if (p->side != 0)
			continue;
		assert_int_equal(p->f.psn, psn);
		assert_int_equal(p->f.va, f->mr[1]->mkey.base + sum);
		psn = psn_add(psn, (p->f.dma_len + 1023) / 1024);
		sum += p->f.dma_len;
	}
	assert_int_equal(sum, 100001);
	assert_true(fix_count(f, 0, "READ_REQUEST") > 1);
	fix_close(f);
}

/* Posts a READ of len bytes; each of its requests ends where a part of it does. */
static void read_in_parts(struct fix *f, uint32_t len, uint32_t part, unsigned requests)
{
	const unsigned before = f->n;
	unsigned n = 0;

	memset(f->mem[0], 0, len);
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, len, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, len);
	for (unsigned i = before; i < f->n; i++) {
		const struct sim_packet *p = &f->log[i];
		uint64_t end = p->f.va - f->mr[1]->mkey.base + p->f.dma_len;

		if (p->side != 0)
			continue;
		assert_true(end % part == 0 || end == len);
		n++;
	}
	assert_int_equal(n, requests);
}

/* A loss cuts the window: the READ that has begun keeps its parts, the next one has
 * shorter ones. */
static void read_in_shorter_parts(void **state)
{
	enum { LEN = 200000 };
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	struct cc_host *h = fix_ib(f, 0)->host;

	(void)state;
	read_in_parts(f, LEN, 64 << 10, 4);
	fix_lose(f, 1, "READ_RESP_MIDDLE", 100);
	read_in_parts(f, LEN, 64 << 10, 5);
	assert_in_range(h->window, CC_WINDOW_MAX / 2, CC_WINDOW_MAX - 1);
	h->window = CC_WINDOW_MIN;
	read_in_parts(f, LEN, 16 << 10, 13);
	fix_close(f);
}

static void atomics(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	const struct sim_packet *p;
	uint64_t five = 5, one = 1, v;

	(void)state;
	memcpy(f->mem[1], &five, 8);
	memcpy(f->mem[1] + 8, &one, 8);
	fix_post(f, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 8, 0);
	fix_post(f, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 8, 8, 0);
	fix_post(f, IBV_WR_ATOMIC_CMP_AND_SWP, 3, 0, 8, 0);
	assert_int_equal(fix_wc(f, 0, 1, IBV_WC_SUCCESS).opcode, IBV_WC_FETCH_ADD);
	assert_int_equal(fix_wc(f, 0, 2, IBV_WC_SUCCESS).opcode, IBV_WC_COMP_SWAP);
	fix_wc(f, 0, 3, IBV_WC_SUCCESS);
	memcpy(&v, f->mem[1], 8);
	assert_int_equal(v, 6); /* the value was not 1: no swap */
	memcpy(&v, f->mem[1] + 8, 8);
	assert_int_equal(v, 77);
	memcpy(&v, f->mem[0] + 8, 8);
	assert_int_equal(v, 1);
	p = fix_saw(f, 0, 0, "FETCH_ADD", 0xfffffe);
	assert_int_equal(p->f.swap_add, 1);
	p = fix_saw(f, 1, 0, "CMP_SWAP", 0xffffff);
	assert_int_equal(p->f.swap_add, 77);
	assert_int_equal(p->f.compare, 1);
	p = fix_saw(f, 3, 1, "ATOMIC_ACK", 0xfffffe);
	assert_int_equal(p->f.orig, 5);
	fix_quiet(f);
	assert_int_equal(f->n, 6);
	fix_close(f);
}

static void nothing_at_all(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	(void)state;
	sim_recv(f->p.qp[1], 9, NULL, 0);
	sim_send(f->p.qp[0], &wr);
	wr.opcode = IBV_WR_RDMA_WRITE; /* rkey 0: not checked */
	sim_send(f->p.qp[0], &wr);
	assert_int_equal(fix_wc(f, 1, 9, IBV_WC_SUCCESS).byte_len, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(fix_saw(f, 0, 0, "SEND_ONLY", 0xfffffe)->len, 16);
	fix_saw(f, 1, 0, "WRITE_ONLY", 0xffffff);
	fix_close(f);
}

static void inline_needs_no_key(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	uint8_t text[11] = "0123456789";
	struct ibv_sge sge = { (uintptr_t)text, 11, 0xdeadbeef };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	};

	(void)state;
	fix_recv(f, 9, 0, 100);
	sim_send(f->p.qp[0], &wr);
	memset(text, 'x', 11); /* inline: the buffer is the program's again */
	assert_int_equal(fix_wc(f, 1, 9, IBV_WC_SUCCESS).byte_len, 11);
	assert_memory_equal(f->mem[1], "0123456789", 11);
	fix_close(f);
}

/* No more READs and atomics are outstanding than the peer allows. */
static void rd_atomic_limit(void **state)
{
	struct sim_conf c = { .rd_atomic = 2, .latency = 100000 };
	struct fix *f = fix_open(IBV_QPT_RC, &c);
	int out = 0;

	(void)state;
	for (unsigned i = 0; i < 20; i++)
		fix_post(f, i & 1 ? IBV_WR_RDMA_READ : IBV_WR_ATOMIC_FETCH_AND_ADD, i,
			 i * 8, 8, 0);
	for (unsigned i = 0; i < 20; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	for (unsigned i = 0; i < f->n; i++) {
		out += f->log[i].side == 0 ? 1 : -1;
		assert_in_range(out, 0, 2);
	}
	fix_close(f);
}

static void fence_waits_for_read(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);

	(void)state;
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 8, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 8, 0);
	fix_post(f, IBV_WR_RDMA_READ, 3, 8, 8, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 4, 8, 8, IBV_SEND_FENCE);
	for (unsigned i = 1; i <= 4; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_saw(f, 0, 0, "READ_REQUEST", 0xfffffe);
	fix_saw(f, 1, 0, "WRITE_ONLY", 0xffffff);
	fix_saw(f, 2, 0, "READ_REQUEST", 0);
	fix_saw(f, 3, 1, "READ_RESP_ONLY", 0xfffffe);
	fix_saw(f, 4, 1, "READ_RESP_ONLY", 0);
	fix_saw(f, 5, 0, "WRITE_ONLY", 1);
	fix_close(f);
}

static void bad_lkey_ends_in_order(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	struct ibv_sge sge = sim_sge(f->mr[0], FIX_MEM - 1, 2);
	struct ibv_send_wr wr = {
		.wr_id = 2, .opcode = IBV_WR_RDMA_WRITE, .sg_list = &sge, .num_sge = 1
	};

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0);
	sim_send(f->p.qp[0], &wr);
	fix_post(f, IBV_WR_RDMA_WRITE, 3, 0, 5, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR).vendor_err, VERR_LOCAL_KEY);
	fix_wc(f, 0, 3, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_ERR);
	assert_int_equal(fix_ib(f, 0)->host->flight, 0);
	fix_close(f);
}

static void read_into_read_only(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	struct mr *ro = sim_mr(f->s, 0, f->mem[0], 4096, 0);
	struct ibv_sge sge = sim_sge(ro, 0, 8);
	struct ibv_send_wr wr = {
		.wr_id = 2, .opcode = IBV_WR_RDMA_READ, .sg_list = &sge, .num_sge = 1
	};

	(void)state;
	sim_send(f->p.qp[0], &wr);
	fix_wc(f, 0, 2, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(f->n, 0);
	assert_int_equal(mr_dereg(ro), 0);
	fix_close(f);
}

static void local_invalidate(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	struct ibv_send_wr wr = { .wr_id = 2,
				  .opcode = IBV_WR_LOCAL_INV,
				  .send_flags = IBV_SEND_SIGNALED,
				  .invalidate_rkey = f->mr[0]->mkey.key };

	(void)state; /* (a region is no window) */
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0);
	sim_send(f->p.qp[0], &wr);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(fix_wc(f, 0, 2, IBV_WC_MW_BIND_ERR).vendor_err, VERR_INVALIDATE);
	fix_close(f);
}

static void bind_mw(struct fix *f, struct mw *mw, struct mr *mr, uint64_t wr_id,
		    uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = wr_id,
				  .opcode = IBV_WR_BIND_MW,
				  .send_flags = IBV_SEND_SIGNALED };

	wr.bind_mw.mw = &mw->ibv;
	wr.bind_mw.rkey = rkey;
	wr.bind_mw.bind_info = (struct ibv_mw_bind_info){ &mr->ibv, mr->mkey.base, 4096,
							  IBV_ACCESS_REMOTE_WRITE };
	sim_send(f->p.qp[0], &wr);
}

/* Local work requests keep their place among the others. */
static void local_work_in_order(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	struct mr *mr = sim_mr(f->s, 0, f->mem[0], 8192, FIX_ALL | IBV_ACCESS_MW_BIND);
	struct ibv_send_wr inv = { .wr_id = 3,
				   .opcode = IBV_WR_LOCAL_INV,
				   .send_flags = IBV_SEND_SIGNALED };
	struct mw *mw;

	(void)state;
	assert_int_equal(mw_alloc(f->s->node[0].pd, IBV_MW_TYPE_2, &mw), 0);
	inv.invalidate_rkey = (mw->ibv.rkey & 0xffffff00) | ((mw->ibv.rkey + 1) & 0xff);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0);
	bind_mw(f, mw, mr, 2, inv.invalidate_rkey);
	sim_send(f->p.qp[0], &inv);
	fix_post(f, IBV_WR_RDMA_WRITE, 4, 0, 5000, 0);
	for (unsigned i = 1; i <= 4; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	assert_int_equal(mw_dealloc(mw), 0);
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

/* The bind names a region that is gone, even if its struct serves another region now. */
static void bind_of_a_region_that_is_gone(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	int access = FIX_ALL | IBV_ACCESS_MW_BIND;
	struct mr *mr = sim_mr(f->s, 0, f->mem[0], 8192, access);
	struct mw *mw;

	(void)state;
	assert_int_equal(mw_alloc(f->s->node[0].pd, IBV_MW_TYPE_2, &mw), 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0);
	bind_mw(f, mw, mr, 2, (mw->ibv.rkey & 0xffffff00) | ((mw->ibv.rkey + 1) & 0xff));
	assert_int_equal(mr_dereg(mr), 0);
	mr = sim_mr(f->s, 0, f->mem[0], 8192, access);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_MW_BIND_ERR);
	assert_int_equal(mw_dealloc(mw), 0);
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

/* SQD: a message that has begun is finished; one that has not waits for RTS. */
static void drain(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 300000, 0);
	sim_step(f->s);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 300, 0);
	assert_int_equal(qp_modify(f->p.qp[0], &a,
				   IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY, f->s->now),
			 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_quiet(f);
	assert_int_equal(sim_event(f->s, 0), IBV_EVENT_SQ_DRAINED);
	fix_no_wc(f, 0);
	fix_modify(f, 0, IBV_QPS_RTS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

/* The path changes while packets are outstanding: they are sent again on the new path. */
static void path_changed_in_sqd(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);
	struct ibv_qp_attr a = {
		.ah_attr = { .is_global = 1, .port_num = 1, .grh.sgid_index = 1 }
	};
	union ibv_gid *gid = &a.ah_attr.grh.dgid;

	(void)state;
	*gid = device_gid(f->s->node[1].dev, 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 40000, 0);
	sim_step(f->s);
	fix_modify(f, 0, IBV_QPS_SQD);
	assert_true(fix_ib(f, 0)->req.flight > 0);
	for (int i = 0; i < 2; i++) { /* there and back */
		gid->raw[15] ^= 7;
		assert_int_equal(qp_modify(f->p.qp[0], &a, IBV_QP_AV, f->s->now), 0);
		assert_int_equal(fix_ib(f, 0)->req.at.psn, fix_ib(f, 0)->req.s.una);
		assert_int_equal(fix_ib(f, 0)->host->flight, 0);
	}
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(fix_ib(f, 0)->host->flight, 0);
	fix_close(f);
}

/* Memory that changes while it is sent spoils no packet. */
static bool spoil(void *arg, const struct sim_packet *p)
{
	struct fix *f = arg;

	f->mem[0][0]++;
	return fix_tap(arg, p);
}

static void changing_memory(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);

	(void)state;
	f->s->tap = spoil;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 1000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(ib_counter(&f->s->node[1].core, IB_RX_ICRC), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(send_three),
		cmocka_unit_test(write_three),
		cmocka_unit_test(write_imm),
		cmocka_unit_test(read_advances_psn),
		cmocka_unit_test(long_read_in_parts),
		cmocka_unit_test(read_in_shorter_parts),
		cmocka_unit_test(atomics),
		cmocka_unit_test(nothing_at_all),
		cmocka_unit_test(inline_needs_no_key),
		cmocka_unit_test(rd_atomic_limit),
		cmocka_unit_test(fence_waits_for_read),
		cmocka_unit_test(bad_lkey_ends_in_order),
		cmocka_unit_test(read_into_read_only),
		cmocka_unit_test(local_invalidate),
		cmocka_unit_test(local_work_in_order),
		cmocka_unit_test(bind_of_a_region_that_is_gone),
		cmocka_unit_test(drain),
		cmocka_unit_test(path_changed_in_sqd),
		cmocka_unit_test(changing_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
