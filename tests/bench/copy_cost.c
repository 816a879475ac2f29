/* SPDX-License-Identifier: BSD-2-Clause */
/* copy_cost.c - how fast memory is copied, in Gb/s: the yardstick for WRITE
 * between processes of one host.
 *
 *   memcpy   within one process
 *   vm       to the memory of another, by process_vm_writev
 *
 * copy_cost memcpy|vm SIZE TIMES
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

static char *memory(size_t size, int fill)
{
	char *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
		       -1, 0);

	if (p == MAP_FAILED)
		err(1, "memory");
	memset(p, fill, size);
	return p;
}

/* Forks a child that has pages of its own at p and dies with its parent. */
static pid_t other(char *p, size_t size)
{
	int ready[2];
	pid_t pid;
	char c = 0;

	if (pipe(ready))
		err(1, "pipe");
	pid = fork();
	if (pid < 0)
		err(1, "fork");
	if (pid == 0) {
		memset(p, 3, size);
		if (write(ready[1], &c, 1) == 1)
			pause();
		_exit(0);
	}
	if (read(ready[0], &c, 1) != 1)
		err(1, "the other process");
	return pid;
}

static void copy(pid_t pid, char *to, char *from, size_t size)
{
	struct iovec here = { from, size }, there = { to, size };

	if (pid == 0)
		memcpy(to, from, size);
	else if (process_vm_writev(pid, &here, 1, &there, 1, 0) != (ssize_t)size)
		err(1, "process_vm_writev");
	/* So that the compiler keeps all copies. */
	__asm__ volatile("" : : "r"(to) : "memory");
}

int main(int argc, char **argv)
{
	char *from, *to;
	pid_t pid = 0;
	double ns, began;
	size_t size;
	long times;

	if (argc != 4)
		errx(1, "usage: copy_cost memcpy|vm SIZE TIMES");
	size = strtoul(argv[2], NULL, 0);
	times = atol(argv[3]);
	from = memory(size, 1);
	to = memory(size, 2);
	if (!strcmp(argv[1], "vm"))
		pid = other(to, size);
	copy(pid, to, from, size);
	began = clock_ns(CLOCK_MONOTONIC);
	for (long i = 0; i < times; i++)
		copy(pid, to, from, size);
	ns = clock_ns(CLOCK_MONOTONIC) - began;
	if (pid) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	printf("%.3f\n", (double)size * 8 * (double)times / ns);
	return 0;
}
