/* SPDX-License-Identifier: BSD-2-Clause */
/* SENDs by reference (ib/lane_ref.c): the receiver copies the payload from the sender's
 * memory, and only what the sender still vouches for; otherwise packets carry it. */
#include <sys/mman.h>

#include "local/fix.h"
#include "verbs/exports.h"

enum { PAGE = 4096, LONG = 50000 };

/* A failed SEND by reference must not use up a retry: there is none. */
static const struct sim_conf no_retry = { .timeout = 10, .retry_cnt = 0 };

static uint64_t fetched(const struct fix *f)
{
	return pair_peer(f, 1)->lane.direct;
}

/* A posts a SEND of len bytes at offset at; B does not run yet. */
static void post_to_stopped(struct fix *f, uint64_t id, size_t at, uint32_t len)
{
	fix_recv(f, id, at, len);
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, id, at, len, 0);
	pair_run(f, 1000);
}

static void arrives(struct fix *f, uint64_t id, size_t at, uint32_t len)
{
	pair_go(f, 1);
	assert_int_equal(fix_wc(f, 1, id, IBV_WC_SUCCESS).byte_len, len);
	fix_wc(f, 0, id, IBV_WC_SUCCESS);
	fix_same(f, at, len);
}

static void any_length(void **state)
{
	static const struct {
		uint32_t len, fetched;
	} t[] = {
		{ 0, 0 },     { 1, 0 },	    { 8191, 0 },  { 8192, 1 },	{ 16384, 1 },
		{ 16385, 1 }, { 24575, 1 }, { 24576, 2 }, { 65536, 4 }, { 200001, 12 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct fix *f = pair_open(IBV_QPT_RC, &no_retry);

		fix_recv(f, 1, 7, t[i].len);
		fix_post(f, IBV_WR_SEND, 1, 7, t[i].len, 0);
		arrives(f, 1, 7, t[i].len);
		assert_int_equal(fetched(f), t[i].fetched);
		fix_close(f);
	}
}

/* The bytes of the ring are headers only. */
static void the_ring_has_no_payload(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);
	struct rec rec[8];

	(void)state;
	post_to_stopped(f, 1, 0, LONG);
	assert_int_equal(pair_look(f, 0, rec, 8), 4);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(rec[i].bytes, REC_HEAD_WIDE);
		assert_true(rec[i].flags & REC_BY_REF);
		assert_int_equal(rec[i].va, f->mr[0]->mkey.base + i * LANE_PAYLOAD);
	}
	assert_int_equal(rec[3].bytes, REC_HEAD + LONG % LANE_PAYLOAD);
	arrives(f, 1, 0, LONG);
	fix_close(f);
}

/* Packets that lie in one SGE of the sender go by reference; the receive may have any. */
static void lists_of_sges(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);
	struct ibv_sge out[2] = { sim_sge(f->mr[0], 0, 40000),
				  sim_sge(f->mr[0], 40000, 60000) };
	struct ibv_sge in[3] = { sim_sge(f->mr[1], 0, 5), sim_sge(f->mr[1], 5, 30000),
				 sim_sge(f->mr[1], 30005, 70000) };
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = IBV_WR_SEND_WITH_IMM,
		.sg_list = out,
		.num_sge = 2,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = 99,
	};
	struct ibv_wc wc;

	(void)state;
	sim_recv(f->p.qp[1], 1, in, 3);
	sim_send(f->p.qp[0], &wr);
	wc = fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 100000);
	assert_int_equal(wc.imm_data, 99);
	fix_same(f, 0, 100000);
	/* Of seven packets the third crosses the border, and the last is short. */
	assert_int_equal(fetched(f), 5);
	fix_close(f);
}

static void inline_data_is_carried(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);

	(void)state;
	fix_recv(f, 1, 0, 64);
	fix_post(f, IBV_WR_SEND, 1, 0, 64, IBV_SEND_INLINE);
	arrives(f, 1, 0, 64);
	assert_int_equal(fetched(f), 0);
	fix_close(f);
}

