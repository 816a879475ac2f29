/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/guard.h"

#if defined(__SANITIZE_THREAD__)
#define TSAN 1
#elif defined(__has_feature)
#define TSAN __has_feature(thread_sanitizer)
#else
#define TSAN 0
#endif

enum { PAGE = 4096 };

static uint8_t *pages(int n, int prot)
{
	void *p = mmap(NULL, (size_t)n * PAGE, prot,
		       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static uint8_t *hole(void)
{
	uint8_t *p = pages(1, PROT_READ);

	munmap(p, PAGE);
	return p;
}

/* A file of one page mapped as two: the second gives SIGBUS. */
static uint8_t *short_file(void)
{
	int fd = memfd_create("short", 0);
	void *p;

	assert_int_equal(ftruncate(fd, PAGE), 0);
	p = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	close(fd);
	return (uint8_t *)p + PAGE;
}

/* The process dies of a plain access as it would without us.  Returns the
 * signal; fn runs in a child with no core file and no sanitizer's handler. */
static int dies_of(void (*fn)(void))
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		signal(SIGSEGV, SIG_DFL);
		signal(SIGBUS, SIG_DFL);
		fn();
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return WIFSIGNALED(status) ? WTERMSIG(status) : -WEXITSTATUS(status);
}

static void touch(volatile uint8_t *p)
{
	*p = 1;
}

static void t_copies(void **state)
{
	uint8_t src[9000], dst[9100];

	(void)state;
	guard_arm();
	for (size_t i = 0; i < sizeof(src); i++)
		src[i] = (uint8_t)(i * 7 + i / 256);
	for (size_t n = 0; n + 8 < sizeof(src); n += n < 200 ? 1 : 797) {
		for (size_t off = 0; off < 9; off++) {
			memset(dst, 0xee, sizeof(dst));
			assert_int_equal(guard_copy(dst + off, src + off / 2, n),
					 0);
			assert_memory_equal(dst + off, src + off / 2, n);
			assert_int_equal(dst[off + n], 0xee);
			if (off)
				assert_int_equal(dst[off - 1], 0xee);
		}
	}
}

static void t_bad_memory(void **state)
{
	uint8_t buf[200] = { 0 };
	uint8_t *none = pages(1, PROT_NONE), *ro = pages(1, PROT_READ);
	uint8_t *gone = hole();

	(void)state;
	guard_arm();
	for (size_t n = 1; n <= sizeof(buf); n += 33) {
		assert_int_equal(guard_copy(buf, gone, n), -EFAULT);
		assert_int_equal(guard_copy(gone, buf, n), -EFAULT);
		assert_int_equal(guard_copy(buf, none, n), -EFAULT);
		assert_int_equal(guard_copy(ro, buf, n), -EFAULT);
		assert_int_equal(guard_copy(buf, ro, n), 0);
	}
	assert_int_equal(guard_copy(gone, buf, 0), 0);
	/* not canonical: a general protection fault */
	assert_int_equal(guard_copy(buf, (void *)(uintptr_t)(0xdeadull << 48), 8),
			 -EFAULT);
	munmap(none, PAGE);
	munmap(ro, PAGE);
}

/* Everything before the hole has been copied: upward. */
static void t_upward(void **state)
{
	uint8_t *p = pages(4, PROT_READ | PROT_WRITE), src[3 * PAGE];

	(void)state;
	guard_arm();
	memset(src, 0x5a, sizeof(src));
	munmap(p + 2 * PAGE, PAGE);
	assert_int_equal(guard_copy(p, src, sizeof(src)), -EFAULT);
	for (int i = 0; i < PAGE; i++)
		assert_int_equal(p[i], 0x5a);
	munmap(p, 4 * PAGE);
}

static void t_sigbus(void **state)
{
	uint8_t *p = short_file(), buf[64] = { 0 };

	(void)state;
	guard_arm();
	assert_int_equal(guard_copy(buf, p, 64), -EFAULT);
	assert_int_equal(guard_copy(p - 64, buf, 64), 0);
	assert_int_equal(guard_copy(p - 32, buf, 64), -EFAULT);
	munmap(p - PAGE, 2 * PAGE);
}

static void t_atomics(void **state)
{
	uint64_t v = 10, orig = 0;

	(void)state;
	guard_arm();
	assert_int_equal(guard_fetch_add(&v, 5, &orig), 0);
	assert_int_equal(orig, 10);
	assert_int_equal(v, 15);
	assert_int_equal(guard_cmp_swap(&v, 14, 1, &orig), 0);
	assert_int_equal(orig, 15);
	assert_int_equal(v, 15);
	assert_int_equal(guard_cmp_swap(&v, 15, 1, &orig), 0);
	assert_int_equal(orig, 15);
	assert_int_equal(v, 1);
#if !TSAN		/* it holds a lock around an atomic */
	orig = 77;
	assert_int_equal(guard_fetch_add((uint64_t *)(void *)hole(), 5, &orig),
			 -EFAULT);
	assert_int_equal(guard_cmp_swap((uint64_t *)(void *)hole(), 5, 6, &orig),
			 -EFAULT);
	assert_int_equal(orig, 77);
#endif
}

static void nested(void *arg)
{
	uint8_t b[8];

	assert_int_equal(guard_copy(b, hole(), 8), -EFAULT);
	++*(int *)arg;
	touch(hole());
	++*(int *)arg;
}

static void t_nested_calls(void **state)
{
	int n = 0;

	(void)state;
	guard_arm();
	assert_int_equal(guard_call(nested, &n), -EFAULT);
	assert_int_equal(n, 1);
}

static void *thread(void *arg)
{
	uint8_t b[100], *bad = pages(1, PROT_NONE);

	for (int i = 0; i < 2000; i++) {
		if (guard_copy(b, bad, sizeof(b)) != -EFAULT ||
		    guard_copy(b, arg, sizeof(b)) != 0)
			return arg;
	}
	return NULL;
}

static void t_threads(void **state)
{
	static uint8_t good[100];
	pthread_t t[4];
	void *res;

	(void)state;
	guard_arm();
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, thread, good);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &res);
		assert_null(res);
	}
}

