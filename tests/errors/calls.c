/* SPDX-License-Identifier: BSD-2-Clause */
/* calls.c - verbs with arguments that a C program can pass but should not. */
#include "errors.h"

#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>

static struct side *s;

/* --- queries ------------------------------------------------------------- */

#define MINUS_1(call)                                                                    \
	do {                                                                             \
		errno = 0;                                                               \
		CHECK((call) == -1 && errno == EINVAL);                                  \
	} while (0)

static void queries(void)
{
	const struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_device_attr_ex ex;
	struct ibv_gid_entry entry, table[256];
	struct ibv_port_attr port;
	struct ibv_wc wc[2];
	union ibv_gid gid;
	__be16 pkey;

	s = side(false);
	REFUSED_PTR(EINVAL, ibv_open_device(NULL));
	for (int p = 0; p < 256; p++)
		REFUSED(p == 1 ? 0 : EINVAL, ibv_query_port(s->ctx, (uint8_t)p, &port));
	MINUS_1(ibv_query_gid(s->ctx, 0, 0, &gid));
	MINUS_1(ibv_query_gid(s->ctx, 2, 0, &gid));
	MINUS_1(ibv_query_gid(s->ctx, 1, -1, &gid));
	MINUS_1(ibv_query_gid(s->ctx, 1, INT_MIN, &gid));
	MINUS_1(ibv_query_gid(s->ctx, 1, INT_MAX, &gid));
	CHECK(!ibv_query_port(s->ctx, 1, &port));
	MINUS_1(ibv_query_gid(s->ctx, 1, port.gid_tbl_len, &gid));
	CHECK(!ibv_query_gid(s->ctx, 1, port.gid_tbl_len - 1, &gid));
	MINUS_1(ibv_query_pkey(s->ctx, 1, -1, &pkey));
	MINUS_1(ibv_query_pkey(s->ctx, 1, port.pkey_tbl_len, &pkey));
	MINUS_1(ibv_query_pkey(s->ctx, 0, 0, &pkey));
	CHECK(ibv_get_pkey_index(s->ctx, 1, 0x1234) == -1);
	CHECK(ibv_get_pkey_index(s->ctx, 9, 0xffff) == -1);
	REFUSED(EOPNOTSUPP, ibv_query_gid_ex(s->ctx, 1, 0, &entry, 1));
	REFUSED(EINVAL, ibv_query_gid_ex(s->ctx, 2, 0, &entry, 0));
	REFUSED(EINVAL, ibv_query_gid_ex(s->ctx, UINT32_MAX, 0, &entry, 0));
	REFUSED(EINVAL, ibv_query_gid_ex(s->ctx, 1, UINT32_MAX, &entry, 0));
	REFUSED(ENODATA,
		ibv_query_gid_ex(s->ctx, 1, (uint32_t)port.gid_tbl_len - 1, &entry, 0));
	CHECK(ibv_query_gid_table(s->ctx, table, COUNT(table), 0) > 0);
	CHECK(ibv_query_gid_table(s->ctx, table, 0, 0) == -EINVAL);
	CHECK(ibv_query_gid_table(s->ctx, table, COUNT(table), 1) == -EOPNOTSUPP);
	REFUSED(EINVAL, ibv_query_device_ex(s->ctx, &input, &ex));
	CHECK(!ibv_query_device_ex(s->ctx, NULL, &ex));
	CHECK(ibv_poll_cq(s->scq, 0, NULL) == 0);
	CHECK(ibv_poll_cq(s->scq, -1, wc) < 0);
	ibv_ack_cq_events(s->scq, 0);
}

/* --- completion queues --------------------------------------------------- */

