/* SPDX-License-Identifier: BSD-2-Clause */
/* tx.c - sending, into the buffers that the peer has published, as far as its credits
 * reach. */
#include <string.h>

#include "rsocket/stream.h"

/* Takes the next entry of our target SGL, if the peer has written it. A WRITE is placed
 * from its first byte to its last, so the length, which is last, is read first. The entry
 * is then cleared, so that the peer can write it again. */
static void next_target(struct rs_stream *s)
{
	struct rs_sge *e = (struct rs_sge *)s->m.shared + s->next_target;
	uint32_t length = __atomic_load_n(&e->length, __ATOMIC_ACQUIRE);

	if (!length)
		return;
	s->to = (struct rs_sge){ .addr = e->addr, .key = e->key, .length = length };
	__atomic_store_n(&e->length, 0, __ATOMIC_RELAXED);
	s->next_target = (s->next_target + 1) % RS_TARGETS;
}

/* Returns how many free bytes of sbuf are contiguous at head. */
static uint32_t sbuf_room(const struct rs_stream *s)
{
	uint32_t free = s->m.sbuf_size - s->used;
	uint32_t end = s->m.sbuf_size - s->head;

	return free < end ? free : end;
}

/* A sender that takes every byte that becomes free sends small messages for ever. So
 * there must be room for all of `wanted`, for a quarter of sbuf, or for a chunk. */
static bool enough(const struct rs_stream *s, size_t wanted)
{
	uint32_t free = s->m.sbuf_size - s->used, least = s->m.sbuf_size / 4;

	if (least > RS_CHUNK)
		least = RS_CHUNK;
	return free && (free >= wanted || free >= least);
}

uint32_t rs_room(struct rs_stream *s, size_t wanted)
{
	uint32_t n = sbuf_room(s);

	if (!enough(s, wanted) || (uint16_t)(s->granted - s->sent) <= s->spare ||
	    s->data_out >= s->m.sq)
		return 0;
	if (!s->to.length)
		next_target(s);
	if (n > s->to.length)
		n = s->to.length;
	if (n > RS_CHUNK)
		n = RS_CHUNK;
	return wanted < n ? (uint32_t)wanted : n;
}

void rs_send(struct rs_stream *s, uint32_t len, bool is_inline, struct rs_write *out)
{
	*out = (struct rs_write){
		.addr = s->to.addr,
		.key = s->to.key,
		.len = len,
		.from = s->m.sbuf + s->head,
		.has_imm = true,
		.imm = rs_imm(RS_DATA, len),
		.sbuf_bytes = is_inline ? 0 : len,
	};
	s->to.addr += len;
	s->to.length -= len;
	s->sent++;
	s->data_out++;
	s->used += out->sbuf_bytes;
	s->head = (s->head + out->sbuf_bytes) % s->m.sbuf_size;
}

bool rs_may_control(const struct rs_stream *s)
{
	return s->control_out < RS_CONTROLS;
}

void rs_send_keepalive(struct rs_stream *s, struct rs_write *out)
{
	s->control_out++;
	*out = (struct rs_write){ .control = true };
}

void rs_send_control(struct rs_stream *s, enum rs_control what, struct rs_write *out)
{
	s->control_out++;
	*out = (struct rs_write){ .has_imm = true,
				  .control = true,
				  .imm = rs_imm(RS_CONTROL, what) };
}
