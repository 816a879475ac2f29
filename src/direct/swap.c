/* SPDX-License-Identifier: BSD-2-Clause */
/* swap.c - see swap.h. */
#include "direct/swap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sys/log.h"

/* So much is there twice while it moves. */
enum { CHUNK = 64 << 10 };

#define APART (UINT64_C(1) << SWAP_APART_BITS)

static void *at(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

int swap_open(struct swap *s)
{
	int fd = fd_memory("urnic-memory", SWAP_RUNS * APART), rc;

	if (fd < 0)
		return fd;
	rc = fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
		     ? -errno
		     : fd_identify(fd, &s->id);
	if (rc) {
		close(fd);
		return rc;
	}
	s->fd = fd;
	s->runs = 0;
	return 0;
}

void swap_close(struct swap *s)
{
	if (s->fd >= 0 && fd_is(s->fd, &s->id))
		close(s->fd);
	s->fd = -1;
}

bool swap_has(const struct swap *s, const struct procmap *m)
{
	return m->inode && m->inode == s->id.ino && m->major == major(s->id.dev) &&
	       m->minor == minor(s->id.dev);
}

static void punch(const struct swap *s, uint64_t from, uint64_t len)
{
	(void)fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)from,
			(off_t)len);
}

/* --- out ----------------------------------------------------------------- */

static bool write_all(int fd, const void *from, size_t len, uint64_t to)
{
	return pwrite(fd, from, len, (off_t)to) == (ssize_t)len;
}

/* What has never been touched is a hole in the file as well.  pagemap: of
 * /proc/self/pagemap, or -1, a word a page, whose two highest bits say that there is
 * something in memory or in swap. */
static bool write_pages(const struct swap *s, int pagemap, uint64_t lo, uint64_t len,
			uint64_t to)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), some = UINT64_C(3) << 62;
	uint64_t word[CHUNK / 4096];
	size_t n = len / page * sizeof(word[0]);

	if (n > sizeof(word) ||
	    pread(pagemap, word, n, (off_t)(lo / page * sizeof(word[0]))) != (ssize_t)n)
		return write_all(s->fd, at(lo), len, to);
	for (uint64_t i = 0, end; i < len / page; i = end) {
		bool has = word[i] & some;

		for (end = i + 1; end < len / page && !!(word[end] & some) == has;)
			end++;
		if (has &&
		    !write_all(s->fd, at(lo + i * page), (end - i) * page, to + i * page))
			return false;
	}
	return true;
}

static bool map_file(const struct swap *s, uint64_t lo, uint64_t len, uint64_t from)
{
	return mmap(at(lo), len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, s->fd,
		    (off_t)from) != MAP_FAILED;
}

bool swap_out(struct swap *s, uint64_t lo, uint64_t hi, struct swap_run *run)
{
	struct rlimit lim;
	int pagemap;
	uint64_t n;

	if (s->fd < 0 || !fd_is(s->fd, &s->id) || s->runs == SWAP_RUNS ||
	    hi - lo > APART / 2 || getrlimit(RLIMIT_FSIZE, &lim) != 0 ||
	    lim.rlim_cur < SWAP_RUNS * APART)
		return false;
	*run = (struct swap_run){ lo, lo, s->runs++ * APART };
	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	for (; run->hi < hi; run->hi += n) {
		uint64_t to = run->at + (run->hi - lo);

		n = least(CHUNK, hi - run->hi);
		if (!write_pages(s, pagemap, run->hi, n, to) ||
		    !map_file(s, run->hi, n, to)) {
			punch(s, to, n);
			break;
		}
	}
	if (pagemap >= 0)
		close(pagemap);
	return run->hi > lo;
}

/* --- in ------------------------------------------------------------------ */

/* The next bytes of [*lo, end) of the file that are no hole, a chunk of them at most:
 * from *lo on, so many.  0: there are none. */
static uint64_t next_data(const struct swap *s, uint64_t *lo, uint64_t end)
{
	off_t begin = lseek(s->fd, (off_t)*lo, SEEK_DATA), hole;

	if (begin < 0 || (uint64_t)begin >= end)
		return 0;
	*lo = (uint64_t)begin;
	hole = lseek(s->fd, begin, SEEK_HOLE);
	if (hole > begin)
		end = least(end, (uint64_t)hole);
	return least(CHUNK, end - *lo);
}

static int prot_of(const struct procmap *m)
{
	return (m->perms[0] == 'r' ? PROT_READ : 0) |
	       (m->perms[1] == 'w' ? PROT_WRITE : 0) |
	       (m->perms[2] == 'x' ? PROT_EXEC : 0);
}

/* *done: so much of the mapping is as it was, in private memory.  once: no other
 * mapping has these pages, which go as soon as they are copied. */
