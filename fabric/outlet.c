/* SPDX-License-Identifier: BSD-2-Clause */
/* outlet.c - which packet goes next by an outlet (IBA 7.6.9), and how long a packet may
 * wait; see outlet.h.
 *
 * At each outlet the queues of a VL stand in line.  The first queue sends one packet and
 * goes to the end of the line; while it waits for credits (or its program's room), the
 * whole line waits.  If several VLs could send, the link's arbiter picks one.
 */
#include "fabric/outlet.h"

#include "fabric/buffer.h"
#include "fabric/fabric.h"
#include "wire/qpn.h"

enum {
	LIFE_EVER = 20,
	LIFE_UP =
		/* limit of the wait for a program's room: OpenSM's HOQLife for links to
		 * adapters */
	16,
};

static const uint64_t life_unit = 4096;

static void all_ready(struct list *l)
{
	list_for_safe(node, l) buffer_ready(container_of(node, struct vl_queue, stand));
}

/* --- lines -------------------------------------------------------------------------- */

static struct vl_queue *standing(const struct list *l)
{
	return container_of(l->next, struct vl_queue, stand);
}

static void stand(struct list *turns, struct outlet *o, struct vl_queue *q, unsigned vl)
{
	bool first = list_empty(&o->stand[vl]);

	list_add_tail(&o->stand[vl], &q->stand);
	if (!q->since)
		q->since = q->port->node->f->now;
	if (first)
		outlet_turn(turns, o, vl);
}

void outlet_stand(struct vl_queue *q, struct fab_port *out, uint8_t vl)
{
	struct port_data *d = vl < DATA_VLS ? buffers(out) : NULL;

	if (d) {
		stand(&out->node->f->links, &d->link, q, vl);
		return;
	}
	no_way(q->port, RCV_LOOPING);
	outlet_gone(q, out->num);
}

void outlet_stand_up(struct vl_queue *q)
{
	stand(&q->port->node->f->ups, &q->port->data->up, q, q->vl);
}

/* A multicast packet was sent by this port; returns true if that was its last port. */
static bool sent_by(struct flight *fl, unsigned port)
{
	fl->ports[port / 64] &= ~((uint64_t)1 << port % 64);
	return !(fl->ports[0] | fl->ports[1] | fl->ports[2] | fl->ports[3]);
}

void outlet_gone(struct vl_queue *q, unsigned num)
{
	struct flight *fl = buffer_first(q);

	q->since = 0; /* the next packet or port begins to wait anew */
	if (!fl->spread || sent_by(fl, num))
		buffer_pop(q);
	list_del(&q->stand);
	if (!list_empty(&q->fl))
		list_add_tail(&q->port->node->f->ready, &q->stand);
}

static bool several(const struct outlet *o)
{
	return o->may & (o->may - 1);
}

/* Lets the arbiter pick one of the VLs that may send; `by` has the arbiter's tables. */
static struct vlarb_pick pick_vl(const struct outlet *o, const struct fab_port *by)
{
	const struct vlarb_tables t = { { by->vl_arb[0], by->vl_arb[2] },
					by->pi.vl_high_limit };

	return vlarb_pick(&o->arb, &t, o->may);
}

static unsigned only_vl(const struct outlet *o)
{
	return (unsigned)__builtin_ctz(o->may);
}

/* --- how long a packet may wait ------------------------------------------------------
 */

/* How long a packet may wait.  At an adapter this limits the wait for a program's room;
 * its wait for credits has no limit. */
static uint64_t life_of(const struct fab_port *out)
{
	if (!is_switch(out->node))
		return life_unit << LIFE_UP;
	return out->pi.hoq_life < LIFE_EVER ? life_unit << out->pi.hoq_life : UINT64_MAX;
}

static uint64_t oldest_since(const struct list *l)
{
	uint64_t at = UINT64_MAX;

	list_for(node, l)
	{
		uint64_t since = container_of(node, struct vl_queue, stand)->since;

		if (since < at)
			at = since;
	}
	return at;
}

/* Since when the oldest packet waits; it is the first of a line. */
static uint64_t oldest_of_lines(const struct outlet *o)
{
	uint64_t at = UINT64_MAX;

	for (unsigned i = 0; i < DATA_VLS; i++) {
		if (!list_empty(&o->stand[i]) && standing(&o->stand[i])->since < at)
			at = standing(&o->stand[i])->since;
	}
	return at;
}

