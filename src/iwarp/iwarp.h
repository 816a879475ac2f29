/* SPDX-License-Identifier: BSD-2-Clause */
/* iwarp.h - the iWARP transport as others see it: rdma_cm sets connections up
 * and attaches them to QPs; the engine (nic/, or a unit test) moves the bytes.
 * docs/iwarp.md is the page to read first. */
#ifndef IWARP_IWARP_H
#define IWARP_IWARP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "core/qp.h"
#include "core/transport.h"
#include "wire/mpa.h"

struct core;
struct stream;

/* --- setting a connection up (RFC 5044, 7; RFC 6581) ------------------------
 *
 * A struct iw_setup is the caller's, and so are the descriptor and the timeout.
 * Whenever the descriptor is ready: send what iw_setup_out() gives, receive no
 * more than iw_setup_room() asks for (what follows belongs to the QP), and look
 * at the state.
 *
 *	initiator: iw_setup_start() ........................ IW_DONE, IW_REJECTED
 *	responder: iw_setup_listen() .. IW_REQUEST .. iw_setup_accept() . IW_DONE
 *	                                              iw_setup_reject() . IW_REJECTED
 *
 * In IW_DONE, IW_REJECTED and IW_FAILED all is received, but the last may still
 * have to be sent: iw_setup_out().  (For rdma_cm: a request's peer.ord is what
 * its event calls responder_resources, peer.ird its initiator_depth.) */

enum iw_state {
	IW_MORE,     /* bytes are awaited, in or out */
	IW_REQUEST,  /* responder: `peer` is what it asks for */
	IW_DONE,     /* `agreed` stands: iwarp_attach() */
	IW_REJECTED, /* by the peer: `peer.data` says why; or by us */
	IW_FAILED,   /* `why`; send what is left, close */
};

enum iw_why {
	IW_WHY_NONE,
	IW_WHY_GARBAGE,	 /* no MPA frame, or a broken one */
	IW_WHY_REVISION, /* not one of ours; a new connection may try
			  * a lower one */
	IW_WHY_IRD,	 /* the responder wants more READs than there
			  * may be: Terminate LLP 0/06 */
	IW_WHY_RTR,	 /* it picks a frame that was not offered:
			  * Terminate LLP 0/07 */
};

/* What one side wants. */
struct iw_offer {
	uint8_t revision;  /* initiator: 1 or 2; responder: the peer's */
	bool crc;	   /* used if either side wants it */
	bool markers;	   /* we want to receive them */
	unsigned rtr;	   /* initiator, revision 2: enum mpa_rtr that it
			    * can send; 0: client and server */
	uint16_t ird, ord; /* READs and atomics at once, in and out; at
			    * most IW_DEPTH_MAX */
	const void *data;  /* private data, copied */
	uint16_t data_len;
};

enum {
	IW_DEPTH_MAX = 128,
	IW_PRIVATE_MAX = MPA_PRIVATE_MAX - MPA_ENHANCED_LEN,
	IW_DEPTH_UNKNOWN = 0x3fff, /* RFC 6581, 9.1: not negotiated here */
};

/* What both have agreed on. */
struct iw_params {
	bool initiator;
	uint8_t revision;
	bool crc, markers_in, markers_out;
	enum mpa_rtr rtr;  /* the initiator's first frame; or none */
	uint16_t ird, ord; /* ours */
	size_t mss;	   /* the stream's; the caller fills it in */
};

struct iw_setup {
	enum iw_state state;
	enum iw_why why;
	struct mpa_hello peer; /* points into in[] */
	struct iw_params agreed;
	/* setup.c's own: */
	struct iw_offer offer;
	size_t in_len, out_len, out_at;
	uint8_t in[MPA_HELLO_MAX], out[MPA_HELLO_MAX];
};

/* 0; -EINVAL: the offer cannot be made. */
int iw_setup_start(struct iw_setup *s, const struct iw_offer *offer);
void iw_setup_listen(struct iw_setup *s);
int iw_setup_accept(struct iw_setup *s, const struct iw_offer *offer);
int iw_setup_reject(struct iw_setup *s, const void *data, uint16_t data_len);

