/* SPDX-License-Identifier: BSD-2-Clause */
/* threads.c - counts our threads; see threads.h. */
#include "sys/threads.h"

#include <stdatomic.h>

#include "sys/cancel.h"

/* Upper half: how often the number has changed; lower half: the number. */
static _Atomic uint64_t own;

static _Thread_local bool creating __attribute__((tls_model("initial-exec")));

enum { CHANGES_AT = 32 };

static const uint64_t change = UINT64_C(1) << CHANGES_AT;

int threads_create(pthread_t *t, const pthread_attr_t *attr, void *(*run)(void *),
		   void *arg)
{
	const sigset_t most = signals_most();
	sigset_t was;
	int rc;

	pthread_sigmask(SIG_SETMASK, &most, &was); /* the thread inherits it */
	creating = true;
	rc = pthread_create(t, attr, run, arg);
	creating = false;
	signals_let(&was);
	return rc;
}

bool threads_creating(void)
{
	return creating;
}

void threads_begin(void)
{
	atomic_fetch_add(&own, change + 1);
}

void threads_end(void)
{
	atomic_fetch_add(&own, change - 1);
}

void threads_forked(void)
{
	atomic_store(&own, 0);
}

uint64_t threads_now(void)
{
	return atomic_load(&own);
}

unsigned threads_in(uint64_t now)
{
	return (unsigned)(now & (change - 1));
}

unsigned threads_own(void)
{
	return threads_in(threads_now());
}
