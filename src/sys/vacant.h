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

#include <stdbool.h>
#include <stdint.h>

struct vacant {
	int fd;		  /* -1: not open */
	uint64_t lo, len; /* what was added */
};

/* Returns 0; or -errno: this kernel, or its rules for this process, do not allow it. */
int vacant_open(struct vacant *v);
/* The same; and from the first vacant_freeze() on a fork of this process waits, when it
 * has copied the page tables, until vacant_news() has said VACANT_FORK. This takes
 * CAP_SYS_PTRACE. */
int vacant_open_forks(struct vacant *v);
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
/* The same without vacant_thaw(), for a part: stores go on, and wait again. Both return
 * 0; -EAGAIN: a fork waits, or is about to, and nothing has changed; or another -errno:
 * other memory lies there. */
int vacant_let(const struct vacant *v, uint64_t lo, uint64_t len);
int vacant_freeze_again(const struct vacant *v, uint64_t lo, uint64_t len);
enum vacant_news {
	VACANT_NOTHING,
	VACANT_STORE, /* one waits, at *addr */
	VACANT_FORK,  /* goes on now */
};
/* Only after vacant_open_forks(). Waits for ms milliseconds at most. Each store is told
 * of once. */
bool vacant_has_news(const struct vacant *v, int ms);
enum vacant_news vacant_news(const struct vacant *v, uint64_t *addr);
/* Nothing that was added waits any more. */
void vacant_drop(struct vacant *v);
/* With vacant_drop(). */
void vacant_close(struct vacant *v);

#endif
