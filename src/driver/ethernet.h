/* SPDX-License-Identifier: BSD-2-Clause */
/* ethernet.h - the link of a NIC's RoCE devices: UDP sockets (driver/port), wrapped by
 * what settings ask for (wraps.h), and RoCE v2 around all. Inside driver/ only. */
#ifndef DRIVER_ETHERNET_H
#define DRIVER_ETHERNET_H

#include <stddef.h>
#include <stdint.h>

struct conf;
struct dgram;
struct ethernet;
struct link;
struct nic;

/* Adds the link to nic's links; connection management uses it, too. Returns 0 or
 * -errno. */
int ethernet_open(struct ethernet **out, struct nic *nic, const struct conf *conf);
void ethernet_close(struct ethernet *eth);

/* Events from other processes of this host: a datagram that one of them forwarded; a
 * slot whose process has ended. */
void ethernet_deliver(struct ethernet *eth, const struct dgram *d);
void ethernet_peer_gone(struct ethernet *eth, uint16_t slot);

/* See port_refused(). */
size_t ethernet_refused(struct ethernet *eth, uint8_t ip[16], void *quote, size_t max);

/* Logs a line about packets by packet sockets, if there are any. */
void ethernet_log_counters(const struct ethernet *eth);

/* Returns the link that packets from a ring count as received by. */
struct link *ethernet_link(struct ethernet *eth);

#endif
