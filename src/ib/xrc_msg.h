/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc_msg.h - what two processes of an XRC domain say to each other about requests: that
 * of the target QP (relay.c), and that of an SRQ which a request names (carry.c).
 *
 * Both ends run on one machine, so integers are in its byte order.  The sender is one of
 * this user's processes, and is believed in nothing: lengths and numbers are checked.
 * docs/xrc.md has the rules.
 */
#ifndef IB_XRC_MSG_H
#define IB_XRC_MSG_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "core/xrc.h"

enum xrc_what {
	XRC_CARRY =
		1, /* a request, from the target QP; a packet follows, BTH to payload */
	XRC_DONE,  /* how far they were carried out */
	XRC_END,   /* there will be no more of this life, nor of those before it */
	XRC_FETCH, /* a part of a READ's answer is wanted */
	XRC_DATA,  /* ... and follows */
	XRC_ASK,   /* XRC_DONE is wanted, after all */
};

struct xrc_head {
	uint8_t what, zero[3];
	uint32_t qpn; /* of the target QP */
};

/* Requests are numbered from 0 in each epoch.  One that is refused ends its epoch: what
 * follows of it is not carried out.  A life is the time between two resets of the target
 * QP. */
struct xrc_carry {
	struct xrc_head head;
	uint32_t life, epoch, seq;
	uint32_t mtu;
	uint32_t access; /* the target QP's rights */
	uint32_t src_qpn;
	struct xrc_name name;
	uint8_t sl;
	uint8_t tell; /* when this one was carried out, XRC_DONE is wanted */
	uint8_t zero[6];
};

struct xrc_done {
	struct xrc_head head;
	uint32_t life, epoch;
	uint32_t done;	  /* so many were carried out */
	uint32_t refused; /* enum refusal: why the next one was not; or XRC_OVERRUN */
	uint64_t orig;	  /* of the last one: an atomic's result */
};

/* It was carried out, and its CQ is overrun: the QP fails. */
enum { XRC_OVERRUN = REFUSALS };

struct xrc_end {
	struct xrc_head head;
	uint32_t life, zero;
};

struct xrc_ask {
	struct xrc_head head;
	uint32_t life, epoch;
	uint32_t upto; /* when so many were carried out */
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

enum { XRC_FETCH_MAX = 48 << 10 }; /* bytes of one XRC_DATA */

static_assert(sizeof(struct xrc_name) == 32, "layout");
static_assert(sizeof(struct xrc_carry) == 72, "layout");
static_assert(sizeof(struct xrc_done) == 32, "layout");
static_assert(sizeof(struct xrc_fetch) == 64, "layout");

#endif
