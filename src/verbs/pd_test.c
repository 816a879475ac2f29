/* SPDX-License-Identifier: BSD-2-Clause */
#include "verbs/pd.h"

#include "verbs/mr.h"
#include "verbs/qp_fixture.h"
#include "verbs/ring.h"

/* What the program's allocators were asked to do. */
static struct {
	unsigned taken, given;
	size_t bytes;
	struct ibv_pd *pd;
	bool use_default, none;
} mem;

static int cookie;

static void *take(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
		  uint64_t type)
{
	void *at = NULL;

	(void)type;
	assert_ptr_equal(context, &cookie);
	mem.pd = pd;
	mem.bytes += size;
	if (mem.none)
		return NULL;
	if (mem.use_default)
		return IBV_ALLOCATOR_USE_DEFAULT;
	assert_int_equal(posix_memalign(&at, alignment, size), 0);
	memset(at, 0xee, size);
	mem.taken++;
	return at;
}

static void give(struct ibv_pd *pd, void *context, void *at, uint64_t type)
{
	(void)type;
	assert_ptr_equal(context, &cookie);
	assert_ptr_equal(pd, mem.pd);
	mem.given++;
	free(at);
}

static struct ibv_parent_domain_init_attr attr(struct pd *pd, struct td *td)
{
	memset(&mem, 0, sizeof(mem));
	return (struct ibv_parent_domain_init_attr){
		.pd = &pd->ibv,
		.td = td ? &td->ibv : NULL,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = take,
		.free = give,
		.pd_context = &cookie,
	};
}

static struct ibv_qp_init_attr_ex qp_attr(struct fix *f, struct pd *pd, int inline_data)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = (struct ibv_cq *)&f->scq->ex,
		.recv_cq = (struct ibv_cq *)&f->rcq->ex,
		.qp_type = IBV_QPT_RC,
		.cap = { 4, 4, 1, 1, (uint32_t)inline_data },
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = &pd->ibv,
	};
}

/* Queues of all kinds lie in memory from the program's allocator, zeroed, which gets all
 * of it back. */
static void queues_are_in_the_programs_memory(void **state)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_parent_domain_init_attr a;
	struct ibv_qp_init_attr_ex init;
	struct fix *f = fix_open(8);
	struct pd *parent;
	struct srq *srq;
	struct td *td;
	struct cq *cq;
	struct qp *qp;

	(void)state;
	assert_int_equal(td_alloc(&f->ibv, &(struct ibv_td_init_attr){ 0 }, &td), 0);
	a = attr(f->pd, td);
	assert_int_equal(pd_parent(&f->ibv, &a, &parent), 0);
	assert_int_equal(parent->ibv.handle, f->pd->ibv.handle);
	assert_int_equal(td_free(td), -EBUSY);
	init = qp_attr(f, parent, 32);
	assert_int_equal(qp_create(&f->ctx, &init, &fake_transport, &qp), 0);
	assert_ptr_equal(qp->pd, f->pd);
	assert_ptr_equal(qp->ex.qp_base.pd, &parent->ibv);
	assert_ptr_equal(mem.pd, &parent->ibv);
	/* The send queue's WQEs, SGEs and inline data; the receive queue's two
	 * arrays. */
	assert_int_equal(mem.taken, 5);
	assert_int_equal(qp->sq.wqe[3].wr_id, 0);
	assert_int_equal(srq_create(&f->ctx, parent, &srq_attr, &srq), 0);
	assert_int_equal(cq_create_in(parent, &f->ctx, 8, NULL, NULL, &cq), 0);
	assert_int_equal(mem.taken, 8);
	assert_int_equal(cq_resize(cq, 64), 0);
	srq_attr.attr.max_wr = 64;
	assert_int_equal(srq_modify(srq, &srq_attr.attr, IBV_SRQ_MAX_WR), 0);
	assert_int_equal(mem.taken - mem.given, 8);
	assert_int_equal(pd_free(parent), -EBUSY);
	assert_int_equal(qp_destroy(qp), 0);
	assert_int_equal(srq_destroy(srq), 0);
	assert_int_equal(cq_destroy(cq), 0);
	assert_int_equal(mem.taken, mem.given);
	assert_int_equal(pd_free(f->pd), -EBUSY);
	assert_int_equal(pd_free(parent), 0);
	assert_int_equal(td_free(td), 0);
	fix_close(f);
}

static void the_program_may_leave_it_or_have_none(void **state)
{
	struct ibv_parent_domain_init_attr a;
	struct ibv_qp_init_attr_ex init;
	struct fix *f = fix_open(8);
	struct pd *parent;
	struct qp *qp;

	(void)state;
	a = attr(f->pd, NULL);
	assert_int_equal(pd_parent(&f->ibv, &a, &parent), 0);
	mem.use_default = true;
	init = qp_attr(f, parent, 0);
	assert_int_equal(qp_create(&f->ctx, &init, &fake_transport, &qp), 0);
	assert_true(mem.bytes > 0);
	assert_int_equal(qp_destroy(qp), 0);
	mem.none = true;
	init = qp_attr(f, parent, 0);
	assert_int_equal(qp_create(&f->ctx, &init, &fake_transport, &qp), -ENOMEM);
	assert_int_equal(mem.given, 0);
	assert_int_equal(pd_free(parent), 0);
	fix_close(f);
}

