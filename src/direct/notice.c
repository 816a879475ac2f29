/* SPDX-License-Identifier: BSD-2-Clause */
/* notice.c - see notice.h. */
#include "direct/notice.h"

#include <dlfcn.h>

#include "direct/runs.h"
#include "direct/share.h"
#include "sys/cancel.h"
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

/* Called from calls that are no cancellation points, and takes locks that a later fork
 * waits for: so cancellation is held off. */
static bool make_private(uintptr_t lo, size_t len)
{
	struct extent e = extent_of(lo, len);
	int cancel = cancel_hold();
	bool good = share_make_private(&e);

	cancel_let(cancel);
	return good;
}

static unsigned change(uintptr_t lo, size_t len)
{
	struct extent e = extent_of(lo, len);

	return runs_change(&e);
}

static void make_zero(uintptr_t lo, size_t len)
{
	struct extent e = extent_of(lo, len);
	int cancel = cancel_hold();

	runs_zero(&e);
	cancel_let(cancel);
}

/* Makes all memory private before the program starts a thread, beside which it would
 * stay. Where that is not possible, the other notices must handle what stays. */
static void before_thread(void)
{
	const struct extent all = { 0, UINT64_MAX };
	int cancel;

	if (!runs_count() || threads_creating() || share_is_beside_threads())
		return;
	cancel = cancel_hold();
	(void)share_make_private(&all);
	cancel_let(cancel);
}

static bool before_fork(bool waits)
{
	int cancel = cancel_hold();
	bool some;

	share_leave_stack();
	some = runs_before_fork(waits);
	cancel_let(cancel);
	return some;
}

static void in_child(void)
{
	int cancel = cancel_hold();

	runs_in_child();
	cancel_let(cancel);
}

static const struct preload_ops ops = {
	.meets = meets,
	.make_private = make_private,
	.change = change,
	.changed = runs_changed,
	.moved = runs_strayed,
	.make_zero = make_zero,
	.keeps = runs_keeps,
	.opened = runs_opened,
	.before_thread = before_thread,
	.before_fork = before_fork,
	.in_parent = runs_in_parent,
	.in_child = in_child,
	.no_more = share_no_more,
};

const struct preload_ops *notice_ops(void)
{
	return &ops;
}

/* A sanitizer keeps a book of the program's memory: it would take the copies to and from
 * a file for stores and loads of the program, in memory that the program has freed by
 * then. */
static bool has_sanitizer(void)
{
	static const char *const name[] = { "__asan_init", "__hwasan_init", "__lsan_init",
					    "__msan_init", "__tsan_init" };

	for (size_t i = 0; i < sizeof(name) / sizeof(*name); i++)
		if (dlsym(RTLD_DEFAULT, name[i]))
			return true;
	return false;
}

enum notice notice_start(void)
{
	bool (*watch)(const char *release, const struct preload_ops *ops);

	if (has_sanitizer())
		return NOTICE_SANITIZED;
	*(void **)&watch = dlsym(RTLD_DEFAULT, PRELOAD_WATCH);
	if (!watch)
		return NOTICE_NOT_THERE;
	return watch(URNIC_VERSION, &ops) ? NOTICED : NOTICE_REFUSED;
}

bool notice_beside_threads(void)
{
	bool (*sees)(void), (*tied)(uintptr_t lo, size_t len);

	*(void **)&sees = dlsym(RTLD_DEFAULT, PRELOAD_BESIDE);
	*(void **)&tied = dlsym(RTLD_DEFAULT, PRELOAD_TIED);
	if (!sees || !tied || !sees())
		return false;
	movable_ask(tied);
	return true;
}
