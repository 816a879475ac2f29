/* SPDX-License-Identifier: BSD-2-Clause */
/* packet.h - raw packet QPs (IBV_QPT_RAW_PACKET): Ethernet frames as they are, by packet
 * sockets (AF_PACKET), and the rules that say which QP gets what comes in.  docs/raw.md.
 */
#ifndef PACKET_PACKET_H
#define PACKET_PACKET_H

#include <infiniband/verbs.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/room.h"
#include "core/transport.h"
#include "sys/live.h"

struct packets;
struct qp;

/* Its open() answers -EPERM without CAP_NET_RAW in the network namespace. */
extern const struct transport packet_transport;

extern struct room_key packets_key;

/* NULL: it is not open. */
static inline struct packets *packets_of(const struct core *core)
{
	return room_get(core, &packets_key);
}

/* 0 or -errno.  on_first(arg) is called with the turn held, when there is a
 * packets_fd() that was not there. */
int packets_open(struct core *core, void (*on_first)(void *arg), void *arg);
void packets_close(struct core *core);
void packets_forked(struct packets *p);

/* What to sleep on; -1: there is no rule.  Any thread. */
int packets_fd(const struct packets *p);
/* Take in what waits, a bounded part of it: how many frames, or -EBADF.  Turn held. */
int packets_input(struct packets *p, uint64_t now);

/* A rule of a QP. */
struct flow {
	struct live live;
	struct ibv_flow ibv;
};

/* 0, -EINVAL, -EOPNOTSUPP, -EPERM, -ENOMEM ...  A QP that has one is not destroyed. */
int flow_create(struct qp *qp, const struct ibv_flow_attr *attr, struct flow **out);
void flow_destroy(struct flow *flow);

struct flow *flow_of(struct ibv_flow *ibv);

#endif
