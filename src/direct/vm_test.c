/* SPDX-License-Identifier: BSD-2-Clause */
/* The peer's memory, reached directly: the same bytes, the same rights and the
 * same ends as by records. */
#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/board.h"
#include "local/fix.h"

static const struct sim_conf direct = { .pipe_only = false,
					.timeout = 10,
					.retry_cnt = 1 };

/* How many slots A has filled since the last call. */
static uint32_t written(struct fix *f, uint32_t *since)
{
	uint32_t before = *since;

	*since = pair_peer(f, 0)->out.head;
	return *since - before;
}

static void the_same_bytes_either_way(void **state)
{
	static const uint32_t len[] = {
		0, 1, 63, 64, 65, 1024, 1025, 4097, 16384, 262143, 262144, 262145, 700001,
	};
	static const enum ibv_wr_opcode op[] = {
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ,
		IBV_WR_RDMA_WRITE_WITH_IMM,
	};

	(void)state;
	for (unsigned way = 0; way < 2; way++)
		for (size_t i = 0; i < 3 * sizeof(len) / sizeof(len[0]); i++) {
			const struct sim_conf c = { .pipe_only = way };
			struct fix *f = pair_open(IBV_QPT_RC, &c);
			uint32_t n = len[i / 3], slots = written(f, &slots);
			uint8_t end[2] = { f->mem[0][7 + n], f->mem[1][7 + n] };

			fix_recv(f, 8, 0, 0);
			fix_post(f, op[i % 3], 1, 7, n, 0);
			fix_wc(f, 0, 1, IBV_WC_SUCCESS);
			fix_same(f, 7, n);
			assert_int_equal(f->mem[0][7 + n], end[0]);
			assert_int_equal(f->mem[1][7 + n], end[1]);
			if (op[i % 3] == IBV_WR_RDMA_WRITE_WITH_IMM)
				assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len,
						 n);
			fix_close(f);
		}
}

static void the_peer_takes_no_part(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint32_t slots = pair_peer(f, 0)->out.head;

	(void)state;
	pair_stop(f, 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 700000, 0);
	fix_post(f, IBV_WR_RDMA_READ, 2, 700000, 300000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_same(f, 0, 1000000);
	assert_int_equal(written(f, &slots), 0);
	/* An immediate it has to take; its data is there before. */
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 3, 1000, 5000, 0);
	pair_run(f, 1000);
	assert_int_equal(written(f, &slots), 1);
	fix_same(f, 1000, 5000);
	fix_close(f);
}

/* ... and so small a one that a wire would not have written it either. */
static void data_and_immediate_of_one_packet_come_together(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint8_t before = f->mem[1][0];

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 1024, 0);
	pair_run(f, 10 * MS);
	assert_int_equal(f->mem[1][0], before);
	fix_recv(f, 8, 0, 0);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_same(f, 0, 1024);
	fix_close(f);
}

/* RNR: the immediate is said again, the data has come. */
static void an_immediate_waits_for_its_receive(void **state)
{
	for (unsigned way = 0; way < 2; way++) {
		const struct sim_conf c = { .pipe_only = way };
		struct fix *f = pair_open(IBV_QPT_RC, &c);

		(void)state;
		fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 50000, 0);
		fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 2, 60000, 20, 0);
		pair_run(f, 5 * MS);
		fix_no_wc(f, 0);
		fix_recv(f, 8, 0, 0);
		fix_recv(f, 9, 0, 0);
		assert_int_equal(fix_wc(f, 1, 8, IBV_WC_SUCCESS).byte_len, 50000);
		assert_int_equal(fix_wc(f, 1, 9, IBV_WC_SUCCESS).byte_len, 20);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_wc(f, 0, 2, IBV_WC_SUCCESS);
		fix_same(f, 0, 50000);
		fix_same(f, 60000, 20);
		fix_close(f);
	}
}

