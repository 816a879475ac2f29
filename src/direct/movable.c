/* SPDX-License-Identifier: BSD-2-Clause */
/* movable.c - see movable.h. */
#include "direct/movable.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/magic.h>
#include <linux/mempolicy.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "direct/swap.h"
#include "sys/inside.h"
#include "sys/procmaps.h"
#include "sys/threads.h"

/* --- who else could touch the memory --------------------------------------- */

/* Does a mapping or descriptor of this name mean that the kernel or a device may write
 * to memory of this process on its own? */
static bool is_behind(const char *name)
{
	static const char *const by[] = {
		"anon_inode:[io_uring]",
		"/[aio]",
		"/dev/nvidia",
		"/dev/kfd",
		"/dev/vfio",
		"/dev/infiniband",
		"anon_inode:[vfio",
		"/dev/vhost",
		"/dev/video",
		"/dev/dri/",
		"socket:[", /* mapped sockets: the rings of AF_XDP, AF_PACKET */
		"[uprobes]",
	};

	for (size_t i = 0; i < sizeof(by) / sizeof(*by); i++)
		if (!strncmp(name, by[i], strlen(by[i])))
			return true;
	return false;
}

/* The kernel's directory entry; libc's readdir() would allocate. */
struct entry {
	uint64_t ino;
	int64_t off;
	unsigned short len;
	unsigned char type;
	char name[];
};

/* Is fn true of an entry of the directory, or can it not be read? */
static bool has_entry(const char *path, const void *arg,
		      bool (*fn)(int dir, const char *entry, const void *arg))
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	_Alignas(struct entry) char buf[2048];
	const struct entry *e;
	bool has = fd < 0;
	long n = 0;

	while (!has && (n = syscall(SYS_getdents64, fd, buf, sizeof(buf))) > 0)
		for (long at = 0; !has && at < n; at += e->len) {
			e = (const void *)(buf + at);
			has = *e->name != '.' && fn(fd, e->name, arg);
		}
	if (fd >= 0)
		close(fd);
	return has || n < 0;
}

static bool leads_behind(int dir, const char *entry, const void *arg)
{
	char name[32] = "";

	(void)arg;
	return readlinkat(dir, entry, name, sizeof(name) - 1) > 0 &&
	       strncmp(name, "socket:", 7) != 0 && is_behind(name);
}

static bool has_open(void)
{
	return has_entry("/proc/thread-self/fd", NULL, leads_behind);
}

bool movable_stores_directly(int fd)
{
	const int flags = fcntl(fd, F_GETFL);
	struct statfs fs;
	struct stat st;
	int domain;

	if (flags < 0 || flags & O_PATH || (flags & O_ACCMODE) == O_WRONLY)
		return false;
	if (flags & O_DIRECT)
		return true;
	if (fstat(fd, &st))
		return false;
	if (S_ISSOCK(st.st_mode))
		return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain,
				  &(socklen_t){ sizeof(domain) }) ||
		       domain == AF_ALG;
	return S_ISREG(st.st_mode) && !fstatfs(fd, &fs) &&
	       (fs.f_type == V9FS_MAGIC || fs.f_type == FUSE_SUPER_MAGIC);
}

static bool stores_directly(int dir, const char *entry, const void *arg)
{
	(void)dir;
	(void)arg;
	return movable_stores_directly(atoi(entry));
}

#ifndef SYS_futex_waitv
#define SYS_futex_waitv 449
#endif
#define FUTEX_WAIT_2 455 /* SYS_futex_wait */

/* Does the thread sleep on a futex in the extent that is not private? The kernel knows
 * such a futex by its page. Its file "syscall" has the number of the call and the
 * arguments; or "running". */
