/* SPDX-License-Identifier: BSD-2-Clause */
/* swap.c - see swap.h. */
#include "direct/swap.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "sys/log.h"

enum { CHUNK = 64 << 10 };

/* Length of a run's place in a file, and of each file; nearly all of it is a hole. A
 * place is not used again: a process that was stopped in the middle of a copy may store
 * to it later. */
#define APART  (UINT64_C(1) << 36)
#define PLACES 1024u
#define WHOLE  (APART * PLACES)

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
	return m->inode && m->inode == run->id.ino && m->offset - run->base < APART &&
	       m->major == major(run->id.dev) && m->minor == minor(run->id.dev);
}

void swap_forget(struct swap_run *run)
{
	if (run->fd >= 0 && !run->guest && fd_is(run->fd, &run->id))
		close(run->fd);
	run->fd = -1;
}

/* Returns the seals of the run's file, or -1 if its descriptor is gone. */
static int seals_of(const struct swap_run *run)
{
	return run->fd >= 0 && fd_is(run->fd, &run->id) ? fcntl(run->fd, F_GET_SEALS)
							: -1;
}

static bool open_file(struct swap_run *run, int *rc)
{
	run->fd = fd_memory("urnic-memory", WHOLE);
	*rc = run->fd < 0 ? run->fd
	      : fcntl(run->fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW)
		      ? -errno
		      : fd_identify(run->fd, &run->id);
	if (!*rc && flock(run->fd, LOCK_SH))
		*rc = -errno; /* swap_is_unmapped() */
	if (*rc && run->fd >= 0)
		close(run->fd);
	return !*rc;
}

/* The lock that open_file() takes lasts until nobody has what it has opened: no
 * descriptor, and no mapping. In the descriptor's place comes one that is opened anew. */
bool swap_is_unmapped(struct swap_run *run)
{
	char path[32];
	bool is;
	int fd;

	if (seals_of(run) < 0)
		return false;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", run->fd);
	fd = open(path, O_RDWR | O_CLOEXEC);
	if (fd < 0)
		return false;
	is = dup3(fd, run->fd, O_CLOEXEC) == run->fd &&
	     !flock(run->fd, LOCK_EX | LOCK_NB);
	close(fd);
	if (!is)
		(void)flock(run->fd, LOCK_SH | LOCK_NB);
	return is;
}

static bool map_file(int fd, uint64_t lo, uint64_t len, int prot, uint64_t from)
{
	return mmap(at(lo), len, prot, MAP_SHARED | MAP_FIXED, fd, (off_t)from) !=
	       MAP_FAILED;
}

/* A file that is sealed against stores, with the same content, is mapped MAP_PRIVATE. */
static void put_file(int fd, uint64_t lo, uint64_t len, int prot, uint64_t from)
{
	if (!map_file(fd, lo, len, prot, from) &&
	    mmap(at(lo), len, prot, MAP_PRIVATE | MAP_FIXED, fd, (off_t)from) ==
		    MAP_FAILED)
		log_error("registered memory at %#llx is lost: the kernel has "
			  "unmapped it and maps nothing else there: %s",
			  (unsigned long long)lo, strerror(errno));
}

/* Called when a call that replaces memory failed and may have unmapped the old pages:
 * maps the file, which has the same content, there. False: the old pages are still
 * there. */
static bool mend(int fd, uint64_t lo, uint64_t len, int prot, uint64_t from)
{
	if (!msync(at(lo), len, MS_ASYNC) || errno != ENOMEM)
		return false;
	put_file(fd, lo, len, prot, from);
	return true;
}

/* --- out ----------------------------------------------------------------- */

static bool write_all(int fd, const void *from, size_t len, uint64_t to)
{
	return pwrite(fd, from, len, (off_t)to) == (ssize_t)len;
}

/* May the page have content? word: of pagemap; its two highest bits say whether the page
 * is in memory, or in swap. */
