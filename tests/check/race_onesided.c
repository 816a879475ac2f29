/* SPDX-License-Identifier: BSD-2-Clause */
/* race_onesided.c - two requests that nothing orders, and orders of each kind. */
#include <string.h>

#include "race_rig.h"

enum { SIGNALED = IBV_SEND_SIGNALED, LEN = 256, PLACE = 4096, OTHER = 65536 };

#define WRITE(at, flags) ((struct post){ IBV_WR_RDMA_WRITE, (at), LEN, (flags), 0 })
#define READ(at, flags)	 ((struct post){ IBV_WR_RDMA_READ, (at), LEN, (flags), 0 })
#define SEND(at, flags)	 ((struct post){ IBV_WR_SEND, (at), LEN, (flags), 0 })

/* --- one-sided-race --------------------------------------------------------------- */

static void two_writes(struct side *s, bool repaired)
{
	post(s, 0, WRITE(PLACE, SIGNALED));
	if (repaired)
		reap(s, 0);
	post(s, 1, WRITE(PLACE + LEN - 1, SIGNALED));
	if (!repaired)
		reap(s, 0);
	reap(s, 1);
}

static void write_and_read(struct side *s, bool repaired)
{
	post(s, 0, WRITE(PLACE, SIGNALED));
	if (repaired)
		reap(s, 0);
	post(s, 1, READ(PLACE, SIGNALED));
	if (!repaired)
		reap(s, 0);
	reap(s, 1);
}

/* The lock's holder writes its data and 0 into the lock, and another thread of the
 * process takes the lock by another queue pair. */
static void lock_released_by_write(struct side *s, bool repaired)
{
	const struct post release = { IBV_WR_RDMA_WRITE, PLACE, 8, SIGNALED, 0 };
	const struct post take = { IBV_WR_ATOMIC_CMP_AND_SWP, PLACE, 8, SIGNALED, 0 };

	post(s, 0, release);
	if (repaired)
		reap(s, 0);
	post(s, 1, take);
	if (!repaired)
		reap(s, 0);
	reap(s, 1);
}

/* One queue pair for both: in order. */
static void one_queue(struct side *s, bool repaired)
{
	post(s, 0, WRITE(PLACE, 0));
	post(s, repaired ? 0 : 1, WRITE(PLACE, SIGNALED));
	reap(s, repaired ? 0 : 1);
	settle(s, 0);
}

/* A later completion of the queue covers the unsignalled WRITE. */
static void covered(struct side *s, bool repaired)
{
	post(s, 0, WRITE(PLACE, 0));
	if (repaired)
		settle(s, 0);
	post(s, 1, WRITE(PLACE, SIGNALED));
	reap(s, 1);
	settle(s, 0);
}

/* The peer has the SEND behind the WRITE, and answers by the other queue pair. */
static void answers_by_send(struct side *s)
{
	post_recv(s, 0, OTHER, LEN);
	reap(s, 0);
	post(s, 1, SEND(OTHER, SIGNALED));
	reap(s, 1);
}

static void message_and_answer(struct side *s, bool repaired)
{
	post_recv(s, 1, OTHER, LEN);
	post(s, 0, WRITE(PLACE, 0));
	if (!repaired) /* does not wait */
		post(s, 1, WRITE(PLACE, 0));
	post(s, 0, SEND(OTHER + LEN, 0));
	reap(s, 1);
	post(s, 1, WRITE(PLACE, SIGNALED));
	reap(s, 1);
	settle(s, 0);
}

/* The peer polls memory, and answers by a WRITE. No order by the letter, and not
 * reported: docs/dev/races.md says why. */
static void answers_by_write(struct side *s)
{
	for (uint8_t i = 1; i < 10; i++) {
		await_byte(s, PLACE + LEN - 1, i);
		s->at[OTHER] = i;
		post(s, 1, (struct post){ IBV_WR_RDMA_WRITE, OTHER, 1, SIGNALED, 0 });
		reap(s, 1);
	}
}

static void polled_memory(struct side *s, bool repaired)
{
	for (uint8_t i = 1; i < 10; i++) {
		s->at[PLACE + LEN - 1] = i;
		post(s, i % 2, WRITE(PLACE, 0));
		await_byte(s, OTHER, i);
		settle(s, i % 2); /* its own buffer is free again */
	}
	if (!repaired) {
		post(s, 0, WRITE(PLACE, 0));
		post(s, 1, WRITE(PLACE, 0));
	}
	settle(s, 0);
	settle(s, 1);
}

