/* SPDX-License-Identifier: BSD-2-Clause */
/* ip_id.h - decides whether an IPv4 identification is plausible that was computed from
 * the ICRC, because a UDP socket does not show the real one. For net/roce.c. */
#ifndef NET_IP_ID_H
#define NET_IP_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "net/dgram.h"

struct ip_ids;

struct ip_ids *ip_ids_new(void); /* NULL: no memory */
void ip_ids_free(struct ip_ids *ids);

/* Our socket dropped n datagrams or runs, which leaves a gap in every sender's count. */
void ip_id_lost(struct ip_ids *ids, uint32_t n);
/* Records that the guess for d's identification was right. */
void ip_id_guessed(struct ip_ids *ids, const struct dgram *d);
/* Is `id`, computed from d's ICRC, a plausible identification for d? now is in ns. */
bool ip_id_accept(struct ip_ids *ids, const struct dgram *d, uint16_t id, uint64_t now);

#endif