static void what_is_refused(void **state)
{
	struct ibv_parent_domain_init_attr a;
	struct fix *f = fix_open(8);
	struct pd *parent = NULL;
	struct td *td = NULL;

	(void)state;
	a = attr(f->pd, NULL);
	a.comp_mask |= 8;
	assert_int_equal(pd_parent(&f->ibv, &a, &parent), -EINVAL);
	a = attr(f->pd, NULL);
	a.free = NULL;
	assert_int_equal(pd_parent(&f->ibv, &a, &parent), -EINVAL);
	a = attr(f->pd, NULL);
	a.pd = NULL;
	assert_int_equal(pd_parent(&f->ibv, &a, &parent), -EINVAL);
	assert_int_equal(td_alloc(&f->ibv, &(struct ibv_td_init_attr){ 1 }, &td),
			 -EINVAL);
	assert_null(parent);
	assert_null(td);
	fix_close(f);
}

static bool yes(const struct pd *pd, const void *arg)
{
	(void)pd, (void)arg;
	return true;
}

static bool no(const struct pd *pd, const void *arg)
{
	(void)pd, (void)arg;
	return false;
}

/* An imported PD that is unimported stays as long as an object uses it. */
static void an_import_outlives_its_name(void **state)
{
	struct ibv_qp_init_attr_ex init;
	struct fix *f = fix_open(8);
	struct pd *import;
	struct qp *qp;

	(void)state;
	assert_null(pd_find(&f->core, f->pd->ibv.handle + 1, yes, NULL));
	assert_null(pd_find(&f->core, f->pd->ibv.handle, no, NULL));
	assert_ptr_equal(pd_find(&f->core, f->pd->ibv.handle, yes, NULL), f->pd);
	assert_int_equal(pd_import(&f->ibv, f->pd, &import), 0);
	assert_int_equal(pd_free(import), -EINVAL);
	assert_int_equal(pd_free(f->pd), -EBUSY);
	init = qp_attr(f, import, 0);
	assert_int_equal(qp_create(&f->ctx, &init, &fake_transport, &qp), 0);
	assert_ptr_equal(qp->pd, f->pd);
	pd_unimport(import);
	assert_int_equal(pd_free(f->pd), -EBUSY);
	assert_int_equal(qp_destroy(qp), 0);
	assert_ptr_equal(pd_find(&f->core, f->pd->ibv.handle, yes, NULL), f->pd);
	assert_int_equal(pd_import(&f->ibv, f->pd, &import), 0);
	pd_unimport(import);
	fix_close(f);
}

static bool any_mr(const struct mr *mr, const void *arg)
{
	(void)mr;
	(void)arg;
	return true;
}

/* The PD that a region was imported by lasts as long as the import. */
static void an_imported_region_uses_its_pd(void **state)
{
	struct fix *f = fix_open(8);
	static uint8_t memory[64];
	struct mr *mr, *import;
	struct pd *other;

	(void)state;
	assert_int_equal(pd_alloc(&f->core, &f->ibv, &other), 0);
	assert_int_equal(mr_reg(f->pd, memory, sizeof(memory), (uintptr_t)memory,
				IBV_ACCESS_LOCAL_WRITE, &mr),
			 0);
	assert_int_equal(mr_import(other, mr->ibv.lkey, any_mr, NULL, &import), 0);
	assert_int_equal(pd_free(other), -EBUSY);
	mr_unimport(import);
	assert_int_equal(pd_free(other), 0);
	assert_int_equal(mr_dereg(mr), 0);
	fix_close(f);
}

/* Objects that were created with a parent domain keep it from being deallocated. */
static void what_a_parent_was_given_for_keeps_it(void **state)
{
	const struct ibv_ah_attr way = fix_attr(IBV_QPS_RTR).ah_attr;
	struct ibv_parent_domain_init_attr a;
	static uint8_t memory[64];
	struct fix *f = fix_open(8);
	struct pd *parent;
	struct mr *mr, *import;
	struct mw *mw;
	struct ah *ah;

	(void)state;
	a = attr(f->pd, NULL);
	assert_int_equal(pd_parent(&f->ibv, &a, &parent), 0);
	assert_int_equal(mw_alloc(parent, IBV_MW_TYPE_1, &mw), 0);
	assert_int_equal(pd_free(parent), -EBUSY);
	assert_int_equal(mw_dealloc(mw), 0);
	assert_int_equal(ah_create(parent, &f->ctx, &way, &ah), 0);
	assert_int_equal(pd_free(parent), -EBUSY);
	assert_int_equal(ah_destroy(ah), 0);
	assert_int_equal(mr_reg(f->pd, memory, sizeof(memory), (uintptr_t)memory, 0, &mr),
			 0);
	assert_int_equal(mr_import(parent, mr->ibv.lkey, any_mr, NULL, &import), 0);
	assert_int_equal(pd_free(parent), -EBUSY);
	mr_unimport(import);
	/* rereg_mr moves the region to the parent domain and back. */
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_PD, parent, NULL, 0, 0), 0);
	assert_int_equal(pd_free(parent), -EBUSY);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_PD, f->pd, NULL, 0, 0), 0);
	assert_int_equal(pd_free(parent), 0);
	assert_int_equal(pd_free(f->pd), -EBUSY);
	a = attr(f->pd, NULL);
	assert_int_equal(pd_parent(&f->ibv, &a, &parent), 0);
	assert_int_equal(mr_rereg(mr, IBV_REREG_MR_CHANGE_PD, parent, NULL, 0, 0), 0);
	assert_int_equal(mr_dereg(mr), 0);
	assert_int_equal(pd_free(parent), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(queues_are_in_the_programs_memory),
		cmocka_unit_test(the_program_may_leave_it_or_have_none),
		cmocka_unit_test(what_is_refused),
		cmocka_unit_test(an_import_outlives_its_name),
		cmocka_unit_test(an_imported_region_uses_its_pd),
		cmocka_unit_test(what_a_parent_was_given_for_keeps_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
