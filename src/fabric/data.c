/* SPDX-License-Identifier: BSD-2-Clause */
/* data.c - packets of data go from buffer to buffer (IBTA vol. 1, 7.9, 18.2.5).
 *
 * A packet lies in the buffer of its VL at the port where it came in until its output
 * has credits: until the port at the other end of that link has as many free blocks of
 * 64 bytes in the buffer of the VL that it gets there.  Buffers are queues: what is
 * behind a packet that cannot go waits with it.  So nothing is lost on a link, and what a
 * receiver does not take fills one buffer after the other, up to the sender.
 *
 * A packet too old at the head of its queue is dropped (HOQLife of the output), as is
 * one too long in a switch (LifeTimeValue), and one that its program has no room for.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "fabric/fabric.h"
#include "fabric/model.h"

enum {
	BLOCK = 64,
	VL_BLOCKS = 512 /* 32 KiB for each VL */,
	LIFE_EVER = 20,
	LIFE_UP =
		16, /* for a program's room: OpenSM's HOQLife of the link to an adapter */
};

static const uint64_t life_unit = 4096;

static bool is_group(uint16_t lid)
{
	return lid > LID_UNICAST_LAST && lid != LID_PERMISSIVE;
}

static uint32_t blocks(const struct mad_pkt *pkt)
{
	return (pkt_words(pkt) * 4 + BLOCK - 1) / BLOCK;
}

/* --- buffers ------------------------------------------------------------------ */

static void queue_init(struct vl_queue *q, struct fab_port *p, unsigned vl, bool inner)
{
	q->port = p;
	q->vl = (uint8_t)vl;
	q->inner = inner;
	list_init(&q->fl);
	list_init(&q->stand);
}

/* They are made for the first packet: most ports of a large subnet see none. */
static struct port_data *data_of(struct fab_port *p)
{
	struct fabric *f = p->node->f;
	struct port_data *d = p->data;

	if (d || heap_reserve(&f->life_due, f->datas + 1))
		return d;
	d = calloc(1, sizeof(*d));
	if (!d)
		return NULL;
	f->datas++;
	for (unsigned i = 0; i < DATA_VLS; i++) {
		queue_init(&d->in[i], p, i, false);
		queue_init(&d->out[i], p, i, true);
		list_init(&d->waiting[i]);
	}
	list_init(&d->for_room);
	return p->data = d;
}

static void unref(struct fabric *f, struct fabric_data *d)
{
	if (--d->refs == 0 && f->ops->done)
		f->ops->done(f->ctx, d);
}

static void free_queue(struct vl_queue *q)
{
	list_for_safe(node, &q->fl)
	{
		struct flight *fl = container_of(node, struct flight, node);

		unref(q->port->node->f, fl->pkt.data);
		free(fl);
	}
}

void data_free(struct fab_port *p)
{
	for (unsigned i = 0; p->data && i < DATA_VLS; i++) {
		free_queue(&p->data->in[i]);
		free_queue(&p->data->out[i]);
	}
	free(p->data);
	p->data = NULL;
}

static void ready(struct vl_queue *q)
{
	list_del(&q->stand);
	list_add_tail(&q->port->node->f->ready, &q->stand);
}

static void all_ready(struct list *l)
{
	list_for_safe(node, l) ready(container_of(node, struct vl_queue, stand));
}

static struct flight *first(const struct vl_queue *q)
{
	return container_of(q->fl.next, struct flight, node);
}

static int put(struct vl_queue *q, const struct mad_pkt *pkt)
{
	struct fabric *f = q->port->node->f;
	struct flight *fl = flight_new(f);

	if (!fl)
		return -ENOMEM;
	*fl = (struct flight){ .to = q->port, .entered = f->now, .pkt = *pkt };
	pkt->data->refs++;
	q->blocks += blocks(pkt);
	if (list_empty(&q->fl))
		ready(q);
	list_add_tail(&q->fl, &fl->node);
	return 0;
}

/* The first packet is gone: its credits go to whoever sends to this buffer. */
static void pop(struct vl_queue *q)
{
	struct fab_port *p = q->port;
	struct fabric *f = p->node->f;
	struct flight *fl = first(q);

	q->blocks -= blocks(&fl->pkt);
	q->since = 0;
	unref(f, fl->pkt.data);
	list_del(&fl->node);
	list_add_tail(&f->unused, &fl->node);
	if (!q->inner && p->peer && p->peer->data)
		all_ready(&p->peer->data->waiting[q->vl]);
}

