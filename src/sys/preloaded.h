/* SPDX-License-Identifier: BSD-2-Clause */
/* preloaded.h - what liburnic and the library that `urnic run' preloads say to each
 * other.
 *
 * That library stands before libc's madvise(), mremap(), clone() and others.  liburnic
 * asks it, if it is of the same release, to be told of those that concern memory which is
 * a file's (docs/direct.md, "Private memory").  The calls below may come from any thread,
 * from a signal handler, and from within malloc().
 */
#ifndef SYS_PRELOADED_H
#define SYS_PRELOADED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct preload_ops {
	/* Some of these bytes may be a file's: false, as a rule, at once. */
	bool (*meets)(uintptr_t lo, size_t len);
	/* Those pages become private memory again, with the same content.  False: not all
	 * of them, since somebody else could touch them meanwhile. */
	bool (*make_private)(uintptr_t lo, size_t len);
	/* They hold zeros, as after MADV_DONTNEED of private memory. */
	void (*make_zero)(uintptr_t lo, size_t len);
	/* A thread is about to begin. */
	void (*before_thread)(void);
	/* Around what makes a process with a copy of this memory.  False: there is
	 * nothing to do, and the other two are not called. */
	bool (*before_fork)(void);
	void (*in_parent)(void);
	void (*in_child)(void);
	/* Something begins after which no memory may become a file's. */
	void (*no_more)(void);
};

/* A function of that library: it tells from now on.  False: it is of another release, or
 * something stands before it. */
#define PRELOAD_WATCH "urnic_preload_watch"
bool urnic_preload_watch(const char *release, const struct preload_ops *ops);

#endif
