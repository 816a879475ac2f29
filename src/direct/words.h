/* SPDX-License-Identifier: BSD-2-Clause */
/* words.h - what each thread touches without the turn.
 *
 * A thread that reads or writes by itself says so in its word in the export table, which
 * threads of this process and of others see, looks then whether it still may, and
 * clears the word when it has finished.  Whoever takes something away does that
 * first, makes every processor pass a barrier (membarrier(2)), and waits for the
 * words.  So the thread needs no barrier of its own.
 */
#ifndef DIRECT_WORDS_H
#define DIRECT_WORDS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/core.h"
#include "core/exports.h"
#include "direct/direct.h"

struct thread_word {
	unsigned line; /* of the export table, from 1 on; 0: none yet */
	uint8_t count; /* of times */
	bool exposed;  /* a fault would kill it; looked at whenever count is 0 */
};
extern _Thread_local struct thread_word thread_word
	__attribute__((tls_model("initial-exec")));

/* A line for this thread.  False: all are taken, or it would die of a fault. */
bool words_join(struct core *core);
/* It is still one that would not; otherwise it has no line any more. */
bool words_stay(void);

/* A thread that has a word is caught (sys/guard.h).
 * NULL: there is no word for it, or it interrupts itself (a signal handler). */
__attribute__((always_inline)) static inline _Atomic uint64_t *words_enter(
	struct core *core, uint32_t key, uint32_t qpn)
{
	_Atomic uint64_t *word;

	if (!thread_word.line && !words_join(core))
		return NULL;
	word = &core->exports->thread[thread_word.line - 1].inside;
	if (atomic_load_explicit(word, memory_order_relaxed))
		return NULL;
	if (!++thread_word.count && !words_stay())
		return NULL;
	atomic_store_explicit(word,
			      (uint64_t)key << INSIDE_KEY_AT |
				      (uint64_t)qpn << INSIDE_QPN_AT | thread_word.count,
			      memory_order_relaxed);
	/* The barrier is who waits's: see above. */
	atomic_signal_fence(memory_order_seq_cst);
	return word;
}

static inline void words_leave(_Atomic uint64_t *word)
{
	atomic_store_explicit(word, 0, memory_order_release);
}

/* Other processes may map our memory, or we theirs: membarrier(2) is there. */
bool words_usable(void);
/* ... and reaches this process, too. */
bool words_register(void);
/* Every thread of this process and others that runs passes a barrier. */
void words_barrier(void);
/* Every thread of this process that is inside has left.  May sleep.  0; -EBUSY: after so
 * long one has not, and uses another process's region of *key. */
int words_pass(struct core *core, uint64_t patience_ns, uint32_t *key);
void words_forked(void);

#endif
