/* SPDX-License-Identifier: BSD-2-Clause */
/* regions.c - a process registers --count regions, each of memory that lies apart, and
 * another one uses all of them. Then every other one goes, and comes again. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "crew.h"
#include "pattern.h"

enum { LEN = 4096, STRIDE = 2 * LEN, PIECE = 200, REFUSALS = 5 };

struct place {
	uint64_t addr;
	uint32_t rkey;
};

static struct {
	struct card owner, user;
	_Atomic uint32_t owner_round, user_round, there, used;
	struct place at[];
} * sh;

static struct rig r;

static uint64_t seed_of(unsigned i, uint32_t round)
{
	return mix((uint64_t)round << 32 | i);
}

/* --- the owner ----------------------------------------------------------- */

static uint8_t *area;
static struct ibv_mr **mrs;

static void make(unsigned i)
{
	mrs[i] = ibv_reg_mr(r.pd, area + (size_t)i * STRIDE, LEN, RIG_ACCESS);
	CHECK(mrs[i]);
	sh->at[i] = (struct place){ (uintptr_t)mrs[i]->addr, mrs[i]->rkey };
}

static void check_all(uint32_t round, unsigned step)
{
	for (unsigned i = 0; i < lopt.count; i += step)
		CHECK(pattern_check(area + (size_t)i * STRIDE, PIECE,
				    seed_of(i, round)) == PIECE);
}

static void used(uint32_t round)
{
	sh->there = round;
	crew_wait(&sh->used, round);
}

static struct ibv_qp *meet_user(uint32_t round)
{
	struct ibv_qp *qp = rig_qp(&r);

	sh->owner = crew_card(&r, qp);
	sh->owner_round = round;
	crew_wait(&sh->user_round, round);
	crew_join(&r, qp, &sh->user);
	return qp;
}

static void owner(void *arg)
{
	struct ibv_qp *qp[REFUSALS + 1];

	(void)arg;
	rig_open(&r);
	area = rig_memory((size_t)lopt.count * STRIDE);
	mrs = calloc(lopt.count, sizeof(*mrs));
	CHECK(mrs);
	for (unsigned i = 0; i < lopt.count; i++)
		make(i);
	qp[0] = meet_user(1);
	used(1);
	check_all(1, 1);
	for (unsigned i = 1; i < lopt.count; i += 2)
		CHECK(!ibv_dereg_mr(mrs[i]));
	for (uint32_t i = 1; i <= REFUSALS; i++)
		qp[i] = meet_user(1 + i);
	used(2);
	check_all(2, 2);
	for (unsigned i = 1; i < lopt.count; i += 2)
		make(i);
	used(3);
	check_all(3, 1);
	for (unsigned i = 0; i < lopt.count; i++)
		CHECK(!ibv_dereg_mr(mrs[i]));
	for (int i = 0; i <= REFUSALS; i++)
		CHECK(!ibv_destroy_qp(qp[i]));
	free(mrs);
	rig_memory_free(area, (size_t)lopt.count * STRIDE);
	rig_close(&r);
}

/* --- the user ------------------------------------------------------------ */

static struct ibv_qp *meet_owner(uint32_t round)
{
	struct ibv_qp *qp = rig_qp(&r);

	crew_wait(&sh->owner_round, round);
	crew_join(&r, qp, &sh->owner);
	sh->user = crew_card(&r, qp);
	sh->user_round = round;
	return qp;
}

static void request(struct ibv_qp *qp, enum ibv_wr_opcode op, size_t at,
		    const struct place *to)
{
	rig_post(&r, qp, op, at, PIECE, to->addr, to->rkey, 0);
}

/* Writes into every step-th region, and reads it back. */
static void use(struct ibv_qp *qp, uint32_t round, unsigned step)
{
	for (unsigned i = 0; i < lopt.count; i += step) {
		pattern_fill(r.buf, PIECE, seed_of(i, round));
		request(qp, IBV_WR_RDMA_WRITE, 0, &sh->at[i]);
		request(qp, IBV_WR_RDMA_READ, LEN, &sh->at[i]);
		for (int n = 0; n < 2; n++)
			CHECK(rig_wait(&r).status == IBV_WC_SUCCESS);
		CHECK(pattern_check(r.buf + LEN, PIECE, seed_of(i, round)) == PIECE);
	}
}

int many_regions(void)
{
	size_t bytes = lopt.count * sizeof(struct place);
	struct ibv_qp *qp[REFUSALS + 1];
	struct place *old = malloc(bytes);
	pid_t pid;

	CHECK(old && lopt.count >= 2 * REFUSALS);
	sh = crew_share(sizeof(*sh) + bytes);
	pid = crew_fork(owner, NULL);
	rig_open(&r);
	qp[0] = meet_owner(1);
	crew_wait(&sh->there, 1);
	memcpy(old, sh->at, bytes);
	use(qp[0], 1, 1);
	sh->used = 1;
	for (uint32_t i = 1; i <= REFUSALS; i++)
		qp[i] = meet_owner(1 + i);
	crew_wait(&sh->there, 2);
	use(qp[0], 2, 2);
	for (unsigned i = 1; i <= REFUSALS; i++) {
		request(qp[i], IBV_WR_RDMA_WRITE, 0,
			&old[(lopt.count / 2 - 1) / REFUSALS * i * 2 - 1]);
		CHECK(rig_wait(&r).status == IBV_WC_REM_ACCESS_ERR);
	}
	sh->used = 2;
	crew_wait(&sh->there, 3);
	use(qp[0], 3, 1);
	sh->used = 3;
	crew_reap(pid);
	for (int i = 0; i <= REFUSALS; i++)
		CHECK(!ibv_destroy_qp(qp[i]));
	free(old);
	rig_close(&r);
	say("%u regions, all right", lopt.count);
	return 0;
}
