/* SPDX-License-Identifier: BSD-2-Clause */
/* noticed.c - private memory that another process has mapped, and a program that does to
 * it what private memory takes otherwise than a file's.  In each --mode it sees what it
 * would see of private memory, and the other process's WRITEs and READs go on:
 *
 *	zeros, zeros-by-number, free, advice, locked	madvise(), mlock()
 *	moved		mremap() of more than the region
 *	thread		a thread begins
 *	timer, aio, queue, lookup	... which libc begins by itself
 *	unseen-thread	... by a system call of the program's own
 *	cancelled	the calling thread, in what is told
 *	cloned-thread	a process with the same memory
 *	fork, _Fork, clone, fork-by-number, clone-by-number, clone3-by-number
 *			a child has its memory as it was; handlers of pthread_atfork()
 *			that were there before the device write to it, too
 *	vfork, vfork-by-number	a child has the same memory
 *	forks		a program that forks again and again
 *	fork-inside, _Fork-inside	on a stack in such memory
 */
#include <aio.h>
#include <errno.h>
#include <linux/sched.h>
#include <mqueue.h>
#include <netdb.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include "crew.h"

enum { PAGE = 4096, PAGES = 64, FROM = 5, OF = 40, USES = 60, LEN = 3000 };
enum { SIZE = PAGES * PAGE, REGION = OF * PAGE };

static struct {
	struct card owner, user;
	_Atomic uint32_t there, joined, used, acted, over;
} * sh;

enum { BEFORE = 30 * PAGE, IN_PARENT = 31 * PAGE, IN_CHILD = 32 * PAGE };

static struct rig r;
static uint8_t *all, *region; /* region: a part of the mapping all */
static bool moved;

static bool is(const char *mode)
{
	return !strcmp(opt.mode, mode);
}

static uint8_t pattern(size_t i)
{
	return (uint8_t)(i * 7 + i / 251 + 1);
}

/* Checks all but the first page, to which the other process writes. */
static void expect_pattern(const uint8_t *at, size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		CHECK(at[i] == pattern(i));
}

static void expect_zeros(const uint8_t *at, size_t len)
{
	for (size_t i = 0; i < len; i++)
		CHECK(at[i] == 0);
}

/* --- what it does ----------------------------------------------------------- */

static int by_number(void *at, size_t len, int advice)
{
	return (int)syscall(SYS_madvise, at, len, advice);
}

static void zeros(int (*advise)(void *, size_t, int))
{
	CHECK(!advise(region + 3 * PAGE, 10 * PAGE, MADV_DONTNEED));
	expect_zeros(region + 3 * PAGE, 10 * PAGE);
	expect_pattern(all, (FROM + 13) * PAGE, (FROM + OF - 1) * PAGE);
	/* The range goes beyond the end of the region, and beyond the end of the
	 * mapping. */
	CHECK(!advise(region + REGION - PAGE, 2 * PAGE, MADV_DONTNEED));
	expect_zeros(region + REGION - PAGE, 2 * PAGE);
	CHECK(advise(region, PAGE, MADV_REMOVE) && errno == EINVAL);
}

static void *nothing(void *arg)
{
	return arg;
}

static void begin_thread(void)
{
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, nothing, NULL));
	CHECK(!is_a_file(region));
	CHECK(!pthread_join(t, NULL));
}

static void on_timer(union sigval v)
{
	(void)v;
}

static void have_libc_begin_thread(void)
{
	struct sigevent e = { .sigev_notify = SIGEV_THREAD };
	struct aiocb cb = { .aio_fildes = -1 };
	struct gaicb name = { .ar_name = "127.0.0.1" }, *names = &name;
	timer_t t;

	e.sigev_notify_function = on_timer;
	if (is("timer")) {
		CHECK(!timer_create(CLOCK_MONOTONIC, &e, &t));
	} else if (is("queue")) {
		CHECK(mq_notify(-1, &e) && errno == EBADF);
	} else if (is("aio")) {
		CHECK(!aio_read(&cb));
		while (aio_error(&cb) == EINPROGRESS)
			crew_nap();
		CHECK(aio_return(&cb) < 0);
	} else {
		CHECK(!getaddrinfo_a(GAI_WAIT, &names, 1, NULL));
	}
	CHECK(!is_a_file(region));
}

