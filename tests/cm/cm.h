/* SPDX-License-Identifier: BSD-2-Clause */
/* cm.h - what the test programs of connection management have in common. */
#ifndef TESTS_CM_H
#define TESTS_CM_H

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define MUST(cond)                                                                       \
	do {                                                                             \
		if (!(cond)) {                                                           \
			fprintf(stderr, "%s:%d: %s (errno %d)\n", __FILE__, __LINE__,    \
				#cond, errno);                                           \
			exit(1);                                                         \
		}                                                                        \
	} while (0)

enum { MSG = 64, WAIT_MS = 20000 };

/* An id with its QP, and buffers for one message each way. */
struct end {
	struct rdma_cm_id *id;
	struct ibv_cq *cq;
	struct ibv_mr *mr;
	unsigned seen;	   /* completions not yet waited for: 1: send, 2: receive */
	char buf[2 * MSG]; /* the message to send; the received one */
};

/* Kills this process (SIGKILL) if `now` is `step`. */
void die_if(const char *step, const char *now);
struct sockaddr_storage cm_address(const char *ip, unsigned port);
struct rdma_event_channel *cm_channel(void);
/* Waits for the next event, which must come, and which the caller acknowledges.
 * cm_expect() also checks type and status; status 1: any. */
/* Where cm_event() sleeps: in rdma_get_cm_event(), or before it in poll(), which ends
 * after WAIT_MS. */
extern bool cm_sleeps_inside;
struct rdma_cm_event *cm_event(struct rdma_event_channel *ch);
struct rdma_cm_event *cm_expect(struct rdma_event_channel *ch,
				enum rdma_cm_event_type type, int status);
void cm_ack(struct rdma_event_channel *ch, enum rdma_cm_event_type type, int status);
void end_make(struct end *e, struct rdma_cm_id *id);
void end_break(struct end *e);
void end_recv(struct end *e);
void end_send(struct end *e);
void end_wait(struct end *e, enum ibv_wc_opcode opcode);

struct rdma_cm_id *cm_listener(struct rdma_event_channel *ch, const char *ip,
			       unsigned port, int backlog);
/* Makes an id with address and route resolved and a QP, ready for rdma_connect(). */
void cm_resolved(struct end *e, struct rdma_event_channel *ch, const char *ip,
		 unsigned port);

int cycles_serve(const char *ip, unsigned port, unsigned n);
/* As cycles_serve(), but uses a listener, and destroys it and its channel. */
void cycles_accept(struct rdma_cm_id *listener, unsigned n);
int cycles_ask(const char *ip, unsigned port, unsigned n);
int at_once_serve(const char *ip, unsigned port, unsigned n);
int at_once_ask(const char *ip, unsigned port, unsigned n);
int in_turn_serve(const char *ip, unsigned port, unsigned n);
int in_turn_ask(const char *ip, unsigned port, unsigned n);
int late_serve(const char *ip, unsigned port, unsigned n);
int late_ask(const char *ip, unsigned port, unsigned n);
int crowd_serve(const char *ip, unsigned port);
int crowd_ask(const char *ip, unsigned port, unsigned n);
int crowd_leave(const char *ip, unsigned port, const char *step);
int deaths_serve(const char *ip, unsigned port, const char *step);
int deaths_ask(const char *ip, unsigned port, const char *step);
int rules(const char *ip, unsigned port);
int wakes_at_once(const char *ip, unsigned port);
int source_port(const char *ip, unsigned port);
int races(const char *ip);
int bad(const char *ip, unsigned port);
int cancel(const char *ip, unsigned port);
int threads(const char *ip, unsigned port);
int forks(const char *ip, unsigned port);
int hold(const char *ip, unsigned port);
int refused(const char *ip, unsigned port);

#endif
