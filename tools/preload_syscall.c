/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_syscall.c - tells liburnic of calls made by syscall() (preload_memory.c). */
#include "preload_told.h"

#include <linux/sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static syscall_fn *real_syscall(void)
{
	syscall_fn *fn;

	*(void **)&fn = libcs(CALLED_syscall);
	return fn;
}

/* libfabric and UCX hook libc's functions by patching their instructions; the hooks then
 * use syscall() for the original call.  It must not run the hooks again. */
static int madvise_by_number(void *at, size_t len, int advice)
{
	return (int)real_syscall()(SYS_madvise, (long)at, (long)len, advice, 0, 0, 0);
}

static void *mremap_by_number(void *at, size_t len, size_t new_len, int flags, void *to)
{
	return (void *)real_syscall()(SYS_mremap, (long)at, (long)len, (long)new_len,
				      flags, (long)to, 0);
}

/* --- by number --------------------------------------------------------------- */

/* Does the call make a child as fork(2) does: on the same stack, with its own memory? */
static bool is_fork(long n, long a, long b)
{
	const uint64_t *args = (const uint64_t *)a; /* struct clone_args */

	switch (n) {
#ifdef SYS_fork
	case SYS_fork:
		return true;
#endif
	case SYS_clone:
		return has_own_memory((unsigned long)a) && !b;
	case SYS_clone3:
		return a && (size_t)b >= CLONE_ARGS_SIZE_VER0 &&
		       has_own_memory(args[0]) && !args[5];
	default:
		return false;
	}
}

static __attribute__((noinline)) long by_fork(long n, long a, long b, long c, long d,
					      long e)
{
	const struct preload_ops *o = before_fork(false);
	long pid = real_syscall()(n, a, b, c, d, e, 0);

	after_fork(o, pid);
	return pid;
}

static void before_clone(unsigned long flags)
{
	if (has_own_memory(flags))
		make_all_private();
	else
		before_sharing(flags);
}

static __attribute__((noinline)) void before_call(long n, long a, long b)
{
	switch (n) {
	case SYS_clone:
		before_clone((unsigned long)a);
		break;
	case SYS_clone3:
		if (a && (size_t)b >= CLONE_ARGS_SIZE_VER0)
			before_clone(*(const uint64_t *)a);
		break;
	case SYS_mlock:
	case SYS_mlock2:
	case SYS_mbind:
	case SYS_pkey_mprotect:
		make_private((uintptr_t)a, (size_t)b);
		break;
	case SYS_userfaultfd:
	case SYS_chroot:
	case SYS_pivot_root:
		no_more();
		make_all_private();
		break;
	case SYS_mlockall:
	case SYS_process_madvise:
		make_all_private();
		break;
	default:
		break;
	}
}

/* Which memory does the call say something of, for as long as that is mapped? */
static bool says(long n, long a, long b, uintptr_t *lo, size_t *len)
{
	*lo = (uintptr_t)a;
	*len = (size_t)b;
	switch (n) {
	case SYS_mprotect:
	case SYS_mlock:
	case SYS_mlock2:
	case SYS_mbind:
	case SYS_pkey_mprotect:
		return true;
	case SYS_mlockall:
	case SYS_process_madvise:
#ifdef SYS_close_range
	case SYS_close_range:
#endif
	case SYS_io_setup:
	case SYS_io_uring_setup:
	case SYS_io_uring_register:
		*lo = 0;
		*len = SIZE_MAX;
		return true;
	default:
		return false;
	}
}

/* Which descriptor does the call close? -1: none. */
static int closed(long n, long a, long b)
{
	switch (n) {
	case SYS_close:
		return (int)a;
#ifdef SYS_dup2
	case SYS_dup2:
#endif
	case SYS_dup3:
		return (int)b;
	default:
		return -1;
	}
}

static bool opens(long n)
{
	switch (n) {
#ifdef SYS_open
	case SYS_open:
#endif
#ifdef SYS_openat2
	case SYS_openat2:
#endif
	case SYS_openat:
	case SYS_socket:
		return true;
	default:
		return false;
	}
}

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define FUTEX_WAIT_2 455 /* SYS_futex_wait */