static void cqs(void)
{
	struct ibv_modify_cq_attr moderate = { .attr_mask = 1u << 30 };
	struct ibv_context *ctx;

	s = side(false);
	ctx = s->ctx;
	REFUSED_PTR(EINVAL, ibv_create_cq(ctx, 0, NULL, NULL, 0));
	log_must("completion queue of 0 entries refused");
	REFUSED_PTR(EINVAL, ibv_create_cq(ctx, -1, NULL, NULL, 0));
	REFUSED_PTR(EINVAL, ibv_create_cq(ctx, INT_MIN, NULL, NULL, 0));
	REFUSED_PTR(EINVAL, ibv_create_cq(ctx, INT_MAX, NULL, NULL, 0));
	REFUSED_PTR(EINVAL, ibv_create_cq(ctx, 1, NULL, NULL, -1));
	log_must("completion vector 4294967295|completion vector -1");
	REFUSED_PTR(EINVAL, ibv_create_cq(ctx, 1, NULL, NULL, ctx->num_comp_vectors));
	REFUSED_PTR(EINVAL, ibv_create_cq(ctx, 1, NULL, NULL, INT_MAX));
	REFUSED(EINVAL, ibv_modify_cq(s->scq, &moderate));
}

/* --- queue pairs --------------------------------------------------------- */

static struct ibv_qp_init_attr_ex good_qp(void)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = s->scq,
		.recv_cq = s->rcq,
		.qp_type = IBV_QPT_RC,
		.cap = { 4, 4, 1, 1, 0 },
		.comp_mask = IBV_QP_INIT_ATTR_PD,
		.pd = s->pd,
	};
}

static void qps(void)
{
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct side *other = side(true);
	struct ibv_qp_init_attr_ex a;
	struct ibv_qp_init_attr old;
	struct ibv_srq *foreign;
	struct ibv_qp *qp;

	s = side(false);
	CHECK((foreign = ibv_create_srq(other->pd, &srq_attr)));
#define SPOIL(code, re, ...)                                                             \
	do {                                                                             \
		a = good_qp();                                                           \
		__VA_ARGS__;                                                             \
		log_mark();                                                              \
		REFUSED_PTR(code, ibv_create_qp_ex(s->ctx, &a));                         \
		log_must("create_qp refused: " re);                                      \
	} while (0)
	SPOIL(EINVAL, ".*missing", a.send_cq = NULL);
	SPOIL(EINVAL, ".*missing", a.recv_cq = NULL);
	SPOIL(EINVAL, ".*another context", a.send_cq = other->scq);
	SPOIL(EINVAL, ".*another context", a.recv_cq = other->rcq);
	SPOIL(EINVAL, ".*another context", a.srq = foreign);
	SPOIL(EINVAL, ".*another context", a.pd = other->pd);
	SPOIL(EINVAL, "comp_mask", a.comp_mask |= 1u << 30);
	SPOIL(EINVAL, "comp_mask", a.comp_mask |= IBV_QP_INIT_ATTR_XRCD);
	SPOIL(EOPNOTSUPP, "comp_mask", a.comp_mask |= IBV_QP_INIT_ATTR_IND_TABLE);
	SPOIL(EOPNOTSUPP, "comp_mask", a.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH);
	SPOIL(EOPNOTSUPP, "create_flags SOURCE_QPN",
	      a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS,
	      a.create_flags = IBV_QP_CREATE_SOURCE_QPN);
	SPOIL(EOPNOTSUPP, "max_tso", a.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER,
	      a.max_tso_header = 64);
	for (int t = -1; t < 300; t++)
		if (t != IBV_QPT_RC && t != IBV_QPT_UC && t != IBV_QPT_UD &&
		    t != IBV_QPT_XRC_SEND && t != IBV_QPT_XRC_RECV &&
		    t != IBV_QPT_RAW_PACKET)
			SPOIL(EOPNOTSUPP, "qp_type", a.qp_type = (enum ibv_qp_type)t);
	SPOIL(EPERM, ".*CAP_NET_RAW", a.qp_type = IBV_QPT_RAW_PACKET);
#undef SPOIL
	a = good_qp(), a.qp_type = IBV_QPT_XRC_RECV;
	REFUSED_PTR(EINVAL, ibv_create_qp_ex(s->ctx, &a));
	log_must("create_qp refused: an XRC domain is missing");
	old = (struct ibv_qp_init_attr){ .qp_type = IBV_QPT_RC };
	REFUSED_PTR(EINVAL, ibv_create_qp(s->pd, &old));
	a = good_qp();
	CHECK((qp = ibv_create_qp_ex(s->ctx, &a)) && !ibv_destroy_qp(qp));
	CHECK(!ibv_destroy_srq(foreign));
}

