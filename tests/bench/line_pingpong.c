/* SPDX-License-Identifier: BSD-2-Clause */
/* line_pingpong.c - the time that a cache line takes from one process to another, one
 * way, in microseconds: the yardstick for latencies within one host.  Two processes spin
 * and answer each other's counts.  It prints the median of the rounds; a round is many
 * turns, since reading a clock takes as long as one turn.  With BYTES, so many bytes are
 * copied to shared memory before each count: the least that a WRITE can take for which
 * the other end waits.
 *
 * line_pingpong ROUNDS [BYTES]
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

enum { TURNS = 100, LARGE = 4096 };

struct lines {
	_Alignas(128) _Atomic uint64_t there;
	_Alignas(128) _Atomic uint64_t back;
};

static void wait_for(_Atomic uint64_t *line, uint64_t n)
{
	while (atomic_load_explicit(line, memory_order_acquire) != n)
		;
}

static char *shared, *own; /* each end uses one half of each */
static size_t bytes;

static void *memory(size_t len)
{
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		       0);

	must(p != MAP_FAILED, "memory");
	memset(p, 0, len);
	return p;
}

static void put(_Atomic uint64_t *line, uint64_t n, bool back)
{
	if (bytes)
		memcpy(shared + back * bytes, own + back * bytes, bytes);
	atomic_store_explicit(line, n, memory_order_release);
}

static void answer(struct lines *l)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (uint64_t n = 1;; n++) {
		wait_for(&l->there, n);
		put(&l->back, n, true);
	}
}

int main(int argc, char **argv)
{
	int rounds = argc > 1 ? atoi(argv[1]) : 0, turns;
	struct lines *l = memory(sizeof(*l));
	double *us = calloc(rounds > 0 ? (size_t)rounds : 1, sizeof(*us)), start;
	uint64_t n = 0;
	pid_t pid;

	if (rounds <= 0)
		errx(1, "usage: line_pingpong ROUNDS [BYTES]");
	must(us, "memory");
	bytes = argc > 2 ? strtoul(argv[2], NULL, 0) : 0;
	shared = memory(2 * bytes + 1);
	own = memory(2 * bytes + 1);
	turns = bytes > LARGE ? 2 : TURNS;
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (pid == 0)
		answer(l);
	for (int i = 0; i < rounds; i++) {
		start = clock_ns(CLOCK_MONOTONIC);
		for (int k = 0; k < turns; k++) {
			put(&l->there, ++n, false);
			wait_for(&l->back, n);
		}
		us[i] = (clock_ns(CLOCK_MONOTONIC) - start) / 1e3 / (2 * turns);
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	printf("%.4f\n", median(us, rounds));
	return 0;
}
