/* SPDX-License-Identifier: BSD-2-Clause */
/* rss.c - the hash by which adapters spread frames over queues. */
#include "raw/rss.h"

#include <string.h>

#include "raw/flow.h"

uint32_t rss_toeplitz(const uint8_t key[RSS_KEY], const uint8_t *at, unsigned n)
{
	uint32_t hash = 0;
	uint32_t window = (uint32_t)key[0] << 24 | (uint32_t)key[1] << 16 |
			  (uint32_t)key[2] << 8 | key[3];

	for (unsigned i = 0; i < n; i++) {
		for (int bit = 7; bit >= 0; bit--) {
			if (at[i] >> bit & 1)
				hash ^= window;
			window = window << 1 | (key[i + 4] >> bit & 1);
		}
	}
	return hash;
}

struct input {
	uint8_t at[RSS_KEY - 4];
	unsigned n;
};

static void add_bytes(struct input *in, bool wanted, const uint8_t *at, unsigned n)
{
	if (!wanted)
		return;
	memcpy(in->at + in->n, at, n);
	in->n += n;
}

uint32_t rss_hash(const struct rss *rss, const struct flow_frame *frame)
{
	const struct flow_fields *f = &frame->f;
	const uint64_t want = rss->fields;
	struct input in = { .n = 0 };

	if (frame->has & FLOW_IPV4) {
		add_bytes(&in, want & IBV_RX_HASH_SRC_IPV4, f->src4, 4);
		add_bytes(&in, want & IBV_RX_HASH_DST_IPV4, f->dst4, 4);
	}
	if (frame->has & FLOW_IPV6) {
		add_bytes(&in, want & IBV_RX_HASH_SRC_IPV6, f->src6, 16);
		add_bytes(&in, want & IBV_RX_HASH_DST_IPV6, f->dst6, 16);
	}
	if (frame->has & FLOW_TCP) {
		add_bytes(&in, want & IBV_RX_HASH_SRC_PORT_TCP, f->src_port, 2);
		add_bytes(&in, want & IBV_RX_HASH_DST_PORT_TCP, f->dst_port, 2);
	}
	if (frame->has & FLOW_UDP) {
		add_bytes(&in, want & IBV_RX_HASH_SRC_PORT_UDP, f->src_port, 2);
		add_bytes(&in, want & IBV_RX_HASH_DST_PORT_UDP, f->dst_port, 2);
	}
	return rss_toeplitz(rss->key, in.at, in.n);
}