static bool has_content(uint64_t word)
{
	return word >> 62;
}

/* Copies pages to the file; untouched pages stay holes. pagemap: descriptor of
 * /proc/self/pagemap or -1. */
static bool write_pages(int fd, int pagemap, uint64_t lo, uint64_t len, uint64_t to)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t word[CHUNK / 4096];
	size_t n = len / page * sizeof(word[0]);

	if (n > sizeof(word) ||
	    pread(pagemap, word, n, (off_t)(lo / page * sizeof(word[0]))) != (ssize_t)n)
		return write_all(fd, at(lo), len, to);
	for (uint64_t i = 0, end; i < len / page; i = end) {
		for (end = i + 1;
		     end < len / page && has_content(word[end]) == has_content(word[i]);)
			end++;
		if (has_content(word[i]) &&
		    !write_all(fd, at(lo + i * page), (end - i) * page, to + i * page))
			return false;
	}
	return true;
}

/* Where bytes of the run are in its file. */
static uint64_t place_of(const struct swap_run *run, uint64_t lo)
{
	return run->base + (lo - run->lo);
}

static bool write_range(const struct swap_run *run, int pagemap, uint64_t lo, uint64_t hi)
{
	for (uint64_t n; lo < hi; lo += n) {
		n = least(CHUNK, hi - lo);
		if (!write_pages(run->fd, pagemap, lo, n, place_of(run, lo)))
			return false;
	}
	return true;
}

/* Puts the file in the place of the pages. */
static int replace_pages(const struct swap_run *run, uint64_t lo, uint64_t hi)
{
	const int prot = PROT_READ | PROT_WRITE;
	int rc = 0;

	if (!map_file(run->fd, lo, hi - lo, prot, place_of(run, lo))) {
		rc = -errno;
		if (mend(run->fd, lo, hi - lo, prot, place_of(run, lo)))
			rc = 0;
	}
	return rc;
}

static int exchange(const struct swap_run *run, int pagemap, uint64_t lo, uint64_t hi)
{
	if (!write_range(run, pagemap, lo, hi))
		return errno ? -errno : -ENOMEM;
	return replace_pages(run, lo, hi);
}

/* A piece whose pages are `from` meanwhile; who touches their place waits. */
static int exchange_vacant(const struct swap_run *run, int pagemap,
			   const struct swap_beside *b, uint64_t lo, uint64_t len,
			   uint64_t from)
{
	int rc;

	if (!write_pages(run->fd, pagemap, from, len, place_of(run, lo)))
		return errno ? -errno : -ENOMEM;
	if (!b->may(lo, lo + len))
		return -EBUSY;
	rc = vacant_look(&b->place, lo, len);
	return rc ? rc : replace_pages(run, lo, lo + len);
}

static int exchange_beside(const struct swap_run *run, int pagemap,
			   const struct swap_beside *b, uint64_t lo, uint64_t len)
{
	uint64_t from;
	int rc = vacant_take(&b->place, lo, len, &from);

	if (rc)
		return rc;
	rc = exchange_vacant(run, pagemap, b, lo, len, from);
	if (rc)
		vacant_put_back(&b->place, lo, len, from);
	else
		vacant_end(&b->place, lo, len, from);
	return rc;
}

/* Behind its end a run has zeros, which its mapping may grow into. */
static void cut(const struct swap_run *run)
{
	const uint64_t len = run->hi - run->lo;

	(void)fallocate(run->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
			(off_t)(run->base + len), (off_t)(APART - len));
}

/* The run has a file. */
static int move_out(struct swap_run *run, uint64_t hi, const struct swap_beside *beside)
{
	const uint64_t lo = run->lo, most = beside ? CHUNK : hi - lo;
	int rc = 0, pagemap;

	pagemap = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	for (uint64_t n; !rc && run->hi < hi; run->hi += rc ? 0 : n) {
		n = least(most, hi - run->hi);
		rc = beside ? exchange_beside(run, pagemap, beside, run->hi, n)
			    : exchange(run, pagemap, run->hi, run->hi + n);
	}
	if (pagemap >= 0)
		close(pagemap);
	if (run->hi == lo)
		swap_forget(run);
	else if (rc)
		cut(run);
	return run->hi == lo ? rc : 0;
}

