/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_control.h - requests to a running fabric, and its answers, in JSON:
 *
 *	{"ask": "status"}
 *	{"ask": "summary"}					as `urnic fabric' lists it
 *	{"ask": "counters", "node": "leaf1", "port": 3}		both may be left out
 *	{"ask": "link", "node": "leaf1", "port": 3, "up": false}
 *
 * An answer is an object; if the request failed, its member "error" says why.
 */
#ifndef TOOLS_FABRIC_CONTROL_H
#define TOOLS_FABRIC_CONTROL_H

#include <jansson.h>
#include <sys/types.h>

#include "fabric/port/server.h"

struct control {
	const struct topo *topo;
	const char *name;
	const struct plug_server *server; /* NULL: nobody is attached */
};

/* The fabric's end, a plug_answer: ctx is a struct control. */
char *control_answer(void *ctx, struct fabric *f, uint64_t now, const char *ask,
		     size_t ask_len, size_t *len);

/* The command's end: sends a request, takes over the reference to `ask`, and returns the
 * answer.  On failure it prints "who: reason" to standard error and returns NULL. */
json_t *control_ask(const char *who, const char *fabric, json_t *ask);
/* As control_ask(), but prints nothing.  On failure *rc is -errno, or 0 if the answer
 * says an error.  *pid: the fabric's process, if it has been reached. */
json_t *control_try(const char *fabric, json_t *ask, pid_t *pid, int *rc);

#endif
