/* SPDX-License-Identifier: BSD-2-Clause */
/* addr_testing.h - for unit tests: a link that carries nothing, but knows IP addresses.
 */
#ifndef NET_ADDR_TESTING_H
#define NET_ADDR_TESTING_H

#include "net/ip_addr.h"
#include "net/link.h"

static const struct link_ops test_link_ops = {
	.resolve = ip_resolve,
	.is_from = ip_is_from,
	.dest = ip_dest,
	.head = ip_head,
};
static struct link test_link = { .ops = &test_link_ops, .run_max = 1 };

#endif
