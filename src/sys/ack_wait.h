/* SPDX-License-Identifier: BSD-2-Clause */
/* ack_wait.h - a wait for the program, which may never do what is waited for. */
#ifndef SYS_ACK_WAIT_H
#define SYS_ACK_WAIT_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <time.h>

/* Zero at first. */
struct ack_wait {
	struct timespec until; /* of CLOCK_REALTIME */
	bool said;
};

/* pthread_cond_wait(). Returns true once, when the wait has taken a second: time to say
 * what it is for. */
static inline bool ack_wait(struct ack_wait *w, pthread_cond_t *c, pthread_mutex_t *m)
{
	if (w->said) {
		pthread_cond_wait(c, m);
		return false;
	}
	if (!w->until.tv_sec) {
		clock_gettime(CLOCK_REALTIME, &w->until);
		w->until.tv_sec++;
	}
	w->said = pthread_cond_timedwait(c, m, &w->until) == ETIMEDOUT;
	return w->said;
}

#endif
