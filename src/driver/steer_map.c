/* SPDX-License-Identifier: BSD-2-Clause */
/* steer_map.c - see steer_map.h. */
#include "driver/steer_map.h"

#include <string.h>
#include <sys/socket.h>

#include "wire/qpn.h"

enum {
	/* offset of the slot in the first two bytes of the QPN */
	SLOT_SHIFT = 16 - QPN_SLOT_BITS,
	PLACE_AT = 2, /* offset in a probe (struct probe, steer.c) */
	IP4_SRC = 12,
	IP6_SRC = 8, /* offset in the IPv6 header */
	LEAF = 4,    /* slots that are compared one by one */
};

struct program {
	struct sock_filter *f;
	unsigned n;
};

static void put_insn(struct program *p, int code, uint32_t k, unsigned jt, unsigned jf)
{
	if (p->n < STEER_PROGRAM_MAX)
		p->f[p->n] = (struct sock_filter){ (uint16_t)code, (uint8_t)jt,
						   (uint8_t)jf, k };
	p->n++;
}

static void load(struct program *p, int size, uint32_t at)
{
	put_insn(p, BPF_LD | size | BPF_ABS, at, 0, 0);
}

static void equal(struct program *p, uint32_t k, unsigned jt, unsigned jf)
{
	put_insn(p, BPF_JMP | BPF_JEQ | BPF_K, k, jt, jf);
}

static void put_return(struct program *p, uint32_t place)
{
	put_insn(p, BPF_RET | BPF_K, place, 0, 0);
}

/* Answers probes from this host only: 127/8 and ::1 never come in from outside. */
static void put_probe(struct program *p, int family)
{
	uint32_t net = (uint32_t)SKF_NET_OFF;

	load(p, BPF_B, 0);
	if (family == AF_INET) {
		equal(p, STEER_OPCODE, 0, 5);
		load(p, BPF_B, net + IP4_SRC);
		equal(p, 127, 0, 2);
	} else {
		equal(p, STEER_OPCODE, 0, 11);
		load(p, BPF_W, net + IP6_SRC);
		equal(p, 0, 0, 8);
		load(p, BPF_W, net + IP6_SRC + 4);
		equal(p, 0, 0, 6);
		load(p, BPF_W, net + IP6_SRC + 8);
		equal(p, 0, 0, 4);
		load(p, BPF_W, net + IP6_SRC + 12);
		equal(p, 1, 0, 2);
	}
	load(p, BPF_H, PLACE_AT);
	put_insn(p, BPF_RET | BPF_A, 0, 0, 0);
	put_return(p, STEER_NONE);
}

/* Compares the slot, which is in the accumulator: a binary tree with short lists as
 * leaves. */
static void put_slots(struct program *p, const struct steer_map *m, const uint16_t *slot,
		      unsigned n)
{
	unsigned jump;

	if (n <= LEAF) {
		for (unsigned i = 0; i < n; i++) {
			equal(p, slot[i], 0, 1);
			put_return(p, m->place[slot[i]]);
		}
		put_return(p, STEER_NONE);
		return;
	}
	put_insn(p, BPF_JMP | BPF_JGE | BPF_K, slot[n / 2], 0, 1);
	jump = p->n;
	put_insn(p, BPF_JMP | BPF_JA, 0, 0, 0);
	put_slots(p, m, slot, n / 2);
	if (jump < STEER_PROGRAM_MAX)
		p->f[jump].k = p->n - jump - 1;
	put_slots(p, m, slot + n / 2, n - n / 2);
}

unsigned steer_program(struct sock_filter *f, int family, const struct steer_map *m,
		       const uint16_t *slot, unsigned n)
{
	struct program p = { f, 0 };

	put_probe(&p, family);
	load(&p, BPF_H, QPN_AT);
	put_insn(&p, BPF_ALU | BPF_RSH | BPF_K, SLOT_SHIFT, 0, 0);
	put_slots(&p, m, slot, n);
	return p.n <= STEER_PROGRAM_MAX ? p.n : 0;
}

void steer_map_clear(struct steer_map *m)
{
	memset(m, 0xff, sizeof(*m));
}