int swap_out(uint64_t lo, uint64_t hi, struct swap_run *run,
	     const struct swap_beside *beside)
{
	int rc;

	*run = (struct swap_run){
		.lo = lo, .hi = lo, .fd = -1, .copy = MAP_FAILED, .places = 1
	};
	if (hi - lo > APART / 2)
		return -EFBIG;
	return open_file(run, &rc) ? move_out(run, hi, beside) : rc;
}

bool swap_takes_more(const struct swap_run *run)
{
	const int seals = seals_of(run);

	return run->places < PLACES && seals >= 0 &&
	       !(seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE));
}

int swap_out_with(uint64_t lo, uint64_t hi, struct swap_run *run, struct swap_run *host,
		  const struct swap_beside *beside)
{
	*run = (struct swap_run){ .lo = lo,
				  .hi = lo,
				  .fd = host->fd,
				  .id = host->id,
				  .guest = true,
				  .base = host->places * APART,
				  .copy = MAP_FAILED };
	if (hi - lo > APART / 2)
		return -EFBIG;
	host->places++;
	return move_out(run, hi, beside);
}

/* --- in ------------------------------------------------------------------ */

/* The source of a run's content: its file, or, if the program has closed that or may have
 * stored past it (a sealed file, mapped MAP_PRIVATE), its mappings, whatever their
 * protection. */
struct from {
	int fd;
	bool is_file;
};

static struct from open_content(const struct swap_run *run)
{
	int seals = seals_of(run);

	if (seals >= 0 && !(seals & F_SEAL_WRITE) && !run->past)
		return (struct from){ run->fd, true };
	return (struct from){ open("/proc/self/mem", O_RDONLY | O_CLOEXEC), false };
}

static void close_content(struct from f)
{
	if (!f.is_file && f.fd >= 0)
		close(f.fd);
}

/* Finds the next bytes of [*lo, end) of the file that are no hole, at most a chunk:
 * sets *lo and returns their number. 0: there are none. */
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

/* Reads n bytes of mapping m of a run, from byte lo of its file on. */
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

/* Copies the content of mapping m to `to`; holes are left unchanged. */
static bool read_piece(struct from f, const struct procmap *m, uint8_t *to)
{
	uint64_t lo = m->offset, end = lo + (m->hi - m->lo), n;

	for (; (n = next_data(f, &lo, end)) > 0; lo += n)
		if (!read_content(f, m, lo, to + (lo - m->offset), n))
			return false;
	return true;
}

static uint8_t *private_memory(uint64_t len)
{
	return mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
}

/* Returns private memory elsewhere with the mapping's content, or NULL. */
static uint8_t *read_pages(struct from f, const struct procmap *m)
{
	uint64_t len = m->hi - m->lo;
	uint8_t *to = private_memory(len);

	if (to == MAP_FAILED)
		return NULL;
	if (!read_piece(f, m, to)) {
		munmap(to, len);
		return NULL;
	}
	if (prot_of(m) != (PROT_READ | PROT_WRITE))
		mprotect(to, len, prot_of(m));
	return to;
}

/* Made in place, the private memory becomes one mapping with its neighbours again, as
 * before: so the program may move (mremap) all of it at once. */
static bool make_private_here(struct from f, const struct procmap *m)
{
	const int rw = PROT_READ | PROT_WRITE, prot = prot_of(m);
	uint64_t len = m->hi - m->lo;

	if (mmap(at(m->lo), len, rw, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) ==
	    MAP_FAILED) {
		(void)mend(f.fd, m->lo, len, prot, m->offset);
		return false;
	}
	if (!read_piece(f, m, at(m->lo))) {
		put_file(f.fd, m->lo, len, prot, m->offset);
		return false;
	}
	if (prot != rw)
		mprotect(at(m->lo), len, prot);
	return true;
}

