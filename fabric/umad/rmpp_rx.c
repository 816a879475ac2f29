/* SPDX-License-Identifier: BSD-2-Clause */
/* rmpp_rx.c - receives long messages (see rmpp.h).  Segments are taken in order; one that
 * comes too early is dropped, and the sender repeats it. */
#include <stdlib.h>
#include <string.h>

#include "fabric/umad/rmpp.h"

enum { WINDOW = 64, AT_ONCE = 256, REMEMBERED = 1024 };
/* ns until an incomplete message is given up, and a complete one is forgotten */
static const uint64_t unfinished = 40000000000, finished = 10000000000;

/* Is pkt a packet of message x?  TID, sender, class, class version and method tell. */
static bool same(const struct rmpp_rx *x, const struct mad_pkt *pkt)
{
	return memcmp(x->tid, pkt->mad + 8, 8) == 0 && x->slid == pkt->slid &&
	       x->sqpn == pkt->sqpn && memcmp(x->class_to_method, pkt->mad + 1, 3) == 0;
}

static struct rmpp_rx *find_in(struct list *l, const struct mad_pkt *pkt)
{
	list_for(node, l)
	{
		struct rmpp_rx *x = container_of(node, struct rmpp_rx, node);

		if (same(x, pkt))
			return x;
	}
	return NULL;
}

static struct rmpp_rx *find_transfer(struct agent *a, const struct mad_pkt *pkt)
{
	struct rmpp_rx *x = find_in(&a->receiving, pkt);

	return x ? x : find_in(&a->received, pkt);
}

/* Frees the message's bytes. */
static void let_go(struct rmpp_rx *x)
{
	x->agent->file->rx_bytes -= x->cap;
	free(x->msg);
	x->msg = NULL;
	x->cap = 0;
}

static void drop_transfer(struct rmpp_rx *x)
{
	heap_del(&x->agent->file->port->u->rx_due, &x->due);
	let_go(x);
	*(x->done ? &x->agent->remembered : &x->agent->file->rxs) -= 1;
	list_del(&x->node);
	free(x);
}

void rmpp_rx_drop(struct agent *a)
{
	list_for_safe(node, &a->receiving)
		drop_transfer(container_of(node, struct rmpp_rx, node));
	list_for_safe(node, &a->received)
		drop_transfer(container_of(node, struct rmpp_rx, node));
}

void rmpp_rx_due(struct rmpp_rx *x)
{
	if (!x->done)
		rmpp_reply(x->agent, &x->first, RMPP_ABORT, RMPP_TOO_LONG_TIME, 0, 0);
	drop_transfer(x);
}

static struct rmpp_rx *begin_transfer(struct agent *a, const struct mad_pkt *pkt)
{
	struct umad_file *file = a->file;
	struct umad *u = file->port->u;
	struct rmpp_rx *x = file->rxs < AT_ONCE ? calloc(1, sizeof(*x)) : NULL;

	if (!x || heap_set(&u->rx_due, &x->due, u->now + unfinished)) {
		free(x);
		return NULL;
	}
	x->agent = a;
	x->first = *pkt;
	x->slid = pkt->slid;
	x->sqpn = pkt->sqpn;
	x->window = 1;
	memcpy(x->tid, pkt->mad + 8, 8);
	memcpy(x->class_to_method, pkt->mad + 1, 3);
	file->rxs++;
	list_add_tail(&a->receiving, &x->node);
	return x;
}

/* The message, with what precedes it for the program, grows no longer than one that a
 * program may send. */
static bool append_data(struct rmpp_rx *x, const uint8_t *data, size_t len)
{
	struct umad_file *file = x->agent->file;

	if (UMAD_HDR + x->len + len > UMAD_MESSAGE_MAX)
		return false;
	if (x->len + len > x->cap) {
		size_t cap = x->cap ? x->cap * 2 : 4096;
		uint8_t *msg;

		if (file->rx_bytes + cap - x->cap > UMAD_MESSAGE_MAX)
			return false;
		msg = realloc(x->msg, cap);
		if (!msg)
			return false;
		file->rx_bytes += cap - x->cap;
		x->msg = msg;
		x->cap = cap;
	}
	memcpy(x->msg + x->len, data, len);
	x->len += len;
	return true;
}

