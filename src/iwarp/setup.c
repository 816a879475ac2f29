/* SPDX-License-Identifier: BSD-2-Clause */
/* setup.c - MPA's request and reply (RFC 5044, 7.1; RFC 6581, 9), for both sides and both
 * revisions. */
#include <errno.h>
#include <string.h>

#include "iwarp/iwarp.h"
#include "wire/ddp.h"
#include "wire/rdmap.h"

/* --- bytes --------------------------------------------------------------- */

struct iovec iw_setup_out(struct iw_setup *s)
{
	return (struct iovec){ s->out + s->out_at, s->out_len - s->out_at };
}

void iw_setup_sent(struct iw_setup *s, size_t n)
{
	size_t left = s->out_len - s->out_at;

	s->out_at += n < left ? n : left;
}

/* Never a byte more than the hello has: the next ones are an FPDU. */
struct iovec iw_setup_room(struct iw_setup *s)
{
	size_t need = 0;

	if (s->state == IW_MORE)
		need = mpa_hello_need(s->in, s->in_len);
	if (need < s->in_len)
		need = s->in_len;
	return (struct iovec){ s->in + s->in_len, need - s->in_len };
}

static void put_hello(struct iw_setup *s, const struct mpa_hello *h)
{
	s->out_at = 0;
	s->out_len = mpa_hello_build(s->out, h);
}

/* --- ends ---------------------------------------------------------------- */

static void fail_setup(struct iw_setup *s, enum iw_why why)
{
	s->state = IW_FAILED;
	s->why = why;
}

/* The peer thinks that the connection is established, so a Terminate tells it: the first
 * and last FPDU. */
static void fail_terminate(struct iw_setup *s, enum iw_why why, uint16_t error)
{
	struct ddp d = { .last = true,
			 .version = DDP_VERSION,
			 .qn = 2,
			 .msn = 1,
			 .ulp = rdmap_control(RDMAP_TERMINATE) };
	struct rdmap_term t = { .error = error };
	uint8_t fpdu[64] = { 0 }, crc[MPA_CRC_LEN] = { 0 };
	size_t n = MPA_LEN_LEN;

	n += ddp_build(fpdu + n, &d);
	n += rdmap_term_build(fpdu + n, &t);
	fpdu[1] = (uint8_t)(n - MPA_LEN_LEN);
	n += mpa_pad(n - MPA_LEN_LEN);
	s->out_at = 0;
	s->out_len = n;
	memcpy(s->out, fpdu, n);
	if (s->agreed.markers_out)
		s->out_len = mpa_mark(s->out, fpdu, n, 0);
	if (s->agreed.crc)
		mpa_crc_put(mpa_crc(MPA_CRC_START, s->out, s->out_len), crc);
	memcpy(s->out + s->out_len, crc, sizeof(crc));
	s->out_len += sizeof(crc);
	fail_setup(s, why);
}

/* --- offers -------------------------------------------------------------- */

static bool can_offer(const struct iw_offer *o)
{
	size_t room = o->revision == 2 ? IW_PRIVATE_MAX : MPA_PRIVATE_MAX;

	return (o->revision == 1 || o->revision == 2) && o->data_len <= room &&
	       (!o->data_len || o->data) && o->ird <= IW_DEPTH_MAX &&
	       o->ord <= IW_DEPTH_MAX && (o->revision == 2 || !o->rtr) && !(o->rtr & ~7u);
}

static uint8_t flags_of(const struct iw_offer *o)
{
	return (uint8_t)((o->crc ? MPA_CRC : 0) | (o->markers ? MPA_MARKERS : 0));
}

int iw_setup_start(struct iw_setup *s, const struct iw_offer *o)
{
	struct mpa_hello h = {
		.flags = flags_of(o),
		.revision = o->revision,
		.peer_to_peer = o->rtr != 0,
		.rtr = o->rtr,
		.ird = o->ird,
		.ord = o->ord,
		.data = o->data,
		.data_len = o->data_len,
	};

	if (!can_offer(o))
		return -EINVAL;
	if (o->revision == 2)
		h.flags |= MPA_ENHANCED;
	memset(s, 0, sizeof(*s));
	s->offer = *o;
	s->agreed.initiator = true;
	put_hello(s, &h);
	return 0;
}

void iw_setup_listen(struct iw_setup *s)
{
	memset(s, 0, sizeof(*s));
}

/* --- responder ----------------------------------------------------------- */

static void request_came(struct iw_setup *s)
{
	const struct mpa_hello *h = &s->peer;

	if (h->reply) {
		fail_setup(s, IW_WHY_GARBAGE);
	} else if (h->revision != 1 && h->revision != 2) {
		fail_setup(s, IW_WHY_REVISION);
	} else {
		s->agreed.revision = h->revision;
		s->state = IW_REQUEST;
	}
}

/* The best frame of those offered: a WRITE needs nothing of the responder. */
static enum mpa_rtr best_rtr(unsigned offered)
{
	static const enum mpa_rtr by_use[] = { MPA_RTR_WRITE, MPA_RTR_READ,
					       MPA_RTR_SEND };

