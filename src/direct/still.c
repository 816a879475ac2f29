/* SPDX-License-Identifier: BSD-2-Clause */
/* still.c - see still.h. */
#include "direct/still.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sys/threads.h"

enum {
	COPYING,
	STILL,	  /* stores wait */
	GIVEN_UP, /* they do not any more */
	ENDED,
};

/* The caller is asleep at LOOKS looks in a row: it waits for a lock. */
enum { LOOKS = 5, NAP_NS = 1000000 };

static bool is_of(const struct still *s, const struct procmap *m)
{
	for (unsigned i = 0; i < s->n; i++)
		if (swap_has(&s->run[i], m))
			return true;
	return false;
}

/* The caller's own stack is not kept still. */
static int freeze(const struct vacant *v, uint64_t lo, uint64_t len)
{
	const uint64_t here = (uintptr_t)__builtin_frame_address(0), below = 64 << 10;

	return here >= lo && here - lo < len + below ? -EBUSY : vacant_freeze(v, lo, len);
}

/* The program may have moved the pages, and may move them meanwhile. */
static int each_mapping(const struct still *s,
			int (*fn)(const struct vacant *v, uint64_t lo, uint64_t len))
{
	struct procmaps maps;
	struct procmap m;
	int rc;

	procmaps_open(&maps);
	rc = maps.fd < 0 ? -EMFILE : 0;
	while (!rc && procmaps_next(&maps, &m))
		if (is_of(s, &m))
			rc = fn(&s->stores, m.lo, m.hi - m.lo);
	procmaps_close(&maps);
	return rc;
}

static int go_on(const struct vacant *v, uint64_t lo, uint64_t len)
{
	vacant_thaw(v, lo, len);
	return 0;
}

/* To close the descriptor is not enough: the child has it, too. */
static void let_go(struct still *s)
{
	(void)each_mapping(s, go_on);
	vacant_close(&s->stores);
}

/* --- whom the caller waits for ---------------------------------------------- */

/* In a system call, or in a store of its own (-1); but not in the one that makes the
 * child. */
static bool waits(pid_t tid)
{
	char path[64], text[32];
	ssize_t n;
	long nr;
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/syscall", (int)tid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
	nr = strtol(text, NULL, 10);
#ifdef SYS_fork
	if (nr == SYS_fork)
		return false;
#endif
	return n > 0 && *text != 'r' && nr != SYS_clone && nr != SYS_clone3; /* running */
}

static void wait_while(struct still *s, uint32_t phase)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	(void)syscall(SYS_futex, &s->phase, FUTEX_WAIT_PRIVATE, phase, &nap, NULL, 0);
}

static void set(struct still *s, uint32_t phase)
{
	atomic_store(&s->phase, phase);
	(void)syscall(SYS_futex, &s->phase, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void *watch(void *arg)
{
	struct still *s = arg;
	uint32_t phase;

	threads_begin();
	for (unsigned asleep = 0; (phase = atomic_load(&s->phase)) <= STILL;) {
		asleep = phase == STILL && waits(s->forker) ? asleep + 1 : 0;
		if (asleep == LOOKS &&
		    atomic_compare_exchange_strong(&s->phase, &phase, GIVEN_UP))
			let_go(s);
		else
			wait_while(s, phase);
	}
	threads_end();
	return NULL;
}

/* The thread begins before any store waits, since its creation may wait for locks. */
int still_begin(struct still *s, const struct swap_run *run, unsigned n, bool watched)
{
	int rc;

	s->run = run;
	s->n = n;
	s->forker = gettid();
	s->is_watched = false;
	atomic_store(&s->phase, COPYING);
	rc = vacant_open(&s->stores);
	if (rc)
		return rc;
	if (watched)
		rc = -threads_create(&s->watch, NULL, watch, s);
	s->is_watched = watched && !rc;
	if (!rc)
		rc = each_mapping(s, freeze);
	if (rc)
		(void)still_end(s);
	return rc;
}

void still_copied(struct still *s)
{
	set(s, STILL);
}

bool still_end(struct still *s)
{
	const bool good = atomic_exchange(&s->phase, ENDED) != GIVEN_UP;

	if (good)
		let_go(s);
	set(s, ENDED);
	if (s->is_watched)
		pthread_join(s->watch, NULL);
	return good;
}

void still_in_child(struct still *s)
{
	vacant_close(&s->stores);
}
