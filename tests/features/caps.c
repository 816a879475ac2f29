/* SPDX-License-Identifier: BSD-2-Clause */
/* caps.c - every verb that a device may lack: it works if the device's capabilities
 * claim it, and otherwise answers EOPNOTSUPP at once. */
#include "feature.h"

#include <endian.h>
#include <fcntl.h>

enum { AT_ONCE_MS = 1000 };

/* Of newer headers: IB_UVERBS_DEVICE_ATOMIC_WRITE, _FLUSH_GLOBAL, _FLUSH_PERSISTENT */
#define ATOMIC_WRITE_CAP     (1ull << 40)
#define FLUSH_GLOBAL_CAP     (1ull << 38)
#define FLUSH_PERSISTENT_CAP (1ull << 39)

typedef const struct ibv_device_attr_ex attrs;

/* --- what is claimed -------------------------------------------------------- */

static bool always(attrs *a)
{
	return a;
}

static bool never(attrs *a)
{
	return !a;
}

static bool infiniband(attrs *a)
{
	(void)a;
	return !is_iwarp();
}

static bool flag(attrs *a, unsigned bit)
{
	return a->orig_attr.device_cap_flags & bit;
}

static bool has_xrc(attrs *a)
{
	return flag(a, IBV_DEVICE_XRC);
}

static bool has_raw(attrs *a)
{
	return a->orig_attr.max_raw_ethy_qp > 0;
}

static bool has_tm(attrs *a)
{
	return a->tm_caps.max_num_tags > 0;
}

static bool has_mw_1(attrs *a)
{
	return flag(a, IBV_DEVICE_MEM_WINDOW);
}

static bool has_mw_2(attrs *a)
{
	return flag(a, IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B);
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
	return flag(a, IBV_DEVICE_SRQ_RESIZE);
}

static bool has_atomics(attrs *a)
{
	return a->orig_attr.atomic_cap != IBV_ATOMIC_NONE;
}

static bool has_atomic_write(attrs *a)
{
	return a->device_cap_flags_ex & ATOMIC_WRITE_CAP;
}

static bool has_flush(attrs *a)
{
	return a->device_cap_flags_ex & FLUSH_GLOBAL_CAP;
}

static bool has_persistent(attrs *a)
{
	return a->device_cap_flags_ex & FLUSH_PERSISTENT_CAP;
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

static bool has_wq(attrs *a)
{
	return a->max_wq_type_rq > 0;
}

static bool has_rss(attrs *a)
{
	return a->rss_caps.supported_qpts && a->rss_caps.max_rwq_indirection_tables;
}

static bool has_tso(attrs *a)
{
	return a->tso_caps.max_tso > 0;
}

static bool has_stripping(attrs *a)
{
	return a->raw_packet_caps & IBV_RAW_PACKET_CAP_CVLAN_STRIPPING;
}

static bool has_fcs(attrs *a)
{
	return a->raw_packet_caps & IBV_RAW_PACKET_CAP_SCATTER_FCS;
}

static bool has_rate_limit(attrs *a)
{
	return a->packet_pacing_caps.supported_qpts & 1u << IBV_QPT_RAW_PACKET;
}

/* --- trying it: 0, or the error -------------------------------------------- */

static int qp_ex(struct side *s, struct ibv_qp_init_attr_ex *a)
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

static int qp_of_type(struct side *s, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = type };

	return qp_ex(s, &a);
}

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

static int raw(struct side *s)
{
	return qp_of_type(s, IBV_QPT_RAW_PACKET);
}

static int xrc_send(struct side *s)
{
	return qp_of_type(s, IBV_QPT_XRC_SEND);
}

static int driver(struct side *s)
{
	return qp_of_type(s, IBV_QPT_DRIVER);
}

static int qp_flags(struct side *s, uint32_t flags)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = is_iwarp() ? IBV_QPT_RC : IBV_QPT_UD,
					 .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS,
					 .create_flags = flags };

	return qp_ex(s, &a);
}

static int stripping(struct side *s)
{
	return qp_flags(s, IBV_QP_CREATE_CVLAN_STRIPPING);
}

static int fcs(struct side *s)
{
	return qp_flags(s, IBV_QP_CREATE_SCATTER_FCS);
}

static int source_qpn(struct side *s)
{
	return qp_flags(s, IBV_QP_CREATE_SOURCE_QPN);
}

