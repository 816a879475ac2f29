/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of regions that are registered while other threads of the program run. */
#include "direct/pages_fix.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "direct/notice.h"
#include "direct/runs.h"
#include "direct/share_own.h"
#include "sys/hang_testing.h"
#include "sys/preloaded.h"

static const struct preload_ops *ops;

static int begin_noticed(void **state)
{
	begin(state);
	share_start(&test_core, true);
	ops = notice_ops();
	share.spent = 0; /* by the tests before */
	return 0;
}

static bool is_allowed(void)
{
	const int rc = share_beside_threads();

	return rc != -EPERM && rc != -ENOSYS;
}

/* ThreadSanitizer knows nothing of accesses that wait. */
#define UNSEEN __attribute__((no_sanitize("thread")))

static atomic_bool stop;

struct busy {
	pthread_t t;
	pid_t tid;
	size_t at;
	_Atomic uint64_t n;
	_Atomic bool wrong;
};

/* Counts in the last word of a page. */
UNSEEN static void *count(void *arg)
{
	struct busy *b = arg;
	volatile uint64_t *word = (volatile uint64_t *)(void *)(mem + b->at);

	b->tid = gettid();
	*word = 0;
	for (; !stop && !b->wrong; b->n++) {
		b->wrong = *word != b->n;
		*word = b->n + 1;
	}
	return NULL;
}

/* Empties its page as jemalloc does, through the preloaded library. */
UNSEEN static void *empty(void *arg)
{
	struct busy *b = arg;
	volatile uint8_t *page = mem + b->at / PAGE * PAGE;
	const uintptr_t lo = (uintptr_t)page;

	b->tid = gettid();
	for (; !stop && !b->wrong; b->n++) {
		const bool before = ops->meets(lo, PAGE);

		for (size_t i = 0; i < PAGE; i++)
			page[i] = 9;
		madvise((void *)lo, PAGE, MADV_DONTNEED);
		if (before || ops->meets(lo, PAGE))
			ops->make_zero(lo, PAGE);
		for (size_t i = 0; i < PAGE && !b->wrong; i++)
			b->wrong = page[i] != 0;
	}
	return NULL;
}

static void start(struct busy *b, unsigned n, void *(*fn)(void *))
{
	stop = false;
	for (unsigned i = 0; i < n; i++) {
		b[i] = (struct busy){ .at = (i + 1) * PAGE - sizeof(uint64_t) };
		assert_int_equal(pthread_create(&b[i].t, NULL, fn, &b[i]), 0);
	}
	for (unsigned i = 0; i < n; i++)
		while (!b[i].n)
			sched_yield();
}

static void finish(struct busy *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		for (const uint64_t from = b[i].n; b[i].n < from + 2 && !b[i].wrong;)
			sched_yield();
	stop = true;
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(pthread_join(b[i].t, NULL), 0);
		wait_unlisted(b[i].tid);
		assert_false(b[i].wrong);
	}
	count_threads(); /* ThreadSanitizer has one of its own from now on */
}

static void expect_content_but(const struct busy *b, unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint64_t *word = (uint64_t *)(void *)(mem + b[i].at);

		assert_int_equal(*word, b[i].n);
		for (size_t k = b[i].at; k < b[i].at + sizeof(*word); k++)
			mem[k] = (uint8_t)(k * 7 + k / 251);
	}
	expect_content();
}

/* It becomes a file's, and stays so until a region goes with no thread beside. */
static void memory_beside_threads(void **state)
{
	static const unsigned n[] = { 1, 2, 16 };
	struct busy b[16];

	(void)state;
	if (!is_allowed())
		skip();
	for (unsigned i = 0; i < 3; i++) {
		struct mr *mr;

		start(b, n[i], count);
		mr = reg(mem, LEN, RW);
		expect_shared(0, 20);
		assert_false(ops->make_private((uintptr_t)mem, LEN));
		dereg(mr);
		expect_shared(0, 20);
		finish(b, n[i]);
		dereg(reg(mem, LEN, RW));
		expect_shared(0, 0);
		expect_content_but(b, n[i]);
	}
}