/* Different bytes never meet, atomics never meet each other, nor do READs. */
static void nothing_shared(struct side *s, bool repaired)
{
	const struct post add = { IBV_WR_ATOMIC_FETCH_AND_ADD, OTHER, 8, SIGNALED, 0 };

	post(s, 0, WRITE(PLACE, 0));
	post(s, 1, WRITE(repaired ? PLACE + LEN : PLACE + 10, 0));
	post(s, 0, add);
	post(s, 1, add);
	reap(s, 0);
	reap(s, 1);
	post(s, 0, READ(2 * OTHER, SIGNALED));
	post(s, 1, READ(2 * OTHER, SIGNALED));
	reap(s, 0);
	reap(s, 1);
}

/* --- announce-before-done ---------------------------------------------------------- */

static void takes_messages(struct side *s)
{
	post_recv(s, 0, OTHER, LEN);
	post_recv(s, 1, OTHER + LEN, LEN);
}

static void announce(struct side *s, bool repaired)
{
	const uint64_t place = s->far + PLACE;

	memcpy(s->at + OTHER + 8, &place, sizeof(place));
	post(s, 0, WRITE(PLACE, SIGNALED));
	if (repaired)
		reap(s, 0);
	post(s, 1, SEND(OTHER, SIGNALED));
	if (!repaired)
		reap(s, 0);
	reap(s, 1);
}

static void announce_by_the_same_queue(struct side *s, bool repaired)
{
	const uint64_t place = __builtin_bswap64(s->far + PLACE);
	const int q = repaired ? 0 : 1;

	memcpy(s->at + OTHER + 20, &place, sizeof(place));
	post(s, 0, WRITE(PLACE, 0));
	post(s, q,
	     (struct post){ IBV_WR_SEND, OTHER, 32, SIGNALED | IBV_SEND_INLINE, 0 });
	reap(s, q);
	settle(s, 0);
}

/* A message on each queue pair, and the peer waits for both. */
static void announce_on_each(struct side *s, bool repaired)
{
	const uint64_t place = s->far + PLACE;

	memcpy(s->at + OTHER, &place, sizeof(place));
	post(s, 0, WRITE(PLACE, 0));
	post(s, 1, SEND(OTHER, SIGNALED));
	if (repaired)
		post(s, 0, SEND(OTHER, 0));
	settle(s, 0);
	reap(s, 1);
}

/* --- buffer-read-early -------------------------------------------------------------- */

static void read_and_send(struct side *s, bool repaired)
{
	post(s, 0, READ(PLACE, 0));
	post(s, 0, SEND(PLACE, SIGNALED | (repaired ? IBV_SEND_FENCE : 0)));
	reap(s, 0);
}

static void read_and_write_on(struct side *s, bool repaired)
{
	const struct post on = { IBV_WR_RDMA_WRITE, PLACE + 9, 9, SIGNALED, OTHER };

	post(s, 0, READ(PLACE, SIGNALED));
	if (repaired)
		reap(s, 0);
	post(s, 1, on);
	if (!repaired)
		reap(s, 0);
	reap(s, 1);
}

const struct race_case race_onesided[] = {
	{ "one-sided-race/two-writes", two_writes, NULL },
	{ "one-sided-race/write-and-read", write_and_read, NULL },
	{ "one-sided-race/lock", lock_released_by_write, NULL },
	{ "one-sided-race/one-queue", one_queue, NULL },
	{ "one-sided-race/covered", covered, NULL },
	{ "one-sided-race/message", message_and_answer, answers_by_send },
	{ "one-sided-race/polled-memory", polled_memory, answers_by_write },
	{ "one-sided-race/nothing-shared", nothing_shared, NULL },
	{ "announce-before-done/send", announce, takes_messages },
	{ "announce-before-done/same-queue", announce_by_the_same_queue, takes_messages },
	{ "announce-before-done/on-each", announce_on_each, takes_messages },
	{ "buffer-read-early/send", read_and_send, takes_messages },
	{ "buffer-read-early/other-queue", read_and_write_on, NULL },
	{ 0 },
};
