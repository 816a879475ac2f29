/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.h - the connections of iWARP QPs: moves bytes between their streams and the
 * transport. Inside driver/ only. All calls need the turn, except conns_open() and
 * conns_close(). */
#ifndef DRIVER_CONN_H
#define DRIVER_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conns;
struct core;
struct qp;
struct source;

/* Up to this many connections are read one by one, which costs one system call each and
 * no epoll call. A sleeping thread polls their sockets directly: Linux wakes the thread
 * on the writer's processor (WF_SYNC) from a socket, but not from one in an epoll set,
 * and interrupting another processor would take longer than all the rest. */
enum { CONNS_FEW = 4 };

/* Opens the iWARP transport, too. kick() is called when there is work that a sleeping
 * thread does not know of. Returns 0 or -errno. */
int conns_open(struct conns **out, struct core *core, void (*kick)(void *arg), void *arg);
void conns_close(struct conns *c); /* all QPs must be gone */

/* Descriptor that is readable when a connection has bytes for conns_input() (if there
 * are more than CONNS_FEW) or room to send again. -1: no connection yet; the first one
 * causes a kick. Any thread may call it. */
int conns_fd(const struct conns *c);
/* Reads what has come, at most one turn's worth. Returns roughly the number of bytes; 0:
 * nothing was waiting. */
size_t conns_input(struct conns *c, uint64_t now);

/* The set of connections is one source of the engine. A kick announces every change of
 * the sockets that a thread sleeps on, also before one is closed. */
struct source *conns_source(struct conns *c);

#endif
