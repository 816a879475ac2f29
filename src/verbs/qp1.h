/* SPDX-License-Identifier: BSD-2-Clause */
/* qp1.h - QP1 of a link (IBTA vol. 1, 10.2.5), by which connection management talks: a
 * UD QP that belongs to no program; each link has one.
 *
 * All calls except qp1_open() and qp1_close() need the turn.
 */
#ifndef VERBS_QP1_H
#define VERBS_QP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/link.h"
#include "sys/list.h"
#include "verbs/qp.h"

struct core;
struct device;
struct transport;

enum {
	QP1_MAD = 256,	 /* bytes of a MAD */
	QP1_SENDS = 256, /* most messages that wait to be sent */
};

/* A received message; valid during the call. */
struct qp1_mad {
	const uint8_t *head; /* the GRH or its equivalent: LINK_HEAD_LEN bytes */
	const uint8_t *bytes;
	size_t len;
	uint16_t slid;
	uint8_t sl;
	uint16_t pkey_index; /* its partition, as index in the port's table */
	uint32_t port;	     /* number of the receiving port; 0: unknown */
};

struct qp1;
struct qp1_user {
	void (*take)(const struct qp1_user *user, const struct qp1_mad *m, uint64_t now);
};

/* Opens QP1 of a link, in all partitions of the port of dev. dev NULL: for all devices
 * of this link, in the default partition. user must live until qp1_close(). Returns 0
 * or -ENOMEM. */
int qp1_open(struct core *core, struct device *dev, struct link *link,
	     const struct transport *transport, const struct qp1_user *user,
	     struct qp1 **out);
void qp1_close(struct qp1 *q);

bool qp1_has_room(const struct qp1 *q);
/* Sends QP1_MAD bytes to the QP1 at `to` with the P_Key at pkey_index; the port's LID
 * is filled in. Returns 0; -ENOMEM: no room; -EINVAL: no path to that address. */
int qp1_send(struct qp1 *q, const struct link_to *to, uint16_t pkey_index,
	     const uint8_t *mad);
/* Returns the P_Key of messages sent with that index. */
uint16_t qp1_pkey(const struct qp1 *q, uint16_t pkey_index);
/* Returns the PSN of the next message to be sent. */
uint32_t qp1_psn(const struct qp1 *q);

/* --- for the transport --------------------------------------------------- */

struct qp1 *qp1_of(const struct core *core, const struct link *link); /* or NULL */
struct qp *qp1_qp(const struct qp1 *q);
/* The transport calls this when the QP may have received a message by the port of that
 * number. */
void qp1_arrived(struct qp1 *q, uint32_t port, uint64_t now);

#endif
