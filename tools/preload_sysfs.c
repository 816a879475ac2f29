/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_sysfs.c - see preload_sysfs.h.
 *
 * The tree lies in a folder of this process, which it makes when a program first asks for
 * such a file, and removes when it ends.  The folder is locked as long as the process or
 * a child of it (fork) lives; those that nobody holds any more, since their process was
 * killed, are removed by the next process that makes one.
 *
 * A fork waits for nobody who writes a tree: writers hold off signals, so that a handler
 * that forks does not interrupt one, and what the child goes on to use is whole at every
 * instruction. */
#include "preload_sysfs.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "sys/cancel.h"

static const char sys[] = "/sys";
static const char class[] = "/sys/class/infiniband";
static const char prefix[] = "urnic-sysfs-";

enum {
	AGE = 1, /* seconds, after which the tree is written anew */
	MS = 1000,
	UNIQUE = 6, /* characters that mkdtemp() chooses */
	HIGH = 256, /* descriptors below are left to the program */
};

/* liburnic.so's; see driver/sysfs.h. */
typedef int write_fn(const char *root, unsigned what, char where[PATH_MAX]);
enum { SYSFS_TREE = 1, SYSFS_COUNTERS = 2 };

static write_fn *_Atomic write_tree;

/* A folder is published when it is complete, and never freed. */
struct folder {
	char root[ROOT_MAX];
	int held; /* the locked folder; -1: none */
	struct stat as;
	/* The parent's, who writes it. A child by vfork() has the parent's memory, and
	 * the parent waits for it: it uses the same folder. */
	bool inherited;
	struct folder *older; /* one that the parent had, or that was lost */
};

static struct folder *_Atomic folder; /* the newest */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static time_t written;
static long long counted; /* when the counters were last read: ms_now(), or 0 */

/* The program may be in a folder of a tree, or have one open: names without /sys lead to
 * files, then. */
static _Atomic bool inside;

/* How new a program wants the counters. */
enum counters { ANY, RECENT, NOW };

/* Writing the tree calls functions of this library. */
static __thread bool writing;

/* --- the folder -------------------------------------------------------------- */

static bool is_held(const struct folder *f)
{
	struct stat st;

	return f->held >= 0 && !fstat(f->held, &st) && st.st_dev == f->as.st_dev &&
	       st.st_ino == f->as.st_ino;
}

/* Removes what is in a folder, two levels of calls: names are those of driver/sysfs.c. */
static void empty_folder(int dir)
{
	DIR *d = fdopendir(dir);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (e->d_type == DT_DIR) {
			int sub = openat(dir, e->d_name,
					 O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

			if (sub >= 0)
				empty_folder(sub);
			unlinkat(dir, e->d_name, AT_REMOVEDIR);
		} else {
			unlinkat(dir, e->d_name, 0);
		}
	}
	if (d)
		closedir(d);
	else
		close(dir);
}

/* Removes the folder if no process holds it, and it is this user's. The lock is kept
 * until it is gone: its maker, who may be about to hold it, must not find it again. */
static void remove_unheld(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), dir;
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) || st.st_uid != geteuid() || flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		return;
	}
	dir = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	if (dir >= 0)
		empty_folder(dir);
	rmdir(path);
	close(fd);
}

/* Removes folders whose processes were killed. */
static void sweep_folders(const char *base)
{
	char path[PATH_MAX + NAME_MAX];
	DIR *d = opendir(base);
	struct dirent *e;

	while (d && (e = readdir(d))) {
		if (strncmp(e->d_name, prefix, sizeof(prefix) - 1) != 0)
			continue;
		snprintf(path, sizeof(path), "%s/%s", base, e->d_name);
		remove_unheld(path);
	}
	if (d)
		closedir(d);
}

/* Locks the folder; false also if another process has just removed it as one that nobody
 * held. */