static int tso(struct side *s)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = is_iwarp() ? IBV_QPT_RC : IBV_QPT_UD,
					 .comp_mask = IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
					 .max_tso_header = 64 };

	return qp_ex(s, &a);
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
	return send_ops(s, QP_WITH_FLUSH);
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

static int tags(struct side *s)
{
	struct ibv_srq_init_attr_ex a = {
		.attr = { 4, 1, 0 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = s->pd,
		.cq = s->rcq,
		.tm_cap = { .max_num_tags = 1, .max_ops = 1 },
	};
	struct ibv_srq *q = ibv_create_srq_ex(s->ctx, &a);

	return q ? ibv_destroy_srq(q) : errno;
}

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
	return dropped(ibv_reg_mr(s->pd, s->buf, 4096, ACCESS_FLUSH_GLOBAL));
}

static int persistent(struct side *s)
{
	return dropped(ibv_reg_mr(s->pd, s->buf, 4096, ACCESS_FLUSH_PERSISTENT));
}

static int null_mr(struct side *s)
{
	return dropped(ibv_alloc_null_mr(s->pd));
}

static int dmabuf(struct side *s)
{
	return dropped(ibv_reg_dmabuf_mr(s->pd, 0, 4096, 0, 0, IBV_ACCESS_LOCAL_WRITE));
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

static int cq_with(struct side *s, uint64_t wc_flags)
{
	struct ibv_cq_init_attr_ex a = { .cqe = 4, .wc_flags = wc_flags };
	struct ibv_cq_ex *cq = ibv_create_cq_ex(s->ctx, &a);

	return cq ? ibv_destroy_cq(ibv_cq_ex_to_cq(cq)) : errno;
}

static int timestamps(struct side *s)
{
	return cq_with(s, IBV_WC_EX_WITH_COMPLETION_TIMESTAMP);
}

static int cvlan(struct side *s)
{
	return cq_with(s, IBV_WC_EX_WITH_CVLAN);
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

static int counters(struct side *s)
{
	struct ibv_counters_init_attr a = { 0 };
	struct ibv_counter_attach_attr of = { .counter_desc = IBV_COUNTER_BYTES };
	struct ibv_counters *c = ibv_create_counters(s->ctx, &a);

	if (!c)
		return errno;
	CHECK(!ibv_attach_counters_point_flow(c, &of, NULL));
	return ibv_destroy_counters(c);
}

static int wq(struct side *s)
{
	struct ibv_wq_init_attr a = { .wq_type = IBV_WQT_RQ,
				      .max_wr = 4,
				      .max_sge = 1,
				      .pd = s->pd,
				      .cq = s->rcq };
	struct ibv_wq *q = ibv_create_wq(s->ctx, &a);

	return q ? ibv_destroy_wq(q) : errno;
}

/* Asks for a table of no queues: a device with tables answers EINVAL. */
static int table(struct side *s)
{
	struct ibv_rwq_ind_table_init_attr a = { .log_ind_tbl_size = 0 };

	CHECK(!ibv_create_rwq_ind_table(s->ctx, &a));
	return errno == EINVAL ? 0 : errno;
}

static int esp(struct side *s)
{
	struct ibv_flow_action_esp_attr a = { 0 };
	struct ibv_flow_action *f = ibv_create_flow_action_esp(s->ctx, &a);

	return f ? ibv_destroy_flow_action(f) : errno;
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

static int rate_limit(struct side *s)
{
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 1000 };
	struct ibv_qp_attr a = { .port_num = 1 };
	struct ibv_qp_init_attr init = { .send_cq = s->scq,
					 .recv_cq = s->rcq,
					 .qp_type = IBV_QPT_RAW_PACKET,
					 .cap = { 4, 4, 1, 1, 0 } };
	struct ibv_qp *qp = ibv_create_qp(s->pd, &init);

	if (!qp)
		return errno;
	CHECK(ibv_modify_qp_rate_limit(qp, &limit) == EINVAL); /* in RESET */
	for (a.qp_state = IBV_QPS_INIT; a.qp_state <= IBV_QPS_RTS; a.qp_state++)
		CHECK(!ibv_modify_qp(
			qp, &a,
			IBV_QP_STATE | (a.qp_state == IBV_QPS_INIT ? IBV_QP_PORT : 0)));
	CHECK(!ibv_modify_qp_rate_limit(qp, &limit));
	CHECK(!ibv_query_qp(qp, &a, IBV_QP_RATE_LIMIT, &init) && a.rate_limit == 1000);
	limit.max_burst_sz = 1;
	CHECK(ibv_modify_qp_rate_limit(qp, &limit) == EINVAL);
	return ibv_destroy_qp(qp);
}

static int rate_limit_of_rc(struct side *s)
{
	struct ibv_qp_rate_limit_attr limit = { .rate_limit = 1000 };

	return ibv_modify_qp_rate_limit(s->by_qp, &limit);
}

/* --- the table ---------------------------------------------------------------- */

static const struct optional {
	const char *name;
	bool (*claimed)(attrs *a);
	int (*try)(struct side *s);
	int rights; /* or this errno, for a process that lacks a right */
} table_of_verbs[] = {
	{ "RC", always, rc, 0 },
	{ "UC", infiniband, uc, 0 },
	{ "UD", infiniband, ud, 0 },
	{ "XRC_SEND", has_xrc, xrc_send, 0 },
	{ "RAW_PACKET", has_raw, raw, EPERM },
	{ "DRIVER", never, driver, 0 },
	{ "IBV_QP_CREATE_CVLAN_STRIPPING", has_stripping, stripping, 0 },
	{ "IBV_QP_CREATE_SCATTER_FCS", has_fcs, fcs, 0 },
	{ "IBV_QP_CREATE_SOURCE_QPN", never, source_qpn, 0 },
	{ "max_tso_header", has_tso, tso, 0 },
	{ "atomics by ibv_wr", has_atomics, atomics, 0 },
	{ "ATOMIC_WRITE by ibv_wr", has_atomic_write, atomic_write, 0 },
	{ "FLUSH by ibv_wr", has_flush, flushes, 0 },
	{ "open_xrcd", has_xrc, xrcd, 0 },
	{ "create_srq", has_srq, srq, 0 },
	{ "modify_srq, MAX_WR", has_srq_resize, srq_resize, 0 },
	{ "create_srq_ex, tags", has_tm, tags, 0 },
	{ "alloc_mw, type 1", has_mw_1, mw_1, 0 },
	{ "alloc_mw, type 2", has_mw_2, mw_2, 0 },
	{ "alloc_dm", has_dm, dm, 0 },
	{ "reg_mr, ON_DEMAND", has_odp, odp, 0 },
	{ "reg_mr, implicit", has_implicit, implicit, 0 },
	{ "reg_mr, RELAXED_ORDERING", always, relaxed, 0 },
	{ "reg_mr, FLUSH_GLOBAL", has_flush, flushable, 0 },
	{ "reg_mr, FLUSH_PERSISTENT", has_persistent, persistent, 0 },
	{ "alloc_null_mr", always, null_mr, 0 },
	{ "reg_dmabuf_mr", never, dmabuf, 0 },
	{ "create_ah", has_ah, ah, 0 },
	{ "attach_mcast", has_mcast, mcast, 0 },
	{ "query_rt_values_ex", has_clock, rt_values, 0 },
	{ "create_cq_ex, timestamps", has_timestamps, timestamps, 0 },
	{ "create_cq_ex, CVLAN", has_stripping, cvlan, 0 },
	{ "modify_cq, moderation", has_moderation, moderation, 0 },
	{ "alloc_td", always, td, 0 },
	{ "alloc_parent_domain", always, parent, 0 },
	{ "create_counters", has_raw, counters, 0 },
	{ "create_wq", has_wq, wq, EPERM },
	{ "create_rwq_ind_table", has_rss, table, 0 },
	{ "create_flow_action_esp", never, esp, 0 },
	{ "set_ece", never, set_ece, 0 },
	{ "query_ece", never, query_ece, 0 },
	{ "modify_qp_rate_limit", has_rate_limit, rate_limit, EPERM },
	{ "modify_qp_rate_limit of RC", never, rate_limit_of_rc, 0 },
};

static void try_each(struct side *s)
{
	struct ibv_device_attr_ex a;
	bool well = true;

	CHECK(!ibv_query_device_ex(s->ctx, NULL, &a));
	for (size_t i = 0; i < COUNT(table_of_verbs); i++) {
		const struct optional *o = &table_of_verbs[i];
		int got, want = o->claimed(&a) ? 0 : EOPNOTSUPP;
		uint64_t begin = now_ms();

		errno = 0;
		got = o->try(s);
		if ((got == want || (!want && got && got == o->rights)) &&
		    now_ms() - begin < AT_ONCE_MS)
			continue;
		say("%s: %d (%s), not %d, after %u ms", o->name, got, strerror(got), want,
		    (unsigned)(now_ms() - begin));
		well = false;
	}
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