static void nothing_is_overtaken(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint8_t before = f->mem[1][5000];

	(void)state;
	fix_recv(f, 8, 0, 100);
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 5000, 8000, 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 3, 5000, 100, 0);
	pair_run(f, 1 * MS);
	assert_int_equal(f->mem[1][5000], before);
	fix_no_wc(f, 0);
	pair_go(f, 1);
	for (unsigned i = 1; i <= 3; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_same(f, 5000, 8000);
	fix_close(f);
}

/* What a storage target sends: no block waits for the answer to the message before
 * it, and each is there when the message behind it is. */
static void blocks_and_messages_wait_for_nobody(void **state)
{
	enum { BLOCK = 16384, N = 5, LAST = N * BLOCK - 1 };
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint32_t slots = pair_peer(f, 0)->out.head;
	uint8_t before = f->mem[1][BLOCK];

	(void)state;
	for (unsigned i = 0; i < N; i++)
		fix_recv(f, 100 + i, 500000 + 64 * i, 64);
	pair_stop(f, 1);
	for (unsigned i = 0; i < N; i++) {
		fix_post(f, IBV_WR_RDMA_WRITE, 2 * i, i * BLOCK, BLOCK, 0);
		fix_post(f, IBV_WR_SEND, 2 * i + 1, 600000, 16, 0);
	}
	pair_run(f, 1000);
	/* The first block was written directly, all else is in the ring. */
	assert_in_range(written(f, &slots), (N - 1) * BLOCK / SLOT, RING_SLOTS);
	fix_same(f, 0, BLOCK);
	assert_int_equal(f->mem[1][BLOCK], before);
	assert_int_equal(pair_q(f, 0)->req.cur, f->p.qp[0]->sq.head);
	pair_go(f, 1);
	for (unsigned i = 0; i < N; i++)
		fix_wc(f, 1, 100 + i, IBV_WC_SUCCESS);
	fix_same(f, 0, N * BLOCK);
	for (unsigned i = 0; i < 2 * N; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_close(f);
}

/* The board says so before the ACK does: this one is not asked for, and waits. */
static void what_was_executed_is_followed_at_once(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint32_t slots = pair_peer(f, 0)->out.head;
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND };
	struct local_req *r = &pair_q(f, 0)->req;

	(void)state;
	fix_recv(f, 8, 0, 100);
	sim_send(f->p.qp[0], &wr);
	pair_run(f, 1000);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	assert_int_not_equal(r->una, r->psn);
	assert_int_equal(written(f, &slots), 1);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 5000, 100000, 0);
	pair_run(f, 1000);
	assert_int_equal(r->una, r->psn);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_same(f, 5000, 100000);
	assert_int_equal(written(f, &slots), 0);
	fix_close(f);
}

/* A READ is answered after it was taken: what the board says is not about it. */
static void a_read_that_is_owed_is_not_overtaken(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint8_t was[8000];

	(void)state;
	memcpy(was, f->mem[1] + 5000, sizeof(was));
	fix_recv(f, 8, 0, 100);
	pair_stop(f, 1);
	fix_post(f, IBV_WR_SEND, 1, 0, 100, 0);
	fix_post(f, IBV_WR_RDMA_READ, 2, 5000, 8000, 0);
	pair_run(f, 1000);
	board_set_executed(&f->s->node[1].core, f->p.qp[1]->qpn, pair_psn(f, 0));
	memset(f->mem[0] + 5000, 0x5a, 8000);
	fix_post(f, IBV_WR_RDMA_WRITE, 3, 5000, 8000, 0);
	pair_run(f, 1000);
	assert_memory_equal(f->mem[1] + 5000, was, sizeof(was));
	pair_go(f, 1);
	for (unsigned i = 1; i <= 3; i++)
		fix_wc(f, 0, i, IBV_WC_SUCCESS);
	fix_close(f);
}