static void set_life(struct fab_port *out)
{
	uint64_t life = life_of(out), since, at;

	since = is_switch(out->node) ? oldest_of_lines(&out->data->link)
				     : oldest_since(&out->data->for_room);
	at = since < UINT64_MAX - life ? since + life : UINT64_MAX;
	(void)heap_set(&out->node->f->life_due, &out->data->life_due, at);
}

/* IBA 18.2.5.4: after VLStallCount expired packets in a row, the VL drops all packets for
 * a while. */
static void may_stall(struct fab_port *out, unsigned vl)
{
	struct port_data *d = out->data;
	uint8_t count = out->pi.vl_stall_count;

	if (!count || ++d->lost[vl] < count)
		return;
	d->lost[vl] = 0;
	d->stalled[vl] = out->node->f->now + 8 * life_of(out);
}

/* Counts a packet for which a program had no room: PortBufferOverrunErrors. */
static void count_overrun(struct fab_port *p)
{
	p->count.rcv_errors++;
	p->detail.rcv[RCV_OVERRUN]++;
}

static bool is_old(const struct list *l, uint64_t life, uint64_t now)
{
	return !list_empty(l) && now - standing(l)->since >= life;
}

static void drop_old(struct fab_port *out)
{
	uint64_t life = life_of(out), now = out->node->f->now;
	struct outlet *o = &out->data->link;

	if (!is_switch(out->node)) {
		data_room(out); /* outlet_deliver() checks their age */
		return;
	}
	for (unsigned i = 0; i < DATA_VLS; i++) {
		while (is_old(&o->stand[i], life, now)) {
			count_discard(out, XMIT_HOQ_LIFE);
			wait_over(out, i);
			outlet_gone(standing(&o->stand[i]), out->num);
			may_stall(out, i);
		}
		outlet_turn(&out->node->f->links, o, i);
	}
	set_life(out);
}

void data_new_life(struct fab_port *p)
{
	if (p->data)
		set_life(p);
}

void data_life(struct fabric *f)
{
	struct heap_node *top;

	while ((top = heap_top(&f->life_due)) && top->at <= f->now) {
		struct port_data *d = container_of(top, struct port_data, life_due);

		heap_del(&f->life_due, top);
		drop_old(d->port);
	}
}

/* IBA 18.2.5.4: has the packet been in this switch for too long? */
static bool too_old(const struct vl_queue *q, const struct flight *fl)
{
	const struct fab_node *n = q->port->node;

	return is_switch(n) && n->si.lifetime < LIFE_EVER &&
	       n->f->now - fl->entered > life_unit << n->si.lifetime;
}

/* --- by a link -----------------------------------------------------------------------
 */

/* Sends q's first packet by the link of `out`; false: it has to wait for credits. */
static bool send(struct vl_queue *q, struct fab_port *out, uint8_t vl)
{
	struct flight *fl = buffer_first(q);
	struct port_data *mine = out->data, *theirs;
	uint8_t hops = (uint8_t)(fl->pkt.hops + 1);

	if (!leaves(out, &fl->pkt))
		return true;
	theirs = buffers(out->peer);
	if (!theirs || hops >= FABRIC_NEVER_HOPS) {
		no_way(q->port, RCV_LOOPING);
		return true;
	}
	if (mine->stalled[vl] > out->node->f->now) {
		count_discard(out, XMIT_HOQ_LIFE);
		return true;
	}
	if (theirs->in[vl].blocks + blocks_of(&fl->pkt) > VL_BLOCKS)
		return false;
	if (too_old(q, fl)) {
		count_discard(out, XMIT_LIFETIME);
		return true;
	}
	mine->lost[vl] = 0;
	count_out(out, vl, &fl->pkt);
	if (take_in(out->peer, &fl->pkt))
		/* without memory it is lost */
		(void)buffer_put(&theirs->in[vl], &fl->pkt, hops);
	return true;
}

