/* SPDX-License-Identifier: BSD-2-Clause */
/* pid.c - see pid.h.  The number is kept in a page that the kernel clears in every child
 * with a memory of its own (MADV_WIPEONFORK, Linux 4.14). */
#include "sys/pid.h"

#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic pid_t *_Atomic kept; /* in that page; NULL: there is none yet */

/* Makes the page, unless another thread is quicker. Returns NULL if the kernel cannot. */
static _Atomic pid_t *make_page(void)
{
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	_Atomic pid_t *none = NULL;
	void *page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			  -1, 0);

	if (page == MAP_FAILED)
		return NULL;
	if (madvise(page, size, MADV_WIPEONFORK) == 0 &&
	    atomic_compare_exchange_strong(&kept, &none, (_Atomic pid_t *)page))
		return page;
	munmap(page, size);
	return none;
}

static pid_t ask(_Atomic pid_t *to)
{
	const pid_t pid = getpid();
	int saved = errno;

	if (!to)
		to = make_page();
	if (to)
		atomic_store_explicit(to, pid, memory_order_relaxed);
	errno = saved;
	return pid;
}

pid_t pid_own(void)
{
	_Atomic pid_t *at = atomic_load_explicit(&kept, memory_order_acquire);
	pid_t pid = at ? atomic_load_explicit(at, memory_order_relaxed) : 0;

	return pid ? pid : ask(at);
}
