/* SPDX-License-Identifier: BSD-2-Clause */
/* sanitized.c - a program that is built with -fsanitize=thread, over a urnic that is not:
 * ThreadSanitizer sees the calls to libc that urnic makes, but none of its locks.  Two
 * threads with QPs of their own drive the one NIC by turns.
 */
#include <pthread.h>
#include <stdlib.h>

#include "command.h"
#include "rig.h"

struct options opt = { .gid = 1, .timeout = 14, .retries = 7, .seconds = 2 };

enum { THREADS = 2, ROUNDS = 300 };

static struct loop loops[THREADS];

static void *work(void *arg)
{
	struct loop *l = arg;

	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ibv_mr *mr;

		loop_traffic(l, i);
		mr = ibv_reg_mr(l->rig.pd, l->rig.buf, 4096, RIG_ACCESS);
		CHECK(mr && !ibv_dereg_mr(mr));
	}
	return NULL;
}

static int by_turns(void)
{
	pthread_t t[THREADS];

	for (int i = 0; i < THREADS; i++)
		loop_open(&loops[i]);
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_create(&t[i], NULL, work, &loops[i]));
	for (int i = 0; i < THREADS; i++)
		CHECK(!pthread_join(t[i], NULL));
	for (int i = 0; i < THREADS; i++)
		loop_close(&loops[i]);
	say("all right");
	return 0;
}

static const struct command commands[] = {
	{ "turns", by_turns },
	{ 0 },
};

int main(int argc, char **argv)
{
	return command_main(argc, argv, commands, NULL, NULL, 120);
}
