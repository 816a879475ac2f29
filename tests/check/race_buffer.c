/* SPDX-License-Identifier: BSD-2-Clause */
/* race_buffer.c - buffers that change while a request sends them: buffer-changed; and
 * that the program touches while a request has them: buffer-touched. */
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "race_rig.h"

enum { SIGNALED = IBV_SEND_SIGNALED, LEN = 256, PLACE = 4096, OTHER = 65536 };

static void takes_messages(struct side *s)
{
	for (unsigned i = 0; i < 4; i++)
		post_recv(s, 0, OTHER + i * LEN, LEN);
}

static void send(struct side *s, bool repaired)
{
	post(s, 0, (struct post){ IBV_WR_SEND, PLACE, LEN, SIGNALED, 0 });
	if (repaired)
		reap(s, 0);
	strcpy((char *)s->at + PLACE, "next");
	if (!repaired)
		reap(s, 0);
}

/* The last byte of a long WRITE, of which pieces are looked at. */
static void long_write(struct side *s, bool repaired)
{
	const unsigned len = MEMORY / 2;

	post(s, 0, (struct post){ IBV_WR_RDMA_WRITE, 0, len, SIGNALED, 0 });
	s->at[repaired ? len : len - 1]++;
	reap(s, 0);
}

/* The completion of the SEND says that the WRITE has been executed, too. */
static void unsignaled(struct side *s, bool repaired)
{
	post(s, 0, (struct post){ IBV_WR_RDMA_WRITE, PLACE, LEN, 0, 0 });
	if (!repaired)
		s->at[PLACE]++;
	post(s, 0, (struct post){ IBV_WR_SEND, OTHER, LEN, SIGNALED, 0 });
	reap(s, 0);
	s->at[PLACE]++;
}

/* Inline data is copied by the post. */
static void inline_data(struct side *s, bool repaired)
{
	const unsigned flags = SIGNALED | (repaired ? IBV_SEND_INLINE : 0);

	post(s, 0, (struct post){ IBV_WR_SEND, PLACE, 64, flags, 0 });
	s->at[PLACE]++;
	reap(s, 0);
}

/* The peer answers a message into the buffer that it came from, before this side has seen
 * the message's completion: that is in order. */
static void answer_by(struct side *s, enum ibv_wr_opcode opcode)
{
	post_recv(s, 0, OTHER, LEN);
	reap(s, 0);
	s->at[PLACE] = 7;
	post(s, 1, (struct post){ opcode, PLACE, LEN, SIGNALED, 0 });
	reap(s, 1);
}

static void writes_back(struct side *s)
{
	answer_by(s, IBV_WR_RDMA_WRITE);
}

static void answered_by_write(struct side *s, bool repaired)
{
	post(s, 0, (struct post){ IBV_WR_SEND, PLACE, LEN, SIGNALED, 0 });
	await_byte(s, PLACE, 7);
	reap(s, 0);
	if (repaired)
		return;
	post(s, 0, (struct post){ IBV_WR_RDMA_WRITE, OTHER, LEN, SIGNALED, 0 });
	s->at[OTHER]++;
	reap(s, 0);
}

static void sends_back(struct side *s)
{
	answer_by(s, IBV_WR_SEND);
}

/* The same, into a receive in the same buffer: so does ibv_rc_pingpong. */
static void answered_by_send(struct side *s, bool repaired)
{
	post_recv(s, 1, PLACE, LEN);
	post(s, 0, (struct post){ IBV_WR_SEND, PLACE, LEN, SIGNALED, 0 });
	await_byte(s, PLACE, 7);
	reap(s, 0);
	reap(s, 1);
	if (repaired)
		return;
	post(s, 0, (struct post){ IBV_WR_RDMA_WRITE, PLACE, LEN, SIGNALED, 0 });
	s->at[PLACE]++;
	reap(s, 0);
}

