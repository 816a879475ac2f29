/* SPDX-License-Identifier: BSD-2-Clause */
/* rx.c - receiving: the receive buffer, which the peer fills as a ring by halves, and the
 * grants to the peer. */
#include <string.h>

#include "rsocket/stream.h"

uint32_t rs_unread(const struct rs_stream *s, uint32_t skip, const uint8_t **at)
{
	uint32_t from, end;

	if (skip >= s->unread)
		return 0;
	from = (uint32_t)(((uint64_t)s->read_at + skip) % s->m.rbuf_size);
	end = s->m.rbuf_size - from;
	*at = s->m.rbuf + from;
	return s->unread - skip < end ? s->unread - skip : end;
}

void rs_consume(struct rs_stream *s, uint32_t bytes)
{
	s->unread -= bytes;
	s->free += bytes;
	s->read_at = (uint32_t)(((uint64_t)s->read_at + bytes) % s->m.rbuf_size);
}

bool rs_grant_due(const struct rs_stream *s)
{
	uint16_t used = (uint16_t)(s->received - s->reported);

	return rs_may_control(s) && (s->free >= s->m.rbuf_size / 2 || used > s->m.rq / 2);
}

/* Publishes the half that was read: sets *e to the entry for the peer's target SGL. */
static void publish(struct rs_stream *s, struct rs_sge *e)
{
	uint32_t half = s->m.rbuf_size / 2;

	*e = (struct rs_sge){ .addr = (uintptr_t)s->m.rbuf + s->free_at,
			      .key = s->m.rbuf_key,
			      .length = half };
	s->free -= half;
	s->free_at = (s->free_at + half) % s->m.rbuf_size;
	if (s->room)
		s->halves++;
	else
		s->room = half;
	if (s->swap) {
		e->addr = __builtin_bswap64(e->addr);
		e->key = __builtin_bswap32(e->key);
		e->length = __builtin_bswap32(e->length);
	}
}

void rs_send_grant(struct rs_stream *s, struct rs_write *out)
{
	struct rs_sge e;

	s->reported = s->received;
	s->control_out++;
	*out = (struct rs_write){
		.has_imm = true,
		.control = true,
		.imm = rs_imm(RS_GRANT, (uint16_t)(s->received + s->m.rq)),
	};
	if (s->free < s->m.rbuf_size / 2)
		return;
	publish(s, &e);
	memcpy(out->image, &e, sizeof(e));
	out->len = sizeof(e);
	out->addr = s->peer_targets.addr + (uint64_t)s->next_peer_target * sizeof(e);
	out->key = s->peer_targets.key;
	s->next_peer_target = (s->next_peer_target + 1) % s->peer_targets.length;
}
