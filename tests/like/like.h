/* SPDX-License-Identifier: BSD-2-Clause */
/* like.h - a program that asks a device for its limits and for one more, and programs
 * that work on urnic and fail on hardware. */
#ifndef TESTS_LIKE_H
#define TESTS_LIKE_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

extern struct ibv_context *ctx;
extern struct ibv_pd *pd;

enum { BYTES = 1 << 16 };

/* A QP of one process, with memory of its own. */
struct end {
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	uint8_t *buf;
	enum ibv_mtu mtu;
	uint8_t min_rnr_timer, rnr_retry, depth;
};

struct end end_make(struct ibv_qp_cap cap);
/* Connects two ends of this process; ends the program on failure. */
void end_connect(struct end *a, struct end *b);
/* INIT, RTR and RTS one by one; return 0 or an errno. */
int end_init(struct end *e);
int end_rtr(struct end *e, const struct end *peer);
int end_rts(struct end *e);
int end_post(struct end *e, enum ibv_wr_opcode op, const struct end *to,
	     struct ibv_sge *sge, int n, unsigned flags);
int end_receive(struct end *e, uint32_t length);
/* Waits for one completion; returns it. */
struct ibv_wc end_wait(struct end *e);
void end_destroy(struct end *e);

__attribute__((format(printf, 1, 2), noreturn)) void die(const char *fmt, ...);

/* limits.c: prints each limit, and what the calls at the limit and above it return. */
void limits(void);
/* features.c: tries each feature, and prints what that returns. */
void features(void);
/* reported.c: prints the depths that queues are given, and the vendor_err of errors. */
void depths(void);
void vendors(void);
/* hidden.c: bugs that only hardware shows.  Returns the exit status. */
int hidden(const char *what);

/* order.c: what relies on an order that verbs do not promise, and repaired. */
int last_byte(void);
int last_byte_repaired(void);
int two_qps(void);
int two_qps_repaired(void);
int one_poll(void);
int one_poll_repaired(void);
int late_send(void);
int late_send_repaired(void);
int two_senders(void);
int two_senders_repaired(void);

#endif
