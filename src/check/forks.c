/* SPDX-License-Identifier: BSD-2-Clause */
/* forks.c - a fork with regions that share pages with other data: fork-unaligned. */
#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

#include "check/check.h"
#include "check/ops.h"
#include "check/parts.h"

struct unaligned {
	unsigned n;
	const struct check_mr *first;
};

static bool count_unaligned(struct check_object *o, void *arg)
{
	const struct check_mr *mr = (const struct check_mr *)o;
	struct unaligned *u = arg;

	if (!mr->addr || !((mr->addr | mr->length) & ((uint64_t)getpagesize() - 1)))
		return true;
	u->n++;
	u->first = mr;
	return true;
}

static void report_unaligned(const struct unaligned *u)
{
	const struct check_before before = { "one was registered", u->first->o.made,
					     u->first->o.made_at };

	check_report(
		CHECK_FORK_UNALIGNED, &before, 1,
		"the process forks, and %u regions share pages with other data, such "
		"as that of %" PRIu64 " bytes at 0x%" PRIx64,
		u->n, u->first->length, u->first->addr);
}

static void before_fork(void)
{
	struct unaligned u = { .n = 0 };

	if (!ops_begin_told())
		return; /* a signal handler forks, or a child */
	check_each(LIVE_MR, count_unaligned, &u);
	if (u.n)
		report_unaligned(&u);
	ops_end();
}

static void start(void)
{
	pthread_atfork(before_fork, NULL, NULL);
}

const struct check_part forks_part = {
	.name = "forks",
	.first = CHECK_FORK_UNALIGNED,
	.last = CHECK_FORK_UNALIGNED,
	.start = start,
};
