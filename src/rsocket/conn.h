/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.h - a stream socket, and what it says and hears as a connection.  All under
 * the socket's lock. */
#ifndef RSOCKET_CONN_H
#define RSOCKET_CONN_H

#include "rsocket/backlog.h"
#include "rsocket/endpoint.h"
#include "rsocket/sock.h"

/* A buffer that the program has mapped (riomap). */
struct rsock_map {
	struct list node;
	struct ibv_mr *mr;
	void *buf;
	size_t len;
	bool remote, going; /* going: being unmapped */
	uint32_t index;	    /* of the peer's entry, if remote */
	uint64_t offset;
};

struct rsock_stream {
	struct rsock sock; /* first */
	struct rdma_cm_id *id;
	bool bound; /* by rbind: it stays so after a failed connect */
	struct sockaddr_storage local;

	struct rsock_backlog backlog; /* as a listener */
	struct rsock_child child;     /* as a listener's connection */

	/* As a connection. */
	bool passive;	     /* made for a listener */
	struct rs_conn peer; /* passive: what the client has said */
	bool was_up;
	bool read_end, write_end; /* nothing more comes; nothing more goes */
	bool read_shut;		  /* by us: what is there is not read either */
	bool peer_disconnected;	  /* it said disconnect */
	bool said_disconnect;	  /* we did, or it is due */
	unsigned controls_due;	  /* 1 << enum rs_control: not said yet */
	uint64_t kept;		  /* when a keepalive was sent, rsock_now() */
	uint64_t close_end;	  /* when the service thread gives up on it */
	struct rsock_endpoint ep;
	struct list maps;
};

static inline struct rsock_stream *rsock_stream_of(struct rsock *rs)
{
	return (struct rsock_stream *)rs;
}

/* A socket of that kind, with a count of 1 and without a descriptor.  0 or
 * -errno. */
int rsock_stream_new(const struct rsock_kind *kind, int domain,
		     struct rsock_stream **out);

/* Makes the endpoint for the id; takes it down, with what is mapped.  0 or
 * -errno. */
int rsock_conn_open(struct rsock_stream *st);
void rsock_conn_close(struct rsock_stream *st);
/* What this end says of itself; p points to data. */
void rsock_conn_param(const struct rsock_stream *st, struct rdma_conn_param *p,
		      uint8_t data[RS_CONN_SIZE]);

/* What completed is taken in, what is due is sent. */
void rsock_conn_progress(struct rsock_stream *st);
/* Posts w; a failure ends the connection.  0 or -errno. */
int rsock_conn_post(struct rsock_stream *st, const struct rs_write *w,
		    const void *payload);
void rsock_conn_grant(struct rsock_stream *st); /* after something was read */
/* Says it now, or when one of the four controls is free. */
void rsock_conn_control(struct rsock_stream *st, enum rs_control what);
/* It has ended; the program is told err, unless both ends had said farewell. */
void rsock_conn_fail(struct rsock_stream *st, int err);

/* The functions of struct rsock_kind. */
void rsock_conn_arm(struct rsock *rs, bool for_space);
void rsock_conn_take_events(struct rsock *rs);
bool rsock_conn_may_spin(const struct rsock *rs);
short rsock_conn_events(struct rsock *rs, short asked);
/* A read would not wait; a write would not (it may fail). */
bool rsock_conn_readable(struct rsock *rs);
bool rsock_conn_writable(struct rsock *rs);

#endif