/* What a READ fills was sent before, by the same queue pair: it is filled afterwards. */
static void read_back(struct side *s, bool repaired)
{
	s->at[PLACE] = 5;
	post(s, 0, (struct post){ IBV_WR_RDMA_WRITE, PLACE, LEN, SIGNALED, OTHER });
	post(s, 0, (struct post){ IBV_WR_RDMA_READ, PLACE, LEN, SIGNALED, 0 });
	await_byte(s, PLACE, 0);
	reap(s, 0);
	reap(s, 0);
	if (repaired)
		return;
	post(s, 0, (struct post){ IBV_WR_RDMA_WRITE, PLACE, LEN, SIGNALED, OTHER });
	s->at[PLACE] = 6;
	reap(s, 0);
}

/* Its memory is gone when the completion comes: nothing to look at. */
static void says_so(struct side *s)
{
	post_recv(s, 0, OTHER, LEN);
	reap(s, 0);
	s->at[2 * OTHER] = 7;
	post(s, 1, (struct post){ IBV_WR_RDMA_WRITE, 2 * OTHER, 1, SIGNALED, 0 });
	reap(s, 1);
}

static void unmapped(struct side *s, bool repaired)
{
	post(s, 0, (struct post){ IBV_WR_SEND, PLACE, LEN, SIGNALED, 0 });
	await_byte(s, 2 * OTHER, 7);
	MUST(!munmap(s->at + PLACE, LEN));
	reap(s, 0);
	if (repaired)
		return;
	post(s, 0, (struct post){ IBV_WR_RDMA_WRITE, OTHER, LEN, SIGNALED, 0 });
	s->at[OTHER]++;
	reap(s, 0);
}

/* --- buffer-touched --------------------------------------------------------------- */

enum { PAGES = 8192 };

static void sends_pages(struct side *s)
{
	post_recv(s, 0, OTHER, LEN);
	reap(s, 0);
	s->at[0] = 7;
	post(s, 1, (struct post){ IBV_WR_SEND, 0, PAGES, SIGNALED, 0 });
	reap(s, 1);
}

/* Polls the first byte of what is to come, in place of the CQ; and its neighbour, which
 * is in order. */
static void touch_receive(struct side *s, bool repaired)
{
	post_recv(s, 1, 0, PAGES);
	s->at[PAGES]++;
	if (!repaired)
		MUST(s->at[0] != 7); /* nothing has come yet */
	post(s, 0, (struct post){ IBV_WR_SEND, OTHER, LEN, SIGNALED, 0 });
	if (!repaired)
		await_byte(s, 0, 7);
	reap(s, 1);
	MUST(s->at[0] == 7);
	reap(s, 0);
}

/* The answer cannot come before the bytes are changed. */
static void touch_read(struct side *s, bool repaired)
{
	int status;

	MUST(!kill(s->peer, SIGSTOP) && waitpid(s->peer, &status, WUNTRACED) == s->peer);
	post(s, 0, (struct post){ IBV_WR_RDMA_READ, 0, PAGES, SIGNALED, 0 });
	if (!repaired)
		s->at[PAGES - 1]++;
	MUST(!kill(s->peer, SIGCONT));
	reap(s, 0);
	s->at[PAGES - 1]++;
}

static void touch_send(struct side *s, bool repaired)
{
	post(s, 0, (struct post){ IBV_WR_RDMA_WRITE, 0, PAGES, SIGNALED, 0 });
	MUST(!s->at[7]); /* reading is in order */
	if (repaired)
		reap(s, 0);
	strcpy((char *)s->at, "next");
	if (!repaired)
		reap(s, 0);
}

const struct race_case race_buffer[] = {
	{ "buffer-changed/send", send, takes_messages },
	{ "buffer-changed/long-write", long_write, NULL },
	{ "buffer-changed/unsignaled", unsignaled, takes_messages },
	{ "buffer-changed/inline", inline_data, takes_messages },
	{ "buffer-changed/answered-by-write", answered_by_write, writes_back },
	{ "buffer-changed/answered-by-send", answered_by_send, sends_back },
	{ "buffer-changed/read-back", read_back, NULL },
	{ "buffer-changed/unmapped", unmapped, says_so },
	{ "buffer-touched/receive", touch_receive, sends_pages },
	{ "buffer-touched/read", touch_read, NULL },
	{ "buffer-touched/send", touch_send, NULL },
	{ 0 },
};
