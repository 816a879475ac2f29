/* SPDX-License-Identifier: BSD-2-Clause */
/* caps_queues.c - QPs, SRQs, CQs and what they stand on: the verbs that a device may
 * lack. */
#include "caps.h"

#include <fcntl.h>

/* Of newer headers: IB_UVERBS_DEVICE_ATOMIC_WRITE */
#define ATOMIC_WRITE_CAP (1ull << 40)

/* --- what is claimed -------------------------------------------------------- */

static bool infiniband(attrs *a)
{
	(void)a;
	return !is_iwarp();
}

static bool has_xrc(attrs *a)
{
	return has_flag(a, IBV_DEVICE_XRC);
}

static bool has_tm(attrs *a)
{
	return a->tm_caps.max_num_tags > 0;
}

static bool has_ah(attrs *a)
{
	return a->orig_attr.max_ah > 0;
}

static bool has_mcast(attrs *a)
{
	return a->orig_attr.max_mcast_grp > 0;
}

static bool has_srq(attrs *a)
{
	return a->orig_attr.max_srq > 0;
}

static bool has_srq_resize(attrs *a)
{
	return has_flag(a, IBV_DEVICE_SRQ_RESIZE);
}

static bool has_atomics(attrs *a)
{
	return a->orig_attr.atomic_cap != IBV_ATOMIC_NONE;
}

static bool has_atomic_write(attrs *a)
{
	return a->device_cap_flags_ex & ATOMIC_WRITE_CAP;
}

static bool has_clock(attrs *a)
{
	return a->hca_core_clock > 0;
}

static bool has_timestamps(attrs *a)
{
	return a->completion_timestamp_mask != 0;
}

static bool has_moderation(attrs *a)
{
	return a->cq_mod_caps.max_cq_count > 0;
}

/* --- trying it: 0, or the error -------------------------------------------- */

static int rc(struct side *s)
{
	return qp_of_type(s, IBV_QPT_RC);
}

static int uc(struct side *s)
{
	return qp_of_type(s, IBV_QPT_UC);
}

static int ud(struct side *s)
{
	return qp_of_type(s, IBV_QPT_UD);
}

static int xrc_send(struct side *s)
{
	return qp_of_type(s, IBV_QPT_XRC_SEND);
}

static int driver(struct side *s)
{
	return qp_of_type(s, IBV_QPT_DRIVER);
}

static int send_ops(struct side *s, uint64_t ops)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = IBV_QPT_RC,
					 .comp_mask = IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					 .send_ops_flags = ops };

	return qp_ex(s, &a);
}

static int atomics(struct side *s)
{
	return send_ops(s, IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
				   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD);
}

static int atomic_write(struct side *s)
{
	return send_ops(s, IBV_QP_EX_WITH_ATOMIC_WRITE);
}

static int flushes(struct side *s)
{
	return send_ops(s, IBV_QP_EX_WITH_FLUSH);
}

static int xrcd(struct side *s)
{
	struct ibv_xrcd_init_attr a = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
						     IBV_XRCD_INIT_ATTR_OFLAGS,
					.fd = -1,
					.oflags = O_CREAT };
	struct ibv_xrcd *x = ibv_open_xrcd(s->ctx, &a);

	return x ? ibv_close_xrcd(x) : errno;
}

static int srq(struct side *s)
{
	struct ibv_srq_init_attr a = { .attr = { 4, 1, 0 } };
	struct ibv_srq *q = ibv_create_srq(s->pd, &a);

	return q ? ibv_destroy_srq(q) : errno;
}

static int srq_resize(struct side *s)
{
	struct ibv_srq_init_attr a = { .attr = { 4, 1, 0 } };
	struct ibv_srq *q = ibv_create_srq(s->pd, &a);
	int err;

	CHECK(q);
	a.attr.max_wr = 64;
	err = ibv_modify_srq(q, &a.attr, IBV_SRQ_MAX_WR);
	CHECK(!ibv_destroy_srq(q));
	return err;
}