/* For when the mapping is the only place that has the content. */
static bool make_private_elsewhere(struct from f, const struct procmap *m)
{
	uint64_t len = m->hi - m->lo;
	uint8_t *to = read_pages(f, m);

	if (!to)
		return false;
	if (mremap(to, len, len, MREMAP_MAYMOVE | MREMAP_FIXED, at(m->lo)) != MAP_FAILED)
		return true;
	munmap(to, len);
	return false;
}

static bool make_private(struct from f, const struct procmap *m)
{
	return f.is_file ? make_private_here(f, m) : make_private_elsewhere(f, m);
}

/* --- what the program has said of the mapping ------------------------------ */

static const struct mark {
	char word[4]; /* in VmFlags */
	int advice;   /* 0: mlock */
} marks[] = { { "lo ", 0 },
	      { "dd ", MADV_DONTDUMP },
	      { "dc ", MADV_DONTFORK },
	      { "rr ", MADV_RANDOM },
	      { "sr ", MADV_SEQUENTIAL } };

/* Says it of the memory that lies there now. flags: VmFlags of the memory before. */
static void put_marks(const struct procmap *m, const char *flags)
{
	uint64_t len = m->hi - m->lo;

	for (size_t i = 0; i < sizeof(marks) / sizeof(*marks); i++) {
		if (!strstr(flags, marks[i].word))
			continue;
		/* All that a locked file has is in memory, and holes need not be. */
		if (marks[i].advice ? madvise(at(m->lo), len, marks[i].advice)
				    : mlock2(at(m->lo), len, MLOCK_ONFAULT))
			log_warn("memory at %#llx has lost what %s set for it: %s",
				 (unsigned long long)m->lo,
				 marks[i].advice ? "madvise()" : "mlock()",
				 strerror(errno));
	}
}

/* Replaces each mapping of the run by what `fn` puts there. */
static bool replace_all(const struct swap_run *run, struct from f, bool marked,
			bool (*fn)(struct from f, const struct procmap *m))
{
	char flags[PROCMAP_FLAGS] = "";
	struct procmaps maps;
	struct procmap m;
	bool all = true;

	if (marked)
		procmaps_open_flags(&maps);
	else
		procmaps_open(&maps);
	while (all && procmaps_next(&maps, &m)) {
		if (!swap_has(run, &m))
			continue;
		if (marked)
			(void)procmaps_flags(&maps, flags);
		all = fn(f, &m);
		put_marks(&m, flags);
	}
	all &= maps.fd >= 0;
	procmaps_close(&maps);
	return all;
}

/* --- pages that the kernel holds ------------------------------------------- */

bool swap_shows_pins(const struct swap_run *run)
{
	int seals = seals_of(run);

	return seals >= 0 && !(seals & F_SEAL_SEAL);
}

/* F_SEAL_SEAL, since whoever has the descriptor could seal the file, and keep us from
 * emptying it. Our own mappings are stored to in spite of F_SEAL_FUTURE_WRITE. */
bool swap_lend(const struct swap_run *run, bool writing)
{
	int seals = seals_of(run), narrow = writing ? 0 : F_SEAL_FUTURE_WRITE;

	if (seals < 0)
		return false;
	if (seals & F_SEAL_SEAL)
		return (seals & F_SEAL_FUTURE_WRITE) == narrow;
	return !fcntl(run->fd, F_ADD_SEALS, F_SEAL_SEAL | narrow);
}

static bool map_as(struct from f, const struct procmap *m, int flags)
{
	uint64_t len = m->hi - m->lo;

	if (mmap(at(m->lo), len, prot_of(m), flags | MAP_FIXED, f.fd, (off_t)m->offset) !=
	    MAP_FAILED)
		return true;
	(void)mend(f.fd, m->lo, len, prot_of(m), m->offset);
	return false;
}

