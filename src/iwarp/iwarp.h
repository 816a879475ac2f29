/* SPDX-License-Identifier: BSD-2-Clause */
/* iwarp.h - the iWARP transport as others see it: rdma_cm sets connections up and
 * attaches them to QPs; the engine (driver/, or a unit test) moves the bytes.  Read
 * docs/dev/iwarp.md first. */
#ifndef IWARP_IWARP_H
#define IWARP_IWARP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "verbs/qp.h"
#include "verbs/transport.h"
#include "wire/mpa.h"

struct core;
struct stream;

/* --- setting a connection up (RFC 5044, 7; RFC 6581) ------------------------
 *
 * The caller owns the struct iw_setup, the descriptor and the timeout.  Whenever the
 * descriptor is ready, the caller sends what iw_setup_out() returns, receives no more
 * than iw_setup_room() asks for (bytes behind it belong to the QP), and checks the state.
 *
 *	initiator: iw_setup_start() ........................ IW_DONE, IW_REJECTED
 *	responder: iw_setup_listen() .. IW_REQUEST .. iw_setup_accept() . IW_DONE
 *	                                              iw_setup_reject() . IW_REJECTED
 *
 * In IW_DONE, IW_REJECTED and IW_FAILED all has been received, but there may be something
 * left to send: iw_setup_out().  (In rdma_cm's event for a request, peer.ord is
 * responder_resources and peer.ird is initiator_depth.) */

enum iw_state {
	IW_MORE,     /* waits for bytes, in or out */
	IW_REQUEST,  /* responder: `peer` is the request */
	IW_DONE,     /* `agreed` is valid: iwarp_attach() */
	IW_REJECTED, /* by the peer, with the reason in `peer.data`; or by us */
	IW_FAILED,   /* for the reason in `why`; send what is left, then close */
};

enum iw_why {
	IW_WHY_NONE,
	IW_WHY_GARBAGE,	 /* no MPA frame, or a broken one */
	IW_WHY_REVISION, /* not ours; a new connection may try a lower one */
	/* The responder wants more READs than possible: Terminate LLP 0/06 */
	IW_WHY_IRD,
	/* The responder picks a frame that was not offered: Terminate LLP 0/07 */
	IW_WHY_RTR,
};

/* What one side asks for. */
struct iw_offer {
	uint8_t revision; /* initiator: 1 or 2; responder: the peer's */
	bool crc;	  /* used if either side wants it */
	bool markers;	  /* this side wants to receive markers */
	/* Initiator, revision 2: enum mpa_rtr that it can send, or-ed; 0:
	 * client-server mode */
	unsigned rtr;
	/* READs and atomics at once, in and out; at most IW_DEPTH_MAX */
	uint16_t ird, ord;
	const void *data; /* private data, copied */
	uint16_t data_len;
};

enum {
	IW_DEPTH_MAX = 128,
	IW_PRIVATE_MAX = MPA_PRIVATE_MAX - MPA_ENHANCED_LEN,
	IW_DEPTH_UNKNOWN = 0x3fff, /* RFC 6581, 9.1: not negotiated here */
};

/* What both sides have agreed on. */
struct iw_params {
	bool initiator;
	uint8_t revision;
	bool crc, markers_in, markers_out;
	enum mpa_rtr rtr;  /* the initiator's first frame; or none */
	uint16_t ird, ord; /* of this side */
	size_t mss;	   /* of the stream; the caller sets it */
	/* For lines of the log; the caller sets them. */
	uint8_t peer[16];
	uint16_t peer_port;
};

struct iw_setup {
	enum iw_state state;
	enum iw_why why;
	struct mpa_hello peer; /* its data points into in[] */
	struct iw_params agreed;
	/* Internal to setup.c: */
	struct iw_offer offer;
	size_t in_len, out_len, out_at;
	uint8_t in[MPA_HELLO_MAX], out[MPA_HELLO_MAX];
};

/* These return 0, or -EINVAL if the offer cannot be made or the state is wrong. */
int iw_setup_start(struct iw_setup *s, const struct iw_offer *offer);
void iw_setup_listen(struct iw_setup *s);
int iw_setup_accept(struct iw_setup *s, const struct iw_offer *offer);
int iw_setup_reject(struct iw_setup *s, const void *data, uint16_t data_len);

