/* SPDX-License-Identifier: BSD-2-Clause */
/* data_fix.h - for tests of data packets: a fabric whose programs count the packets that
 * they take. */
#ifndef FABRIC_DATA_FIX_H
#define FABRIC_DATA_FIX_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/fix.h"
#include "wire/mad.h"

enum {
	PACKETS = 400,
	LEN = 12 + 1024 + 4,
	A = 1,
	B = 2,
	C = 3,
	GROUP = 0xc001,
	STOPPED = 0x8001
};

/* The topology is fix_two: node 0 is the switch, nodes 1 and 2 are the adapters; a
 * node's LID is its number plus 1. */
static struct data {
	struct topo t;
	struct fabric *f;
	uint64_t now;
	unsigned mads[6];
	uint16_t from; /* source LID of the last MAD */
	unsigned room, taken[6], done, crossed, late;
	unsigned freed; /* room that the program makes just after it had none */
	bool stopped;	/* the program of QP STOPPED takes nothing */
	uint32_t last;	/* number of the last packet that was taken */
	bool ordered;
	unsigned by_sl[SLS];
	char order[PACKETS + 1]; /* the SL of each packet that was taken */
	struct fabric_data v[PACKETS];
	uint8_t bytes[LEN];
} w;

static inline enum fabric_take take(void *ctx, uint32_t node, uint8_t port,
				    const struct mad_pkt *pkt)
{
	uint32_t n = (uint32_t)(pkt->data - w.v);

	(void)ctx;
	(void)port;
	if (pkt->dqpn == STOPPED && w.stopped)
		return w.late ? FABRIC_LOST : FABRIC_FULL;
	if (!w.room) {
		w.room = w.freed;
		w.freed = 0;
		return FABRIC_FULL;
	}
	w.room--;
	w.ordered &= !w.taken[node] || n > w.last;
	w.last = n;
	w.taken[node]++;
	w.order[strlen(w.order)] = (char)('0' + pkt->sl);
	w.by_sl[pkt->sl]++;
	return FABRIC_TAKEN;
}

static inline void late(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	(void)ctx;
	(void)node;
	(void)port;
	w.late += pkt->dqpn == STOPPED;
}

static inline void done(void *ctx, struct fabric_data *d)
{
	(void)ctx;
	assert_int_equal(d->refs, 0);
	w.done++;
}

static inline void crosses(void *ctx, uint32_t node, uint8_t port, uint8_t vl,
			   const struct mad_pkt *pkt)
{
	(void)ctx;
	(void)node;
	(void)port;
	(void)vl;
	w.crossed += pkt->data != NULL;
}

static inline void deliver(void *ctx, uint32_t node, uint8_t port,
			   const struct mad_pkt *pkt)
{
	(void)ctx;
	(void)port;
	w.mads[node]++;
	w.from = pkt->slid;
}

static const struct fabric_ops ops = { deliver, take, late, done, crosses };

static inline int open_star(const char *text)
{
	char err[TOPO_ERR];
	struct fix x;

	memset(&w, 0, sizeof(w));
	assert_int_equal(topo_parse(&w.t, "t", text, strlen(text), err), 0);
	assert_int_equal(fabric_new(&w.f, &w.t, &ops, NULL), 0);
	x = (struct fix){ .f = w.f, .t = w.t, .at = A };
	fix_manage(&x);
	for (unsigned k = 0; k <= w.f->node[0].ports; k++)
		w.f->node[0].port[k].pi.hoq_life = 20;
	w.f->node[0].si.lifetime = 20;
	w.now = 1000000000;
	w.room = PACKETS;
	w.ordered = true;
	return 0;
}

static inline int open_three(void **state)
{
	static const char three[] =
		"Switch 4 \"sw\"\n[1] \"H-a\"[1]\n[2] \"H-b\"[1]\n[3] \"H-c\"[1]\n\n"
		"Ca 1 \"H-a\"\n\nCa 1 \"H-b\"\n\nCa 1 \"H-c\"\n";

	(void)state;
	return open_star(three);
}

static inline int open_two(void **state)
{
	(void)state;
	return open_star(fix_two);
}

static inline int close_two(void **state)
{
	(void)state;
	fabric_free(w.f);
	topo_free(&w.t);
	return 0;
}

static inline struct mad_pkt packet(unsigned i, uint16_t dlid)
{
	w.v[i] = (struct fabric_data){ .bytes = w.bytes, .len = LEN };
	return (struct mad_pkt){ .data = &w.v[i],
				 .dlid = dlid,
				 .pkey = PKEY_DEFAULT,
				 .dqpn = 0x4001,
				 .sqpn = 0x4002 };
}

static inline void inject(unsigned i, uint16_t dlid)
{
	struct mad_pkt pkt = packet(i, dlid);

	assert_int_equal(fabric_inject(w.f, A, 1, &pkt), 0);
}

static inline void run(void)
{
	fabric_run(w.f, w.now);
}

/* Injects more packets than there are buffers on the way to B. */
static inline void inject_all(void)
{
	for (unsigned i = 0; i < PACKETS; i++)
		inject(i, B + 1);
	run();
}

#endif
