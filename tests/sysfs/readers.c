/* SPDX-License-Identifier: BSD-2-Clause */
/* readers.c - reads a file and a folder of /sys/class/infiniband/DEVICE by every function
 * that programs use. One line for each function: its name and what it found.
 *
 * usage: readers DEVICE */
#undef _FILE_OFFSET_BITS
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char dir[200], file[200], dev[200], at_root[200];

static void say(const char *what, const char *found)
{
	printf("%s: %s\n", what, found ? found : strerror(errno));
}

static void say_fd(const char *what, int fd)
{
	char text[40] = "";
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	say(what, n < 0 ? NULL : strtok(text, "\n"));
	if (fd >= 0)
		close(fd);
}

static void say_stream(const char *what, FILE *f)
{
	char text[40];

	say(what, f && fgets(text, sizeof(text), f) ? strtok(text, "\n") : NULL);
	if (f)
		fclose(f);
}

/* What the compiler cannot see, so that it calls the checking functions. */
static volatile int rdonly = O_RDONLY;

static void opens(void)
{
	int root = open("/", O_PATH | O_DIRECTORY), class, cwd;
	FILE *f;

	say_fd("open", open(file, O_RDONLY));
	say_fd("open64", open64(file, O_RDONLY));
	say_fd("__open_2", open(file, rdonly));
	say_fd("__open64_2", open64(file, rdonly));
	say_fd("openat", openat(AT_FDCWD, file, O_RDONLY));
	say_fd("openat64", openat64(AT_FDCWD, file, O_RDONLY));
	say_fd("__openat_2", openat(AT_FDCWD, file, rdonly));
	say_fd("__openat64_2", openat64(AT_FDCWD, file, rdonly));
	say_fd("openat root", openat(root, at_root, O_RDONLY));
	class = open(dir, O_PATH | O_DIRECTORY);
	say_fd("openat dir", openat(class, "node_type", O_RDONLY));
	cwd = open(".", O_PATH);
	say("chdir", chdir(dir) ? NULL : "done");
	say_fd("open here", open("node_type", O_RDONLY));
	say("fchdir", fchdir(cwd) ? NULL : "done");
	say_stream("fopen", fopen(file, "r"));
	say_stream("fopen64", fopen64(file, "r"));
	f = fopen("/dev/null", "r");
	say_stream("freopen", freopen(file, "r", f));
	f = fopen("/dev/null", "r");
	say_stream("freopen64", freopen64(file, "r", f));
}

/* A file that is made gets the mode, the variable argument. */
static void modes(void)
{
	static const char *const names[] = { "mode of open", "mode of open64",
					     "mode of openat", "mode of openat64" };
	const int flags = O_RDWR | O_CREAT | O_EXCL;
	char path[40];
	struct stat st;
	int fd;

	umask(0);
	for (unsigned i = 0; i < 4; i++) {
		const mode_t mode = 0640 + i;

		snprintf(path, sizeof(path), "/tmp/readers-%d", getpid());
		fd = i == 0   ? open(path, flags, mode)
		     : i == 1 ? open64(path, flags, mode)
		     : i == 2 ? openat(AT_FDCWD, path, flags, mode)
			      : openat64(AT_FDCWD, path, flags, mode);
		say(names[i], fd >= 0 && !fstat(fd, &st) && (st.st_mode & 0777) == mode
				      ? "kept"
				      : NULL);
		unlink(path);
	}
}

static const char *kind(int rc, unsigned mode)
{
	return rc ? NULL : S_ISREG(mode) ? "file" : S_ISLNK(mode) ? "link" : "folder";
}

static void stats(void)
{
	struct stat64 st64;
	struct statx stx;
	struct stat st;
	int rc;

	rc = stat(file, &st);
	say("stat", kind(rc, st.st_mode));
	rc = stat64(dev, &st64);
	say("stat64", kind(rc, st64.st_mode));
	rc = lstat(dev, &st);
	say("lstat", kind(rc, st.st_mode));
	rc = lstat64(dev, &st64);
	say("lstat64", kind(rc, st64.st_mode));
	rc = fstatat(AT_FDCWD, dev, &st, 0);
	say("fstatat", kind(rc, st.st_mode));
	rc = fstatat64(AT_FDCWD, dev, &st64, AT_SYMLINK_NOFOLLOW);
	say("fstatat64", kind(rc, st64.st_mode));
	rc = statx(AT_FDCWD, file, 0, STATX_MODE, &stx);
	say("statx", kind(rc, stx.stx_mode));
	say("access", access(file, R_OK) ? NULL : "yes");
	say("access to write", access(file, W_OK) ? NULL : "yes");
	say("euidaccess", euidaccess(file, R_OK) ? NULL : "yes");
	say("faccessat", faccessat(AT_FDCWD, file, R_OK, AT_EACCESS) ? NULL : "yes");
	say("open to write", open(file, O_WRONLY) < 0 ? NULL : "yes");
	say("fopen to write", fopen(file, "w") ? "yes" : NULL);
}

