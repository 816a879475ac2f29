/* SPDX-License-Identifier: BSD-2-Clause */
/* rmpp.h - messages longer than a MAD, in segments (IBTA vol. 1, 13.6), for agents that
 * ask for it, as in Linux; rmpp_tx.c sends, rmpp_rx.c receives.
 *
 * A message consists of the first segment's headers and the data of all segments.
 */
#ifndef UMAD_RMPP_H
#define UMAD_RMPP_H

#include "umad/umad_own.h"

enum rmpp_type { RMPP_DATA = 1, RMPP_ACK, RMPP_STOP, RMPP_ABORT };

enum { RMPP_ACTIVE = 1, RMPP_FIRST = 2, RMPP_LAST = 4, RMPP_FLAGS = 7 };

/* 13.6.2.1, with Linux' names */
enum rmpp_status {
	RMPP_OK,
	RMPP_NO_RESOURCES = 1,
	RMPP_TOO_LONG_TIME = 118,
	RMPP_BAD_LENGTH,
	RMPP_BAD_SEGMENT,
	RMPP_BAD_TYPE,
	RMPP_WINDOW_TOO_SMALL,
	RMPP_SEGMENT_TOO_BIG,
	RMPP_BAD_STATUS,
	RMPP_BAD_VERSION,
};

enum {
	RMPP_HEAD = 36, /* offset from which the payload length counts */
	RMPP_PAYLOAD = MAD_SIZE - RMPP_HEAD,
};

struct rmpp_hdr {
	struct mad_hdr h;
	uint8_t version, type, rtime_flags, status;
	be32_t segment;
	be32_t length; /* in an ACK: the last segment of the new window */
} MAD_OVERLAY;

static_assert(sizeof(struct rmpp_hdr) == RMPP_HEAD, "RMPP");

static inline struct rmpp_hdr *rmpp_of(uint8_t *mad)
{
	return (struct rmpp_hdr *)mad;
}

/* Returns the offset of a class's data, behind its own header; 0: the class has no
 * RMPP. */
static inline unsigned rmpp_data_at(uint8_t class)
{
	switch (class) {
	case MAD_SA:
		return 56;
	case 0x06:
	case 0x10:
	case 0x12: /* device management and similar classes */
		return 64;
	default:
		return class >= MAD_VENDOR2 && class <= MAD_VENDOR2_LAST ? 40 : 0;
	}
}

static inline bool rmpp_is_active(const uint8_t *mad)
{
	const struct rmpp_hdr *r = (const struct rmpp_hdr *)mad;

	return rmpp_data_at(r->h.class) && r->rtime_flags & RMPP_ACTIVE;
}

/* Does umad do RMPP for the agent? Otherwise segments are treated as other MADs. */
static inline bool rmpp_serves(const struct agent *a)
{
	return a->reg.rmpp && !a->reg.own_rmpp;
}

/* Begins to send a message of an agent, with its first segment. Returns 0 or -errno. */
int rmpp_send(struct agent *a, const struct umad_hdr *hdr, const struct mad_pkt *pkt,
	      const uint8_t *msg, size_t len);
void rmpp_tx_due(struct req *r);

/* Handles a packet for an agent with RMPP. Returns false if it does not belong to
 * RMPP. */
bool rmpp_input(struct agent *a, const struct mad_pkt *pkt);

/* rmpp_tx.c, called by rmpp_input(): handles an ACK, STOP or ABORT. */
void rmpp_tx_answer(struct agent *a, const struct mad_pkt *pkt);
/* rmpp_rx.c: handles a segment. */
void rmpp_rx_data(struct agent *a, const struct mad_pkt *pkt);
void rmpp_rx_drop(struct agent *a); /* drops all messages that are being received */

/* Sends an RMPP packet without data to where pkt came from. */
void rmpp_reply(struct agent *a, const struct mad_pkt *pkt, enum rmpp_type type,
		uint8_t status, uint32_t segment, uint32_t window);

#endif