/* Threads give parts back meanwhile: what they have emptied is empty. */
static void what_is_emptied_meanwhile_is_empty(void **state)
{
	enum { ROUNDS = 20, N = 4 };
	struct busy b[N];

	(void)state;
	if (!is_allowed())
		skip();
	for (unsigned i = 0; i < ROUNDS; i++) {
		start(b, N, empty);
		dereg(reg(mem, LEN, RW));
		finish(b, N);
		dereg(reg(mem, LEN, RW));
		expect_shared(0, 0);
	}
}

static void it_stays_when_a_thread_begins(void **state)
{
	struct mr *mr;

	(void)state;
	if (!is_allowed())
		skip();
	mr = reg(mem, LEN, RW);
	ops->before_thread();
	expect_shared(0, 20);
	dereg(mr);
	expect_shared(0, 0);
}

/* A child that another thread makes while there is no run yet. */
static void forks_exclude_registration(void **state)
{
	struct busy b;
	struct mr *mr;
	int status;
	pid_t pid;

	(void)state;
	if (!is_allowed())
		skip();
	assert_true(ops->before_fork(false));
	pid = fork();
	if (!pid) {
		ops->in_child();
		_exit(runs_count() != 0);
	}
	ops->in_parent();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	start(&b, 1, count);
	mr = reg(mem, LEN, RW);
	expect_shared(0, 20);
	finish(&b, 1);
	assert_true(ops->before_fork(false));
	pid = fork();
	if (!pid) {
		ops->in_child();
		expect_shared(0, 0);
		memset(mem, 9, LEN);
		_exit(0);
	}
	ops->in_parent();
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	expect_content_but(&b, 1);
	dereg(mr);
}

/* Returns this process's userfaultfd, or -1. */
static int find_userfaultfd(void)
{
	char path[32], name[64];

	for (int fd = 0; fd < 1024; fd++) {
		ssize_t n;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		n = readlink(path, name, sizeof(name) - 1);
		name[n > 0 ? n : 0] = '\0';
		if (strstr(name, "userfaultfd"))
			return fd;
	}
	return -1;
}

static bool has_userfaultfd(void)
{
	return find_userfaultfd() >= 0;
}

static _Atomic unsigned children, holders;

static void fork_here(int sig)
{
	int saved = errno, status = 0;
	/* fork() would wait for malloc(), which the handler may have interrupted. */
	pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);

	(void)sig;
	if (!pid)
		_exit(has_userfaultfd());
	children += waitpid(pid, &status, 0) == pid;
	holders += status != 0;
	errno = saved;
}

enum { CHILDREN = 200, LATEST = 500 };

/* Sends the signals, each some time after the one before was handled. */
UNSEEN static void *send_alarms(void *to)
{
	for (unsigned n = 0; n < CHILDREN; n = children) {
		for (volatile unsigned i = 0; i < n * 7 % LATEST * 100; i++)
			;
		pthread_kill(*(pthread_t *)to, SIGALRM);
		while (children == n)
			sched_yield();
	}
	return NULL;
}

/* It would be by the parent's memory that such a child makes stores wait, and go on. */
static void no_child_of_a_handler_has_a_userfaultfd(void **state)
{
	pthread_t self = pthread_self(), sender;
	sigset_t alarm;
	struct busy b;

	(void)state;
	if (!is_allowed())
		skip();
	sigemptyset(&alarm);
	sigaddset(&alarm, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &alarm, NULL);
	start(&b, 1, count);
	children = holders = 0;
	signal(SIGALRM, fork_here);
	assert_int_equal(pthread_create(&sender, NULL, send_alarms, &self), 0);
	pthread_sigmask(SIG_UNBLOCK, &alarm, NULL);
	while (children < CHILDREN)
		dereg(reg(mem, LEN, RW));
	pthread_join(sender, NULL);
	signal(SIGALRM, SIG_IGN);
	finish(&b, 1);
	assert_int_equal(holders, 0);
	dereg(reg(mem, LEN, RW));
}

/* Returns when the thread sleeps in a system call, other than to yield. */
static void await_sleep(pid_t tid)
{
	char path[64], text[16];

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", tid);
	for (long nr = 0; nr != SYS_futex; sched_yield()) {
		int fd = open(path, O_RDONLY);
		ssize_t n = read(fd, text, sizeof(text) - 1);

		close(fd);
		assert_true(n > 0);
		text[n] = '\0';
		nr = strtol(text, NULL, 10);
	}
}

