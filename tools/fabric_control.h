/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_control.h - what a running fabric is asked and answers, in JSON:
 *
 *	{"ask": "status"}
 *	{"ask": "summary"}					what `urnic fabric' lists
 *	{"ask": "counters", "node": "leaf1", "port": 3}		both may be left out
 *	{"ask": "link", "node": "leaf1", "port": 3, "up": false}
 *
 * An answer is an object; one with "error" says in that what was wrong.
 */
#ifndef TOOLS_FABRIC_CONTROL_H
#define TOOLS_FABRIC_CONTROL_H

#include <jansson.h>
#include <sys/types.h>

#include "plug/server.h"

struct control {
	const struct topo *topo;
	const char *name;
	const struct plug_server *server; /* NULL: nobody is attached */
};

/* plug_answer, of a struct control. */
char *control_answer(void *ctx, struct fabric *f, uint64_t now, const char *ask,
		     size_t ask_len, size_t *len);

/* The other end: asks the fabric, takes the reference to `ask`.  NULL, and what was wrong
 * has been said on standard error behind `who`. */
json_t *control_ask(const char *who, const char *fabric, json_t *ask);
/* As it, but says nothing: *rc has -errno, or 0 where the answer is that something was
 * wrong.  *pid: the fabric's, if it has been reached. */
json_t *control_try(const char *fabric, json_t *ask, pid_t *pid, int *rc);

#endif