	for (int i = 0; i < 3; i++)
		if (offered & by_use[i])
			return by_use[i];
	return MPA_RTR_NONE;
}

static uint16_t min16(uint16_t a, uint16_t b)
{
	return a < b ? a : b;
}

static struct mpa_hello reply_to(const struct iw_setup *s)
{
	struct mpa_hello h = {
		.reply = true,
		.revision = s->peer.revision,
		.flags = s->peer.flags & MPA_ENHANCED,
	};

	return h;
}

int iw_setup_accept(struct iw_setup *s, const struct iw_offer *o)
{
	struct mpa_hello h = reply_to(s);
	struct iw_params *a = &s->agreed;

	if (s->state != IW_REQUEST || o->revision != s->peer.revision || o->rtr ||
	    !can_offer(o))
		return -EINVAL;
	a->crc = o->crc || s->peer.flags & MPA_CRC;
	a->markers_in = o->markers;
	a->markers_out = s->peer.flags & MPA_MARKERS;
	a->ird = o->ird;
	a->ord = o->ord;
	if (h.flags & MPA_ENHANCED) {
		if (s->peer.ird != IW_DEPTH_UNKNOWN)
			a->ord = min16(o->ord, s->peer.ird);
		a->rtr = s->peer.peer_to_peer ? best_rtr(s->peer.rtr) : MPA_RTR_NONE;
	}
	h.flags |= flags_of(o);
	if (a->crc)
		h.flags |= MPA_CRC;
	h.peer_to_peer = a->rtr != MPA_RTR_NONE;
	h.rtr = a->rtr;
	h.ird = a->ird;
	h.ord = a->ord;
	/* Revision 2 limits private data to IW_PRIVATE_MAX, with S or without:
	 * can_offer(). */
	h.data = o->data;
	h.data_len = o->data_len;
	put_hello(s, &h);
	s->state = IW_DONE;
	return 0;
}

int iw_setup_reject(struct iw_setup *s, const void *data, uint16_t data_len)
{
	struct mpa_hello h = reply_to(s);

	if (s->state != IW_REQUEST || data_len > IW_PRIVATE_MAX)
		return -EINVAL;
	h.flags |= MPA_REJECT;
	h.data = data;
	h.data_len = data_len;
	put_hello(s, &h);
	s->state = IW_REJECTED;
	return 0;
}

/* --- initiator ----------------------------------------------------------- */

/* RFC 6581, 9.1: our IRD must reach the responder's ORD; our ORD is lowered to its IRD.
 * We can give more IRD than we offered, up to IW_DEPTH_MAX. */
static bool depths(struct iw_setup *s)
{
	struct iw_params *a = &s->agreed;

	if (s->peer.ird != IW_DEPTH_UNKNOWN)
		a->ord = min16(a->ord, s->peer.ird);
	if (s->peer.ord == IW_DEPTH_UNKNOWN || s->peer.ord <= a->ird)
		return true;
	a->ird = s->peer.ord;
	return a->ird <= IW_DEPTH_MAX;
}

static bool agree_enhanced(struct iw_setup *s)
{
	if (!depths(s)) {
		fail_terminate(s, IW_WHY_IRD, TERM_MPA_IRD);
		return false;
	}
	if (!s->peer.peer_to_peer)
		return true;
	s->agreed.rtr = best_rtr(s->peer.rtr & s->offer.rtr);
	if (s->agreed.rtr == MPA_RTR_NONE || s->peer.rtr & ~s->offer.rtr) {
		fail_terminate(s, IW_WHY_RTR, TERM_MPA_RTR);
		return false;
	}
	return true;
}

static void reply_came(struct iw_setup *s)
{
	const struct mpa_hello *h = &s->peer;
	struct iw_params *a = &s->agreed;

	if (!h->reply) {
		fail_setup(s, IW_WHY_GARBAGE);
		return;
	}
	if (h->flags & MPA_REJECT) {
		s->state = IW_REJECTED;
		return;
	}
	if (h->revision != s->offer.revision) {
		fail_setup(s, IW_WHY_REVISION);
		return;
	}
	a->revision = h->revision;
	a->crc = s->offer.crc || h->flags & MPA_CRC;
	a->markers_in = s->offer.markers;
	a->markers_out = h->flags & MPA_MARKERS;
	a->ird = s->offer.ird;
	a->ord = s->offer.ord;
	if (h->flags & MPA_ENHANCED && !agree_enhanced(s))
		return;
	s->state = IW_DONE;
}

/* --- input -------------------------------------------------------------- */

void iw_setup_received(struct iw_setup *s, size_t n)
{
	size_t need;

	s->in_len += n;
	if (s->state != IW_MORE)
		return;
	need = mpa_hello_need(s->in, s->in_len);
	if (need > s->in_len)
		return;
	if (mpa_hello_parse(&s->peer, s->in, s->in_len) != 0)
		fail_setup(s, IW_WHY_GARBAGE);
	else if (s->agreed.initiator)
		reply_came(s);
	else
		request_came(s);
}