/* UC completes a SEND when it is sent, so its memory may change before a fetch. */
static void uc_carries_its_payload(void **state)
{
	struct fix *f = pair_open(IBV_QPT_UC, &(struct sim_conf){ 0 });

	(void)state;
	fix_recv(f, 1, 0, LONG);
	fix_post(f, IBV_WR_SEND, 1, 0, LONG, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, LONG);
	assert_int_equal(fetched(f), 0);
	fix_close(f);
}

/* RNR comes before the fetch, and the message is sent again by value. */
static void no_receive_yet(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, NULL);

	(void)state;
	fix_post(f, IBV_WR_SEND, 1, 0, LONG, 0);
	pair_run(f, 1 * MS);
	fix_no_wc(f, 0);
	assert_int_equal(fetched(f), 0);
	fix_recv(f, 1, 0, LONG);
	arrives(f, 1, 0, LONG);
	fix_close(f);
}

static void a_receive_that_is_short(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);

	(void)state;
	fix_recv(f, 1, 0, LONG - 1);
	fix_post(f, IBV_WR_SEND, 1, 0, LONG, 0);
	fix_wc(f, 1, 1, IBV_WC_LOC_LEN_ERR);
	fix_wc(f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	fix_close(f);
}

/* --- what cannot be fetched ---------------------------------------------------- */

/* The peer's memory is out of reach for a while: packets carry the payload meanwhile, for
 * a second, and no retry is used up. */
static void out_of_reach_for_a_while(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);
	struct reach *r = &pair_peer(f, 1)->reach;

	(void)state;
	r->vm = false;
	post_to_stopped(f, 1, 0, LONG);
	arrives(f, 1, 0, LONG);
	r->vm = true;
	assert_int_equal(fetched(f), 0);
	post_to_stopped(f, 2, 0, LONG);
	arrives(f, 2, 0, LONG);
	assert_int_equal(fetched(f), 0);
	f->s->now += SEC;
	post_to_stopped(f, 3, 0, LONG);
	arrives(f, 3, 0, LONG);
	assert_int_equal(fetched(f), 3);
	fix_close(f);
}

/* Private memory is not lent: once the peer has said so, its SENDs go through the ring,
 * which is faster than process_vm_readv. */
static void private_memory_goes_through_the_ring(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);
	uint64_t before = 0;

	(void)state;
	for (uint64_t i = 0; i < 60; i++) {
		if (i == 40)
			before = fetched(f);
		post_to_stopped(f, i, i * 64, 9000);
		arrives(f, i, i * 64, 9000);
		f->s->now += SEC; /* it is tried again after a second */
	}
	assert_in_range(before, 16, 20);
	assert_int_equal(fetched(f), before);
	fix_close(f);
}

/* A message whose beginning was fetched ends by value. */
static void out_of_reach_in_the_middle(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);
	struct reach *r = &pair_peer(f, 1)->reach;
	const uint32_t len = 600000;

	(void)state;
	fix_recv(f, 1, 0, len);
	fix_post(f, IBV_WR_SEND, 1, 0, len, 0);
	while (!fetched(f))
		pair_run(f, 1);
	assert_true(fetched(f) < 36);
	r->vm = false;
	arrives(f, 1, 0, len);
	fix_close(f);
}

/* The program has unmapped the page: its own fault, told to it alone. */
static void memory_that_is_unmapped(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);
	uint8_t *mem = mmap(NULL, 16 * PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mr *mr = sim_mr(f->s, 0, mem, 16 * PAGE, IBV_ACCESS_LOCAL_WRITE);
	struct ibv_sge sge = sim_sge(mr, 0, 16 * PAGE);
	struct ibv_send_wr wr = { .wr_id = 1,
				  .opcode = IBV_WR_SEND,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .send_flags = IBV_SEND_SIGNALED };

	(void)state;
	fix_recv(f, 1, 0, 16 * PAGE);
	assert_int_equal(munmap(mem + 5 * PAGE, PAGE), 0);
	sim_send(f->p.qp[0], &wr);
	fix_wc(f, 0, 1, IBV_WC_LOC_PROT_ERR);
	fix_no_wc(f, 1);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
	assert_int_equal(mr_dereg(mr), 0);
	munmap(mem, 16 * PAGE);
	fix_close(f);
}

