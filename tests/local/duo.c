/* SPDX-License-Identifier: BSD-2-Clause */
#include "duo.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "pattern.h"

#define UNNOTED UINT64_MAX	 /* wr_id of a WRITE whose READ is not yet noted */
#define POKE	(UINT64_MAX - 1) /* wr_id of a request of duo_poke() */
#define RECEIVE (UINT64_C(1) << 32)

/* The buffer: a guard, memory that the peer may write to, a guard, memory of this
 * process alone, a guard. None of them begins or ends at a page. */
enum {
	SKEW = 104,
	GUARD = 20000,
	OPEN = GUARD + SKEW,
	COUNTERS = DUO_QPS * DUO_SLOTS * DUO_LEN,
	OPEN_LEN = COUNTERS + 8 * DUO_QPS,
	OWN = OPEN + OPEN_LEN + GUARD,
	BACK = DUO_QPS * DUO_SLOTS * DUO_LEN,
	RECV = 2 * BACK,
	OWN_LEN = RECV + DUO_QPS * DUO_RECVS * DUO_SEND,
	TOTAL = OWN + OWN_LEN + GUARD,
};

static const struct {
	size_t at, len;
	uint64_t seed;
} guards[] = {
	{ 0, OPEN, 11 },
	{ OPEN + OPEN_LEN, GUARD, 22 },
	{ OWN + OWN_LEN, GUARD, 33 },
};

static uint64_t rnd(struct duo *d)
{
	return mix(d->rng++);
}

static size_t at(int q, int i)
{
	return ((size_t)q * DUO_SLOTS + (size_t)i) * DUO_LEN;
}

static uint8_t *recv_at(const struct duo *d, uint64_t q, uint64_t i)
{
	return d->map + OWN + RECV + (q * DUO_RECVS + i) * DUO_SEND;
}

/* --- making -------------------------------------------------------------- */

void duo_make(struct duo *d, struct rig *r, uint64_t seed)
{
	memset(d, 0, sizeof(*d));
	d->r = r;
	d->rng = mix(seed);
	d->map = rig_memory(TOTAL);
	for (size_t i = 0; i < sizeof(guards) / sizeof(guards[0]); i++)
		pattern_fill(d->map + guards[i].at, guards[i].len, guards[i].seed);
	d->open = ibv_reg_mr(r->pd, d->map + OPEN, OPEN_LEN, RIG_ACCESS);
	d->own = ibv_reg_mr(r->pd, d->map + OWN, OWN_LEN, IBV_ACCESS_LOCAL_WRITE);
	CHECK(d->open && d->own);
	d->mine.rkey = d->open->rkey;
	d->mine.addr = (uintptr_t)d->map + OPEN;
	d->mine.gid = r->gid;
	for (int q = 0; q < DUO_QPS; q++) {
		d->qp[q] = rig_qp(r);
		d->mine.qpn[q] = d->qp[q]->qp_num;
	}
}

static void post_recv(struct duo *d, uint64_t q, uint64_t i)
{
	struct ibv_sge sge = {
		(uintptr_t)recv_at(d, q, i),
		DUO_SEND,
		d->own->lkey,
	};
	struct ibv_recv_wr wr = {
		.wr_id = RECEIVE | q << 8 | i, .sg_list = &sge, .num_sge = 1,
	}, *bad;

	CHECK(!ibv_post_recv(d->qp[q], &wr, &bad));
}

void duo_join(struct duo *d, const struct duo_card *theirs)
{
	d->theirs = *theirs;
	for (int q = 0; q < DUO_QPS; q++) {
		for (uint64_t i = 0; i < DUO_RECVS; i++)
			post_recv(d, (uint64_t)q, i);
		if (d->slow)
			usleep((useconds_t)(rnd(d) % d->slow));
		rig_join(d->r, d->qp[q], theirs->qpn[q], CREW_PSN, &theirs->gid);
	}
}

/* --- asking -------------------------------------------------------------- */

static void post(struct duo *d, int q, uint64_t id, enum ibv_wr_opcode op, size_t from,
		 size_t len, size_t to)
{
	struct ibv_sge sge = {
		(uintptr_t)d->map + OWN + from,
		(uint32_t)len,
		d->own->lkey,
	};
	struct ibv_send_wr wr = {
		.wr_id = id, .opcode = op, .sg_list = &sge, .num_sge = 1,
		.send_flags = id == UNNOTED ? 0 : IBV_SEND_SIGNALED,
		.wr.rdma = { d->theirs.addr + to, d->theirs.rkey },
	}, *bad;

	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		wr.wr.atomic.remote_addr = d->theirs.addr + to;
		wr.wr.atomic.compare_add = 1;
		wr.wr.atomic.swap = 0;
		wr.wr.atomic.rkey = d->theirs.rkey;
	}
	CHECK(!ibv_post_send(d->qp[q], &wr, &bad));
}