/* A group's: which ports it has yet to go to. */
static bool has_port(const struct flight *fl, unsigned port)
{
	return fl->ports[port / 64] >> port % 64 & 1;
}

/* True: that was the last of them. */
static bool sent_by(struct flight *fl, unsigned port)
{
	fl->ports[port / 64] &= ~((uint64_t)1 << port % 64);
	return !(fl->ports[0] | fl->ports[1] | fl->ports[2] | fl->ports[3]);
}

/* --- how long a packet may wait ------------------------------------------------ */

/* At an adapter for room of a program: it waits for credits as long as that takes. */
static uint64_t life_of(const struct fab_port *out)
{
	if (!is_switch(out->node))
		return life_unit << LIFE_UP;
	return out->pi.hoq_life < LIFE_EVER ? life_unit << out->pi.hoq_life : UINT64_MAX;
}

static uint64_t oldest(const struct list *l)
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

static void set_life(struct fab_port *out)
{
	uint64_t life = life_of(out), since = UINT64_MAX, at;

	for (unsigned i = 0; is_switch(out->node) && i < DATA_VLS; i++) {
		at = oldest(&out->data->waiting[i]);
		since = at < since ? at : since;
	}
	if (!is_switch(out->node))
		since = oldest(&out->data->for_room);
	at = since < UINT64_MAX - life ? since + life : UINT64_MAX;
	(void)heap_set(&out->node->f->life_due, &out->data->life_due, at);
}

/* 18.2.5.4: that many in a row, and the VL drops all for a while. */
static void may_stall(struct fab_port *out, unsigned vl)
{
	struct port_data *d = out->data;
	uint8_t count = out->pi.vl_stall_count;

	if (!count || ++d->lost[vl] < count)
		return;
	d->lost[vl] = 0;
	d->stalled[vl] = out->node->f->now + 8 * life_of(out);
	all_ready(&d->waiting[vl]);
}

/* The first packet of q does not go by that port any more; a group's may have others. */
static void give_up(struct vl_queue *q, unsigned num)
{
	struct flight *fl = first(q);

	q->since = 0;
	if (!fl->spread || sent_by(fl, num))
		pop(q);
	ready(q);
}

/* One that has waited too long; NULL: there is none. */
static struct vl_queue *find_old(const struct list *l, uint64_t life, uint64_t now)
{
	list_for(node, l)
	{
		struct vl_queue *q = container_of(node, struct vl_queue, stand);

		if (q->since + life <= now)
			return q;
	}
	return NULL;
}

/* There was no room for it: PortBufferOverrunErrors. */
static void overrun(struct fab_port *p)
{
	p->count.rcv_errors++;
	p->detail.rcv[RCV_OVERRUN]++;
}

/* Each that is given up may free others of the list, too: so it is looked through anew.
 */
static void drop_old(struct fab_port *out)
{
	uint64_t life = life_of(out), now = out->node->f->now;
	struct vl_queue *q;

	if (!is_switch(out->node)) {
		all_ready(&out->data->for_room); /* go_up() looks how old they are */
		life = UINT64_MAX;
	}
	for (unsigned i = 0; life != UINT64_MAX && i < DATA_VLS; i++) {
		while ((q = find_old(&out->data->waiting[i], life, now))) {
			count_discard(out, XMIT_HOQ_LIFE);
			give_up(q, out->num);
			may_stall(out, i);
		}
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
		drop_old(d->in[0].port);
	}
}

/* --- a packet's next step ------------------------------------------------------- */

/* 18.2.5.4: too long in this switch. */
static bool too_old(const struct vl_queue *q, const struct flight *fl)
{
	const struct fab_node *n = q->port->node;

	return is_switch(n) && n->si.lifetime < LIFE_EVER &&
	       n->f->now - fl->entered > life_unit << n->si.lifetime;
}

static void wait_for(struct vl_queue *q, struct list *l)
{
	list_del(&q->stand);
	list_add_tail(l, &q->stand);
}

