/* SPDX-License-Identifier: BSD-2-Clause */
/* caps_memory.c - memory regions, windows and device memory: the verbs that a device may
 * lack. */
#include "caps.h"

/* Of newer headers: IB_UVERBS_DEVICE_FLUSH_PERSISTENT */
#define FLUSH_PERSISTENT_CAP (1ull << 39)

/* --- what is claimed -------------------------------------------------------- */

static bool has_mw_1(attrs *a)
{
	return has_flag(a, IBV_DEVICE_MEM_WINDOW);
}

static bool has_mw_2(attrs *a)
{
	return has_flag(a, IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
}

static bool has_dm(attrs *a)
{
	return a->max_dm_size > 0;
}

static bool has_odp(attrs *a)
{
	return a->odp_caps.general_caps & IBV_ODP_SUPPORT;
}

static bool has_implicit(attrs *a)
{
	return a->odp_caps.general_caps & IBV_ODP_SUPPORT_IMPLICIT;
}

static bool has_persistent(attrs *a)
{
	return a->device_cap_flags_ex & FLUSH_PERSISTENT_CAP;
}

/* --- trying it: 0, or the error -------------------------------------------- */

static int window(struct side *s, enum ibv_mw_type type)
{
	struct ibv_mw *mw = ibv_alloc_mw(s->pd, type);

	return mw ? ibv_dealloc_mw(mw) : errno;
}

static int mw_1(struct side *s)
{
	return window(s, IBV_MW_TYPE_1);
}

static int mw_2(struct side *s)
{
	return window(s, IBV_MW_TYPE_2);
}

static int dm(struct side *s)
{
	struct ibv_alloc_dm_attr a = { .length = 64 };
	struct ibv_dm *d = ibv_alloc_dm(s->ctx, &a);

	return d ? ibv_free_dm(d) : errno;
}

static int dropped(struct ibv_mr *mr)
{
	return mr ? ibv_dereg_mr(mr) : errno;
}

static int odp(struct side *s)
{
	return dropped(ibv_reg_mr(s->pd, s->buf, 4096, IBV_ACCESS_ON_DEMAND));
}

static int implicit(struct side *s)
{
	return dropped(ibv_reg_mr(s->pd, NULL, SIZE_MAX, IBV_ACCESS_ON_DEMAND));
}

static int relaxed(struct side *s)
{
	return dropped(ibv_reg_mr(s->pd, s->buf, 4096, IBV_ACCESS_RELAXED_ORDERING));
}

static int flushable(struct side *s)
{
	return dropped(ibv_reg_mr(s->pd, s->buf, 4096, IBV_ACCESS_FLUSH_GLOBAL));
}

static int persistent(struct side *s)
{
	return dropped(ibv_reg_mr(s->pd, s->buf, 4096, IBV_ACCESS_FLUSH_PERSISTENT));
}

static int null_mr(struct side *s)
{
	return dropped(ibv_alloc_null_mr(s->pd));
}

static int dmabuf(struct side *s)
{
	return dropped(ibv_reg_dmabuf_mr(s->pd, 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE));
}

/* --- the table ---------------------------------------------------------------- */

const struct optional memory_verbs[] = {
	{ "alloc_mw, type 1", has_mw_1, mw_1, 0 },
	{ "alloc_mw, type 2", has_mw_2, mw_2, 0 },
	{ "alloc_dm", has_dm, dm, 0 },
	{ "reg_mr, ON_DEMAND", has_odp, odp, 0 },
	{ "reg_mr, implicit", has_implicit, implicit, 0 },
	{ "reg_mr, RELAXED_ORDERING", always, relaxed, 0 },
	{ "reg_mr, IBV_FLUSH_GLOBAL", has_flush, flushable, 0 },
	{ "reg_mr, IBV_FLUSH_PERSISTENT", has_persistent, persistent, 0 },
	{ "alloc_null_mr", always, null_mr, 0 },
	{ "reg_dmabuf_mr", never, dmabuf, 0 },
	{ NULL, NULL, NULL, 0 },
};
