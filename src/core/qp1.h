/* SPDX-License-Identifier: BSD-2-Clause */
/* qp1.h - QP1 of a link (IBTA vol. 1, 10.2.5): a UD QP like any other, but that no
 * program has it, and that each link has one.  Connection management talks by it.
 *
 * All calls but qp1_open() and qp1_close() are made with the engine's turn held.
 */
#ifndef CORE_QP1_H
#define CORE_QP1_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/qp.h"
#include "link/link.h"
#include "sys/list.h"

struct core;
struct device;
struct transport;

enum {
	QP1_MAD = 256,	 /* bytes of each message */
	QP1_SENDS = 256, /* that wait to go out */
};

/* A message that has come in; valid during the call. */
struct qp1_mad {
	const uint8_t *head; /* the GRH, or what stands for it: LINK_HEAD_LEN bytes */
	const uint8_t *bytes;
	size_t len;
	uint16_t slid;
	uint8_t sl;
	uint16_t pkey_index; /* in the port's table: the partition that it came in */
	uint32_t port;	     /* of whose number it came in by; 0: not known */
};

struct qp1;
struct qp1_user {
	void (*take)(const struct qp1_user *user, const struct qp1_mad *m, uint64_t now);
};

/* It is in all partitions of its port.
 *
 * user stays where it is until qp1_close().  dev: whose port it is.  NULL: of all devices
 * that have this link, in the default partition.  0 or -ENOMEM. */
int qp1_open(struct core *core, struct device *dev, struct link *link,
	     const struct transport *transport, const struct qp1_user *user,
	     struct qp1 **out);
void qp1_close(struct qp1 *q);

bool qp1_has_room(const struct qp1 *q);
/* Send QP1_MAD bytes to the QP1 at that end, by the P_Key at that index; the port's LID
 * is filled in.  0; -ENOMEM: there is no room; -EINVAL: it leads nowhere. */
int qp1_send(struct qp1 *q, const struct link_to *to, uint16_t pkey_index,
	     const uint8_t *mad);
/* What a message by that index has. */
uint16_t qp1_pkey(const struct qp1 *q, uint16_t pkey_index);
/* What is sent from now on has this PSN, and those that follow. */
uint32_t qp1_psn(const struct qp1 *q);

/* --- for the transport --------------------------------------------------- */

struct qp1 *qp1_of(const struct core *core, const struct link *link); /* or NULL */
struct qp *qp1_qp(const struct qp1 *q);
/* Its QP may have taken a message, which had come in by the port of that number. */
void qp1_arrived(struct qp1 *q, uint32_t port, uint64_t now);

#endif
