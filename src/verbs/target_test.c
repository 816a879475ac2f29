/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/qp_fixture.h"
#include "verbs/target.h"

enum { REGION = 64, NOW = 5 };

struct world {
	struct fix *f;
	struct qp *qp;
	struct target t;
	_Alignas(8) uint8_t mem[REGION];
	struct mr *mr;
	uint64_t va;
	uint32_t key;
};

static struct world *open_world(int qp_access, int mr_access)
{
	struct world *w = test_calloc(1, sizeof(*w));

	w->f = fix_open(8);
	w->qp = fix_qp(w->f, IBV_QPT_RC);
	fix_bring(w->qp, IBV_QPS_RTS);
	w->qp->attr.qp_access_flags = (unsigned)qp_access;
	w->va = (uintptr_t)w->mem;
	assert_int_equal(mr_reg(w->f->pd, w->mem, REGION, w->va, mr_access, &w->mr), 0);
	w->key = w->mr->ibv.rkey;
	return w;
}

static void close_world(struct world *w)
{
	assert_int_equal(qp_destroy(w->qp), 0);
	assert_int_equal(mr_dereg(w->mr), 0);
	fix_close(w->f);
	test_free(w);
}

enum {
	LOCAL = IBV_ACCESS_LOCAL_WRITE,
	WRITE = IBV_ACCESS_REMOTE_WRITE,
	READ = IBV_ACCESS_REMOTE_READ,
	ATOMIC = IBV_ACCESS_REMOTE_ATOMIC,
};

static void post(struct world *w, uint64_t id, uint32_t len)
{
	struct ibv_sge sge = { w->va, len, w->key };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	assert_int_equal(qp_post_recv(w->qp, &wr, &bad), 0);
}

static void a_message_fills_its_receive(void **state)
{
	struct world *w = open_world(0, LOCAL);
	struct cqe cqe = { .now = NOW, .opcode = IBV_WC_RECV, .byte_len = 6 };

	(void)state;
	qp_is_held(w->qp);
	assert_int_equal(target_take_recv(w->qp, &w->t), REFUSED_NO_RECV);
	assert_false(w->t.have_recv);
	post(w, 1, 6);
	assert_int_equal(target_take_recv(w->qp, &w->t), ACCEPTED);
	assert_int_equal(target_fill_recv(w->qp, &w->t, "abc", 3), ACCEPTED);
	assert_int_equal(target_fill_recv(w->qp, &w->t, "def", 3), ACCEPTED);
	assert_memory_equal(w->mem, "abcdef", 6);
	assert_int_equal(target_fill_recv(w->qp, &w->t, "g", 1), REFUSED_RECV_SHORT);
	assert_int_equal(w->mem[6], 0);
	target_complete(w->qp, &w->t, &cqe, false);
	assert_false(w->t.have_recv);
	assert_int_equal(fix_wc(w->f->rcq, 1, IBV_WC_SUCCESS).byte_len, 6);
	close_world(w);
}

/* A message that is dropped leaves its receive to the next message. */
static void a_receive_is_taken_once(void **state)
{
	struct world *w = open_world(0, LOCAL);

	(void)state;
	qp_is_held(w->qp);
	post(w, 1, 4);
	post(w, 2, 4);
	assert_int_equal(target_take_recv(w->qp, &w->t), ACCEPTED);
	assert_int_equal(target_fill_recv(w->qp, &w->t, "ab", 2), ACCEPTED);
	assert_int_equal(target_take_recv(w->qp, &w->t), ACCEPTED);
	assert_int_equal(w->t.recv.wr_id, 1);
	assert_int_equal(w->t.filled, 0);
	close_world(w);
}

