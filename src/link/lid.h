/* SPDX-License-Identifier: BSD-2-Clause */
/* lid.h - a link around one that loses and spoils nothing, such as a ring to a fabric:
 * its packets are InfiniBand's, addressed by LIDs.
 *
 * There is no ICRC: its place is left to the code that puts packets on a wire, and is
 * zeroes.
 */
#ifndef LINK_LID_H
#define LINK_LID_H

#include "link/link.h"

/* The new link closes inner with itself.  *out may be the variable that inner came
 * from.  0 or -ENOMEM. */
int lid_wrap(struct link **out, struct link *inner);

/* d, a packet of such a link, as it would be on a cable: from its LRH to its VCRC, both
 * CRCs right, or the ICRC wrong where d is damaged.  The VL is 0, since it is the fabric
 * that knows it.  `to` has room for d->len + LID_FRAME_MORE.  The bytes; 0: it is no
 * packet, or is not mapped any more. */
enum { LID_FRAME_MORE = 8 + 40 + 2 };
size_t lid_frame(uint8_t *to, const struct dgram *d);

#endif
