/* SPDX-License-Identifier: BSD-2-Clause */
/* server.h - the fabric's end: listens for programs, and moves messages between them and
 * the model of the subnet.  One thread, which the caller provides, does all of it in
 * plug_serve(). */
#ifndef FABRIC_PORT_SERVER_H
#define FABRIC_PORT_SERVER_H

#include "fabric/fabric.h"
#include "fabric/port/answer.h"

struct plug_server;

/* The caller keeps the topology, for at least as long as the server.  Returns 0 or
 * -errno: -EADDRINUSE: a fabric of that name runs; -EINVAL: the name is not valid. */
int plug_server_new(struct plug_server **out, const char *name, const struct topo *t);
/* Closes all connections, so programs notice the fabric's end at once. */
void plug_server_free(struct plug_server *s);

/* Sets the function that answers control requests; without it, control connections are
 * refused. */
void plug_server_control(struct plug_server *s, plug_answer *fn, void *ctx);

/* Counts the processes that have something open at the fabric's adapters. */
unsigned plug_server_programs(const struct plug_server *s);

/* Runs the fabric until the descriptor `stop` can be read.  Returns 0 or -errno. */
int plug_serve(struct plug_server *s, int stop);

#endif
