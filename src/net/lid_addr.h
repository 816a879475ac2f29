/* SPDX-License-Identifier: BSD-2-Clause */
/* lid_addr.h - the struct link_addr of InfiniBand links: the fields of an LRH and, where
 * there is one, of a GRH (IBTA vol. 1, 7.7, 8.3). */
#ifndef NET_LID_ADDR_H
#define NET_LID_ADDR_H

#include <assert.h>

#include "net/dgram.h"

enum { LID_MULTICAST = 0xc000, LID_PERMISSIVE_ADDR = 0xffff };

/* View of a link_addr as its fields; may_alias because a link_addr is bytes. */
struct __attribute__((may_alias)) lid_addr {
	uint16_t slid, dlid;
	uint8_t sl;
	uint8_t grh; /* 1: the fields below are valid; 0: they are zeroes */
	uint8_t tclass, hop_limit;
	uint32_t flow_label;
	uint8_t sgid[16], dgid[16];
};

static_assert(sizeof(struct lid_addr) == sizeof(struct link_addr), "a view of it");
static_assert(_Alignof(struct lid_addr) <= _Alignof(struct link_addr), "a view of it");

static inline const struct lid_addr *lid_addr(const struct link_addr *a)
{
	return (const struct lid_addr *)a;
}

#endif
