/* SPDX-License-Identifier: BSD-2-Clause */
/* stream.h - one end of a stream: credits, the receive buffer, the send buffer,
 * iomaps.  Pure: immediates and completions go in, RDMA WRITEs to be posted come
 * out.  docs/rsocket.md.  Implemented by stream.c, tx.c, rx.c and iomap.c. */
#ifndef RSOCKET_STREAM_H
#define RSOCKET_STREAM_H

#include "rsocket/format.h"

enum {
	RS_TARGETS = 2,	 /* entries of our target SGL */
	RS_CONTROLS = 4, /* controls (they need no credit) that are posted
			  * and not completed, at most */
	/* On iWARP a control that has completed may not have arrived, and a missing
	 * receive ends the connection: so many receives are posted for controls. */
	RS_CONTROLS_SENT = 4 * RS_CONTROLS,
	RS_CHUNK = 65536,  /* bytes of a data message, at most */
	RS_IMAGE_MAX = 24, /* bytes of rs_write.image */
	RS_MESSAGE = 4,	   /* bytes of an immediate that is sent (iWARP) */
};

/* The peer may write to `shared`, where the target SGL and the iomaps lie, and to
 * rbuf; the keys are those of their registrations. */
struct rs_memory {
	uint8_t *rbuf, *sbuf;
	uint32_t rbuf_size, sbuf_size; /* rbuf_size: even, not 0 */
	void *shared;		       /* RS_TARGETS rs_sge, iomaps rs_iomap; zero */
	uint32_t rbuf_key, shared_key;
	uint16_t sq, rq; /* data messages out; credits given */
	uint32_t iomaps; /* that the peer may write */
	bool no_rnr;	 /* iWARP: a missing receive ends the connection */
};

/* One RDMA WRITE. */
struct rs_write {
	uint64_t addr; /* at the peer */
	uint32_t key, len;
	const uint8_t *from; /* in sbuf; NULL: image, to be sent inline */
	uint8_t image[RS_IMAGE_MAX];
	bool has_imm, control;
	uint32_t imm;
	uint32_t sbuf_bytes; /* for rs_sent() */
};

enum rs_event {
	RS_EV_NONE,
	RS_EV_DATA,
	RS_EV_GRANT,
	RS_EV_SHUTDOWN,
	RS_EV_DISCONNECT,
	RS_EV_BROKEN, /* the peer does not keep to the protocol */
};

struct rs_stream {
	struct rs_memory m;

	/* Sending: sbuf is used in [head - used, head). */
	uint32_t head, used;
	uint16_t data_out, control_out; /* posted, not completed */
	/* Data messages, modulo 2^16: sent; that may be sent. */
	uint16_t sent, granted;
	uint16_t spare;	      /* credits that data leave to controls */
	struct rs_sge to;     /* what is left of the peer's buffer */
	uint32_t next_target; /* our entry that the peer writes next */

	/* Receiving: unread bytes are in [read_at, read_at + unread); those in
	 * [free_at, free_at + free) are free and not published yet. */
	uint32_t read_at, unread, free_at, free;
	uint32_t room;	 /* left in the half that is being filled */
	unsigned halves; /* published, and not begun by the peer */
	/* Data messages, modulo 2^16: received; received before the last grant. */
	uint16_t received, reported;
	struct rs_sge peer_targets; /* length: entries */
	uint32_t next_peer_target;
	bool swap; /* the peer has the other order of bytes */

	uint64_t peer_iomap; /* address of its entries */
	uint32_t peer_iomaps;
};

void rs_init(struct rs_stream *s, const struct rs_memory *m);
/* The private data that this end sends; and a start with those of the peer. */
void rs_self(const struct rs_stream *s, struct rs_conn *out);
void rs_start(struct rs_stream *s, const struct rs_conn *peer);

/* A receive completed, with this immediate. */
enum rs_event rs_received(struct rs_stream *s, uint32_t imm);
/* The immediate in a message of iWARP, which has the order of bytes of the peer. */
uint32_t rs_message(const struct rs_stream *s, const uint8_t at[RS_MESSAGE]);
/* A WRITE completed. */
void rs_sent(struct rs_stream *s, bool control, uint32_t sbuf_bytes);

/* --- tx.c ---------------------------------------------------------------- */

/* How many bytes one data message can have now, if the program has `wanted` bytes;
 * 0: it must wait.  If there is room for SIZE_MAX there is room for any number. */
uint32_t rs_room(struct rs_stream *s, size_t wanted);
/* The WRITE of len <= rs_room() bytes, which the caller copies to out->from before
 * it posts the WRITE; not if is_inline: the bytes lie elsewhere and go inline. */
void rs_send(struct rs_stream *s, uint32_t len, bool is_inline, struct rs_write *out);
bool rs_may_control(const struct rs_stream *s);
void rs_send_control(struct rs_stream *s, enum rs_control what, struct rs_write *out);
/* A WRITE of nothing without an immediate: the peer's program does not notice. */
void rs_send_keepalive(struct rs_stream *s, struct rs_write *out);

/* --- rx.c ---------------------------------------------------------------- */

/* The next unread bytes that lie together: how many, and where. */
uint32_t rs_unread(const struct rs_stream *s, uint32_t skip, const uint8_t **at);
void rs_consume(struct rs_stream *s, uint32_t bytes); /* <= s->unread */
bool rs_grant_due(const struct rs_stream *s);
void rs_send_grant(struct rs_stream *s, struct rs_write *out);

/* --- iomap.c ------------------------------------------------------------- */

/* The WRITE of entry `index` (< peer_iomaps) to the peer; length 0 clears it. */
void rs_send_iomap(struct rs_stream *s, uint32_t index, const struct rs_iomap *map,
		   struct rs_write *out);
/* The WRITE of up to len bytes to the peer's offset.  False: nothing is mapped
 * there.  out->len 0: sbuf has no room now. */
bool rs_send_direct(struct rs_stream *s, uint64_t offset, size_t len,
		    struct rs_write *out);

#endif