/* Starts a thread that waits for ever. */
static void begin_unseen_thread(void)
{
#if defined(__x86_64__)
	static _Alignas(16) uint8_t top[4096];
	long rc = SYS_clone, flags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND |
				     CLONE_THREAD | CLONE_SYSVSEM;
	register long none __asm__("r10") = 0;

	__asm__ volatile("xor %%r8d, %%r8d\n\t"
			 "syscall\n\t"
			 "test %%eax, %%eax\n\t"
			 "jnz 2f\n"
			 "1:	mov %[pause], %%eax\n\t"
			 "syscall\n\t"
			 "jmp 1b\n"
			 "2:"
			 : "+a"(rc)
			 : "D"(flags), "S"(top + sizeof(top)), "d"(0),
			   "r"(none), [pause] "i"(SYS_pause)
			 : "rcx", "r8", "r11", "memory");
	CHECK(rc > 0);
#endif
	zeros(madvise);
}

/* The cancelled thread must have given up all locks. */
static void be_cancelled(void)
{
	pthread_t t;
	pid_t pid;

	CHECK(!pthread_cancel(pthread_self()));
	pid = fork();
	if (!pid)
		_exit(0);
	CHECK(!madvise(region + 3 * PAGE, PAGE, MADV_DONTNEED));
	CHECK(!pthread_create(&t, NULL, nothing, NULL));
	CHECK(!pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL));
	CHECK(pid > 0 && !is_a_file(region) && !pthread_join(t, NULL));
	crew_reap(pid);
	expect_zeros(region + 3 * PAGE, PAGE);
	for (size_t i = 0; i < PAGE; i++)
		region[3 * PAGE + i] = pattern((FROM + 3) * PAGE + i);
	region[BEFORE]--;
	region[IN_PARENT]--;
}

static uint8_t stack[256 << 10] __attribute__((aligned(4096)));

static int store(void *arg)
{
	*(volatile uint8_t *)arg = 0x5a;
	return 0;
}

static void begin_cloned_thread(void)
{
	pid_t pid = clone(store, stack + sizeof(stack), CLONE_VM | SIGCHLD,
			  region + 20 * PAGE);

	CHECK(pid > 0);
	crew_reap(pid);
	CHECK(region[20 * PAGE] == 0x5a && !is_a_file(region));
	region[20 * PAGE] = pattern((FROM + 20) * PAGE);
}

static void move(void)
{
	uint8_t *to = mremap(all, SIZE, 4 * SIZE, MREMAP_MAYMOVE);

	CHECK(to != MAP_FAILED);
	expect_pattern(to, (FROM + 1) * PAGE, SIZE);
	expect_zeros(to + SIZE, 3 * SIZE);
	all = to;
	moved = true;
}

static void advice(void)
{
	pid_t pid;

	CHECK(!madvise(region + 2 * PAGE, PAGE, MADV_WIPEONFORK));
	CHECK(!madvise(region + 3 * PAGE, PAGE, MADV_DONTFORK));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		expect_zeros(region + 2 * PAGE, PAGE);
		CHECK(msync(region + 3 * PAGE, PAGE, MS_ASYNC) && errno == ENOMEM);
		_exit(0);
	}
	crew_reap(pid);
	region[BEFORE]--; /* undoes what the atfork handlers below have done */
	region[IN_PARENT]--;
	expect_pattern(all, (FROM + 1) * PAGE, SIZE);
}

/* --- children --------------------------------------------------------------- */

/* Handlers that were registered before the device was opened. */
static void on_prepare(void)
{
	if (region)
		region[BEFORE]++;
}

static void on_parent(void)
{
	if (region)
		region[IN_PARENT]++;
}

static void on_child(void)
{
	if (region)
		region[IN_CHILD]++;
}

__attribute__((constructor)) static void begin(void)
{
	pthread_atfork(on_prepare, on_parent, on_child);
}

static int turn[2]; /* a pipe: the parent tells the child that it has written */

static int child(void *handled)
{
	uint8_t byte;

	CHECK(read(turn[0], &byte, 1) == 1);
	CHECK(region[25 * PAGE] == pattern((FROM + 25) * PAGE));
	if (handled) {
		CHECK(region[BEFORE] == (uint8_t)(pattern((FROM + 30) * PAGE) + 1));
		CHECK(region[IN_PARENT] == pattern((FROM + 31) * PAGE));
		CHECK(region[IN_CHILD] == (uint8_t)(pattern((FROM + 32) * PAGE) + 1));
	}
	memset(region, 0x11, REGION);
	_exit(0);
}

