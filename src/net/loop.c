/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/loop.h"
#include "net/ip_addr.h"

#include <errno.h>
#include <stdlib.h>

#include "net/parcel.h"

struct loop {
	struct link link;
	struct loop *peer; /* NULL: closed */
	struct loop_conf conf;
	struct list coming; /* datagrams in transit, oldest first; due is set */
	struct list lent;   /* datagrams given out, until the next recv() */
	unsigned coming_n;
	struct loop_stats stats;
};

static struct loop *loop_of(const struct link *link)
{
	return container_of(link, struct loop, link);
}

/* Returns how many of v[0..n) belong to the run that v[0] begins. */
static unsigned run_len(const struct dgram *v, unsigned n)
{
	unsigned i = 1;

	while (i < n && v[i].seg > 0)
		i++;
	return i;
}

static void send_one(struct loop *from, const struct dgram *d, uint64_t now)
{
	struct loop *to = from->peer;
	struct parcel *p = NULL;

	from->stats.sent++;
	if (to && to->coming_n < to->conf.depth && d->len <= from->link.mtu)
		p = parcel_make(d);
	if (!p) {
		from->stats.lost++;
		return;
	}
	p->due = now + from->conf.latency;
	p->d.ip_id_exact = !from->conf.hide_ids || !addr_is_v4(ip_of(d)->to.ip);
	if (!p->d.ip_id_exact)
		p->d.ip_id = 0;
	list_add_tail(&to->coming, &p->node);
	to->coming_n++;
}

static int loop_send(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct loop *l = loop_of(link);
	unsigned taken = 0;

	while (taken < n) {
		unsigned run = run_len(v + taken, n - taken);

		if (l->conf.backpressure && l->peer &&
		    l->peer->coming_n + run > l->conf.depth)
			break;
		for (; run > 0; run--)
			send_one(l, &v[taken++], now);
	}
	return (int)taken;
}

static int loop_recv(struct link *link, struct dgram *v, unsigned n, uint64_t now)
{
	struct loop *l = loop_of(link);
	unsigned got = 0;

	parcels_free(&l->lent);
	list_for_safe(node, &l->coming)
	{
		struct parcel *p = container_of(node, struct parcel, node);

		if (got == n || p->due > now)
			break;
		list_del(node);
		list_add_tail(&l->lent, node);
		l->coming_n--;
		parcel_show(p, &v[got++]);
	}
	return (int)got;
}

static uint64_t loop_deadline(struct link *link)
{
	struct loop *l = loop_of(link);

	if (list_empty(&l->coming))
		return UINT64_MAX;
	return container_of(l->coming.next, struct parcel, node)->due;
}

static void loop_close(struct link *link)
{
	struct loop *l = loop_of(link);

	if (l->peer)
		l->peer->peer = NULL;
	parcels_free(&l->coming);
	parcels_free(&l->lent);
	free(l);
}

static const struct link_ops loop_ops = {
	.send = loop_send,
	.recv = loop_recv,
	.deadline = loop_deadline,
	.close = loop_close,
};

static struct loop *loop_end(const struct loop_conf *conf)
{
	struct loop *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->conf = *conf;
	if (!l->conf.depth)
		l->conf.depth = 256;
	l->link.ops = &loop_ops;
	l->link.run_max = conf->run_max ? conf->run_max : 1;
	l->link.mtu = conf->mtu ? conf->mtu : 4200;
	list_init(&l->coming);
	list_init(&l->lent);
	return l;
}

int loop_pair(struct link **a, struct link **b, const struct loop_conf *conf)
{
	struct loop *la = loop_end(conf), *lb = loop_end(conf);

	if (!la || !lb) {
		free(la);
		free(lb);
		return -ENOMEM;
	}
	la->peer = lb;
	lb->peer = la;
	*a = &la->link;
	*b = &lb->link;
	return 0;
}

const struct loop_stats *loop_stats(const struct link *link)
{
	return &loop_of(link)->stats;
}
