/* SPDX-License-Identifier: BSD-2-Clause */
/* nic.h - the process's NIC: devices, transports, links and the engine that
 * drives them.  For abi/ and cm/. */
#ifndef NIC_NIC_H
#define NIC_NIC_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/lock.h"

struct cm;
struct core;
struct device;
struct nic;
struct qp;
struct transport;

/* The devices of this machine, most useful first (RoCE, then iWARP; of each,
 * loopback last), in an array
 * of *n that the caller frees.  Looks at the interfaces anew each time and
 * leaves nothing behind; a device keeps its address.  0 or -errno. */
int nic_devices(struct device ***out, int *n);

/* The NIC, started for its first user: slot, sockets, engine thread.
 * 0, -EADDRNOTAVAIL (no slot), -ENOMEM ... */
int nic_open(struct nic **out);
void nic_close(struct nic *nic); /* the last one stops it */
struct core *nic_core(struct nic *nic);
const struct transport *nic_transport(struct nic *nic, const struct device *dev);
const struct transport *nic_packets(struct nic *nic); /* of raw packet QPs */
/* That carries dev's paths; NULL: it has none. */
struct link *nic_link(struct nic *nic, const struct device *dev);

/* The QP has work: do it now if the engine is free, else see that it is done.
 * nested: the caller is inside another QP's ibv_wr_start() and so holds its
 * lock, which the engine may want: the thread does it. */
void nic_post(struct nic *nic, struct qp *qp, bool nested);

/* What is pending for peers, ACKs above all, goes out: before a QP ends.  A peer
 * whose message was taken must not be left to time out. */
void nic_flush(struct nic *nic);

/* A QP has stopped taking requests, or its rights have changed: wait for a peer that
 * uses it to write to memory directly.  0, or -EBUSY: the peer does not come to an
 * end. */
int nic_fence(struct nic *nic, uint32_t qpn);

/* A completion queue was found empty: run the engine for one bounded turn if
 * it is free.  True if it ran. */
bool nic_poll(struct nic *nic);

/* ... or was not empty: the program polls. */
void nic_polled(struct nic *nic);

/* A completion queue was armed: from now on the program may sleep. */
void nic_armed(struct nic *nic);

/* Before a QP of dev enters RTR: what its GID needs is there from now on, such as a
 * socket.  gid NULL: for any (UD).  dev NULL: for any device, as listeners do.  0 or
 * -EADDRINUSE ... */
int nic_listen(struct nic *nic, const struct device *dev, const uint8_t *gid);
/* At the adapter of a fabric where this program stands, without the turn; the fabric is
 * asked, and waited for.  The GID of the port with that address: 0, -EHOSTUNREACH: no
 * port has it; -ENODEV: we stand at none, -EIO ... */
int nic_find(struct nic *nic, const uint8_t ip[16], uint8_t gid[16]);
/* Requests for this service of connection management come to us while the descriptor that
 * this gives is open.  -EADDRINUSE ... */
int nic_serve(struct nic *nic, uint64_t service);
/* Connection management is about to send, and to be told of destinations that refuse it.
 */
void nic_ask(struct nic *nic);
/* Before a connected QP enters RTR: by which transport does it reach QP dest_qp
 * at dgid?  1: on this host, by memory, so that no port is needed; 0: by the
 * wire; -ENOMEM. */
int nic_route(struct nic *nic, struct qp *qp, const uint8_t *dgid, uint32_t dest_qp);
/* Is ip this host's, as dev sees it? */
bool nic_same_host(struct nic *nic, struct device *dev, const uint8_t ip[16]);
int nic_join(struct nic *nic, struct device *dev, const union ibv_gid *gid, bool join);

/* Around calls of cm/: take the turn; send what came of them and give it. */
struct cm *nic_enter(struct nic *nic) NO_TSA;
void nic_leave(struct nic *nic) NO_TSA;

uint64_t nic_now(void);

#endif