struct sleeper {
	_Atomic pid_t tid;
	int *at;
	int op;
};

UNSEEN static void *sleep_there(void *arg)
{
	struct sleeper *s = arg;

	s->tid = gettid();
	while (!*(volatile int *)s->at)
		syscall(SYS_futex, s->at, s->op, 0, NULL, NULL, 0);
	return NULL;
}

/* The kernel would not find a sleeper that it knows by the page. */
static void not_where_a_thread_sleeps_by_the_page(void **state)
{
	(void)state;
	if (!is_allowed())
		skip();
	for (int private = 0; private < 2; private ++) {
		struct sleeper s = { .at = (int *)(void *)(mem + 4 * PAGE),
				     .op = private ? FUTEX_WAIT_PRIVATE : FUTEX_WAIT };
		pthread_t t;
		struct mr *mr;

		*s.at = 0;
		assert_int_equal(pthread_create(&t, NULL, sleep_there, &s), 0);
		while (!s.tid)
			sched_yield();
		await_sleep(s.tid);
		mr = reg(mem, LEN, RW);
		expect_shared(0, private ? 20 : 0);
		dereg(mr);
		*(volatile int *)s.at = 1;
		syscall(SYS_futex, s.at, private ? FUTEX_WAKE_PRIVATE : FUTEX_WAKE, 1,
			NULL, NULL, 0);
		assert_int_equal(pthread_join(t, NULL), 0);
		wait_unlisted(s.tid);
		count_threads();
	}
	dereg(reg(mem, LEN, RW));
	expect_shared(0, 0);
}

/* One that begins to sleep when the other threads have been looked at. */
static struct sleeper late;
static pthread_t late_thread;
static bool comes_late;

static bool is_to_ask;
static int asked_for = -1;
static bool kept;

void *mremap(void *at, size_t len, size_t to_len, int flags, ...)
{
	va_list more;
	void *to;

	va_start(more, flags);
	to = flags & MREMAP_FIXED ? va_arg(more, void *) : NULL;
	va_end(more);
	if (comes_late) {
		comes_late = false;
		assert_int_equal(pthread_create(&late_thread, NULL, sleep_there, &late),
				 0);
		while (!late.tid)
			sched_yield();
		await_sleep(late.tid);
	}
	if (is_to_ask) {
		is_to_ask = false;
		asked_for = find_userfaultfd();
		kept = ops->keeps(asked_for) && !ops->keeps(asked_for + 1);
	}
	return (void *)syscall(SYS_mremap, at, len, to_len, flags, to);
}

static void nor_where_one_has_just_begun_to_sleep(void **state)
{
	struct busy b;

	(void)state;
	if (!is_allowed())
		skip();
	start(&b, 1, count);
	late = (struct sleeper){ .at = (int *)(void *)(mem + 4 * PAGE),
				 .op = FUTEX_WAIT };
	*late.at = 0;
	comes_late = true;
	dereg(reg(mem, LEN, RW));
	assert_false(comes_late);
	expect_shared(0, 0);
	*(volatile int *)late.at = 1;
	syscall(SYS_futex, late.at, FUTEX_WAKE, 1, NULL, NULL, 0);
	assert_int_equal(pthread_join(late_thread, NULL), 0);
	wait_unlisted(late.tid);
	finish(&b, 1);
	dereg(reg(mem, LEN, RW));
	expect_shared(0, 0);
}

/* The program would have the others go on in the middle. */
static void the_program_must_not_close_the_descriptor(void **state)
{
	struct busy b;

	(void)state;
	if (!is_allowed())
		skip();
	start(&b, 1, count);
	is_to_ask = true;
	dereg(reg(mem, LEN, RW));
	assert_in_range(asked_for, 0, 1023);
	assert_true(kept);
	assert_false(ops->keeps(asked_for));
	finish(&b, 1);
	dereg(reg(mem, LEN, RW));
	expect_shared(0, 0);
}

static bool is_tied_there;

