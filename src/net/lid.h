/* SPDX-License-Identifier: BSD-2-Clause */
/* lid.h - wraps a link that neither loses nor corrupts, such as a ring to a fabric, and
 * makes InfiniBand packets of its datagrams, addressed by LIDs.
 *
 * The four bytes of the ICRC are zeroes; code that puts packets on a wire fills them
 * in.
 */
#ifndef NET_LID_H
#define NET_LID_H

#include "net/link.h"

/* Wraps inner, which the new link closes. *out may be the variable that held inner.
 * Returns 0 or -ENOMEM. */
int lid_wrap(struct link **out, struct link *inner);

/* Writes packet d as on a cable, LRH to VCRC, with right CRCs, or with a wrong ICRC if d
 * is damaged. The VL is 0, because only the fabric knows it. `to` has room for d->len +
 * LID_FRAME_MORE bytes. Returns the bytes written, or 0 if d is no packet or is no
 * longer mapped. */
enum { LID_FRAME_MORE = 8 + 40 + 2 };
size_t lid_frame(uint8_t *to, const struct dgram *d);

/* The place of the inner link, so that another link can be put around that while the NIC
 * runs. The turn is held; who puts one sets link->run_max. */
struct link **lid_inner(struct link *link);

#endif
