/* SPDX-License-Identifier: BSD-2-Clause */
/* claims.c - the device attributes that no row of caps_*.c tests: no flag is set that no
 * test tries, and the limits on numbers of objects hold. */
#include "caps.h"
#include "feature.h"

/* --- flags ------------------------------------------------------------------- */

/* Each flag that a device may claim here, and where it is tried. */
static const struct {
	uint64_t bit;
	const char *where;
} tried[] = {
	{ IBV_DEVICE_BAD_PKEY_CNTR, "tests/fabric/test_opensm.py" },
	{ IBV_DEVICE_BAD_QKEY_CNTR, "built.c" },
	{ IBV_DEVICE_CURR_QP_STATE_MOD, "tests/errors/states.c" },
	{ IBV_DEVICE_PORT_ACTIVE_EVENT, "tests/programs/test_programs.py" },
	{ IBV_DEVICE_SYS_IMAGE_GUID, "below" },
	{ IBV_DEVICE_RC_RNR_NAK_GEN, "tests/pairs/rows_state.c" },
	{ IBV_DEVICE_SRQ_RESIZE, "caps_queues.c" },
	{ IBV_DEVICE_MEM_WINDOW, "caps_memory.c, tests/pairs/rows_window.c" },
	{ IBV_DEVICE_MEM_WINDOW_TYPE_2B, "caps_memory.c, tests/pairs/rows_window.c" },
	{ IBV_DEVICE_MEM_MGT_EXTENSIONS, "built.c: invalidations" },
	{ IBV_DEVICE_XRC, "caps_queues.c, tests/xrc" },
	{ IBV_DEVICE_MANAGED_FLOW_STEERING, "spread.c, counters.c" },
	{ 1ull << 38, "caps_memory.c, flush.c" }, /* IB_UVERBS_DEVICE_FLUSH_GLOBAL */
	{ 1ull << 40, "caps_queues.c, built.c" }, /* IB_UVERBS_DEVICE_ATOMIC_WRITE */
};

static void flags(const struct ibv_device_attr_ex *a)
{
	const uint64_t type_2a = IBV_DEVICE_MEM_WINDOW_TYPE_2A;
	uint64_t claimed = a->device_cap_flags_ex | a->orig_attr.device_cap_flags;

	/* o10-37.2.24: 2A or 2B. */
	CHECK(!(claimed & type_2a) != !(claimed & IBV_DEVICE_MEM_WINDOW_TYPE_2B));
	CHECK((unsigned)a->device_cap_flags_ex == a->orig_attr.device_cap_flags);
	CHECK(a->orig_attr.sys_image_guid);
	for (size_t i = 0; i < COUNT(tried); i++)
		claimed &= ~tried[i].bit;
	if (claimed)
		say("claimed, and not tried: %llx", (unsigned long long)claimed);
	CHECK(!claimed);
}

/* --- how many ------------------------------------------------------------------ */

static int qp(struct side *s, uint32_t wr, uint32_t sge)
{
	struct ibv_qp_init_attr init = { .send_cq = s->scq,
					 .recv_cq = s->rcq,
					 .qp_type = IBV_QPT_RC,
					 .cap = { wr, wr, sge, sge, 0 } };
	struct ibv_qp *q = ibv_create_qp(s->pd, &init);

	return q ? ibv_destroy_qp(q) : errno;
}

static int srq(struct side *s, uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr init = { .attr = { wr, sge, 0 } };
	struct ibv_srq *q = ibv_create_srq(s->pd, &init);

	return q ? ibv_destroy_srq(q) : errno;
}

static int dm(struct side *s, uint64_t length)
{
	struct ibv_alloc_dm_attr attr = { .length = length };
	struct ibv_dm *d = ibv_alloc_dm(s->ctx, &attr);

	return d ? ibv_free_dm(d) : errno;
}

