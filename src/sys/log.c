/* SPDX-License-Identifier: BSD-2-Clause */
/* log.c - writes log lines; see log.h.  Nothing that writes a line allocates or takes a
 * lock, so it may be written after fork and with any lock held. */
#include "sys/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
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
static bool in_json, in_colour;
static atomic_uint hints;

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
static int expand_name(char *out, size_t size, const char *file)
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
		rc = expand_name(path, sizeof(path), spec + len + 1);
		if (rc)
			return rc;
		fd = open_log(path);
		if (fd < 0)
			return -errno;
		close(fd);
	}
	memcpy(log_path, path, sizeof(path));
	log_level = (enum log_level)level;
	in_colour = !path[0] && log_may_colour();
	return 0;
}

bool log_may_colour(void)
{
	const char *no = getenv("NO_COLOR"), *term = getenv("TERM");

	return !(no && *no) && term && strcmp(term, "dumb") != 0;
}

void log_use_json(bool json)
{
	in_json = json;
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

/* --- a line as text ------------------------------------------------------ */

static size_t text_head(char *line, size_t size, enum log_level level)
{
	static const char *const colour[LEVELS] = {
		[LOG_ERROR] = "\033[31m",
		[LOG_WARN] = "\033[33m",
	};
	const char *on =
		colour[level] && in_colour && isatty(STDERR_FILENO) ? colour[level] : "";

	return (size_t)snprintf(line, size, "urnic[%d] %s%s%s: ", (int)getpid(), on,
				level_name[level], *on ? "\033[0m" : "");
}

/* --- a line as JSON ------------------------------------------------------ */

/* Escapes text as the inside of a string, as far as there is room; bytes that are not
 * ASCII become the characters of those numbers. Returns the length. */
static size_t escape_text(char *out, size_t size, const char *text)
{
	size_t n = 0;

	for (; *text && n + 7 < size; text++) {
		const unsigned char c = (unsigned char)*text;

		if (c < ' ' || c > '~')
			n += (size_t)snprintf(out + n, 7, "\\u%04x", c);
		else if (c == '"' || c == '\\')
			n += (size_t)snprintf(out + n, 7, "\\%c", c);
		else
			out[n++] = *text;
	}
	return n;
}

/* Writes the name of the folder that the source file is in. */
static void room_of(const char *file, char *room, size_t size)
{
	const char *end = strrchr(file, '/'), *start = end;

	while (start && start > file && start[-1] != '/')
		start--;
	snprintf(room, size, "%.*s", end ? (int)(end - start) : 0, end ? start : "");
}

static size_t json_line(char *line, size_t size, const struct log_from *from,
			const char *text)
{
	char room[32];
	struct timespec t;
	size_t n;

	room_of(from->file, room, sizeof(room));
	clock_gettime(CLOCK_REALTIME, &t);
	n = (size_t)snprintf(line, size,
			     "{\"time\": %lld.%06ld, \"pid\": %d, \"level\": \"%s\", "
			     "\"room\": \"%s\", ",
			     (long long)t.tv_sec, t.tv_nsec / 1000, (int)getpid(),
			     level_name[from->level], room);
	if (strncmp(text, "QP 0x", 5) == 0)
		n += (size_t)snprintf(line + n, size - n, "\"qpn\": %lu, ",
				      strtoul(text + 3, NULL, 16));
	if (from->wc)
		n += (size_t)snprintf(line + n, size - n,
				      "\"status\": \"%s\", \"vendor_err\": %u, ",
				      from->wc->status, from->wc->vendor_err);
	n += (size_t)snprintf(line + n, size - n, "\"text\": \"");
	n += escape_text(line + n, size - n - sizeof("\"}\n"), text);
	return n + (size_t)snprintf(line + n, size - n, "\"}");
}

/* --- either -------------------------------------------------------------- */

void log_line(struct log_from from, const char *fmt, ...)
{
	char text[LOG_LINE], line[2 * LOG_LINE];
	size_t len = 0;
	int saved = errno;
	va_list ap;

	if (from.level > log_level)
		return;
	if (!in_json)
		len = text_head(line, sizeof(line), from.level);
	va_start(ap, fmt);
	/* A text that is too long ends with "...". */
	if (vsnprintf(text, LOG_LINE - 1 - len, fmt, ap) >= (int)(LOG_LINE - 1 - len))
		memcpy(text + LOG_LINE - 5 - len, "...", 4);
	va_end(ap);
	len = in_json ? json_line(line, sizeof(line), &from, text)
		      : len + (size_t)snprintf(line + len, sizeof(line) - len, "%s",
					       text);
	line[len++] = '\n';
	put_line(line, len);
	errno = saved;
}

bool log_hint_left(void)
{
	return log_level >= LOG_WARN && atomic_load(&hints) < LOG_HINTS &&
	       atomic_fetch_add(&hints, 1) < LOG_HINTS;
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
