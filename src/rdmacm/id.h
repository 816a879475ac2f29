/* SPDX-License-Identifier: BSD-2-Clause */
/* id.h - makes ids, sets their options, moves them between channels, destroys them; and
 * the line of the log about a call on an id that fails at once. (What fails later is an
 * event, and cma_event.c logs it.) */
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
	struct rdma_cm_id id; /* must be first */
	struct live live;
	struct cma_source source;
	struct cm_owner owner;
	enum cma_state state;
	bool sync; /* id has a channel of its own, and calls wait */
	bool reuse, afonly;
	bool ack_said; /* the program has set ack_timeout itself */
	uint8_t tos, ack_timeout;

	struct cma_dev *dev; /* NULL: not bound to a device */
	int sgid_index;
	/* The context that the gate takes for listener and conn. */
	struct ibv_context *ctx;
	struct cm_listener *listener;
	struct cm_conn *conn;
	struct cm_target to; /* route, ports and MTU, of both directions */
	/* Parameters of the QP. */
	uint32_t psn, peer_psn, peer_qpn, qkey;
	uint8_t resources, depth, retry_count, rnr_retry;
	struct ibv_ece ece, peer_ece;
	struct list groups;
	/* From rdma_create_ep(): QP attributes for ids of accepted requests. */
	struct ibv_qp_init_attr *qp_init;
	struct ibv_pd *qp_pd;
	struct rdma_addrinfo *info; /* result of cma_resolve_addrinfo() */
	void *connect;		    /* default private data for rdma_connect() */
	size_t connect_len;
};

static inline struct cma_id *cma_of(struct rdma_cm_id *id)
{
	return (struct cma_id *)id;
}

/* Returns the id that e is about. */
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

/* Makes an id. ch NULL: with a channel of its own, its calls then wait. Returns 0 or
 * -errno. */
int cma_id_new(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps,
	       enum ibv_qp_type type, struct cma_id **out);
/* Makes an id as cma_id_new() does, for a program's port space, which decides the QP
 * type. */
int cma_create(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps,
	       struct cma_id **out);
/* Frees id, to which nothing refers any more. */
void cma_id_free(struct cma_id *id);

/* Appends an event for id's program to read. Returns 0 or -errno. */
int cma_post(struct cma_id *id, enum rdma_cm_event_type type, int status,
	     struct cma_group *group);
/* Acknowledges the event of a synchronous id's last call. */
void cma_ack_own(struct cma_id *id);
/* Drops id's unread events, refuses new ones, and waits until no other thread processes
 * one. To be called before id's QP, connection or groups are given up. */
void cma_stop(struct cma_id *id);

int cma_migrate(struct cma_id *id, struct rdma_event_channel *channel);
int cma_set_option(struct cma_id *id, int level, int name, const void *val, size_t len);
int cma_set_ece(struct cma_id *id, const struct ibv_ece *ece);
int cma_get_ece(const struct cma_id *id, struct ibv_ece *ece);

/* --- calls that are refused ---------------------------------------------- */

/* Returns -EINVAL, and keeps why for cma_say_refused(). NULL: forgets it. */
int cma_refuse(const char *why);
/* As cma_refuse(): the call is not for an id in that state. */
int cma_not_now(const struct cma_id *id);
/* a: the address that the call names, or NULL. id NULL: the call would have made one. */
void cma_say_refused(const struct cma_id *id, const char *call, const struct sockaddr *a,
		     int rc);

#endif
