/* SPDX-License-Identifier: BSD-2-Clause */
/* caps.c - every verb that a device may lack: it works if the device's capabilities
 * claim it, and otherwise answers EOPNOTSUPP at once. */
#include "caps.h"

enum { AT_ONCE_MS = 1000 };

/* Of newer headers: IB_UVERBS_DEVICE_FLUSH_GLOBAL */
#define FLUSH_GLOBAL_CAP (1ull << 38)

/* --- what the tables share --------------------------------------------------- */

bool always(attrs *a)
{
	return a;
}

bool never(attrs *a)
{
	return !a;
}

bool has_flag(attrs *a, unsigned bit)
{
	return a->orig_attr.device_cap_flags & bit;
}

bool has_flush(attrs *a)
{
	return a->device_cap_flags_ex & FLUSH_GLOBAL_CAP;
}

int qp_ex(struct side *s, struct ibv_qp_init_attr_ex *a)
{
	struct ibv_qp *qp;

	a->comp_mask |= IBV_QP_INIT_ATTR_PD;
	a->pd = s->pd;
	a->send_cq = s->scq;
	a->recv_cq = s->rcq;
	a->cap = (struct ibv_qp_cap){ 4, 4, 1, 1, 0 };
	qp = ibv_create_qp_ex(s->ctx, a);
	return qp ? ibv_destroy_qp(qp) : errno;
}

int qp_of_type(struct side *s, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = type };

	return qp_ex(s, &a);
}

int cq_with(struct side *s, uint64_t wc_flags)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 4, .wc_flags = wc_flags };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(s->ctx, &a);

	return cq ? ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) : errno;
}

/* --- the tables ----------------------------------------------------------------- */

static bool try_one(struct side *s, const struct optional *o, attrs *a)
{
	int got, want = o->claimed(a) ? 0 : EOPNOTSUPP;
	uint64_t begin = now_ms();

	errno = 0;
	got = o->try(s);
	if ((got == want || (!want && got && got == o->rights)) &&
	    now_ms() - begin < AT_ONCE_MS)
		return true;
	say("%s: %d (%s), not %d, after %u ms", o->name, got, strerror(got), want,
	    (unsigned)(now_ms() - begin));
	return false;
}

static void try_each(struct side *s)
{
	static const struct optional *const tables[] = { queue_verbs, memory_verbs,
							 raw_verbs };
	struct ibv_device_attr_ex a;
	bool well = true;

	CHECK(!ibv_query_device_ex(s->ctx, NULL, &a));
	for (size_t i = 0; i < COUNT(tables); i++)
		for (const struct optional *o = tables[i]; o->name; o++)
			well &= try_one(s, o, &a);
	CHECK(well);
}

static void capabilities(void)
{
	each(try_each);
}

const struct feature caps_rows[] = {
	{ "capabilities", capabilities, false },
	{ NULL, NULL, false },
};
