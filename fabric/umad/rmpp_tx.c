/* SPDX-License-Identifier: BSD-2-Clause */
/* rmpp_tx.c - sends long messages, one window at a time (see rmpp.h).  A long message is
 * a struct req with a struct rmpp_tx.  An answer is done with its last ACK; a request
 * then still waits for its answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/umad/rmpp.h"

enum { ACK_MS = 2000 };

void rmpp_reply(struct agent *a, const struct mad_pkt *pkt, enum rmpp_type type,
		uint8_t status, uint32_t segment, uint32_t window)
{
	struct mad_pkt back = *pkt;
	struct rmpp_hdr *r = rmpp_of(back.mad);
	unsigned data = rmpp_data_at(r->h.class);

	memset(back.mad + data, 0, MAD_SIZE - data);
	r->h.method ^= METHOD_RESP;
	r->version = 1;
	r->type = (uint8_t)type;
	r->rtime_flags = (uint8_t)((r->rtime_flags & ~RMPP_FLAGS) | RMPP_ACTIVE);
	r->status = status;
	r->segment = be32(segment);
	r->length = be32(window);
	send_back(a->file->port, &back);
}

static void send_segment(struct req *r)
{
	struct rmpp_tx *t = r->tx;
	struct mad_pkt pkt = r->pkt;
	struct rmpp_hdr *h = rmpp_of(pkt.mad);
	unsigned head = rmpp_data_at(h->h.class), size = MAD_SIZE - head;
	size_t at = head + (size_t)t->sent * size;
	size_t left = t->len > at ? t->len - at : 0;
	uint32_t length = 0;

	if (++t->sent == 1)
		length = (uint32_t)(t->segments * RMPP_PAYLOAD - t->pad);
	if (t->sent == t->segments)
		length = RMPP_PAYLOAD - t->pad;
	memset(pkt.mad + head, 0, size);
	memcpy(pkt.mad + head, t->msg + at, left < size ? left : size);
	h->version = 1;
	h->type = RMPP_DATA;
	h->status = 0;
	h->rtime_flags = (uint8_t)((h->rtime_flags & ~RMPP_FLAGS) | RMPP_ACTIVE |
				   (t->sent == 1 ? RMPP_FIRST : 0) |
				   (t->sent == t->segments ? RMPP_LAST : 0));
	h->segment = be32(t->sent);
	h->length = be32(length);
	send_from(r->agent->file->port, &pkt);
}

static void send_window(struct req *r)
{
	uint32_t ms = r->hdr.timeout_ms;

	while (r->tx->sent < r->tx->segments && r->tx->sent < r->tx->window)
		send_segment(r);
	request_due(r, !ms || ms > ACK_MS ? ACK_MS : ms);
}

int rmpp_send(struct agent *a, const struct umad_hdr *hdr, const struct mad_pkt *pkt,
	      const uint8_t *msg, size_t len)
{
	unsigned head = rmpp_data_at(msg[1]), size = MAD_SIZE - head;
	struct rmpp_tx *t;
	struct req *r;

	if (len < head)
		return -EINVAL;
	t = malloc(sizeof(*t) + len);
	r = t ? request_keep(a, hdr, pkt) : NULL;
	if (!r) {
		free(t);
		return -ENOSPC;
	}
	*t = (struct rmpp_tx){ .len = len, .window = 1 };
	t->segments = (uint32_t)((len - head + size - 1) / size);
	if (!t->segments)
		t->segments = 1;
	t->pad = (uint32_t)(t->segments * size - (len - head));
	memcpy(t->msg, msg, len);
	r->tx = t;
	send_window(r);
	return 0;
}

void rmpp_tx_due(struct req *r)
{
	if (!r->tries || r->tx->acked == r->tx->segments) {
		request_failed(r);
		return;
	}
	r->tries--;
	r->tx->sent = r->tx->acked;
	send_window(r);
}

/* The last segment has been acknowledged: frees r, or waits for the answer to it. */
static void delivered(struct req *r, const struct mad_pkt *pkt)
{
	if (r->answer || !r->hdr.timeout_ms) {
		request_free(r);
		return;
	}
	request_due(r, r->hdr.timeout_ms);
	/* IBA 13.6.6.3, a double-sided transfer: this ACK opens the window for the
	 * answer. */
	rmpp_reply(r->agent, pkt, RMPP_ACK, 0, 0, 1);
}

static void acked(struct req *r, const struct mad_pkt *pkt, uint32_t segment,
		  uint32_t window)
{
	struct rmpp_tx *t = r->tx;

	if (t->acked == t->segments) { /* the last ACK, repeated */
		if (!r->answer)
			rmpp_reply(r->agent, pkt, RMPP_ACK, 0, 0, 1);
		return;
	}
	if (segment > t->sent) {
		rmpp_reply(r->agent, pkt, RMPP_ABORT, RMPP_SEGMENT_TOO_BIG, 0, 0);
		request_failed(r);
		return;
	}
	if (window < t->window || segment < t->acked)
		return; /* an ACK that was overtaken by a later one */
	if (segment > t->acked) {
		t->acked = segment;
		r->tries = r->hdr.retries;
	}
	t->window = window;
	if (t->acked == t->segments)
		delivered(r, pkt);
	else
		send_window(r);
}

void rmpp_tx_answer(struct agent *a, const struct mad_pkt *pkt)
{
	const struct rmpp_hdr *h = (const struct rmpp_hdr *)pkt->mad;
	uint32_t segment = get_be32(h->segment), window = get_be32(h->length);
	struct req *r = request_find(a, &h->h, !mad_is_response(&h->h), pkt->slid);

	if (!r || !r->tx)
		return;
	if (h->type == RMPP_ACK && !h->status && window >= segment) {
		acked(r, pkt, segment, window);
		return;
	}
	if (h->type == RMPP_ACK)
		rmpp_reply(a, pkt, RMPP_ABORT,
			   h->status ? RMPP_BAD_STATUS : RMPP_WINDOW_TOO_SMALL, 0, 0);
	if (r->tx->acked < r->tx->segments)
		request_failed(r);
}