static bool hold_folder(struct folder *f)
{
	struct stat st;
	int fd = open(f->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return false;
	f->held = fcntl(fd, F_DUPFD_CLOEXEC, HIGH); /* programs count on low numbers */
	if (f->held < 0)
		f->held = fd;
	else
		close(fd);
	if (!flock(f->held, LOCK_SH) && !fstat(f->held, &f->as) && !stat(f->root, &st) &&
	    st.st_ino == f->as.st_ino && st.st_dev == f->as.st_dev)
		return true;
	close(f->held);
	return false;
}

static bool make_in(struct folder *f, const char *base)
{
	int n;

	if (!base || *base != '/')
		return false;
	n = snprintf(f->root, sizeof(f->root), "%s/%sXXXXXX", base, prefix);
	if (n >= (int)sizeof(f->root) || !mkdtemp(f->root))
		return false;
	if (hold_folder(f)) {
		sweep_folders(base);
		return true;
	}
	rmdir(f->root);
	return false;
}

static struct folder *make_folder(void)
{
	struct folder *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	if (!make_in(f, secure_getenv("XDG_RUNTIME_DIR")) && !make_in(f, "/dev/shm") &&
	    !make_in(f, secure_getenv("TMPDIR")) && !make_in(f, "/tmp")) {
		free(f);
		return NULL;
	}
	f->older = folder;
	folder = f;
	return f;
}

/* Says once why the program finds no files, if it has loaded verbs: others read /sys for
 * other reasons. */
static void tell_no_place(void)
{
	static _Atomic bool told;
	void *verbs = dlopen("libibverbs.so.1", RTLD_LAZY | RTLD_NOLOAD);

	if (!verbs)
		return;
	dlclose(verbs);
	if (!atomic_exchange(&told, true))
		fprintf(stderr,
			"urnic: /sys/class/infiniband cannot be shown: no directory "
			"can be made in XDG_RUNTIME_DIR, /dev/shm, TMPDIR or /tmp; set "
			"TMPDIR to one that can be written\n");
}

/* Removes the folders, unless another process still has them: a child, or the parent. */
__attribute__((destructor)) static void end(void)
{
	writing = true;
	for (struct folder *f = folder; f; f = f->older) {
		if (!is_held(f))
			continue;
		close(f->held);
		remove_unheld(f->root);
	}
}

/* --- the tree ---------------------------------------------------------------- */

/* Without the lock: a constructor that another thread's dlopen() runs, while this one
 * waits, may look for files, too. */
static write_fn *find_writer(void)
{
	write_fn *found = write_tree;
	void *lib = found ? NULL : dlopen("liburnic.so", RTLD_NOW | RTLD_LOCAL);

	if (lib) {
		*(void **)&found = dlsym(lib, "sysfs_write");
		write_tree = found;
	}
	return found;
}

/* A thread that does not exist here may have held the lock. */
static void folder_forked(void)
{
	struct folder *f = folder;

	lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
	if (f)
		f->inherited = true;
}

static void watch_forks_once(void)
{
	(void)pthread_atfork(NULL, NULL, folder_forked);
}

/* The folder of this process, if it can still use it: it may have become another
 * user's. */
static struct folder *own_folder(void)
{
	struct folder *f = folder;

	if (!f || f->inherited || !is_held(f))
		return NULL;
	if (f->as.st_uid == geteuid() && access(f->root, F_OK) == 0)
		return f;
	close(f->held);
	f->held = -1;
	return NULL;
}

static long long ms_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (long long)t.tv_sec * MS + t.tv_nsec / 1000000;
}

/* Makes the folder and writes the tree where it is missing or old, and the values of the
 * counters, for which all processes are looked at, if they are wanted. */
static struct folder *write_now(write_fn *write, enum counters counters, bool *placeless)
{
	char where[PATH_MAX];
	time_t now = time(NULL);
	struct folder *f = own_folder();
	bool old = !f || now - written >= AGE;
	bool count =
		counters == NOW || (counters == RECENT &&
				    (!f || !counted || ms_now() - counted >= AGE * MS));
	unsigned what = (old ? SYSFS_TREE : 0) | (count ? SYSFS_COUNTERS : 0);

	if (!what)
		return f;
	if (!f)
		f = make_folder();
	*placeless = !f;
	if (!f || write(f->root, what, where))
		return NULL;
	if (old)
		written = now;
	if (count)
		counted = ms_now();
	return f;
}

/* Has the tree written, with counters as new as that.  Returns its folder, or NULL. */
static struct folder *prepare_folder(enum counters counters)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct folder *f = NULL;
	bool placeless = false;
	sigset_t signals;
	write_fn *write;
	int was;

	was = cancel_hold();
	signals_hold(&signals);
	writing = true;
	write = find_writer();
	pthread_once(&once, watch_forks_once);
	pthread_mutex_lock(&lock);
	if (write)
		f = write_now(write, counters, &placeless);
	pthread_mutex_unlock(&lock);
	if (placeless)
		tell_no_place();
	writing = false;
	signals_let(&signals);
	cancel_let(was);
	return f;
}

/* --- paths ------------------------------------------------------------------- */

/* Is path that one, or below it? */
static bool is_below(const char *path, const char *top, size_t len)
{
	return !strncmp(path, top, len) && (!path[len] || path[len] == '/');
}

