/* SPDX-License-Identifier: BSD-2-Clause */
/* still.h - keeps file pages of runs as they are from the moment when they are copied for
 * a child until the child is made: stores of other threads wait (docs/dev/threads.md,
 * "fork"). So the child sees no store without those that came before it.
 *
 * Who makes the child may have to wait for a lock of libc's first, whose owner waits in
 * such a store. A thread looks for that, and then lets the stores go on. */
#ifndef DIRECT_STILL_H
#define DIRECT_STILL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "direct/swap.h"

struct still {
	struct vacant stores; /* wait */
	const struct swap_run *run;
	unsigned n;
	_Atomic uint32_t phase;
	bool is_watched;
	pthread_t watch;
	pid_t forker;
};

/* The runs stay as they are until still_end(). watched: the caller may have to wait for
 * locks of other threads before that. Returns 0; or -errno, and no store waits. */
int still_begin(struct still *s, const struct swap_run *run, unsigned n, bool watched);
/* The pages are copied: from now on it is looked for whom the caller waits for. */
void still_copied(struct still *s);
/* False: stores have gone on before. */
bool still_end(struct still *s);
/* In the child, which has only the descriptor. */
void still_in_child(struct still *s);

#endif
