/* SPDX-License-Identifier: BSD-2-Clause */
/* stress.h - what the files of the program share: the options, and the state of this
 * side. */
#ifndef STRESS_STRESS_H
#define STRESS_STRESS_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

enum { QPS_MAX = 64, SLOTS = 4, RECVS = 16, SGES = 4, HEAD = 16 };

extern struct options {
	const char *dev, *port, *host;
	int gid, qps, mtu;
	double seconds;
	uint64_t seed, max, max_send, huge;
} opt;

enum kind {
	OP_WRITE,
	OP_WRITE_IMM,
	OP_SEND,
	OP_SEND_IMM,
	OP_ADD,
	OP_ADD_ALL,
	OP_SWAP,
	OP_KINDS
};

struct slot {
	enum kind kind;
	bool busy;
	unsigned waits; /* completions still to come */
	bool answers,
		owes; /* the peer: an answer is under way; another one is to follow */
	uint64_t seed, len;
	uint8_t *out, *back;  /* local memory, `room` bytes each */
	uint64_t room, arena; /* size of each, and its place in an arena */
};

struct conn {
	struct ibv_qp *qp;
	struct slot slot[SLOTS];
	uint64_t adds, swap_value; /* expected values of its own words */
	uint8_t *recv;		   /* RECVS buffers of max_send */
};

/* exchanged at the start */
struct hello {
	uint32_t qpn[QPS_MAX], psn, rkey;
	uint64_t arena;
	union ibv_gid gid;
	int qps;
	uint64_t max, max_send;
};

/* The arena begins with words: the shared sum, then two for each QP. */
enum { WORD_SUM, WORD_QP, WORDS = 1 + 2 * QPS_MAX };

extern struct stress {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_mr *mr_arena, *mr_local;
	uint8_t *arena, *local;
	uint64_t arena_len, local_len;
	struct hello mine, theirs;
	struct conn conn[QPS_MAX];
	uint64_t rng, ops[OP_KINDS], bytes, received, sum_added;
	int sock;
	int errors;
} s;

/* stress.c: */
uint64_t rnd(uint64_t below);
/* Reports wrong data: the error is counted and ends the traffic. */
void wrong(const char *what, int q, uint64_t seed, uint64_t len, uint64_t at);

/* options.c: */
void read_options(int argc, char **argv);

/* setup.c: */
void *memory(uint64_t len);
void lay_out(void); /* memory and arena */
void open_device(void);
void make_objects(void);
void join_all(void); /* with the peer's QPs */
void post_recv(int q, int i);

/* traffic.c: */
void traffic(void);
void answer_until_both_are_done(void);
void compare_sums(void);

/* huge.c: */
void huge(void);

#endif
