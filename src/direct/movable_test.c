/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of which memory stays private pages: others could touch it meanwhile, or it is
 * not ordinary. */
#include "direct/pages_fix.h"

#include <linux/aio_abi.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <sched.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static pid_t thread_id;

static void *wait_for_end(void *arg)
{
	thread_id = gettid();
	pthread_barrier_wait(arg);
	pthread_barrier_wait(arg);
	return arg;
}

/* The program has another thread, which may touch the memory while it moves: private
 * memory is not made a file's then, and memory that is a file's stays so. */
static void not_with_other_threads(void **state)
{
	struct mr *a = reg(mem, 4 * PAGE, RW), *b;
	pthread_barrier_t there;
	pthread_t t;

	(void)state;
	pthread_barrier_init(&there, NULL, 2);
	assert_int_equal(pthread_create(&t, NULL, wait_for_end, &there), 0);
	pthread_barrier_wait(&there);
	count_threads();
	threads_end(); /* one thread counts as the program's */
	b = reg(mem + 4 * PAGE, 4 * PAGE, RW);
	expect_shared(0, 4);
	dereg(b);
	dereg(a);
	expect_shared(0, 4);
	pthread_barrier_wait(&there);
	pthread_join(t, NULL);
	while (!syscall(SYS_tgkill, getpid(), thread_id, 0))
		sched_yield(); /* the kernel counts the thread for a moment after it has
				  ended */
	expect_content();
	a = reg(mem, 4 * PAGE, RW);
	dereg(a);
	expect_shared(0, 0);
	expect_content();
	pthread_barrier_destroy(&there);
}

/* Memory is not moved while the program has a context of asynchronous I/O: the kernel
 * may be about to write to it. */
static void not_with_asynchronous_io(void **state)
{
	aio_context_t io = 0;
	struct mr *mr;

	(void)state;
	if (syscall(SYS_io_setup, 4, &io))
		return; /* this kernel has no io_setup() */
	mr = reg(mem, LEN, RW);
	expect_shared(0, 0);
	dereg(mr);
	syscall(SYS_io_destroy, io);
}

/* An open io_uring may have buffers registered, even if nobody has mapped the ring. */
static void not_with_a_ring_that_is_open(void **state)
{
	uint8_t params[120] = { 0 };
	int fd = (int)syscall(SYS_io_uring_setup, 2, params);
	struct mr *mr;

	(void)state;
	if (fd < 0)
		return; /* io_uring is forbidden */
	mr = reg(mem, LEN, RW);
	expect_shared(0, 0);
	dereg(mr);
	close(fd);
}

static void not_what_is_locked(void **state)
{
	struct mr *mr;

	(void)state;
	/* under a sanitizer mlock() does nothing, so the system call is made directly */
	assert_int_equal(syscall(SYS_mlock, mem, PAGE), 0);
	mr = reg(mem, LEN, RW);
	expect_shared(0, 0);
	dereg(mr);
	syscall(SYS_munlock, mem, PAGE);
}

/* A page with advice of madvise() or a policy of mbind() stays private: moved memory
 * would lose it. */
static void not_what_something_is_said_of(void **state)
{
	static const int advice[][2] = {
		{ MADV_DONTDUMP, MADV_DODUMP },
		{ MADV_DONTFORK, MADV_DOFORK },
		{ MADV_WIPEONFORK, MADV_KEEPONFORK },
	};
	unsigned long nodes = 1;
	struct mr *mr;

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(madvise(mem, PAGE, advice[i][0]), 0);
		mr = reg(mem, LEN, RW);
		expect_shared(1, 19);
		dereg(mr);
		assert_int_equal(madvise(mem, PAGE, advice[i][1]), 0);
	}
	if (syscall(SYS_mbind, mem, PAGE, MPOL_PREFERRED, &nodes, 8 * sizeof(nodes), 0))
		return; /* this kernel has no mbind() */
	mr = reg(mem, LEN, RW);
	expect_shared(1, 19);
	dereg(mr);
	expect_content();
}

