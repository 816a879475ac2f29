/* SPDX-License-Identifier: BSD-2-Clause */
/* limits.c - each limit as the device shows it, what a call that asks for as much
 * returns, and what one that asks for one more returns: "max_sge 30 0 EINVAL". */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "like.h"

static struct ibv_device_attr_ex all;
static const struct ibv_device_attr *attr = &all.orig_attr;

/* Returns 0 or an errno. */
static int try_qp(struct ibv_qp_cap cap)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 4, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .cap = cap, .send_cq = cq, .recv_cq = cq
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &init);
	int rc = qp ? 0 : errno;

	if (qp)
		ibv_destroy_qp(qp);
	ibv_destroy_cq(cq);
	return rc;
}

static int send_wr(uint64_t n)
{
	return try_qp(
		(struct ibv_qp_cap){ .max_send_wr = (uint32_t)n, .max_send_sge = 1 });
}

static int recv_wr(uint64_t n)
{
	return try_qp(
		(struct ibv_qp_cap){ .max_recv_wr = (uint32_t)n, .max_recv_sge = 1 });
}

static int send_sge(uint64_t n)
{
	return try_qp(
		(struct ibv_qp_cap){ .max_send_wr = 4, .max_send_sge = (uint32_t)n });
}

static int recv_sge(uint64_t n)
{
	return try_qp(
		(struct ibv_qp_cap){ .max_recv_wr = 4, .max_recv_sge = (uint32_t)n });
}

/* The greatest value that a QP is made with. */
static uint64_t most_inline(void)
{
	uint64_t low = 0, high = 1 << 16;

	while (low < high) {
		const uint64_t mid = (low + high + 1) / 2;
		const struct ibv_qp_cap cap = { .max_send_wr = 4,
						.max_send_sge = 1,
						.max_inline_data = (uint32_t)mid };

		if (try_qp(cap))
			high = mid - 1;
		else
			low = mid;
	}
	return low;
}

static int inline_data(uint64_t n)
{
	struct ibv_qp_cap cap = { .max_send_wr = 4,
				  .max_send_sge = 1,
				  .max_recv_wr = 4,
				  .max_recv_sge = 1,
				  .max_inline_data = (uint32_t)n };
	static uint8_t data[1 << 16];
	struct ibv_sge sge = { (uintptr_t)data, (uint32_t)n, 0 };
	int rc = try_qp(cap);
	struct end a, b;

	if (rc)
		return rc;
	a = end_make(cap);
	b = end_make(cap);
	end_connect(&a, &b);
	rc = end_receive(&b, BYTES);
	rc = rc ? rc : end_post(&a, IBV_WR_SEND, &b, &sge, 1, IBV_SEND_INLINE);
	rc = rc ? rc : (int)end_wait(&b).status;
	end_destroy(&a);
	end_destroy(&b);
	return rc;
}

/* A request with n SGEs of 8 bytes, executed by a peer. */
static int request(enum ibv_wr_opcode op, int n)
{
	struct ibv_qp_cap cap = { .max_send_wr = 4,
				  .max_send_sge = (uint32_t)attr->max_sge,
				  .max_recv_wr = 4,
				  .max_recv_sge = 1 };
	struct end a = end_make(cap), b = end_make(cap);
	struct ibv_sge sge[64];
	int rc;

	for (int i = 0; i < n; i++)
		sge[i] = (struct ibv_sge){ (uintptr_t)a.buf + 16 * (unsigned)i, 8,
					   a.mr->lkey };
	end_connect(&a, &b);
	rc = end_post(&a, op, &b, sge, n, 0);
	rc = rc ? rc : (int)end_wait(&a).status;
	end_destroy(&a);
	end_destroy(&b);
	return rc;
}

static int sge_rd(uint64_t n)
{
	return request(IBV_WR_RDMA_READ, (int)n);
}

static int atomic(uint64_t n)
{
	return n ? request(IBV_WR_ATOMIC_CMP_AND_SWP, 1) : 0;
}

static int cqe(uint64_t n)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, (int)n, NULL, NULL, 0);

	return cq ? ibv_destroy_cq(cq) : errno;
}

/* The request itself fails: the region is shorter. */
static int msg_size(uint64_t n)
{
	const struct ibv_qp_cap cap = {
		.max_send_wr = 4, .max_send_sge = 1, .max_recv_wr = 4, .max_recv_sge = 1
	};
	struct end a = end_make(cap), b = end_make(cap);
	struct ibv_sge sge = { (uintptr_t)a.buf, (uint32_t)n, a.mr->lkey };
	int rc;

	end_connect(&a, &b);
	rc = end_post(&a, IBV_WR_RDMA_WRITE, &b, &sge, 1, 0);
	if (!rc && end_wait(&a).status != IBV_WC_LOC_PROT_ERR)
		rc = -1;
	end_destroy(&a);
	end_destroy(&b);
	return rc;
}

