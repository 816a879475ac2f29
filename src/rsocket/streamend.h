/* SPDX-License-Identifier: BSD-2-Clause */
/* streamend.h - one end of a stream: credits, the receive and send buffers, iomaps. It
 * calls no verbs: immediates and completions go in, RDMA WRITEs to be posted come out.
 * See docs/dev/rsocket.md. */
#ifndef RSOCKET_STREAMEND_H
#define RSOCKET_STREAMEND_H

#include "rsocket/format.h"

enum {
	RS_TARGETS = 2, /* entries of our target SGL */
	/* Controls need no credit; at most so many are posted and not completed. */
	RS_CONTROLS = 4,
	/* Receives that are posted for controls on iWARP. There a control that has
	 * completed may not have arrived yet, and a missing receive ends the
	 * connection. */
	RS_CONTROLS_SENT = 4 * RS_CONTROLS,
	RS_CHUNK = 65536,  /* most bytes of a data message */
	RS_IMAGE_MAX = 24, /* bytes of rs_write.image */
	RS_MESSAGE = 4,	   /* bytes of the SEND that replaces an immediate (iWARP) */
};

/* The memory of a stream. The peer may write to rbuf and to `shared`, which holds the
 * target SGL and the iomaps; the keys are those of their regions. */
struct rs_memory {
	uint8_t *rbuf, *sbuf;
	uint32_t rbuf_size, sbuf_size; /* bytes; rbuf_size is even and not 0 */
	/* RS_TARGETS rs_sge, then iomaps rs_iomap; all zero at first. */
	void *shared;
	uint32_t rbuf_key, shared_key;
	uint16_t sq, rq; /* data messages: posted at most; credits granted */
	uint32_t iomaps; /* entries that the peer may write */
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
	uint32_t sbuf_bytes; /* argument of rs_sent() */
};

enum rs_event {
	RS_EV_NONE,
	RS_EV_DATA,
	RS_EV_GRANT,
	RS_EV_SHUTDOWN,
	RS_EV_DISCONNECT,
	RS_EV_BROKEN, /* the peer violates the protocol */
};

struct rs_stream {
	struct rs_memory m;

	/* Sending: sbuf is in use in [head - used, head). */
	uint32_t head, used;
	uint16_t data_out, control_out; /* posted, not completed */
	/* Data messages, modulo 2^16: sent; that the peer allows to be sent. */
	uint16_t sent, granted;
	uint16_t spare;	      /* credits that data messages leave to controls */
	struct rs_sge to;     /* the rest of the peer's current buffer */
	uint32_t next_target; /* the entry of our target SGL that the peer writes next */

	/* Receiving: unread bytes are in [read_at, read_at + unread); bytes in [free_at,
	 * free_at + free) are free and not published yet. */
	uint32_t read_at, unread, free_at, free;
	uint32_t room;	 /* bytes left in the half that the peer fills now */
	unsigned halves; /* other halves that are published */
	/* Data messages, modulo 2^16: received; received when the last grant was sent. */
	uint16_t received, reported;
	struct rs_sge peer_targets; /* length: number of entries */
	uint32_t next_peer_target;
	bool swap; /* the peer has the other byte order */

	uint64_t peer_iomap; /* address of the peer's iomap entries */
	uint32_t peer_iomaps;
};

void rs_init(struct rs_stream *s, const struct rs_memory *m);
/* rs_self() sets *out to the private data of this end; rs_start() begins the stream with
 * the private data of the peer. */
void rs_self(const struct rs_stream *s, struct rs_conn *out);
void rs_start(struct rs_stream *s, const struct rs_conn *peer);

/* A receive completed, with this immediate. */
enum rs_event rs_received(struct rs_stream *s, uint32_t imm);
/* Returns the immediate in an iWARP message, which has the peer's byte order. */
uint32_t rs_message(const struct rs_stream *s, const uint8_t at[RS_MESSAGE]);
/* A WRITE completed. */
void rs_sent(struct rs_stream *s, bool control, uint32_t sbuf_bytes);

/* --- sending ------------------------------------------------------------- */

/* Returns how many bytes one data message can have now if the program has `wanted` bytes;
 * 0: it must wait. If there is room for SIZE_MAX, there is room for any number. */
uint32_t rs_room(struct rs_stream *s, size_t wanted);
/* Makes the WRITE of len <= rs_room() bytes. The caller copies them to out->from before
 * posting; if is_inline, the bytes are elsewhere and go inline instead. */
void rs_send(struct rs_stream *s, uint32_t len, bool is_inline, struct rs_write *out);
bool rs_may_control(const struct rs_stream *s);
void rs_send_control(struct rs_stream *s, enum rs_control what, struct rs_write *out);
/* Makes a WRITE of no bytes without an immediate, which the peer's program does not
 * notice. */
void rs_send_keepalive(struct rs_stream *s, struct rs_write *out);

/* --- receiving ----------------------------------------------------------- */

/* Finds unread bytes after the first `skip`: sets *at, and returns how many are
 * contiguous there. */
uint32_t rs_unread(const struct rs_stream *s, uint32_t skip, const uint8_t **at);
void rs_consume(struct rs_stream *s, uint32_t bytes); /* bytes <= s->unread */
bool rs_grant_due(const struct rs_stream *s);
void rs_send_grant(struct rs_stream *s, struct rs_write *out);

/* --- direct placement ---------------------------------------------------- */

/* Makes the WRITE of entry `index` (< peer_iomaps) to the peer; length 0 clears the
 * entry. */
void rs_send_iomap(struct rs_stream *s, uint32_t index, const struct rs_iomap *map,
		   struct rs_write *out);
/* Makes the WRITE of up to len bytes to the peer's offset. Returns false if nothing is
 * mapped there; out->len is 0 if sbuf has no room now. */
bool rs_send_direct(struct rs_stream *s, uint64_t offset, size_t len,
		    struct rs_write *out);

#endif
