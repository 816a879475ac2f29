/* SPDX-License-Identifier: BSD-2-Clause */
/* storm.c - forks while many threads are inside the library: for --time seconds,
 * but 20 at least and 300 at most. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rig.h"

enum {
	TRAFFIC = 3,
	FORKS_EARLY = 50,
	FORKS_MIN = 20,
	FORKS_MAX = 300,
	FRESH_EVERY = 10,
	AT_ONCE = 4
};

static struct loop loops[TRAFFIC];
static atomic_bool stop;

static void *traffic(void *arg)
{
	for (uint64_t i = 0; !stop; i++)
		loop_traffic(arg, i);
	return NULL;
}

/* Calls that take every lock at some time. */
static void *control(void *arg)
{
	struct rig *r = arg;
	struct ibv_port_attr port;

	while (!stop) {
		struct ibv_mr *mr = ibv_reg_mr(r->pd, r->buf, 4096, RIG_ACCESS);
		struct ibv_device **list = ibv_get_device_list(NULL);
		struct ibv_context *ctx = ibv_open_device(list[0]);
		struct ibv_qp *qp = rig_qp(r);

		CHECK(mr && ctx && !ibv_query_port(ctx, 1, &port));
		CHECK(!ibv_destroy_qp(qp) && !ibv_dereg_mr(mr));
		CHECK(!ibv_close_device(ctx));
		ibv_free_device_list(list);
	}
	return NULL;
}

static void *list(void *arg)
{
	(void)arg;
	while (!stop)
		ibv_free_device_list(ibv_get_device_list(NULL));
	return NULL;
}

static void child(int i)
{
	struct loop own = { 0 };
	struct ibv_wc wc;

	alarm(60);
	ibv_free_device_list(ibv_get_device_list(NULL));
	for (int k = 0; k < TRAFFIC; k++)
		CHECK(ibv_poll_cq(loops[k].rig.cq, 1, &wc) < 0);
	if (i % FRESH_EVERY == 0) {
		loop_open(&own);
		for (uint64_t k = 0; k < 3; k++)
			loop_traffic(&own, k);
		if (i % (2 * FRESH_EVERY))
			loop_close(&own);
	}
	_exit(0);
}

static void reap_one(void)
{
	int status;

	CHECK(wait(&status) > 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Some locks exist before any device is open. */
static void before_open(void)
{
	pthread_t thread;

	CHECK(!pthread_create(&thread, NULL, list, NULL));
	for (int i = 0; i < FORKS_EARLY; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			alarm(60);
			ibv_free_device_list(ibv_get_device_list(NULL));
			_exit(0);
		}
		reap_one();
	}
	stop = true;
	CHECK(!pthread_join(thread, NULL));
	stop = false;
}

int storm(void)
{
	pthread_t thread[TRAFFIC + 2];
	int running = 0, n;
	double end;

	before_open();
	for (int i = 0; i < TRAFFIC; i++) {
		loop_open(&loops[i]);
		CHECK(!pthread_create(&thread[i], NULL, traffic, &loops[i]));
	}
	CHECK(!pthread_create(&thread[TRAFFIC], NULL, control, &loops[0].rig));
	CHECK(!pthread_create(&thread[TRAFFIC + 1], NULL, list, NULL));
	end = now_s() + opt.seconds;
	for (n = 0; n < FORKS_MAX && (n < FORKS_MIN || now_s() < end); n++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid)
			child(n);
		if (++running == AT_ONCE) {
			reap_one();
			running--;
		}
	}
	while (running--)
		reap_one();
	stop = true;
	for (int i = 0; i < TRAFFIC + 2; i++)
		CHECK(!pthread_join(thread[i], NULL));
	for (int i = 0; i < TRAFFIC; i++)
		loop_close(&loops[i]);
	say("%d forks, all right", n);
	return 0;
}
