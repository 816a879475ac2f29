/* SPDX-License-Identifier: BSD-2-Clause */
/* gsi.h - numbers that are the same on every port (IBTA vol. 1, 3.5.10, 10.2.5, 10.9.1).
 */
#ifndef WIRE_GSI_H
#define WIRE_GSI_H

#include <stdbool.h>
#include <stdint.h>

enum {
	QP_SMI = 0, /* subnet management */
	QP_GSI = 1, /* general services: connection management and others */
	QP_MULTICAST = 0xffffff,
};

#define QKEY_GSI 0x80010000u /* of all QP1s */

/* P_Keys (10.9): the number of a partition, and whether the port is a full member of it.
 * A number of 0 is no partition's. */
enum {
	PKEY_FULL = 0x8000,
	PKEY_DEFAULT = 0xffff, /* the default partition, as a full member */
};

static inline bool pkey_valid(uint16_t a)
{
	return (a & (PKEY_FULL - 1)) != 0;
}

/* Of one partition? */
static inline bool pkey_same_partition(uint16_t a, uint16_t b)
{
	return (uint16_t)((a ^ b) << 1) == 0 && pkey_valid(a);
}

/* May ports with these P_Keys talk?  Of the same partition, and not both limited
 * members of it (10.9.3). */
static inline bool pkey_match(uint16_t a, uint16_t b)
{
	return pkey_same_partition(a, b) && ((a | b) & PKEY_FULL);
}

/* Where in a port's table of n is the P_Key by which it hears a packet that has this one?
 * Of two it is the full member's: an answer from there is heard by both kinds.  n: there
 * is none. */
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

/* The P_Key of an answer to a packet that had this one: the port's own, as both kinds of
 * member ask a full one.  Nothing has heard it: it stays. */
static inline uint16_t pkey_of_answer(const uint16_t *table, unsigned n, uint16_t pkey)
{
	unsigned i = pkey_find(table, n, pkey);

	return i < n ? table[i] : pkey;
}

#endif
