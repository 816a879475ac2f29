/* SPDX-License-Identifier: BSD-2-Clause */
/* id.h - ids: made, given options, moved, destroyed. */
#ifndef RDMACM_ID_H
#define RDMACM_ID_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>
#include <stdint.h>

#include "cm/gate.h"
#include "rdmacm/channel.h"
#include "rdmacm/dev.h"

enum { CMA_ACK_TIMEOUT = 19, CMA_PKEY_DEFAULT = 0xffff };

enum cma_state {
	CMA_NEW,
	CMA_BOUND,
	CMA_ADDR,
	CMA_QUERY, /* the subnet is asked for the path */
	CMA_ROUTE,
	CMA_CONNECT,
	CMA_REQUEST,
	CMA_LISTEN,
};

struct cma_id {
	struct rdma_cm_id id; /* first */
	struct live live;
	struct cma_source source;
	struct cm_owner owner;
	enum cma_state state;
	bool sync; /* its channel is its own, calls wait */
	bool reuse, afonly;
	bool ack_said; /* the program has set ack_timeout */
	uint8_t tos, ack_timeout;

	struct cma_dev *dev; /* NULL: not bound to one */
	int sgid_index;
	struct ibv_context *ctx; /* for the gate: listener and conn are there */
	struct cm_listener *listener;
	struct cm_conn *conn;
	struct cm_target to; /* route, ports, MTU; of both directions */
	/* What the QP is to be. */
	uint32_t psn, peer_psn, peer_qpn, qkey;
	uint8_t resources, depth, retry_count, rnr_retry;
	struct ibv_ece ece, peer_ece;
	struct list groups;
	/* rdma_create_ep(): for those that are accepted. */
	struct ibv_qp_init_attr *qp_init;
	struct ibv_pd *qp_pd;
	void *connect; /* private data for rdma_connect() */
	size_t connect_len;
};

static inline struct cma_id *cma_of(struct rdma_cm_id *id)
{
	return (struct cma_id *)id;
}

/* The id that e is about. */
static inline struct cma_id *cma_id_of(const struct cma_event *e)
{
	return container_of(e->source, struct cma_id, source);
}

static inline bool cma_is_iwarp(const struct cma_id *id)
{
	return id->dev && id->dev->iwarp;
}

static inline bool cma_is_datagram(const struct cma_id *id)
{
	return id->id.qp_type == IBV_QPT_UD;
}

/* ch NULL: one of its own.  0 or -errno. */
int cma_id_new(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps,
	       enum ibv_qp_type type, struct cma_id **out);
/* The same as a program asks for it. */
int cma_create(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps,
	       struct cma_id **out);
/* Nothing refers to it any more. */
void cma_id_free(struct cma_id *id);

/* Something for id's own program to read: 0 or -errno. */
int cma_post(struct cma_id *id, enum rdma_cm_event_type type, int status,
	     struct cma_group *group);
/* What id's last call came to, if it waits for its calls, is acknowledged. */
void cma_ack_own(struct cma_id *id);
/* Before id parts with what it has: what waits for it goes unread, nothing new comes,
 * and no other thread looks at one of its events. */
void cma_stop(struct cma_id *id);

int cma_migrate(struct cma_id *id, struct rdma_event_channel *channel);
int cma_set_option(struct cma_id *id, int level, int name, const void *val, size_t len);
int cma_set_ece(struct cma_id *id, const struct ibv_ece *ece);
int cma_get_ece(const struct cma_id *id, struct ibv_ece *ece);

#endif
