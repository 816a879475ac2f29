/* SPDX-License-Identifier: BSD-2-Clause */
/* The list of tags: operations, synchronisation, and which receive a message goes to. */
#include "verbs/qp_fixture.h"

#include <endian.h>

#include "verbs/device.h"
#include "verbs/target.h"
#include "verbs/tm.h"

struct list_fix {
	struct fix *f;
	struct cq *cq;
	struct srq *srq;
	struct qp *qp;
	struct target t;
};

static struct ibv_srq_init_attr some(void)
{
	return (struct ibv_srq_init_attr){ .attr = { .max_wr = 8, .max_sge = 1 } };
}

static struct list_fix *open_list(uint32_t tags)
{
	struct list_fix *l = test_calloc(1, sizeof(*l));
	struct ibv_srq_init_attr a = some();
	struct ibv_qp_init_attr_ex qa;

	l->f = fix_open(64);
	assert_int_equal(cq_create(&l->f->ctx, 256, NULL, NULL, &l->cq), 0);
	assert_int_equal(srq_create_tm(&l->f->ctx, l->f->pd, l->cq,
				       &(struct ibv_tm_cap){ tags, 4 }, &a, &l->srq),
			 0);
	qa = fix_init(l->f, IBV_QPT_RC);
	qa.srq = &l->srq->ibv;
	assert_int_equal(qp_create(&l->f->ctx, &qa, &fake_transport, &l->qp), 0);
	fix_bring(l->qp, IBV_QPS_RTR);
	return l;
}

static void close_list(struct list_fix *l)
{
	assert_int_equal(srq_destroy(l->srq), -EBUSY);
	assert_int_equal(qp_destroy(l->qp), 0);
	assert_int_equal(cq_destroy(l->cq), -EBUSY);
	assert_int_equal(srq_destroy(l->srq), 0);
	assert_int_equal(cq_destroy(l->cq), 0);
	fix_close(l->f);
	test_free(l);
}

static int operate(struct list_fix *l, struct ibv_ops_wr *wr)
{
	struct ibv_ops_wr *bad = NULL;
	int rc = tm_post(l->srq, wr, &bad);

	assert_ptr_equal(bad, rc ? wr : NULL);
	return rc;
}

static struct ibv_ops_wr adding(uint64_t tag, uint64_t mask, uint64_t recv_wr_id)
{
	static struct ibv_sge sge = { .addr = 4096, .length = 100 };

	return (struct ibv_ops_wr){
		.wr_id = tag + 1000,
		.opcode = IBV_WR_TAG_ADD,
		.tm.add = { .recv_wr_id = recv_wr_id,
			    .sg_list = &sge,
			    .num_sge = 1,
			    .tag = tag,
			    .mask = mask },
	};
}

static uint32_t add(struct list_fix *l, uint64_t tag, uint64_t mask, uint64_t recv_wr_id)
{
	struct ibv_ops_wr wr = adding(tag, mask, recv_wr_id);

	assert_int_equal(operate(l, &wr), 0);
	return wr.tm.handle;
}

static int del(struct list_fix *l, uint32_t handle)
{
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_DEL, .tm.handle = handle };

	return operate(l, &wr);
}

static void sync_at(struct list_fix *l, uint32_t count)
{
	struct ibv_ops_wr wr = { .opcode = IBV_WR_TAG_SYNC,
				 .flags = IBV_OPS_TM_SYNC,
				 .tm.unexpected_cnt = count };

	assert_int_equal(operate(l, &wr), 0);
}

/* Returns the wr_id of the receive that the message goes to; 0: it finds none. */
static uint64_t arrives(struct list_fix *l, uint8_t opcode, uint64_t tag)
{
	struct ibv_tmh tmh = { .opcode = opcode,
			       .app_ctx = htobe32(7),
			       .tag = htobe64(tag) };
	enum refusal why;
	uint32_t skip = 0;

	lock_take(&l->qp->lock);
	l->t.have_recv = false;
	l->qp->recv.held = false;
	why = target_begin_send(l->qp, &l->t, &tmh, sizeof(tmh), true, &skip);
	lock_give(&l->qp->lock);
	if (why) {
		assert_int_equal(why, REFUSED_NO_RECV);
		return 0;
	}
	assert_true(l->t.have_recv);
	assert_int_equal(skip, l->qp->tm.found.flags & IBV_WC_TM_MATCH ? 16 : 0);
	assert_int_equal(l->qp->recv.no_place, skip != 0);
	l->srq->rq.returned += !skip; /* as if the completion had been polled */
	return l->t.recv.wr_id;
}

