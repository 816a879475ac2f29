/* SPDX-License-Identifier: BSD-2-Clause */
#include "sys/alloc.h"

#include <stdlib.h>

#include "sys/cancel.h"

void *turn_alloc(size_t size)
{
	sigset_t was;
	void *p;

	signals_hold(&was);
	p = calloc(1, size);
	signals_let(&was);
	return p;
}

void turn_free(void *p)
{
	sigset_t was;

	if (!p)
		return;
	signals_hold(&was);
	free(p);
	signals_let(&was);
}
