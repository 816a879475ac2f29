/* SPDX-License-Identifier: BSD-2-Clause */
/* Memory that both processes have mapped: the posting thread does the work at once,
 * with the same bytes, rights, order and completions as by any other way. */
#include "direct/shared_fix.h"
#include "verbs/exports.h"

static void the_same_bytes(void **state)
{
	static const uint32_t len[] = { 1,    2,    4,	  7,	8,     9,    63,
					64,   65,   80,	  200,	1500,  2047, 2048,
					2049, 4095, 4096, 4097, 65535, 65536 };
	struct shared s = mapped(FIX_ALL);
	uint8_t *mine = s.f->mem[0];

	(void)state;
	pair_stop(s.f, 1); /* it takes no part */
	for (size_t i = 0; i < sizeof(len) / sizeof(len[0]); i++)
		for (size_t off = 0; off < 9; off++) {
			uint64_t before = times(&s);

			memset(s.at, 0xee, LEN);
			post(&s, IBV_WR_RDMA_WRITE, i, 3, 100 + off, len[i]);
			done_at_once(&s, i);
			assert_memory_equal(s.at + 100 + off, mine + 3, len[i]);
			assert_int_equal(s.at[99 + off], 0xee);
			assert_int_equal(s.at[100 + off + len[i]], 0xee);
			post(&s, IBV_WR_RDMA_READ, i, LEN + 5, 90 + off, len[i]);
			done_at_once(&s, i);
			assert_memory_equal(s.at + 90 + off, mine + LEN + 5, len[i]);
			assert_int_equal(times(&s), before + 2);
		}
	unshare_(&s);
}

static void atomics(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t v = 40, got;

	(void)state;
	pair_stop(s.f, 1);
	memcpy(s.at + 64, &v, 8);
	post(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 64, 8);
	done_at_once(&s, 1);
	memcpy(&got, s.f->mem[0], 8);
	assert_int_equal(got, 40);
	memcpy(&got, s.at + 64, 8);
	assert_int_equal(got, 45);
	post(&s, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 0, 64, 8); /* the value there is not 5 */
	done_at_once(&s, 2);
	memcpy(&got, s.at + 64, 8);
	assert_int_equal(got, 45);
	v = 5;
	memcpy(s.at + 64, &v, 8);
	post(&s, IBV_WR_ATOMIC_CMP_AND_SWP, 3, 0, 64, 8);
	done_at_once(&s, 3);
	memcpy(&got, s.at + 64, 8);
	assert_int_equal(got, 77);
	/* The peer refuses an atomic whose address is not aligned. */
	pair_go(s.f, 1);
	post(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 0, 68, 8);
	fix_wc(s.f, 0, 4, IBV_WC_REM_INV_REQ_ERR);
	unshare_(&s);
}

/* The atomic's result cannot be stored: it was executed all the same, once. */
static void an_atomic_whose_result_has_no_place(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint8_t *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mr *mr = sim_mr(s.f->s, 0, gone, 4096, FIX_ALL), *was = s.f->mr[0];
	uint64_t v = 1;

	(void)state;
	memcpy(s.at, &v, 8);
	munmap(gone, 4096);
	s.f->mr[0] = mr;
	post(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 0, 8);
	fix_wc(s.f, 0, 1, IBV_WC_LOC_PROT_ERR);
	fix_quiet(s.f);
	assert_int_equal(s.f->p.qp[0]->state, IBV_QPS_ERR);
	memcpy(&v, s.at, 8);
	assert_int_equal(v, 6);
	assert_int_equal(mr_dereg(mr), 0);
	s.f->mr[0] = was;
	unshare_(&s);
}

static void what_is_not_allowed_the_other_refuses(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		struct shared s =
			mapped(i == 1 ? FIX_ALL & ~IBV_ACCESS_REMOTE_READ : FIX_ALL);
		uint64_t before = times(&s);

		switch (i) {
		case 0: /* one byte behind its end */
			post(&s, IBV_WR_RDMA_WRITE, 1, 0, LEN - 7, 8);
			break;
		case 1:
			post(&s, IBV_WR_RDMA_READ, 1, 0, 0, 8);
			break;
		case 2: /* before its beginning */
			post(&s, IBV_WR_RDMA_WRITE, 1, 0, (size_t)-1, 8);
			break;
		case 3: { /* the QP has other rights now */
			struct ibv_qp_attr a = { .qp_access_flags = 0 };

			assert_int_equal(qp_modify(s.f->p.qp[1], &a, IBV_QP_ACCESS_FLAGS,
						   s.f->s->now),
					 0);
			direct_fence(&s.f->s->node[1].core, s.f->p.qp[1]->qpn);
			post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 8);
			fix_wc(s.f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
			break;
		}
		}
		if (i < 3)
			fix_wc(s.f, 0, 1, IBV_WC_REM_ACCESS_ERR);
		assert_int_equal(times(&s), before);
		unshare_(&s);
	}
}

