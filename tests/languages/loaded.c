/* SPDX-License-Identifier: BSD-2-Clause */
/* loaded.c - a library that a program of another language loads: a thread does verified
 * traffic, while the program does what it does; at its end the program waits for the
 * thread.  URNIC_TEST_MEMORY=shared: the memory is a memfd's.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "rig.h"

struct options opt = { .gid = 1, .timeout = 16, .retries = 7 };

enum { ROUNDS = 400 };

static pthread_t thread;

static void *work(void *arg)
{
	struct loop l;

	loop_open(&l);
	for (uint64_t i = 0; i < ROUNDS; i++) {
		struct ibv_mr *mr;

		loop_traffic(&l, i);
		mr = ibv_reg_mr(l.rig.pd, l.rig.buf, 8192, RIG_ACCESS);
		CHECK(mr && !ibv_dereg_mr(mr));
	}
	loop_close(&l);
	say("all right");
	return arg;
}

__attribute__((constructor)) static void begin(void)
{
	const char *memory = getenv("URNIC_TEST_MEMORY");

	opt.shared = memory && !strcmp(memory, "shared");
	CHECK(!pthread_create(&thread, NULL, work, NULL));
}

__attribute__((destructor)) static void end(void)
{
	CHECK(!pthread_join(thread, NULL));
}

/* Java's loader of agents calls this. */
int Agent_OnLoad(void *vm, char *options, void *reserved);
__attribute__((visibility("default"))) int Agent_OnLoad(void *vm, char *options,
							void *reserved)
{
	(void)vm;
	(void)options;
	(void)reserved;
	return 0;
}
