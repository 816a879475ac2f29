/* SPDX-License-Identifier: BSD-2-Clause */
/* line_pingpong.c - what a cache line takes from one process to another, one
 * way, in microseconds: the yardstick for latencies within one host.  Two
 * processes answer each other's counts and spin; the median of the rounds is
 * printed, each of which is many turns, since a clock takes as long as a line.
 *
 * line_pingpong ROUNDS
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { TURNS = 100 };

struct lines {
	_Alignas(128) _Atomic uint64_t there;
	_Alignas(128) _Atomic uint64_t back;
};

static void wait_for(_Atomic uint64_t *line, uint64_t n)
{
	while (atomic_load_explicit(line, memory_order_acquire) != n)
		;
}

static void answer(struct lines *l)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint64_t n = 1;; n++) {
		wait_for(&l->there, n);
		atomic_store_explicit(&l->back, n, memory_order_release);
	}
}

int main(int argc, char **argv)
{
	int rounds = argc == 2 ? atoi(argv[1]) : 0;
	struct lines *l = mmap(NULL, sizeof(*l), PROT_READ | PROT_WRITE,
			       MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	double *us = calloc(rounds > 0 ? (size_t)rounds : 1, sizeof(*us)), start;
	uint64_t n = 0;
	pid_t pid;

	if (rounds <= 0)
		errx(1, "usage: line_pingpong ROUNDS");
	if (l == MAP_FAILED || !us)
		err(1, "memory");
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (pid == 0)
		answer(l);
	for (int i = 0; i < rounds; i++) {
		start = clock_ns(CLOCK_MONOTONIC);
		for (int k = 0; k < TURNS; k++) {
			atomic_store_explicit(&l->there, ++n, memory_order_release);
			wait_for(&l->back, n);
		}
		us[i] = (clock_ns(CLOCK_MONOTONIC) - start) / 1e3 / (2 * TURNS);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("%.4f\n", median(us, rounds));
	return 0;
}