/* The peer's QP is in another protection domain than the region: the request goes to the
 * peer, which refuses it. */
static void another_domain_the_other_refuses(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct sim_node *b = &s.f->s->node[1];
	struct pd *was = s.f->p.qp[1]->pd, *other;
	uint64_t before = times(&s);

	(void)state;
	assert_int_equal(pd_alloc(&b->core, &b->ibv, &other), 0);
	s.f->p.qp[1]->pd = other;
	pair_show(s.f, 1);
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 8);
	fix_wc(s.f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(times(&s), before);
	s.f->p.qp[1]->pd = was;
	assert_int_equal(pd_free(other), 0);
	unshare_(&s);
}

/* This QP may have more READs and atomics outstanding than the peer accepts: they go to
 * the peer, which counts them. */
static void who_may_read_too_often_is_counted(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t before = times(&s);

	(void)state;
	s.f->p.qp[0]->attr.max_rd_atomic = s.f->p.qp[1]->attr.max_dest_rd_atomic + 1;
	/* The peer's QP entry gets a new version, so A checks it again. */
	fix_modify(s.f, 1, IBV_QPS_RTS);
	post(&s, IBV_WR_RDMA_READ, 1, LEN, 0, 8);
	done(&s, 1);
	post(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0, 64, 8);
	done(&s, 2);
	assert_int_equal(times(&s), before);
	fix_quiet(s.f);
	post(&s, IBV_WR_RDMA_WRITE, 3, 0, 0, 8);
	done_at_once(&s, 3);
	assert_int_equal(times(&s), before + 1);
	unshare_(&s);
}

/* The check of a QP entry is not reused for a new connection, even if the entry has the
 * same version. */
static void a_new_connection_is_looked_at_anew(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint32_t index = qpn_index(s.f->p.qp[1]->qpn), version;
	struct exports *b = s.f->s->node[1].core.exports;
	struct ibv_qp_attr none = { .qp_access_flags = 0 };
	uint64_t before;

	(void)state;
	version = atomic_load(&b->qp[index].version);
	assert_int_equal(pair_allowed(s.f, 0)->version, version);
	pair_again(s.f, 0);
	pair_again(s.f, 1);
	assert_int_equal(qp_modify(s.f->p.qp[1], &none, IBV_QP_ACCESS_FLAGS, s.f->s->now),
			 0);
	atomic_store(&b->qp[index].version, version);
	before = times(&s);
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 8);
	fix_wc(s.f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(times(&s), before);
	unshare_(&s);
}

/* A SEND that B, which does not run, does not take. */
static void send_to_stopped(struct shared *s)
{
	fix_recv(s->f, 8, 0, 100);
	pair_stop(s->f, 1);
	fix_post(s->f, IBV_WR_SEND, 1, 0, 100, 0);
}

static void nothing_is_overtaken(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t before = times(&s);

	(void)state;
	memset(s.at, 0xee, 100);
	send_to_stopped(&s);
	post(&s, IBV_WR_RDMA_WRITE, 2, 0, 0, 8);
	pair_run(s.f, 1 * MS);
	assert_int_equal(times(&s), before);
	assert_int_equal(s.at[0], 0xee);
	pair_go(s.f, 1);
	done(&s, 1);
	done(&s, 2);
	fix_quiet(s.f);
	assert_memory_equal(s.at, s.f->mem[0], 8);
	unshare_(&s);
}

/* A READ that the peer has not executed is outstanding. */
static void a_pending_read_is_not_done(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t before = times(&s);

	(void)state;
	send_to_stopped(&s);
	post(&s, IBV_WR_RDMA_READ, 2, LEN, 0, 8);
	pair_run(s.f, 1000);
	post(&s, IBV_WR_RDMA_WRITE, 3, 3, 0, 8);
	assert_int_equal(times(&s), before);
	pair_go(s.f, 1);
	for (uint64_t i = 1; i <= 3; i++)
		done(&s, i);
	fix_quiet(s.f);
	assert_memory_equal(s.at, s.f->mem[0] + 3, 8);
	unshare_(&s);
}

/* A SEND that was executed and not yet acknowledged does not hold up a WRITE, and
 * completes before it. */
static void what_was_executed_is_followed_at_once(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct core *b = &s.f->s->node[1].core;
	uint64_t before = times(&s);

	(void)state;
	send_to_stopped(&s);
	pair_run(s.f, 1000);
	turn_take(&b->turn);
	peers_input(peers_of(b), s.f->s->now); /* B executes the SEND, and sends no ACK */
	turn_give(&b->turn);
	post(&s, IBV_WR_RDMA_WRITE, 2, 0, 0, 8);
	assert_int_equal(times(&s), before + 1);
	done_at_once(&s, 1);
	done_at_once(&s, 2);
	pair_go(s.f, 1);
	fix_quiet(s.f);
	unshare_(&s);
}

/* --- checks that are done once ------------------------------------------- */