static struct sleep before_sleep(long n, long a, long b, long e)
{
	if (n == SYS_futex)
		return begin_sleep(b, a, e);
	if (n == SYS_futex_waitv || n == FUTEX_WAIT_2)
		return begin_sleep_somewhere();
	return (struct sleep){ NULL, false };
}

/* on: the function to call with the same arguments; NULL: the call has been made, and
 * result is its result. */
struct handed {
	syscall_fn *on;
	long result;
};

static struct handed with_result(long result)
{
	return (struct handed){ NULL, result };
}

/* Runs before libc's syscall(); says what is left to call. */
struct handed preload_syscall(long n, long a, long b, long c, long d, long e, long f);

__attribute__((used)) struct handed preload_syscall(long n, long a, long b, long c,
						    long d, long e, long f)
{
	const struct preload_ops *o = told();
	syscall_fn *fn = real_syscall();
	struct sleep s;
	uintptr_t lo;
	size_t len;

	if (!fn)
		return with_result(-1);
	if (o) {
		if (n == SYS_madvise)
			return with_result(do_madvise(madvise_by_number, (void *)a,
						      (size_t)b, (int)c));
		if (n == SYS_mremap)
			return with_result((long)do_mremap(mremap_by_number, (void *)a,
							   (size_t)b, (size_t)c, (int)d,
							   (void *)e));
		if (is_fork(n, a, b))
			return with_result(by_fork(n, a, b, c, d, e));
	}
	before_call(n, a, b);
	s = before_sleep(n, a, b, e);
	if (s.lasts) {
		long rc = fn(n, a, b, c, d, e, f);

		end_sleep(s);
		return with_result(rc);
	}
	if (o && opens(n))
		return with_result(has_opened((int)fn(n, a, b, c, d, e, f)));
	if (o && closed(n, a, b) >= 0) {
		bool kept;
		struct change change = begin_closing(closed(n, a, b), &kept);
		long rc = kept ? -1 : fn(n, a, b, c, d, e, f);

		end_change(change);
		return with_result(rc);
	}
	if (o && says(n, a, b, &lo, &len)) {
		struct change change = begin_change(lo, len);
		long rc = fn(n, a, b, c, d, e, f);

		end_change(change);
		return with_result(rc);
	}
	return (struct handed){ fn, 0 };
}

/* libc's syscall() is reached by a jump.  A child of vfork(2) also returns through it, on
 * its parent's stack, where a frame of this function would be overwritten. */
#if defined(__x86_64__)
/* In assembly, since the seventh argument lies on the stack.  If the caller passes fewer,
 * something else lies there that another thread may write to; a compiler's code would
 * read it and store it back. */
__asm__(".pushsection .text\n"
	".globl syscall\n"
	".type syscall, @function\n"
	"syscall:\n"
	".cfi_startproc\n"
	"	endbr64\n"
	"	push %rdi\n"
	"	push %rsi\n"
	"	push %rdx\n"
	"	push %rcx\n"
	"	push %r8\n"
	"	push %r9\n"
	"	push 56(%rsp)\n"
	".cfi_adjust_cfa_offset 56\n"
	"	call preload_syscall\n"
	"	mov %rdx, %r11\n"
	"	add $8, %rsp\n"
	"	pop %r9\n"
	"	pop %r8\n"
	"	pop %rcx\n"
	"	pop %rdx\n"
	"	pop %rsi\n"
	"	pop %rdi\n"
	".cfi_adjust_cfa_offset -56\n"
	"	test %rax, %rax\n"
	"	je 1f\n"
	"	jmp *%rax\n"
	"1:	mov %r11, %rax\n"
	"	ret\n"
	".cfi_endproc\n"
	".size syscall, . - syscall\n"
	".popsection\n");
#else
/* All arguments are in registers (-foptimize-sibling-calls). */
PUBLIC long hooked_syscall(long n, long a, long b, long c, long d, long e,
			   long f) __asm__("syscall");

long hooked_syscall(long n, long a, long b, long c, long d, long e, long f)
{
	struct handed h = preload_syscall(n, a, b, c, d, e, f);

	return h.on ? h.on(n, a, b, c, d, e, f) : h.result;
}
#endif