/* Copies an absolute path without // and /./ ; links and .. stay.  false: too long. */
static bool tidy(const char *path, char out[SYS_MAX])
{
	size_t n = 0, len = strnlen(path, SYS_MAX);

	if (len >= SYS_MAX - 1)
		return false;
	for (const char *p = path; *p;) {
		size_t part = strcspn(p, "/");

		if (part && !(part == 1 && *p == '.')) {
			out[n++] = '/';
			memcpy(out + n, p, part);
			n += part;
		}
		p += part + (p[part] == '/');
	}
	if (len && (path[len - 1] == '/' || (len > 1 && !strcmp(path + len - 2, "/."))))
		out[n++] = '/'; /* it follows a link */
	out[n] = '\0';
	return true;
}

/* Finds the directory, or a part of it as long as size; false if it is unknown. */
static bool find_base(int dir, char *base, size_t size)
{
	char link[sizeof("/proc/self/fd/") + 10] = "/proc/self/cwd";
	size_t at = sizeof("/proc/self/fd/") - 1, digits = 0;
	ssize_t n;

	if (dir != AT_FDCWD) {
		for (int rest = dir; rest > 0 || !digits; rest /= 10)
			digits++;
		memcpy(link, "/proc/self/fd/", at);
		link[at + digits] = '\0';
		for (; digits; dir /= 10)
			link[at + --digits] = (char)('0' + dir % 10);
	}
	n = readlink(link, base, size - 1);
	if (n <= 0)
		return false;
	base[n] = '\0';
	return true;
}

/* The absolute form of the path that a program gave; "" if that cannot be known, or does
 * not lead to /sys.  Overwrites l->buf. */
static void find_whole(struct look *l, char whole[SYS_MAX])
{
	const char *path = l->given;
	size_t n, len = strnlen(path, SYS_MAX);

	*whole = '\0';
	if (*path != '/') {
		if (!find_base(l->dir, l->buf, sizeof(l->buf)))
			return;
		show_as_sys(l->buf);
		n = strlen(l->buf);
		if (n + len + 2 > sizeof(l->buf))
			return;
		l->buf[n] = '/';
		memcpy(l->buf + n + 1, path, len + 1);
		path = l->buf;
	}
	if (!tidy(path, whole))
		*whole = '\0';
}

/* The path belongs to urnic whether or not the kernel has such a file: it is that of a
 * class, or of the devices of an interface or PCI function. */
static bool is_ours(const char *whole)
{
	static const char *const parts[] = { "/infiniband", "/infiniband_verbs",
					     "/infiniband_mad" };
	static const char *const tops[] = { "/sys/class/infiniband", "/sys/class/net/",
					    "/sys/devices/", "/sys/bus/pci/devices/" };
	bool top = false;

	for (unsigned i = 0; i < sizeof(tops) / sizeof(*tops); i++)
		top = top || !strncmp(whole, tops[i], strlen(tops[i]));
	for (const char *at = whole; top && (at = strstr(at, parts[0])); at++)
		for (unsigned i = 0; i < sizeof(parts) / sizeof(*parts); i++)
			if (is_below(at, parts[i], strlen(parts[i])))
				return true;
	return false;
}

/* Who reads a folder of counters file by file looks at all processes once a second. */
static enum counters wanted_counters(const struct look *l, const char *whole)
{
	if (strstr(l->given, "counters"))
		return NOW;
	return strstr(whole, "counters") ? RECENT : ANY;
}

/* Puts the path in the tree into l. */
static __attribute__((noinline)) bool put_ours(struct look *l, const char *whole)
{
	int saved = errno;
	const struct folder *f = prepare_folder(wanted_counters(l, whole));
	bool done = f && snprintf(l->buf, sizeof(l->buf), "%s%s", f->root,
				  whole + sizeof(sys) - 1) < (int)sizeof(l->buf);

	errno = saved;
	if (done) {
		l->path = l->buf;
		inside = true;
	}
	return done;
}

/* Has the kernel devices of its own?  Only then do paths of ours lead anywhere else. */
static bool has_rivals(void)
{
	static _Atomic int has; /* 0: not known */

	if (!has)
		has = syscall(SYS_faccessat, AT_FDCWD, class, F_OK) ? -1 : 1;
	return has > 0;
}

/* Is it a counter by a name from within a tree, which may be another process's? */
static bool is_counter_inside(struct look *l)
{
	return *l->given != '/' && find_base(l->dir, l->buf, sizeof(l->buf)) &&
	       strstr(l->buf, prefix) &&
	       (strstr(l->given, "counters") || strstr(l->buf, "counters"));
}

/* Looks before the kernel does: paths of ours must not reach devices of the kernel's, nor
 * counters that are old. */
