/* SPDX-License-Identifier: BSD-2-Clause */
/* data.c - moves packets of data and of QP1 from buffer to buffer (IBTA vol. 1, 7.9,
 * 18.2.5).
 *
 * A packet stays in the buffer of its VL at the port where it came in until its output
 * has credits, that is, until the port at the other end of that link has enough free
 * blocks of 64 bytes for the VL that the packet gets there. Buffers are queues: packets
 * behind one that cannot go wait with it. So no packet is lost on a link, and if a
 * receiver takes none, one buffer after the other fills, up to the sender.
 *
 * A packet is dropped if it waits too long at the head of its queue (HOQLife of the
 * output), stays too long in a switch (LifeTimeValue), or its program has no room for
 * too long.
 *
 * Here the first packet of a queue finds its outlet; outlet.c does the rest.
 */
#include <errno.h>

#include "fabric/buffer.h"
#include "fabric/fabric.h"
#include "fabric/model.h"
#include "fabric/outlet.h"

enum { MADS_MAX = 4096 }; /* MADs of a QP1 that wait for a VL; further ones are lost */

static bool is_group(uint16_t lid)
{
	return lid > LID_UNICAST_LAST && lid != LID_PERMISSIVE;
}

/* Drops q's first packet; the caller has counted why. */
static void drop_first(struct vl_queue *q)
{
	buffer_pop(q);
	if (!list_empty(&q->fl))
		buffer_ready(q);
}

static void up(struct vl_queue *q, const struct flight *fl)
{
	if (q->port->node->f->ops->take && good_pkey(q->port, &fl->pkt))
		outlet_stand_up(q);
	else
		outlet_gone(q, 0);
}

/* Does a multicast packet have yet to go to this port? */
static bool has_port(const struct flight *fl, unsigned port)
{
	return fl->ports[port / 64] >> port % 64 & 1;
}

/* Sets the ports that a multicast packet goes to.  At a switch: those of the multicast
 * table, except the one that it came in by.  At an adapter: to the programs, and also out
 * of the port if a program sent it. */
static void spread(struct vl_queue *q, struct flight *fl)
{
	struct fab_node *n = q->port->node;
	unsigned row = fl->pkt.dlid - (LID_UNICAST_LAST + 1u);

	fl->spread = true;
	if (!is_switch(n)) {
		fl->ports[0] = 1u | (q->inner ? 2u : 0);
		return;
	}
	for (unsigned i = 0; i < n->mft_positions && row < MFT_CAP; i++)
		fl->ports[i / 4] |= (uint64_t)n->mft[i * MFT_CAP + row] << i % 4 * 16;
	fl->ports[0] &= ~(uint64_t)1;
	fl->ports[q->port->num / 64] &= ~((uint64_t)1 << q->port->num % 64);
}

static void to_group(struct vl_queue *q, struct flight *fl)
{
	struct fab_node *n = q->port->node;
	struct fab_port *out;
	unsigned num = 0;
	uint8_t vl;

	if (!fl->spread)
		spread(q, fl);
	while (num <= n->ports && !has_port(fl, num))
		num++;
	if (num > n->ports) {
		drop_first(q);
		return;
	}
	if (num == 0) {
		up(q, fl);
		return;
	}
	out = is_switch(n) ? &n->port[num] : q->port;
	if (find_vl(out, is_switch(n) ? q->port->num : 0, &fl->pkt, &vl) &&
	    may_leave(out, &fl->pkt))
		outlet_stand(q, out, vl);
	else
		outlet_gone(q, num);
}

/* Handles a MAD at its destination.  It needs no room: umad queues it. */
static void mad(struct vl_queue *q)
{
	struct mad_pkt own = buffer_first(q)->pkt;

	drop_first(q);
	mad_here(q->port, &own);
}

/* Puts q in line at the outlet of its first packet, or drops the packet. */
static void place_first(struct vl_queue *q)
{
	struct flight *fl = buffer_first(q);
	struct fab_port *p = q->port;
	uint8_t out, vl;

	if (is_group(fl->pkt.dlid) && fl->pkt.data) {
		to_group(q, fl);
	} else if (has_lid(lid_port(p), fl->pkt.dlid)) {
		if (!fl->pkt.data)
			mad(q);
		else if (is_switch(p->node))
			drop_first(q);
		else
			up(q, fl);
	} else if (is_switch(p->node)) {
		if (find_out(p->node, p, &fl->pkt, &out, &vl))
			outlet_stand(q, &p->node->port[out], vl);
		else
			drop_first(q);
	} else if (!q->inner) {
		drop_first(q); /* for another port; an adapter does not forward */
	} else if (find_vl(p, 0, &fl->pkt, &vl)) {
		outlet_stand(q, p, vl);
	} else {
		count_discard(p, XMIT_INACTIVE);
		drop_first(q);
	}
}

static void place_all(struct fabric *f)
{
	while (!list_empty(&f->ready)) {
		struct vl_queue *q = container_of(f->ready.next, struct vl_queue, stand);

		list_del(&q->stand);
		place_first(q);
	}
}

/* Links first, programs last: all packets that could reach an adapter are there before
 * its arbiter shares the programs' room among the VLs. */
unsigned data_run(struct fabric *f, unsigned max)
{
	const struct list *alone = NULL;

	for (; max > 0; max--) {
		place_all(f);
		if (alone && f->ups.next == alone)
			alone = outlet_deliver(f);
		else if (!list_empty(&f->links))
			outlet_send(f);
		else if (!list_empty(&f->ups))
			alone = outlet_deliver(f);
		else
			break;
	}
	return max;
}

int data_begin(struct fab_port *p, const struct mad_pkt *pkt)
{
	struct port_data *d = buffers(p);
	struct vl_queue *q;

	if (!d)
		return -ENOMEM;
	q = &d->out[pkt->sl & (DATA_VLS - 1)];
	if (!pkt->data && q->mads == MADS_MAX) {
		count_discard(p, XMIT_INACTIVE);
		return 0;
	}
	return buffer_put(q, pkt, pkt->hops);
}