/* The bytes to send, iov_len 0 if there are none; and: n bytes of them were sent. */
struct iovec iw_setup_out(struct iw_setup *s);
void iw_setup_sent(struct iw_setup *s, size_t n);
/* Where to receive, iov_len 0 if no bytes are awaited; and: n bytes were received. */
struct iovec iw_setup_room(struct iw_setup *s);
void iw_setup_received(struct iw_setup *s, size_t n);

/* --- a QP's connection --------------------------------------------------- */

enum iw_end {
	IW_END_PEER,  /* the peer has closed in order */
	IW_END_US,    /* modify_qp, or this side has closed first */
	IW_END_ERROR, /* Terminate, reset, timeout */
};

/* Tells the code that attached a connection what becomes of it.  Called with the turn and
 * qp->lock held, each at most once: it must only note the event. */
struct iwarp_user {
	/* The peer's first FPDU has come (for an initiator: at once): established */
	void (*ready)(void *arg);
	void (*ended)(void *arg, enum iw_end how);
};

/* Moves qp, in INIT and of an iWARP device, to RTS on this connection, which then belongs
 * to the QP.  An initiator's RTR is sent before it returns.  user may be NULL.  Needs the
 * turn; takes qp->lock.  Returns 0; -EINVAL: not in INIT; -ENOMEM; -EIO.  After an error
 * the stream still belongs to the caller. */
int iwarp_attach(struct qp *qp, struct stream *stream, const struct iw_params *p,
		 const struct iwarp_user *user, void *arg, uint64_t now);

/* --- moving the bytes; turn and qp->lock held ---------------------------- */

/* Functions that the engine provides. */
struct iwarp_ops {
	/* qp has got this stream.  Returns 0 or -errno. */
	int (*attached)(void *arg, struct qp *qp, struct stream *stream);
	/* qp is done with the stream: close it. */
	void (*released)(void *arg, struct qp *qp, struct stream *stream);
	/* From now on qp takes no bytes of its stream (on), or takes them again: no
	 * iwarp_room() and iwarp_received() while it takes none. */
	void (*paused)(void *arg, struct qp *qp, struct stream *stream, bool on);
	/* Sends what qp has to send, at most its share.  Returns true if it could send
	 * more. */
	bool (*output)(void *arg, struct qp *qp, uint64_t now);
};

int iwarp_open(struct core *core, const struct iwarp_ops *ops, void *arg);
void iwarp_close(struct core *core);

struct stream *iwarp_stream(struct qp *qp); /* NULL: no connection */

/* The bytes to send now, as pieces that are valid until iwarp_sent().  Call that in the
 * same turn if there are any.  Returns the number of pieces. */
unsigned iwarp_output(struct qp *qp, const struct iovec **iov, uint64_t now)
	REQUIRES(qp->lock);
/* The stream took the first n bytes of the pieces.  n may be -EFAULT: a piece is not
 * mapped and nothing was taken. */
void iwarp_sent(struct qp *qp, ssize_t n, uint64_t now) REQUIRES(qp->lock);

/* Where to receive, up to two pieces; and: n bytes were received. */
unsigned iwarp_room(struct qp *qp, struct iovec iov[2]) REQUIRES(qp->lock);
void iwarp_received(struct qp *qp, size_t n, uint64_t now) REQUIRES(qp->lock);
/* Nothing more comes.  why: 0 for the peer's FIN, -errno if the connection is lost. */
void iwarp_hangup(struct qp *qp, int why, uint64_t now) REQUIRES(qp->lock);
/* Ends the connection from this side: closes the stream, flushes what is outstanding. */
void iwarp_disconnect(struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* What the QP wants done with its stream; ask after each of the calls above. */
enum iw_wish {
	IW_WISH_NONE,
	IW_WISH_FIN,   /* sends no more: shut down that direction */
	IW_WISH_CLOSE, /* call iwarp_release() */
};
enum iw_wish iwarp_wish(struct qp *qp);
void iwarp_release(struct qp *qp);

extern const struct transport iwarp_transport;

#endif
