/* SPDX-License-Identifier: BSD-2-Clause */
/* swap.c - see swap.h.  Memory goes from one kind to the other in one system call, when
 * what it holds is there already: whoever reads it meanwhile sees the same. */
#include "direct/swap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sys/log.h"

enum { CHUNK = 64 << 10 };

/* So long is each file, of which nearly all is a hole. */
#define APART (UINT64_C(1) << 36)

static void *at(uint64_t addr)
{
	return (void *)(uintptr_t)addr;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

bool swap_has(const struct swap_run *run, const struct procmap *m)
{
	return m->inode && m->inode == run->id.ino && m->major == major(run->id.dev) &&
	       m->minor == minor(run->id.dev);
}

void swap_forget(struct swap_run *run)
{
	if (run->fd >= 0 && fd_is(run->fd, &run->id))
		close(run->fd);
	run->fd = -1;
}

static bool open_file(struct swap_run *run, int *rc)
{
	run->fd = fd_memory("urnic-memory", APART);
	*rc = run->fd < 0 ? run->fd
	      : fcntl(run->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
		      ? -errno
		      : fd_identify(run->fd, &run->id);
	if (*rc && run->fd >= 0)
		close(run->fd);
	return !*rc;
}

static bool map_file(int fd, uint64_t lo, uint64_t len, int prot, uint64_t from)
{
	return mmap(at(lo), len, prot, MAP_SHARED | MAP_FIXED, fd, (off_t)from) !=
	       MAP_FAILED;
}

/* Where a call that replaces memory fails, what was there may have gone already: then
 * the file, which has the same, lies there again.  False: it is as it was. */
static bool mend(int fd, uint64_t lo, uint64_t len, int prot, uint64_t from)
{
	if (!msync(at(lo), len, MS_ASYNC) || errno != ENOMEM)
		return false;
	if (!map_file(fd, lo, len, prot, from))
		log_error("registered memory at %#llx is lost: no other can be mapped "
			  "there: %s",
			  (unsigned long long)lo, strerror(errno));
	return true;
}

/* --- out ----------------------------------------------------------------- */

static bool write_all(int fd, const void *from, size_t len, uint64_t to)
{
	return pwrite(fd, from, len, (off_t)to) == (ssize_t)len;
}

/* What has never been touched is a hole in the file as well.  pagemap: of
 * /proc/self/pagemap, or -1, a word a page, whose two highest bits say that there is
 * something in memory or in swap. */
static bool write_pages(int fd, int pagemap, uint64_t lo, uint64_t len, uint64_t to)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), some = UINT64_C(3) << 62;
	uint64_t word[CHUNK / 4096];
	size_t n = len / page * sizeof(word[0]);

	if (n > sizeof(word) ||
	    pread(pagemap, word, n, (off_t)(lo / page * sizeof(word[0]))) != (ssize_t)n)
		return write_all(fd, at(lo), len, to);
	for (uint64_t i = 0, end; i < len / page; i = end) {
		bool has = word[i] & some;

		for (end = i + 1; end < len / page && !!(word[end] & some) == has;)
			end++;
		if (has &&
		    !write_all(fd, at(lo + i * page), (end - i) * page, to + i * page))
			return false;
	}
	return true;
}

static bool write_run(const struct swap_run *run)
{
	int pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	bool good = true;

	for (uint64_t lo = run->lo, n; good && lo < run->hi; lo += n) {
		n = least(CHUNK, run->hi - lo);
		good = write_pages(run->fd, pagemap, lo, n, lo - run->lo);
	}
	if (pagemap >= 0)
		close(pagemap);
	return good;
}

int swap_out(uint64_t lo, uint64_t hi, struct swap_run *run)
{
	const int prot = PROT_READ | PROT_WRITE;
	int rc;

	*run = (struct swap_run){ .lo = lo, .hi = hi, .fd = -1 };
	if (hi - lo > APART / 2)
		return -EFBIG;
	if (!open_file(run, &rc))
		return rc;
	if (!write_run(run)) {
		rc = errno ? -errno : -ENOMEM;
	} else if (!map_file(run->fd, lo, hi - lo, prot, 0)) {
		rc = -errno;
		if (mend(run->fd, lo, hi - lo, prot, 0))
			rc = 0;
	}
	if (rc)
		close(run->fd);
	return rc;
}

/* --- in ------------------------------------------------------------------ */

/* Where a run's content is read: its file, or, if the program has closed that, its
 * mappings, whatever their protection. */
struct from {
	int fd;
	bool is_file;
};

static struct from open_content(const struct swap_run *run)
{
	if (run->fd >= 0 && fd_is(run->fd, &run->id))
		return (struct from){ run->fd, true };
	return (struct from){ open("/proc/self/mem", O_RDONLY | O_CLOEXEC), false };
}

static void close_content(struct from f)
{
	if (!f.is_file && f.fd >= 0)
		close(f.fd);
}

/* The next bytes of [*lo, end) of the file that are no hole, a chunk of them at most:
 * from *lo on, so many.  0: there are none. */
