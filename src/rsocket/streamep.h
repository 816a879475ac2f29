/* SPDX-License-Identifier: BSD-2-Clause */
/* streamep.h - a stream socket: the endpoint of its connection (QP, completion queues,
 * buffers and the stream that runs over them), and the connection's messages. All under
 * the socket's lock. */
#ifndef RSOCKET_STREAMEP_H
#define RSOCKET_STREAMEP_H

#include <rdma/rdma_cma.h>
#include <stdbool.h>

#include "rsocket/backlog.h"
#include "rsocket/sock.h"
#include "rsocket/streamend.h"

/* --- endpoints ----------------------------------------------------------- */

/* Registered memory. */
struct rsock_region {
	uint8_t *at;
	size_t size;
	struct ibv_mr *mr;
};

/* Receives and sends complete on two CQs, so that a reader is not woken by its own
 * sends. */
struct rsock_endpoint {
	struct rdma_cm_id *id; /* NULL: there is no endpoint */
	struct ibv_comp_channel *ch;
	struct ibv_cq *rcq, *scq;
	bool armed_r, armed_s;
	bool by_send; /* iWARP: a SEND instead of an immediate */
	int receives; /* number of receives that are always posted */
	struct rsock_region rbuf, sbuf, shared;
	struct rsock_region messages; /* if by_send: a place for each receive's message */
	struct rs_stream s;
};

/* Makes the endpoint for an id that has a device. Returns 0 or -errno; also after an
 * error rsock_ep_destroy() is needed. */
int rsock_ep_create(struct rsock_endpoint *ep, struct rdma_cm_id *id,
		    const struct rsock_sizes *sizes);
void rsock_ep_destroy(struct rsock_endpoint *ep);

/* Posts w. payload, unless NULL, goes inline instead of w->from. Returns 0 or -errno. */
int rsock_ep_post(struct rsock_endpoint *ep, const struct rs_write *w,
		  const void *payload);
/* Handles completed receives and posts them again. came() is called for each, with its
 * immediate, or with good false if it is no message of rsockets. Sets *status if a
 * receive failed. Returns how many there were. */
int rsock_ep_take_receives(struct rsock_endpoint *ep, enum ibv_wc_status *status,
			   void (*came)(void *arg, bool good, uint32_t imm), void *arg);
/* Handles completed sends. Sets *status if one failed: the first status that is not a
 * flush. Returns how many there were. */
int rsock_ep_take_sends(struct rsock_endpoint *ep, enum ibv_wc_status *status);

/* Asks for an event at the next completion; the caller has to look once more afterwards.
 * for_space: also at completed sends, which free space. */
void rsock_ep_arm(struct rsock_endpoint *ep, bool for_space);
bool rsock_ep_take_events(struct rsock_endpoint *ep); /* returns true if there were any */

/* --- connections --------------------------------------------------------- */

/* A buffer that the program has mapped (riomap). */
struct rsock_map {
	struct list node;
	struct ibv_mr *mr;
	void *buf;
	size_t len;
	bool remote, going; /* remote: the peer may write to it; going: being unmapped */
	uint32_t index;	    /* of the peer's iomap entry, if remote */
	uint64_t offset;
};

struct rsock_stream {
	struct rsock sock; /* must be first */
	struct rdma_cm_id *id;
	bool bound; /* by rbind(): kept after a failed connect */
	struct sockaddr_storage local;

	struct rsock_backlog backlog; /* if it is a listener */
	struct rsock_child child;     /* if it is a listener's connection */

	/* The fields of a connection. */
	bool passive;	     /* made for a listener */
	struct rs_conn peer; /* passive: the private data of the client */
	bool was_up;
	/* read_end: no more data comes. write_end: no more data is sent. */
	bool read_end, write_end;
	/* shutdown() for reading was called: data that came is not read either. */
	bool read_shut;
	bool peer_disconnected; /* the peer sent RS_DISCONNECT */
	bool said_disconnect;	/* we sent RS_DISCONNECT, or it is due */
	unsigned controls_due;	/* bits 1 << enum rs_control: to be sent */
	uint64_t kept;		/* when the last keepalive was sent, as rsock_now() */
	uint64_t close_end;	/* when the service thread gives the socket up */
	struct rsock_endpoint ep;
	struct list maps;
};

static inline struct rsock_stream *rsock_stream_of(struct rsock *rs)
{
	return (struct rsock_stream *)rs;
}

/* Makes a socket of that kind, with a count of 1 and no descriptor. Returns 0 or
 * -errno. */
int rsock_stream_new(const struct rsock_kind *kind, int domain,
		     struct rsock_stream **out);

/* rsock_conn_open() makes the endpoint for the id and returns 0 or -errno;
 * rsock_conn_close() destroys the endpoint and all that is mapped. */
int rsock_conn_open(struct rsock_stream *st);
void rsock_conn_close(struct rsock_stream *st);
/* Sets *p to this end's parameters, with private data in data. */
void rsock_conn_param(const struct rsock_stream *st, struct rdma_conn_param *p,
		      uint8_t data[RS_CONN_SIZE]);

/* Handles completions, then sends what is due. */
void rsock_conn_progress(struct rsock_stream *st);
/* Posts w; a failure ends the connection. Returns 0 or -errno. */
int rsock_conn_post(struct rsock_stream *st, const struct rs_write *w,
		    const void *payload);
/* Sends grants that are due, after a read. */
void rsock_conn_grant(struct rsock_stream *st);
/* Sends a control message now, or when one of the four controls is free. */
void rsock_conn_control(struct rsock_stream *st, enum rs_control what);
/* Ends the connection. The program gets err unless a disconnect, or both ends' shutdown,
 * came before. */
void rsock_conn_fail(struct rsock_stream *st, int err);

/* These are functions of struct rsock_kind. */
void rsock_conn_arm(struct rsock *rs, bool for_space);
void rsock_conn_take_events(struct rsock *rs);
bool rsock_conn_may_spin(const struct rsock *rs);
short rsock_conn_events(struct rsock *rs, short asked);
/* Would a read, or a write, not wait? (The write may fail.) */
bool rsock_conn_readable(struct rsock *rs);
bool rsock_conn_writable(struct rsock *rs);

#endif
