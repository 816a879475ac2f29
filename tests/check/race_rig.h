/* SPDX-License-Identifier: BSD-2-Clause */
/* race_rig.h - two processes with two pairs of queue pairs between them, for programs
 * whose requests meet in memory: the one runs a program, the other a loop that answers,
 * or nothing.
 */
#ifndef CHECK_RACE_RIG_H
#define CHECK_RACE_RIG_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define MUST(x) ((x) ? (void)0 : race_failed(#x, __FILE__, __LINE__))
_Noreturn void race_failed(const char *what, const char *file, int line);

enum { MEMORY = 1 << 20, QPS = 2, DEPTH = 64 };

/* Of one process */
struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq[QPS]; /* of both queues of qp[i] */
	struct ibv_qp *qp[QPS];
	struct ibv_mr *mr;
	uint8_t *at;
	uint64_t far; /* the other side's memory */
	uint32_t rkey;
	uint32_t far_qpn[QPS];
	union ibv_gid far_gid;
	pid_t peer; /* the other process; 0: it is this one's parent */
};

struct race_case {
	const char *name;
	void (*run)(struct side *s, bool repaired);
	void (*peer)(struct side *s); /* NULL: the other side does nothing */
};

extern const struct race_case race_onesided[], race_buffer[],
	race_ends[]; /* up to one without name */

/* Takes a queue pair back to RESET, and through its states again, with what differs from
 * the usual. */
void reset(struct side *s, int qp);
struct end_how {
	enum ibv_mtu mtu; /* 0: as usual */
	uint32_t rq_psn;
	uint8_t reads;
};
void connect_again(struct side *s, int qp, struct end_how how);

/* A request of len bytes at `at', to the same place there and `away' bytes behind it. */
struct post {
	enum ibv_wr_opcode op;
	unsigned at, len, flags; /* IBV_SEND_SIGNALED is not set by itself */
	unsigned away;
};
void post(struct side *s, int qp, struct post p);
void post_recv(struct side *s, int qp, unsigned at, unsigned len);
/* Polls until there is a completion, and returns its wr_id: at most 10 s. */
uint64_t reap(struct side *s, int qp);
/* Waits until a byte of this side's memory has that value. */
void await_byte(struct side *s, unsigned at, uint8_t value);
/* Waits until nothing that was posted is on its way: a READ and its completion. */
void settle(struct side *s, int qp);

#endif