static __attribute__((noinline)) void look_first(struct look *l)
{
	char whole[SYS_MAX] = "";

	if (syscall(SYS_faccessat, l->dir, l->given, F_OK) && errno == EFAULT) {
		l->last = true;
	} else if (strstr(l->given, "infiniband") && has_rivals()) {
		find_whole(l, whole);
		l->last = is_ours(whole) && put_ours(l, whole);
	} else if (is_counter_inside(l)) {
		find_whole(l, whole);
		l->last = *whole && put_ours(l, whole);
	}
	errno = l->saved;
}

void look_for(struct look *l, int dir, const char *path)
{
	l->path = l->given = path;
	l->dir = dir;
	l->saved = errno;
	l->last = writing || !path;
	if (!l->last && (inside || has_rivals()))
		look_first(l);
}

/* The program may be started in a folder of another process's tree.  Sanitizers replace
 * readlink(), and are not ready yet. */
__attribute__((constructor)) static void begin(void)
{
	char cwd[SYS_MAX] = "";
	int saved = errno;

	syscall(SYS_readlinkat, AT_FDCWD, "/proc/self/cwd", cwd, sizeof(cwd) - 1);
	inside = strstr(cwd, prefix) != NULL;
	errno = saved; /* programs find 0 */
}

/* Below the bus and its class, which the kernel lists, the tree has functions in domains
 * of ours (driver/sysfs_pci.c), and the devices of the kernel's functions. */
static bool is_of_bus(const char *whole)
{
	static const char functions[] = "/sys/bus/pci/devices/",
			  buses[] = "/sys/class/pci_bus/ff";

	if (!strncmp(whole, buses, sizeof(buses) - 1))
		return true;
	if (strncmp(whole, functions, sizeof(functions) - 1) != 0)
		return false;
	return !strncmp(whole + sizeof(functions) - 1, "ff", 2) ||
	       strstr(whole, "/infiniband");
}

/* Can the tree have what the path, perhaps a pattern, names?  The kernel lacks much below
 * /sys for which nobody needs the tree. */
static bool is_of_tree(const char *whole)
{
	static const char *const tops[] = { "/sys/class/infiniband", "/sys/class/net/",
					    "/sys/devices/" };
	static const char never[] = "/sys/devices/system/";
	size_t plain = strcspn(whole, "*?[\\");

	if (plain < sizeof(sys) - 1 || !strncmp(whole, never, sizeof(never) - 1))
		return false;
	for (unsigned i = 0; i < sizeof(tops) / sizeof(*tops); i++) {
		size_t n = strlen(tops[i]);

		if (!strncmp(whole, tops[i], plain < n ? plain : n))
			return true;
	}
	return is_of_bus(whole);
}

/* The kernel has no such file: does the tree? */
static __attribute__((noinline)) bool look_in_tree(struct look *l)
{
	char whole[SYS_MAX];

	find_whole(l, whole);
	return is_of_tree(whole) && put_ours(l, whole);
}

bool look_on(struct look *l)
{
	int error = errno;

	if (l->last || (error != ENOENT && error != ENOTDIR))
		return false;
	l->last = true;
	if (*l->given == '/' && strncmp(l->given, sys, sizeof(sys) - 1) != 0 &&
	    !strchr("/.", l->given[1]))
		return false;
	errno = look_in_tree(l) ? l->saved : error;
	return l->path == l->buf;
}

void look_until_there(struct look *l)
{
	while (l->path && syscall(SYS_faccessat, l->dir, l->path, F_OK) && look_on(l))
		;
	errno = l->saved;
}

void show_as_sys(char *path)
{
	const size_t len = sizeof(prefix) - 1 + UNIQUE;
	char *at = path;

	while ((at = strstr(at, prefix)) && (at == path || at[-1] != '/'))
		at++;
	if (!at || strnlen(at, len + 1) < len || (at[len] && at[len] != '/'))
		return;
	memcpy(path, sys, sizeof(sys) - 1);
	memmove(path + sizeof(sys) - 1, at + len, strlen(at + len) + 1);
}

void keep_for_programs(void)
{
	const struct folder *f = folder;

	if (f && is_held(f))
		fcntl(f->held, F_SETFD, 0);
}

bool is_unused_entry(const char *path)
{
	const char *at = strstr(path, "/gid_attrs/"), *name = strrchr(path, '/');
	const struct folder *f = folder;
	char gid[PATH_MAX];

	if (!at || !f || !is_below(path, f->root, strlen(f->root)))
		return false;
	snprintf(gid, sizeof(gid), "%.*s/gids%s", (int)(at - path), path, name);
	return faccessat(AT_FDCWD, gid, F_OK, 0) == 0;
}
