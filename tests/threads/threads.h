/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.h - the commands; each exits with 0 only if everything was as it must be. */
#ifndef THREADS_TESTS_THREADS_H
#define THREADS_TESTS_THREADS_H

#include "rig.h"

extern struct thread_options {
	unsigned count;
} topt;

int affinity(void);
int build(void);
int fifo(void);
int many(void);
int paused(void);
int registers(void);

#endif
