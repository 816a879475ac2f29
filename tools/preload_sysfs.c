/* SPDX-License-Identifier: BSD-2-Clause */
/* preload_sysfs.c - see preload_sysfs.h.
 *
 * The tree lies in a folder of this process, which it makes when a program first asks for
 * such a file, and removes when it ends.  The folder is locked as long as the process or
 * a child of it (fork) lives; those that nobody holds any more, since their process was
 * killed, are removed by the next process that makes one. */
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

static const char sys[] = "/sys";
static const char class[] = "/sys/class/infiniband";
static const char prefix[] = "urnic-sysfs-";

enum {
	AGE = 1,    /* seconds, after which the tree is written anew */
	UNIQUE = 6, /* characters that mkdtemp() chooses */
	HIGH = 256, /* descriptors below are left to the program */
};

/* liburnic.so's; see nic/sysfs.h. */
typedef int write_fn(const char *root, bool live, char where[PATH_MAX]);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* guards what follows */
static write_fn *write_tree;
static char root[PATH_MAX]; /* "": there is no tree */
static int held = -1;	    /* the locked folder */
static struct stat held_as;
static time_t written;
static bool told;

/* Writing the tree calls functions of this library. */
static __thread bool writing;

/* --- the folder -------------------------------------------------------------- */

static bool is_held(void)
{
	struct stat st;

	return held >= 0 && !fstat(held, &st) && st.st_dev == held_as.st_dev &&
	       st.st_ino == held_as.st_ino;
}

/* Removes what is in a folder, two levels of calls: names are those of nic/sysfs.c. */
static void empty(int dir)
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
				empty(sub);
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

/* Removes the folder if no process holds it, and it is this user's. */
static void remove_unheld(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd < 0)
		return;
	if (fstat(fd, &st) || st.st_uid != geteuid() || flock(fd, LOCK_EX | LOCK_NB)) {
		close(fd);
		return;
	}
	empty(fd);
	rmdir(path);
}

/* Removes folders whose processes were killed. */
static void sweep(const char *base)
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
static bool hold(void)
{
	struct stat st;
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		return false;
	held = fcntl(fd, F_DUPFD_CLOEXEC, HIGH); /* programs count on low numbers */
	if (held < 0)
		held = fd;
	else
		close(fd);
	return !flock(held, LOCK_SH) && !fstat(held, &held_as) && !stat(root, &st) &&
	       st.st_ino == held_as.st_ino && st.st_dev == held_as.st_dev;
}

static bool make_in(const char *base)
{
	if (!base || *base != '/' || strlen(base) > PATH_MAX / 2)
		return false;
	snprintf(root, sizeof(root), "%s/%sXXXXXX", base, prefix);
	if (mkdtemp(root)) {
		if (hold()) {
			sweep(base);
			return true;
		}
		rmdir(root);
	}
	*root = '\0';
	return false;
}

static bool make_root(void)
{
	if (make_in(secure_getenv("XDG_RUNTIME_DIR")) || make_in("/dev/shm") ||
	    make_in(secure_getenv("TMPDIR")) || make_in("/tmp"))
		return true;
	if (!told)
		fprintf(stderr,
			"urnic: /sys/class/infiniband cannot be shown: no directory "
			"can be made in XDG_RUNTIME_DIR, /dev/shm, TMPDIR or /tmp; set "
			"TMPDIR to one that can be written\n");
	told = true;
	return false;
}

/* Removes the folder, unless a child of this process still has it. */
__attribute__((destructor)) static void end(void)
{
	if (!*root || !is_held())
		return;
	writing = true;
	close(held);
	remove_unheld(root);
}

/* --- the tree ---------------------------------------------------------------- */

static bool find_writer(void)
{
	void *lib;

	if (write_tree)
		return true;
	lib = dlopen("liburnic.so", RTLD_NOW | RTLD_LOCAL);
	if (lib)
		*(void **)&write_tree = dlsym(lib, "sysfs_write");
	return write_tree;
}

static void before_fork(void)
{
	pthread_mutex_lock(&lock);
}

static void after_fork(void)
{
	pthread_mutex_unlock(&lock);
}

/* Makes the folder and writes the tree where it is missing or old. */
static bool write_now(bool live)
{
	char where[PATH_MAX];
	time_t now = time(NULL);
	bool there = *root && is_held() && access(root, F_OK) == 0;

	if (there && !live && now - written < AGE)
		return true;
	if (!find_writer() || (!there && !make_root()))
		return false;
	live = live && there && now - written < AGE;
	if (write_tree(root, live, where))
		return false;
	if (!live)
		written = now;
	return true;
}

