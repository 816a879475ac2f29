/* SPDX-License-Identifier: BSD-2-Clause */
/* preloaded.h - the interface between liburnic and the library that `urnic run' preloads.
 *
 * That library stands before libc's madvise(), mremap(), clone() and others.  If it is of
 * the same release, liburnic asks it to report those calls that concern memory backed by
 * a file of ours (docs/dev/direct.md, "Private memory").  The functions below may be
 * called from any thread, from a signal handler, and from within malloc(). */
#ifndef SYS_PRELOADED_H
#define SYS_PRELOADED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct preload_ops {
	/* May some of these bytes be backed by a file?  Usually false at once. */
	bool (*meets)(uintptr_t lo, size_t len);
	/* Turns these pages into private memory again, with the same content.  Returns
	 * false if not all of them could be, since another thread or process could touch
	 * them meanwhile. */
	bool (*make_private)(uintptr_t lo, size_t len);
	/* Around a call that says something of these pages for as long as they are mapped
	 * (mprotect, mlock, madvise): it waits until they are not just becoming a file's.
	 * The second gets what the first has returned. */
	unsigned (*change)(uintptr_t lo, size_t len);
	void (*changed)(unsigned when);
	/* mremap() has moved pages that make_private() had left a file's. */
	void (*moved)(void);
	/* Makes these pages read as zeros, as MADV_DONTNEED does with private memory. */
	void (*make_zero)(uintptr_t lo, size_t len);
	/* Must the program not close this descriptor now?  -1: may it ever be so? */
	bool (*keeps)(int fd);
	/* The program has a new descriptor, or one that it has told to store directly. */
	void (*opened)(int fd);
	/* A thread is about to be started. */
	void (*before_thread)(void);
	/* Before and after a call that makes a process with a copy of this memory. waits:
	 * it may wait for other threads' locks before it does so.  If before_fork()
	 * returns false, there is nothing to do and the other two are not called. */
	bool (*before_fork)(bool waits);
	void (*in_parent)(void);
	void (*in_child)(void);
	/* From now on no memory may be turned into file-backed memory. */
	void (*no_more)(void);
};

/* A function of that library: it starts reporting.  Returns false if the library is of
 * another release, or something else stands before it. */
#define PRELOAD_WATCH "urnic_preload_watch"
bool urnic_preload_watch(const char *release, const struct preload_ops *ops);
/* Others: does it see also what threads may do while memory becomes a file's?  And may a
 * thread sleep on a word of these bytes, or the kernel store there, by the page and not
 * by the address? */
#define PRELOAD_BESIDE "urnic_preload_beside"
#define PRELOAD_TIED   "urnic_preload_tied"
bool urnic_preload_beside(void);
bool urnic_preload_tied(uintptr_t lo, size_t len);

#endif
