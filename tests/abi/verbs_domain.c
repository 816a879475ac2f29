/* SPDX-License-Identifier: BSD-2-Clause */
/* verbs_domain.c - cases of verbs.c about parent domains, thread domains and imports,
 * which are second handles of the same objects. */
#include "verbs.h"

#include <fcntl.h>
#include <sys/mman.h>

static struct {
	unsigned taken, given;
	struct ibv_pd *pd;
} mem;

static void *from_program(struct ibv_pd *pd, void *context, size_t size, size_t alignment,
			  uint64_t type)
{
	void *at = NULL;

	(void)type;
	CHECK(context == &mem && !posix_memalign(&at, alignment, size));
	mem.pd = pd;
	mem.taken++;
	return memset(at, 0xee, size);
}

static void to_program(struct ibv_pd *pd, void *context, void *at, uint64_t type)
{
	(void)type;
	CHECK(context == &mem && pd == mem.pd);
	mem.given++;
	free(at);
}

static struct ibv_parent_domain_init_attr parent_attr(struct rig *r, struct ibv_td *td)
{
	return (struct ibv_parent_domain_init_attr){
		.pd = r->pd,
		.td = td,
		.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
			     IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT,
		.alloc = from_program,
		.free = to_program,
		.pd_context = &mem,
	};
}

static void parent_refusals(struct rig *r)
{
	struct ibv_parent_domain_init_attr a = parent_attr(r, NULL);
	struct ibv_cq_init_attr_ex cq = { .cqe = 4,
					  .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					  .parent_domain = r->pd };

	a.comp_mask |= 1u << 7;
	CHECK(!ibv_alloc_parent_domain(r->ctx, &a) && errno == EINVAL);
	a = parent_attr(r, NULL);
	a.pd = NULL;
	CHECK(!ibv_alloc_parent_domain(r->ctx, &a) && errno == EINVAL);
	a = parent_attr(r, NULL);
	a.alloc = NULL;
	CHECK(!ibv_alloc_parent_domain(r->ctx, &a) && errno == EINVAL);
	/* A PD that is no parent domain. */
	CHECK(!ibv_create_cq_ex(r->ctx, &cq) && errno == EINVAL);
	cq.parent_domain = NULL;
	CHECK(!ibv_create_cq_ex(r->ctx, &cq) && errno == EINVAL);
	CHECK(!ibv_alloc_td(r->ctx, &(struct ibv_td_init_attr){ 1 }) && errno == EINVAL);
}

/* Binds a window to a region of the PD itself, through a QP of the parent domain. */
static void bind_across(struct rig *r)
{
	struct ibv_mw *mw = ibv_alloc_mw(r->pd, IBV_MW_TYPE_1);
	struct ibv_mw_bind bind = {
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { r->mr, (uintptr_t)r->buf + FAR, 8,
			       IBV_ACCESS_REMOTE_WRITE },
	};

	CHECK(mw && !ibv_bind_mw(r->a, mw, &bind));
	CHECK(take(r).status == IBV_WC_SUCCESS);
	write_one(r, mw->rkey, 8);
	CHECK(take(r).status == IBV_WC_SUCCESS);
	CHECK(!ibv_dealloc_mw(mw));
}

/* QPs of a parent domain and a region of its PD work together. */
void parent_domain(struct rig *r)
{
	struct ibv_pd *pd = r->pd, *parent;
	struct ibv_parent_domain_init_attr a;
	struct ibv_td *td;

	CHECK((td = ibv_alloc_td(r->ctx, &(struct ibv_td_init_attr){ 0 })));
	a = parent_attr(r, td);
	CHECK((parent = ibv_alloc_parent_domain(r->ctx, &a)));
	CHECK(parent->context == r->ctx && parent->handle == pd->handle);
	CHECK(ibv_dealloc_td(td) == EBUSY);
	unpair(r);
	r->pd = parent;
	pair(r, IBV_QPT_RC, NULL);
	r->pd = pd;
	CHECK(r->a->pd == parent && mem.taken && mem.pd == parent);
	memcpy(r->buf, "parental", 8);
	write_one(r, r->mr->rkey, 8);
	CHECK(take(r).status == IBV_WC_SUCCESS);
	CHECK(!memcmp(r->buf + FAR, "parental", 8));
	recv_one(r, 64);
	send_one(r, 8);
	CHECK(take(r).status == IBV_WC_SUCCESS && take(r).status == IBV_WC_SUCCESS);
	CHECK(!memcmp(r->buf + RECV_AT, "parental", 8));
	bind_across(r);
	CHECK(ibv_dealloc_pd(parent) == EBUSY);
	unpair(r);
	CHECK(mem.taken == mem.given);
	CHECK(!ibv_dealloc_pd(parent) && !ibv_dealloc_td(td));
	CHECK(ibv_dealloc_pd(parent) == ENOENT);
	parent_refusals(r);
}