void outlet_send(struct fabric *f)
{
	struct port_data *d = container_of(f->links.next, struct port_data, link.turn);
	struct outlet *o = &d->link;
	bool asks = several(o);
	struct vlarb_pick p;
	unsigned vl = only_vl(o);
	struct vl_queue *q;
	uint32_t blocks;

	if (asks) {
		p = pick_vl(o, d->port);
		vl = p.vl;
	}
	q = standing(&o->stand[vl]);
	blocks = blocks_of(&buffer_first(q)->pkt);
	if (!send(q, d->port, (uint8_t)vl)) {
		wait_begin(d->port, vl);
		o->may &= (uint8_t) ~(1u << vl);
		if (!o->may)
			list_del(&o->turn);
		set_life(d->port);
		return;
	}
	if (asks)
		vlarb_sent(&o->arb, &p, blocks);
	if (d->waits_any)
		wait_over(d->port, vl);
	outlet_gone(q, d->port->num);
	outlet_turn(&f->links, o, vl);
}

void data_link_down(struct fab_port *p)
{
	for (unsigned i = 0; p->data && i < DATA_VLS; i++) {
		wait_over(p, i);
		all_ready(&p->data->link.stand[i]);
		outlet_turn(&p->node->f->links, &p->data->link, i);
	}
}

/* --- to the programs of an adapter ---------------------------------------------------
 */

static bool is_for(const struct vl_queue *q, uint16_t slot)
{
	return qpn_slot(buffer_first(q)->pkt.dqpn) == slot;
}

/* A program without room has none for any VL, so all queues whose first packet is for it
 * leave their lines.  Otherwise a VL that tries a moment later could take the room that
 * was another VL's turn. */
static void full(struct port_data *d, uint16_t slot)
{
	for (unsigned i = 0; i < DATA_VLS; i++) {
		list_for_safe(node, &d->up.stand[i])
		{
			struct vl_queue *q = container_of(node, struct vl_queue, stand);

			if (!is_for(q, slot))
				continue;
			list_del(&q->stand);
			list_add_tail(&d->for_room, &q->stand);
		}
		outlet_turn(&d->port->node->f->ups, &d->up, i);
	}
	set_life(d->port);
}

/* The program takes packets as the arbiter gives them, so time that its packets now wait
 * for their turn does not count as waiting for the program. */
static void not_late(struct port_data *d, uint16_t slot)
{
	for (unsigned i = 0; i < DATA_VLS; i++)
		list_for(node, &d->up.stand[i])
		{
			struct vl_queue *q = container_of(node, struct vl_queue, stand);

			if (is_for(q, slot))
				q->since = d->port->node->f->now;
		}
}

/* Offers q's first packet to its program; false: it has to wait for room. */
static bool offer_packet(struct fab_port *p, const struct vl_queue *q)
{
	const struct fabric *f = p->node->f;
	const struct mad_pkt *pkt = &buffer_first(q)->pkt;

	switch (f->ops->take(f->ctx, p->node->index, p->num, pkt)) {
	case FABRIC_TAKEN:
		return true;
	case FABRIC_LOST:
		count_overrun(p);
		return true;
	case FABRIC_FULL:
		break;
	}
	if (f->now - q->since < life_of(p))
		return false;
	count_overrun(p);
	if (f->ops->late)
		f->ops->late(f->ctx, p->node->index, p->num, pkt);
	return true;
}

const struct list *outlet_deliver(struct fabric *f)
{
	struct port_data *d = container_of(f->ups.next, struct port_data, up.turn);
	struct fab_port *by = d->port->peer ? d->port->peer : d->port;
	bool asks = several(&d->up);
	struct vlarb_pick p;
	unsigned vl = only_vl(&d->up);
	struct vl_queue *q;
	uint16_t slot;

	if (asks) {
		p = pick_vl(&d->up, by);
		vl = p.vl;
	}
	q = standing(&d->up.stand[vl]);
	slot = qpn_slot(buffer_first(q)->pkt.dqpn);
	if (!offer_packet(d->port, q)) {
		full(d, slot);
		return NULL;
	}
	if (asks) {
		not_late(d, slot);
		vlarb_sent(&d->up.arb, &p, blocks_of(&buffer_first(q)->pkt));
	}
	outlet_gone(q, 0);
	outlet_turn(&f->ups, &d->up, vl);
	return asks ? NULL : &d->up.turn;
}

void data_room(struct fab_port *p)
{
	if (!p->data)
		return;
	list_for_safe(node, &p->data->for_room)
	{
		list_del(node);
		outlet_stand_up(container_of(node, struct vl_queue, stand));
	}
	set_life(p);
}
