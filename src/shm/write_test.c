/* SPDX-License-Identifier: BSD-2-Clause */
/* SENDs become segments: contents, a full ring, all that wraps. */
#include "shm/fix.h"

static void one_segment_both_ways(void **state)
{
	const uint32_t len[] = { 1, 8, 64, 4096, 16384 };
	struct fix *f = plain_pair();

	(void)state;
	for (unsigned i = 0; i < 5; i++)
		for (int side = 0; side < 2; side++) {
			recv_at(f, !side, i, 40000, 20000);
			post_at(f, side, i, 100 * i, len[i], 0);
			came(f, !side, i, 40000, 100 * i, len[i]);
			fix_wc(f, side, i, IBV_WC_SUCCESS);
		}
	assert_int_equal(f->p.qp[0]->tp.traffic.sent, 5);
	fix_close(f);
}

static void inline_and_empty(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	recv_at(f, 1, 1, 4096, 256);
	recv_at(f, 1, 2, 4096, 256);
	post_at(f, 0, 1, 300, 200, IBV_SEND_INLINE);
	f->mem[0][300] ^= 0xff; /* it was copied */
	post_at(f, 0, 2, 0, 0, 0);
	assert_int_equal(fix_wc(f, 1, 1, IBV_WC_SUCCESS).byte_len, 200);
	f->mem[0][300] ^= 0xff;
	assert_memory_equal(f->mem[1] + 4096, f->mem[0] + 300, 200);
	came(f, 1, 2, 0, 0, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

static void immediate_data_and_lists_of_sges(void **state)
{
	struct fix *f = plain_pair();
	struct ibv_sge from[2] = { sim_sge(f->mr[0], 100, 3), sim_sge(f->mr[0], 200, 5) };
	struct ibv_sge to[2] = { sim_sge(f->mr[1], 5000, 6), sim_sge(f->mr[1], 6000, 9) };
	struct ibv_send_wr wr[2] = { send_wr(1, from, 2, 0), send_wr(2, from, 1, 0) };
	struct ibv_wc wc;

	(void)state;
	wr[0].next = &wr[1];
	wr[0].opcode = wr[1].opcode = IBV_WR_SEND_WITH_IMM;
	wr[0].imm_data = 0x11223344;
	wr[1].imm_data = 0x55667788;
	sim_recv(f->p.qp[1], 1, to, 2);
	sim_recv(f->p.qp[1], 2, to, 2);
	post_now(f->p.qp[0], wr);
	wc = fix_wc(f, 1, 1, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 8);
	assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
	assert_int_equal(wc.imm_data, 0x11223344);
	assert_memory_equal(f->mem[1] + 5003, f->mem[0] + 200, 3);
	assert_memory_equal(f->mem[1] + 6000, f->mem[0] + 203, 2);
	wc = fix_wc(f, 1, 2, IBV_WC_SUCCESS);
	assert_int_equal(wc.imm_data, 0x55667788);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

/* The thread that posts sends a message of several pieces, too. */
static void pieces_at_once(void **state)
{
	struct fix *f = plain_pair();
	struct ibv_sge from[3] = { sim_sge(f->mr[0], 100, 3), sim_sge(f->mr[0], 0, 0),
				   sim_sge(f->mr[0], 200, 5) };
	const struct swqe *w = sq_at(&f->p.qp[0]->sq, 0);
	const uint64_t sent = f->p.qp[0]->tp.traffic.sent;
	struct ibv_send_wr wr[4] = {
		send_wr(1, from, 3, 0),
		send_wr(2, from, 3, 0),
		send_wr(3, NULL, 0, 0),
		send_wr(4, NULL, 0, IBV_SEND_INLINE),
	};

	(void)state;
	for (uint64_t id = 1; id <= 4; id++)
		recv_at(f, 1, id, 4096 + 64 * id, 64);
	post_now(f->p.qp[0], &wr[0]);
	for (unsigned i = 0; i < 3; i++)
		from[i].addr = (uintptr_t)f->mem[0] + (i ? 200 : 100);
	wr[1].send_flags |= IBV_SEND_INLINE;
	post_now(f->p.qp[0], &wr[1]);
	f->mem[0][100] ^= 0xff; /* it was copied */
	post_now(f->p.qp[0], &wr[2]);
	post_now(f->p.qp[0], &wr[3]);
	assert_int_equal(f->p.qp[0]->tp.traffic.sent, sent + 4);
	f->mem[0][100] ^= 0xff;
	for (uint64_t id = 1; id <= 4; id++) {
		const uint32_t len = id < 3 ? 8 : 0;

		assert_int_equal(fix_wc(f, 1, id, IBV_WC_SUCCESS).byte_len, len);
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
		assert_memory_equal(f->mem[1] + 4096 + 64 * id, f->mem[0] + 100,
				    len ? 3 : 0);
		assert_memory_equal(f->mem[1] + 4099 + 64 * id, f->mem[0] + 200,
				    len ? 5 : 0);
	}
	assert_int_equal(w->num_sge, 3);
	fix_close(f);
}

/* What is refused, or is longer than a segment, is not for the thread that posts; nothing
 * is lost or sent twice by its attempt. */
static void pieces_that_the_engine_judges(void **state)
{
	struct fix *f = plain_pair();
	const uint32_t most = f->p.qp[0]->sq.max_inline;
	struct ibv_sge from[2] = { sim_sge(f->mr[0], 100, 10000),
				   sim_sge(f->mr[0], 200, 10000) };
	struct ibv_send_wr wr = send_wr(1, from, 2, 0), *bad;

	(void)state;
	recv_at(f, 1, 1, 0, 20000);
	recv_at(f, 1, 2, 0, 20000);
	post_now(f->p.qp[0], &wr);
	assert_int_equal(fix_wc(f, 1, 1, IBV_WC_SUCCESS).byte_len, 20000);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_memory_equal(f->mem[1] + 10000, f->mem[0] + 200, 10000);
	from[0] = (struct ibv_sge){ (uintptr_t)f->mem[0], most, 0 };
	from[1] = (struct ibv_sge){ (uintptr_t)f->mem[0], 1, 0 };
	for (int wrong = 0; wrong < 3; wrong++) {
		enum post_left left;

		wr = send_wr(2, wrong ? from : NULL, 2, wrong < 2 ? IBV_SEND_INLINE : 0);
		wr.num_sge = wrong < 2 ? 2 : 1 << 30;
		assert_ptr_equal(f->p.qp[0]->transport->post(f->p.qp[0], &wr, &left),
				 &wr);
		assert_int_equal(qp_post_send(f->p.qp[0], &wr, &bad), -EINVAL);
	}
	from[1].length = 0;
	wr = send_wr(2, from, 2, IBV_SEND_INLINE);
	post_now(f->p.qp[0], &wr);
	assert_int_equal(fix_wc(f, 1, 2, IBV_WC_SUCCESS).byte_len, most);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	/* the second region's key is wrong */
	from[0] = sim_sge(f->mr[0], 100, 8);
	from[1].length = 8;
	recv_at(f, 1, 3, 0, 64);
	wr = send_wr(3, from, 2, 0);
	post_now(f->p.qp[0], &wr);
	fix_wc(f, 0, 3, IBV_WC_LOC_PROT_ERR);
	fix_close(f);
}

/* More than the ring holds: the source waits for room, and goes on. */
static void long_messages(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	for (uint64_t id = 1; id <= 3; id++) {
		recv_at(f, 1, id, 0, FIX_MEM);
		post_at(f, 0, id, 0, (uint32_t)(300000 * id) + 1, 0);
		came(f, 1, id, 0, 0, (uint32_t)(300000 * id) + 1);
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
		memset(f->mem[1], 0, FIX_MEM);
	}
	fix_close(f);
}

/* Ring, queues and numbers wrap. */
static void many(void **state)
{
	struct fix *f = plain_pair();
	uint64_t sent = 0, got = 0, done = 0;
	struct ibv_wc wc;

	(void)state;
	while (got < 20000) {
		for (; sent - done < 200 && sent < 20000; sent++) {
			recv_at(f, 1, sent, 4096 + sent % 100 * 64, 64);
			post_at(f, 0, sent, sent % 1000, 1 + sent % 64,
				sent % 3 ? 0 : IBV_SEND_INLINE);
		}
		sim_step(f->s);
		while (cq_poll(f->p.cq[1], 1, &wc) == 1) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, got);
			assert_int_equal(wc.byte_len, 1 + got % 64);
			assert_memory_equal(f->mem[1] + 4096 + got % 100 * 64,
					    f->mem[0] + got % 1000, 1 + got % 64);
			got++;
		}
		while (cq_poll(f->p.cq[0], 1, &wc) == 1) {
			assert_int_equal(wc.status, IBV_WC_SUCCESS);
			assert_int_equal(wc.wr_id, done++);
		}
	}
	fix_close(f);
}

static void a_full_ring(void **state)
{
	struct fix *f = plain_pair();

	(void)state;
	pair_stop(f, 1);
	for (uint64_t id = 0; id < 40; id++) {
		recv_at(f, 1, id, 0, 16384);
		post_at(f, 0, id, 10 * id, 16384, 0);
	}
	pair_run(f, MS);
	assert_true(f->p.qp[0]->tp.traffic.sent < 40);
	assert_true(pair_peer(f, 0)->closed);
	pair_go(f, 1);
	for (uint64_t id = 0; id < 40; id++) {
		fix_wc(f, 1, id, IBV_WC_SUCCESS);
		fix_wc(f, 0, id, IBV_WC_SUCCESS);
	}
	assert_memory_equal(f->mem[1], f->mem[0] + 390, 16384);
	assert_false(pair_peer(f, 0)->closed);
	fix_close(f);
}

/* The program ends in a signal handler that has interrupted a thread which writes to the
 * ring: what other QPs have to send stays there, and nobody waits for the lock. */
static void the_end_inside_the_ring(void **state)
{
	struct fix *f = plain_pair();
	struct peer *p = pair_peer(f, 0);
	struct core *core = &f->s->node[0].core;
	struct qp *qp = f->p.qp[0];
	const uint32_t before = p->out.head;
	struct ibv_sge sge = sim_sge(f->mr[0], 0, 8);
	struct ibv_send_wr wr = send_wr(1, &sge, 1, 0), *bad;
	const struct dgram d = { .to_slot = f->s->node[1].core.slot };

	(void)state;
	assert_int_equal(qp_post_send(qp, &wr, &bad), 0);
	turn_take(&core->turn);
	brief_take(&p->writing);
	core->leaving = true;
	lock_take(&qp->lock);
	line_wait(p, &shm_qp(qp)->lists, true);
	assert_false(shm_output(qp, NULL, f->s->now));
	lock_give(&qp->lock);
	peer_wrote(p);
	(void)peers_flush(peers_of(core));
	assert_true(peers_send(peers_of(core), d.to_slot, &d, f->s->now));
	core->leaving = false;
	brief_give(&p->writing);
	turn_give(&core->turn);
	assert_int_equal(p->out.head, before);
	due_add(core, qp);
	fix_recv(f, 8, 0, 8);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_segment_both_ways),
		cmocka_unit_test(inline_and_empty),
		cmocka_unit_test(immediate_data_and_lists_of_sges),
		cmocka_unit_test(pieces_at_once),
		cmocka_unit_test(pieces_that_the_engine_judges),
		cmocka_unit_test(long_messages),
		cmocka_unit_test(many),
		cmocka_unit_test(a_full_ring),
		cmocka_unit_test(the_end_inside_the_ring),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
