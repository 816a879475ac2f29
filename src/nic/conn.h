/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.h - the connections of iWARP QPs: moves bytes between their streams and
 * the transport.  Inside nic/ only; all calls but the first two with the turn
 * held. */
#ifndef NIC_CONN_H
#define NIC_CONN_H

#include <stdbool.h>
#include <stdint.h>

struct conns;
struct core;
struct qp;

/* Opens the transport, too (core->iwarp).  kick: something has come up that a
 * thread in its sleep does not know of.  0 or -errno. */
int conns_open(struct conns **out, struct core *core, void (*kick)(void *arg),
	       void *arg);
void conns_close(struct conns *c);		/* all QPs are gone */

/* Readable: some connection has bytes for conns_input(), or room again.  -1: there
 * is none yet; with the first comes a kick.  Any thread. */
int conns_fd(const struct conns *c);

/* Take in what has come, at most a turn's worth.  True: there was something. */
bool conns_input(struct conns *c, uint64_t now);
/* Put out what qp, whose lock is held, has to send, at most its share.  True: it
 * could send more. */
bool conns_output(struct conns *c, struct qp *qp, uint64_t now);

void conns_forked(struct conns *c);

#endif
