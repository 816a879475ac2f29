/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_told.h - what the files of liburnic-map.so share, which tells liburnic of
 * what the program does (preload_memory.c). */
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

/* libc's own.  NULL, with errno set: there is none. */
void *libcs(enum called n);

/* Whom to tell; NULL: nobody has asked. */
const struct preload_ops *told(void);
void tell(const struct preload_ops *o); /* from now on */
/* Something begins that may touch memory unseen: also who asks later is told that. */
void no_more(void);
/* ... of these bytes; NULL: they are of no concern.  errno stays. */
const struct preload_ops *who_knows(uintptr_t lo, size_t len);
const struct preload_ops *who_knows_any(void);
void make_private(uintptr_t lo, size_t len);
void make_all_private(void);

/* fn is called for what is then left to do. */
int do_madvise(madvise_fn *fn, void *at, size_t len, int advice);
void *do_mremap(mremap_fn *fn, void *at, size_t len, size_t new_len, int flags, void *to);

void before_thread(void);

/* Its handlers are the last before a fork, and the first after it, if it is called first
 * of all. */
void watch_forks(void);
/* NULL: there is nothing to do afterwards, either. */
const struct preload_ops *before_fork(void);
void after_fork(const struct preload_ops *o, long pid);
/* By the flags of clone(2). */
bool has_own_memory(unsigned long flags);
void before_sharing(unsigned long flags);

#endif
