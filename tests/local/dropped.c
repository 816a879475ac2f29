/* SPDX-License-Identifier: BSD-2-Clause */
/* dropped.c - a daemon that opens its device as root and then becomes another user
 * (setuid), and three clients: root's, that user's, a third user's.
 *
 *	--mode=first	it becomes that user before any client is there
 *	--mode=later	it has worked with all of them before
 */
#include <string.h>

#include "crew.h"
#include "pattern.h"

enum { NEW_USER = 5, THIRD_USER = 65534, CLIENTS = 3, ROUNDS = 2 };
/* Offsets in each client's part of the buffers. */
enum {
	PART = 80 << 10,
	IN = 0,
	OUT = 24 << 10,
	BACK = 48 << 10,
	WORD = 72 << 10,
	LEN = 20000,
	SHORT = 3000
};

static const unsigned users[CLIENTS] = { 0, NEW_USER, THIRD_USER };

static struct {
	struct card daemon[CLIENTS], client[CLIENTS];
	_Atomic uint32_t daemon_is_there, is_there[CLIENTS], joined[CLIENTS];
	_Atomic uint32_t may_begin[CLIENTS], sent[CLIENTS], done[CLIENTS];
} * sh;

static struct rig r;

/* The requests that need no help from the peer's program. */
static void reach(struct ibv_qp *qp, const struct card *theirs, size_t part,
		  uint64_t seed)
{
	pattern_fill(r.buf + part + OUT, LEN, seed);
	crew_expect(&r, qp, theirs, IBV_WR_RDMA_WRITE, part + OUT, LEN, part + IN);
	crew_expect(&r, qp, theirs, IBV_WR_RDMA_READ, part + BACK, LEN, part + IN);
	CHECK(pattern_check(r.buf + part + BACK, LEN, seed) == LEN);
	crew_expect(&r, qp, theirs, IBV_WR_ATOMIC_FETCH_AND_ADD, part + WORD, 8,
		    part + WORD + 8);
}

static void be_client(void *arg)
{
	const unsigned i = *(unsigned *)arg;
	const size_t part = i * PART;
	struct ibv_qp *qp;

	crew_wait(&sh->daemon_is_there, 1);
	crew_become(users[i]);
	rig_open(&r);
	qp = rig_qp(&r);
	sh->client[i] = crew_card(&r, qp);
	sh->is_there[i] = 1;
	crew_join(&r, qp, &sh->daemon[i]);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		crew_wait(&sh->may_begin[i], round);
		reach(qp, &sh->daemon[i], part, 10 * round + i);
		crew_expect(&r, qp, &sh->daemon[i], IBV_WR_SEND, part + OUT, SHORT, 0);
		sh->sent[i] = round;
		crew_wait(&sh->done[i], round);
	}
	CHECK(!ibv_destroy_qp(qp));
	rig_close(&r);
}

static void serve_client(struct ibv_qp *qp, unsigned i, uint32_t round)
{
	const size_t part = i * PART;

	crew_recv(&r, qp, part + BACK, LEN);
	sh->may_begin[i] = round;
	crew_wait(&sh->sent[i], round);
	CHECK(rig_wait(&r).status == IBV_WC_SUCCESS);
	CHECK(pattern_check(r.buf + part + BACK, SHORT, 10 * round + i) == SHORT);
	reach(qp, &sh->client[i], part, 100 * round + i);
	sh->done[i] = round;
	say("round %u: the client of user %u is served", round, users[i]);
}

int dropped(void)
{
	bool later = opt.mode && !strcmp(opt.mode, "later");
	unsigned index[CLIENTS];
	struct ibv_qp *qp[CLIENTS];
	pid_t pid[CLIENTS];

	opt.privileged = true;
	sh = crew_share(sizeof(*sh));
	for (unsigned i = 0; i < CLIENTS; i++) {
		index[i] = i;
		pid[i] = crew_fork(be_client, &index[i]);
	}
	rig_open(&r);
	if (!later)
		crew_become(NEW_USER);
	for (unsigned i = 0; i < CLIENTS; i++) {
		qp[i] = rig_qp(&r);
		sh->daemon[i] = crew_card(&r, qp[i]);
	}
	sh->daemon_is_there = 1;
	for (unsigned i = 0; i < CLIENTS; i++) {
		crew_wait(&sh->is_there[i], 1);
		crew_join(&r, qp[i], &sh->client[i]);
	}
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		if (later && round == ROUNDS)
			crew_become(NEW_USER);
		for (unsigned i = 0; i < CLIENTS; i++)
			serve_client(qp[i], i, round);
	}
	for (unsigned i = 0; i < CLIENTS; i++) {
		crew_reap(pid[i]);
		CHECK(!ibv_destroy_qp(qp[i]));
	}
	rig_close(&r);
	say("all right");
	return 0;
}
