/* SPDX-License-Identifier: BSD-2-Clause */
/* caps_raw.c - raw packets, and what shares them out, changes them or paces them: the
 * verbs that a device may lack. */
#include "caps.h"

/* --- what is claimed -------------------------------------------------------- */

static bool has_raw(attrs *a)
{
	return a->orig_attr.max_raw_ethy_qp > 0;
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

static int raw(struct side *s)
{
	return qp_of_type(s, IBV_QPT_RAW_PACKET);
}

static int qp_flags(struct side *s, enum ibv_qp_type type, uint32_t flags)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = type,
					 .comp_mask = IBV_QP_INIT_ATTR_CREATE_FLAGS,
					 .create_flags = flags };

	return qp_ex(s, &a);
}

static int stripping(struct side *s)
{
	return qp_flags(s, IBV_QPT_RAW_PACKET, IBV_QP_CREATE_CVLAN_STRIPPING);
}

static int fcs(struct side *s)
{
	return qp_flags(s, IBV_QPT_RAW_PACKET, IBV_QP_CREATE_SCATTER_FCS);
}

static int source_qpn(struct side *s)
{
	return qp_flags(s, is_iwarp() ? IBV_QPT_RC : IBV_QPT_UD,
			IBV_QP_CREATE_SOURCE_QPN);
}

static int tso(struct side *s)
{
	struct ibv_qp_init_attr_ex a = { .qp_type = is_iwarp() ? IBV_QPT_RC : IBV_QPT_UD,
					 .comp_mask = IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
					 .max_tso_header = 64 };

	return qp_ex(s, &a);
}

static int cvlan(struct side *s)
{
	return cq_with(s, IBV_WC_EX_WITH_CVLAN);
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

/* --- the table ---------------------------------------------------------------- */

const struct optional raw_verbs[] = {
	{ "RAW_PACKET", has_raw, raw, EPERM },
	{ "IBV_QP_CREATE_CVLAN_STRIPPING", has_stripping, stripping, EPERM },
	{ "IBV_QP_CREATE_SCATTER_FCS", has_fcs, fcs, EPERM },
	{ "IBV_QP_CREATE_SOURCE_QPN", never, source_qpn, 0 },
	{ "max_tso_header", has_tso, tso, 0 },
	{ "create_cq_ex, CVLAN", has_stripping, cvlan, 0 },
	{ "create_counters", has_raw, counters, 0 },
	{ "create_wq", has_wq, wq, EPERM },
	{ "create_rwq_ind_table", has_rss, table, 0 },
	{ "create_flow_action_esp", never, esp, 0 },
	{ "modify_qp_rate_limit", has_rate_limit, rate_limit, EPERM },
	{ NULL, NULL, NULL, 0 },
};
