/* SPDX-License-Identifier: BSD-2-Clause */
/* seen.h - a look at the QPs of running processes: what `urnic top' shows. */
#ifndef TOOLS_SEEN_H
#define TOOLS_SEEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum seen_number {
#define SEEN(value, name, kind, what) value,
#include "seen.def"
#undef SEEN
	SEEN_NUMBERS
};

/* A counter only grows while its QP lives. */
extern const struct seen_name {
	const char *name, *what;
	bool counter;
} seen_names[SEEN_NUMBERS];

/* Words of a dump; they harm no terminal. */
struct seen_qp {
	pid_t pid;
	char number[16], type[12], state[8], device[64], by[12];
	char peer[64], peer_qp[16]; /* "": it has none */
	bool busy;		    /* nothing else is known */
	uint64_t n[SEEN_NUMBERS];
	bool has[SEEN_NUMBERS];
};

struct seen_process {
	uint16_t slot;
	pid_t pid; /* 0: it is in another pid namespace */
	uid_t uid;
	bool ours;
	int error;     /* 0: its QPs are in the sample; else why not, as in ask.h */
	char name[16]; /* the command's; "": unknown */
};

struct seen {
	uint64_t at; /* ns */
	struct seen_process *process;
	size_t processes;
	struct seen_qp *qp;
	size_t qps, room;
};

/* Adds the QPs that the text of a dump has, which it cuts to pieces. Returns 0 or
 * -ENOMEM. */
int seen_parse(struct seen *l, pid_t pid, char *text);
void seen_free(struct seen *l);

/* --- looking (seen_look.c) ----------------------------------------------------- */

struct ask;
struct seen_watch;

/* Looks at process pid, or at all if pid is 0. Without memory: NULL. */
struct seen_watch *seen_watch_open(struct ask *a, pid_t pid);
void seen_watch_close(struct seen_watch *w);
/* Asks the processes, and waits a second at most for those that have answered so far. A
 * look at all finds new processes once a second. Returns 0; 1: there is no process pid to
 * be looked at, which has been said on stderr; -ENOMEM. */
int seen_look(struct seen_watch *w, struct seen *out);

#endif
