/* SPDX-License-Identifier: BSD-2-Clause */
/* words.h - the word by which a thread announces what it touches without the turn.
 *
 * Before a thread reads or writes by itself it writes its word in the export table,
 * which threads of this and other processes see; then it checks that it still may, and
 * clears the word at the end. A thread that takes something away first removes it,
 * makes every processor pass a barrier (membarrier(2)), and then waits for the words.
 * So the announcing thread needs no barrier.
 */
#ifndef DIRECT_WORDS_H
#define DIRECT_WORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "direct/direct.h"
#include "verbs/core.h"
#include "verbs/exports.h"

struct thread_word {
	unsigned line;	/* index + 1 in the export table; 0: none yet */
	uint32_t count; /* counts uses, to make each word differ */
	bool exposed;	/* a fault would kill the thread; checked each 256 uses */
};
extern _Thread_local struct thread_word thread_word
	__attribute__((tls_model("initial-exec")));

/* The process has a new table: threads that have a word keep its line. */
void words_begin(struct exports *b);
/* Gets a word for this thread. False: all are taken, or a fault would kill the thread. */
bool words_join(struct core *core);
/* Checks again that a fault would not kill the thread; if it would, the thread loses
 * its word. */
bool words_stay(void);

/* Enters: writes the word; from here on faults are caught (sys/guard.h). NULL: the
 * thread has no word, or it interrupts itself (in a signal handler). */
__attribute__((always_inline)) static inline _Atomic uint64_t *words_enter(
	struct core *core, uint32_t key, uint32_t qpn)
{
	struct export_thread *me;
	uint32_t count;

	if (!thread_word.line && !words_join(core))
		return NULL;
	me = &core->exports->thread[thread_word.line - 1];
	if (atomic_load_explicit(&me->inside, memory_order_relaxed))
		return NULL;
	count = ++thread_word.count;
	if (!(count & INSIDE_COUNT) && !words_stay())
		return NULL;
	/* The stores become visible in this order: who has read the word reads a count
	 * that is no older. */
	atomic_store_explicit(&me->entries, count, memory_order_relaxed);
	atomic_store_explicit(&me->inside,
			      (uint64_t)key << INSIDE_KEY_AT |
				      (uint64_t)qpn << INSIDE_QPN_AT |
				      (count & INSIDE_COUNT),
			      memory_order_release);
	/* The waiting thread makes the barrier: see above. */
	atomic_signal_fence(memory_order_seq_cst);
	return &me->inside;
}

static inline void words_leave(_Atomic uint64_t *word)
{
	atomic_store_explicit(word, 0, memory_order_release);
}

/* May processes map each other's memory? Needs membarrier(2). */
bool words_usable(void);
/* Registers this process for barriers of other processes. */
bool words_register(void);
/* Makes every running thread of this and other registered processes pass a barrier. */
void words_barrier(void);
/* Waits until every thread of this process that is inside has left. May sleep. Returns
 * 0, or -EBUSY: after patience_ns a thread is still inside another process's region,
 * whose key is *key. */
int words_pass(struct core *core, uint64_t patience_ns, uint32_t *key);
void words_forked(void);

#endif