int srq_with_tags(struct side *s, uint32_t num, uint32_t ops)
{
	struct ibv_srq_init_attr_ex a = {
		.attr = { 4, 1, 0 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = s->pd,
		.cq = s->rcq,
		.tm_cap = { .max_num_tags = num, .max_ops = ops },
	};
	struct ibv_srq *q = ibv_create_srq_ex(s->ctx, &a);

	return q ? ibv_destroy_srq(q) : errno;
}

static int tags(struct side *s)
{
	return srq_with_tags(s, 1, 1);
}

static int ah(struct side *s)
{
	struct ibv_ah *h = ah_to(s, &s->mine.gid);

	return h ? ibv_destroy_ah(h) : errno;
}

/* Does another user hold RoCE's UDP port? Multicast datagrams come to that user, and are
 * not forwarded (docs/man/urnic.7). */
static bool another_user_has_the_port(void)
{
	static const char *const files[] = { "/proc/net/udp", "/proc/net/udp6" };
	char line[256];
	unsigned port, uid;
	bool has = false;

	for (size_t i = 0; i < COUNT(files); i++) {
		FILE *f = fopen(files[i], "r");

		CHECK(f);
		while (fgets(line, sizeof(line), f))
			has |= sscanf(line, " %*u: %*[0-9A-F]:%x %*s %*s %*s %*s %*s %u",
				      &port, &uid) == 2 &&
			       port == 4791 && uid != getuid();
		fclose(f);
	}
	return has;
}

static int mcast(struct side *s)
{
	union ibv_gid group = { .raw = { 0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0,
					 0, 0, 0, 0, 0, 0x77 } };
	struct ibv_qp *qp = qp_make(s, is_iwarp() ? IBV_QPT_RC : IBV_QPT_UD);
	struct ibv_qp_attr a = self_attr(s, 0);
	int err;

	if (!is_iwarp())
		qp_to(qp, &a, IBV_QPS_INIT);
	err = ibv_attach_mcast(qp, &group, 0xc001);
	if (!err)
		err = ibv_detach_mcast(qp, &group, 0xc001);
	CHECK(!ibv_destroy_qp(qp));
	return err == EADDRINUSE && another_user_has_the_port() ? 0 : err;
}

static int rt_values(struct side *s)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	int err = ibv_query_rt_values_ex(s->ctx, &v);

	CHECK(err || v.comp_mask == IBV_VALUES_MASK_RAW_CLOCK);
	return err;
}

static int timestamps(struct side *s)
{
	return cq_with(s, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
}

static int moderation(struct side *s)
{
	struct ibv_modify_cq_attr a = { .attr_mask = IBV_CQ_ATTR_MODERATE,
					.moderate = { 1, 1 } };

	return ibv_modify_cq(s->rcq, &a);
}

static int td(struct side *s)
{
	struct ibv_td_init_attr a = { 0 };
	struct ibv_td *t = ibv_alloc_td(s->ctx, &a);

	return t ? ibv_dealloc_td(t) : errno;
}

static int parent(struct side *s)
{
	struct ibv_parent_domain_init_attr a = { .pd = s->pd };
	struct ibv_pd *p = ibv_alloc_parent_domain(s->ctx, &a);

	return p ? ibv_dealloc_pd(p) : errno;
}

static int set_ece(struct side *s)
{
	struct ibv_ece ece = { .vendor_id = 1, .options = 1 };

	return ibv_set_ece(s->by_qp, &ece);
}

static int query_ece(struct side *s)
{
	struct ibv_ece ece = { 0 };

	return ibv_query_ece(s->by_qp, &ece);
}

static int rate_limit_of_rc(struct side *s)
{
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 1000 };

	return ibv_modify_qp_rate_limit(s->by_qp, &limit);
}

/* --- the table ---------------------------------------------------------------- */

const struct optional queue_verbs[] = {
	{ "RC", always, rc, 0 },
	{ "UC", infiniband, uc, 0 },
	{ "UD", infiniband, ud, 0 },
	{ "XRC_SEND", has_xrc, xrc_send, 0 },
	{ "DRIVER", never, driver, 0 },
	{ "atomics by ibv_wr", has_atomics, atomics, 0 },
	{ "ATOMIC_WRITE by ibv_wr", has_atomic_write, atomic_write, 0 },
	{ "FLUSH by ibv_wr", has_flush, flushes, 0 },
	{ "open_xrcd", has_xrc, xrcd, 0 },
	{ "create_srq", has_srq, srq, 0 },
	{ "modify_srq, MAX_WR", has_srq_resize, srq_resize, 0 },
	{ "create_srq_ex, tags", has_tm, tags, 0 },
	{ "create_ah", has_ah, ah, 0 },
	{ "attach_mcast", has_mcast, mcast, 0 },
	{ "query_rt_values_ex", has_clock, rt_values, 0 },
	{ "create_cq_ex, timestamps", has_timestamps, timestamps, 0 },
	{ "modify_cq, moderation", has_moderation, moderation, 0 },
	{ "alloc_td", always, td, 0 },
	{ "alloc_parent_domain", always, parent, 0 },
	{ "set_ece", never, set_ece, 0 },
	{ "query_ece", never, query_ece, 0 },
	{ "modify_qp_rate_limit of RC", never, rate_limit_of_rc, 0 },
	{ NULL, NULL, NULL, 0 },
};
