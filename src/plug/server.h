/* SPDX-License-Identifier: BSD-2-Clause */
/* server.h - the fabric's end: listens, and moves messages between programs and
 * the model.  One thread; the caller has it call plug_serve(). */
#ifndef PLUG_SERVER_H
#define PLUG_SERVER_H

#include "fabric/fabric.h"
#include "plug/answer.h"

struct plug_server;

/* The topology stays the caller's and has to last.  0; -EADDRINUSE: a fabric of
 * that name runs; -EINVAL: the name; -ENOMEM ... */
int plug_server_new(struct plug_server **out, const char *name, const struct topo *t);
void plug_server_free(struct plug_server *s); /* programs see the end at once */

/* Without it there are no control connections. */
void plug_server_control(struct plug_server *s, plug_answer *fn, void *ctx);

/* How many processes have something open at its adapters. */
unsigned plug_server_programs(const struct plug_server *s);

/* Until stop (a descriptor) can be read.  0 or -errno. */
int plug_serve(struct plug_server *s, int stop);

#endif