static bool tied(uintptr_t lo, size_t len)
{
	return is_tied_there && lo <= (uintptr_t)(mem + 4 * PAGE) &&
	       lo + len > (uintptr_t)(mem + 4 * PAGE);
}

static void not_what_the_library_knows_to_be_tied(void **state)
{
	struct busy b;

	(void)state;
	if (!is_allowed())
		skip();
	movable_ask(tied);
	for (int i = 0; i < 2; i++) {
		is_tied_there = !i;
		start(&b, 1, count);
		dereg(reg(mem, LEN, RW));
		expect_shared(0, i ? 20 : 0);
		finish(&b, 1);
		dereg(reg(mem, LEN, RW));
		expect_shared(0, 0);
	}
	movable_ask(NULL);
}

#ifndef __SANITIZE_THREAD__ /* it wants stacks of 1 MiB */
enum { STACK = 16 * PAGE };

static atomic_bool there, leaves;

static void *be_there(void *robust)
{
	const pid_t tid = gettid();

	if (robust)
		assert_int_equal(pthread_mutex_lock(robust), 0);
	there = true;
	while (!leaves)
		sched_yield();
	if (robust)
		assert_int_equal(pthread_mutex_unlock(robust), 0);
	return (void *)(intptr_t)tid;
}

/* The kernel clears a thread's id at its end, and marks its robust mutexes. */
static void not_where_a_thread_may_end(void **state)
{
	pthread_mutexattr_t kind;
	pthread_mutex_t robust;
	pthread_attr_t attr;
	void *tid;

	(void)state;
	if (!is_allowed())
		skip();
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, mem, STACK), 0);
	pthread_mutexattr_init(&kind);
	pthread_mutexattr_setrobust(&kind, PTHREAD_MUTEX_ROBUST);
	pthread_mutex_init(&robust, &kind);
	for (unsigned i = 0; i < 3; i++) {
		uint8_t *other = mem + STACK;
		pthread_t t;

		there = leaves = false;
		assert_int_equal(pthread_create(&t, i ? NULL : &attr, be_there,
						i == 1 ? &robust : NULL),
				 0);
		while (!there)
			sched_yield();
		dereg(reg(mem, LEN, RW));
		expect_shared(0, i == 2 ? 20 : 0);
		if (i == 0) {
			struct mr *mr = reg(other + PAGE, LEN - STACK - PAGE, RW);

			expect_shared(17, 3);
			dereg(mr);
		}
		leaves = true;
		assert_int_equal(pthread_join(t, &tid), 0);
		wait_unlisted((pid_t)(intptr_t)tid);
		count_threads();
		dereg(reg(mem, LEN, RW));
		expect_shared(0, 0);
	}
	pthread_mutex_destroy(&robust);
	pthread_attr_destroy(&attr);
}
#endif

/* Makes its page unwritable and writable as through the preloaded library. */
static void *protect(void *arg)
{
	struct busy *b = arg;
	uint8_t *page = mem + b->at / PAGE * PAGE, byte = 3;
	struct iovec from = { &byte, 1 }, to = { page + 8, 1 };

	b->tid = gettid();
	for (; !stop && !b->wrong; b->n++) {
		unsigned when = ops->change((uintptr_t)page, PAGE);

		b->wrong = mprotect(page, PAGE, PROT_READ) != 0;
		ops->changed(when);
		for (unsigned i = 0; i < 10; i++)
			b->wrong |=
				process_vm_writev(getpid(), &from, 1, &to, 1, 0) != -1;
		when = ops->change((uintptr_t)page, PAGE);
		b->wrong |= mprotect(page, PAGE, PROT_READ | PROT_WRITE) != 0;
		ops->changed(when);
		b->wrong |= process_vm_writev(getpid(), &from, 1, &to, 1, 0) != 1;
	}
	return NULL;
}

static void what_is_said_meanwhile_stays_said(void **state)
{
	enum { ROUNDS = 20, N = 2 };
	struct busy b[N];

	(void)state;
	if (!is_allowed())
		skip();
	for (unsigned i = 0; i < ROUNDS; i++) {
		start(b, N, protect);
		dereg(reg(mem, LEN, IBV_ACCESS_REMOTE_READ));
		finish(b, N);
		dereg(reg(mem, LEN, RW));
		expect_shared(0, 0);
	}
}