static void post_receives(struct list_fix *l, int n)
{
	struct ibv_recv_wr wr = { .wr_id = 99 };

	while (n-- > 0)
		assert_int_equal(srq_post(l->srq, &wr, NULL), 0);
}

static bool no_completion(struct list_fix *l)
{
	return cq_empty(l->cq);
}

static void what_cannot_be_is_refused(void **state)
{
	static const struct ibv_tm_cap bad[] = {
		{ 0, 1 },
		{ TM_TAGS + 1, 1 },
		{ UINT32_MAX, 1 },
		{ 1, TM_OPS + 1 },
	};
	struct fix *f = fix_open(8);
	struct ibv_srq_init_attr a = some();
	struct ibv_qp_init_attr_ex qa = fix_init(f, IBV_QPT_UC);
	struct srq *srq;
	struct pd *other;
	struct qp *qp;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(srq_create_tm(&f->ctx, f->pd, f->rcq, &bad[i], &a, &srq),
				 -EINVAL);
	assert_int_equal(pd_alloc(&f->core, &f->ibv, &other), 0);
	assert_int_equal(srq_create_tm(&f->ctx, other, f->rcq,
				       &(struct ibv_tm_cap){ 1, 0 }, &a, &srq),
			 0);
	qa.srq = &srq->ibv;
	assert_int_equal(qp_create(&f->ctx, &qa, &fake_transport, &qp), -EINVAL);
	qa.qp_type = IBV_QPT_RC; /* RC is right, but the PD is not the SRQ's */
	assert_int_equal(qp_create(&f->ctx, &qa, &fake_transport, &qp), -EINVAL);
	qa.pd = &other->ibv;
	assert_int_equal(qp_create(&f->ctx, &qa, &fake_transport, &qp), 0);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(srq_destroy(srq), 0);
	assert_int_equal(pd_free(other), 0);
	fix_close(f);
}

static void operations_that_cannot_be_are_refused(void **state)
{
	struct list_fix *l = open_list(2);
	struct ibv_srq_init_attr a = some();
	struct ibv_ops_wr wr = adding(1, 1, 1), plain;
	struct ibv_ops_wr *bad;
	struct srq *srq;

	(void)state;
	wr.opcode = 3;
	assert_int_equal(operate(l, &wr), -EINVAL);
	wr.opcode = (enum ibv_ops_wr_opcode) - 1;
	assert_int_equal(operate(l, &wr), -EINVAL);
	wr = adding(1, 1, 1);
	wr.flags = 4;
	assert_int_equal(operate(l, &wr), -EINVAL);
	wr = adding(1, 1, 1);
	wr.tm.add.num_sge = TM_SGES + 1;
	assert_int_equal(operate(l, &wr), -EINVAL);
	wr.tm.add.num_sge = -1;
	assert_int_equal(operate(l, &wr), -EINVAL);
	wr.tm.add.num_sge = 1;
	wr.tm.add.sg_list = NULL;
	assert_int_equal(operate(l, &wr), -EINVAL);
	assert_int_equal(del(l, 2), -EINVAL); /* only handles 0 and 1 exist */
	assert_int_equal(del(l, UINT32_MAX), -EINVAL);
	add(l, 1, 1, 1);
	add(l, 2, 2, 2);
	wr = adding(3, 3, 3);
	assert_int_equal(operate(l, &wr), -ENOMEM);
	assert_true(no_completion(l));
	assert_int_equal(srq_create(&l->f->ctx, l->f->pd, &a, &srq), 0);
	plain = adding(1, 1, 1);
	assert_int_equal(tm_post(srq, &plain, &bad), -EINVAL);
	assert_int_equal(srq_destroy(srq), 0);
	close_list(l);
}

