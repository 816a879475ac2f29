/* SPDX-License-Identifier: BSD-2-Clause */
/* live.c - refuses objects that programs name but that do not exist (any more), or that
 * belong to another context. */
#include "sys/live.h"

#include "abi/abi.h"
#include "sys/log.h"

bool abi_alone(void)
{
	if (!inside_calls)
		return true;
	log_info("a call refused: it is made by a signal handler that has interrupted "
		 "another call of its thread, which may hold the locks");
	errno = EDEADLK;
	return false;
}

struct ibv_context *abi_enter_on(const struct live *l, enum live_kind kind, int gone)
{
	const void *owner;
	struct ibv_context *ctx;

	if (!abi_alone())
		return NULL;
	if (!live_find(l, kind, &owner)) {
		log_info("a call refused: there is no %s at %p (freed already?)",
			 live_name(kind), (const void *)l);
		if (checks && l)
			checks->missing(l, kind, gone == ENOENT);
		errno = gone;
		return NULL;
	}
	ctx = (struct ibv_context *)(uintptr_t)owner;
	if (!abi_enter(ctx))
		return NULL;
	abi_hold();
	return ctx;
}

bool abi_enter_child(struct ibv_context *ibv)
{
	const void *self;

	if (!abi_alone())
		return false;
	if (!live_find(LIVE(context_of, ibv), LIVE_CONTEXT, &self)) {
		errno = EBADF;
		return false;
	}
	if (abi_of(ibv)->ctx.dead && !abi_forked(ibv)) {
		errno = EIO;
		return false;
	}
	inside_begin();
	abi_hold();
	return true;
}

bool abi_given(const char *call, const char *what, const void *given)
{
	if (given)
		return true;
	log_info("%s refused: %s is NULL", call, what);
	errno = EINVAL;
	return false;
}

int abi_check(const char *call, const struct live *l, enum live_kind kind,
	      const struct ibv_context *ctx)
{
	const void *owner = NULL;

	if (!l || (live_find(l, kind, &owner) && owner == ctx))
		return 0;
	log_info("%s refused: a %s %s", call, live_name(kind),
		 owner ? "of another context" : "that does not exist (freed already?)");
	return -EINVAL;
}
