/* SPDX-License-Identifier: BSD-2-Clause */
/* trap.c - the traps that a port sends to its subnet manager (IBA 13.4.9, 14.2.5.1,
 * 14.3.9).
 *
 * A trap is sent again until a TrapRepress comes, and a port sends no two traps within
 * its SubnetTimeOut (4.096 us * 2^n).  At most one trap of each kind is unanswered; if
 * its cause recurs meanwhile, that trap is changed.
 */
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/model.h"

enum { URGENT = 1, SECURITY = 2, INFO = 4 };

/* Offsets of the details in the notice, by the trap's number. */
enum {
	AT_128_LID = 10,
	AT_LID = 12,
	AT_144_MASK = 16,
	AT_256_DR_SLID = 14,
	AT_256_METHOD = 16,
	AT_256_ATTR = 18,
	AT_256_MOD = 20,
	AT_256_MKEY = 24,
	AT_256_HOPS = 33,
	AT_256_PATH = 34,
	MAX_256_PATH = 30,
	AT_257_LID2 = 14,
	AT_257_KEY = 16,
	AT_257_QP1 = 20,
	AT_257_QP2 = 24,
	AT_257_GID1 = 28,
	AT_257_GID2 = 44,
	AT_259_VALID = 10,
	AT_259_LID1 = 12,
	AT_259_LID2 = 14,
	AT_259_PKEY = 16,
	AT_259_QP1 = 18,
	AT_259_QP2 = 22,
	AT_259_GID1 = 26,
	AT_259_GID2 = 42,
	AT_259_SWITCH = 58,
	AT_259_PORT = 60
};

/* DataValid of trap 259: VALID_LRH: LIDs, P_Key, SL and QPs; VALID_GRH: GIDs. */
enum { VALID_LRH = 0x3f, VALID_GRH = 0xc0 };

/* The top bit tells traps' TIDs from programs', which have an agent's hi_tid there. */
#define TRAP_TID (1ull << 63)

static void store_be16(uint8_t *at, uint16_t v)
{
	be16_t b = be16(v);

	memcpy(at, &b, sizeof(b));
}

static void store_be32(uint8_t *at, uint32_t v)
{
	be32_t b = be32(v);

	memcpy(at, &b, sizeof(b));
}

static uint64_t trap_interval(const struct fab_port *p)
{
	return 4096ull << p->pi.subnet_timeout;
}

static void send_trap(struct fab_port *p, const struct trap *t)
{
	struct mad_pkt pkt = {
		.slid = p->pi.lid,
		.dlid = p->pi.sm_lid,
		.sl = p->pi.sm_sl,
		.pkey = PKEY_DEFAULT,
	};
	struct smp smp = { .h = { .base_version = MAD_BASE_VERSION,
				  .class = MAD_SM_LID,
				  .class_version = 1,
				  .method = METHOD_TRAP,
				  .tid = be64(t->tid),
				  .attr = be16(ATTR_NOTICE) } };

	memcpy(smp.data, t->notice, SMP_DATA);
	memcpy(pkt.mad, &smp, sizeof(smp));
	fly(p->node->f, p, true, &pkt);
}

/* Sends the port's next trap, taking kinds in turn, and sets the time for another one. */
void trap_run(struct fab_port *p)
{
	if (!p->pi.sm_lid || !p->pi.lid) {
		trap_drop(p);
		return;
	}
	for (unsigned i = 0; i < TRAP_KINDS; i++) {
		unsigned k = (p->trap_next + i) % TRAP_KINDS;

		if (!p->trap[k].out)
			continue;
		send_trap(p, &p->trap[k]);
		p->trap_next = (uint8_t)((k + 1) % TRAP_KINDS);
		/* Cannot fail: reserve_deadlines() has made room. */
		heap_set(&p->node->f->trap_due, &p->trap_due,
			 p->node->f->now + trap_interval(p));
		return;
	}
}

void trap_drop(struct fab_port *p)
{
	for (unsigned i = 0; i < TRAP_KINDS; i++)
		p->trap[i].out = false;
	heap_del(&p->node->f->trap_due, &p->trap_due);
}

/* Writes the notice's common part; the details stay as they are. */
static void notice_put(uint8_t *to, const struct notice *n)
{
	uint8_t whole[SMP_DATA];

	attr_put(&attr_notice, whole, n);
	memcpy(to, whole, AT_128_LID);
}

