/* SPDX-License-Identifier: BSD-2-Clause */
/* fault_event.h - faults of single packets, named by QP, PSN and iteration, as Lumina
 * does (SIGCOMM 2023).
 *
 *	line = qp psn iteration what [ "response" ]
 *	qp = NUMBER | "flow" N | "*"
 *	psn = NUMBER | "+" N
 *	iteration = N | "*"
 *	what = "drop" | "ecn" | "corrupt" | "reorder" | "dup"
 *
 * A flow is what goes one way to one QP: requests and responses are two flows. qp is the
 * number in the packets, or counts the flows of
 * requests, or of responses, as they begin, from 1, without those to QP 1.
 *"+N" counts PSNs from the flow's first packet, which is +0. The iteration is 1 until the
 *flow goes back to a PSN that it has sent before, then 2, and so on: so "drop" at
 *iterations 1 and 2 loses a packet and its first repetition.
 */
#ifndef NET_FAULT_EVENT_H
#define NET_FAULT_EVENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bth;

/* What can befall a datagram: bits of a set. */
enum fault_what {
	FAULT_DROP = 1 << 0,
	FAULT_DUP = 1 << 1,
	FAULT_REORDER = 1 << 2,
	FAULT_DELAY = 1 << 3,
	FAULT_CORRUPT = 1 << 4,
	FAULT_ECN = 1 << 5,
	FAULT_SLOW = 1 << 6, /* waits for the rate */
	FAULT_FULL = 1 << 7, /* lost: the queue of the rate is full; with FAULT_DROP */
};

struct fault_event {
	uint32_t qp, psn;   /* qp: a number, or that of a flow; 0: any */
	uint16_t iteration; /* 0: each */
	uint8_t what;	    /* one bit of enum fault_what */
	bool is_flow, relative, response;
	bool not_tx, not_rx; /* of the other direction only */
};

/* Takes an event from text, whose parts stand apart by sep. Returns NULL, or what the
 * wrong part should be. */
const char *fault_event_parse(struct fault_event *out, const char *text, char sep);

/* Reads the file into v, from v[*n] on, max events in all. Returns 0, or -errno with the
 * reason in err. */
int fault_events_read(const char *path, struct fault_event *v, unsigned *n, unsigned max,
		      char *err, size_t errlen);

/* Writes e as fault_event_parse() takes it, with the separator. Returns bytes. */
size_t fault_event_write(char *to, size_t size, const struct fault_event *e, char sep);

/* --- the flows of one direction -------------------------------------------------- */

enum { FAULT_FLOWS_MAX = 128 }; /* more are not counted, and meet no event */

struct fault_flow {
	uint32_t qp, first, last, number;
	uint16_t iteration;
	bool response;
};

struct fault_flows {
	unsigned n, numbered[2]; /* of requests, of responses; without those to QP 1 */
	struct fault_flow flow[FAULT_FLOWS_MAX];
};

/* What fault_flow_back() needs to undo a step. */
struct fault_step {
	struct fault_flow *flow, was;
	bool began;
};

/* A packet goes by. Returns its flow, NULL if there are too many. */
const struct fault_flow *fault_flow_step(struct fault_flows *f, const struct bth *bth,
					 struct fault_step *step);
void fault_flow_back(struct fault_flows *f, const struct fault_step *step);

/* Is e for a packet of flow that has just gone by? */
bool fault_event_hits(const struct fault_event *e, const struct fault_flow *flow);

#endif