/* Does VmFlags of the memory at p have the word? */
static bool is_marked(const uint8_t *p, const char *word)
{
	char flags[PROCMAP_FLAGS] = "";
	struct procmaps maps;
	struct procmap m;

	procmaps_open_flags(&maps);
	while (procmaps_next(&maps, &m))
		if (m.lo <= (uintptr_t)p && (uintptr_t)p < m.hi)
			assert_true(procmaps_flags(&maps, flags));
	procmaps_close(&maps);
	return strstr(flags, word);
}

/* What is said of a page while it is a file's is said of the private page, too. */
static void what_is_said_later_holds(void **state)
{
	struct mr *mr = reg(mem, 4 * PAGE, RW);

	(void)state;
	assert_int_equal(madvise(mem, 2 * PAGE, MADV_DONTDUMP), 0);
	/* Under a sanitizer mlock2() does nothing. */
	assert_int_equal(syscall(SYS_mlock2, mem + 3 * PAGE, PAGE, MLOCK_ONFAULT), 0);
	assert_int_equal(madvise(mem, PAGE, MADV_RANDOM), 0);
	assert_int_equal(madvise(mem + PAGE, PAGE, MADV_SEQUENTIAL), 0);
	dereg(mr);
	expect_shared(0, 0);
	expect_content();
	assert_true(is_marked(mem, "rr "));
	assert_true(is_marked(mem + PAGE, "sr "));
	assert_true(is_marked(mem + PAGE, "dd "));
	assert_false(is_marked(mem + 2 * PAGE, "dd "));
	assert_false(is_marked(mem + 2 * PAGE, "lo "));
	assert_true(is_marked(mem + 3 * PAGE, "lo "));
	assert_int_equal(syscall(SYS_munlock, mem + 3 * PAGE, PAGE), 0);
	assert_int_equal(madvise(mem, 2 * PAGE, MADV_DODUMP), 0);
	assert_int_equal(madvise(mem, 2 * PAGE, MADV_NORMAL), 0);
}

/* The file, mapped MAP_PRIVATE: pages that the kernel did not hold, and that could not be
 * replaced then, for want of memory. */
static void what_was_sealed_can_go_back(void **state)
{
	int fd = memfd_create("sealed", 0);
	uint8_t *p = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	bool can = false, marked = false;
	struct procmaps maps;
	struct procmap m;

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	procmaps_open_flags(&maps);
	while (procmaps_next(&maps, &m))
		if (m.lo == (uintptr_t)p)
			can = movable_is_revertible(&maps, &marked);
	procmaps_close(&maps);
	assert_true(can);
	assert_false(marked);
	munmap(p, PAGE);
	close(fd);
}

/* What keeps memory private when a region is registered does not keep it a file's. */
static void what_comes_later_does_not_matter(void **state)
{
	uint8_t params[120] = { 0 };
	uint8_t *other = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct mr *mr = reg(mem + 4 * PAGE, 4 * PAGE, RW);
	int fd;

	(void)state;
	expect_shared(4, 4);
	/* Under a sanitizer mlock() does nothing. */
	assert_int_equal(syscall(SYS_mlock, other, PAGE), 0);
	dereg(mr);
	expect_shared(0, 0);
	munmap(other, PAGE);
	mr = reg(mem + 4 * PAGE, 4 * PAGE, RW);
	expect_shared(4, 4);
	fd = (int)syscall(SYS_io_uring_setup, 2, params);
	dereg(mr);
	expect_shared(0, 0);
	expect_content();
	if (fd >= 0)
		close(fd);
}

static void not_what_is_protected(void **state)
{
	struct mr *mr;

	(void)state;
	mprotect(mem + 2 * PAGE, PAGE, PROT_READ);
	mr = reg(mem, LEN, IBV_ACCESS_REMOTE_READ);
	mprotect(mem + 2 * PAGE, PAGE, PROT_READ | PROT_WRITE);
	for (unsigned i = 0; i < 2; i++)
		mem[i * PAGE] = mem[i * PAGE];
	expect_content();
	dereg(mr);
	expect_shared(0, 0);
	expect_content();
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, begin, end)
	const struct CMUnitTest tests[] = {
		T(not_with_other_threads),	  T(not_with_asynchronous_io),
		T(not_with_a_ring_that_is_open),  T(not_what_is_locked),
		T(not_what_something_is_said_of), T(what_is_said_later_holds),
		T(what_was_sealed_can_go_back),	  T(what_comes_later_does_not_matter),
		T(not_what_is_protected),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