/* --- memory -------------------------------------------------------------- */

static struct ibv_mr *reg(void *at, size_t len, unsigned access)
{
	return ibv_reg_mr_iova2(s->pd, at, len, (uintptr_t)at, access);
}

static void regions(void)
{
	const unsigned local_write = IBV_ACCESS_LOCAL_WRITE;
	uint8_t *ro, *gone;

	s = side(false);
	ro = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	gone = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(ro != MAP_FAILED && gone != MAP_FAILED && !munmap(gone + 4096, 4096));
#define REFUSE(code, re, at, len, access)                                                \
	do {                                                                             \
		log_mark();                                                              \
		REFUSED_PTR(code, reg(at, len, access));                                 \
		log_must("memory region refused: .*" re);                                \
	} while (0)
	REFUSE(EFAULT, "not mapped", NULL, 1, local_write);
	REFUSE(EINVAL, "empty", NULL, 0, local_write);
	REFUSE(EFAULT, "not mapped", gone, 4097, 0);
	REFUSE(EFAULT, "not mapped", gone + 4096, 1, 0);
	REFUSE(EFAULT, "not writable", ro, 8192, local_write);
	REFUSE(EFAULT, "not mapped", s->buf, (size_t)1 << 46, local_write);
	REFUSE(EINVAL, "past the end", s->buf, SIZE_MAX, local_write);
	REFUSE(EINVAL, "past the end", (void *)UINTPTR_MAX, 2, local_write);
	REFUSE(EINVAL, "LOCAL_WRITE", s->buf, 64, IBV_ACCESS_REMOTE_WRITE);
	REFUSE(EINVAL, "LOCAL_WRITE", s->buf, 64, IBV_ACCESS_REMOTE_ATOMIC);
	REFUSE(EINVAL, "unknown bits", s->buf, 64, 1u << 12);
	REFUSE(EINVAL, "unknown bits", s->buf, 64, 1u << 31);
#undef REFUSE
	REFUSED_PTR(EINVAL,
		    ibv_reg_mr_iova2(s->pd, s->buf, 64, UINT64_MAX - 5, local_write));
	extra_mr(s, reg(ro, 8192, IBV_ACCESS_REMOTE_READ));
	extra_mr(s, ibv_reg_mr_iova2(s->pd, s->buf, 64, UINT64_MAX - 63, local_write));
	drop_extras(s);
	REFUSED_PTR(EOPNOTSUPP, ibv_reg_dmabuf_mr(s->pd, 0, 64, 0, 0, 0));
	REFUSED_PTR(EINVAL, ibv_alloc_mw(s->pd, (enum ibv_mw_type)0));
	REFUSED_PTR(EINVAL, ibv_alloc_mw(s->pd, (enum ibv_mw_type)3));
	munmap(ro, 8192);
	munmap(gone, 4096);
}

