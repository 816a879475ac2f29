/* SPDX-License-Identifier: BSD-2-Clause */
/* server.h - the fabric's end: listens, and moves messages between programs and
 * the model.  One thread; the caller has it call plug_serve(). */
#ifndef PLUG_SERVER_H
#define PLUG_SERVER_H

#include "fabric/fabric.h"

struct plug_server;

/* The topology stays the caller's and has to last.  0; -EADDRINUSE: a fabric of
 * that name runs; -EINVAL: the name; -ENOMEM ... */
int plug_server_new(struct plug_server **out, const char *name, const struct topo *t);
void plug_server_free(struct plug_server *s); /* programs see the end at once */

/* What the fabric answers to a request of a control connection: a text of *len bytes, to
 * be freed; NULL ends the connection. */
typedef char *plug_answer(void *ctx, struct fabric *f, uint64_t now, const char *ask,
			  size_t ask_len, size_t *len);
/* Without it there are no control connections. */
void plug_server_control(struct plug_server *s, plug_answer *fn, void *ctx);

/* Until stop (a descriptor) can be read.  0 or -errno. */
int plug_serve(struct plug_server *s, int stop);

#endif