/* By that port, on that VL.  False: it waits for credits. */
static bool go_out(struct vl_queue *q, struct flight *fl, struct fab_port *out,
		   uint8_t vl)
{
	struct port_data *mine = data_of(out), *theirs;
	struct mad_pkt next = fl->pkt;
	struct vl_queue *to;

	if (!leaves(out, &fl->pkt))
		return true;
	theirs = data_of(out->peer);
	if (!mine || !theirs || vl >= DATA_VLS || ++next.hops >= FABRIC_NEVER_HOPS) {
		no_way(q->port, RCV_LOOPING);
		return true;
	}
	if (mine->stalled[vl] > q->port->node->f->now) {
		count_discard(out, XMIT_HOQ_LIFE);
		return true;
	}
	to = &theirs->in[vl];
	if (to->blocks + blocks(&fl->pkt) > VL_BLOCKS) {
		if (!q->since)
			q->since = q->port->node->f->now;
		wait_for(q, &mine->waiting[vl]);
		set_life(out);
		return false;
	}
	if (too_old(q, fl)) {
		count_discard(out, XMIT_LIFETIME);
		return true;
	}
	mine->lost[vl] = 0;
	count_out(out, vl, &fl->pkt);
	if (take_in(out->peer, &next))
		(void)put(to, &next); /* no memory: lost */
	return true;
}

/* To the programs of this adapter.  False: one of them has no room. */
static bool go_up(struct vl_queue *q, const struct flight *fl)
{
	struct fab_port *p = q->port;
	const struct fabric *f = p->node->f;

	if (!f->ops->take || !good_pkey(p, &fl->pkt))
		return true;
	switch (f->ops->take(f->ctx, p->node->index, p->num, &fl->pkt)) {
	case FABRIC_TAKEN:
		return true;
	case FABRIC_LOST:
		overrun(p);
		return true;
	case FABRIC_FULL:
		break;
	}
	if (!q->since)
		q->since = f->now;
	if (f->now - q->since >= life_of(p)) {
		overrun(p);
		if (f->ops->late)
			f->ops->late(f->ctx, p->node->index, p->num, &fl->pkt);
		return true;
	}
	wait_for(q, &p->data->for_room);
	set_life(p);
	return false;
}

/* Which ports a group's packet goes to: those of the table but for the one that it came
 * in by; at an adapter, up, and out if it comes from there. */
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

static bool one_of_group(struct vl_queue *q, struct flight *fl, unsigned num)
{
	struct fab_node *n = q->port->node;
	struct fab_port *out = is_switch(n) ? &n->port[num] : q->port;
	uint8_t vl;

	if (num == 0)
		return go_up(q, fl);
	if (!find_vl(out, is_switch(n) ? q->port->num : 0, &fl->pkt, &vl) ||
	    !may_leave(out, &fl->pkt))
		return true;
	return go_out(q, fl, out, vl);
}

static bool to_group(struct vl_queue *q, struct flight *fl)
{
	if (!fl->spread)
		spread(q, fl);
	for (unsigned num = 0; num <= q->port->node->ports; num++) {
		if (!has_port(fl, num))
			continue;
		if (!one_of_group(q, fl, num))
			return false;
		(void)sent_by(fl, num);
		q->since = 0; /* how long it waits for the next one is another time */
	}
	return true;
}

/* False: it cannot go yet, and q stands where it is told of that. */
static bool step(struct vl_queue *q, struct flight *fl)
{
	struct fab_port *p = q->port;
	uint8_t out, vl;

	if (is_group(fl->pkt.dlid))
		return to_group(q, fl);
	if (has_lid(lid_port(p), fl->pkt.dlid))
		return is_switch(p->node) || go_up(q, fl);
	if (is_switch(p->node))
		return !find_out(p->node, p, &fl->pkt, &out, &vl) ||
		       go_out(q, fl, &p->node->port[out], vl);
	if (!q->inner)
		return true; /* for another port: adapters forward nothing */
	if (!find_vl(p, 0, &fl->pkt, &vl)) {
		count_discard(p, XMIT_INACTIVE);
		return true;
	}
	return go_out(q, fl, p, vl);
}

void data_run(struct fabric *f, unsigned max)
{
	while (max > 0 && !list_empty(&f->ready)) {
		struct vl_queue *q = container_of(f->ready.next, struct vl_queue, stand);

		list_del(&q->stand);
		while (max > 0 && !list_empty(&q->fl) && step(q, first(q))) {
			pop(q);
			max--;
		}
		if (max == 0 && !list_empty(&q->fl) && list_empty(&q->stand))
			ready(q);
	}
}

void data_link_down(struct fab_port *p)
{
	for (unsigned i = 0; p->data && i < DATA_VLS; i++)
		all_ready(&p->data->waiting[i]);
}

int data_begin(struct fab_port *p, const struct mad_pkt *pkt)
{
	return data_of(p) ? put(&p->data->out[pkt->sl & (DATA_VLS - 1)], pkt) : -ENOMEM;
}

void data_room(struct fab_port *p)
{
	if (!p->data)
		return;
	all_ready(&p->data->for_room);
	set_life(p);
}