static volatile size_t most = PATH_MAX;

static void links(void)
{
	char buf[PATH_MAX], *p;
	ssize_t n;

	n = readlink(dev, buf, sizeof(buf));
	say("readlink", n < 0 ? NULL : strndup(buf, (size_t)n));
	n = readlink(dev, buf, most);
	say("__readlink_chk", n < 0 ? NULL : strndup(buf, (size_t)n));
	n = readlinkat(AT_FDCWD, dev, buf, sizeof(buf));
	say("readlinkat", n < 0 ? NULL : strndup(buf, (size_t)n));
	n = readlinkat(AT_FDCWD, dev, buf, most);
	say("__readlinkat_chk", n < 0 ? NULL : strndup(buf, (size_t)n));
	say("realpath", realpath(dev, NULL));
	say("__realpath_chk", realpath(dev, buf));
	say("canonicalize_file_name", canonicalize_file_name(dev));
	p = realpath(dev, NULL);
	snprintf(buf, sizeof(buf), "%s/vendor", p ? p : "");
	say("below realpath", access(buf, R_OK) ? NULL : "yes");
}

static const char *seen;

static int see(const char *path, const struct stat *st, int type)
{
	(void)st, (void)type;
	if (!strcmp(path, file))
		seen = "found";
	return 0;
}

static int nsee(const char *path, const struct stat *st, int type, struct FTW *at)
{
	return strcmp(path + at->base, strrchr(path, '/') + 1) ? 1 : see(path, st, type);
}

static int see64(const char *path, const struct stat64 *st, int type)
{
	return see(path, (const struct stat *)st, type);
}

static int nsee64(const char *path, const struct stat64 *st, int type, struct FTW *at)
{
	return nsee(path, (const struct stat *)st, type, at);
}

static int is_type(const struct dirent *e)
{
	return !strcmp(e->d_name, "node_type");
}

static int is_type64(const struct dirent64 *e)
{
	return !strcmp(e->d_name, "node_type");
}

static void say_seen(const char *what, int rc)
{
	say(what, rc ? "broken off" : seen ? seen : "not found");
	seen = NULL;
}

static void say_glob(const char *what, int rc, const char *path)
{
	say(what, rc ? "no match" : path);
}

static void walks(void)
{
	DIR *d = opendir(dir);
	struct dirent64 **list64;
	struct dirent **list;
	glob_t g;
	glob64_t g64;
	char pattern[220];
	int rc;

	for (struct dirent *e; d && (e = readdir(d));)
		if (is_type(e))
			seen = "found";
	say_seen("opendir", d == NULL);
	rc = scandir(dir, &list, is_type, alphasort);
	say("scandir", rc == 1 ? list[0]->d_name : "not found");
	rc = scandir64(dir, &list64, is_type64, alphasort64);
	say("scandir64", rc == 1 ? list64[0]->d_name : "not found");
	say_seen("ftw", ftw(dir, see, 8));
	say_seen("ftw64", ftw64(dir, see64, 8));
	say_seen("nftw", nftw(dir, nsee, 8, 0));
	say_seen("nftw64", nftw64(dir, nsee64, 8, 0));
	snprintf(pattern, sizeof(pattern), "%s/node_t*", dir);
	rc = glob(pattern, 0, NULL, &g);
	say_glob("glob", rc, rc ? NULL : g.gl_pathv[0]);
	rc = glob64(pattern, 0, NULL, &g64);
	say_glob("glob64", rc, rc ? NULL : g64.gl_pathv[0]);
	rc = glob("/nonexistent/*", GLOB_NOCHECK, NULL, &g);
	say_glob("glob of nothing", rc, rc ? NULL : g.gl_pathv[0]);
}

int main(int argc, char **argv)
{
	if (argc != 2)
		return 2;
	snprintf(dir, sizeof(dir), "/sys/class/infiniband/%.60s", argv[1]);
	snprintf(file, sizeof(file), "%.120s/node_type", dir);
	snprintf(dev, sizeof(dev), "%.120s/device", dir);
	snprintf(at_root, sizeof(at_root), "%s", file + 1);
	opens();
	modes();
	stats();
	links();
	walks();
	return 0;
}
