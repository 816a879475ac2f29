/* SPDX-License-Identifier: BSD-2-Clause */
/* duo.h - verified traffic between two processes, which both send requests: WRITEs that
 * are read back, SENDs and FETCH_ADDs, on two QPs.
 *
 * The memory that the peer may write lies between patterns that must not change.
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
	/* Open: for the peer's requests; own: for this process's requests. */
	struct ibv_mr *open, *own;
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
	bool poked[DUO_QPS];		 /* duo_poke()'s request is outstanding */
	unsigned die_after;		 /* dies after so many requests; 0: never */
	unsigned slow; /* waits up to so many us before joining each QP */
};

void duo_make(struct duo *d, struct rig *r, uint64_t seed);
void duo_join(struct duo *d, const struct duo_card *theirs);
/* Takes completions and, if post, fills free slots with requests.  Returns false if a QP
 * has failed. */
bool duo_turn(struct duo *d, bool post);
/* Posts another request, even if the QP has failed, unless one is outstanding. */
void duo_poke(struct duo *d, int q);
void duo_check_guards(const struct duo *d);
void duo_free(struct duo *d);

#endif
