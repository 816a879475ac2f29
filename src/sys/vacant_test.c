/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of loads and stores that wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sys/hang_testing.h"
#include "sys/vacant.h"

enum { PAGE = 4096, PAGES = 4, LEN = PAGES * PAGE };

/* ThreadSanitizer knows nothing of accesses that wait. */
#define UNSEEN __attribute__((no_sanitize("thread")))

static struct vacant v;
static volatile uint8_t *mem;
static uint64_t pages; /* of the pages, while their place is vacant */

static uint8_t *map(void *at, int flags)
{
	uint8_t *p = mmap(at, LEN, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static uint64_t addr(unsigned page)
{
	return (uintptr_t)mem + page * PAGE;
}

static int begin(void **state)
{
	const int rc = vacant_open(&v);

	(void)state;
	if (rc == -EPERM || rc == -ENOSYS)
		return 0; /* and each test is skipped */
	assert_int_equal(rc, 0);
	mem = map(NULL, 0);
	mem[0] = 5;
	assert_int_equal(vacant_add(&v, addr(0), LEN), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	if (mem)
		munmap((void *)(uintptr_t)mem, LEN);
	mem = NULL;
	vacant_close(&v);
	vacant_close(&v); /* nothing is left */
	return 0;
}

#define ALLOWED                                                                          \
	if (!mem)                                                                        \
	skip()

static uint8_t *page_of_those(unsigned page)
{
	return (uint8_t *)(uintptr_t)pages + page * PAGE;
}

static void take(void)
{
	assert_int_equal(vacant_take(&v, addr(0), LEN, &pages), 0);
}

/* Returns when a thread waits at that page. */
static void expect_waits(unsigned page)
{
	struct uffd_msg msg;

	do
		assert_int_equal(read(v.fd, &msg, sizeof(msg)), sizeof(msg));
	while ((msg.arg.pagefault.address & ~(uint64_t)(PAGE - 1)) != addr(page));
	assert_false(msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP);
}

struct visit {
	unsigned page;
	bool stores;
	uint8_t seen;
};

UNSEEN static void *touch(void *arg)
{
	struct visit *w = arg;

	if (w->stores)
		mem[w->page * PAGE] = 9;
	else
		w->seen = mem[w->page * PAGE];
	return w;
}

static sem_t handled;

static void on_signal(int sig)
{
	(void)sig;
	sem_post(&handled);
}

/* At pages that were never touched, too; and the thread's handlers run meanwhile. */
static void who_touches_it_waits(void **state)
{
	(void)state;
	ALLOWED;
	signal(SIGUSR1, on_signal);
	sem_init(&handled, 0, 0);
	for (unsigned i = 0; i < 4; i++) {
		struct visit w = { .page = i & 2, .stores = i & 1 };
		pthread_t t;

		take();
		assert_int_equal(*page_of_those(0), i < 2 ? 5 : 9);
		assert_int_equal(pthread_create(&t, NULL, touch, &w), 0);
		expect_waits(w.page);
#ifndef __SANITIZE_THREAD__ /* it puts handlers off until the thread calls something */
		assert_int_equal(pthread_kill(t, SIGUSR1), 0);
		assert_int_equal(sem_wait(&handled), 0);
		expect_waits(w.page);
#endif
		vacant_put_back(&v, addr(0), LEN, pages);
		assert_int_equal(pthread_join(t, NULL), 0);
		assert_int_equal(mem[w.page * PAGE], w.stores ? 9 : w.page ? 0 : 5);
		assert_int_equal(w.seen, w.stores || w.page ? 0 : 5);
		assert_int_equal(vacant_add(&v, addr(0), LEN), 0);
	}
}

static void *receive(void *fd)
{
	return (void *)syscall(SYS_read, *(int *)fd, addr(1), PAGE);
}

static void *transmit(void *fd)
{
	return (void *)syscall(SYS_write, *(int *)fd, addr(0), 3);
}

static void the_kernel_waits(void **state)
{
	int ends[2];

	(void)state;
	ALLOWED;
	memcpy((void *)(uintptr_t)addr(0), "xyz", 3);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "abc", 3), 3);
	for (unsigned i = 0; i < 2; i++) {
		char text[4] = "";
		pthread_t t;
		void *n;

		take();
		assert_int_equal(pthread_create(&t, NULL, i ? transmit : receive,
						&ends[i]),
				 0);
		expect_waits(!i);
		assert_memory_equal(page_of_those(1), i ? "abc" : "\0\0\0", 3);
		vacant_put_back(&v, addr(0), LEN, pages);
		assert_int_equal(pthread_join(t, &n), 0);
		assert_int_equal((intptr_t)n, 3);
		assert_memory_equal((void *)(uintptr_t)addr(1), "abc", 3);
		assert_int_equal(vacant_add(&v, addr(0), LEN), 0);
		if (i) {
			assert_int_equal(read(ends[0], text, 3), 3);
			assert_string_equal(text, "xyz");
		}
	}
	close(ends[0]);
	close(ends[1]);
}

static void it_goes_to_what_lies_there_then(void **state)
{
	struct visit w = { .page = 3, .stores = true };
	uint8_t *other;
	pthread_t t;

	(void)state;
	ALLOWED;
	take();
	assert_int_equal(pthread_create(&t, NULL, touch, &w), 0);
	expect_waits(3);
	other = map(NULL, 0);
	memset(other, 7, LEN);
	assert_ptr_equal(mremap(other, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED,
				(void *)(uintptr_t)addr(0)),
			 (void *)(uintptr_t)addr(0));
	vacant_end(&v, addr(0), LEN, pages);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(mem[3 * PAGE], 9);
	assert_int_equal(mem[2 * PAGE], 7);
}

/* Another thread gives a page back meanwhile, and stores to it: the store waits. */
static void it_waits_at_pages_that_were_given_back(void **state)
{
	struct visit w = { .page = 0, .stores = true };
	pthread_t t;

	(void)state;
	ALLOWED;
	take();
	assert_int_equal(madvise((void *)(uintptr_t)addr(0), LEN, MADV_DONTNEED), 0);
	assert_int_equal(pthread_create(&t, NULL, touch, &w), 0);
	expect_waits(0);
	assert_int_equal(*page_of_those(0), 5);
	vacant_put_back(&v, addr(0), LEN, pages);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(mem[0], 9);
}

/* Another thread has unmapped a part meanwhile, and mapped something else there. */
static void other_memory_stays(void **state)
{
	(void)state;
	ALLOWED;
	mem[PAGE] = 6;
	mem[3 * PAGE] = 8;
	take();
	assert_ptr_not_equal(mmap((void *)(uintptr_t)addr(1), PAGE,
				  PROT_READ | PROT_WRITE,
				  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			     MAP_FAILED);
	mem[PAGE] = 77;
	assert_int_not_equal(vacant_look(&v, addr(0), LEN), 0);
	vacant_put_back(&v, addr(0), LEN, pages);
	vacant_drop(&v);
	assert_int_equal(mem[0], 5);
	assert_int_equal(mem[PAGE], 77);
	assert_int_equal(mem[2 * PAGE], 0);
	assert_int_equal(mem[3 * PAGE], 8);
}

/* What lies there is other memory, or the descriptor is another file's. */
static void nothing_is_taken_where_nobody_would_wait(void **state)
{
	int ends[2];

	(void)state;
	ALLOWED;
	assert_int_equal(vacant_look(&v, addr(0), LEN), 0);
	munmap((void *)(uintptr_t)addr(1), PAGE);
	assert_int_not_equal(vacant_look(&v, addr(0), LEN), 0);
	assert_int_equal(vacant_look(&v, addr(2), PAGE), 0);
	map((void *)(uintptr_t)addr(0), MAP_FIXED);
	assert_int_not_equal(vacant_look(&v, addr(0), LEN), 0);
	mem[0] = 1;
	assert_int_not_equal(vacant_take(&v, addr(0), LEN, &pages), 0);
	assert_int_equal(mem[0], 1);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(dup2(ends[0], v.fd), v.fd);
	assert_int_not_equal(vacant_look(&v, addr(0), LEN), 0);
	vacant_close(&v);
	assert_true(fcntl(v.fd, F_GETFD) >= 0); /* it is not ours to close */
	close(v.fd);
	close(ends[0]);
	close(ends[1]);
	v.fd = -1;
}

static void what_is_dropped_waits_no_longer(void **state)
{
	(void)state;
	ALLOWED;
	take();
	vacant_drop(&v);
	for (unsigned i = 0; i < PAGES; i++)
		mem[i * PAGE] = 1;
	assert_int_not_equal(vacant_look(&v, addr(0), LEN), 0);
	munmap((void *)(uintptr_t)pages, LEN);
}

static void *make_child(void *arg)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	return (void *)(intptr_t)(pid > 0 && waitpid(pid, arg, 0) == pid);
}

/* Until its event has been read; stores to a page that is protected are told of. */
static void a_fork_waits(void **state)
{
	const int fd = memfd_create("pages", MFD_CLOEXEC);
	enum vacant_news news = VACANT_NOTHING;
	struct vacant forks;
	uint64_t lo, at = 0;
	pthread_t t;
	int status = 1, rc = vacant_open_forks(&forks);
	void *good, *p;

	(void)state;
	if (rc == -EPERM || rc == -ENOSYS || rc == -EINVAL)
		skip();
	assert_int_equal(rc, 0);
	assert_int_equal(ftruncate(fd, LEN), 0);
	p = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	lo = (uintptr_t)p;
	assert_int_equal(vacant_freeze(&forks, lo, LEN), 0);
	assert_false(vacant_has_news(&forks, 0));
	assert_int_equal(vacant_let(&forks, lo, PAGE), 0);
	assert_int_equal(pthread_create(&t, NULL, make_child, &status), 0);
	while (vacant_let(&forks, lo, PAGE) != -EAGAIN)
		sched_yield();
	assert_int_equal(vacant_freeze_again(&forks, lo, PAGE), -EAGAIN);
	while (news == VACANT_NOTHING)
		if (vacant_has_news(&forks, 100))
			news = vacant_news(&forks, &at);
	assert_int_equal(news, VACANT_FORK);
	assert_int_equal(pthread_join(t, &good), 0);
	assert_true(good && !status);
	assert_int_equal(vacant_freeze_again(&forks, lo, PAGE), 0);
	vacant_thaw(&forks, lo, LEN);
	vacant_close(&forks);
	munmap(p, LEN);
	close(fd);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		T(who_touches_it_waits),
		T(the_kernel_waits),
		T(it_goes_to_what_lies_there_then),
		T(it_waits_at_pages_that_were_given_back),
		T(other_memory_stays),
		T(nothing_is_taken_where_nobody_would_wait),
		T(what_is_dropped_waits_no_longer),
		cmocka_unit_test(a_fork_waits),
	};

	hang_fails();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
