/* SPDX-License-Identifier: BSD-2-Clause */
/* steer.h - make the kernel give each process of the port its own datagrams.
 *
 * For speed only: a datagram that comes to the wrong process is forwarded.
 * One map for each address family.  The map is discovered: a probe that names
 * a place in the group goes to the socket there, and its process answers with
 * its slot.  Places change when a process ends (the last takes its place), so
 * datagrams that come to the wrong process set off a discovery, not too often.
 */
#ifndef NIC_STEER_H
#define NIC_STEER_H

#include <stdbool.h>
#include <stdint.h>

#include "link/dgram.h"

struct steer;

/* rx_fd: bound to port in family.  epfd: where to be woken for answers. */
int steer_open(struct steer **out, int family, uint16_t port, uint16_t slot, int rx_fd,
	       int epfd);
void steer_close(struct steer *s);

/* A datagram for slot came here.  Slots that no socket was found for are left
 * alone for a while. */
void steer_misdelivered(struct steer *s, uint16_t slot, uint64_t now);

/* Is d a probe?  Then it was answered and is no one else's. */
bool steer_input(struct steer *s, const struct dgram *d);

/* Do what is due and read what was answered.  Returns the next deadline. */
uint64_t steer_run(struct steer *s, uint64_t now);
bool steer_active(const struct steer *s); /* answers may be waiting */

uint64_t steer_discoveries(const struct steer *s);

/* In the child of a fork: close the descriptors. */
void steer_forked(struct steer *s);

#endif
