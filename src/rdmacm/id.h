/* SPDX-License-Identifier: BSD-2-Clause */
/* cma.h - what the files of librdmacm.so.1 share (cma_*.c): ids, channels,
 * events.  docs/cm.md. */
#ifndef ABI_CMA_H
#define ABI_CMA_H

#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <rdma/rdma_verbs.h>
#include <stdbool.h>
#include <stdint.h>
#include <unistd.h>

#include "abi/cm_gate.h"
#include "sys/list.h"

#define EXPORT __attribute__((visibility("default")))

enum { CMA_PRIVATE_MAX = 256, CMA_ACK_TIMEOUT = 19, CMA_ACK_DELAY = 15 };

/* A device, open for as long as the library is used. */
struct cma_dev {
	struct ibv_context *ctx;
	struct ibv_pd *pd; /* for ids whose program brings none */
	bool iwarp;
	uint8_t max_resources, max_depth;
	enum ibv_mtu mtu;
};

/* Which devices will do. */
enum cma_kind { CMA_ANY, CMA_ROCE, CMA_IWARP };

struct cma_channel {
	struct rdma_event_channel ch; /* first; fd: an eventfd semaphore, a token
				       * for each event or more */
	struct list events;	      /* under cma_lock */
};

enum cma_state {
	CMA_NEW,
	CMA_BOUND,
	CMA_ADDR,
	CMA_ROUTE,
	CMA_CONNECT,
	CMA_REQUEST,
	CMA_LISTEN,
};

struct cma_id {
	struct rdma_cm_id id; /* first */
	struct cm_owner owner;
	enum cma_state state;
	bool sync; /* its channel is its own, calls wait */
	bool reuse, afonly;
	pid_t pid; /* whose it is: a forked child has a copy */
	uint8_t tos, ack_timeout;
	/* Under cma_lock. */
	pthread_cond_t acked;
	unsigned got, done; /* events fetched, and acknowledged */
	unsigned busy;	    /* fetched, not yet the program's */
	bool going;	    /* there are no events for it any more */

	struct cma_dev *dev; /* NULL: not bound to one */
	int sgid_index;
	struct ibv_context *ctx; /* for the gate: listener and conn are there */
	struct cm_listener *listener;
	struct cm_conn *conn;
	struct cm_target to; /* way, ports, MTU; of both directions */
	/* What the QP is to be. */
	uint32_t psn, peer_psn, peer_qpn, qkey;
	uint8_t resources, depth, retry_count, rnr_retry;
	struct ibv_ece ece, peer_ece;
	struct list groups;
	/* rdma_create_ep(): for those that are accepted. */
	struct ibv_qp_init_attr *qp_init;
	struct ibv_pd *qp_pd;
	bool own_cqs, own_srq_cq; /* made here, not by the program */
	void *connect;		  /* private data for rdma_connect() */
	size_t connect_len;
};

struct cma_event {
	struct rdma_cm_event ev; /* first */
	struct list node;
	struct cma_id *id;     /* whose counts it is in */
	struct cm_conn *conn;  /* of a REQUEST nobody has read */
	struct cm_target from; /* ... */
	struct cm_param peer;
	struct cma_group *group;
	enum cm_event_type type;
	bool raw; /* from the engine: type says what */
	uint8_t private[CMA_PRIVATE_MAX];
};

struct cma_group {
	struct list node;
	struct cma_id *id;
	union ibv_gid gid;
	struct sockaddr_storage addr;
	void *context;
	bool attached, send_only;
	unsigned busy; /* under cma_lock: its event is looked at */
};

/* All events, and which channel an id has.  Innermost but for nothing: no gate
 * or verbs call is made under it. */
extern pthread_mutex_t cma_lock;

static inline struct cma_id *cma_of(struct rdma_cm_id *id)
{
	return (struct cma_id *)id;
}

/* Not a copy in a child of fork: there the threads that it would wait for are not,
 * and the channel's tokens are the parent's. */
static inline bool cma_is_mine(const struct cma_id *id)
{
	return id->pid == getpid();
}

static inline int cma_result(int rc) /* 0 or -errno, as programs see it */
{
	if (rc >= 0)
		return rc;
	errno = -rc;
	return -1;
}

/* cma_dev.c: 0 or -errno. */
int cma_init(void);
const struct cm_gate *cma_gate(void);
/* The device with the address ip (of interface ifindex, if not 0): RoCE before
 * iWARP. */
int cma_dev_of(const uint8_t ip[16], uint32_t ifindex, enum cma_kind kind,
	       struct cma_dev **dev, int *index);
bool cma_has_kind(enum cma_kind kind);
/* Is each device of that kind, and has it that address? */
bool cma_all_have(const uint8_t ip[16], enum cma_kind kind);
int cma_any_dev(struct cma_dev **dev);
/* An address of a device that is not loopback, of that family.  -ENODEV. */
int cma_some_ip(bool v6, uint8_t ip[16]);
bool cma_ip_is_loopback(const uint8_t ip[16]);

/* cma_addr.c */
bool cma_is_any(const struct sockaddr *a);
int cma_bind_dev(struct cma_id *id, const uint8_t ip[16], uint32_t ifindex,
		 enum cma_kind kind);
/* Which devices can id have? */
enum cma_kind cma_kind_of(const struct cma_id *id);
int cma_bind_any(struct cma_id *id);
int cma_find_source(const struct sockaddr *dst, struct sockaddr_storage *src);
int cma_take_name(struct cma_id *id);
void cma_set_src_port(struct cma_id *id, uint16_t port);
bool cma_is_datagram(const struct cma_id *id);

/* cma_event.c */
struct cma_channel *cma_channel_new(void); /* NULL: errno */
void cma_channel_free(struct cma_channel *ch);
/* Something for id's own program to read: 0 or -ENOMEM. */
int cma_post(struct cma_id *id, enum rdma_cm_event_type type, int status,
	     struct cma_group *group);
void cma_forget_group(struct cma_group *g); /* its event; nobody looks at it */
/* Before id parts with what it has: what waits for it goes unread, nothing new
 * comes, and no other thread looks at one any more. */
void cma_stop(struct cma_id *id);
void cma_wait_acked(struct cma_id *id); /* those that were read */
void cma_move(struct cma_id *id, struct cma_channel *to);
int cma_complete(struct cma_id *id); /* a synchronous id's call ends */
bool cma_on_event(struct cm_owner *owner, const struct cm_event *ev);

/* cma_id.c */
int cma_id_new(struct rdma_event_channel *ch, void *context, enum rdma_port_space ps,
	       enum ibv_qp_type type, struct cma_id **out);
void cma_id_free(struct cma_id *id);
int cma_id_for_request(struct cma_event *e); /* 0 or -errno */

/* cma_qp.c */
int cma_qp_connect(struct cma_id *id); /* to RTR, then RTS */
/* iWARP: what the peer may do is known now, and the connection does the rest. */
int cma_qp_prepare(struct cma_id *id);
static inline bool cma_is_iwarp(const struct cma_id *id)
{
	return id->dev && id->dev->iwarp;
}
void cma_qp_error(struct cma_id *id);
void cma_fill_ah(struct cma_id *id, const uint8_t dst[16], struct ibv_ah_attr *ah);

/* cma_mcast.c */
void cma_group_joined(struct cma_event *e);
void cma_leave_all(struct cma_id *id);

#endif
