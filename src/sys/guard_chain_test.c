/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/guard.h"
#include "sys/memory_testing.h"

/* What the program's own handlers see; each case runs in a child. */

static void touch(volatile uint8_t *p)
{
	*p = 1;
}

/* A plain access kills the process as it would without us.  Runs fn in a child without
 * core file and sanitizer handlers, and returns the signal. */
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
	guard_arm(); /* in front of the program's again */
	for (int i = 2; i <= 4; i++) {
		guard_works();
		program_faults();
		if (hits != i)
			_exit(i);
	}
	_exit(42);
}

/* A handler that passes on faults which are not its own, to ours as its predecessor. */
static void polite(int sig, siginfo_t *si, void *uc)
{
	if (++hits > 10)
		_exit(3);
	if (older.sa_flags & SA_SIGINFO)
		older.sa_sigaction(sig, si, uc);
	else if (older.sa_handler == SIG_DFL)
		signal(sig, SIG_DFL);
	else
		older.sa_handler(sig);
}

static void install_polite(void)
{
	struct sigaction sa = { .sa_sigaction = polite, .sa_flags = SA_SIGINFO };

	assert_int_equal(sigaction(SIGSEGV, &sa, &older), 0);
}

static void chains_back(void)
{
	install(jumper, 0, NULL);
	guard_arm();
	install_polite();
	for (int i = 0; i < 3; i++) {
		guard_arm();
		hits = 0;
		guard_works();
		program_faults(); /* ours, polite, ours, jumper */
		if (hits != 2)
			_exit(hits);
	}
	_exit(42);
}

static void chains_back_to_default(void)
{
	guard_arm();
	install_polite();
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

/* A handler that lets itself be interrupted by faults of its own. */
static void faults_twice(int sig)
{
	(void)sig;
	if (++hits == 1)
		touch(hole());
	siglongjmp(back, 1);
}

static __attribute__((unused)) void nested_fault(void)
{
	install(faults_twice, SA_NODEFER, NULL);
	guard_arm();
	program_faults();
	_exit(hits == 2 ? 42 : 1);
}

/* A handler that blocks its signal dies of a fault of its own. */
static void nested_fault_blocked(void)
{
	install(faults_twice, 0, NULL);
	guard_arm();
	program_faults();
}

static void many_handlers(void)
{
	for (int i = 0; i < 30; i++) {
		install(jumper, i % 2 ? SA_NODEFER : 0, NULL);
		guard_arm();
		install_polite();
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
#if !TSAN /* it blocks all signals in every handler */
	assert_int_equal(dies_of(nested_fault), -42);
#endif
	assert_int_equal(dies_of(nested_fault_blocked), SIGSEGV);
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
	/* Not a variable's address: ASan may keep those elsewhere. */
	const char *here = __builtin_frame_address(0);

	(void)sig;
	on_stack = here >= alt && here < alt + (64 << 10);
	siglongjmp(back, 1);
}

/* The alternate stack stays usable, even one set with SS_AUTODISARM. */
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

/* After a guarded fault the signal mask is as before. */
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
		cmocka_unit_test(t_program_handlers),
		cmocka_unit_test(t_default_action),
		cmocka_unit_test(t_stack_and_mask),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
