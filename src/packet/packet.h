/* SPDX-License-Identifier: BSD-2-Clause */
/* packet.h - raw packet QPs (IBV_QPT_RAW_PACKET): Ethernet frames as they are, by packet
 * sockets (AF_PACKET), and the rules that say which QP gets what comes in.  docs/raw.md.
 */
#ifndef PACKET_PACKET_H
#define PACKET_PACKET_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "core/limits.h"
#include "core/room.h"
#include "core/transport.h"
#include "sys/live.h"

struct context;
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

/* What QPs have sent comes back to the rules of other contexts.  True: there was some.
 * Turn held. */
bool packets_echo(struct packets *p, uint64_t now);
bool packets_have_echo(const struct packets *p);

/* A rule of a QP. */
struct flow {
	struct live live;
	struct ibv_flow ibv;
};

/* 0, -EINVAL, -EOPNOTSUPP, -EPERM, -ENOMEM ...  A QP that has one is not destroyed. */
int flow_create(struct qp *qp, const struct ibv_flow_attr *attr, struct flow **out);
void flow_destroy(struct flow *flow);

struct flow *flow_of(struct ibv_flow *ibv);

/* --- counters of rules: IBV_FLOW_SPEC_ACTION_COUNT names them --- */

enum { COUNTERS_POINTS = 64 };

/* What stands at an index of that which a program reads. */
struct counters_point {
	uint32_t index;
	enum ibv_counter_description what;
};

/* All but the first three under the turn. */
struct counters {
	struct live live;
	struct ibv_counters ibv;
	struct context *ctx;
	unsigned flows;	 /* rules that count here */
	unsigned points; /* of point[], as they were attached */
	struct counters_point point[COUNTERS_POINTS];
	uint64_t sum[IBV_COUNTER_BYTES + 1]; /* by what is counted; they only grow */
};

struct counters *counters_of(struct ibv_counters *ibv);

/* 0, -EOPNOTSUPP, -ENOMEM. */
int counters_create(struct context *ctx, const struct ibv_counters_init_attr *attr,
		    struct counters **out);
/* -EBUSY: a rule counts there; as for destroy. */
int counters_attach(struct counters *c, const struct ibv_counter_attach_attr *attr);
/* values has n; those that nothing is attached to are 0.  -EINVAL: too few, or no rule
 * counts there. */
int counters_read(struct counters *c, uint64_t *values, uint32_t n, uint32_t flags);
int counters_destroy(struct counters *c);

/* --- work queues, and QPs that spread what comes in over those of a table --- */

/* Receives of its own; it is a raw packet QP that no program knows, and has that one's
 * number. */
struct wq {
	struct live live;
	struct ibv_wq ibv;
	struct qp *qp;
	_Atomic unsigned users; /* places in tables */
};

struct wq_table {
	struct live live;
	struct ibv_rwq_ind_table ibv;
	struct context *ctx;
	_Atomic unsigned users; /* QPs */
	uint32_t size;		/* a power of two */
	struct wq *wq[RSS_TABLE_MAX];
};

struct wq *wq_of(struct ibv_wq *ibv);
struct wq_table *wq_table_of(struct ibv_rwq_ind_table *ibv);

/* 0, -EINVAL, -EOPNOTSUPP, -EPERM, -ENOMEM.  It is in RESET. */
int wq_create(struct context *ctx, const struct ibv_wq_init_attr *attr, struct wq **out);
int wq_modify(struct wq *wq, const struct ibv_wq_attr *attr, uint64_t now);
int wq_destroy(struct wq *wq); /* -EBUSY: it is in a table */

/* The queues live, and are ctx's. */
int wq_table_create(struct context *ctx, const struct ibv_rwq_ind_table_init_attr *attr,
		    struct wq_table **out);
int wq_table_destroy(struct wq_table *table); /* -EBUSY: a QP uses it */

/* A QP that has rules, and receives for a table's queues. */
int spread_create(struct context *ctx, const struct ibv_qp_init_attr_ex *attr,
		  struct qp **out);

#endif
