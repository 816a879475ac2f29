/* SPDX-License-Identifier: BSD-2-Clause */
/* The peer's memory, reached directly: the same rights and the same ends as by
 * records. */
#include <sys/mman.h>
#include <unistd.h>

#include "direct/vm_fix.h"
#include "sys/waiter_testing.h"
#include "verbs/exports.h"

/* A record is refused by the peer, whichever way it came. */
static void what_the_export_table_does_not_allow_the_peer_refuses(void **state)
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
			pair_show(f, 1);
			break;
		case 4:
			mk->pd = pd;
			break;
		}
		if (i / 2 != 0)
			exports_put_mr(&b->core, mk);
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
/* Which QP A's requests say that they come from, and by which path. */
static uint32_t *from_qpn(const struct fix *f)
{
	return &pair_shm(f, 0)->head.src;
}

static uint32_t *from_path(const struct fix *f)
{
	return &pair_shm(f, 0)->head.route;
}

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
			(*from_qpn(f))++;
			break; /* another asks */
		case 3:
			(*from_path(f))++;
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

/* The export table of a QP that its CQ has failed says so. */
static void a_qp_that_failed_is_closed(void **state)
{
	struct fix *f = pair_open(IBV_QPT_RC, &direct);
	const struct exports *b = pair_peer(f, 0)->reach.exports;
	struct exported_qp to;

	(void)state;
	assert_true(exports_get_qp(b, f->p.qp[1]->qpn, &to));
	assert_true(to.open);
	f->p.cq[1]->overrun = true;
	sim_recv(f->p.qp[1], 8, NULL, 0);
	fix_post(f, IBV_WR_SEND, 1, 0, 0, 0);
	pair_run(f, 1000);
	assert_int_equal(f->p.qp[1]->state, IBV_QPS_ERR);
	assert_true(exports_get_qp(b, f->p.qp[1]->qpn, &to));
	assert_false(to.open);
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

/* Simulates a copy of A in progress. */
static void who_takes_a_region_away_waits_for_who_is_inside(void **state)
{
	void *(*const how[])(void *) = { deregister, reregister };

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct fix *f = pair_open(IBV_QPT_RC, &direct);
		struct mr *other = sim_mr(f->s, 1, f->mem[1], 4096, FIX_ALL);
		_Atomic uint64_t *inside = pair_peer(f, 0)->reach.inside;
		struct waiter t;

		direct_of(&f->s->node[1].core)->patience_ns = UINT64_MAX;
		direct_of(&f->s->node[1].core)->give_up_ns = UINT64_MAX;
		atomic_store(inside, (uint64_t)f->mr[1]->mkey.key << INSIDE_KEY_AT | 1);
		assert_int_equal(mr_dereg(other), 0); /* nobody is in this one */
		waiter_start(&t, how[i], f);
		for (int k = 0; k < 3; k++)
			assert_true(waiter_sleeps(&t));
		atomic_store(inside, 0);
		waiter_join(&t);
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
		cmocka_unit_test(what_the_export_table_does_not_allow_the_peer_refuses),
		cmocka_unit_test(the_last_byte_of_a_region_is_in_it),
		cmocka_unit_test(a_region_that_is_gone_is_not_reached),
		cmocka_unit_test(a_key_that_is_gone_reaches_nothing),
		cmocka_unit_test(a_qp_that_is_not_ready_is_not_reached),
		cmocka_unit_test(a_qp_that_failed_is_closed),
		cmocka_unit_test(memory_that_is_gone),
		cmocka_unit_test(who_takes_a_region_away_waits_for_who_is_inside),
		cmocka_unit_test(rereg_moves_what_is_reached),
		cmocka_unit_test(another_program_is_not_touched),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
