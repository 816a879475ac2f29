/* SPDX-License-Identifier: BSD-2-Clause */
/* victim.c - a process that exchanges traffic with an honest peer all the time, and has a
 * QP to a hostile peer, which may harm that QP only. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "evil.h"
#include "pattern.h"
#include "peer.h"

enum { GUARD = 10000 };

static struct {
	struct duo_card victim, honest;
	_Atomic uint32_t victim_is_there, honest_is_there, over, quiet;
} * sh;

/* The objects that the hostile peer may use. */
static struct {
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	uint8_t *map;
} evil;

static void until_both_are_quiet(struct duo *d)
{
	double end = now_s() + 40;

	while (d->busy)
		CHECK(duo_turn(d, false) && now_s() < end);
	sh->quiet++;
	while (sh->quiet < 2)
		CHECK(duo_turn(d, false) && now_s() < end);
	duo_check_guards(d);
	duo_free(d);
}

static void honest(void *arg)
{
	struct duo d;
	struct rig r;

	(void)arg;
	rig_open(&r);
	duo_make(&d, &r, 1);
	sh->honest = d.mine;
	sh->honest_is_there = 1;
	crew_wait(&sh->victim_is_there, 1);
	duo_join(&d, &sh->victim);
	while (!sh->over)
		CHECK(duo_turn(&d, true));
	until_both_are_quiet(&d);
	rig_close(&r);
}

/* --- the hostile one ----------------------------------------------------- */

static void evil_open(struct rig *r)
{
	evil.map = mmap(NULL, EVIL_LEN + 2 * GUARD, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	CHECK(evil.map != MAP_FAILED);
	pattern_fill(evil.map, GUARD, 1);
	pattern_fill(evil.map + GUARD + EVIL_LEN, GUARD, 2);
	evil.pd = ibv_alloc_pd(r->ctx);
	evil.cq = ibv_create_cq(r->ctx, 4 * RIG_DEPTH, NULL, NULL, 0);
	CHECK(evil.pd && evil.cq);
	evil.mr = ibv_reg_mr(evil.pd, evil.map + GUARD, EVIL_LEN, RIG_ACCESS);
	CHECK(evil.mr);
}

static void evil_check(void)
{
	CHECK(pattern_check(evil.map, GUARD, 1) == GUARD);
	CHECK(pattern_check(evil.map + GUARD + EVIL_LEN, GUARD, 2) == GUARD);
}

static void evil_close(void)
{
	CHECK(!ibv_dereg_mr(evil.mr) && !ibv_destroy_cq(evil.cq));
	CHECK(!ibv_dealloc_pd(evil.pd));
	munmap(evil.map, EVIL_LEN + 2 * GUARD);
}

static struct ibv_qp *evil_qp(struct rig *r, const struct evil_card *c)
{
	struct ibv_pd *pd = r->pd;
	struct ibv_cq *cq = r->cq;
	struct ibv_qp *qp;

	r->pd = evil.pd;
	r->cq = evil.cq;
	qp = rig_qp(r);
	r->pd = pd;
	r->cq = cq;
	rig_join(r, qp, c->slot << 14 | c->qpn, CREW_PSN, &r->gid);
	return qp;
}

static void evil_work(struct ibv_qp *qp)
{
	static const enum ibv_wr_opcode op[] = {
		IBV_WR_SEND,
		IBV_WR_RDMA_WRITE,
		IBV_WR_RDMA_READ,
	};
	struct ibv_sge sge = { (uintptr_t)evil.map + GUARD, 9000, evil.mr->lkey };
	struct ibv_recv_wr recv = { .sg_list = &sge, .num_sge = 1 }, *bad_recv;
	struct ibv_send_wr wr = {
		.sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED,
		.wr.rdma = { sge.addr, evil.mr->rkey },
	}, *bad;

	for (unsigned i = 0; i < RIG_DEPTH - 4; i++) {
		wr.opcode = op[i % 3];
		CHECK(!ibv_post_send(qp, &wr, &bad));
		CHECK(!ibv_post_recv(qp, &recv, &bad_recv));
	}
}

static void survive_attack(struct rig *r, struct duo *d, int sock,
			   const struct evil_card *c)
{
	struct ibv_qp *qp = evil_qp(r, c);
	struct victim_card card = {
		.qpn = qp->qp_num,
		.rkey = evil.mr->rkey,
		.addr = evil.mr ? (uintptr_t)evil.mr->addr : 0,
		.gid = r->gid,
		.honest = d->mine,
	};
	unsigned done = d->done;
	struct ibv_wc wc;
	char over;

	evil_work(qp);
	CHECK(send(sock, &card, sizeof(card), 0) == sizeof(card));
	while (recv(sock, &over, 1, MSG_DONTWAIT) < 0) {
		CHECK(errno == EAGAIN);
		CHECK(duo_turn(d, true));
		while (ibv_poll_cq(evil.cq, 1, &wc) > 0)
			;
	}
	while (d->done < done + 20)
		CHECK(duo_turn(d, true));
	evil_check();
	duo_check_guards(d);
	CHECK(!ibv_destroy_qp(qp));
}

int victim(void)
{
	struct evil_card c;
	unsigned attacks = 0;
	struct duo d;
	struct rig r;
	pid_t pid;
	int sock;

	opt.timeout = 18;
	sh = crew_share(sizeof(*sh));
	pid = crew_fork(honest, NULL);
	rig_open(&r);
	duo_make(&d, &r, 2);
	evil_open(&r);
	sh->victim = d.mine;
	sh->victim_is_there = 1;
	crew_wait(&sh->honest_is_there, 1);
	duo_join(&d, &sh->honest);
	sock = peer_meet(NULL, opt.port);
	CHECK(send(sock, &d.mine, sizeof(d.mine), 0) == sizeof(d.mine));
	for (;; attacks++) {
		CHECK(recv(sock, &c, sizeof(c), MSG_WAITALL) == sizeof(c));
		if (c.slot == EVIL_OVER)
			break;
		survive_attack(&r, &d, sock, &c);
	}
	sh->over = 1;
	until_both_are_quiet(&d);
	crew_reap(pid);
	evil_close();
	rig_close(&r);
	say("%u attacks, %u requests: all right", attacks, d.done);
	return 0;
}
