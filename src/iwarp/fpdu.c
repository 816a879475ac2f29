/* SPDX-License-Identifier: BSD-2-Clause */
/* fpdu.c - makes an FPDU of a segment and appends it to the plan (RFC 5044, 4).
 *
 * Headers, trailers and copied payload lie one behind the other in the arena, so that a
 * run of copied FPDUs is one piece. */
#include <string.h>

#include "iwarp/iw_qp.h"

static struct iovec *new_piece(struct iwarp *iw, void *at, size_t n)
{
	struct iovec *v = &iw->piece[iw->pieces++];

	*v = (struct iovec){ at, n };
	iw->piece_open = false;
	return v;
}

static uint8_t *arena_end(struct iwarp *iw)
{
	return iw->arena + iw->arena_used;
}

/* Adds n bytes at the arena's end to the pieces to be sent. */
static void arena_sends(struct iwarp *iw, size_t n)
{
	if (iw->piece_open)
		iw->piece[iw->pieces - 1].iov_len += n;
	else
		new_piece(iw, arena_end(iw), n);
	iw->piece_open = true;
	iw->arena_used += n;
}

/* Writes the length, the DDP header and the body. */
static size_t put_header(uint8_t *at, const struct seg *s)
{
	size_t n = MPA_LEN_LEN, ulpdu;

	n += ddp_build(at + n, &s->ddp);
	memcpy(at + n, s->body, s->body_len);
	n += s->body_len;
	ulpdu = n - MPA_LEN_LEN + s->len;
	at[0] = (uint8_t)(ulpdu >> 8);
	at[1] = (uint8_t)ulpdu;
	return n;
}

static void put_crc(const struct iw_qp *q, uint8_t *fpdu, size_t n)
{
	if (q->p.crc)
		mpa_crc_put(mpa_crc(MPA_CRC_START, fpdu, n), fpdu + n);
	else
		memset(fpdu + n, 0, MPA_CRC_LEN);
}

/* Builds the FPDU in one piece. */
static int put_copied(struct iw_qp *q, const struct seg *s, struct iw_cursor *c,
		      size_t *len)
{
	struct iwarp *iw = q->iw;
	/* With markers it is built elsewhere and then copied with them. */
	uint8_t *to = arena_end(iw), *at = q->p.markers_out ? iw->plain : to;
	size_t n = put_header(at, s), pad;

	if (s->len > 0 && span_copy(at + n, s->span, s->off, s->len) != 0)
		return -EFAULT;
	n += s->len;
	pad = mpa_pad(n - MPA_LEN_LEN);
	memset(at + n, 0, pad);
	n += pad;
	if (q->p.markers_out) {
		/* A marker may stand before the CRC, which then covers it. */
		memset(at + n, 0, MPA_CRC_LEN);
		n = mpa_mark(to, at, n + MPA_CRC_LEN, c->pos) - MPA_CRC_LEN;
	}
	put_crc(q, to, n);
	*len = n + MPA_CRC_LEN;
	arena_sends(iw, *len);
	return 0;
}

static void put_in_place(struct iw_qp *q, const struct seg *s, size_t *len)
{
	struct iwarp *iw = q->iw;
	size_t n = put_header(arena_end(iw), s), pad;

	arena_sends(iw, n);
	iw->pieces += span_iov(s->span, s->off, s->len, &iw->piece[iw->pieces]);
	iw->piece_open = false;
	n += s->len;
	pad = mpa_pad(n - MPA_LEN_LEN);
	memset(arena_end(iw), 0, pad + MPA_CRC_LEN);
	arena_sends(iw, pad + MPA_CRC_LEN);
	*len = n + pad + MPA_CRC_LEN;
}

int iw_fpdu_put(struct iw_qp *q, const struct seg *s, struct iw_cursor *c)
{
	struct iwarp *iw = q->iw;
	bool copy = q->p.crc || q->p.markers_out || q->careful || s->len <= COPY_MAX;
	size_t room = MPA_LEN_LEN + DDP_HDR_MAX + s->body_len + 3 + MPA_CRC_LEN;
	size_t len;

	if (copy)
		room += s->len + (q->p.markers_out ? MPA_MARKED_MAX - MPA_FPDU_MAX : 0);
	if (iw->plans == PLAN_MAX || room > ARENA - iw->arena_used ||
	    (copy ? 1 : s->span->n + 2) > PIECES_MAX - iw->pieces)
		return -ENOBUFS;
	if (!copy)
		put_in_place(q, s, &len);
	else if (put_copied(q, s, c, &len) != 0)
		return -EFAULT;
	c->pos = (c->pos + (uint32_t)len) % MPA_MARKER_EVERY;
	iw->plan[iw->plans++] = (struct iw_plan){ *c, (uint32_t)len };
	return 0;
}