static bool map_privately(struct from f, const struct procmap *m)
{
	return map_as(f, m, MAP_PRIVATE);
}

static bool map_shared(struct from f, const struct procmap *m)
{
	return map_as(f, m, MAP_SHARED);
}

/* Is each page of the run referred to by mappings alone? The kernel tells whoever seals
 * a file against stores (F_SEAL_WRITE), which it allows if nothing maps the file shared:
 * so the run is mapped MAP_PRIVATE, and nobody stores to it meanwhile. If pages are held,
 * it is mapped shared again. */
static bool has_no_pins(const struct swap_run *run, struct from f, bool marked)
{
	int seals = seals_of(run);

	if (seals >= 0 && seals & F_SEAL_WRITE)
		return true; /* it has been sealed before */
	if (!swap_shows_pins(run))
		return false;
	if (replace_all(run, f, marked, map_privately) &&
	    !fcntl(f.fd, F_ADD_SEALS, F_SEAL_WRITE))
		return true;
	(void)replace_all(run, f, marked, map_shared);
	return false;
}

/* Frees the file's pages, since other processes may keep it mapped for long. */
static void empty(const struct swap_run *run)
{
	if (run->fd >= 0 && fd_is(run->fd, &run->id))
		(void)fallocate(run->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
				(off_t)run->base, (off_t)APART);
}

bool swap_in(struct swap_run *run, unsigned how)
{
	struct from f = open_content(run);
	bool marked = how & SWAP_MARKED;
	bool all = f.fd >= 0 && (!(how & SWAP_PINNED) || has_no_pins(run, f, marked)) &&
		   replace_all(run, f, marked, make_private);

	close_content(f);
	/* What was to be replaced may have been mapped by put_file(). */
	if (!all && seals_of(run) >= 0 && seals_of(run) & F_SEAL_FUTURE_WRITE)
		run->past = true;
	if (all && how & SWAP_ALONE)
		empty(run);
	if (all)
		swap_forget(run);
	return all;
}

/* --- fork ---------------------------------------------------------------- */

/* Returns the end of the last data in the run's place, from its beginning on; the rest is
 * a hole. */
static uint64_t end_of_data(const struct swap_run *run)
{
	const off_t lo = (off_t)run->base, end = (off_t)(run->base + APART);
	off_t hole = lo, data;

	while ((data = lseek(run->fd, hole, SEEK_DATA)) >= 0 && data < end &&
	       (hole = lseek(run->fd, data, SEEK_HOLE)) > data)
		;
	return hole > lo ? least((uint64_t)(hole - lo), APART) : 0;
}

/* end_of_data() from the run's mappings, if its descriptor is gone. */
static uint64_t end_of_mappings(const struct swap_run *run)
{
	struct procmap m;
	struct procmaps maps;
	uint64_t end = 0;

	procmaps_open(&maps);
	while (procmaps_next(&maps, &m))
		if (swap_has(run, &m) && m.offset - run->base + (m.hi - m.lo) > end)
			end = m.offset - run->base + (m.hi - m.lo);
	procmaps_close(&maps);
	return end;
}

static bool copy_mappings(const struct swap_run *run, struct from f, uint8_t *to)
{
	struct procmap m;
	struct procmaps maps;
	bool all;

	procmaps_open(&maps);
	all = maps.fd >= 0;
	while (all && procmaps_next(&maps, &m))
		if (swap_has(run, &m))
			all = m.offset - run->base + (m.hi - m.lo) <= run->copied &&
			      read_piece(f, &m, to + (m.offset - run->base));
	procmaps_close(&maps);
	return all;
}

