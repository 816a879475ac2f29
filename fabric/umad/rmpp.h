/* SPDX-License-Identifier: BSD-2-Clause */
/* rmpp.h - messages longer than a MAD, sent in segments by RMPP (IBA 13.6), as Linux does
 * for agents that ask for it.  rmpp_tx.c sends, rmpp_rx.c receives.
 *
 * The program reads and writes a message as the first segment's headers, followed by the
 * data of all segments.
 */
#ifndef FABRIC_UMAD_RMPP_H
#define FABRIC_UMAD_RMPP_H

#include "fabric/umad/umad_own.h"

enum rmpp_type { RMPP_DATA = 1, RMPP_ACK, RMPP_STOP, RMPP_ABORT };

enum { RMPP_ACTIVE = 1, RMPP_FIRST = 2, RMPP_LAST = 4, RMPP_FLAGS = 7 };

/* IBA 13.6.2.1; the names are Linux's. */
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
	RMPP_HEAD = 36, /* bytes; a segment's payload length counts what follows them */
	RMPP_PAYLOAD = MAD_SIZE - RMPP_HEAD,
};

struct rmpp_hdr {
	struct mad_hdr h;
	uint8_t version, type, rtime_flags, status;
	be32_t segment;
	be32_t length; /* DATA: payload length; ACK: the last segment of the new window */
} MAD_OVERLAY;

static_assert(sizeof(struct rmpp_hdr) == RMPP_HEAD, "RMPP");

static inline struct rmpp_hdr *rmpp_of(uint8_t *mad)
{
	return (struct rmpp_hdr *)mad;
}

/* The offset of the data in a MAD of this class, after the class's own header; 0: the
 * class has no RMPP. */
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

/* Does this code do RMPP for the agent?  If not, segments pass like any other MAD. */
static inline bool rmpp_serves(const struct agent *a)
{
	return a->reg.rmpp && !a->reg.own_rmpp;
}

/* Sends the first segment of an agent's message; the others follow as ACKs come.  Returns
 * 0, -EINVAL (shorter than its headers) or -ENOSPC. */
int rmpp_send(struct agent *a, const struct umad_hdr *hdr, const struct mad_pkt *pkt,
	      const uint8_t *msg, size_t len);
/* r's timer has run out: sends again what is not acknowledged, or gives up. */
void rmpp_tx_due(struct req *r);

/* Takes an RMPP packet for the agent.  Returns false if the packet has no active RMPP, or
 * the agent does RMPP itself. */
bool rmpp_input(struct agent *a, const struct mad_pkt *pkt);

/* rmpp_tx.c: takes an ACK, STOP or ABORT; called by rmpp_input(). */
void rmpp_tx_answer(struct agent *a, const struct mad_pkt *pkt);
/* rmpp_rx.c: takes a segment. */
void rmpp_rx_data(struct agent *a, const struct mad_pkt *pkt);
/* Frees all messages that the agent is receiving or remembers. */
void rmpp_rx_drop(struct agent *a);

/* Sends an RMPP packet without data back to the sender of pkt. */
void rmpp_reply(struct agent *a, const struct mad_pkt *pkt, enum rmpp_type type,
		uint8_t status, uint32_t segment, uint32_t window);

#endif