/* A record is refused where it ends up, however it came. */
static void what_the_board_does_not_allow_the_peer_refuses(void **state)
{
	static const enum ibv_wr_opcode op[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };

	(void)state;
	for (int i = 0; i < 10; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, &direct);
		struct mkey *mk = &f->mr[1]->mkey;
		uint8_t before = f->mem[1][100], here = f->mem[0][100];
		struct mkey good = *mk;
		struct sim_node *b = &f->s->node[1];
		struct pd *pd;

		assert_int_equal(pd_alloc(&b->core, &b->ibv, &pd), 0);
		switch (i / 2) {
		case 0:
			mk->key ^= 0x100;
			break; /* what fix_post() says */
		case 1:
			mk->length = 5000;
			break;
		case 2:
			mk->access =
				i & 1 ? IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_REMOTE_READ;
			break;
		case 3:
			f->p.qp[1]->attr.qp_access_flags = 0;
			local_publish(pair_q(f, 1));
			break;
		case 4:
			mk->pd = pd;
			break;
		}
		if (i / 2 != 0)
			board_put_mr(&b->core, mk);
		fix_post(f, op[i & 1], 1, 100, 4901, 0);
		mk->key = good.key;
		fix_wc(f, 0, 1,
		       i / 2 == 3 ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(f->mem[1][100], before);
		assert_int_equal(f->mem[0][100], here);
		mk->pd = good.pd;
		assert_int_equal(pd_free(pd), 0);
		fix_close(f);
	}
}

static void the_last_byte_of_a_region_is_in_it(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint32_t slots = pair_peer(f, 0)->out.head;

	(void)state;
	fix_post(f, IBV_WR_RDMA_WRITE, 1, FIX_MEM - 5000, 5000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, FIX_MEM - 5000, 5000);
	assert_int_equal(written(f, &slots), 0);
	fix_close(f);
}

static void a_region_that_is_gone_is_not_reached(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint8_t before = f->mem[1][0];
	struct mr *mr = sim_mr(f->s, 1, f->mem[1], FIX_MEM, FIX_ALL);
	uint32_t key = f->mr[1]->mkey.key, gone = mr->mkey.key;

	(void)state;
	assert_int_equal(mr_dereg(mr), 0);
	f->mr[1]->mkey.key = gone; /* what fix_post() says */
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0);
	f->mr[1]->mkey.key = key;
	fix_wc(f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(f->mem[1][0], before);
	fix_close(f);
}

/* ... nor is the next one that has its place. */
static void a_key_that_is_gone_reaches_nothing(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint32_t key = f->mr[1]->mkey.key, good;
	uint8_t before = f->mem[1][0];
	struct mr *next;

	(void)state;
	assert_int_equal(mr_dereg(f->mr[1]), 0);
	do { /* until its index comes again */
		next = sim_mr(f->s, 1, f->mem[1], FIX_MEM, FIX_ALL);
		if (next->mkey.key >> 8 == key >> 8)
			break;
		assert_int_equal(mr_dereg(next), 0);
	} while (true);
	f->mr[1] = next;
	assert_int_not_equal(next->mkey.key, key);
	good = next->mkey.key;
	next->mkey.key = key; /* what fix_post() says */
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0);
	next->mkey.key = good;
	fix_wc(f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(f->mem[1][0], before);
	fix_close(f);
}