/* A region that was deregistered while its SEND was outstanding is not read any more. */
static void a_region_that_has_gone(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);

	(void)state;
	post_to_stopped(f, 1, 0, LONG);
	assert_int_equal(mr_dereg(f->mr[0]), 0);
	f->mr[0] = NULL;
	pair_go(f, 1);
	fix_wc(f, 0, 1, IBV_WC_LOC_PROT_ERR);
	fix_no_wc(f, 1);
	assert_int_equal(fetched(f), 0);
	fix_close(f);
}

/* When a program learns that its SEND has failed it may change the memory, so nothing is
 * fetched any more. */
static void a_qp_that_has_failed(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);

	(void)state;
	post_to_stopped(f, 1, 0, LONG);
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	pair_go(f, 1);
	pair_run(f, 10 * MS);
	fix_no_wc(f, 1);
	assert_int_equal(fetched(f), 0);
	fix_close(f);
}

/* The export table says so before the completion does. */
static void it_is_shut_before_it_completes(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);
	struct core *core = &f->s->node[0].core;
	struct qp *qp = f->p.qp[0];
	struct exported_qp e;

	(void)state;
	post_to_stopped(f, 1, 0, LONG);
	assert_true(exports_get_qp(core->exports, qp->qpn, &e) && e.open);
	lock_take(&qp->lock);
	sq_complete(qp, IBV_WC_GENERAL_ERR, VERR_NONE, f->s->now);
	assert_true(exports_get_qp(core->exports, qp->qpn, &e) && !e.open);
	lock_give(&qp->lock);
	fix_wc(f, 0, 1, IBV_WC_GENERAL_ERR);
	fix_modify(f, 0, IBV_QPS_ERR);
	fix_close(f);
}

/* A user-initiated end is the same: RESET has no completions at all. */
static void a_qp_that_was_reset(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);

	(void)state;
	post_to_stopped(f, 1, 0, LONG);
	fix_modify(f, 0, IBV_QPS_RESET);
	memset(f->mem[0], 0, LONG);
	pair_go(f, 1);
	pair_run(f, 10 * MS);
	fix_no_wc(f, 1);
	assert_int_equal(fetched(f), 0);
	fix_close(f);
}

/* --- what a hostile peer says ---------------------------------------------------- */

struct lie {
	uint8_t opcode, flags;
	uint32_t len, carried;
};

/* Writes a record that no urnic writes: the pipe is given up, and the QP with it. */
static void tell_a_lie(const struct lie *lie)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);
	struct core *core = &f->s->node[0].core;
	struct peer *p = pair_peer(f, 0);
	const uint32_t bytes =
		lie->carried + (lie->flags & REC_WIDE ? REC_HEAD_WIDE : REC_HEAD);
	struct rec *r;

	fix_recv(f, 1, 0, LONG);
	turn_take(&core->turn);
	r = ring_reserve(&p->out, bytes);
	*r = (struct rec){ .kind = REC_PACKET,
			   .flags = lie->flags,
			   .opcode = lie->opcode,
			   .dst = f->p.qp[1]->qpn,
			   .src = f->p.qp[0]->qpn,
			   .psn = pair_psn(f, 0),
			   .route = pair_q(f, 0)->from.out,
			   .va = f->mr[0]->mkey.base,
			   .rkey = f->mr[0]->mkey.key,
			   .len = lie->len };
	ring_publish(&p->out, r, bytes);
	peer_wrote(p);
	local_flush(local_of(core));
	turn_give(&core->turn);
	pair_run(f, 1 * MS);
	assert_int_equal(pair_peer(f, 1)->state, PEER_DEAD);
	assert_int_equal(fetched(f), 0);
	fix_no_wc(f, 1);
	fix_close(f);
}

