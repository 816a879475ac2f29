/* SPDX-License-Identifier: BSD-2-Clause */
/* ask.h - asks running processes that use urnic (driver/asked.h is their end).
 *
 *	struct ask *a = ask_open("urnic dump");
 *	struct ask_question q = { .kind = ASK_DUMP };
 *
 *	if (a && ask_pid(a, pid, &q) == 0)
 *		... q.bytes, q.len ...
 *	ask_close_question(&q);
 *	ask_close(a);
 *
 * Processes are those of this network namespace, and answer their own user only. What
 * they answer is hostile until checked: ask_as_text().
 */
#ifndef TOOLS_ASK_H
#define TOOLS_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "host/msg.h"

enum { ASK_PATIENCE_MS = 5000 };

struct ask;

/* The process id that a word of the command line is; 0: none. */
pid_t ask_pid_of(const char *word);

/* What the kernel calls the process, with nothing that harms a terminal; "": unknown. */
void ask_name(pid_t pid, char name[16]);

/* Takes a slot for this command, whose name messages begin with. NULL: it has said on
 * stderr why not. */
struct ask *ask_open(const char *command);
void ask_close(struct ask *a);

struct ask_process {
	uint16_t slot;
	bool ours; /* of this user, so that it answers */
	uid_t uid; /* its user when it opened its device */
	pid_t pid; /* 0: it is in another pid namespace */
};

/* Finds all processes that have a device open; commands of urnic's have none. Returns how
 * many; *list is to be freed. */
size_t ask_list(struct ask *a, struct ask_process **list);

struct ask_question {
	struct ask_process to;
	enum ask_kind kind;
	const void *what; /* what the kind takes: `size' bytes */
	size_t size;
	bool with_fd; /* `fd' goes along; it stays the caller's */
	int fd;

	/* The answer. error: 0; -ETIMEDOUT: none came in time; -ESRCH: the process has
	 * ended; -EOPNOTSUPP: its urnic does not know the kind; or what the kind says,
	 * and then bytes may be text that explains it
	 * (it harms no terminal). */
	int error;
	char *bytes; /* with a 0 behind them; NULL: none */
	size_t len;

	uint32_t serial; /* ask_all()'s own */
	bool said, answered;
};

/* Asks n questions at once, and waits until all are answered or the time is up. */
void ask_all(struct ask *a, struct ask_question *q, size_t n, unsigned patience_ms);

/* Finds process pid, which must be one of this user. Returns 0; or 1, and has said on
 * stderr why not. */
int ask_locate(struct ask *a, pid_t pid, struct ask_process *out);

/* Asks process pid, for whom q->to need not be set. Returns 0; or 1, and has said on
 * stderr why there is no answer. */
int ask_pid(struct ask *a, pid_t pid, struct ask_question *q);

/* Says on stderr what q->error means, if it is not 0. Returns 0, or 1 for an error. */
int ask_report(const struct ask *a, const struct ask_question *q);

/* Makes of the answer text that harms no terminal: bytes that are neither printable nor
 * newlines become '?'. */
void ask_as_text(struct ask_question *q);

/* Frees the answer. */
void ask_close_question(struct ask_question *q);

#endif