/* Has the tree written; live: the counters, too. */
static bool prepare(bool live)
{
	static bool watched;
	bool done;
	int state;

	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	writing = true;
	pthread_mutex_lock(&lock);
	if (!watched)
		watched = !pthread_atfork(before_fork, after_fork, after_fork);
	done = write_now(live);
	pthread_mutex_unlock(&lock);
	writing = false;
	pthread_setcancelstate(state, NULL);
	return done;
}

/* --- paths ------------------------------------------------------------------- */

/* Is path that one, or below it? */
static bool is_below(const char *path, const char *top, size_t len)
{
	return !strncmp(path, top, len) && (!path[len] || path[len] == '/');
}

/* Copies an absolute path without // and /./ ; links and .. stay.  false: too long. */
static bool tidy(const char *path, char out[PATH_MAX])
{
	size_t n = 0, len = strlen(path);

	if (len >= PATH_MAX - 1)
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

/* The absolute form of a path that a program gave with a directory; "" if that cannot be
 * known, or does not lead to /sys. */
static void find_whole(int dir, const char *path, char whole[PATH_MAX])
{
	char base[PATH_MAX] = "", link[40], both[2 * PATH_MAX];
	ssize_t n;

	if (*path == '/') {
		if (!tidy(path, whole))
			*whole = '\0';
		return;
	}
	*whole = '\0';
	if (dir == AT_FDCWD)
		snprintf(link, sizeof(link), "/proc/self/cwd");
	else
		snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	n = readlink(link, base, sizeof(base) - 1);
	if (n <= 0)
		return;
	base[n] = '\0';
	show_as_sys(base);
	snprintf(both, sizeof(both), "%s/%s", base, path);
	if (!tidy(both, whole))
		*whole = '\0';
}

/* The path belongs to urnic whether or not the kernel has such a file. */
static bool is_ours(const char *whole)
{
	static const char *const more[] = { "", "_verbs", "_mad" };

	if (strncmp(whole, class, sizeof(class) - 1) != 0)
		return false;
	for (unsigned i = 0; i < sizeof(more) / sizeof(*more); i++)
		if (is_below(whole + sizeof(class) - 1, more[i], strlen(more[i])))
			return true;
	return false;
}

/* Puts the path in the tree into l. */
static bool put_ours(struct look *l, const char *whole)
{
	int saved = errno;
	bool done = prepare(strstr(whole, "counters") != NULL);

	errno = saved;
	if (done)
		done = snprintf(l->buf, sizeof(l->buf), "%s%s", root,
				whole + sizeof(sys) - 1) < (int)sizeof(l->buf);
	if (done)
		l->path = l->buf;
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

void look_for(struct look *l, int dir, const char *path)
{
	char whole[PATH_MAX];

	l->path = l->given = path;
	l->dir = dir;
	l->saved = errno;
	l->last = writing || !path;
	if (l->last || !has_rivals())
		return;
	if (syscall(SYS_faccessat, dir, path, F_OK) && errno == EFAULT) {
		l->last = true;
	} else if (strstr(path, "infiniband")) {
		find_whole(dir, path, whole);
		l->last = is_ours(whole) && put_ours(l, whole);
	}
	errno = l->saved;
}

bool look_on(struct look *l)
{
	char whole[PATH_MAX];
	int error = errno;

	if (l->last || (error != ENOENT && error != ENOTDIR))
		return false;
	l->last = true;
	if (*l->given == '/' && strncmp(l->given, sys, sizeof(sys) - 1) != 0 &&
	    !strchr("/.", l->given[1]))
		return false;
	find_whole(l->dir, l->given, whole);
	if (!is_below(whole, sys, sizeof(sys) - 1) || !put_ours(l, whole)) {
		errno = error;
		return false;
	}
	errno = l->saved;
	return true;
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

bool is_unused_entry(const char *path)
{
	const char *at = strstr(path, "/gid_attrs/"), *name = strrchr(path, '/');
	char gid[PATH_MAX];
	size_t n = strlen(root);

	if (!at || !n || !is_below(path, root, n))
		return false;
	snprintf(gid, sizeof(gid), "%.*s/gids%s", (int)(at - path), path, name);
	return faccessat(AT_FDCWD, gid, F_OK, 0) == 0;
}
