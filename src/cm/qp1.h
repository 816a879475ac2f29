/* SPDX-License-Identifier: BSD-2-Clause */
/* qp1.h - QP1 of a link (IBTA vol. 1, 10.2.5), by which connection management talks. It
 * is no queue pair but the link's own place for MADs: the transport hands in what arrives
 * (verbs/gsi.h), and MADs leave as packets that are made here.
 *
 * All calls except qp1_open() and qp1_close() need the turn. */
#ifndef CM_QP1_H
#define CM_QP1_H

#include <stdbool.h>
#include <stdint.h>

#include "net/link.h"
#include "verbs/gsi.h"

enum { QP1_SENDS = 256 /* most MADs that wait to be sent */ };

/* A MAD that waits for qp1_run(). */
struct qp1_out {
	struct link_addr to;
	uint32_t psn;
	uint16_t pkey;
	uint8_t mad[GSI_MAD];
};

struct qp1 {
	struct gsi gsi; /* must be first */
	struct core *core;
	struct link *link;
	uint64_t said; /* for log_allowed() */
	uint32_t psn;  /* of the next MAD to be sent; each has one */
	/* MADs [tail, head) wait, both modulo 2^32. */
	uint32_t head, tail;
	struct qp1_out out[QP1_SENDS];
};

/* Opens QP1 of a link, in all partitions of the port of dev. dev NULL: for all devices of
 * this link, in the default partition. take() gets the MADs that arrive. Returns 0 or
 * -ENOMEM. */
int qp1_open(struct core *core, struct device *dev, struct link *link,
	     void (*take)(struct gsi *g, const struct gsi_mad *m, uint64_t now),
	     struct qp1 **out);
void qp1_close(struct qp1 *q);

bool qp1_has_room(const struct qp1 *q);
/* Sends GSI_MAD bytes to the QP1 at `to` with the P_Key at pkey_index, by the next
 * qp1_run(); the port's LID is filled in. Returns 0; -ENOMEM: no room; -EINVAL: no path
 * to that address. */
int qp1_send(struct qp1 *q, const struct link_to *to, uint16_t pkey_index,
	     const uint8_t *mad);
/* Hands the MADs that wait to the link. Returns false if the link is broken: they are
 * lost then. */
bool qp1_run(struct qp1 *q, uint64_t now);
/* Returns when qp1_run() next has something to do, ns; UINT64_MAX: no MAD waits. */
uint64_t qp1_deadline(const struct qp1 *q);
/* Returns the P_Key of messages sent with that index. */
uint16_t qp1_pkey(const struct qp1 *q, uint16_t pkey_index);

#endif
