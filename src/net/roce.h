/* SPDX-License-Identifier: BSD-2-Clause */
/* roce.h - wraps a link of UDP datagrams and makes RoCE v2 packets of them (IBTA annex
 * A17): each gets an ICRC over its payload, BTH and the fields of its IP and UDP headers
 * that routers leave alone.
 *
 * Received packets lose their ICRC; if it is wrong, the packet is marked `damaged`, and
 * the caller drops and counts it.
 */
#ifndef NET_ROCE_H
#define NET_ROCE_H

#include "net/link.h"

/* port: destination UDP port of sent packets, and of received ones where the inner link
 * does not say. The new link owns and closes inner; *out may be the variable that held
 * inner. Returns 0 or -ENOMEM. */
int roce_wrap(struct link **out, struct link *inner, uint16_t port);

/* Sets the UDP source port of packets whose address gives none. Must be set before the
 * first seal(). */
void roce_leaves_from(struct link *link, uint16_t port);
/* Sets the UDP source port of packets with link_to.told, whose sender wants to know if
 * nobody has the destination port: the kernel reports refusals to the owner of this
 * port. 0: the port of roce_leaves_from(). */
void roce_is_told(struct link *link, uint16_t port);

/* Returns the longest payload, whatever the packet's headers, on a network with this mtu
 * (bytes, IP header included). */
size_t roce_payload(size_t mtu);

/* The place of the inner link, so that another link can be put around that while the NIC
 * runs. The turn is held; who puts one sets link->run_max. */
struct link **roce_inner(struct link *link);

#endif
