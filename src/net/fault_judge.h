/* SPDX-License-Identifier: BSD-2-Clause */
/* fault_judge.h - decides what befalls each datagram of one direction.  No I/O, no clock:
 * the same datagrams at the same times have the same fates. */
#ifndef NET_FAULT_JUDGE_H
#define NET_FAULT_JUDGE_H

#include <stdbool.h>
#include <stdint.h>

#include "net/fault_event.h"
#include "net/fault_spec.h"
#include "sys/rand.h"

struct dgram;

struct fault_fate {
	unsigned what;
	uint64_t due; /* with DELAY, SLOW: when it goes on */
	/* What did it last: an event, a group, from 1; 0: none. */
	unsigned event, group;
	uint32_t qp, psn;   /* with an iteration: of the packet */
	uint16_t iteration; /* how often it goes by, from 1 (fault_event.h); 0: unknown */
	bool response;
};

/* Does this process's QP number qp send d?  d leaves by a link of this process. */
typedef bool fault_sends(void *arg, uint32_t qp, const struct dgram *d);

/* What changes with each datagram: small, so that it can be kept and put back. */
struct fault_state {
	uint64_t seen;
	struct {
		struct prng rng;
		uint64_t seen;	  /* that the group is for */
		uint64_t free_at; /* ns: the rate has let all before through */
		bool bad;	  /* the state of the bursts */
	} group[FAULT_GROUPS_MAX];
	struct fault_step step;
};

struct fault_judge {
	const struct fault_spec *spec;
	int dir; /* FAULT_TX, FAULT_RX */
	bool by_lid;
	bool counts;	    /* iterations, also where no event asks for them */
	fault_sends *sends; /* NULL: a QP is known as the destination only */
	void *arg;
	struct fault_state now;
	struct fault_flows flows;
};

void fault_judge_init(struct fault_judge *j, const struct fault_spec *spec, int dir);

/* Decides on d at time now, which is `since` after the faults began.  Every datagram
 * takes the same number of draws of each group that it is for, so that one rule's outcome
 * does not depend on another's. */
struct fault_fate fault_judge(struct fault_judge *j, const struct dgram *d, uint64_t now,
			      uint64_t since);

/* Puts back what the last fault_judge() has changed; was: j->now before it. */
void fault_judge_undo(struct fault_judge *j, const struct fault_state *was);

/* Writes fate's words: "dropped", "duplicated, delayed". */
void fault_words(char *to, size_t size, unsigned what);

/* Writes what a capture says of the packet: "fault=drop group=1 qp=0x000011 psn=7
 * iteration=1". */
void fault_note(char *to, size_t size, const struct fault_fate *fate);

#endif
