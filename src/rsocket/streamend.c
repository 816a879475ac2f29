/* SPDX-License-Identifier: BSD-2-Clause */
/* streamend.c - see streamend.h. Data go into the buffers that the peer has published, as
 * far as its credits reach; they come into a buffer that the peer fills as a ring by
 * halves. */
#include "rsocket/streamend.h"

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

/* --- sending ------------------------------------------------------------- */

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
static bool enough_room(const struct rs_stream *s, size_t wanted)
{
	uint32_t free = s->m.sbuf_size - s->used, least = s->m.sbuf_size / 4;

	if (least > RS_CHUNK)
		least = RS_CHUNK;
	return free && (free >= wanted || free >= least);
}

uint32_t rs_room(struct rs_stream *s, size_t wanted)
{
	uint32_t n = sbuf_room(s);

	if (!enough_room(s, wanted) || (uint16_t)(s->granted - s->sent) <= s->spare ||
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

/* --- receiving ----------------------------------------------------------- */

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
static void publish_half(struct rs_stream *s, struct rs_sge *e)
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
	publish_half(s, &e);
	memcpy(out->image, &e, sizeof(e));
	out->len = sizeof(e);
	out->addr = s->peer_targets.addr + (uint64_t)s->next_peer_target * sizeof(e);
	out->key = s->peer_targets.key;
	s->next_peer_target = (s->next_peer_target + 1) % s->peer_targets.length;
}

/* --- direct placement ---------------------------------------------------- */

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
static bool find_iomap(const struct rs_stream *s, uint64_t offset, struct rs_iomap *out)
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

	if (!find_iomap(s, offset, &map))
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
