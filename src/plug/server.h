/* SPDX-License-Identifier: BSD-2-Clause */
/* server.h - the fabric's side: listens, and moves messages between programs and the
 * model. It has one thread, the caller's, in plug_serve(). */
#ifndef PLUG_SERVER_H
#define PLUG_SERVER_H

#include "fabric/fabric.h"
#include "plug/answer.h"

struct plug_server;

/* The topology must outlive the server. Returns 0; -EADDRINUSE: a fabric of that name
 * runs; -EINVAL: bad name; -ENOMEM ... */
int plug_server_new(struct plug_server **out, const char *name, const struct topo *t);
void plug_server_free(struct plug_server *s); /* programs see the end at once */

/* Sets the function that answers control connections; without it there are none. */
void plug_server_control(struct plug_server *s, plug_answer *fn, void *ctx);

/* Returns how many processes have something open at the fabric's adapters. */
unsigned plug_server_programs(const struct plug_server *s);

/* Serves until the descriptor `stop` is readable. Returns 0 or -errno. */
int plug_serve(struct plug_server *s, int stop);

#endif
