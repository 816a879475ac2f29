/* SPDX-License-Identifier: BSD-2-Clause */
/* xrc_msg.h - the messages between two processes of an XRC domain: the process of the
 * target QP (relay.c), which asks, and the process of the SRQ that a request names
 * (carry.c), which answers.
 *
 * Both ends run on one machine, so integers are in its byte order.  The sender is a
 * process of this user, but is not trusted: lengths and numbers are checked.
 * docs/dev/xrc.md has the rules. */
#ifndef IB_XRC_MSG_H
#define IB_XRC_MSG_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>

#include "verbs/xrc.h"
#include "wire/ib_pkt.h"

enum xrc_what {
	XRC_CARRY = 1, /* execute these packets: struct xrc_packet follow */
	XRC_DONE,      /* the answer */
	XRC_FETCH,     /* send a part of a READ response */
	XRC_DATA,      /* the answer: that part follows, or why it is refused */
	XRC_END,       /* this life and all before it have ended; no answer */
};

/* A life is the time between two resets of the target QP.  Each question of a QP has an
 * id, which is larger than that of the question before, and its answer has the same. */
struct xrc_head {
	uint8_t what, zero[3];
	uint32_t qpn; /* of the target QP */
	uint32_t life, id;
};

struct xrc_carry {
	struct xrc_head head;
	struct xrc_name name;
	uint32_t mtu;
	uint32_t access; /* the target QP's access flags */
	uint32_t src_qpn;
	uint8_t sl, zero[3];
};

/* A request from BTH to payload, without pad and ICRC. */
struct xrc_packet {
	uint32_t len; /* of bytes that are used */
	uint8_t bytes[IB_HDR_MAX + 4096];
};

struct xrc_done {
	struct xrc_head head;
	uint32_t done; /* packets that were executed */
	/* enum refusal: why the next one was not, nor any behind it; or XRC_OVERRUN */
	uint32_t refused;
	uint64_t orig; /* result of the last one, if it is an atomic */
};

/* The last request was executed, but its completion overran the CQ: the QP fails. */
enum { XRC_OVERRUN = REFUSALS };

struct xrc_fetch {
	struct xrc_head head;
	struct xrc_name name;
	uint64_t va;
	uint32_t rkey, len;
	uint32_t srqn, zero;
};

struct xrc_data {
	struct xrc_head head;
	uint32_t refused; /* enum refusal; ACCEPTED: the bytes follow */
	uint32_t zero;
};

enum {
	XRC_RUN_MAX = 32,	  /* packets in one XRC_CARRY */
	XRC_BYTES_MAX = 48 << 10, /* bytes of them, or of one XRC_DATA */
};

static_assert(sizeof(struct xrc_name) == 32, "layout");
static_assert(sizeof(struct xrc_carry) == 64, "layout");
static_assert(sizeof(struct xrc_done) == 32, "layout");
static_assert(sizeof(struct xrc_fetch) == 72, "layout");

#endif
