/* SPDX-License-Identifier: BSD-2-Clause */
/* hidden.c - bugs that urnic's patience and wide limits hide, and hardware shows.  Each
 * program says "ok" and ends with 0, or says what failed and ends with 3. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "like.h"

static const struct ibv_qp_cap usual = {
	.max_send_wr = 16, .max_send_sge = 1, .max_recv_wr = 16, .max_recv_sge = 1
};

static int result(const char *what, int rc)
{
	if (!rc) {
		puts("ok");
		return 0;
	}
	printf("%s: %s\n", what, strerror(rc));
	return 3;
}

static int status(struct ibv_wc wc)
{
	puts(wc.status ? ibv_wc_status_str(wc.status) : "ok");
	return wc.status ? 3 : 0;
}

/* The peer posts its receive when the SEND has come, and rnr_retry is 0.  More than once,
 * as a SEND may come late on a busy machine. */
static int late_receive(void)
{
	enum { ROUNDS = 20, POLLS = 100 };
	struct end a = end_make(usual), b = end_make(usual);
	struct ibv_sge sge = { (uintptr_t)a.buf, 64, a.mr->lkey };
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS };

	a.rnr_retry = 0;
	end_connect(&a, &b);
	for (int round = 0; round < ROUNDS && !wc.status; round++) {
		end_post(&a, IBV_WR_SEND, &b, &sge, 1, 0);
		for (int i = 0; i < POLLS; i++)
			(void)ibv_poll_cq(b.cq, 1, &wc);
		end_receive(&b, 64);
		wc = end_wait(&a);
		if (!wc.status)
			wc = end_wait(&b);
	}
	return status(wc);
}

/* One end says 1024, the other 256. */
static int mtus(enum ibv_wr_opcode op, uint32_t length, enum ibv_mtu here,
		enum ibv_mtu there)
{
	struct end a = end_make(usual), b = end_make(usual);
	struct ibv_sge sge = { (uintptr_t)a.buf, length, a.mr->lkey };
	int rc;

	a.mtu = here;
	b.mtu = there;
	end_connect(&a, &b);
	if (op == IBV_WR_SEND && end_receive(&b, BYTES))
		die("post_recv");
	rc = end_post(&a, op, &b, &sge, 1, 0);
	return rc ? result("post_send", rc) : status(end_wait(&a));
}

static int other_mtu(void)
{
	return mtus(IBV_WR_RDMA_WRITE, 1000, IBV_MTU_1024, IBV_MTU_256);
}

static int other_mtu_send(void)
{
	return mtus(IBV_WR_SEND, 4000, IBV_MTU_256, IBV_MTU_1024);
}

static int other_mtu_read(void)
{
	return mtus(IBV_WR_RDMA_READ, 1000, IBV_MTU_1024, IBV_MTU_256);
}

/* What fits a packet of either end is no error. */
static int other_mtu_short(void)
{
	return mtus(IBV_WR_RDMA_WRITE, 256, IBV_MTU_1024, IBV_MTU_256);
}

/* A QP as generous as urnic allows, without a look at ibv_query_device(). */
static int wide(void)
{
	struct ibv_qp_cap cap = { .max_send_wr = 128,
				  .max_send_sge = 16,
				  .max_recv_wr = 128,
				  .max_recv_sge = 1,
				  .max_inline_data = 512 };
	struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC, .cap = cap, .send_cq = cq, .recv_cq = cq
	};

	return result("create_qp", ibv_create_qp(pd, &init) ? 0 : errno);
}

/* 16 MiB, with RLIMIT_MEMLOCK at 64 KiB. */
static int memlock(void)
{
	const struct rlimit most = { 65536, 65536 };
	const size_t size = 16 << 20;

	setrlimit(RLIMIT_MEMLOCK, &most);
	return result("reg_mr",
		      ibv_reg_mr(pd, calloc(1, size), size, IBV_ACCESS_LOCAL_WRITE)
			      ? 0
			      : errno);
}

/* A buffer far larger than what will be used of it. */
static int sparse(void)
{
	enum { SIZE = 2 << 20, PAGE = 4096 };
	static unsigned char there[SIZE / PAGE];
	void *at = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
	unsigned n = 0;

	if (at == MAP_FAILED || !ibv_reg_mr(pd, at, SIZE, IBV_ACCESS_LOCAL_WRITE) ||
	    mincore(at, SIZE, there))
		die("reg_mr");
	for (unsigned i = 0; i < SIZE / PAGE; i++)
		n += there[i] & 1;
	puts(n == SIZE / PAGE ? "sparse: all pages are in memory" : "ok");
	return n == SIZE / PAGE ? 3 : 0;
}

static int srq(void)
{
	struct ibv_srq_init_attr init = { .attr = { .max_wr = 64, .max_sge = 1 } };

	return result("create_srq", ibv_create_srq(pd, &init) ? 0 : errno);
}

static int window(void)
{
	return result("alloc_mw", ibv_alloc_mw(pd, IBV_MW_TYPE_2) ? 0 : errno);
}

static int atomics(void)
{
	struct end a = end_make(usual), b = end_make(usual);
	struct ibv_sge sge = { (uintptr_t)a.buf, 8, a.mr->lkey };
	int rc;

	end_connect(&a, &b);
	rc = end_post(&a, IBV_WR_ATOMIC_CMP_AND_SWP, &b, &sge, 1, 0);
	return rc ? result("post_send", rc) : status(end_wait(&a));
}

static int datagrams(void)
{
	struct ibv_cq *cq = ibv_create_cq(ctx, 64, NULL, NULL, 0);
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_UD, .cap = usual, .send_cq = cq, .recv_cq = cq
	};

	return result("create_qp", ibv_create_qp(pd, &init) ? 0 : errno);
}

static int gather_read(void)
{
	struct ibv_qp_cap cap = usual;
	struct ibv_sge sge[2];
	struct end a, b;
	int rc;

	cap.max_send_sge = 2;
	a = end_make(cap);
	b = end_make(cap);
	sge[0] = (struct ibv_sge){ (uintptr_t)a.buf, 8, a.mr->lkey };
	sge[1] = (struct ibv_sge){ (uintptr_t)a.buf + 64, 8, a.mr->lkey };
	end_connect(&a, &b);
	rc = end_post(&a, IBV_WR_RDMA_READ, &b, sge, 2, 0);
	return rc ? result("post_send", rc) : status(end_wait(&a));
}

int hidden(const char *what)
{
	static const struct {
		const char *name;
		int (*run)(void);
	} all[] = {
		{ "late-receive", late_receive },
		{ "other-mtu", other_mtu },
		{ "other-mtu-send", other_mtu_send },
		{ "other-mtu-read", other_mtu_read },
		{ "other-mtu-short", other_mtu_short },
		{ "wide", wide },
		{ "memlock", memlock },
		{ "sparse", sparse },
		{ "srq", srq },
		{ "window", window },
		{ "atomics", atomics },
		{ "datagrams", datagrams },
		{ "gather-read", gather_read },
		{ "last-byte", last_byte },
		{ "last-byte-repaired", last_byte_repaired },
		{ "two-qps", two_qps },
		{ "two-qps-repaired", two_qps_repaired },
		{ "one-poll", one_poll },
		{ "one-poll-repaired", one_poll_repaired },
		{ "late-send", late_send },
		{ "late-send-repaired", late_send_repaired },
		{ "two-senders", two_senders },
		{ "two-senders-repaired", two_senders_repaired },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (!strcmp(all[i].name, what))
			return all[i].run();
	return 2;
}
