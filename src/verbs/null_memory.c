/* SPDX-License-Identifier: BSD-2-Clause */
/* null_memory.c - see null_memory.h. The kernel backs private memory that is only read
 * with one page of zeroes; the sink is one piece of shared memory, mapped again and
 * again. */
#include "verbs/null_memory.h"

#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "sys/fd.h"

enum { PIECE = 2 << 20 };

static uint8_t *reserve(int prot)
{
	void *at = mmap(NULL, NULL_LENGTH, prot,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return at == MAP_FAILED ? NULL : at;
}

static bool fill_sink(uint8_t *sink)
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

int null_memory_use(struct null_memory *m)
{
	if (!m->users) {
		m->zeroes = reserve(PROT_READ);
		m->sink = reserve(PROT_NONE);
		if (!m->zeroes || !m->sink || !fill_sink(m->sink)) {
			unmap(m);
			return -ENOMEM;
		}
	}
	m->users++;
	return 0;
}

void null_memory_unuse(struct null_memory *m)
{
	if (!--m->users)
		unmap(m);
}
