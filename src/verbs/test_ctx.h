/* SPDX-License-Identifier: BSD-2-Clause */
/* test_ctx.h - an opened device for unit tests: one interface eth7 with the
 * addresses fe80::1, 10.0.0.1 and 2001:db8::1. */
#ifndef VERBS_TEST_CTX_H
#define VERBS_TEST_CTX_H

#include <stdlib.h>
#include <string.h>

#include "net/addr_testing.h"
#include "verbs/core.h"
#include "verbs/event.h"
#include "verbs/netport.h"

struct test_ctx {
	struct core core;
	struct device *dev;
	struct ibv_context ibv;
	struct context ctx;
};

static inline void test_add_addr(struct netdev *net, const char *ip16)
{
	memcpy(net->addr[net->naddrs++].ip, ip16, 16);
}

#define TEST_LL "\xfe\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\1"
#define TEST_V4 "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0\1"
#define TEST_V6 "\x20\1\x0d\xb8\0\0\0\0\0\0\0\0\0\0\0\1"

static inline struct netdev test_netdev(void)
{
	struct netdev net = {
		.name = "eth7",
		.ifindex = 7,
		.mtu = 1500,
		.payload = 1416,
		.running = true,
		.mac = { 0x02, 0x11, 0x22, 0x33, 0x44, 0x55 },
	};

	test_add_addr(&net, TEST_LL);
	test_add_addr(&net, TEST_V4);
	test_add_addr(&net, TEST_V6);
	return net;
}

static inline void test_open_on(struct test_ctx *t, const struct netdev *net)
{
	memset(t, 0, sizeof(*t));
	if (core_init(&t->core, 1) || device_create(&device_roce, net, NULL, &t->dev) ||
	    event_queue_init(&t->ctx.async))
		abort();
	t->ctx.core = &t->core;
	t->ctx.dev = t->dev;
	t->ctx.link = &test_link;
	t->ctx.ibv = &t->ibv;
	t->ibv.async_fd = t->ctx.async.fd;
	list_add_tail(&t->core.contexts, &t->ctx.node);
}

static inline void test_open(struct test_ctx *t)
{
	const struct netdev net = test_netdev();

	test_open_on(t, &net);
}

/* Frees the test's device too, although devices normally live as long as the process. */
static inline void test_close(struct test_ctx *t)
{
	event_queue_fini(&t->ctx.async);
	free(t->dev);
	core_fini(&t->core);
}

#endif
