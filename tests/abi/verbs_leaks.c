/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs_leaks.c - a case of verbs.c: objects that were made and freed leave nothing. */
#include "../lab/count.h"
#include "verbs.h"

struct left {
	unsigned fds, threads, mappings;
};

static struct left count(void)
{
	return (struct left){ count_entries("/proc/self/fd"),
			      count_entries("/proc/self/task"),
			      count_lines("/proc/self/maps") };
}

/* Makes and frees one of every object that has memory or a descriptor. */
static void round_of_all(struct rig *r)
{
	struct ibv_context *ctx = ibv_import_device(dup(r->ctx->cmd_fd));
	struct ibv_td *td = ibv_alloc_td(r->ctx, &(struct ibv_td_init_attr){ 0 });
	struct ibv_dm *dm, *again;
	struct ibv_pd *parent, *pd;
	struct ibv_mr *mr, *null, *name;
	struct ibv_cq_ex *cq;

	CHECK(ctx && td);
	CHECK((parent = ibv_alloc_parent_domain(r->ctx,
						&(struct ibv_parent_domain_init_attr){
							.pd = r->pd, .td = td })));
	CHECK((cq = ibv_create_cq_ex(r->ctx,
				     &(struct ibv_cq_init_attr_ex){
					     .cqe = 4000,
					     .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					     .parent_domain = parent })));
	CHECK((dm = ibv_alloc_dm(r->ctx, &(struct ibv_alloc_dm_attr){ .length = 9000 })));
	CHECK((mr = ibv_reg_dm_mr(parent, dm, 0, 8, IBV_ACCESS_ZERO_BASED)));
	CHECK((null = ibv_alloc_null_mr(parent)));
	CHECK((pd = ibv_import_pd(ctx, r->pd->handle)));
	CHECK((name = ibv_import_mr(pd, r->mr->handle)));
	CHECK((again = ibv_import_dm(ctx, dm->handle)));
	ibv_unimport_dm(again);
	ibv_unimport_mr(name);
	ibv_unimport_pd(pd);
	CHECK(!ibv_dereg_mr(null) && !ibv_dereg_mr(mr) && !ibv_free_dm(dm));
	CHECK(!ibv_destroy_cq(ibv_cq_ex_to_cq(cq)));
	CHECK(!ibv_dealloc_pd(parent) && !ibv_dealloc_td(td) && !ibv_close_device(ctx));
}

/* The first round may leave things that are made once; later rounds leave nothing. */
void nothing_is_left(struct rig *r)
{
	struct left before, after;

	round_of_all(r);
	before = count();
	for (int i = 0; i < 20; i++)
		round_of_all(r);
	after = count();
	CHECK(after.fds == before.fds && after.threads == before.threads);
	CHECK(after.mappings <= before.mappings + 2); /* two may be the heap's */
}
