/* SPDX-License-Identifier: BSD-2-Clause */
/* storm.c - memory that is registered --count times while --threads threads store to it
 *and verify what they have stored, and one more does what --mode says:
 *
 *	nothing
 *	fork		makes a child, which must find all as it was at one moment
 *	exec, vfork, spawn, clone	... which becomes another program; clone: on a
 *stack of its own malloc		uses malloc(), from which the memory is, and makes
 *children that do signal		gets signals, whose handler stores there begin
 *begins threads that store there and end stack		... and have their stacks there
 *	heap		as malloc, and small parts of the heap are registered, too
 *	close		closes descriptors that are not its own
 *	empty		gives its pages back
 *	protect		forbids stores to its page, and allows them again
 *	lock		locks its page in memory, and unlocks it
 *	huge		the memory is of huge pages
 *	direct		reads a file by direct I/O, and opens it just before
 *	limit		there is little address space
 *	sem, mutex, private, shared	two threads wake each other there: by objects for
 *			several processes, by futexes with or without FUTEX_PRIVATE_FLAG
 *
 * No store is lost, and nobody sleeps for ever. Prints in how many rounds the memory was
 *a file's. */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "crew.h"

enum {
	PAGE = 4096,
	PAGES = 64, /* the last ones are the doer's */
	OWN = 16,   /* pages of the doer */
	SIZE = PAGES * PAGE,
	BUSY = PAGES - OWN,
	HUGE_SIZE = 2 << 20,
	MOST = 16,
	ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
};

static struct rig r;
static uint8_t *mem; /* PAGES whole pages */
static uint8_t *block;
static atomic_bool stop;

static bool is(const char *mode)
{
	return !strcmp(opt.mode, mode);
}

static unsigned random_below(unsigned n)
{
	static _Thread_local uint64_t x;

	if (!x)
		x = lopt.seed * 2654435761u + (uint64_t)gettid();
	x = x * 6364136223846793005u + 1442695040888963407u;
	return (unsigned)(x >> 33) % n;
}

/* --- threads that store ------------------------------------------------------ */

struct busy {
	pthread_t t;
	unsigned id;
	_Atomic uint64_t n;
	int ends[2];
};

static struct busy busy[MOST];

static volatile uint64_t *word_of(unsigned id, unsigned page)
{
	return (volatile uint64_t *)(void *)(mem + page * PAGE) + id;
}

/* Every fourth store is the kernel's. */
static void *work(void *arg)
{
	struct busy *b = arg;

	for (; !stop; b->n++)
		for (unsigned page = 0; page < BUSY; page++) {
			volatile uint64_t *word = word_of(b->id, page);
			const uint64_t value = b->n + 1;

			CHECK(*word == b->n);
			if (page % 4) {
				*word = value;
				continue;
			}
			CHECK(write(b->ends[1], &value, 8) == 8);
			CHECK(read(b->ends[0], (void *)(uintptr_t)word, 8) == 8);
		}
	return NULL;
}

/* Are the words as they were at one moment? Each thread goes from the first page on. */
static bool is_of_one_moment(void)
{
	for (unsigned i = 0; i < lopt.step; i++) {
		const uint64_t first = *word_of(i, 0), last = *word_of(i, BUSY - 1);
		uint64_t before = first;

		for (unsigned page = 0; page < BUSY; page++) {
			const uint64_t value = *word_of(i, page);

			if (value > before || value < last || value + 1 < first)
				return false;
			before = value;
		}
	}
	return true;
}

static void begin_work(void)
{
	for (unsigned i = 0; i < lopt.step; i++) {
		busy[i] = (struct busy){ .id = i };
		CHECK(!pipe2(busy[i].ends, O_CLOEXEC));
		CHECK(!pthread_create(&busy[i].t, NULL, work, &busy[i]));
	}
}

static void await_work(unsigned passes)
{
	for (unsigned i = 0; i < lopt.step; i++)
		for (const uint64_t from = busy[i].n; busy[i].n < from + passes;)
			sched_yield();
}

static void verify_work(void)
{
	for (unsigned i = 0; i < lopt.step; i++)
		for (unsigned page = 0; page < BUSY; page++)
			CHECK(*word_of(i, page) == busy[i].n);
}

/* --- children ---------------------------------------------------------------- */

static void ends_well(pid_t pid)
{
	int status;

	CHECK(pid > 0);
	while (waitpid(pid, &status, 0) != pid)
		CHECK(errno == EINTR);
	if (status)
		say("a child ended with %#x", status);
	CHECK(!status);
}

static char *const words[] = { "true", NULL };

static void make_child(void)
{
	pid_t pid = fork();

	if (!pid) {
		if (!is_of_one_moment())
			_exit(3);
		memset(mem, 1, SIZE);
		_exit(is("exec") ? execv("/bin/true", words) != 0 : 0);
	}
	ends_well(pid);
}

