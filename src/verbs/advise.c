/* SPDX-License-Identifier: BSD-2-Clause */
/* advise.c - ibv_advise_mr(3): makes the pages of on-demand regions present before the
 * program uses them. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys/log.h"
#include "verbs/core.h"
#include "verbs/mkey.h"
#include "verbs/mr.h"

#ifndef MADV_POPULATE_READ
#define MADV_POPULATE_READ  22 /* Linux 5.14 */
#define MADV_POPULATE_WRITE 23
#endif

/* The turn is held. */
static int find_range(struct pd *pd, const struct ibv_sge *sge, bool write,
		      uint8_t **host)
{
	const struct mkey *mk = mkey_find(&pd->core->mkeys, sge->lkey);

	if (!mk || mk->is_mw)
		return -ENOENT;
	if (mk->pd != pd_proper(pd) || (write && !(mk->access & IBV_ACCESS_LOCAL_WRITE)))
		return -EPERM;
	if (!(mk->access & IBV_ACCESS_ON_DEMAND))
		return -EINVAL;
	return mr_check(pd->core, sge->lkey, mk->pd, 0, sge->addr, sge->length, 0,
			host) == MR_OK
		       ? 0
		       : -EFAULT;
}

/* Kernels before 5.14 lack MADV_POPULATE_*: they make pages present when the memory is
 * used. */
static bool kernel_knows(int advice)
{
	return madvise(NULL, 0, advice) == 0;
}

/* Like an adapter's page fault, returns -EPERM for memory that is read-only and
 * -EFAULT for other memory that is not accessible. */
static int populate(uint8_t *host, size_t length, int advice)
{
	const uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	uintptr_t from = (uintptr_t)host & ~(page - 1);
	uintptr_t to = ((uintptr_t)host + length + page - 1) & ~(page - 1);

	if (madvise((void *)from, to - from, advice) == 0 || !kernel_knows(advice))
		return 0;
	return advice == MADV_POPULATE_WRITE && errno == EINVAL &&
			       madvise((void *)from, to - from, MADV_POPULATE_READ) == 0
		       ? -EPERM
		       : -EFAULT;
}

static int how(enum ibv_advise_mr_advice advice, bool wait)
{
	if (!wait)
		return MADV_WILLNEED;
	return advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE ? MADV_POPULATE_WRITE
							     : MADV_POPULATE_READ;
}

static int advise(struct pd *pd, enum ibv_advise_mr_advice advice, bool wait,
		  const struct ibv_sge *sge)
{
	bool write = advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	uint8_t *host;
	int rc;

	turn_take(&pd->core->turn);
	rc = find_range(pd, sge, write, &host);
	turn_give(&pd->core->turn);
	/* PREFETCH_NO_FAULT needs no work: the program's present pages are the
	 * adapter's too. */
	if (!rc && sge->length && advice != IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT) {
		int came = populate(host, sge->length, how(advice, wait));

		rc = wait ? came : 0; /* without FLUSH errors are not reported */
	}
	if (rc)
		log_info("advise_mr refused: lkey 0x%08x, %u bytes at 0x%llx: %s",
			 sge->lkey, sge->length, (unsigned long long)sge->addr,
			 strerror(-rc));
	return rc;
}

int mr_advise(struct pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	      const struct ibv_sge *sge, uint32_t n)
{
	int rc = 0;

	if ((unsigned)advice > IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return -EOPNOTSUPP;
	if (flags & ~(uint32_t)IBV_ADVISE_MR_FLAG_FLUSH || !n || !sge)
		return -EINVAL;
	for (uint32_t i = 0; !rc && i < n; i++)
		rc = advise(pd, advice, flags & IBV_ADVISE_MR_FLAG_FLUSH, &sge[i]);
	return rc;
}
