/* SPDX-License-Identifier: BSD-2-Clause */
/* hang.c - see hang.h. */
#include "verbs/hang.h"

/* What ends earlier, or happens less often, is no hang; what pauses longer is another
 * one. */
enum { HANG_NS = 1000000000, HANG_LEAST = 3, HANG_PAUSES = 4 };

bool hang_seen(struct hang *h, uint32_t at, uint64_t now)
{
	if (!h->n || h->at != at || now - h->last > (uint64_t)HANG_PAUSES * HANG_NS)
		*h = (struct hang){ .at = at, .since = now, .said = h->said };
	h->n++;
	h->last = now;
	if (h->said || h->n < HANG_LEAST || now - h->since < HANG_NS)
		return false;
	h->said = true;
	return true;
}
