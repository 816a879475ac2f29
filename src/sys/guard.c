/* SPDX-License-Identifier: BSD-2-Clause */
/* guard.c - access to memory that may have been unmapped; see guard.h.
 *
 * Copies and atomics are a few instructions that are recognised by their addresses
 * (guarded.S, GUARD_PLACE()): a thread that faults there continues where the fault is
 * reported.
 *
 * Other guarded code sets a jump buffer and marks the thread.  The signal handler of a
 * marked thread does not jump itself: it points the interrupted context at leave_copy()
 * and returns.  So the kernel restores signal mask and alternate stack as after any
 * handler, and leave_copy() jumps from the thread's own stack.
 *
 * All other faults go where they would have gone without us: `before` holds the actions
 * that were found installed, oldest first.  A program's handler that was installed after
 * ours may call ours as its predecessor; then the next older action is called.  The depth
 * in such a chain is kept in uc_link of the signal frame: the kernel sets it to NULL in
 * every frame that it makes and does not read it again, so handlers that jump out leave
 * nothing stale. */
#include "sys/guard.h"

#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "sys/caught.h"
#include "sys/inside.h"

enum { HISTORY = 8 };

struct guard {
	sigjmp_buf jmp;
};

/* initial-exec: reading it in a handler must not allocate. */
static _Thread_local struct guard *volatile active
	__attribute__((tls_model("initial-exec")));

/* What this thread knows about its signal mask, and has done to it. */
static _Thread_local struct {
	uint8_t times;
	bool blocks, open;
	bool pending;	 /* entered, and no memory touched yet */
	unsigned depth;	 /* nesting of guard_enter() */
	unsigned opened; /* what the first touch has unblocked */
} mask __attribute__((tls_model("initial-exec")));

static struct history {
	int sig;
	_Atomic unsigned n;
	struct sigaction before[HISTORY];
} histories[2] = { { .sig = SIGSEGV }, { .sig = SIGBUS } };

static ucontext_t depth_mark[HISTORY + 1]; /* only their addresses are used */

static _Noreturn void leave_copy(void)
{
	siglongjmp(active->jmp, 1);
}

#if defined(__x86_64__)

bool guarded_avx;

static void choose_instructions(void)
{
	guarded_avx = __builtin_cpu_supports("avx");
}

/* Returns where a thread continues after a fault at ip; 0: no guarded instruction. */
static uintptr_t after_fault(uintptr_t ip)
{
	if (ip >= (uintptr_t)guarded_begin && ip < (uintptr_t)guarded_end)
		return (uintptr_t)guarded_fault;
	for (const struct guard_place *p = __start_guard_places; p < __stop_guard_places;
	     p++)
		if ((uintptr_t)&p->at + (uintptr_t)p->at == ip)
			return (uintptr_t)&p->to + (uintptr_t)p->to;
	return 0;
}

static void read_context(const ucontext_t *uc, struct guard_touch *t)
{
	const greg_t *r = uc->uc_mcontext.gregs;

	t->by = (uintptr_t)r[REG_RIP];
	t->writes = r[REG_ERR] & 2;
	t->ours = after_fault(t->by);
}

static bool redirect_guarded(ucontext_t *uc)
{
	greg_t *ip = &uc->uc_mcontext.gregs[REG_RIP];
	uintptr_t to = after_fault((uintptr_t)*ip);

	if (to)
		*ip = (greg_t)to;
	return to;
}

#else

static void choose_instructions(void)
{
}

static void read_context(const ucontext_t *uc, struct guard_touch *t)
{
#if defined(__aarch64__)
	t->by = uc->uc_mcontext.pc;
#else
	(void)uc, (void)t;
#endif
}

static bool redirect_guarded(ucontext_t *uc)
{
	(void)uc;
	return false;
}

#endif

static void redirect(ucontext_t *uc)
{
#if defined(__x86_64__)
	greg_t *r = uc->uc_mcontext.gregs;

	r[REG_RSP] = ((r[REG_RSP] - 128) & ~15ll) - 8; /* as after a call */
	r[REG_RIP] = (greg_t)(uintptr_t)leave_copy;
	r[REG_EFL] &= ~0x400ll; /* DF is clear */
#elif defined(__aarch64__)
	uc->uc_mcontext.sp &= ~15ull;
	uc->uc_mcontext.pc = (uintptr_t)leave_copy;
#else
	(void)uc;
	leave_copy();
#endif
}

