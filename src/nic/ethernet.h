/* SPDX-License-Identifier: BSD-2-Clause */
/* ethernet.h - the link of a NIC's RoCE devices: UDP sockets (nic/port), around which
 * URNIC_PCAP and URNIC_FAULT stand, and RoCE v2 around those.  Inside nic/ only.
 */
#ifndef NIC_ETHERNET_H
#define NIC_ETHERNET_H

#include <stddef.h>
#include <stdint.h>

struct conf;
struct dgram;
struct ethernet;
struct link;
struct nic;

/* One more of nic's links, and connection management's.  0 or -errno. */
int ethernet_open(struct ethernet **out, struct nic *nic, const struct conf *conf);
void ethernet_close(struct ethernet *eth);

/* Of the processes of this host: a datagram that one of them has forwarded, a slot that
 * no process has any more. */
void ethernet_deliver(struct ethernet *eth, const struct dgram *d);
void ethernet_peer_gone(struct ethernet *eth, uint16_t slot);

/* As port_refused() has it. */
size_t ethernet_refused(struct ethernet *eth, uint8_t ip[16], void *quote, size_t max);

/* A line in the log of what came and went by packet sockets, if there are any. */
void ethernet_log_counters(const struct ethernet *eth);

/* The capture that URNIC_PCAP asks for; NULL: there is none. */
struct link *ethernet_pcap(struct ethernet *eth);

/* What packets come in by that a ring brings. */
struct link *ethernet_link(struct ethernet *eth);

#endif
