/* SPDX-License-Identifier: BSD-2-Clause */
/* hang_testing.h - for unit tests whose threads wait for each other: a test that would
 * hang for ever fails instead. */
#ifndef SYS_HANG_TESTING_H
#define SYS_HANG_TESTING_H

#include <signal.h>
#include <unistd.h>

static inline void hang_told(int sig)
{
	static const char text[] = "FAILED: the test stands still\n";

	(void)sig;
	(void)!write(2, text, sizeof(text) - 1);
	_exit(1);
}

/* Ends the test after 300 s, longer than any machine takes for it. */
static inline void hang_fails(void)
{
	signal(SIGALRM, hang_told);
	alarm(300);
}

#endif
