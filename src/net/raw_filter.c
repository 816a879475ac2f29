/* SPDX-License-Identifier: BSD-2-Clause */
/* raw_filter.c - see raw_filter.h. Offsets are from the IP header, which filters of both
 * kinds of sockets reach by SKF_NET_OFF. */
#include "net/raw_filter.h"

#include <assert.h>
#include <net/ethernet.h>

#include "net/raw_frame.h"
#include "wire/grh.h"
#include "wire/qpn.h"

enum {
	NET = SKF_NET_OFF,
	ANY = SKF_AD_OFF,
	IP4 = 20,
	IP6 = 40,
	UDP = 8,
	DPORT = 2,
	PROTO_UDP = 17,
	SLOT_SHIFT = 6, /* offset of the slot in the first two bytes of the QP number */
};

/* Placeholder jump targets, replaced when the offsets of the two returns are known. */
enum { NO = 254, YES = 255 };

struct prog {
	struct sock_filter *f;
	unsigned n;
};

static void put_insn(struct prog *p, unsigned code, unsigned k)
{
	assert(p->n < RAW_FILTER_MAX);
	p->f[p->n++] = (struct sock_filter){ .code = (uint16_t)code, .k = k };
}

/* Rejects the packet unless the accumulator is k. */
static void need(struct prog *p, unsigned k)
{
	put_insn(p, BPF_JMP | BPF_JEQ | BPF_K, k);
	p->f[p->n - 1].jf = NO;
}

static void load(struct prog *p, unsigned size, int at)
{
	put_insn(p, BPF_LD | size | BPF_ABS, (unsigned)at);
}

static void from_interface(struct prog *p, const struct raw_wanted *w)
{
	load(p, BPF_W, ANY + SKF_AD_IFINDEX);
	for (unsigned i = 0; i < w->n; i++) {
		put_insn(p, BPF_JMP | BPF_JEQ | BPF_K, w->ifindex[i]);
		/* jumps over the jump that follows */
		p->f[p->n - 1].jt = (uint8_t)(w->n - i);
	}
	put_insn(p, BPF_JMP | BPF_JEQ | BPF_K, 0); /* no interface has index 0 */
	p->f[p->n - 1].jt = p->f[p->n - 1].jf = NO;
}

/* Checks the interface. A packet with a VLAN tag belongs to the VLAN's interface, where
 * it is received again. */
static void of_interface(struct prog *p)
{
	load(p, BPF_W, ANY + SKF_AD_PKTTYPE);
	need(p, 0); /* PACKET_HOST */
	load(p, BPF_W, ANY + SKF_AD_VLAN_TAG_PRESENT);
	put_insn(p, BPF_JMP | BPF_JEQ | BPF_K, 0);
	p->f[p->n - 1].jt = 3;
	load(p, BPF_W, ANY + SKF_AD_VLAN_TAG);
	put_insn(p, BPF_ALU | BPF_AND | BPF_K, 0xfff);
	need(p, 0);
}

/* Tests the protocol after the Ethernet header, which is in the accumulator. Returns the
 * jump for other protocols, whose target is set later. */
static unsigned if_protocol(struct prog *p, unsigned type)
{
	put_insn(p, BPF_JMP | BPF_JEQ | BPF_K, type);
	return p->n - 1;
}

static void else_here(struct prog *p, unsigned jump)
{
	p->f[jump].jf = (uint8_t)(p->n - jump - 1);
}

static void to_slot(struct prog *p, const struct raw_wanted *w, int bth)
{
	load(p, BPF_H, NET + bth + QPN_AT);
	put_insn(p, BPF_ALU | BPF_RSH | BPF_K, SLOT_SHIFT);
	put_insn(p, BPF_JMP | BPF_JEQ | BPF_K, w->slot);
	p->f[p->n - 1].jt = YES;
	p->f[p->n - 1].jf = NO;
}

static void to_port(struct prog *p, const struct raw_wanted *w, int ip)
{
	load(p, BPF_H, NET + ip + DPORT);
	need(p, w->port);
	to_slot(p, w, ip + UDP);
}

/* Checks for version 6 and for `next` as the next header of the IPv6 header or GRH. */
static void need_next(struct prog *p, unsigned next)
{
	load(p, BPF_B, NET);
	put_insn(p, BPF_ALU | BPF_RSH | BPF_K, 4);
	need(p, 6);
	load(p, BPF_B, NET + 6);
	need(p, next);
}

static void link_jumps(struct prog *p, unsigned no, unsigned yes)
{
	for (unsigned i = 0; i < no; i++) {
		struct sock_filter *f = &p->f[i];

		if (BPF_CLASS(f->code) != BPF_JMP)
			continue;
		if (f->jt >= NO)
			f->jt = (uint8_t)((f->jt == YES ? yes : no) - i - 1);
		if (f->jf >= NO)
			f->jf = (uint8_t)((f->jf == YES ? yes : no) - i - 1);
	}
}

unsigned raw_filter(struct sock_filter f[RAW_FILTER_MAX], const struct raw_wanted *w,
		    bool rest)
{
	struct prog p = { .f = f };
	unsigned other;

	from_interface(&p, w);
	of_interface(&p);
	load(&p, BPF_W, ANY + SKF_AD_PROTOCOL);
	other = if_protocol(&p, ETHERTYPE_IP);
	load(&p, BPF_B, NET);
	need(&p, 0x45); /* version 4, no options */
	load(&p, BPF_B, NET + 9);
	need(&p, PROTO_UDP);
	load(&p, BPF_H, NET + 6);
	/* all but DF must be clear: no fragment */
	put_insn(&p, BPF_JMP | BPF_JSET | BPF_K, 0xbfff);
	p.f[p.n - 1].jt = NO;
	to_port(&p, w, IP4);

	else_here(&p, other);
	other = if_protocol(&p, ETHERTYPE_IPV6);
	need_next(&p, PROTO_UDP);
	to_port(&p, w, IP6);

	else_here(&p, other);
	need(&p, RAW_TYPE_V1);
	need_next(&p, GRH_NEXT_BTH);
	to_slot(&p, w, RAW_GRH);

	put_insn(&p, BPF_RET | BPF_K, rest ? UINT32_MAX : 0);
	put_insn(&p, BPF_RET | BPF_K, rest ? 0 : UINT32_MAX);
	link_jumps(&p, p.n - 2, p.n - 1);
	return p.n;
}
