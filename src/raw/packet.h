/* SPDX-License-Identifier: BSD-2-Clause */
/* packet.h - raw packet QPs (IBV_QPT_RAW_PACKET), which send and receive whole
 * Ethernet frames by packet sockets (AF_PACKET), and the rules that choose a QP for
 * each received frame. See docs/dev/raw.md.
 */
#ifndef RAW_PACKET_H
#define RAW_PACKET_H

#include <infiniband/verbs.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sys/live.h"
#include "verbs/limits.h"
#include "verbs/room.h"
#include "verbs/transport.h"

struct context;
struct packets;
struct qp;

/* Its open() returns -EPERM without CAP_NET_RAW in the network namespace. */
extern const struct transport packet_transport;

extern struct room_key packets_key;

/* Returns the core's packets; NULL if they are not open. */
static inline struct packets *packets_of(const struct core *core)
{
	return room_get(core, &packets_key);
}

/* Returns 0 or -errno. on_first(arg) is called, with the turn held, when packets_fd()
 * becomes available. */
int packets_open(struct core *core, void (*on_first)(void *arg), void *arg);
void packets_close(struct core *core);
void packets_forked(struct packets *p);

/* Returns the descriptor to poll for input; -1: there is no rule. Any thread. */
int packets_fd(const struct packets *p);
/* Takes in waiting frames, a bounded number at once. Returns their number, or -EBADF.
 * Turn held. */
int packets_input(struct packets *p, uint64_t now);

/* Gives frames that QPs of this process have sent to matching rules of its other
 * contexts. Returns true if there were some. Turn held. */
bool packets_echo(struct packets *p, uint64_t now);
bool packets_have_echo(const struct packets *p);

/* A flow rule of a QP. */
struct flow {
	struct live live;
	struct ibv_flow ibv;
};

/* Adds a rule of qp. Returns 0, -EINVAL, -EOPNOTSUPP, -EPERM, -ENOMEM or another -errno.
 * A QP with rules cannot be destroyed. */
int flow_create(struct qp *qp, const struct ibv_flow_attr *attr, struct flow **out);
void flow_destroy(struct flow *flow);

struct flow *flow_of(struct ibv_flow *ibv);

/* --- counters of rules, which IBV_FLOW_SPEC_ACTION_COUNT names -- */

enum { COUNTERS_POINTS = 64 };

/* A point: the sum that a program reads at an index. */
struct counters_point {
	uint32_t index;
	enum ibv_counter_description what;
};

/* The fields from `flows` on are under the turn. */
struct counters {
	struct live live;
	struct ibv_counters ibv;
	struct context *ctx;
	unsigned flows;	 /* number of rules that count here */
	unsigned points; /* entries of point[], in the order of attaching */
	struct counters_point point[COUNTERS_POINTS];
	/* By enum ibv_counter_description; the sums only grow. */
	uint64_t sum[IBV_COUNTER_BYTES + 1];
};

struct counters *counters_of(struct ibv_counters *ibv);

/* Makes a counters object. Returns 0, -EOPNOTSUPP or -ENOMEM. */
int counters_create(struct context *ctx, const struct ibv_counters_init_attr *attr,
		    struct counters **out);
/* Attaches a point. Returns 0, or -EBUSY if a rule counts there; so does
 * counters_destroy(). */
int counters_attach(struct counters *c, const struct ibv_counter_attach_attr *attr);
/* Reads n values; an index without a point gives 0. Returns 0, or -EINVAL if n is too
 * small or no rule counts there. */
int counters_read(struct counters *c, uint64_t *values, uint32_t n, uint32_t flags);
int counters_destroy(struct counters *c);

/* The rest is called inside raw/ only. */

/* Adds a rule that counts in ibv. Returns 0, or -EINVAL if the counters are not of ctx
 * or have no points attached. Turn held, as for the calls below. */
int counters_bind(struct ibv_counters *ibv, const struct context *ctx,
		  struct counters **out);

static inline void counters_unbind(struct counters *c)
{
	c->flows--;
}

static inline void counters_add(struct counters *c, uint32_t bytes)
{
	c->sum[IBV_COUNTER_PACKETS]++;
	c->sum[IBV_COUNTER_BYTES] += bytes;
}

/* --- work queues, and QPs that spread frames over the queues of a table ----- */

/* A work queue: a queue of receives. It is implemented by a raw packet QP that programs
 * cannot name, and has that QP's number. */
struct wq {
	struct live live;
	struct ibv_wq ibv;
	struct qp *qp;
	_Atomic unsigned users; /* number of places in tables that name the queue */
};

struct wq_table {
	struct live live;
	struct ibv_rwq_ind_table ibv;
	struct context *ctx;
	_Atomic unsigned users; /* number of QPs that use the table */
	uint32_t size;		/* a power of two */
	struct wq *wq[RSS_TABLE_MAX];
};

struct wq *wq_of(struct ibv_wq *ibv);
struct wq_table *wq_table_of(struct ibv_rwq_ind_table *ibv);

/* Makes a work queue in RESET. Returns 0, -EINVAL, -EOPNOTSUPP, -EPERM or -ENOMEM. */
int wq_create(struct context *ctx, const struct ibv_wq_init_attr *attr, struct wq **out);
int wq_modify(struct wq *wq, const struct ibv_wq_attr *attr, uint64_t now);
int wq_destroy(struct wq *wq); /* returns 0, or -EBUSY: the queue is in a table */

/* Makes a table of work queues. The caller has checked that the queues exist and belong
 * to ctx. */
int wq_table_create(struct context *ctx, const struct ibv_rwq_ind_table_init_attr *attr,
		    struct wq_table **out);
/* Returns 0, or -EBUSY: a QP uses the table. */
int wq_table_destroy(struct wq_table *table);

/* Makes a QP whose rules lead to it, and which gives their frames to the queues of a
 * table. */
int spread_create(struct context *ctx, const struct ibv_qp_init_attr_ex *attr,
		  struct qp **out);

#endif
