/* SPDX-License-Identifier: BSD-2-Clause */
/* What the preloaded library tells, and what becomes of memory that is a file's. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "direct/notice.h"
#include "direct/runs.h"
#include "direct/share.h"
#include "direct/share_own.h"
#include "direct/threads_fix.h"
#include "sys/hang_testing.h"
#include "sys/inside.h"
#include "sys/preloaded.h"
#include "verbs/core.h"
#include "verbs/mr.h"

enum {
	PAGE = 4096,
	LEN = 20 * PAGE,
	RW = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
};

static struct core core;
static struct pd *pd;
static struct mr *mr;
static uint8_t *mem;
static const struct preload_ops *ops;

/* Registers pages 5 to 14 of 20. */
static int begin(void **state)
{
	(void)state;
	ops = notice_ops();
	assert_int_equal(core_init(&core, 1), 0);
	assert_int_equal(pd_alloc(&core, NULL, &pd), 0);
	count_threads();
	share_start(&core, true);
	mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(mem, MAP_FAILED);
	memset(mem, 7, LEN);
	assert_int_equal(mr_reg(pd, mem + 5 * PAGE, 10 * PAGE,
				(uintptr_t)(mem + 5 * PAGE), RW, &mr),
			 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	assert_int_equal(mr_dereg(mr), 0);
	assert_int_equal(runs_count(), 0);
	munmap(mem, LEN);
	share_stop(&core);
	assert_int_equal(pd_free(pd), 0);
	core_fini(&core);
	return 0;
}

static bool meets(unsigned from, unsigned pages)
{
	return ops->meets((uintptr_t)mem + from * PAGE, pages * PAGE);
}

static void expect(unsigned from, unsigned to, uint8_t byte)
{
	for (size_t i = (size_t)from * PAGE; i < (size_t)to * PAGE; i++)
		assert_int_equal(mem[i], byte);
}

static void only_what_is_a_files_is_met(void **state)
{
	(void)state;
	assert_int_equal(runs_count(), 1);
	assert_false(meets(0, 5));
	assert_false(meets(15, 5));
	assert_true(meets(0, 6));
	assert_true(meets(14, 6));
	assert_true(ops->meets(0, SIZE_MAX));
}

static void pages_are_zeroed_where_they_are_a_files(void **state)
{
	(void)state;
	ops->make_zero((uintptr_t)mem + 3 * PAGE, 4 * PAGE);
	expect(0, 5, 7);
	expect(5, 7, 0);
	expect(7, 20, 7);
	/* Only whole pages are zeroed. */
	ops->make_zero((uintptr_t)mem + 12 * PAGE, 2 * PAGE - 1);
	expect(12, 14, 0);
	expect(14, 20, 7);
}

/* The program may have closed the file's descriptor, by closefrom() for example. */
static void pages_are_zeroed_without_a_descriptor(void **state)
{
	(void)state;
	close(runs_at(0)->fd);
	ops->make_zero((uintptr_t)mem, LEN);
	expect(0, 5, 7);
	expect(5, 15, 0);
	expect(15, 20, 7);
}

/* No descriptor can be opened: the open one is used. */
static void pages_are_zeroed_by_what_is_open(void **state)
{
	struct rlimit was, none;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ 0, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	ops->make_zero((uintptr_t)mem + 3 * PAGE, 4 * PAGE);
	ops->make_zero((uintptr_t)mem + 12 * PAGE, 8 * PAGE);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	expect(0, 5, 7);
	expect(5, 7, 0);
	expect(7, 12, 7);
	expect(12, 15, 0);
	expect(15, 20, 7);
}

enum { MANY = 1024 };

/* The program has opened as many descriptors as it may. */
static void it_is_private_again_where_no_descriptor_is_left(void **state)
{
	struct rlimit was, few;
	static int fd[MANY];
	unsigned n = 0;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	few = (struct rlimit){ was.rlim_max < MANY ? was.rlim_max : MANY, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (n < MANY && (fd[n] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
		n++;
	assert_int_equal(errno, EMFILE);
	ops->make_zero((uintptr_t)mem + 6 * PAGE, PAGE);
	ops->before_thread();
	assert_int_equal(runs_count(), 0);
	while (n > 0)
		close(fd[--n]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	expect(0, 6, 7);
	expect(6, 7, 0);
	expect(7, 20, 7);
}

static void it_is_private_again_on_request(void **state)
{
	(void)state;
	assert_true(ops->make_private((uintptr_t)mem, 5 * PAGE));
	assert_int_equal(runs_count(), 1);
	assert_true(ops->make_private((uintptr_t)mem + 14 * PAGE, 1));
	assert_int_equal(runs_count(), 0);
	assert_false(meets(0, 20));
	expect(0, 20, 7);
}

static pthread_t caller;
static _Atomic bool came;    /* a signal, while the caller had share.c's lock */
static _Atomic bool is_told; /* its handler knew that it had interrupted a call */

static void on_signal(int sig)
{
	(void)sig;
	if (lock_look(&share.lock) == LOCK_FREE)
		return;
	is_told = inside_calls > 0;
	came = true;
}

static void *send_signals(void *tid)
{
	*(pid_t *)tid = gettid();
	for (; !came; sched_yield())
		if (lock_look(&share.lock) != LOCK_FREE)
			pthread_kill(caller, SIGUSR1);
	return NULL;
}

/* A handler that forks then must not wait for what its thread has. */
static void it_is_a_call_that_a_handler_can_interrupt(void **state)
{
	pthread_t t;
	pid_t tid;

	(void)state;
	came = is_told = false;
	caller = pthread_self();
	signal(SIGUSR1, on_signal);
	assert_int_equal(pthread_create(&t, NULL, send_signals, &tid), 0);
	while (!came)
		(void)ops->make_private((uintptr_t)mem, LEN);
	assert_int_equal(pthread_join(t, NULL), 0);
	wait_unlisted(tid);
	count_threads();
	assert_true(is_told);
	assert_int_equal(inside_calls, 0);
}

static void *refused(void *tid)
{
	*(pid_t *)tid = gettid();
	assert_false(ops->make_private((uintptr_t)mem, LEN));
	assert_true(meets(0, 20));
	assert_false(meets(0, 1)); /* other memory is met no more than before */
	return NULL;
}

static void with_other_threads_it_stays(void **state)
{
	pthread_t t;
	pid_t tid;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, refused, &tid), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	wait_unlisted(tid);
	/* ThreadSanitizer starts a thread of its own with the first thread. */
	count_threads();
	assert_int_equal(runs_count(), 1);
	expect(0, 20, 7);
}

static uint8_t *moved_to;

static void *move(void *tid)
{
	uint8_t *to =
		mmap(NULL, 10 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*(pid_t *)tid = gettid();
	assert_false(ops->make_private((uintptr_t)mem + 5 * PAGE, 10 * PAGE));
	moved_to = mremap(mem + 5 * PAGE, 10 * PAGE, 10 * PAGE,
			  MREMAP_MAYMOVE | MREMAP_FIXED, to);
	assert_ptr_equal(moved_to, to);
	ops->moved();
	return NULL;
}

/* The program moves pages that could not be made private: they are met where they are
 * then, and memory elsewhere is not. */
static void what_has_moved_is_met_where_it_is(void **state)
{
	pthread_t t;
	pid_t tid;

	(void)state;
	assert_int_equal(pthread_create(&t, NULL, move, &tid), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	wait_unlisted(tid);
	count_threads();
	assert_true(ops->meets((uintptr_t)moved_to + 9 * PAGE, PAGE));
	assert_false(meets(0, 5));
	assert_false(meets(15, 5));
	ops->make_zero((uintptr_t)moved_to, PAGE);
	for (size_t i = 0; i < 10 * PAGE; i++)
		assert_int_equal(moved_to[i], i < PAGE ? 0 : 7);
	assert_true(ops->make_private((uintptr_t)moved_to, PAGE));
	assert_int_equal(runs_count(), 0);
	assert_int_equal(moved_to[10 * PAGE - 1], 7);
	munmap(moved_to, 10 * PAGE);
}

static void it_is_private_before_a_thread_begins(void **state)
{
	(void)state;
	ops->before_thread();
	assert_int_equal(runs_count(), 0);
	expect(0, 20, 7);
}

enum { CANCELLED_OPS = 4 };

static void call(unsigned op)
{
	switch (op) {
	case 0:
		ops->make_zero((uintptr_t)mem, LEN);
		return;
	case 1:
		if (ops->before_fork(false))
			ops->in_parent();
		return;
	case 2:
		ops->before_thread();
		return;
	default:
		(void)ops->make_private((uintptr_t)mem, LEN);
	}
}

static void *call_cancelled(void *op)
{
	int was;

	pthread_cancel(pthread_self());
	call(*(const unsigned *)op);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
	return op;
}

/* A thread that is cancelled in such a call would leave a lock taken. */
static void a_thread_is_not_cancelled_within(void **state)
{
	(void)state;
	for (unsigned op = 0; op < CANCELLED_OPS; op++) {
		pthread_t t;
		void *rc;

		threads_begin(); /* the thread counts as one of urnic's own */
		assert_int_equal(pthread_create(&t, NULL, call_cancelled, &op), 0);
		assert_int_equal(pthread_join(t, &rc), 0);
		threads_end();
		assert_ptr_equal(rc, &op);
	}
	count_threads();
}

/* The NIC is closed while a region's memory is a file's: the memory can be made private
 * all the same. */
static void without_a_nic_it_is_private_again_too(void **state)
{
	(void)state;
	share_stop(&core);
	assert_true(ops->make_private((uintptr_t)mem, LEN));
	assert_int_equal(runs_count(), 0);
	expect(0, 20, 7);
}

/* malloc() calls it while this thread drives the NIC: it is refused at once, since it
 * could wait for the turn for ever. */
static NO_TSA void who_has_the_turn_is_refused(void **state)
{
	(void)state;
	turn_take(&core.turn);
	assert_false(ops->make_private((uintptr_t)mem, LEN));
	turn_give(&core.turn);
	assert_int_equal(runs_count(), 1);
}

static void a_child_has_its_memory_as_it_was(void **state)
{
	int status;
	pid_t pid;

	(void)state;
	assert_true(ops->before_fork(false));
	assert_false(
		ops->before_fork(false)); /* libc's fork() may call a hooked function */
	assert_false(meets(0, 20));
	pid = fork();
	if (!pid) {
		ops->in_child();
		if (runs_count() || mem[8 * PAGE] != 7)
			_exit(1);
		memset(mem, 9, LEN);
		_exit(0);
	}
	mem[8 * PAGE] = 8;
	ops->in_parent();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(mem[8 * PAGE], 8);
	assert_true(meets(0, 20));
}

/* The last test: after no_more() no memory becomes a file's in this process. */
static void no_more_is_for_good(void **state)
{
	struct mr *more;

	(void)state;
	ops->no_more();
	assert_int_equal(mr_reg(pd, mem, 4 * PAGE, (uintptr_t)mem, RW, &more), 0);
	assert_int_equal(runs_count(), 1);
	assert_int_equal(mr_dereg(more), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(only_what_is_a_files_is_met, begin, end),
		cmocka_unit_test_setup_teardown(pages_are_zeroed_where_they_are_a_files,
						begin, end),
		cmocka_unit_test_setup_teardown(pages_are_zeroed_without_a_descriptor,
						begin, end),
		cmocka_unit_test_setup_teardown(pages_are_zeroed_by_what_is_open, begin,
						end),
		cmocka_unit_test_setup_teardown(
			it_is_private_again_where_no_descriptor_is_left, begin, end),
		cmocka_unit_test_setup_teardown(it_is_private_again_on_request, begin,
						end),
		cmocka_unit_test_setup_teardown(it_is_a_call_that_a_handler_can_interrupt,
						begin, end),
		cmocka_unit_test_setup_teardown(with_other_threads_it_stays, begin, end),
		cmocka_unit_test_setup_teardown(what_has_moved_is_met_where_it_is, begin,
						end),
		cmocka_unit_test_setup_teardown(it_is_private_before_a_thread_begins,
						begin, end),
		cmocka_unit_test_setup_teardown(a_thread_is_not_cancelled_within, begin,
						end),
		cmocka_unit_test_setup_teardown(without_a_nic_it_is_private_again_too,
						begin, end),
		cmocka_unit_test_setup_teardown(who_has_the_turn_is_refused, begin, end),
		cmocka_unit_test_setup_teardown(a_child_has_its_memory_as_it_was, begin,
						end),
		cmocka_unit_test_setup_teardown(no_more_is_for_good, begin, end),
	};

	hang_fails();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