/* A refused ibv_rereg_mr leaves the region as it was. */
static void reregistered(void)
{
	const int all = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
			IBV_REREG_MR_CHANGE_ACCESS;
	struct ibv_mr *mr, before;

	s = side(false);
	CHECK((mr = ibv_reg_mr(s->pd, s->buf, 4096, ALL_ACCESS)));
	before = *mr;
#define REFUSE(why, flags, pd, at, len, access)                                          \
	do {                                                                             \
		log_mark();                                                              \
		CHECK(ibv_rereg_mr(mr, flags, pd, at, len, access) ==                    \
		      IBV_REREG_MR_ERR_##why);                                           \
		CHECK(!memcmp(mr, &before, sizeof(before)));                             \
		log_must("refused");                                                     \
	} while (0)
	REFUSE(CMD, 0, NULL, NULL, 0, 0);
	REFUSE(INPUT, 1 << 20, NULL, NULL, 0, 0);
	REFUSE(INPUT, -1, s->pd, s->buf, 64, ALL_ACCESS);
	REFUSE(INPUT, IBV_REREG_MR_CHANGE_PD, NULL, NULL, 0, 0);
	REFUSE(INPUT, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 64, 0);
	REFUSE(INPUT, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, s->buf, 0, 0);
	REFUSE(CMD, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, s->buf, SIZE_MAX, 0);
	REFUSE(CMD, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, (void *)8, 64, 0);
	REFUSE(CMD, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_WRITE);
	REFUSE(CMD, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 1 << 12);
	REFUSE(INPUT, IBV_REREG_MR_CHANGE_PD, s->pd2, NULL, 0, ALL_ACCESS);
#undef REFUSE
	CHECK(!ibv_rereg_mr(mr, all, s->pd2, s->buf + 64, 128, IBV_ACCESS_LOCAL_WRITE));
	CHECK(mr->pd == s->pd2 && mr->addr == s->buf + 64 && mr->length == 128);
	/* Arguments that the flags do not name are ignored. */
	CHECK(!ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, (struct ibv_pd *)8, NULL, 0,
			    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ));
	CHECK(mr->pd == s->pd2);
	CHECK(!ibv_dereg_mr(mr));
}

/* --- addresses ----------------------------------------------------------- */

static void addresses(void)
{
	struct ibv_ah_attr good, a;
	struct ibv_grh grh = { 0 };
	struct ibv_wc wc = { 0 };
	struct ibv_ah *ah;

	s = side(false);
	good = (struct ibv_ah_attr){ .is_global = 1,
				     .port_num = 1,
				     .grh = { .dgid = s->mine.gid,
					      .sgid_index = s->gid_index,
					      .hop_limit = 64 } };
#define SPOIL(re, ...)                                                                   \
	do {                                                                             \
		a = good;                                                                \
		__VA_ARGS__;                                                             \
		log_mark();                                                              \
		REFUSED_PTR(EINVAL, ibv_create_ah(s->pd, &a));                           \
		log_must("refused: .*" re);                                              \
	} while (0)
	SPOIL("GRH", a.is_global = 0);
	SPOIL("GRH", memset(&a, 0, sizeof(a)));
	SPOIL("no such port", a.port_num = 0);
	SPOIL("no such port", a.port_num = 2);
	SPOIL("no such port", memset(&a, 0xff, sizeof(a)));
	SPOIL("service level", a.sl = 16);
	SPOIL("zero", memset(&a.grh.dgid, 0, 16));
	SPOIL("no GID", a.grh.sgid_index = 127);
	SPOIL("no GID", a.grh.sgid_index = 128);
	SPOIL("no GID", a.grh.sgid_index = 255);
	SPOIL("different IP versions", memset(&a.grh.dgid, 0xfd, 16));
#undef SPOIL
	CHECK((ah = ibv_create_ah(s->pd, &good)) && !ibv_destroy_ah(ah));

	REFUSED(EINVAL, ibv_init_ah_from_wc(s->ctx, 1, &wc, &grh, &a)); /* no GRH */
	REFUSED_PTR(EINVAL, ibv_create_ah_from_wc(s->pd, &wc, &grh, 1));
	wc.wc_flags = IBV_WC_GRH;
	CHECK(ibv_init_ah_from_wc(s->ctx, 1, &wc, &grh, &a) > 0);
	memset(&grh, 0xff, sizeof(grh));
	CHECK(ibv_init_ah_from_wc(s->ctx, 1, &wc, &grh, &a) > 0);
	CHECK(ibv_init_ah_from_wc(s->ctx, 9, &wc, &grh, &a) > 0);
}