/* A QP that takes no requests has none written past it. */
static void a_qp_that_is_not_ready_is_not_reached(void **state)
{
	(void)state;
	for (int i = 0; i < 6; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, &direct);
		uint8_t before = f->mem[1][0];

		switch (i) {
		case 0:
			fix_modify(f, 1, IBV_QPS_RESET);
			break;
		case 1:
			fix_modify(f, 1, IBV_QPS_ERR);
			break;
		case 2:
			f->p.qp[0]->qpn++;
			break; /* another asks */
		case 3:
			pair_q(f, 0)->path_out++;
			break;
		case 4: /* its CQ is overrun */
			f->p.cq[1]->overrun = true;
			sim_recv(f->p.qp[1], 8, NULL, 0);
			fix_post(f, IBV_WR_SEND, 0, 0, 0, 0);
			pair_run(f, 1000);
			assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
			break;
		case 5:
			sim_destroy(f->s, f->p.qp[1]);
			f->p.qp[1] = NULL;
			break;
		}
		fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 5000, 0);
		fix_wc(f, 0, i == 4 ? 0 : 1, IBV_WC_RETRY_EXC_ERR);
		assert_int_equal(f->mem[1][0], before);
		f->p.qp[0]->qpn -= i == 2;
		fix_close(f);
	}
}

/* The board of a QP that its CQ has failed says so. */
static void a_qp_that_failed_is_closed(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	const struct board *b = pair_peer(f, 0)->reach.board;
	struct board_qp to;

	(void)state;
	assert_true(board_get_qp(b, f->p.qp[1]->qpn, &to));
	assert_true(to.open);
	f->p.cq[1]->overrun = true;
	sim_recv(f->p.qp[1], 8, NULL, 0);
	fix_post(f, IBV_WR_SEND, 1, 0, 0, 0);
	pair_run(f, 1000);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_true(board_get_qp(b, f->p.qp[1]->qpn, &to));
	assert_false(to.open);
	fix_close(f);
}

/* Where more READs than max_dest_rd_atomic may be out, the peer counts them. */
static void too_many_reads_go_by_records(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint32_t slots = pair_peer(f, 0)->out.head;

	(void)state;
	f->p.qp[0]->attr.max_rd_atomic = 17;
	fix_post(f, IBV_WR_RDMA_READ, 1, 0, 5000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	assert_int_equal(written(f, &slots), 1);
	fix_same(f, 0, 5000);
	fix_close(f);
}

static void memory_that_is_gone(void **state)
{
	static const enum ibv_wr_opcode op[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };

	(void)state;
	for (int i = 0; i < 4; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, &direct);
		bool here = i & 1;
		void *at = f->mem[!here] + 8192;

		assert_int_equal(mprotect(at, 4096, PROT_NONE), 0);
		fix_post(f, op[i / 2], 1, 0, 700000, 0);
		fix_wc(f, 0, 1, here ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_OP_ERR);
		assert_int_equal(mprotect(at, 4096, PROT_READ | PROT_WRITE), 0);
		fix_close(f);
	}
}

/* Nobody says when a record of UC has been executed. */
static void uc_goes_by_records(void **state)
{
	struct fix *f = pair_open(IBV_QPT_UC, &direct);

	(void)state;
	fix_recv(f, 8, 0, 0);
	pair_stop(f, 1);
	memset(f->mem[0], 1, 1000);
	fix_post(f, IBV_WR_RDMA_WRITE_WITH_IMM, 1, 0, 1000, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	memset(f->mem[0], 2, 1000);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 1000, 0);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	pair_go(f, 1);
	fix_wc(f, 1, 8, IBV_WC_SUCCESS);
	fix_quiet(f);
	fix_same(f, 0, 1000);
	fix_close(f);
}

/* --- deregistration ------------------------------------------------------ */

static void *deregister(void *arg)
{
	struct fix *f = arg;

	assert_int_equal(mr_dereg(f->mr[1]), 0);
	f->mr[1] = NULL;
	return NULL;
}

static void *reregister(void *arg)
{
	struct fix *f = arg;

	assert_int_equal(mr_rereg(f->mr[1], IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				  IBV_ACCESS_LOCAL_WRITE),
			 0);
	return NULL;
}