/* How many of the last segment's `data` bytes are in use.  h->length counts what follows
 * RMPP's header, so the rest of the class's header, too. */
static size_t used(const struct rmpp_hdr *h, size_t data)
{
	uint32_t length = get_be32(h->length), pad;

	pad = length <= RMPP_PAYLOAD ? RMPP_PAYLOAD - length : 0;
	return pad < data ? data - pad : 0;
}

static void ack(struct rmpp_rx *x, const struct mad_pkt *pkt)
{
	rmpp_reply(x->agent, pkt, RMPP_ACK, 0, x->segment, x->window);
}

/* Keeps a complete message without its bytes for a while, to acknowledge repetitions. */
static void remember(struct rmpp_rx *x)
{
	struct agent *a = x->agent;
	struct umad *u = a->file->port->u;

	let_go(x);
	x->done = true;
	list_del(&x->node);
	a->file->rxs--;
	list_add_tail(&a->received, &x->node);
	if (++a->remembered > REMEMBERED)
		drop_transfer(container_of(a->received.next, struct rmpp_rx, node));
	heap_set(&u->rx_due, &x->due, u->now + finished);
}

static void complete_transfer(struct rmpp_rx *x, const struct mad_pkt *pkt)
{
	ack(x, pkt);
	give_message(x->agent, &x->first, x->msg, x->len);
	remember(x);
}

static void take_segment(struct rmpp_rx *x, const struct mad_pkt *pkt)
{
	const struct rmpp_hdr *h = (const struct rmpp_hdr *)pkt->mad;
	bool last = h->rtime_flags & RMPP_LAST;
	unsigned head = rmpp_data_at(h->h.class);
	size_t data = MAD_SIZE - head;

	if (last)
		data = used(h, data);
	if ((x->segment == 0 && !append_data(x, pkt->mad, head)) ||
	    !append_data(x, pkt->mad + head, data)) {
		rmpp_reply(x->agent, pkt, RMPP_STOP, RMPP_NO_RESOURCES, 0, 0);
		drop_transfer(x);
		return;
	}
	x->segment++;
	if (last) {
		complete_transfer(x, pkt);
	} else if (x->segment == x->window) {
		x->window += WINDOW;
		ack(x, pkt);
	}
}

void rmpp_rx_data(struct agent *a, const struct mad_pkt *pkt)
{
	const struct rmpp_hdr *h = (const struct rmpp_hdr *)pkt->mad;
	uint32_t segment = get_be32(h->segment);
	struct rmpp_rx *x = find_transfer(a, pkt);

	if (h->status || !segment || (segment == 1) != !!(h->rtime_flags & RMPP_FIRST)) {
		rmpp_reply(a, pkt, RMPP_ABORT,
			   h->status ? RMPP_BAD_STATUS : RMPP_BAD_SEGMENT, 0, 0);
		return;
	}
	if (!x && segment == 1)
		x = begin_transfer(a, pkt);
	if (!x)
		return;
	if (x->done || segment <= x->segment)
		ack(x, pkt);
	else if (segment == x->segment + 1)
		take_segment(x, pkt);
}

bool rmpp_input(struct agent *a, const struct mad_pkt *pkt)
{
	const struct rmpp_hdr *h = (const struct rmpp_hdr *)pkt->mad;

	if (!rmpp_serves(a) || !rmpp_is_active(pkt->mad))
		return false;
	if (h->version != 1)
		rmpp_reply(a, pkt, RMPP_ABORT, RMPP_BAD_VERSION, 0, 0);
	else if (h->type == RMPP_DATA)
		rmpp_rx_data(a, pkt);
	else if (h->type <= RMPP_ABORT && h->type)
		rmpp_tx_answer(a, pkt);
	else
		rmpp_reply(a, pkt, RMPP_ABORT, RMPP_BAD_TYPE, 0, 0);
	return true;
}