/* What is to be sent, iov_len 0 if nothing; and that n bytes of it were. */
struct iovec iw_setup_out(struct iw_setup *s);
void iw_setup_sent(struct iw_setup *s, size_t n);
/* Where to receive, iov_len 0 if nothing is awaited; and that n bytes came. */
struct iovec iw_setup_room(struct iw_setup *s);
void iw_setup_received(struct iw_setup *s, size_t n);

/* --- a QP's connection --------------------------------------------------- */

enum iw_end {
	IW_END_PEER,  /* it has closed, in order */
	IW_END_US,    /* modify_qp, or we have closed first */
	IW_END_ERROR, /* Terminate, reset, timeout */
};

/* What becomes of a connection, for who attached it.  Called with the turn and
 * qp->lock held, each once at most: note it, no more. */
struct iwarp_user {
	void (*ready)(void *arg); /* the peer's first FPDU has come (at once
				   * for an initiator): established */
	void (*ended)(void *arg, enum iw_end how);
};

/* qp, in INIT, goes to RTS on this connection, which is the QP's from now on.
 * qp: of an iWARP device.  user may be NULL.  With the turn held; takes qp->lock.
 * 0; -EINVAL: not in INIT; -ENOMEM; -EIO.  After an error the stream is the
 * caller's still. */
int iwarp_attach(struct qp *qp, struct stream *stream, const struct iw_params *p,
		 const struct iwarp_user *user, void *arg, uint64_t now);
/* user is not called any more. */
void iwarp_forget_user(struct qp *qp);

/* --- moving the bytes; turn and qp->lock held ---------------------------- */

/* The engine's side of it. */
struct iwarp_ops {
	/* qp has got this stream: 0 or -errno. */
	int (*attached)(void *arg, struct qp *qp, struct stream *stream);
	/* qp is done with it: close it. */
	void (*released)(void *arg, struct qp *qp, struct stream *stream);
	/* Put out what qp has to send, at most its share.  True: it could send more. */
	bool (*output)(void *arg, struct qp *qp, uint64_t now);
};

int iwarp_open(struct core *core, const struct iwarp_ops *ops, void *arg);
void iwarp_close(struct core *core);

struct stream *iwarp_stream(struct qp *qp); /* or NULL */

/* What can be sent now: pieces, which stand until iwarp_sent() in the same turn,
 * and is called whenever there were some.  0: nothing. */
unsigned iwarp_output(struct qp *qp, const struct iovec **iov, uint64_t now)
	REQUIRES(qp->lock);
/* The stream took the first n bytes of them; or (negative) -EFAULT: a piece is
 * not mapped, none was taken. */
void iwarp_sent(struct qp *qp, ssize_t n, uint64_t now) REQUIRES(qp->lock);

/* Where to receive: up to two pieces; and that n bytes came. */
unsigned iwarp_room(struct qp *qp, struct iovec iov[2]) REQUIRES(qp->lock);
void iwarp_received(struct qp *qp, size_t n, uint64_t now) REQUIRES(qp->lock);
/* Nothing more comes: 0, the peer's FIN; or -errno, the connection is lost. */
void iwarp_hangup(struct qp *qp, int why, uint64_t now) REQUIRES(qp->lock);
/* We want no more of it: the stream is closed, what is under way flushed. */
void iwarp_disconnect(struct qp *qp, uint64_t now) REQUIRES(qp->lock);

/* What the QP wants done with its stream; asked after the above. */
enum iw_wish {
	IW_WISH_NONE,
	IW_WISH_FIN,   /* no more is sent: shut down that direction */
	IW_WISH_CLOSE, /* call iwarp_release() */
};
enum iw_wish iwarp_wish(struct qp *qp);
void iwarp_release(struct qp *qp);

extern const struct transport iwarp_transport;

#endif
