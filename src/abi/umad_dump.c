/* SPDX-License-Identifier: BSD-2-Clause */
/* umad_dump.c - shows a program's messages on stderr, as rdma-core's libibumad does. */
#include <infiniband/umad.h>
#include <stdio.h>
#include <unistd.h>

#include "abi/umad_own.h"

static int debug_level;

EXPORT int umad_debug(int level)
{
	if (level >= 0)
		debug_level = level;
	return debug_level;
}

EXPORT void umad_addr_dump(ib_mad_addr_t *addr)
{
	char gid[2 * sizeof(addr->gid) + 1];

	for (unsigned i = 0; i < sizeof(addr->gid); i++)
		snprintf(gid + 2 * i, 3, "%02x", addr->gid[i]);
	fprintf(stderr,
		"ibwarn: [%d] %s: qpn %u qkey 0x%x lid %u sl %u\n"
		"grh_present %u gid_index %u hop_limit %u traffic_class %u"
		" flow_label 0x%x pkey_index 0x%x\nGid 0x%s\n",
		getpid(), __func__, __builtin_bswap32(addr->qpn),
		__builtin_bswap32(addr->qkey), __builtin_bswap16(addr->lid), addr->sl,
		addr->grh_present, addr->gid_index, addr->hop_limit, addr->traffic_class,
		addr->flow_label, addr->pkey_index, gid);
}

EXPORT void umad_dump(void *umad)
{
	struct ib_user_mad *mad = umad;

	fprintf(stderr, "ibwarn: [%d] %s: agent id %u status %x timeout %u\n", getpid(),
		__func__, mad->agent_id, mad->status, mad->timeout_ms);
	umad_addr_dump(&mad->addr);
}
