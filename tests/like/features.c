/* SPDX-License-Identifier: BSD-2-Clause */
/* features.c - tries each feature that a device may lack: "SRQ 0", or the errno. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "like.h"

static const struct ibv_qp_cap usual = {
	.max_send_wr = 16, .max_send_sge = 1, .max_recv_wr = 16, .max_recv_sge = 1
};

static int made(const void *object)
{
	return object ? 0 : errno;
}

static struct ibv_qp *qp(enum ibv_qp_type type, uint64_t ops)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr_ex init = {
		.qp_type = type,
		.cap = usual,
		.send_cq = cq,
		.recv_cq = cq,
		.comp_mask =
			IBV_QP_INIT_ATTR_PD | (ops ? IBV_QP_INIT_ATTR_SEND_OPS_FLAGS : 0),
		.pd = pd,
		.send_ops_flags = ops,
	};

	return ibv_create_qp_ex(ctx, &init);
}

static int has_srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 64, .max_sge = 1 } };

	return made(ibv_create_srq(pd, &init));
}

static int has_xrc(void)
{
	struct ibv_xrcd_init_attr init = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = -1,
					   .oflags = 0100 /* O_CREAT */ };

	return made(ibv_open_xrcd(ctx, &init));
}

static int has_uc(void)
{
	return made(qp(IBV_QPT_UC, 0));
}

static int has_ud(void)
{
	return made(qp(IBV_QPT_UD, 0));
}

/* EPERM: there are some, for a user with CAP_NET_RAW. */
static int has_raw(void)
{
	int rc = made(qp(IBV_QPT_RAW_PACKET, 0));

	return rc == EPERM ? 0 : rc;
}

/* A device without UD has none to try. */
static int has_mcast(void)
{
	struct ibv_device_attr attr;

	if (ibv_query_device(ctx, &attr))
		die("query_device");
	return attr.max_mcast_grp ? 0 : EOPNOTSUPP;
}

static int has_mw(void)
{
	return made(ibv_alloc_mw(pd, IBV_MW_TYPE_2));
}

static int posted(enum ibv_wr_opcode op, uint32_t length)
{
	struct end a = end_make(usual), b = end_make(usual);
	struct ibv_sge sge = { (uintptr_t)a.buf, length, a.mr->lkey };
	int rc;

	end_connect(&a, &b);
	rc = end_receive(&b, 64);
	rc = rc ? rc : end_post(&a, op, &b, &sge, 1, 0);
	return rc ? rc : (int)end_wait(&a).status;
}

static int has_atomics(void)
{
	return posted(IBV_WR_ATOMIC_CMP_AND_SWP, 8);
}

static int has_imm(void)
{
	return posted(IBV_WR_RDMA_WRITE_WITH_IMM, 8);
}

static int has_a19(void)
{
	enum { FLUSH_GLOBAL = 1 << 8 }; /* IBV_ACCESS_FLUSH_GLOBAL */

	return made(ibv_reg_mr(pd, malloc(4096), 4096, FLUSH_GLOBAL));
}

static int has_tm(void)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 64, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.pd = pd,
		.cq = ibv_create_cq(ctx, 64, NULL, NULL, 0),
		.tm_cap = { .max_num_tags = 4, .max_ops = 4 },
	};

	return made(ibv_create_srq_ex(ctx, &init));
}

static int has_odp(void)
{
	return made(ibv_reg_mr(pd, malloc(4096), 4096, IBV_ACCESS_ON_DEMAND));
}

static int has_dm(void)
{
	struct ibv_alloc_dm_attr init = { .length = 64 };

	return made(ibv_alloc_dm(ctx, &init));
}

static int has_null_mr(void)
{
	return made(ibv_alloc_null_mr(pd));
}

static int has_wr_api(void)
{
	return made(qp(IBV_QPT_RC, IBV_QP_EX_WITH_SEND));
}

void features(void)
{
	static const struct {
		const char *name;
		int (*try)(void);
	} all[] = {
		{ "SRQ", has_srq }, { "XRC", has_xrc },		{ "UC", has_uc },
		{ "UD", has_ud },   { "RAW", has_raw },		{ "MCAST", has_mcast },
		{ "MW", has_mw },   { "ATOMICS", has_atomics }, { "IMM", has_imm },
		{ "A19", has_a19 }, { "TM", has_tm },		{ "ODP", has_odp },
		{ "DM", has_dm },   { "NULL_MR", has_null_mr }, { "WR_API", has_wr_api },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		printf("%s %d\n", all[i].name, all[i].try());
}