static bool sleeps_there(int dir, const char *entry, const void *arg)
{
	unsigned long long nr, addr, op, more[2] = { 0, 0 };
	const struct extent *e = arg;
	char path[64], text[128];
	ssize_t n;
	int fd;

	snprintf(path, sizeof(path), "%.32s/syscall", entry);
	fd = openat(dir, path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno != ENOENT; /* it has ended */
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	if (n <= 0)
		return errno != ESRCH;
	text[n] = '\0';
	if (sscanf(text, "%llu %llx %llx %llx %llx", &nr, &addr, &op, more, more + 1) < 3)
		return false;
	if (nr == SYS_futex_waitv)
		return true;
	if (nr == FUTEX_WAIT_2)
		op = more[1];
	else if (nr != SYS_futex)
		return false;
	return addr >= e->lo && addr < e->hi && !(op & FUTEX_PRIVATE_FLAG);
}

/* libc's thread registers the head of its list of robust mutexes; the head lies in the
 * thread's control block, 16 bytes behind the id that the kernel clears at the end of the
 * thread. Returns the head; NULL: the thread has ended, or just begun. (A thread that has
 * its stack in memory of the program's has registered its head by the end of the call
 * that the preloaded library counts.) */
static struct robust_list_head *list_of(pid_t tid)
{
	struct robust_list_head *head = NULL;
	size_t len;

	(void)syscall(SYS_get_robust_list, tid, &head, &len);
	return head;
}

/* Does the extent have the thread's id, or the thread a robust mutex? */
static bool ends_there(pid_t tid, const struct extent *e)
{
	enum { AROUND = 64 };
	struct robust_list_head *at = list_of(tid), head;
	struct iovec here = { &head, sizeof(head) }, there = { at, sizeof(head) };
	const uint64_t addr = (uintptr_t)at;

	if (!addr)
		return false;
	if (extents_meet(e, &(struct extent){ addr - AROUND, addr + AROUND }))
		return true;
	return process_vm_readv(getpid(), &here, 1, &there, 1, 0) == sizeof(head) &&
	       (head.list.next != &at->list || head.list_op_pending);
}

static bool is_tied(int dir, const char *entry, const void *arg)
{
	return ends_there(atoi(entry), arg) || sleeps_there(dir, entry, arg);
}

static bool has_mapped(void)
{
	struct procmap m;
	struct procmaps maps;
	bool behind;

	procmaps_open(&maps);
	behind = maps.fd < 0;
	while (!behind && procmaps_next(&maps, &m))
		behind = is_behind(m.name);
	procmaps_close(&maps);
	return behind;
}

/* Is the calling thread the program's only one? The link count of /proc/self/task is a
 * snapshot of all threads at one moment. */
bool movable_is_only_thread(void)
{
	uint64_t own = threads_now();
	struct stat st;

	return !stat("/proc/self/task", &st) && st.st_nlink == 2 + 1 + threads_in(own) &&
	       threads_now() == own;
}

/* Returns the number after a name in the text of a file below /proc; `none` if the
 * name is absent. */
static unsigned long field_number(const char *text, const char *name, unsigned long none)
{
	const char *at = strstr(text, name);

	return at ? strtoul(at + strlen(name), NULL, 10) : none;
}

enum { STATUS = 4096 };

static void read_status(char text[STATUS])
{
	int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, STATUS - 1);

	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = '\0';
}

static bool is_free(unsigned *resident)
{
	char text[STATUS];

	read_status(text);
	*resident = (unsigned)(field_number(text, "\nVmRSS:", 0) >> 10);
	/* A tracer may store to the process's memory. */
	return !field_number(text, "\nVmLck:", 1) && !field_number(text, "\nVmPin:", 1) &&
	       !field_number(text, "\nTracerPid:", 1);
}

bool movable_now(unsigned *resident)
{
	return movable_is_only_thread() && is_free(resident) && !has_mapped() &&
	       !has_open();
}

bool movable_beside_threads(const struct extent *e, unsigned *resident)
{
	return is_free(resident) && !has_mapped() && !has_open() &&
	       !has_entry("/proc/thread-self/fd", NULL, stores_directly) &&
	       !access("/proc/thread-self/syscall", R_OK) && movable_is_untied(e);
}

static bool (*_Atomic asked)(uintptr_t lo, size_t len);

void movable_ask(bool (*tied)(uintptr_t lo, size_t len))
{
	atomic_store(&asked, tied);
}

