/* SPDX-License-Identifier: BSD-2-Clause */
/* log.h - writes lines to stderr (or URNIC_LOG's file), one write(2) each: text, or an
 * object of JSON (URNIC_LOG_FORMAT).
 *
 * A line says what was decided and gives the numbers behind it; it is written once, where
 * the decision is made.  No line is written on a fast path. */
#ifndef SYS_LOG_H
#define SYS_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };

/* A longer line, with the process's number and the newline, is cut. */
enum { LOG_LINE = 1024, LOG_TEXT = LOG_LINE - 32 };

/* The most lines that a process says by log_hint(). */
enum { LOG_HINTS = 10 };

extern enum log_level log_level; /* lines above this level are not written */

/* level: "error", "warn", "info" or "debug".  Returns 0 or -EINVAL. */
int log_set_level(const char *level);

/* Sets level and file from spec: level[:file], as in URNIC_LOG; %p in file is the process
 * id.  The file is opened anew for each line, so that a program which closes our
 * descriptors cannot make us write into its own files.  Returns 0, -EINVAL, or the -errno
 * of opening the file; after an error nothing has changed. */
int log_setup(const char *spec);

/* Does the user want colours where a terminal is (NO_COLOR, TERM)?  Reads the
 * environment. */
bool log_may_colour(void);

/* Lines are objects of JSON from now on: time (seconds since 1970), pid, level, room (the
 * folder of src/ that speaks) and text; qpn where the text begins with a QP, status and
 * vendor_err where it is about a completion. */
void log_use_json(bool json);

/* What a line about a completion says in JSON apart from its text. */
struct log_wc {
	const char *status;
	unsigned vendor_err;
};

/* Where a line comes from: the macros below fill this in. wc may be NULL. */
struct log_from {
	enum log_level level;
	const char *file;
	const struct log_wc *wc;
};

void log_line(struct log_from from, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define LOG_FROM(level, wc) ((struct log_from){ level, __FILE__, wc })
#define log_at(level, ...)  log_line(LOG_FROM(level, NULL), __VA_ARGS__)
#define log_error(...)	    log_at(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)	    log_at(LOG_WARN, __VA_ARGS__)
#define log_info(...)                                                                    \
	do {                                                                             \
		if (log_level >= LOG_INFO)                                               \
			log_at(LOG_INFO, __VA_ARGS__);                                   \
	} while (0)
#define log_debug(...)                                                                   \
	do {                                                                             \
		if (log_level >= LOG_DEBUG)                                              \
			log_at(LOG_DEBUG, __VA_ARGS__);                                  \
	} while (0)

/* A warning about what the program does not see for itself: it hangs, or a request has
 * failed.  After LOG_HINTS of them the process says no more. */
#define log_hint(...)                                                                    \
	do {                                                                             \
		if (log_hint_left())                                                     \
			log_warn(__VA_ARGS__);                                           \
	} while (0)

/* Takes one of the hints; false: there is none left, or warnings are not written. */
bool log_hint_left(void);

/* Returns true at most once a second for each call site; *last_ns belongs to the site. */
bool log_allowed(uint64_t *last_ns);

#endif
