/* SPDX-License-Identifier: BSD-2-Clause */
/* ip_id.h - which IPv4 identifications of received packets are believed, where the
 * socket does not show them and the ICRC was solved for them.  For link/roce.c. */
#ifndef LINK_IP_ID_H
#define LINK_IP_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "link/dgram.h"

struct ip_ids;

struct ip_ids *ip_ids_new(void); /* NULL: no memory */
void ip_ids_free(struct ip_ids *ids);

/* Our own socket had no room for so many, or for runs of them: a gap. */
void ip_id_lost(struct ip_ids *ids, uint32_t n);
/* d had the identification that was guessed. */
void ip_id_guessed(struct ip_ids *ids, const struct dgram *d);
/* May d have id, which was solved for? */
bool ip_id_accept(struct ip_ids *ids, const struct dgram *d, uint16_t id, uint64_t now);

#endif