bool movable_is_untied(const struct extent *e)
{
	bool (*tied)(uintptr_t, size_t) = atomic_load(&asked);

	return !(tied && tied(e->lo, e->hi - e->lo)) &&
	       !has_entry("/proc/self/task", e, is_tied);
}

bool movable_may_be_pinned(void)
{
	char text[STATUS];

	read_status(text);
	return field_number(text, "\nVmPin:", 1) || has_mapped() || has_open();
}

/* From the C library's variables to the thread's control block. Ours are there, too, as
 * their model is initial-exec. */
static bool has_variables(const struct extent *e)
{
	enum { BLOCK = 2048 };
	const uint64_t libcs = (uintptr_t)&errno, ours = (uintptr_t)&inside_calls,
		       block = (uintptr_t)pthread_self();
	const struct extent all = { libcs < ours ? libcs : ours, block + BLOCK };

	return extents_meet(e, &all);
}

bool movable_extent(const struct extent *e)
{
	const uint64_t here = (uintptr_t)__builtin_frame_address(0), below = 64 << 10;

	return (here < e->lo || here - e->lo >= e->hi - e->lo + below) &&
	       !has_variables(e);
}

/* --- attributes of memory ------------------------------------------------- */

static bool is_private(const struct procmap *m)
{
	return !strcmp(m->perms, "rw-p") && !m->inode &&
	       (!*m->name || !strcmp(m->name, "[heap]") ||
		!strncmp(m->name, "[anon:", 6));
}

static bool has_only(const char *flags, const char *plain)
{
	char word[4] = "";

	for (const char *at = flags; strlen(at) >= 3; at += 3) {
		memcpy(word, at, 3);
		if (!strstr(plain, word))
			return false;
	}
	return true;
}

/* Advice about huge pages is lost by a move, which is acceptable: huge pages are not
 * promised. */
static bool is_plain(struct procmaps *maps)
{
	char flags[PROCMAP_FLAGS];

	return procmaps_flags(maps, flags) &&
	       has_only(flags, "rd wr mr mw me ac sd nr hg nh ");
}

/* "dc" is in our own mappings, too (map.c), if the process reaches its own regions. "ac"
 * is in those that a try which failed has left MAP_PRIVATE. */
bool movable_is_revertible(struct procmaps *maps, bool *marked)
{
#define PLAIN "rd wr ex sh mr mw me ms ac sd nr hg nh "
	static const char plain[] = PLAIN, marks[] = PLAIN SWAP_MARKS,
			  locked[] = PLAIN SWAP_MARKS "?? ";
#undef PLAIN
	char flags[PROCMAP_FLAGS];

	if (!procmaps_flags(maps, flags))
		return false;
	*marked |= !has_only(flags, plain);
	/* Linux 6.1 has no name for what later kernels call lf. */
	return has_only(flags, strstr(flags, "lo ") ? locked : marks);
}

/* Does a memory policy apply here? File pages would not follow it. */
static bool has_policy(uint64_t at)
{
	int mode = MPOL_DEFAULT;

	return !syscall(SYS_get_mempolicy, &mode, NULL, 0, at, MPOL_F_ADDR) &&
	       mode != MPOL_DEFAULT;
}

unsigned movable_find(const struct extent *in, struct extent *piece, unsigned max)
{
	struct procmaps maps;
	struct procmap m;
	unsigned n = 0;

	procmaps_open_flags(&maps);
	while (n < max && procmaps_next(&maps, &m) && m.lo < in->hi)
		if (extents_meet(in, &(struct extent){ m.lo, m.hi }) && is_private(&m) &&
		    is_plain(&maps) && !has_policy(m.lo))
			piece[n++] = (struct extent){ m.lo > in->lo ? m.lo : in->lo,
						      m.hi < in->hi ? m.hi : in->hi };
	procmaps_close(&maps);
	return n;
}

bool movable_strictly(void)
{
	FILE *f = fopen("/proc/sys/vm/overcommit_memory", "re");
	int mode = 2;

	if (f && fscanf(f, "%d", &mode) != 1)
		mode = 2;
	if (f)
		fclose(f);
	return mode == 2;
}
