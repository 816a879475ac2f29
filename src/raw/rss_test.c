/* SPDX-License-Identifier: BSD-2-Clause */
/* The hash is the one that adapters compute, over the fields that the program names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "raw/flow.h"
#include "raw/rss.h"

/* The key and the results that Microsoft publishes to verify the hash of RSS. */
static const uint8_t key[RSS_KEY] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
	0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
	0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

static const struct published {
	uint8_t src[4], dst[4];
	uint16_t src_port, dst_port;
	uint32_t with_ports, alone;
} published[] = {
	{ { 66, 9, 149, 187 },
	  { 161, 142, 100, 80 },
	  2794,
	  1766,
	  0x51ccc178,
	  0x323e8fc2 },
	{ { 199, 92, 111, 2 }, { 65, 69, 140, 83 }, 14230, 4739, 0xc626b0ea, 0xd718262a },
	{ { 24, 19, 198, 95 },
	  { 12, 22, 207, 184 },
	  12898,
	  38024,
	  0x5c2b394a,
	  0xd2d0a5de },
	{ { 38, 27, 205, 30 },
	  { 209, 142, 163, 6 },
	  48228,
	  2217,
	  0xafc7327f,
	  0x82989176 },
	{ { 153, 39, 163, 191 },
	  { 202, 188, 127, 2 },
	  44251,
	  1303,
	  0x10e828a2,
	  0x5d1809c5 },
};

enum {
	IPV4 = IBV_RX_HASH_SRC_IPV4 | IBV_RX_HASH_DST_IPV4,
	TCP = IBV_RX_HASH_SRC_PORT_TCP | IBV_RX_HASH_DST_PORT_TCP,
};

static struct flow_frame frame_of(const struct published *p)
{
	struct flow_frame f = { .has = FLOW_IPV4 | FLOW_TCP };

	memcpy(f.f.src4, p->src, 4);
	memcpy(f.f.dst4, p->dst, 4);
	memcpy(f.f.src_port,
	       (uint8_t[]){ (uint8_t)(p->src_port >> 8), (uint8_t)p->src_port }, 2);
	memcpy(f.f.dst_port,
	       (uint8_t[]){ (uint8_t)(p->dst_port >> 8), (uint8_t)p->dst_port }, 2);
	return f;
}

static void the_published_results(void **state)
{
	struct rss rss = { .fields = 0 };

	(void)state;
	memcpy(rss.key, key, RSS_KEY);
	for (size_t i = 0; i < sizeof(published) / sizeof(published[0]); i++) {
		struct flow_frame f = frame_of(&published[i]);

		rss.fields = IPV4 | TCP;
		assert_int_equal(rss_hash(&rss, &f), published[i].with_ports);
		rss.fields = IPV4;
		assert_int_equal(rss_hash(&rss, &f), published[i].alone);
		f.has = FLOW_IPV4 | FLOW_UDP; /* ports of a protocol that is not selected
						 do not count */
		rss.fields = IPV4 | TCP;
		assert_int_equal(rss_hash(&rss, &f), published[i].alone);
	}
}

static void what_has_none_of_the_fields(void **state)
{
	struct flow_frame f = frame_of(&published[0]);
	struct rss rss = { .fields = RSS_FIELDS };

	(void)state;
	memcpy(rss.key, key, RSS_KEY);
	f.has = 0;
	assert_int_equal(rss_hash(&rss, &f), 0);
	f.has = FLOW_IPV6 | FLOW_UDP; /* the longest input */
	memset(f.f.src6, 0xff, 16);
	assert_int_not_equal(rss_hash(&rss, &f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_published_results),
		cmocka_unit_test(what_has_none_of_the_fields),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
