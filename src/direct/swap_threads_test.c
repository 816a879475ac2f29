/* SPDX-License-Identifier: BSD-2-Clause */
/* Tests of turning private pages into file pages while other threads store to them. */
#include "direct/swap_fix.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "sys/hang_testing.h"
#include "sys/vacant.h"

enum {
	MOST = 16,	     /* threads of each kind */
	WORDS = PAGE / 8,    /* of a page */
	KERNELS = WORDS / 2, /* the first word that the kernel stores to */
	PIECE = 64 << 10,    /* swap.c's */
};

/* ThreadSanitizer knows nothing of accesses that wait. */
#define UNSEEN __attribute__((no_sanitize("thread")))

static volatile uint64_t *mem;
static atomic_bool stop;

/* Its word of each page counts how often it has been there. */
struct worker {
	pthread_t t;
	unsigned id;
	_Atomic uint64_t n; /* passes over all pages */
	const char *wrong;  /* NULL: nothing */
	bool (*store)(struct worker *w, volatile uint64_t *word, uint64_t value);
	unsigned word;
	int fds[2];
};

static struct worker worker[MOST];

UNSEEN static bool by_itself(struct worker *w, volatile uint64_t *word, uint64_t value)
{
	(void)w;
	*word = value;
	return true;
}

/* The kernel stores, in one of several ways. */
static bool by_kernel(struct worker *w, volatile uint64_t *word, uint64_t value)
{
	void *to = (void *)(uintptr_t)word;
	struct iovec v[2] = { { to, 4 }, { (uint8_t *)to + 4, 4 } };
	struct msghdr msg = { .msg_iov = v, .msg_iovlen = 2 };

	if (send(w->fds[1], &value, sizeof(value), 0) != sizeof(value))
		return false;
	switch (value % 4) {
	case 0:
		return syscall(SYS_read, w->fds[0], to, sizeof(value)) == sizeof(value);
	case 1:
		return syscall(SYS_readv, w->fds[0], v, 2) == sizeof(value);
	case 2:
		return syscall(SYS_recvfrom, w->fds[0], to, sizeof(value), 0, NULL,
			       NULL) == sizeof(value);
	default:
		return syscall(SYS_recvmsg, w->fds[0], &msg, 0) == sizeof(value);
	}
}

UNSEEN static void *work(void *arg)
{
	struct worker *w = arg;

	while (!stop && !w->wrong) {
		for (unsigned i = 0; i < PAGES && !w->wrong; i++) {
			volatile uint64_t *word = mem + i * WORDS + w->word;

			if (*word != w->n)
				w->wrong = "a store was lost";
			else if (!w->store(w, word, w->n + 1))
				w->wrong = "a system call failed";
		}
		w->n++;
	}
	return NULL;
}

static void begin_work(unsigned n, bool kernel)
{
	stop = false;
	for (unsigned i = 0; i < n; i++) {
		struct worker *w = &worker[i];

		*w = (struct worker){ .id = i, .store = kernel ? by_kernel : by_itself };
		w->word = (kernel ? KERNELS : 0) + i;
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, w->fds), 0);
		assert_int_equal(pthread_create(&w->t, NULL, work, w), 0);
	}
}

/* Returns when each has passed over all pages that often again. */
static void await_work(unsigned n, unsigned passes)
{
	for (unsigned i = 0; i < n; i++)
		for (const uint64_t from = worker[i].n;
		     worker[i].n < from + passes && !worker[i].wrong;)
			sched_yield();
}

static void end_work(unsigned n)
{
	stop = true;
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(pthread_join(worker[i].t, NULL), 0);
		if (worker[i].wrong)
			fail_msg("thread %u: %s", i, worker[i].wrong);
		close(worker[i].fds[0]);
		close(worker[i].fds[1]);
	}
}

static void expect_work(const volatile uint64_t *at, unsigned n)
{
	for (unsigned i = 0; i < PAGES; i++)
		for (unsigned k = 0; k < n; k++)
			assert_int_equal(at[i * WORDS + worker[k].word], worker[k].n);
}

