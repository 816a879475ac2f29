/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs_close.c - cases of verbs.c: objects that a program has not destroyed end with
 * their context, or with the last context of the same descriptor. */
#include "../lab/count.h"
#include "verbs.h"

static struct ibv_context *import(struct rig *r)
{
	struct ibv_context *ctx = ibv_import_device(dup(r->ctx->cmd_fd));

	CHECK(ctx);
	return ctx;
}

static int writes(struct rig *r, uint32_t rkey)
{
	write_one(r, rkey, 8);
	return take(r).status == IBV_WC_SUCCESS;
}

/* Objects belong to the command descriptor: they exist until its last context is
 * closed. */
void outlived(struct rig *r)
{
	struct ibv_context *ctx = import(r), *again;
	struct ibv_pd *pd, *name;
	struct ibv_mr *mr, *second;
	struct ibv_dm *dm;
	uint32_t handle, key, dm_handle;

	CHECK((pd = ibv_alloc_pd(ctx)) && (name = ibv_import_pd(ctx, r->pd->handle)));
	CHECK((mr = ibv_reg_mr(name, r->buf + FAR, 64,
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	CHECK((dm = ibv_alloc_dm(ctx, &(struct ibv_alloc_dm_attr){ .length = 64 })));
	handle = pd->handle;
	key = mr->rkey;
	dm_handle = dm->handle;
	CHECK(!ibv_close_device(ctx));
	CHECK(ibv_dealloc_pd(pd) == ENOENT && ibv_dereg_mr(mr) == ENOENT);
	CHECK(writes(r, key));
	CHECK((again = import(r)));
	CHECK((pd = ibv_import_pd(again, handle)) && pd->context == again);
	CHECK((dm = ibv_import_dm(r->ctx, dm_handle)));
	CHECK((second = ibv_reg_mr(pd, r->buf, 64, IBV_ACCESS_LOCAL_WRITE)));
	CHECK(!ibv_dereg_mr(second));
	CHECK((name = ibv_import_pd(again, r->pd->handle)));
	CHECK((second = ibv_import_mr(name, key)) && second->rkey == key);
	CHECK(!ibv_close_device(again));
	CHECK(writes(r, key));
	/* A region of its own keeps the PD, until the descriptor is closed. */
	unpair(r);
	CHECK(!ibv_dereg_mr(r->mr) && ibv_dealloc_pd(r->pd) == EBUSY);
	CHECK(!ibv_destroy_cq(r->cq) && !ibv_close_device(r->ctx));
	r->ctx = NULL;
}

/* An import, which is only a name for an object, does not keep others from freeing the
 * object. */
void imports_go(struct rig *r)
{
	struct ibv_context *ctx = import(r);
	struct ibv_pd *pd = ibv_import_pd(ctx, r->pd->handle);
	struct ibv_dm *dm =
		ibv_alloc_dm(r->ctx, &(struct ibv_alloc_dm_attr){ .length = 64 });

	CHECK(pd && ibv_import_mr(pd, r->mr->handle));
	CHECK(dm && ibv_import_dm(ctx, dm->handle));
	CHECK(ibv_free_dm(dm) == EBUSY);
	CHECK(!ibv_close_device(ctx));
	CHECK(!ibv_free_dm(dm));
	rig_close(r); /* its PD is not in use */
	r->ctx = NULL;
}

/* The context that made the objects closes first; the context that imported them goes
 * on. */
void exporter_closes(struct rig *r)
{
	struct rig far = *r;
	uint32_t handle = r->pd->handle, rkey = r->mr->rkey;

	far.ctx = import(r);
	CHECK(!ibv_close_device(r->ctx));
	r->ctx = NULL;
	CHECK((far.pd = ibv_import_pd(far.ctx, handle)));
	CHECK((far.mr = ibv_reg_mr(far.pd, far.buf, BIG, IBV_ACCESS_LOCAL_WRITE)));
	CHECK((far.cq = ibv_create_cq(far.ctx, 16, NULL, NULL, 0)));
	pair(&far, IBV_QPT_RC, NULL);
	CHECK(writes(&far, rkey));
	unpair(&far);
	CHECK(!ibv_destroy_cq(far.cq) && !ibv_dereg_mr(far.mr));
	ibv_unimport_pd(far.pd);
	CHECK(!ibv_close_device(far.ctx));
}

static void *no_memory_of_mine(struct ibv_pd *pd, void *context, size_t size,
			       size_t alignment, uint64_t type)
{
	(void)pd, (void)context, (void)type;
	return aligned_alloc(alignment, (size + alignment - 1) & ~(alignment - 1));
}

static void not_called(struct ibv_pd *pd, void *context, void *at, uint64_t type)
{
	(void)pd, (void)context, (void)at, (void)type;
	CHECK(0);
}

/* Makes one of every object that the device has, with unacknowledged events. */
static struct rig leave_all(void)
{
	struct ibv_srq_init_attr srq = { .attr = { .max_wr = 4, .max_sge = 1 } };
	union ibv_gid group = { .raw = { 0xff, 0x02, [15] = 0x77 } };
	struct ibv_comp_channel *ch;
	struct ibv_pd *parent;
	struct ibv_cq *cq;
	struct ibv_dm *dm;
	struct ibv_td *td;
	struct rig left;
	void *context;

	rig_open(&left);
	CHECK((ch = ibv_create_comp_channel(left.ctx)));
	CHECK((left.cq = ibv_create_cq(left.ctx, 16, NULL, ch, 0)));
	CHECK((td = ibv_alloc_td(left.ctx, &(struct ibv_td_init_attr){ 0 })));
	CHECK((parent = ibv_alloc_parent_domain(
		       left.ctx,
		       &(struct ibv_parent_domain_init_attr){
			       .pd = left.pd,
			       .td = td,
			       .comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS,
			       .alloc = no_memory_of_mine,
			       .free = not_called })));
	CHECK((dm = ibv_alloc_dm(left.ctx,
				 &(struct ibv_alloc_dm_attr){ .length = 1 << 20 })));
	CHECK(ibv_reg_dm_mr(parent, dm, 0, 8, IBV_ACCESS_ZERO_BASED));
	CHECK(ibv_alloc_mw(left.pd, IBV_MW_TYPE_1) && ibv_alloc_null_mr(left.pd));
	CHECK(ibv_create_srq(parent, &srq));
	left.pd = parent;
	pair(&left, IBV_QPT_UD, NULL);
	CHECK(!ibv_attach_mcast(left.a, &group, 0));
	pair(&left, IBV_QPT_RC, NULL);
	CHECK(!ibv_req_notify_cq(left.cq, 0));
	CHECK(writes(&left, left.mr->rkey));
	CHECK(!ibv_get_cq_event(ch, &cq, &context) && cq == left.cq);
	write_one(&left, left.mr->rkey, BIG);
	return left;
}

/* All of the device's memory, groups and numbers are available again. */
void nothing_outlives(struct rig *r)
{
	unsigned fds = 0, maps = 0;
	struct ibv_wc wc;

	for (int i = 0; i < 20; i++) {
		struct rig left = leave_all();

		CHECK(!ibv_close_device(left.ctx));
		memset(left.buf, 0, 2 * BIG);
		CHECK(ibv_poll_cq(left.cq, 1, &wc) == -EIO);
		CHECK(ibv_req_notify_cq(left.cq, 0) == EIO);
		CHECK(ibv_destroy_qp(left.a) == ENOENT);
		free(left.buf);
		if (i == 0) { /* the port's sockets have been made by now */
			fds = count_entries("/proc/self/fd");
			maps = count_lines("/proc/self/maps");
		}
	}
	/* Fewer than one per round: the engine keeps some for a moment. */
	CHECK(count_entries("/proc/self/fd") <= fds + 4);
	CHECK(count_lines("/proc/self/maps") <= maps + 2); /* two may be the heap's */
	CHECK(writes(r, r->mr->rkey));
}
