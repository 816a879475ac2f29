/* SPDX-License-Identifier: BSD-2-Clause */
/* stream.h - one end of a stream: credits, the ring of what was received, the
 * ring of what is sent, iomaps.  Pure: it is told immediates and completions,
 * and says which RDMA WRITE to post.  docs/rsocket.md.
 *
 * Who may include it: abi. */
#ifndef RSOCKET_STREAM_H
#define RSOCKET_STREAM_H

#include "rsocket/format.h"

enum {
	RS_TARGETS = 2,			/* entries of our target SGL */
	RS_CONTROLS = 4,		/* messages out that need no credit */
	/* Receives for them where one that is missing is the end: a message that
	 * has completed is not at the peer yet (iWARP). */
	RS_CONTROLS_SENT = 4 * RS_CONTROLS,
	RS_CHUNK = 65536,		/* bytes of a data message, at most */
	RS_IMAGE_MAX = 24,		/* bytes of rs_write.image */
	RS_MESSAGE = 4,			/* bytes of an immediate that is sent (iWARP) */
};

/* Memory that the peer may write to is where target SGL and iomaps are (`shared`)
 * and rbuf; the keys are of its registrations. */
struct rs_memory {
	uint8_t *rbuf, *sbuf;
	uint32_t rbuf_size, sbuf_size;	/* rbuf_size: even, not 0 */
	void *shared;			/* RS_TARGETS rs_sge, iomaps rs_iomap; zero */
	uint32_t rbuf_key, shared_key;
	uint16_t sq, rq;		/* data messages out; credits given */
	uint32_t iomaps;		/* that the peer may write */
	bool no_rnr;			/* a receive that is missing is the end (iWARP) */
};

/* One RDMA WRITE. */
struct rs_write {
	uint64_t addr;			/* at the peer */
	uint32_t key, len;
	const uint8_t *from;		/* in sbuf; NULL: image, to be sent inline */
	uint8_t image[RS_IMAGE_MAX];
	bool has_imm, control;
	uint32_t imm;
	uint32_t sbuf_bytes;		/* for rs_sent() */
};

enum rs_event {
	RS_EV_NONE, RS_EV_DATA, RS_EV_GRANT, RS_EV_SHUTDOWN, RS_EV_DISCONNECT,
	RS_EV_BROKEN,			/* the peer does not keep to the protocol */
};

struct rs_stream {
	struct rs_memory m;

	/* Sending: sbuf is used in [head - used, head). */
	uint32_t head, used;
	uint16_t data_out, control_out;	/* posted, not completed */
	uint16_t said, granted;		/* data messages; modulo 2^16 */
	uint16_t spare;			/* credits that are left to controls */
	struct rs_sge to;		/* what is left of the peer's buffer */
	uint32_t next_target;		/* entry of ours to look at */

	/* Receiving: unread bytes are in [read_at, read_at + unread), free ones,
	 * not published yet, in [free_at, free_at + free). */
	uint32_t read_at, unread, free_at, free;
	uint32_t room;			/* left in the half that is being filled */
	unsigned halves;		/* published, not begun */
	uint16_t came, told;		/* data messages; `came` in the last grant */
	struct rs_sge peer_targets;	/* length: entries */
	uint32_t next_peer_target;
	bool swap;			/* the peer's order of bytes is another */

	uint64_t peer_iomap;		/* address of its entries */
	uint32_t peer_iomaps;
};

void rs_init(struct rs_stream *s, const struct rs_memory *m);
/* What to put into the private data; what the peer put there. */
void rs_self(const struct rs_stream *s, struct rs_conn *out);
void rs_start(struct rs_stream *s, const struct rs_conn *peer);

/* A receive completed, with this immediate. */
enum rs_event rs_came(struct rs_stream *s, uint32_t imm);
/* The immediate in a message that was sent: in the order of bytes of who sent it. */
uint32_t rs_message(const struct rs_stream *s, const uint8_t at[RS_MESSAGE]);
/* A WRITE completed. */
void rs_sent(struct rs_stream *s, bool control, uint32_t sbuf_bytes);

/* --- tx.c ------------------------------------------------------------------------ */

/* How many bytes one data message could have now, if the program has `wanted`:
 * 0, it must wait.  If there is room for SIZE_MAX there is for any. */
uint32_t rs_room(struct rs_stream *s, size_t wanted);
/* The WRITE for len <= rs_room() bytes.  Who has copied them elsewhere (inline)
 * says so; else they have to be copied to out->from before it is posted. */
void rs_send(struct rs_stream *s, uint32_t len, bool is_inline, struct rs_write *out);
bool rs_may_control(const struct rs_stream *s);
void rs_send_control(struct rs_stream *s, enum rs_control what, struct rs_write *out);
/* Nothing, and no immediate: the peer's program is not told. */
void rs_send_keepalive(struct rs_stream *s, struct rs_write *out);

/* --- rx.c ------------------------------------------------------------------------ */

/* The next unread bytes that lie together: how many, and where. */
uint32_t rs_unread(const struct rs_stream *s, uint32_t skip, const uint8_t **at);
void rs_consume(struct rs_stream *s, uint32_t bytes);	/* <= s->unread */
bool rs_grant_due(const struct rs_stream *s);
void rs_send_grant(struct rs_stream *s, struct rs_write *out);

/* --- iomap.c ---------------------------------------------------------------------- */

/* Tell the peer that entry index (< peer_iomaps) is this; length 0: nothing. */
void rs_send_iomap(struct rs_stream *s, uint32_t index, const struct rs_iomap *map,
		   struct rs_write *out);
/* The WRITE of up to len bytes to the peer's offset: false, nobody has mapped
 * that; out->len 0: no room in sbuf now. */
bool rs_send_direct(struct rs_stream *s, uint64_t offset, size_t len,
		    struct rs_write *out);

#endif