/* Moves a QP to RTS with these numbers of inbound and outbound READs. */
static int depths(struct side *s, unsigned in, unsigned out)
{
	struct ibv_qp *q = qp_make(s, IBV_QPT_RC);
	struct ibv_qp_attr a = self_attr(s, q->qp_num);
	int err;

	a.max_dest_rd_atomic = (uint8_t)in;
	a.max_rd_atomic = (uint8_t)out;
	qp_to(q, &a, IBV_QPS_INIT);
	a.qp_state = IBV_QPS_RTR;
	err = ibv_modify_qp(q, &a, TO_RTR);
	a.qp_state = IBV_QPS_RTS;
	if (!err)
		err = ibv_modify_qp(q, &a, TO_RTS);
	CHECK(!ibv_destroy_qp(q));
	return err;
}

static void numbers(struct side *s, const struct ibv_device_attr_ex *ex)
{
	const struct ibv_device_attr *a = &ex->orig_attr;
	const uint32_t wr = (uint32_t)a->max_qp_wr, sge = (uint32_t)a->max_sge,
		       srq_wr = (uint32_t)a->max_srq_wr,
		       srq_sge = (uint32_t)a->max_srq_sge;
	const unsigned in = (unsigned)a->max_qp_rd_atom,
		       out = (unsigned)a->max_qp_init_rd_atom;

	CHECK(!qp(s, wr, 1) && qp(s, wr + 1, 1) == EINVAL);
	CHECK(!qp(s, 1, sge) && qp(s, 1, sge + 1) == EINVAL);
	CHECK(!srq(s, srq_wr, 1) && srq(s, srq_wr + 1, 1) == EINVAL);
	CHECK(!srq(s, 1, srq_sge) && srq(s, 1, srq_sge + 1) == EINVAL);
	CHECK(!dm(s, ex->max_dm_size) && dm(s, ex->max_dm_size + 1) == EINVAL);
	if (ex->tm_caps.max_num_tags) {
		const struct ibv_tm_caps *tm = &ex->tm_caps;

		CHECK(!srq_with_tags(s, tm->max_num_tags, tm->max_ops));
		CHECK(srq_with_tags(s, tm->max_num_tags + 1, 1) == EINVAL);
		CHECK(srq_with_tags(s, 1, tm->max_ops + 1) == EINVAL);
	}
	if (is_iwarp()) /* on iWARP rdma_cm sets them */
		return;
	CHECK(!depths(s, in, out));
	CHECK(depths(s, in + 1, out) == EINVAL && depths(s, in, out + 1) == EINVAL);
}

/* Tables of ports, GIDs and P_Keys end where the attributes say. */
static void tables(struct side *s, const struct ibv_device_attr_ex *ex)
{
	const int ports = ex->orig_attr.phys_port_cnt;
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	CHECK(ex->phys_port_cnt_ex == (unsigned)ports);
	CHECK(ibv_query_port(s->ctx, (uint8_t)(ports + 1), &port));
	CHECK(!ibv_query_port(s->ctx, 1, &port));
	CHECK(port.gid_tbl_len > 0);
	CHECK(!ibv_query_gid(s->ctx, 1, port.gid_tbl_len - 1, &gid));
	CHECK(ibv_query_gid(s->ctx, 1, port.gid_tbl_len, &gid));
	CHECK(port.pkey_tbl_len == ex->orig_attr.max_pkeys);
	if (port.pkey_tbl_len)
		CHECK(!ibv_query_pkey(s->ctx, 1, port.pkey_tbl_len - 1, &pkey));
	CHECK(ibv_query_pkey(s->ctx, 1, port.pkey_tbl_len, &pkey));
}

static void claimed(struct side *s)
{
	struct ibv_device_attr_ex a;

	CHECK(!ibv_query_device_ex(s->ctx, NULL, &a));
	flags(&a);
	numbers(s, &a);
	tables(s, &a);
}

static void claims(void)
{
	each(claimed);
}

const struct feature claims_rows[] = {
	{ "claims", claims, false },
	{ NULL, NULL, false },
};
