/* SPDX-License-Identifier: BSD-2-Clause */
/* timer.c - the signal comes after random times of 20 to 500 us. */
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>

#include "signals.h"

static void set(unsigned us)
{
	struct itimerval t = { .it_value = { 0, us } };

	CHECK(!setitimer(ITIMER_REAL, &t, NULL));
}

int timer(void)
{
	double end;

	act_open(SIGALRM);
	srand(seed);
	end = now_s() + opt.seconds;
	while (now_s() < end) {
		set(20 + (unsigned)rand() % 480);
		for (int i = rand() % 50; i >= 0; i--)
			act_main();
	}
	set(0);
	act_close();
	act_say();
	say("all right");
	return 0;
}
