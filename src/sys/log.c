/* SPDX-License-Identifier: BSD-2-Clause */
/* log.c - writes log lines; see log.h.  Nothing here allocates or takes a lock, so a line
 * may be written after fork and with any lock held. */
#include "sys/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sys/cancel.h"
#include "sys/clock.h"

static const char *const level_name[] = {
	[LOG_ERROR] = "error",
	[LOG_WARN] = "warn",
	[LOG_INFO] = "info",
	[LOG_DEBUG] = "debug",
};
enum { LEVELS = sizeof(level_name) / sizeof(level_name[0]) };

enum log_level log_level = LOG_WARN;
static char log_path[PATH_MAX]; /* absolute; "": stderr */

static int find_level(const char *name, size_t len)
{
	for (int i = 0; i < LEVELS; i++) {
		if (strlen(level_name[i]) == len &&
		    strncmp(level_name[i], name, len) == 0)
			return i;
	}
	return -EINVAL;
}

int log_set_level(const char *level)
{
	int l = find_level(level, strlen(level));

	if (l < 0)
		return l;
	log_level = (enum log_level)l;
	return 0;
}

/* Replaces %p in file and makes it absolute, since the program may change directory. */
static int expand(char *out, size_t size, const char *file)
{
	size_t n = 0;

	if (file[0] != '/') {
		if (!getcwd(out, size - 1))
			return -errno;
		n = strlen(out);
		out[n++] = '/';
	}
	for (; *file; file++) {
		int w = 1;

		if (n + 16 >= size)
			return -ENAMETOOLONG;
		if (file[0] == '%' && file[1] == 'p') {
			w = snprintf(out + n, 16, "%d", (int)getpid());
			file++;
		} else {
			out[n] = *file;
		}
		n += (size_t)w;
	}
	out[n] = '\0';
	return 0;
}

static int open_log(const char *path)
{
	return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);
}

int log_setup(const char *spec)
{
	size_t len = strcspn(spec, ":");
	int level = find_level(spec, len), fd, rc;
	char path[PATH_MAX] = "";

	if (level < 0)
		return level;
	if (spec[len] == ':') {
		if (!spec[len + 1])
			return -EINVAL;
		rc = expand(path, sizeof(path), spec + len + 1);
		if (rc)
			return rc;
		fd = open_log(path);
		if (fd < 0)
			return -errno;
		close(fd);
	}
	memcpy(log_path, path, sizeof(path));
	log_level = (enum log_level)level;
	return 0;
}

static void put_line(const char *line, size_t n)
{
	int fd = STDERR_FILENO, was = cancel_hold();
	ssize_t done;

	if (log_path[0])
		fd = open_log(log_path);
	if (fd < 0)
		fd = STDERR_FILENO;
	do
		done = write(fd, line, n);
	while (done < 0 && errno == EINTR);
	if (fd != STDERR_FILENO)
		close(fd);
	cancel_let(was);
}

void log_line(enum log_level level, const char *fmt, ...)
{
	char line[LOG_LINE];
	int saved = errno, n, m;
	va_list ap;
	size_t len;

	if (level > log_level)
		return;
	n = snprintf(line, sizeof(line), "urnic[%d] %s: ", (int)getpid(),
		     level_name[level]);
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - (size_t)n, fmt, ap);
	va_end(ap);
	len = (size_t)n + (m > 0 ? (size_t)m : 0);
	if (len > sizeof(line) - 2) {
		len = sizeof(line) - 2;
		memcpy(line + len - 3, "...", 3);
	}
	line[len++] = '\n';
	put_line(line, len);
	errno = saved;
}

bool log_allowed(uint64_t *last_ns)
{
	uint64_t now = clock_ns(), last;

	last = __atomic_load_n(last_ns, __ATOMIC_RELAXED);
	if (last && now - last < 1000000000u)
		return false;
	return __atomic_compare_exchange_n(last_ns, &last, now, false, __ATOMIC_RELAXED,
					   __ATOMIC_RELAXED);
}
