/* SPDX-License-Identifier: BSD-2-Clause */
/* heard.c - see heard.h. */
#include "check/heard.h"

#include "check/tell.h"
#include "sys/lock.h"

static _Atomic uint64_t posts;
/* Of the latest look. Held while parts are told; `seen' changes afterwards, so who looks
 * later and finds nothing new knows that they have been told. */
static struct brief_lock lock;
static _Atomic uint64_t seen;

uint64_t heard_newest(void)
{
	return atomic_load_explicit(&posts, memory_order_relaxed);
}

/* What was written before the look cannot know of a request that gets its number later:
 * the newest number is read afterwards. */
static void tell_of(const struct check_unseen *u)
{
	if (u->times == atomic_load_explicit(&seen, memory_order_acquire))
		return;
	brief_take(&lock);
	if (u->times != seen)
		TELL(spoke, heard_newest(), u->lent);
	atomic_store_explicit(&seen, u->times, memory_order_release);
	brief_give(&lock);
}

static void tell_now(uint64_t number, bool lent)
{
	brief_take(&lock);
	TELL(spoke, number, lent);
	brief_give(&lock);
}

static struct check_unseen look(void)
{
	struct check_unseen u = { 0 };

	if (!checks_unseen || !tell.spoke[0])
		return u;
	u = checks_unseen();
	tell_of(&u);
	return u;
}

void heard_look(void)
{
	const struct check_unseen u = look();

	if (u.now)
		tell_now(heard_newest(), u.lent);
}

uint64_t heard_post(void)
{
	const struct check_unseen u = look();
	const uint64_t number = 1 + atomic_fetch_add(&posts, 1);

	if (u.now)
		tell_now(number, u.lent);
	return number;
}
