/* SPDX-License-Identifier: BSD-2-Clause */
/* vacant.h - takes pages of this process away from their place, for a moment: whoever
 * loads or stores there waits, the kernel for a system call, too (userfaultfd;
 * docs/dev/threads.md).
 *
 *	vacant_open(&v), vacant_add(&v, lo, len)	nothing waits yet
 *	vacant_take(&v, lo, len, &at)			the pages are at `at'
 *	... copy them, and map the copy to lo ...
 *	vacant_end(&v, lo, len, at)			all go on, with what lies there
 *now or vacant_put_back(&v, lo, len, at)	all go on, and nothing has changed
 *	vacant_drop(&v), vacant_close(&v)
 *
 * Nothing here allocates, or runs the program's own syscall(). */
#ifndef SYS_VACANT_H
#define SYS_VACANT_H

#include <stdint.h>

struct vacant {
	int fd;		  /* -1: not open */
	uint64_t lo, len; /* what was added */
};

/* Returns 0; or -errno: this kernel, or its rules for this process, do not allow it. */
int vacant_open(struct vacant *v);
/* Adds whole pages of private anonymous memory; one range at a time. Returns 0 or
 * -errno. */
int vacant_add(struct vacant *v, uint64_t lo, uint64_t len);
/* Moves these pages to *at, where nobody else looks for them; what was never touched, or
 * has been given back (MADV_DONTNEED), is untouched there. From its return on whoever
 * touches their place waits. Returns 0; or -errno, and nothing has changed. */
int vacant_take(const struct vacant *v, uint64_t lo, uint64_t len, uint64_t *at);
/* Is the place still what was added? Returns 0 or -errno. */
int vacant_look(const struct vacant *v, uint64_t lo, uint64_t len);
/* Moves the pages back, and all go on. Where another thread has unmapped the place they
 * are dropped. */
void vacant_put_back(const struct vacant *v, uint64_t lo, uint64_t len, uint64_t at);
/* Drops the pages at `at', and all go on. */
void vacant_end(const struct vacant *v, uint64_t lo, uint64_t len, uint64_t at);
/* Pages of a memfd, mapped shared: from its return on stores to them wait, until
 * vacant_thaw(); loads go on. Returns 0 or -errno (Linux 5.19). */
int vacant_freeze(const struct vacant *v, uint64_t lo, uint64_t len);
void vacant_thaw(const struct vacant *v, uint64_t lo, uint64_t len);
/* Nothing that was added waits any more. */
void vacant_drop(struct vacant *v);
/* With vacant_drop(). */
void vacant_close(struct vacant *v);

#endif
