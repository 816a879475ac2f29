/* SPDX-License-Identifier: BSD-2-Clause */
/* order.c - programs that rely on an order which verbs do not promise, and their repaired
 * twins.  Each says "ok" and ends with 0, or says what it saw and ends with 3. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "like.h"

enum { LENGTH = 512, ROUNDS = 200 };

static const struct ibv_qp_cap usual = {
	.max_send_wr = 16, .max_send_sge = 1, .max_recv_wr = 16, .max_recv_sge = 1
};

static int say(const char *what)
{
	puts(what ? what : "ok");
	return what ? 3 : 0;
}

/* --- the bytes of a WRITE ------------------------------------------------------ */

struct reader {
	struct end *end;
	bool waits_for_message; /* and does not look at the last byte */
	_Atomic unsigned round; /* of the WRITE that the reader has seen */
	_Atomic unsigned told;	/* of the last WRITE that has completed */
	unsigned torn;
};

static bool is_whole(const volatile uint8_t *buf, uint8_t value)
{
	for (int i = 0; i < LENGTH; i++)
		if (buf[i] != value)
			return false;
	return true;
}

/* Each WRITE has another value in all bytes. */
static void *read_rounds(void *arg)
{
	struct reader *r = arg;
	const volatile uint8_t *buf = r->end->buf;

	for (unsigned round = 1; round <= ROUNDS; round++) {
		const uint8_t value = (uint8_t)round;

		if (r->waits_for_message)
			while (atomic_load(&r->told) < round)
				;
		else
			while (buf[LENGTH - 1] != value)
				;
		atomic_thread_fence(memory_order_acquire);
		r->torn += !is_whole(buf, value);
		atomic_store(&r->round, round);
	}
	return NULL;
}

static int polled_byte(bool waits_for_message)
{
	struct end a = end_make(usual), b = end_make(usual);
	struct reader r = { .end = &b, .waits_for_message = waits_for_message };
	struct ibv_sge sge = { (uintptr_t)a.buf, LENGTH, a.mr->lkey };
	pthread_t thread;

	end_connect(&a, &b);
	pthread_create(&thread, NULL, read_rounds, &r);
	for (unsigned round = 1; round <= ROUNDS; round++) {
		memset(a.buf, (int)round, LENGTH);
		if (end_post(&a, IBV_WR_RDMA_WRITE, &b, &sge, 1, 0) ||
		    end_wait(&a).status)
			return say("a WRITE failed");
		atomic_store(&r.told, round);
		while (atomic_load(&r.round) < round)
			;
	}
	pthread_join(thread, NULL);
	return say(r.torn ? "torn: the last byte came before others" : NULL);
}

int last_byte(void)
{
	return polled_byte(false);
}

int last_byte_repaired(void)
{
	return polled_byte(true);
}

/* --- completions ----------------------------------------------------------------- */

/* Two QPs that complete to one CQ. */
struct two {
	struct end from[2], to[2];
	struct ibv_cq *cq;
};

static struct two connect_two(void)
{
	struct two t = { .from = { end_make(usual), end_make(usual) },
			 .to = { end_make(usual), end_make(usual) } };
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = usual,
					 .sq_sig_all = 1 };

	t.cq = init.send_cq = init.recv_cq = t.from[0].cq;
	ibv_destroy_qp(t.from[1].qp);
	t.from[1].qp = ibv_create_qp(pd, &init);
	if (!t.from[1].qp)
		die("create_qp");
	end_connect(&t.from[0], &t.to[0]);
	end_connect(&t.from[1], &t.to[1]);
	return t;
}

static void write_both(struct two *t)
{
	for (int i = 0; i < 2; i++) {
		struct ibv_sge sge = { (uintptr_t)t->from[i].buf, 64,
				       t->from[i].mr->lkey };

		if (end_post(&t->from[i], IBV_WR_RDMA_WRITE, &t->to[i], &sge, 1, 0))
			die("post_send");
	}
}

/* What is wrong with the completions of two QPs, of which `first' should be first. */
static const char *judge_both(const struct ibv_wc wc[2], const struct end *first,
			      const char *crossed)
{
	if (wc[0].qp_num == wc[1].qp_num || wc[0].status || wc[1].status)
		return "not one completion of each";
	return first && wc[0].qp_num != first->qp->qp_num ? crossed : NULL;
}

