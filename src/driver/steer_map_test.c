/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>

#include "driver/steer_map.h"

/* A packet as the BPF program sees it: payload, and the network header behind
 * SKF_NET_OFF. */
struct pkt {
	uint8_t data[64];
	uint32_t len;
	uint8_t net[40];
};

static bool fetch(const struct pkt *p, uint32_t at, unsigned size, uint32_t *out)
{
	const uint8_t *b = p->data;
	uint32_t len = p->len;

	if ((int32_t)at < 0) {
		at -= (uint32_t)SKF_NET_OFF;
		b = p->net;
		len = sizeof(p->net);
	}
	if (at + size > len)
		return false;
	*out = 0;
	for (unsigned i = 0; i < size; i++)
		*out = *out << 8 | b[at + i];
	return true;
}

/* Executes a BPF program like the kernel, for the instructions that are used here. */
static uint32_t execute(const struct sock_filter *f, unsigned n, const struct pkt *p)
{
	uint32_t a = 0;

	for (unsigned pc = 0; pc < n; pc++) {
		const struct sock_filter *i = &f[pc];

		switch (i->code) {
		case BPF_LD | BPF_W | BPF_ABS:
			if (!fetch(p, i->k, 4, &a))
				return 0;
			break;
		case BPF_LD | BPF_H | BPF_ABS:
			if (!fetch(p, i->k, 2, &a))
				return 0;
			break;
		case BPF_LD | BPF_B | BPF_ABS:
			if (!fetch(p, i->k, 1, &a))
				return 0;
			break;
		case BPF_ALU | BPF_RSH | BPF_K:
			a >>= i->k;
			break;
		case BPF_JMP | BPF_JEQ | BPF_K:
			pc += a == i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JGE | BPF_K:
			pc += a >= i->k ? i->jt : i->jf;
			break;
		case BPF_JMP | BPF_JA:
			pc += i->k;
			break;
		case BPF_RET | BPF_K:
			return i->k;
		case BPF_RET | BPF_A:
			return a;
		default:
			fail_msg("instruction %#x", i->code);
		}
	}
	fail_msg("ran off the end");
	return 0;
}

static struct pkt to_slot(unsigned slot)
{
	struct pkt p = { .len = 32, .data = { [0] = 0x04 } };
	uint32_t qpn = slot << 14 | 0x155;

	p.data[5] = (uint8_t)(qpn >> 16);
	p.data[6] = (uint8_t)(qpn >> 8);
	p.data[7] = (uint8_t)qpn;
	return p;
}

/* Checks a map of every step-th slot. */
static void check_map(int family, unsigned step)
{
	static struct sock_filter f[STEER_PROGRAM_MAX];
	static struct steer_map m;
	uint16_t slot[STEER_SLOTS];
	unsigned n = 0, len;

	steer_map_clear(&m);
	for (unsigned i = step; i <= 1022; i += step) {
		m.place[i] = (uint16_t)(i * 7 % 1022);
		slot[n++] = (uint16_t)i;
	}
	len = steer_program(f, family, &m, slot, n);
	assert_in_range(len, 1, BPF_MAXINSNS);
	for (unsigned i = 0; i < STEER_SLOTS; i++) {
		struct pkt p = to_slot(i);
		bool in = i && i % step == 0 && i <= 1022;

		assert_int_equal(execute(f, len, &p), in ? i * 7 % 1022 : STEER_NONE);
	}
}

static void test_every_slot(void **state)
{
	static const unsigned step[] = { 1, 2, 3, 50, 255, 256, 511, 1000, 1022, 2000 };

	(void)state;
	for (size_t i = 0; i < sizeof(step) / sizeof(step[0]); i++) {
		check_map(AF_INET, step[i]);
		check_map(AF_INET6, step[i]);
	}
}

static unsigned empty_program(struct sock_filter *f, int family)
{
	static struct steer_map m;

	steer_map_clear(&m);
	return steer_program(f, family, &m, NULL, 0);
}

static void test_probes_of_this_host_choose(void **state)
{
	static struct sock_filter f[STEER_PROGRAM_MAX];
	struct pkt p = { .len = 16, .data = { STEER_OPCODE, 1, 0x02, 0x9a } };
	unsigned len = empty_program(f, AF_INET);

	(void)state;
	p.net[12] = 127;
	assert_int_equal(execute(f, len, &p), 0x029a);
	p.net[12] = 10;
	assert_int_equal(execute(f, len, &p), STEER_NONE);

	len = empty_program(f, AF_INET6);
	memset(p.net, 0, sizeof(p.net));
	p.net[23] = 1;
	assert_int_equal(execute(f, len, &p), 0x029a);
	for (int i = 8; i < 24; i++) {
		p.net[i] ^= 0x40;
		assert_int_equal(execute(f, len, &p), STEER_NONE);
		p.net[i] ^= 0x40;
	}
}

static void test_short_packets_are_no_trouble(void **state)
{
	static struct sock_filter f[STEER_PROGRAM_MAX];
	unsigned len = empty_program(f, AF_INET);
	struct pkt p = to_slot(9);

	(void)state;
	for (p.len = 0; p.len < 7; p.len++)
		assert_int_equal(execute(f, len, &p), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_slot),
		cmocka_unit_test(test_probes_of_this_host_choose),
		cmocka_unit_test(test_short_packets_are_no_trouble),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