static void groups(void)
{
	union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 0x76 } };
	union ibv_gid v4 = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } }, none = { 0 };

	s = side(false);
	s->qp = qp_make(s, IBV_QPT_UD);
	s->mine.qpn = s->qp->qp_num;
	REFUSED(EINVAL, ibv_attach_mcast(s->qp, &s->mine.gid, 0));
	log_must("%A: multicast needs a UD QP and a multicast GID");
	REFUSED(EINVAL, ibv_attach_mcast(s->qp, &none, 0));
	REFUSED(EINVAL, ibv_detach_mcast(s->qp, &group, 0));
	CHECK(!ibv_attach_mcast(s->qp, &group, 0));
	CHECK(!ibv_attach_mcast(s->qp, &group, 0)); /* a second attach changes nothing */
	REFUSED(EINVAL, ibv_detach_mcast(s->qp, &v4, 0));
	CHECK(!ibv_attach_mcast(s->qp, &v4, 0));
	CHECK(!ibv_detach_mcast(s->qp, &v4, 0));
	CHECK(!ibv_detach_mcast(s->qp, &group, 0));
	REFUSED(EINVAL, ibv_detach_mcast(s->qp, &group, 0));
	qp_drop(s);
	s->qp = qp_make(s, IBV_QPT_RC);
	s->mine.qpn = s->qp->qp_num;
	log_mark();
	REFUSED(EINVAL, ibv_attach_mcast(s->qp, &group, 0));
	log_must("%A: multicast needs a UD QP and a multicast GID");
	REFUSED(EINVAL, ibv_detach_mcast(s->qp, &group, 0));
	qp_drop(s);
}

/* --- SRQs ---------------------------------------------------------------- */

static void srqs(void)
{
	struct ibv_srq_init_attr_ex good, a;
	struct ibv_srq *srq;

	s = side(false);
	good = (struct ibv_srq_init_attr_ex){ .attr = { .max_wr = 4, .max_sge = 1 },
					      .comp_mask = IBV_SRQ_INIT_ATTR_PD |
							   IBV_SRQ_INIT_ATTR_TYPE,
					      .pd = s->pd,
					      .srq_type = IBV_SRQT_BASIC };
	a = good, a.comp_mask |= 1u << 20;
	REFUSED_PTR(EOPNOTSUPP, ibv_create_srq_ex(s->ctx, &a));
	a = good, a.srq_type = IBV_SRQT_XRC; /* neither an XRC domain nor a CQ */
	REFUSED_PTR(EINVAL, ibv_create_srq_ex(s->ctx, &a));
	a = good, a.srq_type = IBV_SRQT_TM; /* neither a CQ nor tags */
	REFUSED_PTR(EINVAL, ibv_create_srq_ex(s->ctx, &a));
	a = good, a.srq_type = IBV_SRQT_TM + 1;
	REFUSED_PTR(EOPNOTSUPP, ibv_create_srq_ex(s->ctx, &a));
	a = good, a.comp_mask = 0;
	REFUSED_PTR(EINVAL, ibv_create_srq_ex(s->ctx, &a));
	a = good, a.attr.max_wr = 0;
	REFUSED_PTR(EINVAL, ibv_create_srq_ex(s->ctx, &a));
	CHECK((srq = ibv_create_srq_ex(s->ctx, &good)) && !ibv_destroy_srq(srq));
}

