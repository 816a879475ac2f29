/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of stores that wait. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "sys/hang_testing.h"
#include "sys/wp.h"

enum { PAGE = 4096, PAGES = 4, LEN = PAGES * PAGE };

/* ThreadSanitizer knows nothing of stores that wait. */
#define UNSEEN __attribute__((no_sanitize("thread")))

static struct wp wp;
static volatile uint8_t *mem;

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
	const int rc = wp_open(&wp);

	(void)state;
	if (rc == -EPERM || rc == -ENOSYS)
		return 0; /* and each test is skipped */
	assert_int_equal(rc, 0);
	mem = map(NULL, 0);
	mem[0] = 5;
	assert_int_equal(wp_add(&wp, addr(0), LEN), 0);
	return 0;
}

static int end(void **state)
{
	(void)state;
	if (mem)
		munmap((void *)(uintptr_t)mem, LEN);
	mem = NULL;
	wp_close(&wp);
	wp_close(&wp); /* nothing is left */
	return 0;
}

#define ALLOWED                                                                          \
	if (!mem)                                                                        \
	skip()

/* Returns when a thread waits in a store to that page. */
static void expect_waits(unsigned page)
{
	struct uffd_msg msg;

	do
		assert_int_equal(read(wp.fd, &msg, sizeof(msg)), sizeof(msg));
	while ((msg.arg.pagefault.address & ~(uint64_t)(PAGE - 1)) != addr(page));
	assert_true(msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP);
}

UNSEEN static void *store(void *page)
{
	mem[*(unsigned *)page * PAGE] = 9;
	return page;
}

static sem_t handled;

static void on_signal(int sig)
{
	(void)sig;
	sem_post(&handled);
}

/* Pages that were never touched, too; and the thread's handlers run meanwhile. */
static void a_store_waits(void **state)
{
	unsigned page[] = { 0, 2 };

	(void)state;
	ALLOWED;
	signal(SIGUSR1, on_signal);
	sem_init(&handled, 0, 0);
	assert_int_equal(wp_protect(&wp, addr(0), LEN), 0);
	for (unsigned i = 0; i < 2; i++) {
		const uint8_t was = mem[page[i] * PAGE];
		pthread_t t;

		assert_int_equal(was, i ? 0 : 5);
		assert_int_equal(pthread_create(&t, NULL, store, &page[i]), 0);
		expect_waits(page[i]);
#ifndef __SANITIZE_THREAD__ /* it puts handlers off until the thread calls something */
		assert_int_equal(pthread_kill(t, SIGUSR1), 0);
		assert_int_equal(sem_wait(&handled), 0);
		expect_waits(page[i]);
#endif
		assert_int_equal(mem[page[i] * PAGE], was);
		wp_go_on(&wp, addr(page[i]), PAGE);
		assert_int_equal(pthread_join(t, NULL), 0);
		assert_int_equal(mem[page[i] * PAGE], 9);
	}
}

static void *receive(void *fd)
{
	return (void *)syscall(SYS_read, *(int *)fd, addr(1), PAGE);
}

static void a_store_of_the_kernel_waits(void **state)
{
	pthread_t t;
	void *got;
	int ends[2];

	(void)state;
	ALLOWED;
	assert_int_equal(wp_protect(&wp, addr(0), LEN), 0);
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(write(ends[1], "abc", 3), 3);
	assert_int_equal(pthread_create(&t, NULL, receive, &ends[0]), 0);
	expect_waits(1);
	assert_int_equal(mem[PAGE], 0);
	wp_go_on(&wp, addr(1), PAGE);
	assert_int_equal(pthread_join(t, &got), 0);
	assert_int_equal((intptr_t)got, 3);
	assert_memory_equal((void *)(uintptr_t)addr(1), "abc", 3);
	close(ends[0]);
	close(ends[1]);
}

static void it_goes_to_what_lies_there_then(void **state)
{
	uint8_t *other;
	unsigned page = 3;
	pthread_t t;

	(void)state;
	ALLOWED;
	assert_int_equal(wp_protect(&wp, addr(0), LEN), 0);
	assert_int_equal(pthread_create(&t, NULL, store, &page), 0);
	expect_waits(3);
	other = map(NULL, 0);
	memset(other, 7, LEN);
	assert_ptr_equal(mremap(other, LEN, LEN, MREMAP_MAYMOVE | MREMAP_FIXED,
				(void *)(uintptr_t)addr(0)),
			 (void *)(uintptr_t)addr(0));
	wp_go_on(&wp, addr(0), LEN);
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(mem[3 * PAGE], 9);
	assert_int_equal(mem[2 * PAGE], 7);
}

/* What lies there is other memory, or the descriptor is another file's. */
static void it_is_seen_when_stores_do_not_wait(void **state)
{
	int ends[2];

	(void)state;
	ALLOWED;
	assert_int_equal(wp_protect(&wp, addr(0), LEN), 0);
	assert_int_equal(wp_look(&wp, addr(0), LEN), 0);
	munmap((void *)(uintptr_t)addr(1), PAGE);
	assert_int_not_equal(wp_look(&wp, addr(0), LEN), 0);
	assert_int_equal(wp_look(&wp, addr(2), PAGE), 0);
	map((void *)(uintptr_t)addr(0), MAP_FIXED);
	assert_int_not_equal(wp_look(&wp, addr(0), LEN), 0);
	assert_int_not_equal(wp_protect(&wp, addr(0), LEN), 0);
	mem[0] = 1;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(dup2(ends[0], wp.fd), wp.fd);
	assert_int_not_equal(wp_look(&wp, addr(0), LEN), 0);
	wp_close(&wp);
	assert_true(fcntl(wp.fd, F_GETFD) >= 0); /* it is not ours to close */
	close(wp.fd);
	close(ends[0]);
	close(ends[1]);
	wp.fd = -1;
}

static void what_is_dropped_waits_no_longer(void **state)
{
	(void)state;
	ALLOWED;
	assert_int_equal(wp_protect(&wp, addr(0), LEN), 0);
	wp_drop(&wp);
	for (unsigned i = 0; i < PAGES; i++)
		mem[i * PAGE] = 1;
	assert_int_not_equal(wp_look(&wp, addr(0), LEN), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		T(a_store_waits),
		T(a_store_of_the_kernel_waits),
		T(it_goes_to_what_lies_there_then),
		T(it_is_seen_when_stores_do_not_wait),
		T(what_is_dropped_waits_no_longer),
	};

	hang_fails();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