static void a_chain_is_done_up_to_the_bad_one(void **state)
{
	struct list_fix *l = open_list(4);
	struct ibv_ops_wr wr[3] = { adding(1, ~0ull, 1), adding(2, ~0ull, 2),
				    adding(3, ~0ull, 3) };
	struct ibv_ops_wr *bad = NULL;

	(void)state;
	wr[0].next = &wr[1];
	wr[1].next = &wr[2];
	wr[1].tm.add.num_sge = 99;
	assert_int_equal(tm_post(l->srq, wr, &bad), -EINVAL);
	assert_ptr_equal(bad, &wr[1]);
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 1), 1);
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 3), 0);
	close_list(l);
}

static void operations_complete_if_signalled(void **state)
{
	struct list_fix *l = open_list(4);
	struct ibv_ops_wr wr = adding(5, ~0ull, 50);
	struct ibv_wc wc;

	(void)state;
	wr.flags = IBV_OPS_SIGNALED;
	assert_int_equal(operate(l, &wr), 0);
	wc = fix_wc(l->cq, 1005, IBV_WC_SUCCESS);
	assert_int_equal(wc.opcode, IBV_WC_TM_ADD);
	assert_int_equal(wc.wc_flags, 0);
	wr = (struct ibv_ops_wr){ .wr_id = 6,
				  .opcode = IBV_WR_TAG_DEL,
				  .flags = IBV_OPS_SIGNALED,
				  .tm.handle = wr.tm.handle };
	assert_int_equal(operate(l, &wr), 0);
	assert_int_equal(fix_wc(l->cq, 6, IBV_WC_SUCCESS).opcode, IBV_WC_TM_DEL);
	/* An operation that fails completes even without IBV_OPS_SIGNALED. */
	wr.flags = 0;
	assert_int_equal(operate(l, &wr), 0);
	wc = fix_wc(l->cq, 6, IBV_WC_TM_ERR);
	assert_int_equal(wc.vendor_err, VERR_TAG_GONE);
	wr = (struct ibv_ops_wr){ .wr_id = 7,
				  .opcode = IBV_WR_TAG_SYNC,
				  .flags = IBV_OPS_SIGNALED };
	assert_int_equal(operate(l, &wr), 0);
	assert_int_equal(fix_wc(l->cq, 7, IBV_WC_SUCCESS).opcode, IBV_WC_TM_SYNC);
	assert_true(no_completion(l));
	close_list(l);
}

static void the_first_that_matches_is_taken(void **state)
{
	struct list_fix *l = open_list(8);

	(void)state;
	post_receives(l, 2);
	add(l, 0x10, 0xf0, 1);
	add(l, 0x12, 0xff, 2);
	add(l, 0, 0, 3);     /* this tag matches every message */
	add(l, 0x100, 1, 4); /* this tag never matches */
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 0x12), 1);
	assert_int_equal(l->qp->tm.found.tag, 0x12);
	assert_int_equal(l->qp->tm.found.priv, 7);
	assert_int_equal(l->t.recv.length, 100);
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 0x12), 2);
	assert_int_equal(arrives(l, IBV_TMH_EAGER, UINT64_MAX), 3);
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 0x100), 99);
	assert_int_equal(l->qp->tm.found.opcode, IBV_WC_TM_RECV);
	assert_int_equal(l->qp->tm.found.flags, 0);
	assert_int_equal(l->qp->tm.found.tag, 0);
	close_list(l);
}

static void messages_without_a_tag_match_nothing(void **state)
{
	static const uint8_t opcode[] = { IBV_TMH_NO_TAG, IBV_TMH_FIN, 4, 255 };
	struct list_fix *l = open_list(8);

	(void)state;
	post_receives(l, 4);
	add(l, 0, 0, 1);
	for (size_t i = 0; i < sizeof(opcode); i++) {
		assert_int_equal(arrives(l, opcode[i], 0), 99);
		assert_int_equal(l->qp->tm.found.opcode, IBV_WC_TM_NO_TAG);
	}
	assert_int_equal(tm_list_of(l->srq)->unexpected, 0);
	assert_int_equal(arrives(l, IBV_TMH_FIN, 0), 0); /* no receive is left */
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 0), 1);
	close_list(l);
}