/* The program's own handlers. */

static sigjmp_buf back;
static volatile int hits, usr1_blocked;
static struct sigaction older;

static void jumper(int sig)
{
	sigset_t now;

	(void)sig;
	hits++;
	sigprocmask(SIG_BLOCK, NULL, &now);
	usr1_blocked = sigismember(&now, SIGUSR1);
	siglongjmp(back, 1);
}

static void install(void (*fn)(int), int flags, struct sigaction *old)
{
	struct sigaction sa = { .sa_handler = fn, .sa_flags = flags };

	sigemptyset(&sa.sa_mask);
	sigaddset(&sa.sa_mask, SIGUSR1);
	assert_int_equal(sigaction(SIGSEGV, &sa, old), 0);
}

static void program_faults(void)
{
	if (sigsetjmp(back, 1) == 0)
		touch(hole());
}

static void guard_works(void)
{
	uint8_t b[8];

	assert_int_equal(guard_copy(b, hole(), 8), -EFAULT);
}

static void before_us(void)
{
	install(jumper, 0, NULL);
	guard_arm();
	for (int i = 1; i <= 3; i++) {
		guard_works();
		program_faults();
		if (hits != i || !usr1_blocked)
			_exit(1);
	}
	_exit(42);
}

static void after_us(void)
{
	guard_arm();
	install(jumper, 0, NULL);
	program_faults();
	if (hits != 1)
		_exit(1);
	guard_arm();		/* in front again */
	for (int i = 2; i <= 4; i++) {
		guard_works();
		program_faults();
		if (hits != i)
			_exit(i);
	}
	_exit(42);
}

/* A handler that hands on what is not its own, to ours as it believes. */
static void polite(int sig, siginfo_t *si, void *uc)
{
	if (++hits > 10)
		_exit(3);
	if (older.sa_flags & SA_SIGINFO) {
		older.sa_sigaction(sig, si, uc);
	} else if (older.sa_handler == SIG_DFL) {
		signal(sig, SIG_DFL);
	} else {
		older.sa_handler(sig);
	}
}

static void chains_back(void)
{
	struct sigaction sa = { .sa_sigaction = polite, .sa_flags = SA_SIGINFO };

	install(jumper, 0, NULL);
	guard_arm();
	sigaction(SIGSEGV, &sa, &older);
	for (int i = 0; i < 3; i++) {
		guard_arm();
		hits = 0;
		guard_works();
		program_faults();	/* ours, polite, ours, jumper */
		if (hits != 2)
			_exit(hits);
	}
	_exit(42);
}

static void chains_back_to_default(void)
{
	struct sigaction sa = { .sa_sigaction = polite, .sa_flags = SA_SIGINFO };

	guard_arm();
	sigaction(SIGSEGV, &sa, &older);
	guard_arm();
	guard_works();
	touch(hole());
}