/* A is in the middle of a copy, so to speak. */
static void who_takes_a_region_away_waits_for_who_is_inside(void **state)
{
	void *(*const how[])(void *) = { deregister, reregister };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, &direct);
		struct mr *other = sim_mr(f->s, 1, f->mem[1], 4096, FIX_ALL);
		_Atomic uint64_t *inside = pair_peer(f, 0)->reach.inside;
		pthread_t t;

		atomic_store(inside, (uint64_t)f->mr[1]->mkey.key << INSIDE_KEY_AT | 1);
		assert_int_equal(mr_dereg(other), 0); /* nobody is in this one */
		assert_int_equal(pthread_create(&t, NULL, how[i], f), 0);
		usleep(50000);
		assert_int_equal(pthread_tryjoin_np(t, NULL), EBUSY);
		atomic_store(inside, 0);
		assert_int_equal(pthread_join(t, NULL), 0);
		fix_close(f);
	}
}

static void rereg_moves_what_is_reached(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	uint32_t slots = pair_peer(f, 0)->out.head;
	struct mr *mr = sim_mr(f->s, 1, f->mem[1], 4096, FIX_ALL);
	uint64_t base = f->mr[1]->mkey.base;
	uint32_t key = f->mr[1]->mkey.key;

	(void)state;
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL,
				  f->mem[1] + 8192, 8192, 0),
			 0);
	f->mr[1]->mkey.key = mr->mkey.key; /* what fix_post() says */
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 8192, 8192, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 8192, 8192);
	assert_int_equal(written(f, &slots), 0);
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 4096, 0); /* where it was */
	fix_wc(f, 0, 2, IBV_WC_REM_ACCESS_ERR);
	f->mr[1]->mkey.key = key;
	f->mr[1]->mkey.base = base;
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

/* As after an exec, or where another has got its number: the region's addresses
 * are there, the page is not, or has something else in it. */
static void another_program_is_not_touched(void **state)
{
	const enum ibv_wr_opcode op[] = { IBV_WR_RDMA_WRITE, IBV_WR_RDMA_READ };

	(void)state;
	for (int i = 0; i < 3; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, &direct);
		struct gate *g = &pair_peer(f, 1)->reach.gate;

		if (i == 2)
			memset(g->page->value, 0, sizeof(g->page->value));
		else
			assert_int_equal(munmap(g->page, 1), 0);
		pair_stop(f, 1);
		fix_post(f, op[i > 0], 1, 0, 50000, 0);
		pair_run(f, 1000);
		fix_no_wc(f, 0);
		if (i < 2)
			assert_memory_not_equal(f->mem[0], f->mem[1], 50000);
		if (i < 2)
			g->page = NULL;
		pair_go(f, 1);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
		fix_same(f, 0, 50000);
		fix_close(f);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_bytes_either_way),
		cmocka_unit_test(the_peer_takes_no_part),
		cmocka_unit_test(data_and_immediate_of_one_packet_come_together),
		cmocka_unit_test(an_immediate_waits_for_its_receive),
		cmocka_unit_test(nothing_is_overtaken),
		cmocka_unit_test(blocks_and_messages_wait_for_nobody),
		cmocka_unit_test(what_was_executed_is_followed_at_once),
		cmocka_unit_test(a_read_that_is_owed_is_not_overtaken),
		cmocka_unit_test(what_the_board_does_not_allow_the_peer_refuses),
		cmocka_unit_test(the_last_byte_of_a_region_is_in_it),
		cmocka_unit_test(a_region_that_is_gone_is_not_reached),
		cmocka_unit_test(a_key_that_is_gone_reaches_nothing),
		cmocka_unit_test(a_qp_that_is_not_ready_is_not_reached),
		cmocka_unit_test(a_qp_that_failed_is_closed),
		cmocka_unit_test(too_many_reads_go_by_records),
		cmocka_unit_test(memory_that_is_gone),
		cmocka_unit_test(uc_goes_by_records),
		cmocka_unit_test(who_takes_a_region_away_waits_for_who_is_inside),
		cmocka_unit_test(rereg_moves_what_is_reached),
		cmocka_unit_test(another_program_is_not_touched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
