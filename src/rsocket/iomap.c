/* SPDX-License-Identifier: BSD-2-Clause */
/* iomap.c - direct placement: entries that publish a buffer of the program at an offset,
 * and WRITEs to such an offset at the peer. */
#include <string.h>

#include "rsocket/stream.h"

void rs_send_iomap(struct rs_stream *s, uint32_t index, const struct rs_iomap *map,
		   struct rs_write *out)
{
	struct rs_iomap e = *map;

	if (s->swap) {
		e.offset = __builtin_bswap64(e.offset);
		e.sge.addr = __builtin_bswap64(e.sge.addr);
		e.sge.key = __builtin_bswap32(e.sge.key);
		e.sge.length = __builtin_bswap32(e.sge.length);
	}
	s->control_out++;
	*out = (struct rs_write){
		.addr = s->peer_iomap + (uint64_t)index * sizeof(e),
		.key = s->peer_targets.key,
		.len = sizeof(e),
		.has_imm = true,
		.control = true,
		.imm = rs_imm(RS_IOMAP, index),
	};
	memcpy(out->image, &e, sizeof(e));
}

/* Copies the entry that contains the offset, as the peer may overwrite it at any time.
 * Returns false if there is none. */
static bool find(const struct rs_stream *s, uint64_t offset, struct rs_iomap *out)
{
	const uint8_t *maps =
		(const uint8_t *)s->m.shared + RS_TARGETS * sizeof(struct rs_sge);

	for (uint32_t i = 0; i < s->m.iomaps; i++) {
		memcpy(out, maps + i * sizeof(*out), sizeof(*out));
		if (offset >= out->offset && offset - out->offset < out->sge.length)
			return true;
	}
	return false;
}

bool rs_send_direct(struct rs_stream *s, uint64_t offset, size_t len,
		    struct rs_write *out)
{
	uint32_t free = s->m.sbuf_size - s->used, end = s->m.sbuf_size - s->head;
	struct rs_iomap map;
	uint64_t in;

	if (!find(s, offset, &map))
		return false;
	in = offset - map.offset;
	if (len > map.sge.length - in)
		len = map.sge.length - in;
	free = free < end ? free : end;
	if (free > RS_CHUNK)
		free = RS_CHUNK;
	if (s->data_out >= s->m.sq)
		free = 0;
	*out = (struct rs_write){
		.addr = map.sge.addr + in,
		.key = map.sge.key,
		.len = len < free ? (uint32_t)len : free,
		.from = s->m.sbuf + s->head,
	};
	if (!out->len)
		return true;
	out->sbuf_bytes = out->len;
	s->data_out++;
	s->used += out->len;
	s->head = (s->head + out->len) % s->m.sbuf_size;
	return true;
}
