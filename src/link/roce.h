/* SPDX-License-Identifier: BSD-2-Clause */
/* roce.h - a link around one of UDP datagrams, which makes RoCE v2 of them (IBTA
 * annex A17): behind each packet stands an ICRC over what routers leave alone of
 * its IP and UDP headers, BTH and payload.
 *
 * What comes in leaves without the ICRC; a packet whose ICRC is wrong is marked
 * `damaged`.  The caller drops and counts those.
 */
#ifndef LINK_ROCE_H
#define LINK_ROCE_H

#include "link/link.h"

/* port: where packets come in, which a link need not say of each, and where they go.  The
 * new link closes inner with itself.  *out may be the variable that inner came from.  0
 * or -ENOMEM. */
int roce_wrap(struct link **out, struct link *inner, uint16_t port);

/* The UDP port that packets leave from whose address does not say it; known before
 * the first is sealed. */
void roce_leaves_from(struct link *link, uint16_t port);
/* ... and from this one packets whose sender is to be told if nobody is there (link_to.
 * told), as the kernel tells the port's owner of refusals.  0: from the other. */
void roce_is_told(struct link *link, uint16_t port);

/* The longest payload of a packet, whatever its headers, of a network whose packets have
 * at most mtu bytes, IP header and all. */
size_t roce_payload(size_t mtu);

#endif
