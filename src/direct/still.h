/* SPDX-License-Identifier: BSD-2-Clause */
/* still.h - keeps file pages of runs as they are from the moment when they are copied for
 * a child until the child is made: stores of other threads wait (docs/dev/threads.md,
 * "fork"). So the child sees no store without those that came before it.
 *
 * Who makes the child may have to wait for a lock of libc's first, whose owner waits in
 * such a store. A thread looks for that, lets the stores go on that wait, and copies
 * their pages again, at the latest while the kernel makes the child. */
#ifndef DIRECT_STILL_H
#define DIRECT_STILL_H

#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

#include "direct/swap.h"

enum { STILL_PAGES = 512 };

/* A page that was copied again: of the run's file, at this offset. */
struct still_page {
	unsigned run;
	uint64_t offset;
};

/* Memory that the child shares; the pages' content follows. */
struct still_late {
	unsigned n;
	struct still_page page[STILL_PAGES];
};

struct still {
	struct vacant stores; /* wait */
	const struct swap_run *run;
	unsigned n;
	_Atomic uint32_t phase;
	bool watched, is_watched;
	pid_t forker;
	struct still_late *late;
	/* The thread's own: pages where stores wait, and where they have been let go on.
	 */
	struct {
		unsigned n;
		uint64_t at[STILL_PAGES];
	} waiting, let;
	uint64_t since;	 /* when they were let go on; ns */
	unsigned asleep; /* how often in a row the caller was found so */
};

/* Begins the thread, once in a process. A fork cannot: its other handlers have the locks
 * of malloc(), say. Returns 0 or -errno. */
int still_prepare(void);
void still_forked(void); /* in a child, which has no such thread */

/* watched: the caller may have to wait for locks of other threads before still_end()
 * (this takes CAP_SYS_PTRACE). Returns 0 or -errno. */
int still_open(struct still *s, bool watched);
/* The runs stay as they are until still_end(). Returns 0; or -errno, no store waits, and
 * it is not open any more. */
int still_begin(struct still *s, const struct swap_run *run, unsigned n);
/* The pages are copied: from now on it is looked for whom the caller waits for. */
void still_copied(struct still *s);
/* False: some stores have gone on before. */
bool still_end(struct still *s);
/* In the child, before the copies are put in place. */
void still_in_child(struct still *s);

#endif
