/* SPDX-License-Identifier: BSD-2-Clause */
/* bugs.h - small programs that each do one thing wrong, and the same repaired: what
 * `urnic run --check' must find, and must not. */
#ifndef CHECK_BUGS_H
#define CHECK_BUGS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#define MUST(x) ((x) ? (void)0 : bug_failed(#x, __FILE__, __LINE__))
_Noreturn void bug_failed(const char *what, const char *file, int line);

struct bug {
	const char *name; /* of the check that finds it, then maybe "/VARIANT" */
	void (*run)(bool repaired);
};

/* In each file, up to a row without a name. */
extern const struct bug bugs_queues[], bugs_ends[], bugs_memory[];

/* A device, and two connected queue pairs of this process. */
enum { RIG_DEPTH = 8, RIG_BUF = 64 << 10, RIG_ALL = 0xf };

struct rig {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_comp_channel *channel;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	struct ibv_qp *a, *b;
	uint8_t *buf;
	union ibv_gid gid;
};

/* What differs from a proper rig: 0 for each means as usual. */
struct rig_how {
	unsigned cqe, depth;
	bool two_recv_cqs;
	unsigned access; /* of the region */
	unsigned qp_access;
	int rnr_retry; /* 7; -1: 0 */
	int timeout;
	bool no_channel;
	int mtu_a; /* path MTU of a alone */
};

void rig_open(struct rig *r, const struct rig_how *how); /* how may be NULL */
void rig_connect(struct rig *r, const struct rig_how *how);
/* Another queue pair in INIT. */
struct ibv_qp *rig_qp(struct rig *r, const struct rig_how *how);
/* Destroys all in order. */
void rig_close(struct rig *r);

/* A request of len bytes at buf + at, to 32 KiB behind it if it has an address. */
struct ibv_send_wr *rig_wr(struct rig *r, enum ibv_wr_opcode op, unsigned at,
			   unsigned len, bool signaled);
/* Posts it; returns as ibv_post_send() does. */
int rig_post(struct ibv_qp *qp, struct ibv_send_wr *wr);
int rig_recv(struct rig *r, struct ibv_qp *qp, unsigned at, unsigned len);
/* Polls for the next completion, at most 10 s. */
struct ibv_wc rig_wait(struct ibv_cq *cq);
void rig_sleep(unsigned ms);
/* A thread acknowledges one event, after a while: until then ibv_destroy_cq() waits. */
void rig_ack_later(struct ibv_cq *cq);

#endif