/* The status of the receive under way, for each reason of a refusal. */
static void a_receive_says_why(void **state)
{
	static const struct {
		enum refusal why;
		enum ibv_wc_status status;
		enum verr verr;
	} rows[] = {
		{ REFUSED_RECV_SHORT, IBV_WC_LOC_LEN_ERR, VERR_LOCAL_LENGTH },
		{ REFUSED_RECV_SGE, IBV_WC_LOC_PROT_ERR, VERR_LOCAL_KEY },
		{ REFUSED_INVALIDATE, IBV_WC_REM_INV_REQ_ERR, VERR_INVALIDATE },
		{ REFUSED_MEMORY, IBV_WC_LOC_ACCESS_ERR, VERR_REQUEST_ACCESS },
		{ REFUSED_KEY, IBV_WC_LOC_ACCESS_ERR, VERR_REQUEST_ACCESS },
		{ REFUSED_PLACE, IBV_WC_REM_INV_REQ_ERR, VERR_REQUEST_INVALID },
		{ REFUSED_OPERATION, IBV_WC_REM_INV_REQ_ERR, VERR_REQUEST_INVALID },
	};
	struct world *w = open_world(0, 0); /* no LOCAL_WRITE */

	(void)state;
	qp_is_held(w->qp);
	for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		post(w, i, 4);
		assert_int_equal(target_take_recv(w->qp, &w->t), ACCEPTED);
		assert_int_equal(target_fill_recv(w->qp, &w->t, "x", 1),
				 REFUSED_RECV_SGE);
		target_fail_recv(w->qp, &w->t, rows[i].why, NOW);
		assert_false(w->t.have_recv);
		assert_int_equal(fix_wc(w->f->rcq, i, rows[i].status).vendor_err,
				 rows[i].verr);
		/* No receive is under way any more. */
		target_fail_recv(w->qp, &w->t, rows[i].why, NOW);
	}
	close_world(w);
}

static enum refusal write_to(struct world *w, int64_t off, uint32_t len)
{
	return target_begin_write(w->qp, &w->t, w->key, w->va + (uint64_t)off, len);
}

static void a_write_stays_in_its_region(void **state)
{
	struct world *w = open_world(WRITE, LOCAL | WRITE);
	char text[TARGET_WHY_LEN];

	(void)state;
	assert_int_equal(write_to(w, -1, 1), REFUSED_KEY);
	assert_non_null(strstr(target_why(&w->t, REFUSED_KEY, text), "1 bytes at 0x"));
	assert_int_equal(write_to(w, 0, REGION + 1), REFUSED_KEY);
	assert_int_equal(write_to(w, 0, REQUEST_MAX + 1), REFUSED_TOO_LONG);
	/* A WRITE of 0 bytes is accepted at any address. */
	assert_int_equal(write_to(w, -1, 0), ACCEPTED);
	assert_int_equal(write_to(w, 60, 4), ACCEPTED);
	assert_int_equal(target_write(w->qp, &w->t, "ab", 2), ACCEPTED);
	assert_int_equal(w->t.write.left, 2);
	assert_int_equal(target_write(w->qp, &w->t, "cd", 2), ACCEPTED);
	assert_memory_equal(w->mem + 60, "abcd", 4);
	/* The region is deregistered while a WRITE is under way. */
	assert_int_equal(write_to(w, 0, 4), ACCEPTED);
	w->t.write.rkey ^= 1u;
	assert_int_equal(target_write(w->qp, &w->t, "ab", 2), REFUSED_KEY);
	assert_int_equal(w->mem[0], 0);
	close_world(w);
}

