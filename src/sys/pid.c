/* SPDX-License-Identifier: BSD-2-Clause */
/* pid.c - see pid.h.  The number is kept in a page that the kernel clears in every child
 * with a memory of its own (MADV_WIPEONFORK, Linux 4.14). */
#include "sys/pid.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic pid_t *_Atomic kept; /* in that page; NULL: there is none yet */

/* Does the kernel clear the page in children? qemu's user mode before 8.0 ignores all
 * advice, and says that each has been taken: also one that there is not. */
static bool is_wiped(void *page, size_t size)
{
	return madvise(page, size, -1) != 0 && madvise(page, size, MADV_WIPEONFORK) == 0;
}

/* Makes the page, unless another thread is quicker. Returns NULL if the kernel cannot. */
static _Atomic pid_t *make_page(void)
{
	static atomic_bool cannot;
	const size_t size = (size_t)sysconf(_SC_PAGESIZE);
	_Atomic pid_t *none = NULL;
	void *page;

	if (atomic_load_explicit(&cannot, memory_order_relaxed))
		return NULL;
	page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (page == MAP_FAILED)
		return NULL;
	if (!is_wiped(page, size))
		atomic_store_explicit(&cannot, true, memory_order_relaxed);
	else if (atomic_compare_exchange_strong(&kept, &none, (_Atomic pid_t *)page))
		return page;
	munmap(page, size);
	return none;
}

static pid_t ask_kernel(_Atomic pid_t *to)
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

	return pid ? pid : ask_kernel(at);
}
