/* SPDX-License-Identifier: BSD-2-Clause */
/* log.h - writes lines to stderr (or URNIC_LOG's file), one write(2) each.
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

extern enum log_level log_level; /* lines above this level are not written */

/* level: "error", "warn", "info" or "debug".  Returns 0 or -EINVAL. */
int log_set_level(const char *level);

/* Sets level and file from spec: level[:file], as in URNIC_LOG; %p in file is the process
 * id.  The file is opened anew for each line, so that a program which closes our
 * descriptors cannot make us write into its own files.  Returns 0, -EINVAL, or the -errno
 * of opening the file; after an error nothing has changed. */
int log_setup(const char *spec);

void log_line(enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#define log_error(...) log_line(LOG_ERROR, __VA_ARGS__)
#define log_warn(...)  log_line(LOG_WARN, __VA_ARGS__)
#define log_info(...)                                                                    \
	do {                                                                             \
		if (log_level >= LOG_INFO)                                               \
			log_line(LOG_INFO, __VA_ARGS__);                                 \
	} while (0)
#define log_debug(...)                                                                   \
	do {                                                                             \
		if (log_level >= LOG_DEBUG)                                              \
			log_line(LOG_DEBUG, __VA_ARGS__);                                \
	} while (0)

/* Returns true at most once a second for each call site; *last_ns belongs to the site. */
bool log_allowed(uint64_t *last_ns);

#endif
