/* SPDX-License-Identifier: BSD-2-Clause */
/* sysfs_tree.c - see sysfs_tree.h. */
#include "driver/sysfs_tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* Says that the folder is a tree's. */
static const char mark[] = ".urnic";

enum { FOLDERS_OPEN = 8 };

/* Is name safe as a file's name?  A fabric, which chooses some, may be another user's. */
static bool is_name(const char *name)
{
	return *name && *name != '.' && !strchr(name, '/');
}

/* Appends "/name" to the path.  Returns its old length. */
static size_t append_name(struct tree *t, const char *name)
{
	size_t was = t->len, room = sizeof(t->path) - was;
	int n;

	if (t->rc) /* the path is that of the error */
		return was;
	n = snprintf(t->path + was, room, "/%s", name);
	if (n < 0 || (size_t)n >= room) {
		t->path[was] = '\0';
		t->rc = -ENAMETOOLONG;
	} else {
		t->len += (size_t)n;
	}
	return was;
}

void tree_leave(struct tree *t, size_t was)
{
	if (!t->rc) {
		t->len = was;
		t->path[was] = '\0';
	}
}

size_t tree_enter(struct tree *t, const char *name)
{
	size_t was;

	if (!t->rc && !is_name(name))
		t->rc = -EBADMSG;
	was = append_name(t, name);
	if (t->rc || t->live || !mkdir(t->path, 0755))
		return was;
	/* A folder that stays empty must be as new as the round, too. */
	if (errno != EEXIST || utimensat(AT_FDCWD, t->path, NULL, 0))
		t->rc = -errno;
	return was;
}

size_t tree_enter_path(struct tree *t, const char *path)
{
	size_t was = t->len;
	char name[NAME_MAX + 1];

	for (; *path && !t->rc; path += strspn(path, "/")) {
		size_t n = strcspn(path, "/");

		snprintf(name, sizeof(name), "%.*s", (int)n, path);
		tree_enter(t, name);
		path += n;
	}
	return was;
}

/* Writes a file beside its place. */
static int put_text(const char *path, const char *text)
{
	const int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
	size_t len = strlen(text);
	ssize_t n;
	int fd, rc;

	fd = open(path, flags, 0444);
	if (fd < 0 && errno == EEXIST) { /* a round was broken off */
		unlink(path);
		fd = open(path, flags, 0444);
	}
	if (fd < 0)
		return -errno;
	n = write(fd, text, len);
	rc = n == (ssize_t)len ? 0 : n < 0 ? -errno : -ENOSPC;
	if (close(fd) && !rc)
		rc = -errno;
	if (rc)
		unlink(path);
	return rc;
}

static void next_of(const struct tree *t, const char *name, char next[PATH_MAX + 80])
{
	snprintf(next, PATH_MAX + 80, "%.*s/.%.64s", (int)t->len, t->path, name);
}

/* Puts a file or link called next into its place, which t->path names. */
static void move_to(struct tree *t, const char *next)
{
	if (!t->rc && rename(next, t->path))
		t->rc = -errno;
}

void tree_text(struct tree *t, const char *name, const char *text)
{
	char next[PATH_MAX + 80];
	size_t was;

	next_of(t, name, next);
	if (!t->rc && !is_name(name))
		t->rc = -EBADMSG;
	was = append_name(t, name);
	if (!t->rc)
		t->rc = put_text(next, text);
	move_to(t, next);
	tree_leave(t, was);
}

void tree_file(struct tree *t, const char *name, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(text, sizeof(text) - 1, fmt, ap);
	va_end(ap);
	if (n < 0 || n >= (int)sizeof(text) - 1)
		n = sizeof(text) - 2;
	text[n] = '\n';
	text[n + 1] = '\0';
	tree_text(t, name, text);
}

void tree_link(struct tree *t, const char *name, const char *target)
{
	char next[PATH_MAX + 80];
	size_t was;

	next_of(t, name, next);
	if (!t->rc && !is_name(name))
		t->rc = -EBADMSG;
	was = append_name(t, name);
	if (!t->rc) {
		unlink(next);
		if (symlink(target, next))
			t->rc = -errno;
	}
	move_to(t, next);
	tree_leave(t, was);
}

/* --- a round ----------------------------------------------------------------- */

static int must_be_empty(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	int rc = 0;

	if (!dir)
		return -errno;
	while (!rc && (e = readdir(dir)))
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			rc = -ENOTEMPTY;
	closedir(dir);
	return rc;
}

/* Another user could put links in the way, at any time. */
static int must_be_own(const char *path)
{
	struct stat st;

	if (stat(path, &st))
		return -errno;
	return st.st_uid != geteuid() || st.st_mode & S_IWOTH ? -EPERM : 0;
}

/* Marks the folder as a tree's; what is older than the mark is not of this round. */
static int put_mark(struct tree *t)
{
	char path[PATH_MAX + 80];
	int rc = t->made ? 0 : must_be_own(t->path);

	snprintf(path, sizeof(path), "%s/%s", t->path, mark);
	t->fresh = access(path, F_OK) != 0;
	if (!rc && t->fresh && !t->made)
		rc = must_be_empty(t->path);
	if (!rc)
		rc = put_text(path,
			      "urnic's: what is here is written anew and removed\n");
	if (!rc && lstat(path, &t->mark))
		rc = -errno;
	return rc;
}

void tree_begin(struct tree *t, const char *root, bool live)
{
	size_t n = strlen(root);

	*t = (struct tree){ .live = live };
	if (n >= sizeof(t->path)) {
		t->rc = -ENAMETOOLONG;
		n = 0;
	}
	memcpy(t->path, root, n);
	t->len = t->root = n;
	if (t->rc || live)
		return;
	t->made = mkdir(t->path, 0755) == 0;
	if (!t->made && errno != EEXIST)
		t->rc = -errno;
	else
		t->rc = put_mark(t);
	if (t->rc)
		t->fresh = false;
}

static bool is_older(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec < b->tv_sec ||
	       (a->tv_sec == b->tv_sec && a->tv_nsec < b->tv_nsec);
}

static __thread const struct timespec *oldest; /* NULL: nothing stays */

static int remove_old(const char *path, const struct stat *st, int type, struct FTW *at)
{
	/* A folder's st is of before its files were removed. */
	if (!at->level || (oldest && !is_older(&st->st_ctim, oldest)))
		return 0;
	if (type == FTW_DP || type == FTW_DNR)
		rmdir(path);
	else
		unlink(path);
	return 0;
}

static void clean(const char *root, const struct timespec *from)
{
	oldest = from;
	nftw(root, remove_old, FOLDERS_OPEN, FTW_DEPTH | FTW_PHYS);
}

void tree_remove(const char *root)
{
	clean(root, NULL);
	rmdir(root);
}

int tree_end(struct tree *t)
{
	char root[PATH_MAX];

	snprintf(root, sizeof(root), "%.*s", (int)t->root, t->path);
	if (t->live)
		return t->rc;
	if (t->fresh ? t->rc != 0 : !t->rc)
		clean(root, t->fresh ? NULL : &t->mark.st_ctim);
	if (t->rc && t->made)
		rmdir(root);
	return t->rc;
}
