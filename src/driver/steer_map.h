/* SPDX-License-Identifier: BSD-2-Clause */
/* steer_map.h - the map from slot to socket in the port's group, and the classic BPF
 * program that tells it to the kernel.
 *
 * The program sees a datagram from its UDP payload on and returns the place of a socket
 * in the group; a place that does not exist makes the kernel choose by hash. For a
 * probe, which must come from this host, it returns the place that the probe names.
 */
#ifndef DRIVER_STEER_MAP_H
#define DRIVER_STEER_MAP_H

#include <linux/filter.h>
#include <stdint.h>

enum {
	STEER_SLOTS = 1024,
	STEER_NONE = 0xffff, /* no such place */
	STEER_OPCODE = 0xf7, /* BTH opcode of a probe, from the manufacturer's range */
	STEER_PROGRAM_MAX = BPF_MAXINSNS,
};

struct steer_map {
	uint16_t place[STEER_SLOTS];
}; /* place of each slot's socket */

void steer_map_clear(struct steer_map *m);

/* Writes the program for the n slots of slot[], ascending, into f, which has room for
 * STEER_PROGRAM_MAX. Returns its length, or 0 if it would be longer. */
unsigned steer_program(struct sock_filter *f, int family, const struct steer_map *m,
		       const uint16_t *slot, unsigned n);

#endif
