/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_process.c - tells liburnic before a thread starts, and before and after a call
 * that makes a process with a copy of this one's memory (preload_memory.c).
 */
#include "preload_told.h"

#include <linux/sched.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <threads.h>
#include <unistd.h>

/* --- threads ---------------------------------------------------------------- */

void before_thread(void)
{
	const struct preload_ops *o = who_knows_any();
	int saved = errno;

	if (o)
		o->before_thread();
	errno = saved;
}

/* The program's own memory as a thread's stack: libc's control block lies there, too, and
 * the kernel stores to that when the thread ends. */
static bool has_stack(const pthread_attr_t *attr, uintptr_t *lo, size_t *len)
{
	void *at = NULL;

	*len = 0;
	if (!attr || pthread_attr_getstack(attr, &at, len) || !at)
		return false;
	*lo = (uintptr_t)at;
	return *len > 0;
}

/* The call that says something of that memory lasts until libc has begun the thread. */
struct begin {
	struct change c;
	void *(*run)(void *);
	void *arg;
};

static void *begin_thread(void *arg)
{
	struct begin b = *(struct begin *)arg;

	free(arg);
	end_change(b.c);
	return b.run(b.arg);
}

typedef int create_fn(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *),
		      void *arg);

static int create_on_stack(create_fn *fn, pthread_t *t, const pthread_attr_t *attr,
			   uintptr_t lo, size_t len, const struct begin *of)
{
	struct begin *b = malloc(sizeof(*b));
	struct change c;
	int rc;

	if (!b)
		return EAGAIN;
	c = begin_change(lo, len);
	*b = (struct begin){ c, of->run, of->arg };
	rc = fn(t, attr, begin_thread, b);
	if (rc) {
		end_change(c);
		free(b);
	}
	return rc;
}

PUBLIC int pthread_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *),
			  void *arg)
{
	const struct begin of = { .run = run, .arg = arg };
	create_fn *fn;
	uintptr_t lo;
	size_t len;

	before_thread();
	*(void **)&fn = libcs(CALLED_pthread_create);
	if (!fn)
		return EAGAIN;
	return has_stack(attr, &lo, &len) ? create_on_stack(fn, t, attr, lo, len, &of)
					  : fn(t, attr, run, arg);
}

PUBLIC int thrd_create(thrd_t *t, thrd_start_t run, void *arg)
{
	int (*fn)(thrd_t *, thrd_start_t, void *);

	before_thread();
	*(void **)&fn = libcs(CALLED_thrd_create);
	return fn ? fn(t, run, arg) : thrd_error;
}

/* --- processes with a copy of this one's memory ----------------------------- */

const struct preload_ops *before_fork(bool waits)
{
	const struct preload_ops *o = told();

	return o && o->before_fork(waits) ? o : NULL;
}

void after_fork(const struct preload_ops *o, long pid)
{
	int saved = errno;

	if (o && pid)
		o->in_parent();
	else if (o)
		o->in_child();
	if (!pid)
		forget_sleepers();
	errno = saved;
}

/* libc's fork() calls the handlers of pthread_atfork().  This library's constructor is
 * the first of all (DF_1_INITFIRST), so its handlers are the last ones before a fork and
 * the first ones after it: memory that other handlers write belongs to the process in
 * which they run. */
static _Thread_local const struct preload_ops *forking
	__attribute__((tls_model("initial-exec")));

static void on_fork(void)
{
	forking = before_fork(true);
}

static void on_parent(void)
{
	after_fork(forking, 1);
}

static void on_child(void)
{
	after_fork(forking, 0);
}

void watch_forks(void)
{
	pthread_atfork(on_fork, on_parent, on_child);
}

PUBLIC pid_t hooked_Fork(void) __asm__("_Fork");

pid_t hooked_Fork(void)
{
	const struct preload_ops *o;
	pid_t (*fn)(void), pid;

	*(void **)&fn = libcs(CALLED__Fork);
	if (!fn)
		return -1;
	o = before_fork(false);
	pid = fn();
	after_fork(o, pid);
	return pid;
}

struct start {
	const struct preload_ops *o;
	int (*run)(void *);
	void *arg;
};

static int start_thread(void *arg)
{
	struct start s = *(const struct start *)arg;

	after_fork(s.o, 0);
	return s.run(s.arg);
}

bool has_own_memory(unsigned long flags)
{
	return !(flags & CLONE_VM);
}

void before_sharing(unsigned long flags)
{
	if (flags & CLONE_VFORK)
		return;
	before_thread();
	if (!(flags & CLONE_THREAD))
		no_more();
}

/* The child's stack must not be a file's, since liburnic cannot replace pages that are in
 * use.  Returns true if the STACK bytes below top are private. */
enum { STACK = 1 << 20 };

static bool has_free_stack(const void *top)
{
	uintptr_t lo = (uintptr_t)top > STACK ? (uintptr_t)top - STACK : 0;

	make_private(lo, STACK);
	return !who_knows(lo, STACK);
}

typedef int clone_fn(int (*run)(void *), void *stack, int flags, void *arg, void *a,
		     void *b, void *c);

PUBLIC int hooked_clone(int (*run)(void *), void *stack, int flags, void *arg, void *a,
			void *b, void *c) __asm__("clone");

int hooked_clone(int (*run)(void *), void *stack, int flags, void *arg, void *a, void *b,
		 void *c)
{
	struct start s = { NULL, run, arg };
	clone_fn *fn;
	int pid;

	*(void **)&fn = libcs(CALLED_clone);
	if (!fn)
		return -1;
	if (!has_own_memory((unsigned)flags)) {
		before_sharing((unsigned)flags);
		return fn(run, stack, flags, arg, a, b, c);
	}
	if (!who_knows_any() || !run)
		return fn(run, stack, flags, arg, a, b, c);
	if (!has_free_stack(stack)) {
		errno = ENOMEM;
		return -1;
	}
	s.o = before_fork(false);
	if (!s.o)
		return fn(run, stack, flags, arg, a, b, c);
	pid = fn(start_thread, stack, flags, &s, a, b, c);
	after_fork(s.o, 1);
	return pid;
}
