/* SPDX-License-Identifier: BSD-2-Clause */
/* Lists of requests on memory that both processes have mapped. */
#include <errno.h>

#include "direct/shared_fix.h"
#include "verbs/post.h"
#include "verbs/transport.h"

/* Inline data needs no key; a list is done one by one, however long. */
static void inline_data_and_lists(void **state)
{
	enum { MANY = 250 };
	struct shared s = mapped(FIX_ALL);
	uint64_t before = times(&s), v[MANY];
	struct ibv_send_wr wr[MANY], *bad;
	struct ibv_sge sge[MANY];

	(void)state;
	pair_stop(s.f, 1);
	for (uint64_t i = 0; i < MANY; i++) {
		v[i] = i * 77;
		sge[i] = (struct ibv_sge){ (uintptr_t)&v[i], 8, 0 };
		wr[i] = (struct ibv_send_wr){
			.wr_id = i,
			.next = i + 1 < MANY ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags =
				IBV_SEND_INLINE | (i + 1 < MANY ? 0u : IBV_SEND_SIGNALED),
			.wr.rdma = { s.mr->mkey.base + 8 * i, s.mr->mkey.key },
		};
	}
	assert_int_equal(qp_post_send(s.f->p.qp[0], wr, &bad), 1);
	done_at_once(&s, MANY - 1);
	assert_int_equal(times(&s), before + MANY);
	assert_memory_equal(s.at, v, sizeof(v));
	unshare_(&s);
}

static void aim(struct ibv_send_wr *wr, const struct mr *to)
{
	if (wr->opcode == IBV_WR_RDMA_WRITE || wr->opcode == IBV_WR_RDMA_READ) {
		wr->wr.rdma.remote_addr = to->mkey.base + 16;
		wr->wr.rdma.rkey = to->mkey.key;
		return;
	}
	wr->wr.atomic.remote_addr = to->mkey.base + 16;
	wr->wr.atomic.rkey = to->mkey.key;
	wr->wr.atomic.compare_add = wr->opcode == IBV_WR_ATOMIC_CMP_AND_SWP ? 40 : 5;
	wr->wr.atomic.swap = 7;
}

/* Registers the same memory once more, with a key whose mapping has a place of its own.
 */
static struct mr *another_mr(const struct shared *s)
{
	struct mr *mr = sim_mr(s->f->s, 1, s->at, LEN, FIX_ALL), *next;

	while (map_place(mr->mkey.key) == map_place(s->mr->mkey.key)) {
		next = sim_mr(s->f->s, 1, s->at, LEN, FIX_ALL);
		assert_int_equal(mr_dereg(mr), 0);
		mr = next;
	}
	return mr;
}

/* A list goes from one region to another and back, and from one opcode to another. */
static void a_list_of_all_kinds(void **state)
{
	static const enum ibv_wr_opcode ops[] = {
		IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_FETCH_AND_ADD, IBV_WR_RDMA_READ,
		IBV_WR_RDMA_WRITE, IBV_WR_ATOMIC_CMP_AND_SWP,	IBV_WR_RDMA_READ,
	};
	enum { MANY = sizeof(ops) / sizeof(ops[0]) };
	static const enum ibv_wc_opcode wcs[] = {
		IBV_WC_RDMA_WRITE, IBV_WC_FETCH_ADD, IBV_WC_RDMA_READ,
		IBV_WC_RDMA_WRITE, IBV_WC_COMP_SWAP, IBV_WC_RDMA_READ,
	};
	struct shared s = mapped(FIX_ALL), other = s;
	uint64_t before, *mine = (uint64_t *)(void *)s.f->mem[0];
	struct ibv_send_wr wr[MANY];
	struct ibv_sge sge[MANY];
	struct ibv_wc wc;

	(void)state;
	other.mr = another_mr(&s);
	use(&other);
	assert_non_null(map_of(&s));
	assert_non_null(map_of(&other));
	pair_stop(s.f, 1);
	before = times(&s);
	mine[0] = 40;
	for (unsigned i = 0; i < MANY; i++) {
		struct mr *to = i % 2 ? other.mr : s.mr;

		sge[i] = sim_sge(s.f->mr[0], ops[i] == IBV_WR_RDMA_WRITE ? 0 : 64 * i, 8);
		wr[i] = (struct ibv_send_wr){
			.wr_id = i,
			.next = i + 1 < MANY ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
			.opcode = ops[i],
			.send_flags = IBV_SEND_SIGNALED,
		};
		aim(&wr[i], to);
	}
	sim_send(s.f->p.qp[0], wr);
	for (unsigned i = 0; i < MANY; i++) {
		assert_int_equal(cq_poll(s.f->p.cq[0], 1, &wc), 1);
		assert_int_equal(wc.wr_id, i);
		assert_int_equal(wc.status, IBV_WC_SUCCESS);
		assert_int_equal(wc.opcode, wcs[i]);
		if (ops[i] != IBV_WR_RDMA_WRITE)
			assert_int_equal(wc.byte_len, 8);
	}
	assert_int_equal(times(&s), before + MANY);
	assert_int_equal(mine[8], 40);	   /* fetched */
	assert_int_equal(mine[8 * 2], 45); /* added */
	assert_int_equal(mine[8 * 4], 40); /* written again, swapped */
	assert_int_equal(mine[8 * 5], 7);
	pair_go(s.f, 1);
	assert_int_equal(mr_dereg(other.mr), 0);
	unshare_(&s);
}