/* Each field of the QP's entry, if it differs, keeps A from carrying out the WRITE
 * itself; B then decides by the QP's real state. */
static void what_the_qps_entry_says_is_heeded(void **state)
{
	struct shared s = mapped(FIX_ALL);
	struct qp *qp = s.f->p.qp[1];
	struct core *b = &s.f->s->node[1].core;
	struct exported_qp good, e;

	(void)state;
	assert_true(exports_get_qp(b->exports, qp->qpn, &good));
	for (uint64_t i = 0; i < 4; i++) {
		uint64_t before = times(&s);

		e = good;
		e.open = i != 0;
		e.dest_qp += i == 1;
		e.path += i == 2;
		exports_put_qp(b, qp->qpn, &e);
		post(&s, IBV_WR_RDMA_WRITE, i, 0, 0, 8);
		done(&s, i);
		fix_quiet(s.f);
		assert_int_equal(times(&s), before + (i == 3));
		pair_show(s.f, 1);
	}
	unshare_(&s);
}

/* The request names a key that is not registered, whose index is that of a mapped
 * region. */
static void another_key_in_its_place(void **state)
{
	struct shared s = mapped(FIX_ALL);
	uint64_t before = times(&s);

	(void)state;
	s.mr->mkey.key ^= 1;
	post(&s, IBV_WR_RDMA_WRITE, 1, 0, 0, 8);
	s.mr->mkey.key ^= 1;
	fix_wc(s.f, 0, 1, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(times(&s), before);
	unshare_(&s);
}

static void who_may_not_read_does_not(void **state)
{
	static const enum ibv_wr_opcode op[] = {
		IBV_WR_RDMA_READ,
		IBV_WR_ATOMIC_FETCH_AND_ADD,
	};

	(void)state;
	for (int i = 0; i < 2; i++) {
		struct shared s = mapped(FIX_ALL);
		uint64_t before = times(&s);

		s.f->p.qp[0]->attr.max_rd_atomic = 0;
		post(&s, op[i], 1, 0, 0, 8);
		fix_wc(s.f, 0, 1, IBV_WC_LOC_QP_OP_ERR);
		assert_int_equal(times(&s), before);
		unshare_(&s);
	}
}

/* An atomic is done at once only if the address that the program gave to the region and
 * the address in memory are both aligned to 8 bytes. */
static void both_addresses_of_an_atomic_are_aligned(void **state)
{
	(void)state;
	for (unsigned off = 0; off <= 4; off += 4) {
		struct shared s = share(FIX_ALL, MAP_SHARED);
		uint64_t before;

		assert_int_equal(mr_dereg(s.mr), 0);
		assert_int_equal(mr_reg(s.f->s->node[1].pd, s.at, LEN, 4, FIX_ALL, &s.mr),
				 0);
		use(&s);
		before = times(&s);
		assert_true(before > 0);
		post(&s, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, off, 8);
		fix_wc(s.f, 0, 1, IBV_WC_REM_INV_REQ_ERR);
		assert_int_equal(times(&s), before);
		unshare_(&s);
	}
}

/* The second half of the region is another file's, which was not lent. */
static void what_was_not_lent_goes_another_way(void **state)
{
	enum { HALF = LEN / 2 };
	struct shared s = share(FIX_ALL, MAP_SHARED);
	uint64_t before;

	(void)state;
	assert_ptr_equal(mmap(s.at + HALF, HALF, PROT_READ | PROT_WRITE,
			      MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 s.at + HALF);
	use(&s);
	before = times(&s);
	assert_true(before > 0);
	post(&s, IBV_WR_RDMA_WRITE, 1, 3, HALF - 8, 8);
	done_at_once(&s, 1);
	assert_memory_equal(s.at + HALF - 8, s.f->mem[0] + 3, 8);
	post(&s, IBV_WR_RDMA_WRITE, 2, 5, HALF - 1, 8);
	done(&s, 2);
	assert_memory_equal(s.at + HALF - 1, s.f->mem[0] + 5, 8);
	assert_int_equal(times(&s), before + 1);
	unshare_(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_same_bytes),
		cmocka_unit_test(atomics),
		cmocka_unit_test(an_atomic_whose_result_has_no_place),
		cmocka_unit_test(what_is_not_allowed_the_other_refuses),
		cmocka_unit_test(another_domain_the_other_refuses),
		cmocka_unit_test(who_may_read_too_often_is_counted),
		cmocka_unit_test(a_new_connection_is_looked_at_anew),
		cmocka_unit_test(nothing_is_overtaken),
		cmocka_unit_test(a_pending_read_is_not_done),
		cmocka_unit_test(what_was_executed_is_followed_at_once),
		cmocka_unit_test(what_the_qps_entry_says_is_heeded),
		cmocka_unit_test(another_key_in_its_place),
		cmocka_unit_test(who_may_not_read_does_not),
		cmocka_unit_test(both_addresses_of_an_atomic_are_aligned),
		cmocka_unit_test(what_was_not_lent_goes_another_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
