/* SPDX-License-Identifier: BSD-2-Clause */
/* duo.h - verified traffic of two processes, each of which asks and answers:
 * WRITEs that are read back, SENDs, FETCH_ADDs, on two QPs.
 *
 * What the peer may write to lies between patterns that it may not.
 */
#ifndef LOCAL_TESTS_DUO_H
#define LOCAL_TESTS_DUO_H

#include "crew.h"

enum { DUO_QPS = 2, DUO_SLOTS = 4, DUO_LEN = 40000, DUO_RECVS = 8, DUO_SEND = 20000 };

struct duo_card {
	uint32_t qpn[DUO_QPS], rkey;
	uint64_t addr;
	union ibv_gid gid;
};

struct duo {
	struct rig *r;
	struct ibv_qp *qp[DUO_QPS];
	struct ibv_mr *open, *own; /* for the peer; for ourselves */
	uint8_t *map;
	struct duo_card mine, theirs;
	struct duo_slot {
		bool busy;
		enum ibv_wr_opcode op;
		uint32_t len;
		uint64_t seed;
	} slot[DUO_QPS][DUO_SLOTS];
	uint64_t rng, adds[DUO_QPS];
	unsigned busy, started, done, received;
	enum ibv_wc_status bad[DUO_QPS]; /* the first error */
	bool poked[DUO_QPS];		 /* that is out */
	unsigned die_after;		 /* started; 0: never */
	unsigned slow;			 /* us at most, before each QP is joined */
};

void duo_make(struct duo *d, struct rig *r, uint64_t seed);
void duo_join(struct duo *d, const struct duo_card *theirs);
/* Take completions, and post what is free.  False: a QP has failed. */
bool duo_turn(struct duo *d, bool post);
/* Another request, though all may have failed, unless the last one is out. */
void duo_poke(struct duo *d, int q);
void duo_check_guards(const struct duo *d);
void duo_free(struct duo *d);

#endif