/* Requests that are executed at once take places, too: the queue is full when all are
 * taken, and a completion frees those up to its own. */
static void a_list_ends_where_the_queue_is_full(void **state)
{
	enum { MANY = 300, TOLD = 99 };
	struct shared s = mapped(FIX_ALL);
	struct qp *qp = s.f->p.qp[0];
	const uint32_t cap = qp->sq.cap;
	uint64_t before = times(&s);
	struct ibv_send_wr wr[MANY], *bad;
	struct ibv_sge sge = sim_sge(s.f->mr[0], 0, 8);

	(void)state;
	assert_true(cap < MANY);
	for (unsigned i = 0; i < MANY; i++)
		wr[i] = (struct ibv_send_wr){
			.wr_id = i,
			.next = i + 1 < MANY ? &wr[i + 1] : NULL,
			.sg_list = &sge,
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = i == TOLD ? IBV_SEND_SIGNALED : 0,
			.wr.rdma = { s.mr->mkey.base, s.mr->mkey.key },
		};
	assert_int_equal(qp_post_send(qp, wr, &bad), -ENOMEM);
	assert_ptr_equal(bad, &wr[cap]);
	assert_int_equal(times(&s), before + cap);
	assert_int_equal(qp_post_send(qp, wr, &bad), -ENOMEM);
	assert_ptr_equal(bad, &wr[0]);
	done_at_once(&s, TOLD);
	assert_int_equal(qp_post_send(qp, wr + TOLD + 1, &bad), -ENOMEM);
	assert_ptr_equal(bad, &wr[2 * (TOLD + 1)]);
	assert_int_equal(qp_post_send(qp, wr, &bad), -ENOMEM);
	assert_ptr_equal(bad, &wr[0]);
	assert_int_equal(times(&s), before + cap + TOLD + 1);
	unshare_(&s);
}

/* A post does a limited amount at once and leaves the rest to the engine, so that
 * qp->lock is not held for long. */
static void a_call_does_so_much_at_once(void **state)
{
	enum { EACH = LEN, AT_ONCE = POST_AT_ONCE / EACH, MANY = AT_ONCE + 3 };
	struct shared s = mapped(FIX_ALL);
	uint64_t before = times(&s);
	struct ibv_send_wr wr[MANY];
	struct ibv_sge sge[MANY];

	(void)state;
	for (unsigned i = 0; i < MANY; i++) {
		sge[i] = sim_sge(s.f->mr[0], i * 8, EACH);
		wr[i] = (struct ibv_send_wr){
			.wr_id = i,
			.next = i + 1 < MANY ? &wr[i + 1] : NULL,
			.sg_list = &sge[i],
			.num_sge = 1,
			.opcode = IBV_WR_RDMA_WRITE,
			.send_flags = IBV_SEND_SIGNALED,
			.wr.rdma = { s.mr->mkey.base, s.mr->mkey.key },
		};
	}
	sim_send(s.f->p.qp[0], wr);
	for (unsigned i = 0; i < MANY; i++)
		done(&s, i);
	assert_int_equal(times(&s), before + AT_ONCE);
	assert_memory_equal(s.at, s.f->mem[0] + (MANY - 1) * 8, EACH);
	unshare_(&s);
}

/* ... also where they are built one by one. */
static void a_builder_does_so_much_at_once(void **state)
{
	enum { EACH = LEN, AT_ONCE = POST_AT_ONCE / EACH, MANY = AT_ONCE + 2 };
	struct shared s = mapped(FIX_ALL);
	struct qp *qp = s.f->p.qp[0];
	uint64_t before = times(&s);

	(void)state;
	qp->send_ops = IBV_QP_EX_WITH_RDMA_WRITE;
	post_start(qp);
	qp->ex.wr_flags = IBV_SEND_SIGNALED;
	for (unsigned i = 0; i < MANY; i++) {
		struct swqe *w;

		qp->ex.wr_id = i;
		w = post_draft(qp, IBV_WR_RDMA_WRITE);
		w->rkey = s.mr->mkey.key;
		w->remote_addr = s.mr->mkey.base;
		post_sge(qp, s.f->mr[0]->mkey.key, (uintptr_t)s.f->mem[0] + i * 8, EACH);
	}
	assert_int_equal(post_complete(qp), 0);
	due_add(qp->core, qp);
	for (unsigned i = 0; i < MANY; i++)
		done(&s, i);
	assert_int_equal(times(&s), before + AT_ONCE);
	assert_memory_equal(s.at, s.f->mem[0] + (MANY - 1) * 8, EACH);
	unshare_(&s);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(inline_data_and_lists),
		cmocka_unit_test(a_list_ends_where_the_queue_is_full),
		cmocka_unit_test(a_list_of_all_kinds),
		cmocka_unit_test(a_call_does_so_much_at_once),
		cmocka_unit_test(a_builder_does_so_much_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
