/* SPDX-License-Identifier: BSD-2-Clause */
/* late.c - a program of one thread registers memory, which becomes a file's, and does
 * only then what keeps memory private if it was done before: in each --mode it must have
 * private memory again once nothing needs the file.
 *
 *	ring, lock	opens io_uring (or aio), or locks a page elsewhere; deregisters
 *	ring-thread, lock-thread	... begins a thread, and forks
 *	cost		begins a thread, unseen, and deregisters many a time
 *	partial		MADV_DONTNEED fails at memory behind the region
 */
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "crew.h"

enum { PAGE = 4096, SIZE = 64 * PAGE, FROM = 16 * PAGE, LEN = 16 * PAGE };

static struct rig r;

static bool is(const char *mode)
{
	return !strncmp(opt.mode, mode, strlen(mode));
}

static uint8_t *map(size_t len)
{
	uint8_t *at = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	CHECK(at != MAP_FAILED);
	return at;
}

static struct ibv_mr *reg(uint8_t *at, size_t len)
{
	struct ibv_mr *mr = ibv_reg_mr(r.pd, at, len, RIG_ACCESS);

	CHECK(mr);
	return mr;
}

/* Does what may be noticed of the way back. */
static void act(void)
{
	struct io_uring_params p;
	aio_context_t io = 0;

	memset(&p, 0, sizeof(p));
	if (is("lock"))
		CHECK(!mlock(map(PAGE), PAGE));
	else if (syscall(SYS_io_uring_setup, 8, &p) < 0) /* it may be forbidden */
		CHECK(!syscall(SYS_io_setup, 4, &io));
}

/* --- a region that ends ------------------------------------------------------ */

static int nothing(void *arg)
{
	(void)arg;
	return 0;
}

static void expect(const uint8_t *at, size_t len, uint8_t byte)
{
	for (size_t i = 0; i < len; i++)
		CHECK(at[i] == byte);
}

static void end_region(void)
{
	uint8_t *at = map(SIZE), *stack = map(16 * PAGE), *more;
	struct ibv_mr *mr;
	pid_t pid;

	memset(at, 5, SIZE);
	mr = reg(at + FROM, LEN);
	CHECK(is_a_file(at + FROM));
	act();
	CHECK(!ibv_dereg_mr(mr));
	CHECK(!is_a_file(at + FROM));
	more = mremap(at, SIZE, 4 * SIZE, MREMAP_MAYMOVE);
	CHECK(more != MAP_FAILED);
	expect(more, SIZE, 5);
	expect(more + SIZE, 3 * SIZE, 0);
	pid = clone(nothing, stack + 16 * PAGE, SIGCHLD, NULL);
	CHECK(pid > 0);
	crew_reap(pid);
}

/* --- a thread that begins ----------------------------------------------------- */

static volatile uint64_t *inside, *outside;
static atomic_bool over;

static void *count(void *arg)
{
	for (uint64_t i = 1; !over; i++) {
		*inside = i;
		atomic_thread_fence(memory_order_seq_cst);
		*outside = i;
	}
	return arg;
}

/* The thread stores to the region first and then elsewhere: no child may have an older
 * region. */
static void begin_thread(void)
{
	uint8_t *at = map(SIZE);
	struct ibv_mr *mr;
	pthread_t t;

	outside = (uint64_t *)(void *)map(PAGE);
	inside = (uint64_t *)(void *)(at + FROM + PAGE);
	mr = reg(at + FROM, LEN);
	CHECK(is_a_file(at + FROM));
	act();
	CHECK(!pthread_create(&t, NULL, count, NULL));
	CHECK(!is_a_file(at + FROM));
	for (unsigned i = 0; i < lopt.count; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			uint64_t late = *outside;

			_exit(*inside < late);
		}
		crew_reap(pid);
	}
	over = true;
	CHECK(!pthread_join(t, NULL));
	CHECK(!ibv_dereg_mr(mr));
}

/* --- what it costs ------------------------------------------------------------ */

static void *wait_for_ever(void *arg)
{
	for (;;)
		pause();
	return arg;
}

static double reading_costs(void)
{
	double began = now_s();
	char buf[65536];
	FILE *f = fopen("/proc/self/smaps", "re");

	CHECK(f);
	while (fread(buf, 1, sizeof(buf), f) > 0)
		;
	fclose(f);
	return now_s() - began;
}

/* The first region's pages stay a file's beside the thread. The deregistrations that look
 * for them do not read each time all that the kernel knows of the process's memory. */
static void deregister_often(void)
{
	enum { BIG = 1 << 28, TIMES = 100, EACH = 64 << 10 };
	uint8_t *big = map(BIG), *at = map(SIZE), *others = map(TIMES * EACH);
	struct ibv_mr *mr = reg(at, SIZE);
	double began, all, once;
	pthread_t t;

	CHECK(!madvise(big, BIG, MADV_NOHUGEPAGE));
	for (size_t i = 0; i < BIG; i += PAGE)
		big[i] = 1;
	CHECK(!pthread_create(&t, NULL, wait_for_ever, NULL));
	CHECK(!ibv_dereg_mr(mr));
	CHECK(is_a_file(at));
	once = reading_costs();
	began = now_s();
	for (int i = 0; i < TIMES; i++)
		CHECK(!ibv_dereg_mr(reg(others + i * EACH, EACH)));
	all = now_s() - began;
	say("%d deregistrations took %.6f s, and one look %.6f s", TIMES, all, once);
	CHECK(all < once * TIMES / 4);
}

/* --- advice that fails half way ------------------------------------------------ */

static void advise_partly(void)
{
	uint8_t *at = map(SIZE);
	struct ibv_mr *mr;

	memset(at, 7, SIZE);
	mr = reg(at + FROM, LEN);
	CHECK(is_a_file(at + FROM));
	CHECK(!mlock(at + FROM + LEN, PAGE));
	CHECK(madvise(at, SIZE, MADV_DONTNEED) && errno == EINVAL);
	expect(at, FROM + LEN, 0);
	expect(at + FROM + LEN, SIZE - FROM - LEN, 7);
	CHECK(!ibv_dereg_mr(mr));
}

int afterwards(void)
{
	rig_open(&r);
	if (is("partial"))
		advise_partly();
	else if (strstr(opt.mode, "thread"))
		begin_thread();
	else if (strstr(opt.mode, "cost"))
		deregister_often();
	else
		end_region();
	rig_close(&r);
	say("all right");
	return 0;
}
