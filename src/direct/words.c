/* SPDX-License-Identifier: BSD-2-Clause */
/* words.c - see words.h. */
#include "direct/words.h"

#include <assert.h>
#include <errno.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sys/clock.h"
#include "sys/guard.h"
#include "sys/log.h"
#include "sys/turn.h"

enum { NAP_NS = 20000, LOOKS = 100 };

_Thread_local struct thread_word thread_word __attribute__((tls_model("initial-exec")));

/* Words taken, for all NICs of the process. */
static _Atomic uint64_t taken; /* one bit per word */
static _Atomic uint32_t lines; /* those from here on were never taken */
static pthread_key_t ends;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static bool has_key;

static_assert(EXPORT_THREADS == 64, "a bit each");

static void give_line(void *arg)
{
	(void)arg;
	if (!thread_word.line)
		return;
	atomic_fetch_and(&taken, ~(1ull << (thread_word.line - 1)));
	thread_word.line = 0;
}

static void make_key(void)
{
	has_key = pthread_key_create(&ends, give_line) == 0;
}

/* Would a fault kill this thread? Another process may take mapped memory away by
 * truncating the file, so only threads that survive a fault touch it. */
static bool is_exposed(void)
{
	static atomic_bool said;

	thread_word.exposed = !guard_catches();
	if (thread_word.exposed && !atomic_exchange(&said, true))
		log_info("SIGSEGV or SIGBUS is blocked in a thread, or has a "
			 "handler that the program installed later: WRITE and READ "
			 "of mapped memory then go through the kernel");
	return thread_word.exposed;
}

bool words_stay(void)
{
	if (is_exposed())
		give_line(NULL);
	return !thread_word.exposed;
}

static void raise_to(_Atomic uint32_t *number, uint32_t to)
{
	uint32_t was = atomic_load(number);

	while (was < to && !atomic_compare_exchange_weak(number, &was, to))
		;
}

void words_begin(struct exports *b)
{
	raise_to(&b->lines, atomic_load(&lines));
}

bool words_join(struct core *core)
{
	uint64_t was = atomic_load(&taken);
	unsigned i;

	if (was == UINT64_MAX ||
	    (thread_word.exposed && (++thread_word.count & INSIDE_COUNT)) || is_exposed())
		return false;
	pthread_once(&once, make_key);
	if (!has_key || !core->exports)
		return false;
	do {
		if (was == UINT64_MAX)
			return false;
		i = (unsigned)__builtin_ctzll(~was);
	} while (!atomic_compare_exchange_weak(&taken, &was, was | 1ull << i));
	thread_word.line = i + 1;
	raise_to(&lines, i + 1);
	raise_to(&core->exports->lines, i + 1);
	/* The line's count never goes back: checks compare it (unseen.h). */
	thread_word.count = atomic_load(&core->exports->thread[i].entries);
	if (pthread_setspecific(ends, &thread_word)) {
		give_line(NULL);
		return false;
	}
	/* Either the thread that takes something away sees this word, or this thread
	 * sees that it was taken. */
	atomic_thread_fence(memory_order_seq_cst);
	return true;
}

/* The other words belong to threads of the parent. */
void words_forked(void)
{
	atomic_store(&taken, thread_word.line ? 1ull << (thread_word.line - 1) : 0);
}

static long membarrier(int command)
{
	return syscall(SYS_membarrier, command, 0, 0);
}

bool words_usable(void)
{
	const long all = MEMBARRIER_CMD_GLOBAL_EXPEDITED |
			 MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED;
	long has = membarrier(MEMBARRIER_CMD_QUERY);

	return has > 0 && (has & all) == all;
}

bool words_register(void)
{
	return words_usable() && !membarrier(MEMBARRIER_CMD_REGISTER_GLOBAL_EXPEDITED);
}

/* If membarrier() is forbidden meanwhile, wait instead: no processor holds a store
 * back that long. */
void words_barrier(void)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (membarrier(MEMBARRIER_CMD_GLOBAL_EXPEDITED))
		nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
}

/* Waits until *word differs from `was`. Returns 0, or -EBUSY if it has not changed
 * within patience_ns from start. */
static int wait_for(const _Atomic uint64_t *word, uint64_t was, uint64_t start,
		    uint64_t patience_ns)
{
	for (unsigned n = 0; atomic_load(word) == was; n++) {
		if (n < LOOKS)
			lock_pause();
		else if (clock_ns() - start >= patience_ns)
			return -EBUSY;
		else
			turn_nap(NAP_NS);
	}
	return 0;
}

int words_pass(struct core *core, uint64_t patience_ns, uint32_t *key)
{
	unsigned mine = thread_word.line;
	uint64_t start;

	if (!core->exports || !atomic_load(&taken))
		return 0;
	words_barrier();
	start = clock_ns();
	for (unsigned i = 0; i < EXPORT_THREADS; i++) {
		const _Atomic uint64_t *word = &core->exports->thread[i].inside;
		uint64_t was = atomic_load(word);

		if (was && i + 1 != mine && wait_for(word, was, start, patience_ns)) {
			*key = (uint32_t)(was >> INSIDE_KEY_AT);
			return -EBUSY;
		}
	}
	return 0;
}