/* --- imports --------------------------------------------------------------- */

static void import_refusals(struct rig *r, struct ibv_context *ctx, struct ibv_pd *pd)
{
	int other = open("/dev/null", O_RDONLY);

	CHECK(other >= 0);
	CHECK(!ibv_import_device(-1) && errno == EBADF);
	CHECK(!ibv_import_device(other) && errno == EOPNOTSUPP);
	CHECK(!ibv_import_device(r->ctx->async_fd) && errno == EOPNOTSUPP);
	close(other);
	CHECK(!ibv_import_pd(ctx, r->pd->handle + 1000) && errno == ENOENT);
	CHECK(!ibv_import_mr(pd, r->mr->handle + 1) && errno == ENOENT);
	CHECK(!ibv_import_dm(ctx, 12345678) && errno == ENOENT);
	CHECK(ibv_dealloc_pd(pd) == EINVAL);
	CHECK(ibv_dealloc_pd(r->pd) == EBUSY);
}

/* Objects of another context cannot be imported, even if the context is of the same
 * device. */
static void strangers(struct rig *r)
{
	struct ibv_context *ctx = ibv_open_device(r->ctx->device);

	CHECK(ctx && !ibv_import_pd(ctx, r->pd->handle) && errno == ENOENT);
	CHECK(!ibv_close_device(ctx));
}

static void imported_dm(struct rig *r, struct ibv_context *ctx)
{
	struct ibv_dm *dm, *again;
	uint32_t word = 0x87654321;

	CHECK((dm = ibv_alloc_dm(r->ctx, &(struct ibv_alloc_dm_attr){ .length = 8 })));
	CHECK((again = ibv_import_dm(ctx, dm->handle)) && again->context == ctx);
	CHECK(!ibv_memcpy_to_dm(dm, 4, &word, 4));
	word = 0;
	CHECK(!ibv_memcpy_from_dm(&word, again, 4, 4) && word == 0x87654321);
	CHECK(ibv_free_dm(again) == EINVAL && ibv_free_dm(dm) == EBUSY);
	ibv_unimport_dm(again);
	CHECK(!ibv_free_dm(dm));
}

void imports(struct rig *r)
{
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr, *own;

	CHECK((ctx = ibv_import_device(dup(r->ctx->cmd_fd))));
	CHECK(ctx != r->ctx && ctx->device == r->ctx->device);
	CHECK((pd = ibv_import_pd(ctx, r->pd->handle)) && pd->context == ctx);
	CHECK((mr = ibv_import_mr(pd, r->mr->handle)));
	CHECK(mr->context == ctx && mr->pd == pd && !mr->addr);
	CHECK(mr->lkey == r->mr->lkey && mr->rkey == r->mr->rkey);
	CHECK(mr->length == r->mr->length);
	import_refusals(r, ctx, pd);
	strangers(r);
	imported_dm(r, ctx);
	/* A region that is registered with the import belongs to the same PD. */
	CHECK((own = ibv_reg_mr(pd, r->buf + FAR, 64,
				IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE)));
	memcpy(r->buf, "imported", 8);
	write_one(r, own->rkey, 8);
	CHECK(take(r).status == IBV_WC_SUCCESS);
	CHECK(!memcmp(r->buf + FAR, "imported", 8));
	CHECK(!ibv_dereg_mr(own));
	CHECK(ibv_dereg_mr(mr) == EINVAL);
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	write_one(r, r->mr->rkey, 8); /* the original region still works */
	CHECK(take(r).status == IBV_WC_SUCCESS);
	CHECK(!ibv_close_device(ctx));
	CHECK(fcntl(r->ctx->cmd_fd, F_GETFD) == FD_CLOEXEC);
}
