/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of the frames that a rule matches, spec by spec, and of rules that are
 * refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "raw/flow.h"
#include "sys/rand.h"

/* A rule as programs write it: the attr, and specs right behind it. */
struct program {
	struct ibv_flow_attr attr;
	uint8_t specs[512];
	size_t used;
};

static void begin(struct program *p)
{
	memset(p, 0, sizeof(*p));
	p->attr.size = sizeof(p->attr);
	p->attr.port = 1;
}

static void *add(struct program *p, enum ibv_flow_spec_type type, size_t size)
{
	struct ibv_flow_spec_eth *s = (void *)(p->specs + p->used);

	s->type = type;
	s->size = (uint16_t)size;
	p->used += size;
	p->attr.size = (uint16_t)(p->attr.size + size);
	p->attr.num_of_specs++;
	return s;
}

#define ADD(p, type, kind)                                                               \
	((struct ibv_flow_spec_##kind *)add(p, IBV_FLOW_SPEC_##type,                     \
					    sizeof(struct ibv_flow_spec_##kind)))

/* A spec may lie unaligned, so its pointer is copied. */
static void add_count(struct program *p, struct ibv_counters *c)
{
	struct ibv_flow_spec_counter_action s = { .type = IBV_FLOW_SPEC_ACTION_COUNT,
						  .size = sizeof(s),
						  .counters = c };

	memcpy(add(p, s.type, sizeof(s)), &s, sizeof(s));
}

static int parse(const struct program *p, struct flow_rule *r)
{
	return flow_rule_parse(r, &p->attr);
}

/* 02:..:02 from 02:..:01, 10.0.0.1 to 10.0.0.2, UDP from 1000 to 4791, of VLAN 5. */
static const uint8_t udp4[] = {
	2, 0, 0,    0,	  0, 2,	 2,    0,    0,	   0,	 0,  1,	 0x81, 0, 0x60, 5,
	8, 0, 0x45, 0xb8, 0, 28, 0,    0,    0x40, 0,	 63, 17, 0,    0, 10,	0,
	0, 1, 10,   0,	  0, 2,	 0x03, 0xe8, 0x12, 0xb7, 0,  8,	 0,    0,
};
/* fd00::1 to fd00::2, TCP from 1000 to 80, class 0xb8, label 0x12345. */
static const uint8_t tcp6[] = {
	2,    0,    0,	  0, 0, 2, 2,  0,    0,	   0,	 0,    1, 0x86, 0xdd, 0x6b,
	0x81, 0x23, 0x45, 0, 4, 6, 64, 0xfd, 0,	   0,	 0,    0, 0,	0,    0,
	0,    0,    0,	  0, 0, 0, 0,  1,    0xfd, 0,	 0,    0, 0,	0,    0,
	0,    0,    0,	  0, 0, 0, 0,  0,    2,	   0x03, 0xe8, 0, 80,
};
enum { IP_AT = 18, ETH = 14 };

static bool matches(const struct program *p, const uint8_t *at, size_t n)
{
	struct flow_frame f;
	struct flow_rule r;

	assert_int_equal(parse(p, &r), 0);
	flow_frame_parse(&f, at, n);
	return flow_matches(&r, &f);
}

/* The rule matches the frame, but not one that differs in the byte at `at`. */
static void only(const struct program *p, const uint8_t *frame, size_t n, size_t at)
{
	uint8_t other[128];

	assert_true(matches(p, frame, n));
	memcpy(other, frame, n);
	other[at] ^= 1;
	if (matches(p, other, n))
		fail_msg("byte %zu is not looked at", at);
}

static void ethernet(void **state)
{
	struct ibv_flow_spec_eth *s;
	struct program p;

	(void)state;
	begin(&p);
	/* A rule without a spec matches all frames. */
	assert_true(matches(&p, udp4, sizeof(udp4)));
	s = ADD(&p, ETH, eth);
	memcpy(s->val.dst_mac, udp4, 6);
	memset(s->mask.dst_mac, 0xff, 6);
	only(&p, udp4, sizeof(udp4), 5);
	memcpy(s->val.src_mac, udp4 + 6, 6);
	memset(s->mask.src_mac, 0xff, 6);
	only(&p, udp4, sizeof(udp4), 11);
	s->val.ether_type = htons(0x0800);
	s->mask.ether_type = 0xffff;
	only(&p, udp4, sizeof(udp4), 16);
	s->val.vlan_tag = htons(5);
	s->mask.vlan_tag = htons(0xfff);
	only(&p, udp4, sizeof(udp4), 15);
	assert_false(matches(&p, tcp6, sizeof(tcp6)));
	begin(&p);
	s = ADD(&p, ETH, eth);
	s->mask.vlan_tag = htons(0xfff); /* VLAN 0: only a frame with a tag matches */
	assert_false(matches(&p, tcp6, sizeof(tcp6)));
}

static void ipv4(void **state)
{
	struct ibv_flow_spec_ipv4_ext *s;
	uint8_t more[sizeof(udp4)];
	struct program p;

	(void)state;
	begin(&p);
	s = ADD(&p, IPV4_EXT, ipv4_ext);
	assert_true(matches(&p, udp4, sizeof(udp4)));
	assert_false(matches(&p, tcp6, sizeof(tcp6)));
	memcpy(&s->val.src_ip, udp4 + IP_AT + 12, 4);
	memset(&s->mask.src_ip, 0xff, 4);
	only(&p, udp4, sizeof(udp4), IP_AT + 15);
	memcpy(&s->val.dst_ip, udp4 + IP_AT + 16, 4);
	memset(&s->mask.dst_ip, 0xff, 4);
	only(&p, udp4, sizeof(udp4), IP_AT + 19);
	s->val.proto = 17, s->mask.proto = 0xff;
	only(&p, udp4, sizeof(udp4), IP_AT + 9);
	s->val.tos = 0xb8, s->mask.tos = 0xff;
	only(&p, udp4, sizeof(udp4), IP_AT + 1);
	s->val.ttl = 63, s->mask.ttl = 0xff;
	only(&p, udp4, sizeof(udp4), IP_AT + 8);
	/* Matches "do not fragment" set and "more fragments" clear. */
	s->val.flags = 2, s->mask.flags = 6;
	assert_true(matches(&p, udp4, sizeof(udp4)));
	memcpy(more, udp4, sizeof(udp4));
	more[IP_AT + 6] = 0x20;
	assert_false(matches(&p, more, sizeof(more)));
	s->val.flags = 4;
	assert_true(matches(&p, more, sizeof(more)));
}

static void ipv6(void **state)
{
	struct ibv_flow_spec_ipv6 *s;
	struct program p;

	(void)state;
	begin(&p);
	s = ADD(&p, IPV6, ipv6);
	assert_true(matches(&p, tcp6, sizeof(tcp6)));
	assert_false(matches(&p, udp4, sizeof(udp4)));
	memcpy(s->val.src_ip, tcp6 + ETH + 8, 16);
	memset(s->mask.src_ip, 0xff, 16);
	only(&p, tcp6, sizeof(tcp6), ETH + 23);
	memcpy(s->val.dst_ip, tcp6 + ETH + 24, 16);
	memset(s->mask.dst_ip, 0xff, 16);
	only(&p, tcp6, sizeof(tcp6), ETH + 39);
	s->val.flow_label = htonl(0x12345), s->mask.flow_label = htonl(0xfffff);
	only(&p, tcp6, sizeof(tcp6), ETH + 3);
	s->val.next_hdr = 6, s->mask.next_hdr = 0xff;
	only(&p, tcp6, sizeof(tcp6), ETH + 6);
	s->val.traffic_class = 0xb8, s->mask.traffic_class = 0xff;
	only(&p, tcp6, sizeof(tcp6), ETH);
	s->val.hop_limit = 64, s->mask.hop_limit = 0xff;
	only(&p, tcp6, sizeof(tcp6), ETH + 7);
}

static void ports(void **state)
{
	struct ibv_flow_spec_tcp_udp *s;
	uint8_t fragment[sizeof(udp4)];
	struct program p;

	(void)state;
	begin(&p);
	s = ADD(&p, UDP, tcp_udp);
	s->val.dst_port = htons(4791), s->mask.dst_port = 0xffff;
	only(&p, udp4, sizeof(udp4), IP_AT + 23);
	assert_false(matches(&p, tcp6, sizeof(tcp6)));
	memcpy(fragment, udp4, sizeof(udp4));
	fragment[IP_AT + 7] = 1; /* in a later fragment these bytes are no ports */
	assert_false(matches(&p, fragment, sizeof(fragment)));
	begin(&p);
	s = ADD(&p, TCP, tcp_udp);
	s->val.src_port = htons(1000), s->mask.src_port = 0xffff;
	s->val.dst_port = htons(80), s->mask.dst_port = 0xffff;
	only(&p, tcp6, sizeof(tcp6), ETH + 41);
	assert_false(matches(&p, udp4, sizeof(udp4)));
}

/* The spec that names the counters does not restrict the frames. */
static void counted(void **state)
{
	struct ibv_counters c;
	struct flow_rule r;
	struct program p;

	(void)state;
	begin(&p);
	add_count(&p, &c);
	assert_true(matches(&p, udp4, sizeof(udp4)));
	assert_int_equal(parse(&p, &r), 0);
	assert_ptr_equal(r.counters, &c);
	begin(&p);
	assert_int_equal(parse(&p, &r), 0);
	assert_null(r.counters);
}

static void multicast_by_default(void **state)
{
	uint8_t group[sizeof(udp4)];
	struct program p;

	(void)state;
	begin(&p);
	p.attr.type = IBV_FLOW_ATTR_MC_DEFAULT;
	assert_false(matches(&p, udp4, sizeof(udp4)));
	memcpy(group, udp4, sizeof(udp4));
	group[0] = 1;
	assert_true(matches(&p, group, sizeof(group)));
	p.attr.type = IBV_FLOW_ATTR_ALL_DEFAULT;
	assert_true(matches(&p, udp4, sizeof(udp4)));
	p.attr.type = IBV_FLOW_ATTR_SNIFFER;
	assert_true(matches(&p, udp4, sizeof(udp4)));
}

static void expect(const struct program *p, int rc)
{
	struct flow_rule r;

	assert_int_equal(parse(p, &r), rc);
}

static void refusals(void **state)
{
	struct ibv_counters c;
	struct program p;

	(void)state;
	begin(&p);
	p.attr.comp_mask = 1;
	expect(&p, -EINVAL);
	begin(&p);
	p.attr.port = 2;
	expect(&p, -EINVAL);
	begin(&p);
	p.attr.type = 4;
	expect(&p, -EINVAL);
	begin(&p);
	p.attr.num_of_specs = 11;
	expect(&p, -EINVAL);
	begin(&p);
	p.attr.flags = IBV_FLOW_ATTR_FLAGS_EGRESS;
	expect(&p, -EOPNOTSUPP);
	begin(&p);
	p.attr.type = IBV_FLOW_ATTR_ALL_DEFAULT;
	p.attr.flags = IBV_FLOW_ATTR_FLAGS_DONT_TRAP;
	expect(&p, -EINVAL);
	begin(&p);
	p.attr.type = IBV_FLOW_ATTR_SNIFFER;
	ADD(&p, ETH, eth);
	expect(&p, -EINVAL);
	begin(&p);
	ADD(&p, ETH, eth)->size--;
	expect(&p, -EINVAL);
	begin(&p);
	add(&p, IBV_FLOW_SPEC_GRE, sizeof(struct ibv_flow_spec_gre));
	expect(&p, -EOPNOTSUPP);
	begin(&p);
	ADD(&p, ETH, eth);
	ADD(&p, ETH, eth);
	expect(&p, -EINVAL);
	begin(&p);
	add_count(&p, NULL);
	expect(&p, -EINVAL);
	begin(&p);
	add_count(&p, &c);
	add_count(&p, &c);
	expect(&p, -EINVAL);
	begin(&p);
	ADD(&p, IPV4, ipv4);
	ADD(&p, IPV6, ipv6);
	expect(&p, -EINVAL);
	begin(&p);
	ADD(&p, ETH, eth)->val.ether_type = htons(0x86dd);
	((struct ibv_flow_spec_eth *)(void *)p.specs)->mask.ether_type = 0xffff;
	ADD(&p, IPV4, ipv4);
	expect(&p, -EINVAL);
}

/* Frames that are cut at each length: nothing behind the end is read, and a header that
 * is not whole does not count as one. */
static void cut(void **state)
{
	static const struct {
		const uint8_t *at;
		size_t n;
	} row[] = { { udp4, sizeof(udp4) }, { tcp6, sizeof(tcp6) } };
	struct prng rnd;
	uint64_t seed = rand_start();

	(void)state;
	printf("seed %llu\n", (unsigned long long)seed);
	rand_seed(&rnd, seed);
	for (unsigned i = 0; i < 20000; i++) {
		size_t n = rand_below(&rnd, row[i % 2].n + 1);
		uint8_t *exact = malloc(n + 1);
		struct flow_frame f;

		memcpy(exact, row[i % 2].at, n);
		for (unsigned k = (unsigned)rand_below(&rnd, 3); n && k > 0; k--)
			exact[rand_below(&rnd, n)] = (uint8_t)rand_u64(&rnd);
		flow_frame_parse(&f, exact, n);
		if (f.has & (FLOW_TCP | FLOW_UDP))
			assert_true(n >= ETH + 20 + 4);
		if (f.has & FLOW_IPV6)
			assert_true(n >= ETH + 40);
		free(exact);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ethernet), cmocka_unit_test(ipv4),
		cmocka_unit_test(ipv6),	    cmocka_unit_test(ports),
		cmocka_unit_test(counted),  cmocka_unit_test(multicast_by_default),
		cmocka_unit_test(refusals), cmocka_unit_test(cut),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
