/* SPDX-License-Identifier: BSD-2-Clause */
/* mr_write.c - changes to registered memory; see mr.h. */
#include <errno.h>

#include "sys/guard.h"
#include "sys/pinned.h"
#include "verbs/mkey.h"
#include "verbs/mr.h"

/* Is the region pinned, so that later write protection does not matter? For an
 * on-demand region an adapter asks for the page at each use, and a protected page
 * refuses the write. */
static bool is_pinned(struct core *core, uint32_t key)
{
	const struct mkey *mk = mkey_find(&core->mkeys, key);

	if (mk && mk->is_mw)
		mk = mk->region;
	return mk && !(mk->access & IBV_ACCESS_ON_DEMAND);
}

int mr_write_protected(struct core *core, uint32_t key, uint8_t *host, const void *src,
		       size_t n)
{
	return is_pinned(core, key) ? pinned_write(host, src, n) : -EFAULT;
}

/* Not one atomic store: atomics are atomic only among those of this NIC, which the
 * turn serialises. */
static int replace_word(struct core *core, uint32_t key, uint64_t *at, uint64_t with)
{
	return mr_write(core, key, (uint8_t *)at, &with, sizeof(with));
}

int mr_cmp_swap(struct core *core, uint32_t key, uint64_t *at, uint64_t compare,
		uint64_t swap, uint64_t *orig)
{
	uint64_t was;

	if (guard_cmp_swap(at, compare, swap, orig) == 0)
		return 0;
	if (guard_copy(&was, at, sizeof(was)) != 0 ||
	    (was == compare && replace_word(core, key, at, swap) != 0))
		return -EFAULT;
	*orig = was;
	return 0;
}

int mr_fetch_add(struct core *core, uint32_t key, uint64_t *at, uint64_t add,
		 uint64_t *orig)
{
	uint64_t was;

	if (guard_fetch_add(at, add, orig) == 0)
		return 0;
	if (guard_copy(&was, at, sizeof(was)) != 0 ||
	    replace_word(core, key, at, was + add) != 0)
		return -EFAULT;
	*orig = was;
	return 0;
}
