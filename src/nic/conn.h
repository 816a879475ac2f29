/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.h - the connections of iWARP QPs: moves bytes between their streams and
 * the transport.  Inside nic/ only; all calls but the first two with the turn
 * held. */
#ifndef NIC_CONN_H
#define NIC_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conns;
struct core;
struct qp;

/* So many are asked one by one: that is one system call each, not one more.  And
 * they are slept on one by one: Linux wakes a thread on the processor of the
 * writer (WF_SYNC) from a socket, not from one in an epoll set in a poll(),
 * and to interrupt another processor takes longer than all else. */
enum { CONNS_FEW = 4 };

/* Opens the transport, too.  kick: something has come up that a
 * thread in its sleep does not know of.  0 or -errno. */
int conns_open(struct conns **out, struct core *core, void (*kick)(void *arg), void *arg);
void conns_close(struct conns *c); /* all QPs are gone */

/* Readable: some connection has bytes for conns_input(), if there are more than a
 * few, or room again.  -1: there is none yet; with the first comes a kick.  Any
 * thread. */
int conns_fd(const struct conns *c);
/* Readable: one of a few has bytes.  i: below CONNS_FEW.  -1: no such one; a kick
 * tells when that changes, also before one is closed.  Any thread. */
int conns_socket(const struct conns *c, unsigned i);

/* The connection of this socket has bytes: it is asked next time. */
void conns_told(struct conns *c, int fd);

/* Take in what has come, at most a turn's worth.  Returns about how many bytes; 0:
 * there was nothing. */
size_t conns_input(struct conns *c, uint64_t now);

void conns_forked(struct conns *c);

#endif
