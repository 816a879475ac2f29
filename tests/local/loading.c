/* SPDX-License-Identifier: BSD-2-Clause */
/* loading.c - a library whose constructor waits: URNIC_TEST_LOADING names two
 * descriptors, where it says so, and where it is told to go on. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void __attribute__((constructor)) wait_for_others(void)
{
	const char *fds = getenv("URNIC_TEST_LOADING");
	int to, from;
	char byte;

	if (fds && sscanf(fds, "%d,%d", &to, &from) == 2 && write(to, "", 1) == 1)
		(void)!read(from, &byte, 1);
}
