/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer of a stream that sends any immediate, writes anything where it may, and
 * connects with any private data; and headers of datagrams.
 *
 * Input: 40 bytes of private data, then steps: what (1 byte), 4 bytes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "must.h"
#include "rsocket/streamend.h"

enum { RBUF = 512, SBUF = 300, MAPS = 3 };

static uint8_t rbuf[RBUF], sbuf[SBUF];
static union {
	struct {
		struct rs_sge targets[RS_TARGETS];
		struct rs_iomap maps[MAPS];
	} s;
	uint8_t bytes[RS_TARGETS * sizeof(struct rs_sge) +
		      MAPS * sizeof(struct rs_iomap)];
} shared;

/* A posted WRITE lies in memory of this process, and completes at once. */
static void post(struct rs_stream *s, const struct rs_write *w)
{
	if (w->from) {
		MUST(w->from >= sbuf && w->len <= SBUF - (size_t)(w->from - sbuf));
		memset(sbuf + (w->from - sbuf), 1, w->len);
	} else {
		MUST(w->len <= RS_IMAGE_MAX);
	}
	rs_sent(s, w->control, w->sbuf_bytes);
}

static void read_some(struct rs_stream *s, uint32_t n)
{
	const uint8_t *at;
	uint32_t have = rs_unread(s, 0, &at);

	if (have > n)
		have = n;
	if (!have)
		return;
	MUST(at >= rbuf && have <= RBUF - (size_t)(at - rbuf));
	rs_consume(s, have);
}

static bool step(struct rs_stream *s, uint8_t what, uint32_t n)
{
	struct rs_write w;
	uint32_t room;

	switch (what % 6) {
	case 0:
		return rs_received(s, rs_message(s, (const uint8_t *)&n)) != RS_EV_BROKEN;
	case 1:
		shared.bytes[(n >> 8) % sizeof(shared.bytes)] = (uint8_t)n;
		break;
	case 2:
		room = rs_room(s, n);
		if (room) {
			rs_send(s, room, false, &w);
			post(s, &w);
		}
		break;
	case 3:
		read_some(s, n);
		break;
	case 4:
		if (rs_grant_due(s)) {
			rs_send_grant(s, &w);
			post(s, &w);
		}
		break;
	case 5:
		if (rs_send_direct(s, n >> 16, n & 0xffff, &w) && w.len)
			post(s, &w);
		break;
	}
	MUST(s->unread + s->free + s->room <= RBUF && s->halves <= 2 && s->used <= SBUF);
	return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct rs_memory m = {
		.rbuf = rbuf,
		.sbuf = sbuf,
		.rbuf_size = RBUF,
		.sbuf_size = SBUF,
		.shared = &shared,
		.sq = 4,
		.rq = 5,
		.iomaps = MAPS,
		.no_rnr = size & 1,
	};
	struct rs_conn c;
	struct rs_stream s;
	struct rs_udp udp;
	struct rs_ud ud;

	MUST(rs_udp_parse(data, size, &udp) <= size);
	MUST(rs_ud_parse(data, size, &ud) <= size);
	if (!rs_conn_parse(data, size, &c))
		return 0;
	memset(&shared, 0, sizeof(shared));
	rs_init(&s, &m);
	rs_start(&s, &c);
	for (size_t i = RS_CONN_SIZE; size - i >= 5; i += 5) {
		uint32_t n;

		memcpy(&n, data + i + 1, 4);
		if (!step(&s, data[i], n))
			break;
	}
	return 0;
}