static void nobody_handles(void)
{
	guard_arm();
	guard_works();
	touch(hole());
}

static void nobody_handles_bus(void)
{
	guard_arm();
	touch(short_file());
}

static void ignored_fault(void)
{
	signal(SIGSEGV, SIG_IGN);
	guard_arm();
	touch(hole());
}

static void sent(void)
{
	guard_arm();
	raise(SIGSEGV);
}

static void kill_me(void *arg)
{
	(void)arg;
	raise(SIGSEGV);
}

static void sent_while_guarded(void)
{
	guard_arm();
	guard_call(kill_me, NULL);
}

static void sent_ignored(void)
{
	signal(SIGSEGV, SIG_IGN);
	guard_arm();
	raise(SIGSEGV);
	guard_works();
	_exit(42);
}

static void once_only(void)
{
	install(jumper, (int)SA_RESETHAND, NULL);
	guard_arm();
	program_faults();
	guard_works();
	if (hits == 1)
		touch(hole());
}

static void many_handlers(void)
{
	struct sigaction sa = { .sa_sigaction = polite, .sa_flags = SA_SIGINFO };

	for (int i = 0; i < 30; i++) {
		install(jumper, i % 2 ? SA_NODEFER : 0, NULL);
		guard_arm();
		sigaction(SIGSEGV, &sa, &older);
		guard_arm();
	}
	install(jumper, 0, NULL);
	guard_arm();
	hits = 0;
	guard_works();
	program_faults();
	_exit(hits == 1 ? 42 : 1);
}

static void t_program_handlers(void **state)
{
	(void)state;
	assert_int_equal(dies_of(before_us), -42);
	assert_int_equal(dies_of(after_us), -42);
	assert_int_equal(dies_of(chains_back), -42);
	assert_int_equal(dies_of(once_only), SIGSEGV);
	assert_int_equal(dies_of(many_handlers), -42);
}

static void t_default_action(void **state)
{
	(void)state;
	assert_int_equal(dies_of(nobody_handles), SIGSEGV);
	assert_int_equal(dies_of(nobody_handles_bus), SIGBUS);
	assert_int_equal(dies_of(chains_back_to_default), SIGSEGV);
	assert_int_equal(dies_of(ignored_fault), SIGSEGV);
	assert_int_equal(dies_of(sent), SIGSEGV);
	assert_int_equal(dies_of(sent_while_guarded), SIGSEGV);
	assert_int_equal(dies_of(sent_ignored), -42);
}

static volatile bool on_stack;
static char *alt;

static void sees_stack(int sig)
{
	char here;

	(void)sig;
	on_stack = &here >= alt && &here < alt + (64 << 10);
	siglongjmp(back, 1);
}

/* The alternate stack stays usable, also one that disarms itself. */
static void alt_stack(void)
{
	stack_t ss = { .ss_size = 64 << 10, .ss_flags = (int)(1u << 31) };

	alt = malloc(ss.ss_size);
	ss.ss_sp = alt;
	if (sigaltstack(&ss, NULL) != 0)
		_exit(1);
	install(sees_stack, SA_ONSTACK, NULL);
	guard_arm();
	for (int i = 0; i < 3; i++) {
		stack_t now;

		guard_works();
		if (sigaltstack(NULL, &now) != 0 || now.ss_sp != alt)
			_exit(2);
	}
	program_faults();
	_exit(on_stack ? 42 : 3);
}

/* The signal mask after a guarded fault is what it was. */
static void mask(void)
{
	sigset_t set, now;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_SETMASK, &set, NULL);
	guard_arm();
	guard_works();
	sigprocmask(SIG_SETMASK, NULL, &now);
	_exit(sigismember(&now, SIGUSR2) && !sigismember(&now, SIGSEGV) ? 42 : 1);
}

static void t_stack_and_mask(void **state)
{
	(void)state;
	assert_int_equal(dies_of(alt_stack), -42);
	assert_int_equal(dies_of(mask), -42);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_copies),
		cmocka_unit_test(t_bad_memory),
		cmocka_unit_test(t_upward),
		cmocka_unit_test(t_sigbus),
		cmocka_unit_test(t_atomics),
		cmocka_unit_test(t_nested_calls),
		cmocka_unit_test(t_threads),
		cmocka_unit_test(t_program_handlers),
		cmocka_unit_test(t_default_action),
		cmocka_unit_test(t_stack_and_mask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