/* Regions are pinned: one at the limit would fill the memory. */
static int mr_size(uint64_t n)
{
	if (n <= attr->max_mr_size)
		return 0;
	void *at = mmap(NULL, n, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE,
			-1, 0);
	struct ibv_mr *mr = at == MAP_FAILED ? NULL : ibv_reg_mr(pd, at, n, 0);
	int rc = mr ? 0 : errno;

	if (at == MAP_FAILED)
		die("mmap of %llu bytes", (unsigned long long)n);
	if (mr)
		ibv_dereg_mr(mr);
	munmap(at, n);
	return rc;
}

/* One is there already. */
static int pds(uint64_t n)
{
	struct ibv_pd **v = calloc(n, sizeof(*v));
	uint64_t got = 1;
	int rc = 0;

	while (got < n && !rc) {
		v[got] = ibv_alloc_pd(ctx);
		if (v[got])
			got++;
		else
			rc = errno;
	}
	while (got > 1)
		ibv_dealloc_pd(v[--got]);
	free(v);
	return rc;
}

static int depth(uint64_t n, bool initiator)
{
	const struct ibv_qp_cap cap = { .max_send_wr = 4, .max_send_sge = 1 };
	struct end a = end_make(cap), b = end_make(cap);
	int rc = end_init(&a);

	a.depth = initiator ? 1 : (uint8_t)n;
	rc = rc ? rc : end_rtr(&a, &b);
	a.depth = (uint8_t)n;
	if (initiator)
		rc = rc ? rc : end_rts(&a);
	end_destroy(&a);
	end_destroy(&b);
	return rc;
}

static int rd_atom(uint64_t n)
{
	return depth(n, false);
}

static int init_rd_atom(uint64_t n)
{
	return depth(n, true);
}

static int srq(uint32_t wr, uint32_t sge)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = wr, .max_sge = sge } };
	struct ibv_srq *s = ibv_create_srq(pd, &init);

	return s ? ibv_destroy_srq(s) : errno;
}

static int srq_wr(uint64_t n)
{
	return n ? srq((uint32_t)n, 1) : 0;
}

static int srq_sge(uint64_t n)
{
	return n ? srq(4, (uint32_t)n) : 0;
}

static int gids(uint64_t n)
{
	union ibv_gid gid;

	errno = EINVAL;
	return ibv_query_gid(ctx, 1, (int)n - 1, &gid) ? errno : 0;
}

static void show(const char *name, uint64_t limit, int (*try)(uint64_t n))
{
	const int at = try(limit), above = try(limit + 1);

	printf("%s %llu %d %d\n", name, (unsigned long long)limit, at, above);
}

void limits(void)
{
	struct ibv_port_attr port;

	if (ibv_query_device_ex(ctx, NULL, &all) || ibv_query_port(ctx, 1, &port))
		die("query");
	show("max_qp_wr", (uint64_t)attr->max_qp_wr, send_wr);
	show("max_qp_wr", (uint64_t)attr->max_qp_wr, recv_wr);
	show("max_sge", (uint64_t)attr->max_sge, send_sge);
	show("max_sge", (uint64_t)attr->max_sge, recv_sge);
	show("max_sge_rd", (uint64_t)attr->max_sge_rd, sge_rd);
	show("max_inline_data", most_inline(), inline_data);
	show("max_cqe", (uint64_t)attr->max_cqe, cqe);
	if (attr->max_mr_size < UINT64_MAX)
		show("max_mr_size", attr->max_mr_size, mr_size);
	show("max_msg_sz", port.max_msg_sz, msg_size);
	show("max_pd", (uint64_t)attr->max_pd, pds);
	show("max_qp_rd_atom", (uint64_t)attr->max_qp_rd_atom, rd_atom);
	show("max_qp_init_rd_atom", (uint64_t)attr->max_qp_init_rd_atom, init_rd_atom);
	show("max_srq_wr", (uint64_t)attr->max_srq_wr, srq_wr);
	show("max_srq_sge", (uint64_t)attr->max_srq_sge, srq_sge);
	show("gid_tbl_len", (uint64_t)port.gid_tbl_len, gids);
	printf("atomic_cap %d %d %d\n", attr->atomic_cap,
	       attr->atomic_cap ? atomic(1) : 0, attr->atomic_cap ? 0 : atomic(1));
}
