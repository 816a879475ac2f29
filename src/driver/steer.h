/* SPDX-License-Identifier: BSD-2-Clause */
/* steer.h - makes the kernel give each process of the port its own datagrams.
 *
 * This only speeds things up: a datagram that comes to the wrong process is forwarded.
 * There is a map for each address family, which is discovered: a probe that names a
 * place in the socket group goes to the socket there, whose process answers with its
 * slot. Places change when a process ends (the last socket takes its place), so
 * datagrams at the wrong process start a discovery, at a limited rate.
 */
#ifndef DRIVER_STEER_H
#define DRIVER_STEER_H

#include <stdbool.h>
#include <stdint.h>

#include "net/dgram.h"

struct steer;

/* rx_fd: bound to port in family. epfd: epoll set to be woken by answers. */
int steer_open(struct steer **out, int family, uint16_t port, uint16_t slot, int rx_fd,
	       int epfd);
void steer_close(struct steer *s);

/* A datagram for slot came to us. Slots without a socket are left alone for a while. */
void steer_misdelivered(struct steer *s, uint16_t slot, uint64_t now);

/* Is d a probe? Then it has been answered and nobody else handles it. */
bool steer_input(struct steer *s, const struct dgram *d);

/* Does what is due and reads answers. Returns the next deadline, ns. */
uint64_t steer_run(struct steer *s, uint64_t now);
bool steer_active(const struct steer *s); /* may answers be waiting? */

uint64_t steer_discoveries(const struct steer *s);

/* In the child of a fork: closes the descriptors. */
void steer_forked(struct steer *s);

#endif
