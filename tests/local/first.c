/* SPDX-License-Identifier: BSD-2-Clause */
/* first.c - for LD_PRELOAD: a library whose constructor wants to be the first of all. */
#include <pthread.h>

static void on_fork(void)
{
}

static void __attribute__((constructor)) begin(void)
{
	pthread_atfork(on_fork, NULL, NULL);
}