static void raise_trap(struct fab_port *p, enum trap_kind kind, uint8_t type,
		       uint16_t num, const uint8_t *details)
{
	struct trap *t = &p->trap[kind];
	struct notice n = { .generic = 1,
			    .type = type,
			    .producer = p->node->ni.type,
			    .trap = num,
			    .issuer = p->pi.lid };

	if (!p->pi.sm_lid || !p->pi.lid)
		return;
	memcpy(t->notice, details, SMP_DATA);
	notice_put(t->notice, &n);
	t->tid = TRAP_TID | ++p->trap_tid;
	t->out = true;
	if (!heap_has(&p->trap_due))
		trap_run(p);
}

void trap_link(struct fab_node *n)
{
	struct fab_port *p = &n->port[0];
	uint8_t d[SMP_DATA] = { 0 };

	store_be16(d + AT_128_LID, p->pi.lid);
	raise_trap(p, TRAP_LINK_STATE, URGENT, 128, d);
}

void trap_cap_mask(struct fab_port *p)
{
	uint8_t d[SMP_DATA] = { 0 };

	store_be16(d + AT_LID, p->pi.lid);
	store_be32(d + AT_144_MASK, p->pi.cap_mask);
	raise_trap(p, TRAP_CAP_MASK, INFO, 144, d);
}

void trap_mkey(struct fab_port *p, const struct mad_pkt *pkt)
{
	const struct smp *smp = (const struct smp *)pkt->mad;
	uint8_t d[SMP_DATA] = { 0 }, hops = 0;

	store_be16(d + AT_LID, pkt->slid);
	if (smp->h.class == MAD_SM_DR) {
		memcpy(d + AT_256_DR_SLID, &smp->dr_slid, 2);
		hops = smp->h.hop_count;
		if (hops > MAX_256_PATH)
			hops = MAX_256_PATH | 0x40; /* truncated */
		memcpy(d + AT_256_PATH, smp->back + 1, hops & 0x3f);
		d[AT_256_HOPS] = 0x80 | hops;
	}
	d[AT_256_METHOD] = smp->h.method;
	memcpy(d + AT_256_ATTR, &smp->h.attr, 2);
	memcpy(d + AT_256_MOD, &smp->h.mod, 4);
	memcpy(d + AT_256_MKEY, &smp->mkey, 8);
	raise_trap(p, TRAP_MKEY, SECURITY, 256, d);
}

void trap_pkey(struct fab_port *p, const struct mad_pkt *pkt)
{
	uint8_t d[SMP_DATA] = { 0 };

	store_be16(d + AT_LID, pkt->slid);
	store_be16(d + AT_257_LID2, pkt->dlid);
	store_be32(d + AT_257_KEY, pkt->pkey);
	store_be32(d + AT_257_QP1, (uint32_t)pkt->sl << 28 | (pkt->sqpn & 0xffffff));
	store_be32(d + AT_257_QP2, pkt->dqpn & 0xffffff);
	memcpy(d + AT_257_GID1, pkt->sgid, 16);
	memcpy(d + AT_257_GID2, pkt->dgid, 16);
	raise_trap(p, TRAP_PKEY, SECURITY, 257, d);
}

void trap_switch_pkey(struct fab_port *at, const struct mad_pkt *pkt)
{
	struct fab_port *own = &at->node->port[0];
	uint8_t d[SMP_DATA] = { 0 };

	store_be16(d + AT_259_VALID, VALID_LRH | (pkt->grh ? VALID_GRH : 0));
	store_be16(d + AT_259_LID1, pkt->slid);
	store_be16(d + AT_259_LID2, pkt->dlid);
	store_be16(d + AT_259_PKEY, pkt->pkey);
	store_be32(d + AT_259_QP1, (uint32_t)pkt->sl << 28 | (pkt->sqpn & 0xffffff));
	store_be32(d + AT_259_QP2, pkt->dqpn & 0xffffff);
	memcpy(d + AT_259_GID1, pkt->sgid, 16);
	memcpy(d + AT_259_GID2, pkt->dgid, 16);
	store_be16(d + AT_259_SWITCH, own->pi.lid);
	d[AT_259_PORT] = at->num;
	raise_trap(own, TRAP_SWITCH_PKEY, SECURITY, 259, d);
}

bool trap_repressed(struct fab_port *p, const struct smp *smp)
{
	bool was = false;

	for (unsigned i = 0; i < TRAP_KINDS; i++) {
		struct trap *t = &p->trap[i];

		if (t->out && t->tid == get_be64(smp->h.tid)) {
			t->out = false;
			was = true;
		}
	}
	return was;
}
