/* SPDX-License-Identifier: BSD-2-Clause */
/* topo_address.c - gives IP addresses to adapters that have none. */
#include <string.h>

#include "fabric/topo.h"

enum { LOOPBACK = 127, FIRST = 2, NETS = 253 };

/* The NET of a fabric's addresses 127.NET.x.y, a hash of its name: fabrics of one machine
 * mostly differ, and a fabric's addresses are the same in every run. */
static uint32_t net_of(const char *fabric)
{
	uint32_t h = 0;

	if (strcmp(fabric, "default") == 0 || strncmp(fabric, "exec-", 5) == 0)
		return 1;
	for (; *fabric; fabric++)
		h = h * 31 + (uint8_t)*fabric;
	return FIRST + h % NETS;
}

static bool is_used(const struct topo *t, uint32_t address)
{
	for (uint32_t i = 0; i < t->nodes; i++)
		for (unsigned p = 1; p <= t->node[i].ports; p++)
			if (t->node[i].port[p].address == address)
				return true;
	return false;
}

/* Does the topology itself name an address in this net?  Most name none. */
static bool has_some(const struct topo *t, uint32_t net)
{
	for (uint32_t i = 0; i < t->nodes; i++)
		for (unsigned p = 1; p <= t->node[i].ports; p++)
			if (t->node[i].port[p].address >> 16 == net)
				return true;
	return false;
}

void topo_give_addresses(struct topo *t, const char *fabric)
{
	const uint32_t net = (uint32_t)LOOPBACK << 8 | net_of(fabric);
	const bool some = has_some(t, net);
	uint32_t next = 1;

	for (uint32_t i = 0; i < t->nodes; i++) {
		struct topo_node *n = &t->node[i];

		if (n->type != TOPO_CA || !n->ports || n->port[1].address)
			continue;
		while (some && next <= UINT16_MAX && is_used(t, net << 16 | next))
			next++;
		if (next < UINT16_MAX)
			n->port[1].address = net << 16 | next++;
	}
}