static pid_t make_child(void)
{
	struct clone_args args = { .exit_signal = SIGCHLD };

	if (is("fork"))
		return fork();
	if (is("_Fork"))
		return _Fork();
	if (is("clone"))
		return clone(child, stack + sizeof(stack), SIGCHLD, NULL);
	if (is("clone-by-number"))
		return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (is("clone3-by-number"))
		return (pid_t)syscall(SYS_clone3, &args, sizeof(args));
#ifdef SYS_fork
	return (pid_t)syscall(SYS_fork);
#else
	return (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
#endif
}

static void have_child(void)
{
	bool handled = is("fork");
	pid_t pid;

	CHECK(!pipe(turn));
	pid = make_child();
	CHECK(pid >= 0);
	if (!pid)
		child(handled ? &handled : NULL);
	if (handled) {
		CHECK(region[BEFORE] == (uint8_t)(pattern((FROM + 30) * PAGE) + 1));
		CHECK(region[IN_PARENT] == (uint8_t)(pattern((FROM + 31) * PAGE) + 1));
		CHECK(region[IN_CHILD] == pattern((FROM + 32) * PAGE));
		region[BEFORE]--;
		region[IN_PARENT]--;
	}
	region[25 * PAGE] = 0x22;
	CHECK(write(turn[1], "", 1) == 1);
	crew_reap(pid);
	region[25 * PAGE] = pattern((FROM + 25) * PAGE);
	CHECK(is_a_file(region)); /* forking has not made the region private */
}

/* Forks on a stack that lies in the region, as a coroutine's may. */
static ucontext_t outside, inside;

static void fork_inside(void)
{
	volatile uint8_t own[4 * PAGE];
	pid_t pid;

	CHECK((uint8_t *)own > region && (uint8_t *)own < region + REGION);
	memset((void *)own, 0x11, sizeof(own));
	pid = is("_Fork-inside") ? _Fork() : fork();
	CHECK(pid >= 0);
	if (!pid) {
		for (size_t i = 0; i < sizeof(own); i++)
			CHECK(own[i] == 0x11);
		memset((void *)own, 0x22, sizeof(own));
		crew_nap();
		_exit(own[sizeof(own) / 2] == 0x22 ? 0 : 1);
	}
	memset((void *)own, 0x33, sizeof(own));
	crew_reap(pid);
	for (size_t i = 0; i < sizeof(own); i++)
		CHECK(own[i] == 0x33);
	CHECK(!is_a_file(region));
}

static void have_child_inside(void)
{
	enum { AT = 2 * PAGE, STACK = 28 * PAGE };

	CHECK(!getcontext(&inside));
	inside.uc_stack.ss_sp = region + AT;
	inside.uc_stack.ss_size = STACK;
	inside.uc_link = &outside;
	makecontext(&inside, fork_inside, 0);
	CHECK(!swapcontext(&outside, &inside));
	for (size_t i = AT; i < AT + STACK; i++)
		region[i] = pattern(FROM * PAGE + i);
	if (is("fork-inside")) {
		region[BEFORE]--;
		region[IN_PARENT]--;
	}
}

static void have_children(void)
{
	for (int i = 0; i < 40; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			expect_pattern(all, (FROM + 1) * PAGE, (FROM + 20) * PAGE);
			memset(region, 0x33, REGION);
			_exit(0);
		}
		region[BEFORE]--;
		region[IN_PARENT]--;
		crew_reap(pid);
	}
}

/* The child of vfork() must store and end without returning, since it uses its parent's
 * stack. */
static void have_vfork(bool by_number)
{
	volatile uint8_t *at = region + 20 * PAGE;
	volatile pid_t pid =
		by_number ? (pid_t)syscall(SYS_clone, CLONE_VM | CLONE_VFORK | SIGCHLD, 0,
					   0, 0, 0)
			  : vfork();

	CHECK(pid >= 0);
	if (!pid) {
		*at = 0x44;
		_exit(0);
	}
	crew_reap(pid);
	CHECK(*at == 0x44);
	*at = pattern((FROM + 20) * PAGE);
}