static void die_of(int sig, siginfo_t *si)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	sigaction(sig, &dfl, NULL);
	/* A fault recurs when the instruction is run again, and the core dump shows it; a
	 * signal that was sent must be sent again. */
	if (si->si_code <= 0)
		syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), sig, si);
}

static void call(const struct sigaction *sa, int sig, siginfo_t *si, ucontext_t *uc)
{
	sigset_t block = sa->sa_mask, old;

	if (!(sa->sa_flags & SA_NODEFER))
		sigaddset(&block, sig);
	pthread_sigmask(SIG_BLOCK, &block, &old);
	if (sa->sa_flags & SA_SIGINFO)
		sa->sa_sigaction(sig, si, uc);
	else
		sa->sa_handler(sig);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static void chain(struct history *h, siginfo_t *si, ucontext_t *uc)
{
	unsigned n = atomic_load_explicit(&h->n, memory_order_acquire);
	ucontext_t *was = uc->uc_link;
	unsigned depth = was ? (unsigned)(was - depth_mark) : 0;
	struct sigaction *sa = depth < n ? &h->before[n - 1 - depth] : NULL;
	struct sigaction copy;

	if (!sa || (!(sa->sa_flags & SA_SIGINFO) && sa->sa_handler == SIG_DFL)) {
		die_of(h->sig, si);
		return;
	}
	if (!(sa->sa_flags & SA_SIGINFO) && sa->sa_handler == SIG_IGN) {
		if (si->si_code > 0) /* a fault cannot be ignored */
			die_of(h->sig, si);
		return;
	}
	copy = *sa;
	if (copy.sa_flags & (int)SA_RESETHAND)
		*sa = (struct sigaction){ .sa_handler = SIG_DFL };
	uc->uc_link = &depth_mark[depth + 1];
	call(&copy, h->sig, si, uc);
	uc->uc_link = was;
}

bool (*_Atomic guard_owner)(const struct guard_touch *t);

/* Has the owner of protected pages opened the one that this fault was of? */
static bool is_opened(const siginfo_t *si, const ucontext_t *uc)
{
	bool (*owner)(const struct guard_touch *) = guard_owner;
	struct guard_touch t = { .at = (uintptr_t)si->si_addr };

	if (!owner || si->si_code != SEGV_ACCERR)
		return false;
	read_context(uc, &t);
	t.ours |= active || mask.depth || inside_calls;
	return owner(&t);
}

static void on_fault(int sig, siginfo_t *si, void *ucp)
{
	bool fault = si->si_code > 0; /* not by kill() */
	int saved = errno;

	if (sig == SIGBUS && si->si_code == BUS_MCEERR_AO)
		fault = false; /* about some other page */
	if (sig == SIGSEGV && is_opened(si, ucp))
		;
	else if (fault && redirect_guarded(ucp))
		;
	else if (fault && active)
		redirect(ucp);
	else
		chain(&histories[sig == SIGBUS], si, ucp);
	errno = saved;
}

static bool is_ours(const struct sigaction *sa)
{
	return (sa->sa_flags & SA_SIGINFO) && sa->sa_sigaction == on_fault;
}

static bool same_action(const struct sigaction *a, const struct sigaction *b)
{
	return a->sa_flags == b->sa_flags && a->sa_sigaction == b->sa_sigaction;
}

/* before[n] is filled before n grows: a handler in another thread sees the old history or
 * the new one.  A full history drops its newest entry. */
static void remember_handler(struct history *h, const struct sigaction *sa)
{
	unsigned n = atomic_load_explicit(&h->n, memory_order_relaxed);

	if (n > 0 && same_action(&h->before[n - 1], sa))
		return;
	if (n == HISTORY)
		atomic_store_explicit(&h->n, --n, memory_order_release);
	h->before[n] = *sa;
	atomic_store_explicit(&h->n, n + 1, memory_order_release);
}

static void install_handler(struct history *h)
{
	struct sigaction sa, now;

	if (sigaction(h->sig, NULL, &now) != 0 || is_ours(&now))
		return;
	remember_handler(h, &now);
	memset(&sa, 0, sizeof(sa));
	sa.sa_sigaction = on_fault;
	sa.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER | (now.sa_flags & SA_RESTART);
	sigemptyset(&sa.sa_mask);
	sigaction(h->sig, &sa, NULL);
}

static struct lock arm_lock;

void guard_arm(void)
{
	inside_begin(); /* for a signal handler that forks */
	lock_take(&arm_lock);
	install_handler(&histories[0]);
	install_handler(&histories[1]);
	choose_instructions();
	lock_give(&arm_lock);
	inside_end();
	mask.times = 0;
}

/* --- a thread that blocks the signals ------------------------------------ */

enum { BLOCKS_SEGV = 1, BLOCKS_BUS = 2 };

static unsigned blocked(const sigset_t *set)
{
	return (sigismember(set, SIGSEGV) > 0 ? BLOCKS_SEGV : 0u) |
	       (sigismember(set, SIGBUS) > 0 ? BLOCKS_BUS : 0u);
}

static bool is_armed(int sig)
{
	struct sigaction now;

	return sigaction(sig, NULL, &now) == 0 && is_ours(&now);
}

bool guard_catches(void)
{
	sigset_t now;

	if (mask.open) /* within a turn only: the thread itself blocks the signals */
		return false;
	return pthread_sigmask(SIG_BLOCK, NULL, &now) == 0 && !blocked(&now) &&
	       is_armed(SIGSEGV) && is_armed(SIGBUS);
}

static void change_mask(int how, unsigned which, sigset_t *was)
{
	sigset_t set;

	sigemptyset(&set);
	if (which & BLOCKS_SEGV)
		sigaddset(&set, SIGSEGV);
	if (which & BLOCKS_BUS)
		sigaddset(&set, SIGBUS);
	pthread_sigmask(how, &set, was);
}

static unsigned unblock(void)
{
	sigset_t was;
	unsigned opened;

	change_mask(SIG_UNBLOCK, BLOCKS_SEGV | BLOCKS_BUS, &was);
	opened = blocked(&was);
	mask.blocks = opened || mask.open;
	mask.open |= opened != 0;
	return opened;
}

/* Must the thread's mask be read now, or is it known to block the signals? */
static bool is_to_look(void)
{
	return !mask.times++ || mask.blocks;
}

unsigned guard_open(void)
{
	return is_to_look() || mask.pending ? unblock() : 0;
}

void guard_close(unsigned opened)
{
	if (!opened)
		return;
	mask.open = false;
	mask.pending = mask.depth > 0;
	change_mask(SIG_BLOCK, opened, NULL);
}

void guard_enter(void)
{
	if (mask.depth++ == 0)
		mask.pending = is_to_look();
}

__attribute__((noinline)) static void leave_rarely(void)
{
	unsigned opened = mask.opened;

	if (mask.pending && !mask.blocks)
		mask.times = 0; /* read the mask at the next one */
	mask.pending = false;
	mask.opened = 0;
	guard_close(opened);
}

void guard_leave(void)
{
	if (--mask.depth == 0 && __builtin_expect(mask.pending || mask.opened, 0))
		leave_rarely();
}

/* Called just before memory is touched. */
static inline void touch_next(void)
{
	if (__builtin_expect(mask.pending, 0)) {
		mask.pending = false;
		mask.opened |= unblock();
	}
}

bool guard_inside(void)
{
	return mask.depth > 0;
}

NO_TSA bool guard_hold(enum lock_how how)
{
	return lock_get(&arm_lock, how);
}

NO_TSA void guard_let_go(void)
{
	lock_give(&arm_lock);
}

NO_TSA void guard_forked(void)
{
	lock_init(&arm_lock);
}

int caught_call(void (*fn)(void *arg), void *arg)
{
	struct guard *volatile outer = active;
	struct guard g;
	int rc;

	if (sigsetjmp(g.jmp, 0) == 0) {
		active = &g;
		atomic_signal_fence(memory_order_seq_cst);
		fn(arg);
		rc = 0;
	} else {
		rc = -EFAULT;
	}
	atomic_signal_fence(memory_order_seq_cst);
	active = outer;
	return rc;
}

int guard_call(void (*fn)(void *arg), void *arg)
{
	touch_next();
	return caught_call(fn, arg);
}

int guard_copy(void *dst, const void *src, size_t n)
{
	touch_next();
	return caught_copy(dst, src, n);
}

int guard_cmp_swap(uint64_t *at, uint64_t compare, uint64_t swap, uint64_t *orig)
{
	touch_next();
	return caught_cmp_swap(at, compare, swap, orig);
}

int guard_fetch_add(uint64_t *at, uint64_t add, uint64_t *orig)
{
	touch_next();
	return caught_fetch_add(at, add, orig);
}