static bool always(uint64_t lo, uint64_t hi)
{
	return lo < hi;
}

static int open_beside(struct swap_beside *b, void *at, size_t len)
{
	const int rc = vacant_open(&b->place);

	b->may = always;
	return rc ? rc : vacant_add(&b->place, (uintptr_t)at, len);
}

static void moves_beside(unsigned n, bool kernel, unsigned passes)
{
	const uint64_t lo = (uintptr_t)map(LEN);
	struct swap_beside beside;
	struct swap_run run;
	uint64_t *other;

	mem = (volatile uint64_t *)(uintptr_t)lo;
	assert_int_equal(open_beside(&beside, (void *)lo, LEN), 0);
	begin_work(n, kernel);
	await_work(n, passes);
	assert_int_equal(swap_out(lo, lo + LEN, &run, &beside), 0);
	assert_int_equal(run.hi, lo + LEN);
	vacant_close(&beside.place);
	await_work(n, 2);
	end_work(n);
	assert_int_equal(of_file(&run, (void *)lo, LEN), LEN);
	other = mmap(NULL, LEN, PROT_READ, MAP_SHARED, run.fd, 0);
	assert_ptr_not_equal(other, MAP_FAILED);
	expect_work(other, n);
	munmap(other, LEN);
	assert_true(swap_in(&run, SWAP_ALONE));
	expect_work(mem, n);
	munmap((void *)lo, LEN);
}

static bool is_allowed(void)
{
	struct vacant v;
	const int rc = vacant_open(&v);

	vacant_close(&v);
	return rc != -EPERM && rc != -ENOSYS;
}

/* passes 0: the pages are being touched for the first time meanwhile. */
static void moves_beside_few_and_many(unsigned rounds, bool kernel)
{
	static const unsigned n[] = { 1, 2, 16 };

	if (!is_allowed())
		skip();
	for (unsigned i = 0; i < rounds * 3; i++)
		moves_beside(n[i % 3], kernel, i & 1);
}

static void no_store_is_lost(void **state)
{
	(void)state;
	moves_beside_few_and_many(4, false);
}

static void no_store_of_the_kernel_is_lost(void **state)
{
	(void)state;
	moves_beside_few_and_many(2, true);
}

/* Where the swap stands while the place of the pages is vacant. */
static struct swap_beside here;
static volatile uint64_t *given;

/* Gives a page back as libc's malloc_trim() does, and uses it again. */
UNSEEN static void *give_back(void *arg)
{
	madvise((void *)(uintptr_t)given, PAGE, MADV_DONTNEED);
	*given = 77;
	return arg;
}

static pthread_t giver;
static bool answer;

/* Returns when the thread waits. */
static bool beside_giver(uint64_t lo, uint64_t hi)
{
	struct uffd_msg msg;

	assert_true(lo < hi);
	assert_int_equal(pthread_create(&giver, NULL, give_back, NULL), 0);
	assert_int_equal(read(here.place.fd, &msg, sizeof(msg)), sizeof(msg));
	return answer;
}

/* The store that follows is not lost, whether or not the pages become a file's. */
static void what_is_given_back_can_be_used_again(void **state)
{
	struct swap_run run;
	uint8_t *p;

	(void)state;
	if (!is_allowed())
		skip();
	for (unsigned i = 0; i < 2; i++) {
		p = map(PIECE);
		fill(p, PIECE, 1);
		given = (volatile uint64_t *)(void *)(p + 3 * PAGE);
		answer = i;
		assert_int_equal(open_beside(&here, p, PIECE), 0);
		here.may = beside_giver;
		assert_int_equal(swap_out((uintptr_t)p, (uintptr_t)p + PIECE, &run,
					  &here),
				 i ? 0 : -EBUSY);
		assert_int_equal(pthread_join(giver, NULL), 0);
		vacant_close(&here.place);
		assert_int_equal(of_file(&run, p, PIECE), i ? PIECE : 0);
		assert_int_equal(*given, 77);
		expect(p, 3 * PAGE, 1);
		if (i)
			assert_true(swap_in(&run, SWAP_ALONE));
		assert_int_equal(*given, 77);
		munmap(p, PIECE);
	}
}

