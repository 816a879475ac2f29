/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_memory.c - tells liburnic what a program does to its memory, before the program
 * could notice that some of it is a file's (sys/preloaded.h; docs/dev/direct.md, "Private
 * memory").
 *
 * Until liburnic asks to be told, and for memory that is not a file's, each function here
 * only calls libc's.  Calls that libc makes internally do not come here, and need not.
 */
#include "preload_told.h"

#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef MADV_DONTNEED_LOCKED
#define MADV_DONTNEED_LOCKED 24
#endif
#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif
#ifndef MADV_COLLAPSE
#define MADV_COLLAPSE 25
#endif

static const struct preload_ops *_Atomic ops;
static atomic_bool unfit; /* no_more() */

const struct preload_ops *told(void)
{
	return atomic_load_explicit(&ops, memory_order_acquire);
}

/* tell() and no_more() each store first and then look at the other's variable, so at
 * least one of them sees both and calls o->no_more(). */
void tell(const struct preload_ops *o)
{
	atomic_store(&ops, o);
	if (atomic_load(&unfit))
		o->no_more();
}

void no_more(void)
{
	const struct preload_ops *o;

	atomic_store(&unfit, true);
	o = atomic_load(&ops);
	if (o)
		o->no_more();
}

const struct preload_ops *who_knows(uintptr_t lo, size_t len)
{
	const struct preload_ops *o = told();
	int saved = errno;

	if (!o || o->meets(lo, len))
		return o;
	errno = saved;
	return NULL;
}

const struct preload_ops *who_knows_any(void)
{
	return who_knows(0, SIZE_MAX);
}

void make_private(uintptr_t lo, size_t len)
{
	const struct preload_ops *o = who_knows(lo, len);
	int saved = errno;

	if (o)
		(void)o->make_private(lo, len);
	errno = saved;
}

void make_all_private(void)
{
	make_private(0, SIZE_MAX);
}

struct change begin_change(uintptr_t lo, size_t len)
{
	struct change c = { .o = told() };
	int saved = errno;

	if (c.o)
		c.when = c.o->change(lo, len);
	errno = saved;
	return c;
}

void end_change(struct change c)
{
	if (c.o)
		c.o->changed(c.when);
}

/* --- madvise and its like -------------------------------------------------- */

/* Does the advice mean the same for a file's pages as for private memory, or have no
 * effect that a program could see? */
static bool is_harmless(int advice)
{
	switch (advice) {
	case MADV_NORMAL:
	case MADV_RANDOM:
	case MADV_SEQUENTIAL:
	case MADV_WILLNEED:
	case MADV_COLD:
	case MADV_PAGEOUT:
	case MADV_HUGEPAGE:
	case MADV_NOHUGEPAGE:
	case MADV_COLLAPSE:
	case MADV_POPULATE_READ:
	case MADV_POPULATE_WRITE:
		return true;
	default:
		return false;
	}
}

static bool empties(int advice)
{
	return advice == MADV_DONTNEED || advice == MADV_DONTNEED_LOCKED;
}

/* The kernel has refused at some mapping of the range, one that is locked for example,
 * and has emptied all before it.  Returns where it has stopped, found by halving: the
 * shorter call that does not come that far succeeds. */
static size_t emptied(madvise_fn *fn, void *at, size_t len, int advice)
{
	const size_t page = (size_t)getpagesize();
	size_t good = 0, bad = len / page + 1, some;

	while (bad - good > 1) {
		some = good + (bad - good) / 2;
		if (!fn(at, some * page, advice) || errno == ENOMEM)
			good = some;
		else
			bad = some;
	}
	return good * page;
}

/* Does madvise() on memory of which some pages are a file's. */
static int advise_range(const struct preload_ops *o, int (*fn)(void *, size_t, int),
			void *at, size_t len, int advice)
{
	int rc, saved = errno;

	if (advice == MADV_REMOVE) {
		errno = EINVAL; /* as for private memory */
		return -1;
	}
	if (!empties(advice) && advice != MADV_FREE && !is_harmless(advice))
		(void)o->make_private((uintptr_t)at, len);
	rc = fn(at, len, advice);
	if (empties(advice)) {
		int why = errno;

		if (rc && why != ENOMEM)
			len = emptied(fn, at, len, advice);
		if (len)
			o->make_zero((uintptr_t)at, len);
		errno = why;
	} else if (advice == MADV_FREE && rc && errno == EINVAL &&
		   !((uintptr_t)at % (uintptr_t)getpagesize())) {
		/* Success: MADV_FREE allows the kernel to keep the pages, too. */
		rc = 0;
	}
	if (!rc)
		errno = saved;
	return rc;
}

/* The pages may have become a file's since the call began, with the content that they had
 * then. */
static void empty_late(void *at, size_t len)
{
	const struct preload_ops *o = who_knows((uintptr_t)at, len);
	int saved = errno;

	if (o)
		o->make_zero((uintptr_t)at, len);
	errno = saved;
}