static void a_handle_names_one_tag_only(void **state)
{
	struct list_fix *l = open_list(1);
	uint32_t old = add(l, 1, 1, 1), new;

	(void)state;
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 1), 1);
	new = add(l, 1, 1, 2);
	assert_int_not_equal(old, new);
	assert_int_equal(del(l, old), 0);
	fix_wc(l->cq, 0, IBV_WC_TM_ERR);
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 1), 2);
	new = add(l, 1, 1, 3);
	assert_int_equal(del(l, new), 0);
	assert_true(no_completion(l));
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 1), 0);
	close_list(l);
}

static void new_tags_wait_until_both_have_seen_the_same(void **state)
{
	struct list_fix *l = open_list(8);
	struct ibv_ops_wr wr = adding(9, ~0ull, 9);

	(void)state;
	post_receives(l, 8);
	add(l, 1, ~0ull, 1);
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 9), 99);
	wr.flags = IBV_OPS_SIGNALED;
	assert_int_equal(operate(l, &wr), 0);
	assert_int_equal(fix_wc(l->cq, 1009, IBV_WC_SUCCESS).wc_flags,
			 IBV_WC_TM_SYNC_REQ);
	/* The added tag is not yet in force. */
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 9), 99);
	/* Tags that were in force before still are. */
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 1), 1);
	sync_at(l, 1);
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 9), 99);
	sync_at(l, 3);
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 9), 9);
	/* An ADD may bring the count of unexpected messages as well; then it is in force
	 * at once. */
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 9), 99);
	wr.flags = IBV_OPS_SIGNALED | IBV_OPS_TM_SYNC;
	wr.tm.unexpected_cnt = 4 + (1 << 16); /* only the low 16 bits count */
	assert_int_equal(operate(l, &wr), 0);
	assert_int_equal(fix_wc(l->cq, 1009, IBV_WC_SUCCESS).wc_flags, 0);
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 9), 9);
	close_list(l);
}

static void a_program_far_behind_is_asked_to_synchronise(void **state)
{
	struct list_fix *l = open_list(2);

	(void)state;
	for (int i = 1; i <= 1 << 14; i++) {
		post_receives(l, 1);
		assert_int_equal(arrives(l, IBV_TMH_EAGER, 1), 99);
		assert_int_equal(l->qp->tm.found.flags,
				 i == 1 << 14 ? IBV_WC_TM_SYNC_REQ : 0);
	}
	sync_at(l, 1 << 14);
	add(l, 1, 1, 1);
	assert_int_equal(arrives(l, IBV_TMH_EAGER, 1), 1);
	close_list(l);
}

static void the_device_tells_what_it_can(void **state)
{
	struct fix *f = fix_open(8);
	struct ibv_device_attr_ex a;

	(void)state;
	assert_int_equal(device_query(f->dev, &a, sizeof(a)), 0);
	assert_int_equal(a.tm_caps.flags, IBV_TM_CAP_RC);
	assert_int_equal(a.tm_caps.max_num_tags, TM_TAGS);
	assert_int_equal(a.tm_caps.max_rndv_hdr_size, 64);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_cannot_be_is_refused),
		cmocka_unit_test(operations_that_cannot_be_are_refused),
		cmocka_unit_test(a_chain_is_done_up_to_the_bad_one),
		cmocka_unit_test(operations_complete_if_signalled),
		cmocka_unit_test(the_first_that_matches_is_taken),
		cmocka_unit_test(messages_without_a_tag_match_nothing),
		cmocka_unit_test(a_handle_names_one_tag_only),
		cmocka_unit_test(new_tags_wait_until_both_have_seen_the_same),
		cmocka_unit_test(a_program_far_behind_is_asked_to_synchronise),
		cmocka_unit_test(the_device_tells_what_it_can),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