static bool read_pages(const struct swap *s, const struct procmap *m, bool once,
		       uint64_t *done)
{
	uint64_t end = m->offset + (m->hi - m->lo), lo = m->offset, n;

	for (; (n = next_data(s, &lo, end)) > 0; lo += n) {
		*done = lo - m->offset;
		if (pread(s->fd, at(m->lo + *done), n, (off_t)lo) != (ssize_t)n)
			return false;
		if (once)
			punch(s, lo, n);
	}
	return true;
}

static bool make_private(const struct swap *s, const struct procmap *m, bool once)
{
	uint64_t len = m->hi - m->lo, done = 0;
	bool whole = mmap(at(m->lo), len, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED &&
		     read_pages(s, m, once, &done);

	/* What could not be read is where it was. */
	if (!whole && !map_file(s, m->lo + done, len - done, m->offset + done))
		log_error("registered memory at %#llx is lost, which was to be private "
			  "again: %s",
			  (unsigned long long)(m->lo + done), strerror(errno));
	if (prot_of(m) != (PROT_READ | PROT_WRITE))
		mprotect(at(m->lo), len, prot_of(m));
	return whole;
}

/* The next mapping of the run. */
static bool next_of(struct procmaps *maps, const struct swap *s,
		    const struct swap_run *run, struct procmap *m)
{
	while (procmaps_next(maps, m))
		if (swap_has(s, m) && m->offset >= run->at && m->offset - run->at < APART)
			return true;
	return false;
}

bool swap_in(struct swap *s, const struct swap_run *run)
{
	struct procmaps maps;
	struct procmap m;
	unsigned n = 0;
	bool all = true;

	if (s->fd < 0 || !fd_is(s->fd, &s->id))
		return false;
	procmaps_open(&maps);
	while (next_of(&maps, s, run, &m))
		n++;
	procmaps_close(&maps);
	procmaps_open(&maps);
	while (next_of(&maps, s, run, &m))
		all &= make_private(s, &m, n == 1);
	all &= maps.fd >= 0;
	procmaps_close(&maps);
	if (all)
		punch(s, run->at, APART);
	return all;
}

/* --- fork ---------------------------------------------------------------- */

struct swap_copy {
	int fd; /* -1: there is no memory for it */
	unsigned n;
	struct procmap piece[];
};

static struct swap_copy *find_pieces(const struct swap *s)
{
	struct swap_copy *c = NULL, *more;
	struct procmap m;
	struct procmaps maps;
	unsigned n = 0;

	procmaps_open(&maps);
	while (procmaps_next(&maps, &m)) {
		if (!swap_has(s, &m))
			continue;
		more = realloc(c, sizeof(*c) + (n + 1) * sizeof(m));
		if (!more)
			break; /* see the page: nothing else is as good */
		c = more;
		c->piece[n++] = m;
	}
	procmaps_close(&maps);
	if (c)
		c->n = n;
	return c;
}

static bool copy_piece(const struct swap *s, int to, const struct procmap *m, void *buf)
{
	uint64_t end = m->offset + (m->hi - m->lo), lo = m->offset, n;

	for (; (n = next_data(s, &lo, end)) > 0; lo += n)
		if (pread(s->fd, buf, n, (off_t)lo) != (ssize_t)n ||
		    !write_all(to, buf, n, lo))
			return false;
	return true;
}

struct swap_copy *swap_copy(const struct swap *s)
{
	struct swap_copy *c = find_pieces(s);
	void *buf = c ? malloc(CHUNK) : NULL;
	bool good = buf && fd_is(s->fd, &s->id);

	if (!c)
		return NULL;
	c->fd = good ? fd_memory("urnic-copy", SWAP_RUNS * APART) : -1;
	for (unsigned i = 0; good && i < c->n; i++)
		good = c->fd >= 0 && copy_piece(s, c->fd, &c->piece[i], buf);
	free(buf);
	if (!good && c->fd >= 0) {
		close(c->fd);
		c->fd = -1;
	}
	return c;
}

void swap_parent(struct swap_copy *c)
{
	if (c && c->fd >= 0)
		close(c->fd);
	free(c);
}

void swap_child(struct swap_copy *c)
{
	for (unsigned i = 0; c && i < c->n; i++) {
		const struct procmap *m = &c->piece[i];
		uint64_t len = m->hi - m->lo;

		if (c->fd >= 0 &&
		    mmap(at(m->lo), len, prot_of(m), MAP_PRIVATE | MAP_FIXED, c->fd,
			 (off_t)m->offset) != MAP_FAILED)
			continue;
		log_error("a child of fork() has no memory at %#llx to %#llx, which its "
			  "parent has registered: there is none for a copy",
			  (unsigned long long)m->lo, (unsigned long long)m->hi);
		mmap(at(m->lo), len, PROT_NONE,
		     MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	swap_parent(c);
}
