/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - a subnet for tests, made from text.  The test is a subnet manager at the first
 * adapter: it sends requests, and the fixture keeps the packets that come. */
#ifndef FABRIC_FIX_H
#define FABRIC_FIX_H

#include "fabric/fabric.h"
#include "fabric/model.h"

enum { FIX_GOT = 64 };

struct fix {
	struct fabric *f;
	struct topo t;
	uint64_t now;
	uint32_t at; /* node of the test's subnet manager */
	uint8_t port;
	uint64_t tid;
	struct fix_got {
		uint32_t node;
		uint8_t port;
		struct mad_pkt pkt;
	} got[FIX_GOT];
	unsigned n; /* packets that have come; at most FIX_GOT of them are kept */
};

extern const char fix_two[];  /* one switch "sw", adapters "H-a" and "H-b" */
extern const char fix_line[]; /* H-a, sw1, sw2, sw3, H-b */

void fix_start(struct fix *x, const char *text);
void fix_end(struct fix *x);

/* cmocka's setup and teardown: `world` is a managed subnet of fix_two. */
extern struct fix world;
int fix_open(void **state);
int fix_close(void **state);

uint32_t fix_node(const struct fix *x, const char *id);

/* Sends a directed-route request along path (path[1] is the first port that it leaves
 * by). Returns the status of the answer, which is in *smp; -1: no answer came. */
int fix_dr(struct fix *x, uint8_t method, uint16_t attr, uint32_t mod,
	   const uint8_t *path, unsigned hops, struct smp *smp);
#define FIX_DR(x, method, attr, mod, smp, ...)                                           \
	fix_dr(x, method, attr, mod, (const uint8_t[]){ 0, __VA_ARGS__ },                \
	       sizeof((const uint8_t[]){ 0, __VA_ARGS__ }) - 1, smp)

/* Sends the request to a LID instead. */
int fix_lid(struct fix *x, uint8_t method, uint16_t attr, uint32_t mod, uint16_t dlid,
	    struct smp *smp);

/* Does the minimum of a subnet manager's work: assigns LIDs 1, 2 ... in the topology's
 * order, fills the forwarding tables breadth-first, and makes all ports active. */
void fix_manage(struct fix *x);

#endif