static void the_qp_and_the_region_must_allow_it(void **state)
{
	struct world *w = open_world(READ | ATOMIC, LOCAL | WRITE | ATOMIC);
	uint64_t *at;
	uint8_t *host;

	(void)state;
	assert_int_equal(write_to(w, 0, 4), REFUSED_OPERATION);
	assert_int_equal(target_allows(w->qp, READ), ACCEPTED);
	assert_int_equal(target_allows(w->qp, READ | WRITE), REFUSED_OPERATION);
	assert_int_equal(target_check(w->qp, &w->t, w->key, w->va, 4, READ, &host),
			 REFUSED_KEY);
	assert_int_equal(w->t.refused.why, MR_ACCESS);
	assert_int_equal(target_check_atomic(w->qp, &w->t, w->key, w->va + 8, &at),
			 ACCEPTED);
	assert_ptr_equal(at, w->mem + 8);
	assert_int_equal(target_check_atomic(w->qp, &w->t, w->key, w->va + 4, &at),
			 REFUSED_ALIGNMENT);
	assert_int_equal(target_check_atomic(w->qp, &w->t, w->key, w->va + REGION, &at),
			 REFUSED_KEY);
	close_world(w);
}

/* The data of one WRITE come in pieces, each with its own address. */
static void pieces_are_placed(void **state)
{
	struct world *w = open_world(WRITE, LOCAL | WRITE);

	(void)state;
	assert_int_equal(target_place(w->qp, &w->t, w->key, w->va + 62, "ab", 2),
			 ACCEPTED);
	assert_memory_equal(w->mem + 62, "ab", 2);
	assert_int_equal(target_place(w->qp, &w->t, w->key, w->va + 63, "cd", 2),
			 REFUSED_KEY);
	assert_int_equal(target_place(w->qp, &w->t, w->key ^ 1, w->va, "cd", 0),
			 ACCEPTED);
	assert_memory_equal(w->mem + 62, "ab", 2);
	close_world(w);
}

static void atomics(void **state)
{
	struct world *w = open_world(ATOMIC, LOCAL | ATOMIC);
	uint64_t *at, orig = 0, compare = 8;

	(void)state;
	assert_int_equal(target_check_atomic(w->qp, &w->t, w->key, w->va, &at), ACCEPTED);
	assert_int_equal(target_atomic(w->qp, w->key, at, NULL, 7, &orig), ACCEPTED);
	assert_int_equal(orig, 0);
	assert_int_equal(*at, 7);
	assert_int_equal(target_atomic(w->qp, w->key, at, &compare, 9, &orig), ACCEPTED);
	assert_int_equal(orig, 7);
	assert_int_equal(*at, 7);
	compare = 7;
	assert_int_equal(target_atomic(w->qp, w->key, at, &compare, 9, &orig), ACCEPTED);
	assert_int_equal(*at, 9);
	close_world(w);
}

/* A window's key is invalidated, which works once; a region's key cannot be. */
static void keys_are_invalidated(void **state)
{
	struct world *w = open_world(WRITE, LOCAL | WRITE | IBV_ACCESS_MW_BIND);
	struct ibv_mw_bind_info info = { &w->mr->ibv, w->va, 8, WRITE };
	struct mw *mw;
	uint32_t key;

	(void)state;
	assert_int_equal(mw_alloc(w->f->pd, IBV_MW_TYPE_2, &mw), 0);
	key = ibv_inc_rkey(mw->ibv.rkey);
	turn_is_held(&w->f->core);
	assert_int_equal(mw_bind(&w->f->core, key, mw->ibv.handle, IBV_MW_TYPE_2,
				 w->qp->qpn, w->f->pd, &info),
			 IBV_WC_SUCCESS);
	assert_int_equal(target_invalidate(w->qp, w->key), REFUSED_INVALIDATE);
	assert_int_equal(target_invalidate(w->qp, key), ACCEPTED);
	assert_int_equal(target_invalidate(w->qp, key), REFUSED_INVALIDATE);
	assert_int_equal(mw_dealloc(mw), 0);
	close_world(w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_message_fills_its_receive),
		cmocka_unit_test(a_receive_is_taken_once),
		cmocka_unit_test(a_receive_says_why),
		cmocka_unit_test(a_write_stays_in_its_region),
		cmocka_unit_test(the_qp_and_the_region_must_allow_it),
		cmocka_unit_test(pieces_are_placed),
		cmocka_unit_test(atomics),
		cmocka_unit_test(keys_are_invalidated),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