static void make_child_that_allocates(void)
{
	enum { N = 100 };
	void *p[N];
	pid_t pid;

	for (unsigned i = 0; i < N; i++)
		CHECK((p[i] = malloc(random_below(6000) + 1)));
	for (unsigned i = 0; i < N; i += 2)
		free(p[i]);
	pid = fork();
	if (!pid) {
		for (unsigned i = 0; i < N; i += 2)
			memset(p[i] = malloc(5000), 1, 5000);
		for (unsigned i = 0; i < N; i++)
			free(p[i]);
		_exit(!is_of_one_moment());
	}
	ends_well(pid);
	for (unsigned i = 1; i < N; i += 2)
		free(p[i]);
}

static void make_vfork(void)
{
	pid_t pid = vfork();

	if (!pid) {
		execv("/bin/true", words);
		_exit(1);
	}
	ends_well(pid);
}

static void make_spawn(void)
{
	pid_t pid;

	CHECK(!posix_spawn(&pid, "/bin/true", NULL, NULL, words, NULL));
	ends_well(pid);
}

static int be_clone(void *arg)
{
	(void)arg;
	return !is_of_one_moment();
}

static void make_clone(void)
{
	enum { STACK = 256 << 10 };
	uint8_t *stack = malloc(STACK);

	CHECK(stack);
	ends_well(clone(be_clone, stack + STACK, SIGCHLD, NULL));
	free(stack);
}

/* --- what the doer does ------------------------------------------------------- */

/* Its own pages, behind those of the others. */
static volatile uint64_t *own(unsigned page)
{
	return (volatile uint64_t *)(void *)(mem + (BUSY + page) * PAGE);
}

static _Atomic uint64_t handled;

static void on_signal(int sig)
{
	(void)sig;
	*own(0) = *own(0) + 1;
	handled++;
}

static void get_signal(void)
{
	const uint64_t was = handled;

	CHECK(!pthread_kill(pthread_self(), SIGUSR1));
	while (handled == was)
		;
	CHECK(*own(0) == handled);
}

static void *store_once(void *arg)
{
	volatile uint64_t *word = arg;

	*word = *word + 1;
	return NULL;
}

static void begin_thread(void)
{
	static uint64_t n;
	pthread_attr_t attr;
	pthread_t t;

	if (!*own(1))
		n = 0;
	pthread_attr_init(&attr);
	if (is("stack"))
		CHECK(!pthread_attr_setstack(&attr, (void *)(uintptr_t)own(4), 8 * PAGE));
	CHECK(!pthread_create(&t, &attr, store_once, (void *)(uintptr_t)own(1)));
	CHECK(!pthread_join(t, NULL));
	pthread_attr_destroy(&attr);
	CHECK(*own(1) == ++n);
}

static void close_some(void)
{
	for (int fd = 512; fd < 1024; fd++)
		if (fcntl(fd, F_GETFD) < 0)
			close(fd);
}

static void empty_page(void)
{
	const unsigned page = random_below(OWN);

	*own(page) = 7;
	CHECK(!madvise((void *)(uintptr_t)own(page), PAGE, MADV_DONTNEED));
	CHECK(*own(page) == 0);
}

static void protect_page(void)
{
	void *at = (void *)(uintptr_t)own(2);
	int ends[2];

	CHECK(!pipe2(ends, O_CLOEXEC));
	CHECK(!mprotect(at, PAGE, PROT_READ));
	CHECK(write(ends[1], "x", 1) == 1 && read(ends[0], at, 1) == -1);
	CHECK(!mprotect(at, PAGE, PROT_READ | PROT_WRITE));
	CHECK(read(ends[0], at, 1) == 1);
	close(ends[0]);
	close(ends[1]);
}

static void lock_page(void)
{
	void *at = (void *)(uintptr_t)own(3);

	CHECK(!mlock(at, PAGE));
	*own(3) = *own(3) + 1;
	CHECK(!munlock(at, PAGE));
}

static void read_directly(void)
{
	const int fd = open("/proc/self/exe", O_RDONLY | O_DIRECT | O_CLOEXEC);
	static uint64_t first;

	if (fd < 0)
		return; /* not every file system has it */
	memset((void *)(uintptr_t)own(5), 9, PAGE);
	CHECK(pread(fd, (void *)(uintptr_t)own(5), PAGE, 0) == PAGE);
	if (!first)
		first = *own(5);
	CHECK(*own(5) == first && first != UINT64_C(0x0909090909090909));
	close(fd);
}

/* --- threads that wake each other ---------------------------------------------- */

