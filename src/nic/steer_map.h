/* SPDX-License-Identifier: BSD-2-Clause */
/* steer_map.h - which socket of the port's group belongs to which slot, and
 * the classic BPF program that says so to the kernel.
 *
 * The program sees a datagram from its UDP payload on and answers with a
 * socket's place in the group; a place that does not exist makes the kernel
 * choose by hash.  A probe (from this host) is answered with the place that it
 * asks for.
 */
#ifndef NIC_STEER_MAP_H
#define NIC_STEER_MAP_H

#include <linux/filter.h>
#include <stdint.h>

enum {
	STEER_SLOTS = 1024,
	STEER_NONE = 0xffff, /* no such place */
	STEER_OPCODE = 0xf7, /* BTH opcode of a probe: manufacturer's */
	STEER_PROGRAM_MAX = BPF_MAXINSNS,
};

struct steer_map {
	uint16_t place[STEER_SLOTS];
}; /* by slot */

void steer_map_clear(struct steer_map *m);

/* Write the program for the n slots at slot[], ascending, into f, which has
 * room for STEER_PROGRAM_MAX.  Returns its length; 0 if it would be longer. */
unsigned steer_program(struct sock_filter *f, int family, const struct steer_map *m,
		       const uint16_t *slot, unsigned n);

#endif
