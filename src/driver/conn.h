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
/* Socket of the connection at index i < CONNS_FEW; readable when it has bytes. -1: none
 * at i. A kick announces every change, also before a socket is closed. Any thread may
 * call it. */
int conns_socket(const struct conns *c, unsigned i);

/* Marks the connection of socket fd as having bytes, so the next conns_input() reads
 * it. */
void conns_told(struct conns *c, int fd);

/* The next conns_input() reads all connections, also those that it need not read each
 * time. */
void conns_hear(struct conns *c);

/* Reads what has come, at most one turn's worth. Returns roughly the number of bytes; 0:
 * nothing was waiting. */
size_t conns_input(struct conns *c, uint64_t now);

void conns_forked(struct conns *c);

#endif