struct meet {
	sem_t sem[2];
	pthread_mutex_t mutex;
	pthread_cond_t cond;
	_Atomic uint32_t turn;
};

static struct meet *meet;
static _Atomic uint64_t wakes;

static void meet_begin(void)
{
	pthread_mutexattr_t mutex;
	pthread_condattr_t cond;

	meet = (struct meet *)(void *)(uintptr_t)own(8);
	pthread_mutexattr_init(&mutex);
	pthread_condattr_init(&cond);
	if (is("mutex")) {
		pthread_mutexattr_setpshared(&mutex, PTHREAD_PROCESS_SHARED);
		pthread_condattr_setpshared(&cond, PTHREAD_PROCESS_SHARED);
		pthread_mutex_init(&meet->mutex, &mutex);
		pthread_cond_init(&meet->cond, &cond);
	}
	if (is("sem")) {
		sem_init(&meet->sem[0], 1, 0);
		sem_init(&meet->sem[1], 1, 0);
	}
	meet->turn = 0;
}

static atomic_bool partner_stops;

static bool is_over(uint32_t me)
{
	return me && partner_stops;
}

static void by_futex(uint32_t me, int flag)
{
	uint32_t now;

	while ((now = meet->turn) % 2 != me && !is_over(me))
		syscall(SYS_futex, &meet->turn, FUTEX_WAIT | flag, now, NULL, NULL, 0);
	meet->turn = now + 1;
	syscall(SYS_futex, &meet->turn, FUTEX_WAKE | flag, 1, NULL, NULL, 0);
}

static void by_mutex(uint32_t me)
{
	pthread_mutex_lock(&meet->mutex);
	while (meet->turn % 2 != me && !is_over(me))
		pthread_cond_wait(&meet->cond, &meet->mutex);
	meet->turn++;
	pthread_cond_signal(&meet->cond);
	pthread_mutex_unlock(&meet->mutex);
}

static void by_sem(uint32_t me)
{
	sem_post(&meet->sem[!me]);
	while (sem_wait(&meet->sem[me]))
		CHECK(errno == EINTR);
}

static void take_turn(uint32_t me)
{
	if (is("sem"))
		by_sem(me);
	else if (is("mutex"))
		by_mutex(me);
	else
		by_futex(me, is("private") ? FUTEX_PRIVATE_FLAG : 0);
	wakes++;
}

static bool meets(void)
{
	return is("sem") || is("mutex") || is("private") || is("shared");
}

static void end_partner(void)
{
	const int flag = is("private") ? FUTEX_PRIVATE_FLAG : 0;

	partner_stops = true;
	if (is("sem")) {
		sem_post(&meet->sem[1]);
	} else if (is("mutex")) {
		pthread_mutex_lock(&meet->mutex);
		pthread_cond_signal(&meet->cond);
		pthread_mutex_unlock(&meet->mutex);
	} else {
		meet->turn += 4;
		syscall(SYS_futex, &meet->turn, FUTEX_WAKE | flag, 1, NULL, NULL, 0);
	}
}

static void *be_partner(void *arg)
{
	while (!partner_stops)
		take_turn(1);
	return arg;
}

/* --- rounds -------------------------------------------------------------------- */

static const struct {
	const char *mode;
	void (*act)(void);
} acts[] = {
	{ "fork", make_child },
	{ "exec", make_child },
	{ "vfork", make_vfork },
	{ "spawn", make_spawn },
	{ "clone", make_clone },
	{ "malloc", make_child_that_allocates },
	{ "signal", get_signal },
	{ "begin", begin_thread },
	{ "stack", begin_thread },
	{ "close", close_some },
	{ "empty", empty_page },
	{ "protect", protect_page },
	{ "lock", lock_page },
	{ "direct", read_directly },
	{ "heap", make_child_that_allocates },
};

/* Others have their turn between two children. */
static void act(void)
{
	nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
	for (size_t i = 0; i < sizeof(acts) / sizeof(acts[0]); i++)
		if (is(acts[i].mode))
			acts[i].act();
}

static _Atomic unsigned done;

static void *do_things(void *arg)
{
	pthread_t partner;

	if (meets()) {
		partner_stops = false;
		CHECK(!pthread_create(&partner, NULL, be_partner, NULL));
	}
	for (; !stop; done++) {
		if (meets())
			take_turn(0);
		else
			act();
	}
	if (meets()) {
		end_partner();
		CHECK(!pthread_join(partner, NULL));
	}
	return arg;
}

static void *churn_heap(void *arg)
{
	while (!stop) {
		void *p = malloc(random_below(20000) + 1);

		CHECK(p);
		memset(p, 5, 1);
		free(p);
	}
	return arg;
}

static bool uses_heap(void)
{
	return is("malloc") || is("heap");
}