int do_madvise(madvise_fn *fn, void *at, size_t len, int advice)
{
	const struct preload_ops *o = who_knows((uintptr_t)at, len);
	int rc;

	if (o)
		return advise_range(o, fn, at, len, advice);
	if (!empties(advice) && advice != MADV_FREE && !is_harmless(advice)) {
		struct change c = begin_change((uintptr_t)at, len);

		rc = fn(at, len, advice);
		end_change(c);
		return rc;
	}
	rc = fn(at, len, advice);
	if (empties(advice) && len && (!rc || errno == ENOMEM))
		empty_late(at, len);
	return rc;
}

PUBLIC int madvise(void *at, size_t len, int advice)
{
	madvise_fn *fn;

	*(void **)&fn = libcs(CALLED_madvise);
	return fn ? do_madvise(fn, at, len, advice) : -1;
}

/* A mapping that is several for the kernel cannot be moved: what private memory would not
 * answer is said otherwise. */
void *do_mremap(mremap_fn *fn, void *at, size_t len, size_t new_len, int flags, void *to)
{
	const struct preload_ops *o = who_knows((uintptr_t)at, len ? len : 1);
	bool kept = false;
	void *moved;

	if (o)
		kept = !o->make_private((uintptr_t)at, len ? len : 1);
	moved = fn(at, len, new_len, flags, to);
	if (moved == MAP_FAILED && kept && errno == EFAULT)
		errno = ENOMEM;
	else if (kept)
		o->moved();
	return moved;
}

/* The C library's headers declare this name with other arguments. */
PUBLIC void *hooked_mremap(void *at, size_t len, size_t new_len, int flags,
			   void *to) __asm__("mremap");

void *hooked_mremap(void *at, size_t len, size_t new_len, int flags, void *to)
{
	mremap_fn *fn;

	*(void **)&fn = libcs(CALLED_mremap);
	return fn ? do_mremap(fn, at, len, new_len, flags, to) : MAP_FAILED;
}

PUBLIC int mprotect(void *at, size_t len, int prot)
{
	int (*fn)(void *, size_t, int), rc;
	struct change c;

	*(void **)&fn = libcs(CALLED_mprotect);
	if (!fn)
		return -1;
	c = begin_change((uintptr_t)at, len);
	rc = fn(at, len, prot);
	end_change(c);
	return rc;
}

PUBLIC int mlock(const void *at, size_t len)
{
	int (*fn)(const void *, size_t), rc;
	struct change c;

	make_private((uintptr_t)at, len);
	*(void **)&fn = libcs(CALLED_mlock);
	if (!fn)
		return -1;
	c = begin_change((uintptr_t)at, len);
	rc = fn(at, len);
	end_change(c);
	return rc;
}

PUBLIC int hooked_mlock2(const void *at, size_t len, unsigned flags) __asm__("mlock2");

int hooked_mlock2(const void *at, size_t len, unsigned flags)
{
	int (*fn)(const void *, size_t, unsigned), rc;
	struct change c;

	make_private((uintptr_t)at, len);
	*(void **)&fn = libcs(CALLED_mlock2);
	if (!fn)
		return -1;
	c = begin_change((uintptr_t)at, len);
	rc = fn(at, len, flags);
	end_change(c);
	return rc;
}

PUBLIC int mlockall(int flags)
{
	int (*fn)(int), rc;
	struct change c;

	make_all_private();
	*(void **)&fn = libcs(CALLED_mlockall);
	if (!fn)
		return -1;
	c = begin_change(0, SIZE_MAX);
	rc = fn(flags);
	end_change(c);
	return rc;
}

PUBLIC int hooked_pkey_mprotect(void *at, size_t len, int prot,
				int key) __asm__("pkey_mprotect");

int hooked_pkey_mprotect(void *at, size_t len, int prot, int key)
{
	int (*fn)(void *, size_t, int, int), rc;
	struct change c;

	make_private((uintptr_t)at, len);
	*(void **)&fn = libcs(CALLED_pkey_mprotect);
	if (!fn)
		return -1;
	c = begin_change((uintptr_t)at, len);
	rc = fn(at, len, prot, key);
	end_change(c);
	return rc;
}

/* After chroot() /proc may be missing, from which liburnic learns which memory is a
 * file's. */
PUBLIC int chroot(const char *path)
{
	int (*fn)(const char *);

	no_more();
	make_all_private();
	*(void **)&fn = libcs(CALLED_chroot);
	return fn ? fn(path) : -1;
}

/* The pid file descriptor may be another process's, or this one's. */
PUBLIC ssize_t hooked_process_madvise(int pid, const void *v, size_t n, int advice,
				      unsigned flags) __asm__("process_madvise");

ssize_t hooked_process_madvise(int pid, const void *v, size_t n, int advice,
			       unsigned flags)
{
	ssize_t (*fn)(int, const void *, size_t, int, unsigned), rc;
	struct change c;

	make_all_private();
	*(void **)&fn = libcs(CALLED_process_madvise);
	if (!fn)
		return -1;
	c = begin_change(0, SIZE_MAX);
	rc = fn(pid, v, n, advice, flags);
	end_change(c);
	return rc;
}
