/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc_msg.h - the messages about requests between two processes of an XRC domain: the
 * process of the target QP (relay.c) and the process of the SRQ that a request names
 * (carry.c).
 *
 * Both ends run on one machine, so integers are in its byte order.  The sender is a
 * process of this user, but is not trusted: lengths and numbers are checked.
 * docs/dev/xrc.md has the rules. */
#ifndef IB_XRC_MSG_H
#define IB_XRC_MSG_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "core/xrc.h"

enum xrc_what {
	XRC_CARRY =
		1, /* from the target QP: a request; a packet follows, BTH to payload */
	XRC_DONE,  /* how many requests were executed */
	XRC_END,   /* this life and all before it have ended */
	XRC_FETCH, /* asks for a part of a READ response */
	XRC_DATA,  /* that part, or why it is refused */
	XRC_ASK,   /* asks for an XRC_DONE that XRC_CARRY did not ask for */
};

struct xrc_head {
	uint8_t what, zero[3];
	uint32_t qpn; /* of the target QP */
};

/* Requests are numbered from 0 in each epoch.  A request that is refused ends its
 * epoch: the ones after it in that epoch are not executed.  A life is the time between
 * two resets of the target QP. */
struct xrc_carry {
	struct xrc_head head;
	uint32_t life, epoch, seq;
	uint32_t mtu;
	uint32_t access; /* the target QP's access flags */
	uint32_t src_qpn;
	struct xrc_name name;
	uint8_t sl;
	uint8_t tell; /* the sender wants an XRC_DONE when this one was executed */
	uint8_t zero[6];
};

struct xrc_done {
	struct xrc_head head;
	uint32_t life, epoch;
	uint32_t done; /* requests of this epoch that were executed */
	/* enum refusal: why the next one was not executed; or XRC_OVERRUN */
	uint32_t refused;
	uint64_t orig; /* result of the last one, if it is an atomic */
};

/* The request was executed, but its completion overran the CQ: the QP fails. */
enum { XRC_OVERRUN = REFUSALS };

struct xrc_end {
	struct xrc_head head;
	uint32_t life, zero;
};

struct xrc_ask {
	struct xrc_head head;
	uint32_t life, epoch;
	uint32_t upto; /* send XRC_DONE when this many were executed */
	uint32_t zero;
};

struct xrc_fetch {
	struct xrc_head head;
	uint32_t id, srqn;
	uint64_t va;
	uint32_t rkey, len;
	struct xrc_name name;
};

struct xrc_data {
	struct xrc_head head;
	uint32_t id;
	uint32_t refused; /* enum refusal; ACCEPTED: the bytes follow */
};

enum { XRC_FETCH_MAX = 48 << 10 }; /* bytes of payload in one XRC_DATA */

static_assert(sizeof(struct xrc_name) == 32, "layout");
static_assert(sizeof(struct xrc_carry) == 72, "layout");
static_assert(sizeof(struct xrc_done) == 32, "layout");
static_assert(sizeof(struct xrc_fetch) == 64, "layout");

#endif