static void xrc(void)
{
	struct ibv_xrcd_init_attr a = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS, .fd = -1
	};
	struct ibv_srq_init_attr_ex srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 },
						 .comp_mask = IBV_SRQ_INIT_ATTR_PD |
							      IBV_SRQ_INIT_ATTR_TYPE |
							      IBV_SRQ_INIT_ATTR_XRCD |
							      IBV_SRQ_INIT_ATTR_CQ,
						 .srq_type = IBV_SRQT_XRC };
	struct ibv_qp_init_attr_ex qp_attr = { .qp_type = IBV_QPT_XRC_RECV,
					       .comp_mask = IBV_QP_INIT_ATTR_XRCD };
	struct ibv_xrcd *xrcd, *foreign;
	struct side *other = side(true);
	struct ibv_srq *srq;
	struct ibv_qp *qp;

	s = side(false);
	REFUSED_PTR(EAGAIN, ibv_open_xrcd(s->ctx, &a));
	a.oflags = O_CREAT;
	a.comp_mask = 0;
	REFUSED_PTR(EINVAL, ibv_open_xrcd(s->ctx, &a));
	a.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
	CHECK((xrcd = ibv_open_xrcd(s->ctx, &a)));
	CHECK((foreign = ibv_open_xrcd(other->ctx, &a)));
	srq_attr.pd = s->pd;
	srq_attr.cq = s->rcq;
	srq_attr.xrcd = foreign;
	REFUSED_PTR(EINVAL, ibv_create_srq_ex(s->ctx, &srq_attr));
	srq_attr.xrcd = xrcd;
	srq_attr.cq = other->rcq;
	REFUSED_PTR(EINVAL, ibv_create_srq_ex(s->ctx, &srq_attr));
	srq_attr.cq = s->rcq;
	CHECK((srq = ibv_create_srq_ex(s->ctx, &srq_attr)));
	qp_attr.xrcd = foreign;
	REFUSED_PTR(EINVAL, ibv_create_qp_ex(s->ctx, &qp_attr));
	qp_attr.xrcd = xrcd;
	CHECK((qp = ibv_create_qp_ex(s->ctx, &qp_attr)));
	CHECK(ibv_close_xrcd(xrcd) == EBUSY);
	CHECK(!ibv_destroy_srq(srq));
	CHECK(ibv_close_xrcd(xrcd) == EBUSY);
	CHECK(!ibv_destroy_qp(qp));
	CHECK(!ibv_close_xrcd(xrcd));
	CHECK(ibv_close_xrcd(xrcd) == ENOENT);
	REFUSED_PTR(EINVAL, ibv_create_qp_ex(s->ctx, &qp_attr));
	CHECK(!ibv_close_xrcd(foreign));
}

/* --- what there is not --------------------------------------------------- */

static void unsupported(void)
{
	struct ibv_flow_attr flow = { 0 };

	s = side(false);
	s->qp = qp_make(s, IBV_QPT_RC);
	/* The QP is no raw packet QP. */
	REFUSED_PTR(EINVAL, ibv_create_flow(s->qp, &flow));
	qp_drop(s);
}

static void strings(void)
{
	static const int garbage[] = { -1, 99, INT_MAX, INT_MIN };

	for (size_t i = 0; i < COUNT(garbage); i++) {
		CHECK(ibv_wc_status_str((enum ibv_wc_status)garbage[i]));
		CHECK(ibv_event_type_str((enum ibv_event_type)garbage[i]));
		CHECK(ibv_node_type_str((enum ibv_node_type)garbage[i]));
		CHECK(ibv_port_state_str((enum ibv_port_state)garbage[i]));
		CHECK(ibv_rate_to_mult((enum ibv_rate)garbage[i]) == -1);
		CHECK(ibv_rate_to_mbps((enum ibv_rate)garbage[i]) == -1);
		CHECK(mult_to_ibv_rate(garbage[i]) == IBV_RATE_MAX);
		CHECK(mbps_to_ibv_rate(garbage[i]) == IBV_RATE_MAX);
	}
}

const struct local_row call_rows[] = {
	{ "call_queries", queries },
	{ "call_cqs", cqs },
	{ "call_qps", qps },
	{ "call_regions", regions },
	{ "call_rereg", reregistered },
	{ "call_addresses", addresses },
	{ "call_groups", groups },
	{ "call_srqs", srqs },
	{ "call_xrc", xrc },
	{ "call_unsupported", unsupported },
	{ "call_strings", strings },
	{ NULL, NULL },
};