static void act(void)
{
	bool empties = is("zeros") || is("zeros-by-number") || is("unseen-thread");

	if (is("zeros"))
		zeros(madvise);
	else if (is("zeros-by-number"))
		zeros(by_number);
	else if (is("free")) /* the contents of these pages are undefined afterwards */
		CHECK(!madvise(region - PAGE, 9 * PAGE, MADV_FREE));
	else if (is("locked"))
		CHECK(!mlock(region + PAGE, 2 * PAGE) && !is_a_file(region));
	else if (is("advice"))
		advice();
	else if (is("thread"))
		begin_thread();
	else if (is("timer") || is("queue") || is("aio") || is("lookup"))
		have_libc_begin_thread();
	else if (is("unseen-thread"))
		begin_unseen_thread();
	else if (is("cancelled"))
		be_cancelled();
	else if (is("cloned-thread"))
		begin_cloned_thread();
	else if (is("moved"))
		move();
	else if (is("vfork") || is("vfork-by-number"))
		have_vfork(!is("vfork"));
	else if (is("forks"))
		have_children();
	else if (is("fork-inside") || is("_Fork-inside"))
		have_child_inside();
	else
		have_child();
	if (!empties && !is("free"))
		expect_pattern(all, (FROM + 1) * PAGE, SIZE);
}

/* --- the two processes ------------------------------------------------------- */

/* What the other process writes afterwards arrives, and nothing else changes. */
static void expect_other(uint8_t byte)
{
	if (moved)
		return;
	for (size_t i = 0; i < LEN; i++)
		CHECK(region[i] == byte);
	CHECK(region[LEN] == (is("free") ? region[LEN] : pattern(FROM * PAGE + LEN)));
}

static void be_owner(void *arg)
{
	struct ibv_qp *qp;
	struct ibv_mr *mr;

	(void)arg;
	rig_open(&r);
	all = rig_memory(SIZE);
	for (size_t i = 0; i < SIZE; i++)
		all[i] = pattern(i);
	mr = ibv_reg_mr(r.pd, all + FROM * PAGE, REGION, RIG_ACCESS);
	CHECK(mr);
	region = all + FROM * PAGE;
	CHECK(is_a_file(region) && is_a_file(region + REGION - 1) && !is_a_file(all));
	qp = rig_qp(&r);
	sh->owner = (struct card){ qp->qp_num, mr->rkey, (uintptr_t)region, r.gid };
	sh->there = 1;
	crew_wait(&sh->joined, 1);
	crew_join(&r, qp, &sh->user);
	sh->joined = 2;
	crew_wait(&sh->used, 1);
	expect_other(USES);
	act();
	sh->acted = 1;
	crew_wait(&sh->used, 2);
	expect_other(USES + USES);
	CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr));
	CHECK(is("unseen-thread") || !is_a_file(region));
	expect_other(USES + USES);
	if (is("unseen-thread")) {
		memset(region + 3 * PAGE, 0x66, 10 * PAGE);
		zeros(madvise);
	} else if (!is("zeros") && !is("zeros-by-number") && !is("free")) {
		expect_pattern(all, (FROM + 1) * PAGE, SIZE);
	}
	sh->over = 1;
	rig_close(&r);
}

static void use(struct ibv_qp *qp, uint8_t add)
{
	for (int i = 1; i <= USES; i++) {
		memset(r.buf, i + add, LEN);
		crew_expect(&r, qp, &sh->owner, IBV_WR_RDMA_WRITE, 0, LEN, 0);
		crew_expect(&r, qp, &sh->owner, IBV_WR_RDMA_READ, LEN, LEN, 0);
		CHECK(is("moved") || !memcmp(r.buf, r.buf + LEN, LEN));
		sleep_ms(1);
	}
}

static void be_user(void *arg)
{
	struct ibv_qp *qp;

	(void)arg;
	rig_open(&r);
	qp = rig_qp(&r);
	sh->user = crew_card(&r, qp);
	crew_wait(&sh->there, 1);
	sh->joined = 1;
	crew_wait(&sh->joined, 2);
	crew_join(&r, qp, &sh->owner);
	use(qp, 0);
	sh->used = 1;
	crew_wait(&sh->acted, 1);
	if (!is("moved"))
		use(qp, USES);
	sh->used = 2;
	crew_wait(&sh->over, 1);
	CHECK(!ibv_destroy_qp(qp));
	rig_close(&r);
}

int noticed(void)
{
	pid_t owner, user;

	sh = crew_share(sizeof(*sh));
	owner = crew_fork(be_owner, NULL);
	user = crew_fork(be_user, NULL);
	crew_reap(owner);
	crew_reap(user);
	say("all right");
	return 0;
}