static uint64_t next_data(struct from f, uint64_t *lo, uint64_t end)
{
	off_t begin, hole;

	if (!f.is_file)
		return least(CHUNK, end - *lo);
	begin = lseek(f.fd, (off_t)*lo, SEEK_DATA);
	if (begin < 0 || (uint64_t)begin >= end)
		return 0;
	*lo = (uint64_t)begin;
	hole = lseek(f.fd, begin, SEEK_HOLE);
	if (hole > begin)
		end = least(end, (uint64_t)hole);
	return least(CHUNK, end - *lo);
}

/* n bytes of the mapping m of a run, from byte lo of its file on. */
static bool read_content(struct from f, const struct procmap *m, uint64_t lo, void *to,
			 uint64_t n)
{
	uint64_t off = f.is_file ? lo : m->lo + (lo - m->offset);

	return pread(f.fd, to, n, (off_t)off) == (ssize_t)n;
}

static int prot_of(const struct procmap *m)
{
	return (m->perms[0] == 'r' ? PROT_READ : 0) |
	       (m->perms[1] == 'w' ? PROT_WRITE : 0) |
	       (m->perms[2] == 'x' ? PROT_EXEC : 0);
}

/* Private memory with the mapping's content, elsewhere; or NULL. */
static uint8_t *read_pages(struct from f, const struct procmap *m)
{
	uint64_t len = m->hi - m->lo, end = m->offset + len, lo = m->offset, n;
	uint8_t *to = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			   -1, 0);

	if (to == MAP_FAILED)
		return NULL;
	for (; (n = next_data(f, &lo, end)) > 0; lo += n)
		if (!read_content(f, m, lo, to + (lo - m->offset), n)) {
			munmap(to, len);
			return NULL;
		}
	if (prot_of(m) != (PROT_READ | PROT_WRITE))
		mprotect(to, len, prot_of(m));
	return to;
}

static bool make_private(struct from f, const struct procmap *m)
{
	uint64_t len = m->hi - m->lo;
	uint8_t *to = read_pages(f, m);

	if (!to)
		return false;
	if (mremap(to, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, at(m->lo)) != MAP_FAILED)
		return true;
	(void)mend(f.fd, m->lo, len, prot_of(m), m->offset);
	munmap(to, len);
	return false;
}

bool swap_in(struct swap_run *run)
{
	struct from f = open_content(run);
	struct procmaps maps;
	struct procmap m;
	bool all = f.fd >= 0;

	procmaps_open(&maps);
	while (all && procmaps_next(&maps, &m))
		if (swap_has(run, &m))
			all = make_private(f, &m);
	all &= maps.fd >= 0;
	procmaps_close(&maps);
	close_content(f);
	if (all)
		swap_forget(run);
	return all;
}

/* --- fork ---------------------------------------------------------------- */

/* A mapping of a run: from byte `from' of the copy on. */
struct piece {
	struct procmap m;
	const struct swap_run *run;
	uint64_t from;
};

struct swap_copy {
	int fd; /* -1: there is no memory for it */
	unsigned n;
	struct piece piece[];
};

static struct swap_copy *find_pieces(const struct swap_run *run, unsigned runs)
{
	struct swap_copy *c = NULL, *more;
	struct procmap m;
	struct procmaps maps;
	unsigned n = 0;

	procmaps_open(&maps);
	while (procmaps_next(&maps, &m))
		for (unsigned i = 0; i < runs; i++) {
			if (!swap_has(&run[i], &m))
				continue;
			more = realloc(c, sizeof(*c) + (n + 1) * sizeof(c->piece[0]));
			if (!more)
				break; /* see the page: nothing else is as good */
			c = more;
			c->piece[n++] =
				(struct piece){ m, &run[i], i * APART + m.offset };
		}
	procmaps_close(&maps);
	if (c)
		c->n = n;
	return c;
}

static bool copy_piece(int to, const struct piece *p, void *buf)
{
	const struct procmap *m = &p->m;
	uint64_t end = m->offset + (m->hi - m->lo), lo = m->offset, n;
	struct from f = open_content(p->run);
	bool good = f.fd >= 0;

	for (; good && (n = next_data(f, &lo, end)) > 0; lo += n)
		good = read_content(f, m, lo, buf, n) &&
		       write_all(to, buf, n, p->from + (lo - m->offset));
	close_content(f);
	return good;
}

struct swap_copy *swap_copy(const struct swap_run *run, unsigned n)
{
	struct swap_copy *c = find_pieces(run, n);
	void *buf = c ? malloc(CHUNK) : NULL;
	bool good;

	if (!c)
		return NULL;
	c->fd = buf ? fd_memory("urnic-copy", n * APART) : -1;
	good = c->fd >= 0;
	for (unsigned i = 0; good && i < c->n; i++)
		good = copy_piece(c->fd, &c->piece[i], buf);
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
		const struct procmap *m = &c->piece[i].m;
		uint64_t len = m->hi - m->lo;

		if (c->fd >= 0 &&
		    mmap(at(m->lo), len, prot_of(m), MAP_PRIVATE | MAP_FIXED, c->fd,
			 (off_t)c->piece[i].from) != MAP_FAILED)
			continue;
		log_error("a child of fork() has no memory at %#llx to %#llx, which its "
			  "parent has registered: there is none for a copy",
			  (unsigned long long)m->lo, (unsigned long long)m->hi);
		mmap(at(m->lo), len, PROT_NONE,
		     MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	}
	swap_parent(c);
}
