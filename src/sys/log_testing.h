/* SPDX-License-Identifier: BSD-2-Clause */
/* log_testing.h - what a call writes into the log, for unit tests. */
#ifndef SYS_LOG_TESTING_H
#define SYS_LOG_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <unistd.h>

#include "sys/log.h"

/* Puts what `call` writes into the log at that level into the array text, as a string. */
#define LOGGED(text, level, call)                                                        \
	do {                                                                             \
		struct log_pipe log_pipe = log_pipe_open(level);                         \
		call;                                                                    \
		log_pipe_read(&log_pipe, text, sizeof(text));                            \
	} while (0)

struct log_pipe {
	int err, fd[2];
};

static inline struct log_pipe log_pipe_open(const char *level)
{
	struct log_pipe p = { .err = dup(STDERR_FILENO) };

	assert_int_equal(pipe2(p.fd, O_NONBLOCK), 0);
	dup2(p.fd[1], STDERR_FILENO);
	log_set_level(level);
	return p;
}

static inline void log_pipe_read(const struct log_pipe *p, char *text, size_t size)
{
	ssize_t n = read(p->fd[0], text, size - 1);

	log_set_level("warn");
	dup2(p->err, STDERR_FILENO);
	text[n > 0 ? n : 0] = '\0';
	close(p->err);
	close(p->fd[0]);
	close(p->fd[1]);
}

#endif
