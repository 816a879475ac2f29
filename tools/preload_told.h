/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_told.h - what the files of liburnic-map.so share.  That library tells liburnic
 * what the program does to its memory (preload_memory.c). */
#ifndef TOOLS_PRELOAD_TOLD_H
#define TOOLS_PRELOAD_TOLD_H

#include <stddef.h>
#include <stdint.h>

#include "preload.h"
#include "sys/preloaded.h"

typedef long syscall_fn(long n, long a, long b, long c, long d, long e, long f);

typedef int madvise_fn(void *at, size_t len, int advice);
typedef void *mremap_fn(void *at, size_t len, size_t new_len, int flags, void *to);

enum called {
#define CALLED(n) CALLED_##n,
#include "preload_called.def"
#undef CALLED
};

/* Returns libc's own function, or NULL with errno set if there is none. */
void *libcs(enum called n);

/* liburnic's functions, to which events are told; NULL: it has not asked for them. */
const struct preload_ops *told(void);
void tell(const struct preload_ops *o); /* tells o from now on */
/* Something begins that may touch memory unnoticed.  Calls liburnic's no_more(), now or
 * as soon as liburnic asks. */
void no_more(void);
/* liburnic's functions if some of these bytes may be a file's; NULL: they are of no
 * concern to liburnic.  errno stays. */
const struct preload_ops *who_knows(uintptr_t lo, size_t len);
const struct preload_ops *who_knows_any(void);
/* Makes pages that are a file's private memory again, if possible.  errno stays. */
void make_private(uintptr_t lo, size_t len);
void make_all_private(void);

/* Around a call that says something of these pages for as long as they are mapped.  errno
 * stays. */
struct change {
	const struct preload_ops *o;
	unsigned when;
};
struct change begin_change(uintptr_t lo, size_t len);
void end_change(struct change c);

/* The same around a call that closes a descriptor.  *kept: it must not be made, and errno
 * says so. */
struct change begin_closing(int fd, bool *kept);

/* After a call that has opened a descriptor, or failed with errno set.  Returns fd. */
int has_opened(int fd);

/* Around a call of futex(2) (to: its second word), or another call to sleep. */
struct sleep {
	_Atomic uintptr_t *at;
	bool lasts;
};
struct sleep begin_sleep(long op, long word, long to);
struct sleep begin_sleep_somewhere(void);
void end_sleep(struct sleep s);
void forget_sleepers(void); /* in a child */

/* Do what madvise() and mremap() do for private memory; fn is libc's function, or another
 * way to make the same call. */
int do_madvise(madvise_fn *fn, void *at, size_t len, int advice);
void *do_mremap(mremap_fn *fn, void *at, size_t len, size_t new_len, int flags, void *to);

void before_thread(void);

/* Installs handlers for fork().  If no constructor has run before, they are the last ones
 * before a fork and the first ones after it. */
void watch_forks(void);
/* waits: the call may wait for other threads' locks.  Returns what after_fork() needs;
 * NULL: after_fork() has nothing to do. */
const struct preload_ops *before_fork(bool waits);
void after_fork(const struct preload_ops *o, long pid);
/* Does a child of clone(2) with these flags have memory of its own? */
bool has_own_memory(unsigned long flags);
/* A child is about to share this process's memory. */
void before_sharing(unsigned long flags);

#endif