static bool is_to_say;

static void *say(void *page)
{
	const unsigned when = ops->change((uintptr_t)page, PAGE);

	assert_int_equal(mprotect(page, PAGE, PROT_READ), 0);
	ops->changed(when);
	return page;
}

/* Called first by vacant_open(): the memory has been looked at, and its exchange has not
 * begun. */
int ioctl(int fd, unsigned long request, ...)
{
	va_list ap;
	void *arg;
	pthread_t t;

	va_start(ap, request);
	arg = va_arg(ap, void *);
	va_end(ap);

	if (is_to_say) {
		is_to_say = false;
		assert_int_equal(pthread_create(&t, NULL, say, mem + 4 * PAGE), 0);
		assert_int_equal(pthread_join(t, NULL), 0);
	}
	return (int)syscall(SYS_ioctl, fd, request, arg);
}

static void nor_what_is_said_after_the_look(void **state)
{
	struct busy b;

	(void)state;
	if (!is_allowed())
		skip();
	start(&b, 1, count);
	is_to_say = true;
	dereg(reg(mem, LEN, RW));
	assert_false(is_to_say);
	expect_shared_but(4);
	assert_int_equal(mprotect(mem + 4 * PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
	finish(&b, 1);
	dereg(reg(mem, LEN, RW));
	expect_shared(0, 0);
	expect_content_but(&b, 1);
}

/* A call that lasts. */
static void not_while_something_is_being_said(void **state)
{
	struct busy b;
	unsigned when;

	(void)state;
	if (!is_allowed())
		skip();
	start(&b, 1, count);
	when = ops->change((uintptr_t)mem, PAGE);
	dereg(reg(mem, LEN, RW));
	expect_shared(0, 0);
	ops->changed(when);
	dereg(reg(mem, LEN, RW));
	expect_shared(0, 20);
	finish(&b, 1);
	dereg(reg(mem, LEN, RW));
	expect_shared(0, 0);
	expect_content_but(&b, 1);
}

/* Pages are a file's if their mapping is shared. */
static bool is_shared(uintptr_t at)
{
	struct procmaps maps;
	struct procmap m = { .hi = 0 };

	procmaps_open(&maps);
	while (procmaps_next(&maps, &m) && m.hi <= at)
		;
	procmaps_close(&maps);
	return m.lo <= at && m.perms[3] == 's';
}

enum { MANY = 200, PART = 64 << 10, FEW = 8 };

/* Each of them gets a file of its own or a place in one; when the program has unmapped
 * the memory, as much again may be mapped. */
static void many_regions(void **state)
{
	static struct mr *mr[MANY];
	struct busy b;

	(void)state;
	if (!is_allowed())
		skip();
	start(&b, 1, count);
	dereg(reg(mem, LEN, RW));
	for (unsigned round = 0; round < 2; round++) {
		uint8_t *at = mmap(NULL, (size_t)MANY * PART, PROT_READ | PROT_WRITE,
				   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		assert_ptr_not_equal(at, MAP_FAILED);
		for (unsigned i = 0; i < MANY; i++) {
			memset(at + (size_t)i * PART, (int)i, PART);
			share.spent = 0; /* sanitizers are slow */
			mr[i] = reg(at + (size_t)i * PART, PART, RW);
		}
		assert_in_range(runs_count(), MANY, MANY + FEW);
		for (unsigned i = 0; i < MANY; i++) {
			assert_true(is_shared((uintptr_t)(at + (size_t)i * PART)));
			assert_int_equal(at[(size_t)i * PART + 1], (uint8_t)i);
		}
		for (unsigned i = 0; i < MANY; i++)
			dereg(mr[i]);
		munmap(at, (size_t)MANY * PART);
		/* Later deregistrations look whether it is mapped: all is dropped that
		 * has no place in the file of mem. */
		while (runs_count() > FEW)
			dereg(reg(mem, LEN, RW));
	}
	finish(&b, 1);
	dereg(reg(mem, LEN, RW));
	assert_int_equal(runs_count(), 0);
}

/* What the program has unmapped is dropped by a later deregistration. */
static void drop_all(void)
{
	munmap(mem, LEN);
	mem = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	dereg(reg(mem, LEN, RW));
	assert_int_equal(runs_count(), 0);
}

/* A small region's page has other data, which threads store to. It stays a file's, also
 * when the process has one thread. */
static void small_regions(void **state)
{
	struct mr *mr[3];
	struct busy b[6];

	(void)state;
	if (!is_allowed())
		skip();
	start(b, 6, count);
	mr[0] = reg(mem + 4 * PAGE + 100, 8, RW);
	expect_shared(4, 1);
	mr[1] = reg(mem + 4 * PAGE + 200, 8, RW); /* in the same page */
	expect_shared(4, 1);
	mr[2] = reg(mem + 2 * PAGE + 4000, 2 * PAGE, RW); /* ends there */
	expect_shared(2, 3);
	dereg(mr[0]);
	dereg(mr[2]);
	mr[0] = reg(mem + 3 * PAGE + 8, 8, IBV_ACCESS_REMOTE_READ);
	dereg(mr[1]);
	dereg(mr[0]);
	expect_shared(2, 3);
	finish(b, 6);
	expect_shared(2, 3);
	mr[0] = reg(mem + 6 * PAGE - 4, 8, RW);
	expect_shared(2, 5);
	dereg(mr[0]);
	expect_content_but(b, 6);
	drop_all();
}

enum { SMALL = 40, STEPS = 300, BYTES = 12 };

/* In any order, with threads and without: all bytes stay as they are. */
static void small_regions_in_any_order(void **state)
{
	struct mr *mr[SMALL] = { NULL };
	struct busy b[3];
	unsigned x = 1;

	(void)state;
	if (!is_allowed())
		skip();
	for (int threads = 3; threads >= 0; threads -= 3) {
		if (threads)
			start(b, 3, count);
		for (unsigned i = 0; i < STEPS; i++) {
			const unsigned k = (x = x * 1103515245 + 12345) / 65536 % SMALL;
			const unsigned at = x / 256 % (LEN - 4 * PAGE) + 4 * PAGE;

			if (mr[k])
				dereg(mr[k]);
			mr[k] = mr[k] ? NULL
				      : reg(mem + at, LEN - at < BYTES ? 1 : BYTES, RW);
			if (mr[k])
				assert_true(is_shared((uintptr_t)(mem + at)));
		}
		if (threads) {
			finish(b, 3);
			expect_content_but(b, 3);
		}
		expect_content();
	}
	for (unsigned k = 0; k < SMALL; k++)
		if (mr[k])
			dereg(mr[k]);
	drop_all();
}

/* Direct I/O may be under way. */
static void not_beside_direct_io(void **state)
{
	const int fd = open("/proc/self/exe", O_RDONLY | O_DIRECT);
	struct busy b;
	struct mr *mr;

	(void)state;
	if (!is_allowed())
		skip();
	start(&b, 1, count);
	mr = reg(mem, LEN, RW);
	expect_shared(0, fd < 0 ? 20 : 0); /* not every file system has it */
	dereg(mr);
	if (fd >= 0)
		close(fd);
	finish(&b, 1);
	dereg(reg(mem, LEN, RW));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin_noticed, end)
	const struct CMUnitTest tests[] = {
		T(memory_beside_threads),
		T(what_is_emptied_meanwhile_is_empty),
		T(it_stays_when_a_thread_begins),
		T(forks_exclude_registration),
		T(no_child_of_a_handler_has_a_userfaultfd),
		T(not_where_a_thread_sleeps_by_the_page),
		T(nor_where_one_has_just_begun_to_sleep),
#ifndef __SANITIZE_THREAD__
		T(not_where_a_thread_may_end),
#endif
		T(what_is_said_meanwhile_stays_said),
		T(nor_what_is_said_after_the_look),
		T(not_while_something_is_being_said),
		T(not_beside_direct_io),
		T(many_regions),
		T(small_regions),
		T(small_regions_in_any_order),
		T(the_program_must_not_close_the_descriptor),
		T(not_what_the_library_knows_to_be_tied),
	};

	hang_fails();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