static void what_no_urnic_writes(void **state)
{
	const uint8_t send = ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_NONE),
		      uc = ib_opcode(IB_UC, IB_SEND, IB_ONLY, IB_NONE),
		      write = ib_opcode(IB_RC, IB_WRITE, IB_ONLY, IB_NONE),
		      ack = ib_opcode(IB_RC, IB_ACK, IB_ONLY, IB_NONE);
	const uint8_t ref = REC_BY_REF | REC_WIDE;
	const struct lie lies[] = {
		{ send, ref, 0, 0 },
		{ send, ref, LANE_PAYLOAD + 1, 0 },
		{ send, ref, UINT32_MAX, 0 },
		{ send, ref, 9000, 64 },
		{ send, REC_BY_REF, 9000, 32 },
		{ uc, ref, 9000, 0 },
		{ write, ref, 9000, 0 },
		{ ack, ref, 9000, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(lies) / sizeof(lies[0]); i++)
		tell_a_lie(&lies[i]);
}

/* A SEND of memory that is in no region, or in another region's range, is refused. */
static void memory_that_is_not_the_senders(void **state)
{
	for (unsigned i = 0; i < 3; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, &no_retry);
		struct ib_fields lie = {
			.opcode = ib_opcode(IB_RC, IB_SEND, IB_ONLY, IB_NONE),
			.psn = pair_psn(f, 0),
			.by_ref = true,
			.va = f->mr[0]->mkey.base + (i == 0 ? FIX_MEM - 8999 : 0),
			.rkey = f->mr[0]->mkey.key ^ (i == 1 ? 1u : 0) ^
				(i == 2 ? 7u << 8 : 0),
		};

		(void)state;
		fix_recv(f, 1, 0, LONG);
		pair_stop(f, 0);
		lie.dma_len = 9000;
		pair_write(f, 0, &lie, NULL, 9000);
		pair_run(f, 1 * MS);
		assert_int_equal(fetched(f), 0);
		fix_no_wc(f, 1);
		assert_int_equal(f->p.qp[1]->state, IBV_QPS_RTS);
		fix_close(f);
	}
}

/* A peer that answers every SEND with "by value" is obeyed once; then its NAKs use up
 * retries like any others. */
static void by_value_is_not_for_ever(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &no_retry);
	const struct ib_fields nak = {
		.opcode = ib_opcode(IB_RC, IB_ACK, IB_ONLY, IB_NONE),
		.psn = pair_psn(f, 0),
		.syndrome = aeth_syndrome(AETH_NAK, NAK_PSN_SEQUENCE),
		.by_value = true,
	};

	(void)state;
	post_to_stopped(f, 1, 0, LONG);
	for (unsigned i = 0; i < 2; i++) {
		pair_write(f, 1, &nak, NULL, 0);
		pair_run(f, 1000);
		if (!i)
			fix_no_wc(f, 0);
	}
	fix_wc(f, 0, 1, IBV_WC_RETRY_EXC_ERR);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(any_length),
		cmocka_unit_test(the_ring_has_no_payload),
		cmocka_unit_test(lists_of_sges),
		cmocka_unit_test(inline_data_is_carried),
		cmocka_unit_test(uc_carries_its_payload),
		cmocka_unit_test(no_receive_yet),
		cmocka_unit_test(a_receive_that_is_short),
		cmocka_unit_test(out_of_reach_for_a_while),
		cmocka_unit_test(private_memory_goes_through_the_ring),
		cmocka_unit_test(out_of_reach_in_the_middle),
		cmocka_unit_test(memory_that_is_unmapped),
		cmocka_unit_test(a_region_that_has_gone),
		cmocka_unit_test(a_qp_that_has_failed),
		cmocka_unit_test(it_is_shut_before_it_completes),
		cmocka_unit_test(a_qp_that_was_reset),
		cmocka_unit_test(what_no_urnic_writes),
		cmocka_unit_test(memory_that_is_not_the_senders),
		cmocka_unit_test(by_value_is_not_for_ever),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