static void get_memory(void)
{
	if (uses_heap()) {
		block = malloc(SIZE + 2 * PAGE);
		CHECK(block);
		mem = (uint8_t *)(((uintptr_t)block + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
	} else {
		block = mmap(NULL, 2 * HUGE_SIZE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		CHECK(block != MAP_FAILED);
		mem = (uint8_t *)(((uintptr_t)block + HUGE_SIZE - 1) &
				  ~(uintptr_t)(HUGE_SIZE - 1));
		CHECK(!madvise(mem, HUGE_SIZE,
			       is("huge") ? MADV_HUGEPAGE : MADV_NOHUGEPAGE));
	}
	memset(mem, 0, SIZE);
	handled = 0;
	if (meets())
		meet_begin();
}

static void give_memory(void)
{
	if (uses_heap())
		free(block);
	else
		munmap(block, 2 * HUGE_SIZE);
}

/* --- small parts of the heap ----------------------------------------------------- */

enum { NODES = 48, NODE = 400 };

static struct node {
	uint8_t *at;
	unsigned len;
	struct ibv_mr *mr;
} nodes[NODES];

static void nodes_begin(void)
{
	for (unsigned i = 0; i < NODES; i++) {
		nodes[i].len = random_below(NODE) + 1;
		CHECK((nodes[i].at = malloc(nodes[i].len)));
		memset(nodes[i].at, (int)i, nodes[i].len);
	}
}

static unsigned nodes_register(void)
{
	unsigned mapped = 0;

	for (unsigned i = 0; i < NODES; i++) {
		struct node *n = &nodes[i];

		n->mr = ibv_reg_mr(r.pd, n->at, n->len, ACCESS);
		CHECK(n->mr);
		mapped += is_a_file(n->at);
	}
	return mapped;
}

static void nodes_end(void)
{
	for (unsigned i = 0; i < NODES; i++) {
		const struct node *n = &nodes[(i * 7 + 3) % NODES];

		for (unsigned k = 0; k < n->len; k++)
			CHECK(n->at[k] == (uint8_t)(n - nodes));
		CHECK(!ibv_dereg_mr(n->mr));
		free(n->at);
	}
}

static bool round_is_mapped(void)
{
	pthread_t doer, churner;
	struct ibv_mr *mr;
	bool mapped;

	get_memory();
	if (is("heap"))
		nodes_begin();
	stop = false;
	done = 0;
	begin_work();
	CHECK(!pthread_create(&doer, NULL, do_things, NULL));
	if (uses_heap())
		CHECK(!pthread_create(&churner, NULL, churn_heap, NULL));
	await_work(random_below(2));
	mr = ibv_reg_mr(r.pd, mem, SIZE, ACCESS);
	CHECK(mr);
	mapped = is_a_file(mem) && (!is("heap") || nodes_register() > NODES / 2);
	for (const unsigned from = done; done < from + 2;)
		sched_yield();
	await_work(2);
	CHECK(!ibv_dereg_mr(mr));
	if (is("heap"))
		nodes_end();
	await_work(1);
	stop = true;
	for (unsigned i = 0; i < lopt.step; i++) {
		CHECK(!pthread_join(busy[i].t, NULL));
		close(busy[i].ends[0]);
		close(busy[i].ends[1]);
	}
	CHECK(!pthread_join(doer, NULL));
	if (uses_heap())
		CHECK(!pthread_join(churner, NULL));
	verify_work();
	mr = ibv_reg_mr(r.pd, mem, SIZE, ACCESS); /* with one thread: and back */
	CHECK(mr && !ibv_dereg_mr(mr));
	verify_work();
	give_memory();
	return mapped;
}

static void limit_space(void)
{
	struct rlimit lim;
	unsigned long pages;
	FILE *f = fopen("/proc/self/statm", "r");

	CHECK(f && fscanf(f, "%lu", &pages) == 1);
	fclose(f);
	lim.rlim_cur = lim.rlim_max =
		pages * PAGE + (lopt.step + 4) * (9UL << 20) + (5 << 20);
	CHECK(!setrlimit(RLIMIT_AS, &lim));
}

int storm(void)
{
	unsigned mapped = 0;

	CHECK(lopt.step <= MOST);
	opt.privileged = true; /* threads wait by CAP_SYS_PTRACE */
	CHECK(signal(SIGUSR1, on_signal) != SIG_ERR);
	rig_open(&r);
	if (is("limit"))
		limit_space();
	for (unsigned i = 0; i < lopt.count; i++)
		mapped += round_is_mapped();
	rig_close(&r);
	say("mapped in %u of %u rounds, %llu wakes", mapped, lopt.count,
	    (unsigned long long)wakes);
	say("all right");
	return 0;
}
