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

#endif
