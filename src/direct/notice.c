/* SPDX-License-Identifier: BSD-2-Clause */
/* notice.c - see notice.h. */
#include "direct/notice.h"

#include <dlfcn.h>

#include "direct/runs.h"
#include "direct/share.h"
#include "sys/preloaded.h"
#include "sys/threads.h"

#ifndef URNIC_VERSION
#define URNIC_VERSION "unknown"
#endif

static struct extent extent_of(uintptr_t lo, size_t len)
{
	return (struct extent){ lo, len > UINTPTR_MAX - lo ? UINTPTR_MAX : lo + len };
}

static bool meets(uintptr_t lo, size_t len)
{
	struct extent e = extent_of(lo, len);

	return runs_meet(&e);
}

static bool make_private(uintptr_t lo, size_t len)
{
	struct extent e = extent_of(lo, len);

	if (share_make_private(&e))
		return true;
	runs_strayed();
	return false;
}

static void make_zero(uintptr_t lo, size_t len)
{
	struct extent e = extent_of(lo, len);

	runs_zero(&e);
}

/* Where it cannot be done, now or later, the rest of what is told has to do. */
static void before_thread(void)
{
	const struct extent all = { 0, UINT64_MAX };

	if (runs_count() && !threads_creating())
		(void)share_make_private(&all);
}

static const struct preload_ops ops = {
	.meets = meets,
	.make_private = make_private,
	.make_zero = make_zero,
	.before_thread = before_thread,
	.before_fork = runs_before_fork,
	.in_parent = runs_in_parent,
	.in_child = runs_in_child,
	.no_more = share_no_more,
};

const struct preload_ops *notice_ops(void)
{
	return &ops;
}

enum notice notice_start(void)
{
	bool (*watch)(const char *release, const struct preload_ops *ops);

	*(void **)&watch = dlsym(RTLD_DEFAULT, PRELOAD_WATCH);
	if (!watch)
		return NOTICE_NOT_THERE;
	return watch(URNIC_VERSION, &ops) ? NOTICED : NOTICE_REFUSED;
}
