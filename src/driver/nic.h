/* SPDX-License-Identifier: BSD-2-Clause */
/* nic.h - the process's NIC: devices, transports, links and the engine that drives them.
 * For abi/. */
#ifndef DRIVER_NIC_H
#define DRIVER_NIC_H

#include <infiniband/verbs.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/lock.h"

struct channel;
struct core;
struct device;
struct nic;
struct qp;
struct transport;

/* Lists the devices of this machine, most useful first (RoCE, then iWARP; of each,
 * loopback last, which is left out beside others unless URNIC_DEVICES names it), in an
 * array of *n that the caller frees. Reads the interfaces anew each time and keeps
 * nothing open; a device's address never changes. Returns 0 or -errno. */
int nic_devices(struct device ***out, int *n);

/* Returns the NIC, which its first user starts: slot, sockets, engine thread. 0,
 * -EADDRNOTAVAIL (no slot), -ENOMEM ... */
int nic_open(struct nic **out);
void nic_close(struct nic *nic); /* the last user's close stops the NIC */
struct core *nic_core(struct nic *nic);
const struct transport *nic_transport(struct nic *nic, const struct device *dev);
/* the transport of raw packet QPs */
const struct transport *nic_packets(struct nic *nic);
/* The link that carries dev's paths; NULL: none. */
struct link *nic_link(struct nic *nic, const struct device *dev);

/* A QP has work: sends it now if the engine is free, else has it sent. nested: the
 * caller is inside another QP's ibv_wr_start() and holds its lock, which the engine may
 * need, so the thread sends it. */
void nic_post(struct nic *nic, struct qp *qp, bool nested);
/* Posts a list of requests and sends them, as nic_post() does. Returns as
 * qp_post_send(), but never 1. */
int nic_post_send(struct nic *nic, struct qp *qp, struct ibv_send_wr *wr,
		  struct ibv_send_wr **bad, bool nested);

/* Receives were posted that messages had waited for: their QPs are due. nested: as for
 * nic_post(). */
void nic_called(struct nic *nic, bool nested);

/* Sends what is pending for peers, above all ACKs, before a QP ends: a peer whose
 * message was received must not time out. */
void nic_flush(struct nic *nic);

/* A QP has stopped taking requests, or its rights have changed: waits for a peer that is
 * writing to memory directly on its behalf. Returns 0, or -EBUSY if the peer does not
 * finish. */
int nic_fence(struct nic *nic, uint32_t qpn);

/* A completion queue was found empty: runs the engine for one bounded turn if it is
 * free. Returns true if it ran. */
bool nic_poll(struct nic *nic);

/* A completion queue was found not empty: the program is polling, and not in vain. */
void nic_polled(struct nic *nic);

/* A completion queue of ch was armed: the program may sleep from now on. */
void nic_armed(struct nic *nic, const struct channel *ch);

/* A thread waits for an event of a completion channel (wait.c). */
struct nic_wait {
	struct nic *nic;
	struct channel *ch;
	uint64_t since;
	uint64_t busy; /* ns; when much last went by a ring */
	bool serves;   /* it serves the NIC, with its signals held off: */
	sigset_t was;  /* those that were, before */
	bool got;      /* the caller's: it has a token */
};

/* Before the thread takes the token of an event by event_queue_wait(): it serves the NIC
 * itself, if that is best, until there is an event, for 1 ms at most. Returns 0, or
 * -EINTR as a call that sleeps. It may be cancelled; nic_wait_end() then follows, too. */
int nic_wait_begin(struct nic_wait *w);
void nic_wait_end(struct nic_wait *w);
/* The program ends the NIC, or only ch, perhaps beside a thread that waits: no thread
 * serves any more when this returns, 1 ms later at most. ch NULL: at any channel. */
void nic_wait_stop(struct nic *nic, const struct channel *ch);

/* A thread is about to sleep in vain, it seems: the engine looks later
 * (verbs/asleep.h). */
void nic_doubts(struct nic *nic);

/* Before a QP of dev enters RTR: makes ready what its GID needs, such as a socket. gid
 * NULL: for any GID (UD). Returns 0 or
 * -EADDRINUSE ... */
int nic_listen(struct nic *nic, const struct device *dev, const uint8_t *gid);
/* Before a QP enters INIT. */
void nic_begins(struct nic *nic, const struct qp *qp);
/* Before a connected QP enters RTR: selects how it reaches QP dest_qp at dgid. Returns
 * 1: on this host by memory, without a port; 0: by the wire; -ENOMEM. */
int nic_route(struct nic *nic, struct qp *qp, const uint8_t *dgid, uint32_t dest_qp);
/* Is ip an address of this host, as dev sees it? */
bool nic_same_host(struct nic *nic, struct device *dev, const uint8_t ip[16]);
int nic_join(struct nic *nic, struct device *dev, const union ibv_gid *gid, bool join);

uint64_t nic_now(void);

#endif
