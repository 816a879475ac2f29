/* SPDX-License-Identifier: BSD-2-Clause */
/* sim.h - for tests: two NICs with an iWARP device each, and streams between them, in
 * virtual time. */
#ifndef IWARP_SIM_H
#define IWARP_SIM_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "iwarp/iwarp.h"
#include "net/stream_loop.h"
#include "verbs/core.h"
#include "verbs/device.h"
#include "verbs/event.h"
#include "verbs/mr.h"
#include "verbs/qp.h"

enum { SIM_PAIRS = 8 };

#define MS  1000000ull
#define SEC 1000000000ull

struct sim;

/* A connection, as driver/conn.c keeps it. */
struct sim_conn {
	struct qp *qp;
	struct stream *stream;
	bool blocked, ended, paused;
	int lost;
	uint64_t timer; /* what run() returned last */
};

struct sim_node {
	struct sim *sim;
	int side;
	struct core core;
	struct device *dev;
	struct ibv_context ibv;
	struct context ctx;
	struct pd *pd;
	struct sim_conn conn[SIM_PAIRS];
	unsigned ready, ended[3]; /* calls of struct iwarp_user */
};

struct sim {
	struct sim_node node[2];
	uint64_t now;
	uint64_t sent[2]; /* bytes, by side */
};

/* 0 stands for the default in brackets. */
struct sim_conf {
	struct stream_loop_conf stream;
	bool crc, markers[2];	 /* markers: which side wants to receive them */
	unsigned rtr;		 /* the initiator's offer; 0: none */
	uint8_t revision;	 /* [2] */
	uint16_t ird[2], ord[2]; /* [16] */
	bool zero_depth;	 /* ird, ord: 0 means 0, not the default */
};

struct sim *sim_open(void);
void sim_close(struct sim *s);

/* Two QPs in INIT with a CQ each; A is the initiator. */
struct sim_pair {
	struct qp *qp[2];
	struct cq *cq[2];
	struct stream *stream[2];
};
struct sim_pair sim_pair(struct sim *s, struct srq *srq_of_b);
/* Exchanges MPA hellos over a pair of streams, then moves both QPs to RTS. */
void sim_connect(struct sim *s, struct sim_pair *p, const struct sim_conf *conf);
/* Moves B to RTS; returns the other end of its stream, for the test. */
struct stream *sim_connect_raw(struct sim *s, struct sim_pair *p,
			       const struct sim_conf *conf, bool b_initiator);
void sim_unpair(struct sim_pair *p);

struct mr *sim_mr(struct sim *s, int side, void *at, size_t n, int access);

/* Runs until nothing happens any more, at most for ns. */
void sim_run(struct sim *s, uint64_t ns);
bool sim_wait(struct sim *s, struct cq *cq, uint64_t ns, struct ibv_wc *wc);
int sim_event(struct sim *s, int side); /* the next event, or -1 */
void sim_modify(struct sim *s, struct qp *qp, enum ibv_qp_state to);

#endif
