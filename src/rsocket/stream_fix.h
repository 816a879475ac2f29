/* SPDX-License-Identifier: BSD-2-Clause */
/* stream_fix.h - for tests of struct rs_stream: one end, whose peer the test plays. */
#ifndef RSOCKET_STREAM_FIX_H
#define RSOCKET_STREAM_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/stream.h"

enum { RBUF = 1000, SBUF = 700, HALF = RBUF / 2, RQ = 8, SQ = 6, MAPS = 3 };

static uint8_t rbuf[RBUF], sbuf[SBUF];
static struct {
	struct rs_sge targets[RS_TARGETS];
	struct rs_iomap maps[MAPS];
} shared;
static struct rs_stream s;

static const struct rs_conn peer = {
	.iomap = true,
	.credits = 4,
	.iomaps = 5,
	.targets = { 0x10000, 7, 3 },
	.buffer = { 0x20000, 8, 300 },
};

static inline int start(void **state)
{
	struct rs_memory m = {
		.rbuf = rbuf,
		.sbuf = sbuf,
		.rbuf_size = RBUF,
		.sbuf_size = SBUF,
		.shared = &shared,
		.rbuf_key = 11,
		.shared_key = 12,
		.sq = SQ,
		.rq = RQ,
		.iomaps = MAPS,
	};

	(void)state;
	memset(&shared, 0, sizeof(shared));
	rs_init(&s, &m);
	rs_start(&s, &peer);
	return 0;
}

static inline struct rs_write send(uint32_t len)
{
	struct rs_write w;

	assert_int_equal(rs_room(&s, len), len);
	rs_send(&s, len, false, &w);
	return w;
}

#endif
