/* SPDX-License-Identifier: BSD-2-Clause */
/* well_known.h - well-known QP numbers, Q_Keys and P_Keys (IBTA vol. 1, 3.5.10, 10.2.5,
 * 10.9.1). */
#ifndef WIRE_WELL_KNOWN_H
#define WIRE_WELL_KNOWN_H

#include <stdbool.h>
#include <stdint.h>

enum {
	QP_SMI = 0, /* subnet management */
	QP_GSI = 1, /* general services: connection management and others */
	QP_MULTICAST = 0xffffff,
};

#define QKEY_GSI 0x80010000u /* the Q_Key of every QP1 */

/* P_Keys (10.9): a partition number, and whether the port is a full member of the
 * partition.  No partition has the number 0. */
enum {
	PKEY_FULL = 0x8000,
	PKEY_DEFAULT = 0xffff, /* the default partition, as a full member */
};

static inline bool pkey_valid(uint16_t a)
{
	return (a & (PKEY_FULL - 1)) != 0;
}

/* Are these P_Keys of the same partition? */
static inline bool pkey_same_partition(uint16_t a, uint16_t b)
{
	return (uint16_t)((a ^ b) << 1) == 0 && pkey_valid(a);
}

/* May ports with these P_Keys talk to each other?  They must be of the same partition,
 * and one at least a full member (10.9.3). */
static inline bool pkey_match(uint16_t a, uint16_t b)
{
	return pkey_same_partition(a, b) && ((a | b) & PKEY_FULL);
}

/* The index in a port's table of n P_Keys of the one that accepts a packet with pkey.  If
 * two do, the full member's: an answer with it is accepted by both kinds of member.  n:
 * none does. */
static inline unsigned pkey_find(const uint16_t *table, unsigned n, uint16_t pkey)
{
	unsigned found = n;

	for (unsigned i = 0; i < n; i++) {
		if (!pkey_match(table[i], pkey))
			continue;
		if (table[i] & PKEY_FULL)
			return i;
		if (found == n)
			found = i;
	}
	return found;
}

/* The P_Key for the answer to a packet with pkey: the port's own that accepted it, not
 * pkey, since full and limited members may both ask a full member.  If none accepts it,
 * pkey itself. */
static inline uint16_t pkey_of_answer(const uint16_t *table, unsigned n, uint16_t pkey)
{
	unsigned i = pkey_find(table, n, pkey);

	return i < n ? table[i] : pkey;
}

#endif
