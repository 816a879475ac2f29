/* SPDX-License-Identifier: BSD-2-Clause */
/* round.c - see round.h. */
#include "verbs/round.h"

bool silent_until(struct round *r, uint64_t at, uint64_t now)
{
	if (now < at)
		return false;
	if (r->heard >= at)
		return true;
	r->must_hear = true;
	return false;
}

uint64_t went_out(const struct round *r, uint64_t now)
{
	return r->clock ? r->clock() : now;
}