void swap_copy(struct swap_run *run)
{
	struct from f = open_content(run);
	struct procmap all = { .offset = run->base };
	bool good;

	all.hi = f.is_file ? end_of_data(run) : end_of_mappings(run);
	/* A page without data may get some before the child is there (still.h). */
	if (all.hi < run->hi - run->lo)
		all.hi = run->hi - run->lo;
	run->copied = all.hi;
	run->copy = all.hi ? private_memory(all.hi) : NULL;
	good = run->copy != MAP_FAILED &&
	       (f.is_file ? read_piece(f, &all, run->copy)
			  : f.fd >= 0 && copy_mappings(run, f, run->copy));
	close_content(f);
	if (!good)
		swap_parent(run);
}

void swap_parent(struct swap_run *run)
{
	if (run->copied && run->copy != MAP_FAILED)
		munmap(run->copy, run->copied);
	run->copy = MAP_FAILED;
	run->copied = 0;
}

/* Puts the copy in place of mapping m, with zeros past the copy's end. */
static bool place_copy(const struct swap_run *run, const struct procmap *m)
{
	uint64_t len = m->hi - m->lo, from = m->offset - run->base, has = 0;
	int prot = prot_of(m);

	if (run->copy == MAP_FAILED)
		return false;
	if (from < run->copied)
		has = least(len, run->copied - from);
	if (has && (mprotect(run->copy + from, has, prot) ||
		    mremap(run->copy + from, has, has, MREMAP_MAYMOVE | MREMAP_FIXED,
			   at(m->lo)) == MAP_FAILED))
		return false;
	return has == len ||
	       mmap(at(m->lo + has), len - has, prot,
		    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED;
}

/* For a process with one thread: raises the descriptor limit for a moment if it is
 * used up. */
static void open_maps(struct procmaps *maps)
{
	struct rlimit was, more;

	procmaps_open(maps);
	if (maps->fd >= 0 || getrlimit(RLIMIT_NOFILE, &was))
		return;
	more = (struct rlimit){ was.rlim_max, was.rlim_max };
	if (setrlimit(RLIMIT_NOFILE, &more))
		return;
	procmaps_open(maps);
	setrlimit(RLIMIT_NOFILE, &was);
}

/* Puts the copy in place. False: no memory for it, and the addresses are inaccessible
 * now. */
static bool place_or_none(const struct swap_run *run, const struct procmap *m)
{
	if (place_copy(run, m))
		return true;
	mmap(at(m->lo), m->hi - m->lo, PROT_NONE,
	     MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	return false;
}

/* Nothing is logged before the end, because the log's memory may be in a place that a
 * copy replaces. */
void swap_child(struct swap_run *run, unsigned n)
{
	struct procmap m, lost = { .hi = 0 };
	struct procmaps maps;
	bool blind;

	for (unsigned i = 0; i < n; i++)
		swap_forget(&run[i]);
	open_maps(&maps);
	blind = n > 0 && maps.fd < 0;
	while (procmaps_next(&maps, &m))
		for (unsigned i = 0; i < n; i++)
			if (swap_has(&run[i], &m) && !place_or_none(&run[i], &m))
				lost = m;
	for (unsigned i = 0; blind && i < n; i++) {
		m = (struct procmap){ .lo = run[i].lo, .hi = run[i].hi, .perms = "rw-p" };
		if (!place_or_none(&run[i], &m))
			lost = m;
	}
	procmaps_close(&maps);
	for (unsigned i = 0; i < n; i++)
		swap_parent(&run[i]);
	if (blind)
		log_error("a child of fork() cannot read /proc/thread-self/maps: its "
			  "copy of its parent's registered memory is where that "
			  "memory was when it was registered; memory that was moved "
			  "since (mremap) it shares with its parent");
	if (lost.hi)
		log_error(
			"a child of fork() has nothing at %#llx to %#llx, where "
			"its parent has registered memory: there was no memory for a copy",
			(unsigned long long)lost.lo, (unsigned long long)lost.hi);
}
