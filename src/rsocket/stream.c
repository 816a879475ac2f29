/* SPDX-License-Identifier: BSD-2-Clause */
/* stream.c - see stream.h: the start of a stream, immediates and completions. */
#include "rsocket/stream.h"

#include <string.h>

void rs_init(struct rs_stream *s, const struct rs_memory *m)
{
	uint32_t half = m->rbuf_size / 2;

	*s = (struct rs_stream){ .m = *m };
	s->room = half; /* published by the private data */
	s->free_at = half;
	s->free = m->rbuf_size - half;
}

void rs_self(const struct rs_stream *s, struct rs_conn *out)
{
	*out = (struct rs_conn){
		.big_endian = rs_host_is_big(),
		.iomap = true,
		.credits = s->m.rq,
		.iomaps = s->m.iomaps,
		.targets = { .addr = (uintptr_t)s->m.shared,
			     .key = s->m.shared_key,
			     .length = RS_TARGETS },
		.buffer = { .addr = (uintptr_t)s->m.rbuf,
			    .key = s->m.rbuf_key,
			    .length = s->m.rbuf_size / 2 },
	};
}

void rs_start(struct rs_stream *s, const struct rs_conn *peer)
{
	s->granted = peer->credits;
	/* rdma-core posts as many receives as it grants credits, and none for controls.
	 * On RoCE controls then wait (RNR); on iWARP we leave them credits. Data must
	 * keep half of the credits, as rdma-core grants new ones when more than half are
	 * used. */
	s->spare = (uint16_t)(peer->credits - 1) / 2;
	if (s->spare > RS_CONTROLS)
		s->spare = RS_CONTROLS;
	if (!s->m.no_rnr)
		s->spare = 0;
	s->to = peer->buffer;
	s->next_target = 1;
	s->peer_targets = peer->targets;
	s->next_peer_target = 1;
	s->swap = peer->big_endian != rs_host_is_big();
	s->peer_iomap = peer->targets.addr +
			(uint64_t)peer->targets.length * sizeof(struct rs_sge);
	s->peer_iomaps = peer->iomap ? peer->iomaps : 0;
}

static enum rs_event data_came(struct rs_stream *s, uint32_t bytes)
{
	if (bytes > s->room)
		return RS_EV_BROKEN;
	s->received++;
	s->unread += bytes;
	s->room -= bytes;
	if (!s->room && s->halves) {
		s->halves--;
		s->room = s->m.rbuf_size / 2;
	}
	return RS_EV_DATA;
}

static enum rs_event control_came(uint32_t what)
{
	switch (what) {
	case RS_DISCONNECT:
		return RS_EV_DISCONNECT;
	case RS_SHUTDOWN:
		return RS_EV_SHUTDOWN;
	default: /* a keepalive, or a control of a later version */
		return RS_EV_NONE;
	}
}

enum rs_event rs_received(struct rs_stream *s, uint32_t imm)
{
	uint32_t lower = imm & RS_LOWER;

	switch (imm >> 29) {
	case RS_DATA:
		return data_came(s, lower);
	case RS_GRANT:
		s->granted = (uint16_t)lower;
		return RS_EV_GRANT;
	case RS_IOMAP:
		return RS_EV_NONE; /* the entry is read when it is used */
	case RS_CONTROL:
		return control_came(lower);
	default:
		return RS_EV_BROKEN;
	}
}

uint32_t rs_message(const struct rs_stream *s, const uint8_t at[RS_MESSAGE])
{
	uint32_t imm;

	memcpy(&imm, at, sizeof(imm));
	return s->swap ? __builtin_bswap32(imm) : imm;
}

void rs_sent(struct rs_stream *s, bool control, uint32_t sbuf_bytes)
{
	if (control)
		s->control_out--;
	else
		s->data_out--;
	s->used -= sbuf_bytes;
}
