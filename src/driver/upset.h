/* SPDX-License-Identifier: BSD-2-Clause */
/* upset.h - faults of verbs: calls that fail, completions with an error, asynchronous
 * events, a port that goes down; from the start (URNIC_FAULT) or as `urnic fault' asks.
 * They act at once, on all devices of the process.
 *
 *	fail=CALL:N[+][:ERRNO]		the N-th call fails; with + all from then on
 *	wc=N[+]:STATUS[:QP]		the N-th completion without an error that the
 *					program polls has the status; its QP goes to ERR
 *	async=EVENT[:QP]		the event comes now, or from the start to each
 *					context when it is opened; a fatal one of a QP
 *					also fails it
 *	port=down|up			what ports say of themselves, and the event;
 *					until the other one, or clear
 *
 * CALL is one of upset_calls(); ERRNO is ENOMEM unless given.  Counts begin when the
 * faults are set.  An ibv_wr_complete() is a post_send.
 */
#ifndef DRIVER_UPSET_H
#define DRIVER_UPSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct nic;

enum { UPSET_RULES = 16 };

enum upset_kind { UPSET_FAIL, UPSET_WC, UPSET_ASYNC, UPSET_PORT };

struct upset_rule {
	enum upset_kind kind;
	unsigned call;		/* enum upset_call */
	int code;		/* errno; status; event; 1: the port is up */
	bool onwards;		/* not the n-th alone, but all from then on */
	bool at_open;		/* an event for each context that is opened */
	uint32_t qpn;		/* 0: any */
	uint64_t n, seen, hits; /* seen: so far */
};

struct upset_spec {
	unsigned n;
	struct upset_rule rule[UPSET_RULES];
};

/* Copies the items of spec that are of verbs into *out, and the others, which are of the
 * wire, into `wire', as long as spec.  Returns 0, or -EINVAL with the reason in err. */
int upset_parse(struct upset_spec *out, char *wire, const char *spec, char *err,
		size_t errlen);

/* Are there the QPs that the events are of?  Returns 0, or -EINVAL with the reason in
 * err. The turn must be held. */
int upset_check(struct nic *nic, const struct upset_spec *spec, char *err, size_t errlen);

/* From now on these act; those of events and ports act now.  The turn must be held. */
void upset_set(struct nic *nic, const struct upset_spec *spec, uint64_t now);
/* The same for a NIC that is being opened. */
void upset_start(struct nic *nic, const struct upset_spec *spec);
/* The NIC is closed: nothing acts any more. */
void upset_end(void);

/* Writes a line for each rule that counts. */
void upset_show(FILE *out);

/* In the child of a fork. */
void upset_forked(void);

/* A row of the table of keys, for help; NULL after the last. */
struct upset_key {
	const char *name, *value, *text;
};
const struct upset_key *upset_key(unsigned i);

#endif