/* Takes the first completion for the first QP's. */
static int in_turn(bool looks)
{
	struct two t = connect_two();
	const char *wrong = NULL;

	for (int round = 0; round < ROUNDS && !wrong; round++) {
		struct ibv_wc wc[2];

		write_both(&t);
		wc[0] = end_wait(&t.from[0]);
		wc[1] = end_wait(&t.from[0]);
		wrong = judge_both(wc, looks ? NULL : &t.from[0],
				   "exchanged: the second QP's completion came first");
	}
	return say(wrong);
}

int two_qps(void)
{
	return in_turn(false);
}

int two_qps_repaired(void)
{
	return in_turn(true);
}

/* When the second of two requests has completed, takes both with one poll. */
static int batch(bool again)
{
	struct two t = connect_two();
	struct ibv_wc wc[2];
	int n = 0;

	write_both(&t);
	for (int i = 0; i < 1000000 && !n; i++) {
		n = ibv_poll_cq(t.cq, 2, wc);
		if (n == 1 && again)
			while (n < 2)
				n += ibv_poll_cq(t.cq, 1, wc + 1);
	}
	return say(n == 2 ? NULL : "one: a poll for two completions found one");
}

int one_poll(void)
{
	return batch(false);
}

int one_poll_repaired(void)
{
	return batch(true);
}

/* Asks and is answered once.  The answer is there, so the request must have completed:
 * one look.  Returns false if it has not. */
static bool ask(struct end *a, struct end *b, struct ibv_cq *rcq, bool waits)
{
	struct ibv_sge question = { (uintptr_t)a->buf, 64, a->mr->lkey },
		       answer = { (uintptr_t)b->buf, 64, b->mr->lkey };
	bool there = true;
	struct ibv_wc wc;

	end_receive(a, 64);
	end_receive(b, 64);
	end_post(a, IBV_WR_SEND, b, &question, 1, 0);
	while (end_wait(b).opcode != IBV_WC_RECV)
		;
	end_post(b, IBV_WR_SEND, a, &answer, 1, 0);
	while (!ibv_poll_cq(rcq, 1, &wc))
		;
	while (!ibv_poll_cq(a->cq, 1, &wc))
		there = waits;
	return there;
}

static int answered(bool waits)
{
	enum { QUESTIONS = 50 };
	struct end a = end_make(usual), b = end_make(usual);
	struct ibv_cq *rcq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = usual,
					 .send_cq = a.cq,
					 .recv_cq = rcq,
					 .sq_sig_all = 1 };
	bool there = true;

	ibv_destroy_qp(a.qp);
	a.qp = ibv_create_qp(pd, &init);
	end_connect(&a, &b);
	for (int i = 0; i < QUESTIONS && there; i++)
		there = ask(&a, &b, rcq, waits);
	return say(there ? NULL
			 : "late: the answer came before the request's completion");
}

int late_send(void)
{
	return answered(false);
}

int late_send_repaired(void)
{
	return answered(true);
}

/* --- two senders ------------------------------------------------------------------- */

/* Two QPs receive to one CQ. The second message is sent when the first's sender has its
 * completion, and so has been received. */
static int senders(bool looks)
{
	struct two t = connect_two();
	struct ibv_qp_init_attr init = { .qp_type = IBV_QPT_RC,
					 .cap = usual,
					 .sq_sig_all = 1 };
	const char *wrong = NULL;

	init.send_cq = init.recv_cq = t.to[0].cq;
	for (int i = 0; i < 2; i++) {
		t.from[i] = end_make(usual);
		t.to[i].cq = t.to[0].cq;
		t.to[i].qp = ibv_create_qp(pd, &init);
		end_connect(&t.from[i], &t.to[i]);
	}
	for (int round = 0; round < ROUNDS && !wrong; round++) {
		struct ibv_wc wc[2];

		for (int i = 0; i < 2; i++) {
			struct ibv_sge sge = { (uintptr_t)t.from[i].buf, 64,
					       t.from[i].mr->lkey };

			if (end_receive(&t.to[i], 64) ||
			    end_post(&t.from[i], IBV_WR_SEND, &t.to[i], &sge, 1, 0) ||
			    end_wait(&t.from[i]).status)
				return say("a SEND failed");
		}
		wc[0] = end_wait(&t.to[0]);
		wc[1] = end_wait(&t.to[0]);
		wrong = judge_both(wc, looks ? NULL : &t.to[0],
				   "crossed: the later message was received first");
	}
	return say(wrong);
}

int two_senders(void)
{
	return senders(false);
}

int two_senders_repaired(void)
{
	return senders(true);
}
