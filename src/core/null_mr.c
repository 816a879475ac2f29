/* SPDX-License-Identifier: BSD-2-Clause */
/* null_mr.c - see null_mr.h.  Of private memory that is only read the kernel has
 * one page; the sink is one piece of shared memory, mapped again and again. */
#include "core/null_mr.h"

#include <sys/mman.h>
#include <unistd.h>

#include "core/core.h"
#include "core/mr.h"
#include "sys/fd.h"

enum { PIECE = 2 << 20 };

static uint8_t *reserve(int prot)
{
	void *at = mmap(NULL, NULL_LENGTH, prot,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static bool fill(uint8_t *sink)
{
	int fd = fd_memory("urnic-null", PIECE);
	bool ok = fd >= 0;

	for (uint64_t at = 0; ok && at < NULL_LENGTH; at += PIECE)
		ok = mmap(sink + at, PIECE, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED;
	if (fd >= 0)
		close(fd);
	return ok;
}

static void unmap(struct null_memory *m)
{
	if (m->zeroes)
		munmap(m->zeroes, NULL_LENGTH);
	if (m->sink)
		munmap(m->sink, NULL_LENGTH);
	m->zeroes = m->sink = NULL;
}

static int acquire(struct core *core)
{
	struct null_memory *m = &core->null;
	int rc = 0;

	lock_take(&core->lock);
	if (!m->users) {
		m->zeroes = reserve(PROT_READ);
		m->sink = reserve(PROT_NONE);
		if (!m->zeroes || !m->sink || !fill(m->sink)) {
			unmap(m);
			rc = -ENOMEM;
		}
	}
	if (!rc)
		m->users++;
	lock_give(&core->lock);
	return rc;
}

void null_mr_release(struct core *core)
{
	lock_take(&core->lock);
	if (!--core->null.users)
		unmap(&core->null);
	lock_give(&core->lock);
}

int null_mr_alloc(struct pd *pd, struct mr **out)
{
	const struct mkey mkey = {
		.valid = true,
		.is_null = true,
		.access = IBV_ACCESS_LOCAL_WRITE,
		.length = UINT64_MAX,
	};
	int rc = acquire(pd->core);

	if (rc)
		return rc;
	rc = mr_make(pd, &mkey, out);
	if (rc)
		null_mr_release(pd->core);
	return rc;
}