static uint64_t file_takes(int fd)
{
	struct stat st;

	assert_int_equal(fstat(fd, &st), 0);
	return (uint64_t)st.st_blocks * 512;
}

static void holes_stay_holes(void **state)
{
	enum { MUCH = 8 << 20 };
	struct swap_beside beside;
	struct swap_run run;
	uint8_t *p;

	(void)state;
	if (!is_allowed())
		skip();
	p = map(MUCH);
	madvise(p, MUCH, MADV_NOHUGEPAGE);
	p[MUCH / 2] = 5;
	(void)*(volatile uint8_t *)(p + MUCH / 4); /* has been looked at */
	assert_int_equal(open_beside(&beside, p, MUCH), 0);
	assert_int_equal(swap_out((uintptr_t)p, (uintptr_t)p + MUCH, &run, &beside), 0);
	vacant_close(&beside.place);
	assert_in_range(file_takes(run.fd), PAGE, 2 * PAGE);
	assert_int_equal(p[MUCH / 2], 5);
	assert_int_equal(p[3 * PAGE], 0);
	assert_true(swap_in(&run, SWAP_ALONE));
	munmap(p, MUCH);
}

/* Another thread has unmapped the memory, and something else lies there. */
static void other_memory_is_left_alone(void **state)
{
	struct swap_beside beside;
	struct swap_run run;
	uint8_t *p, *q, *more;

	(void)state;
	if (!is_allowed())
		skip();
	p = map(LEN);
	fill(p, LEN, 1);
	assert_int_equal(open_beside(&beside, p, LEN), 0);
	q = mmap(p + PIECE, PAGE, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	assert_ptr_equal(q, p + PIECE);
	fill(q, PAGE, 2);
	assert_int_equal(swap_out((uintptr_t)p, (uintptr_t)p + LEN, &run, &beside), 0);
	vacant_close(&beside.place);
	assert_int_equal(run.hi, run.lo + PIECE);
	assert_int_equal(of_file(&run, p, LEN), PIECE);
	expect(p, PIECE, 1);
	expect(q, PAGE, 2);
	/* Behind the run's end the file has zeros. */
	more = mremap(p, PIECE, 2 * PIECE, MREMAP_MAYMOVE);
	assert_ptr_not_equal(more, MAP_FAILED);
	expect_zeros(more + PIECE, PIECE);
	assert_true(swap_in(&run, SWAP_ALONE));
	munmap(more, 2 * PIECE);
	fill(q, LEN - PIECE, 3); /* no store waits */
	munmap(q, LEN - PIECE);
}

/* The program has closed the descriptor by which they wait. */
static void it_fails_if_nobody_waits(void **state)
{
	struct swap_beside beside;
	struct swap_run run;
	uint8_t *p;

	(void)state;
	if (!is_allowed())
		skip();
	p = map(LEN);
	fill(p, LEN, 1);
	assert_int_equal(open_beside(&beside, p, LEN), 0);
	close(beside.place.fd);
	assert_true(swap_out((uintptr_t)p, (uintptr_t)p + LEN, &run, &beside) < 0);
	vacant_close(&beside.place);
	assert_int_equal(of_file(&run, p, LEN), 0);
	fill(p, LEN, 2);
	munmap(p, LEN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_store_is_lost),
		cmocka_unit_test(no_store_of_the_kernel_is_lost),
		cmocka_unit_test(what_is_given_back_can_be_used_again),
		cmocka_unit_test(holes_stay_holes),
		cmocka_unit_test(other_memory_is_left_alone),
		cmocka_unit_test(it_fails_if_nobody_waits),
	};

	hang_fails();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