static void start(struct duo *d, int q, int i)
{
	struct duo_slot *t = &d->slot[q][i];
	uint64_t id = (uint64_t)q << 8 | (uint64_t)i, dice = rnd(d) % 8;
	uint8_t *out = d->map + OWN + at(q, i);

	t->busy = true;
	t->seed = rnd(d);
	d->busy++;
	if (dice < 4) {
		t->op = IBV_WR_RDMA_READ;
		t->len = 1 + (uint32_t)(rnd(d) % DUO_LEN);
		pattern_fill(out, t->len, t->seed);
		post(d, q, UNNOTED, IBV_WR_RDMA_WRITE, at(q, i), t->len, at(q, i));
		post(d, q, id, t->op, BACK + at(q, i), t->len, at(q, i));
	} else if (dice < 7) {
		t->op = IBV_WR_SEND;
		t->len = 8 + (uint32_t)(rnd(d) % (DUO_SEND - 8));
		memcpy(out, &t->seed, 8);
		pattern_fill(out + 8, t->len - 8, t->seed);
		post(d, q, id, t->op, at(q, i), t->len, 0);
	} else {
		t->op = IBV_WR_ATOMIC_FETCH_AND_ADD;
		t->seed = d->adds[q]++;
		post(d, q, id, t->op, BACK + at(q, i), 8, COUNTERS + 8 * (size_t)q);
	}
	if (++d->started == d->die_after)
		raise(SIGKILL);
}

void duo_poke(struct duo *d, int q)
{
	if (!d->poked[q])
		post(d, q, POKE, IBV_WR_RDMA_WRITE, at(q, 0), 8, at(q, 0));
	d->poked[q] = true;
}

/* --- what comes ---------------------------------------------------------- */

static void finished(struct duo *d, uint64_t q, uint64_t i)
{
	const struct duo_slot *t = &d->slot[q][i];
	const uint8_t *back = d->map + OWN + BACK + at((int)q, (int)i);
	uint64_t old;

	if (t->op == IBV_WR_RDMA_READ)
		CHECK(pattern_check(back, t->len, t->seed) == t->len);
	if (t->op == IBV_WR_ATOMIC_FETCH_AND_ADD) {
		memcpy(&old, back, 8);
		CHECK(old == t->seed);
	}
	d->done++;
}

static void received(struct duo *d, uint64_t q, uint64_t i, size_t len)
{
	const uint8_t *got = recv_at(d, q, i);
	uint64_t seed;

	CHECK(len >= 8);
	memcpy(&seed, got, 8);
	CHECK(pattern_check(got + 8, len - 8, seed) == len - 8);
	d->received++;
	post_recv(d, q, i);
}

static int which(const struct duo *d, uint32_t qpn)
{
	for (int q = 0; q < DUO_QPS; q++)
		if (d->qp[q]->qp_num == qpn)
			return q;
	return -1;
}

static void take(struct duo *d, const struct ibv_wc *wc)
{
	uint64_t i = wc->wr_id & 0xff;
	int q = which(d, wc->qp_num);

	if (q < 0)
		return; /* a completion of a QP that was destroyed */
	if (wc->status != IBV_WC_SUCCESS && !d->bad[q])
		d->bad[q] = wc->status;
	d->poked[q] &= wc->wr_id != POKE;
	if (wc->wr_id == UNNOTED || wc->wr_id == POKE)
		return;
	if (wc->wr_id & RECEIVE) {
		if (wc->status == IBV_WC_SUCCESS)
			received(d, (uint64_t)q, i, wc->byte_len);
		return;
	}
	if (wc->status == IBV_WC_SUCCESS)
		finished(d, (uint64_t)q, i);
	d->slot[q][i].busy = false;
	d->busy--;
}

bool duo_turn(struct duo *d, bool post)
{
	struct ibv_wc wc[16];
	int n = ibv_poll_cq(d->r->cq, 16, wc);

	CHECK(n >= 0);
	for (int i = 0; i < n; i++)
		take(d, &wc[i]);
	for (int q = 0; post && q < DUO_QPS; q++)
		for (int i = 0; i < DUO_SLOTS && !d->bad[q]; i++)
			if (!d->slot[q][i].busy)
				start(d, q, i);
	return !d->bad[0] && !d->bad[1];
}

void duo_check_guards(const struct duo *d)
{
	for (size_t i = 0; i < sizeof(guards) / sizeof(guards[0]); i++)
		CHECK(pattern_check(d->map + guards[i].at, guards[i].len,
				    guards[i].seed) == guards[i].len);
}

void duo_free(struct duo *d)
{
	for (int q = 0; q < DUO_QPS; q++)
		CHECK(!ibv_destroy_qp(d->qp[q]));
	CHECK(!ibv_dereg_mr(d->open) && !ibv_dereg_mr(d->own));
	rig_memory_free(d->map, TOTAL);
}
