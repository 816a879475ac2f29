/* SPDX-License-Identifier: BSD-2-Clause */
/* wp.h - makes stores to pages of this process wait, those of the kernel for its system
 * calls, too: userfaultfd's write protection (docs/dev/threads.md).
 *
 *	wp_open(&w), wp_add(&w, lo, len)	nothing waits yet
 *	wp_protect(&w, lo, len)			stores wait
 *	... replace the pages, or not ...
 *	wp_go_on(&w, lo, len)			they go on, to what lies there now
 *	wp_drop(&w), wp_close(&w)
 *
 * Nothing here allocates, or runs the program's own syscall(). */
#ifndef SYS_WP_H
#define SYS_WP_H

#include <stdbool.h>
#include <stdint.h>

struct wp {
	int fd;		  /* -1: not open */
	bool untouched;	  /* pages that were never touched are protected as they are */
	uint64_t lo, len; /* what was added */
};

/* Returns 0; or -errno: this kernel, or its rules for this process, do not allow it. */
int wp_open(struct wp *w);
/* Adds whole pages of private anonymous memory; one range at a time. Returns 0 or
 * -errno. */
int wp_add(struct wp *w, uint64_t lo, uint64_t len);
/* All stores to what was added go on, for good. */
void wp_drop(struct wp *w);
/* From its return on all stores to these pages wait. Returns 0; or -errno, and some
 * stores may wait until wp_go_on(). */
int wp_protect(const struct wp *w, uint64_t lo, uint64_t len);
/* Are these pages still those that were added, and protected? Returns 0 or -errno. */
int wp_look(const struct wp *w, uint64_t lo, uint64_t len);
/* Takes the protection away, from what has not been replaced. */
void wp_go_on(const struct wp *w, uint64_t lo, uint64_t len);
/* With wp_drop(). */
void wp_close(struct wp *w);

#endif
