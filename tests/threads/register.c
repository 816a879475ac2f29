/* SPDX-License-Identifier: BSD-2-Clause */
/* register.c - a thread that registers memory all the time, and one that sends
 * messages to and fro: how many without the other, and how many with it?  Both
 * must get on. */
#include <pthread.h>
#include <stdatomic.h>

#include "threads.h"

enum { LEN = 64, REGION = 16384, PART = 4, ROUNDS = 5 };

static struct loop l;
static atomic_bool stop;
static _Atomic unsigned registered;

static void *register_all_the_time(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		struct ibv_mr *mr = ibv_reg_mr(l.rig.pd, l.rig.buf, REGION, RIG_ACCESS);

		CHECK(mr && !ibv_dereg_mr(mr));
		atomic_fetch_add(&registered, 1);
	}
	return NULL;
}

static void there(struct ibv_qp *from, struct ibv_qp *to)
{
	struct ibv_sge sge = { (uintptr_t)l.rig.buf, LEN, l.rig.mr->lkey };
	struct ibv_recv_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK(!ibv_post_recv(to, &wr, &bad));
	rig_post(&l.rig, from, IBV_WR_SEND, RIG_BUF / 2, LEN, 0, 0, 0);
	for (int i = 0; i < 2; i++)
		CHECK(rig_wait(&l.rig).status == IBV_WC_SUCCESS);
}

static double per_second(double seconds)
{
	double start = now_s(), end = start + seconds;
	unsigned n = 0;

	while (now_s() < end) {
		there(l.a, l.b);
		there(l.b, l.a);
		n++;
	}
	return n / (now_s() - start);
}

int registers(void)
{
	double slice = opt.seconds / (2 * ROUNDS), alone = 0, with = 0;
	pthread_t t;

	loop_open(&l);
	per_second(slice);
	/* The rounds take turns, since other programs may come and go meanwhile. */
	for (int i = 0; i < ROUNDS; i++) {
		alone += per_second(slice);
		atomic_store(&stop, false);
		CHECK(!pthread_create(&t, NULL, register_all_the_time, NULL));
		with += per_second(slice);
		atomic_store(&stop, true);
		CHECK(!pthread_join(t, NULL));
	}
	say("%.0f/s alone, %.0f/s with %.0f registrations/s", alone / ROUNDS,
	    with / ROUNDS, registered / (slice * ROUNDS));
	CHECK(with > alone / PART);
	CHECK(registered > 100 * opt.seconds);
	loop_close(&l);
	say("all right");
	return 0;
}
