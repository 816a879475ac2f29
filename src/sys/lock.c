/* SPDX-License-Identifier: BSD-2-Clause */
/* lock.c - see lock.h. */
#include "sys/lock.h"

#include <assert.h>

enum { SPINS = 100 };		/* some 2-4 us: shorter than a sleep */

static inline void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
	__builtin_ia32_pause();
#elif defined(__aarch64__)
	__asm__ volatile("isb");
#endif
}

void lock_init(struct lock *l)
{
	int rc = pthread_mutex_init(&l->m, NULL);

	assert(rc == 0);	/* a default mutex cannot fail */
	(void)rc;
}

void lock_fini(struct lock *l)
{
	pthread_mutex_destroy(&l->m);
}

NO_TSA void lock_take(struct lock *l)
{
	for (int i = 0; i < SPINS; i++) {
		if (pthread_mutex_trylock(&l->m) == 0)
			return;
		pause_cpu();
	}
	pthread_mutex_lock(&l->m);
}

NO_TSA bool lock_try(struct lock *l)
{
	return pthread_mutex_trylock(&l->m) == 0;
}

NO_TSA void lock_give(struct lock *l)
{
	pthread_mutex_unlock(&l->m);
}
