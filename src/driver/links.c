/* SPDX-License-Identifier: BSD-2-Clause */
/* links.c - see links.h. */
#include "driver/links.h"

#include <errno.h>

#include "driver/engine.h"
#include "ib/ib.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "verbs/core.h"

/* --- a link as a source ------------------------------------------------------ */

unsigned links_take_in(struct nic_link *l, struct source_got *got, uint64_t now)
{
	struct dgram *in = l->links->in;
	int n = l->link->ops->recv(l->link, in, LINK_RX, now);

	if (n > 0)
		ib_input_all(l->links->core, in, (unsigned)n, now);
	source_set(&l->source, l->link->ops->deadline(l->link));
	got->broken |= n < 0;
	return n > 0 ? (unsigned)n : 0;
}

unsigned links_input(struct source *s, enum source_depth depth, struct source_got *got,
		     uint64_t now)
{
	const int was = cancel_hold();
	const unsigned n =
		links_take_in(container_of(s, struct nic_link, source), got, now);

	(void)depth;
	cancel_let(was);
	return n;
}

/* --- all of them ------------------------------------------------------------- */

void links_init(struct links *links, struct core *core)
{
	links->core = core;
	list_init(&links->all);
}

void links_add(struct links *links, struct nic_link *l, const struct source_ops *ops)
{
	source_init(&l->source, ops);
	l->link->source = &l->source;
	l->links = links;
	list_add_tail(&links->all, &l->node);
}

void links_remove(struct nic_link *l)
{
	list_del(&l->node);
}

void links_turned_by(struct links *links, struct engine *e)
{
	list_for(n, &links->all)
		engine_add(e, &container_of(n, struct nic_link, node)->source);
}

struct nic_link *links_of(struct links *links, const struct device *dev)
{
	list_for(n, &links->all)
	{
		struct nic_link *l = container_of(n, struct nic_link, node);

		if (l->ops->carries(l, dev))
			return l;
	}
	return NULL;
}

static int listen_by(struct nic_link *l, const struct device *dev, const uint8_t *gid)
{
	return l->ops->listen ? l->ops->listen(l, dev, gid) : 0;
}

int links_listen(struct links *links, const struct device *dev, const uint8_t *gid)
{
	struct nic_link *of_dev = dev ? links_of(links, dev) : NULL;
	int rc = 0;

	if (dev)
		return of_dev ? listen_by(of_dev, dev, gid) : 0;
	list_for(n, &links->all) if (!rc) rc =
		listen_by(container_of(n, struct nic_link, node), NULL, gid);
	return rc;
}

void links_ask(struct links *links)
{
	list_for(n, &links->all)
	{
		struct nic_link *l = container_of(n, struct nic_link, node);

		if (l->ops->ask)
			l->ops->ask(l);
	}
}

int links_join(struct links *links, const struct device *dev, const uint8_t gid[16],
	       bool join)
{
	struct nic_link *l = links_of(links, dev);

	return l && l->ops->join ? l->ops->join(l, dev, gid, join) : -EOPNOTSUPP;
}

bool links_full(const struct links *links, uint64_t now)
{
	list_for(n, &links->all) if (container_of(n, struct nic_link, node)
					     ->link->full_until > now) return true;
	return false;
}

void links_forward(struct links *links)
{
	list_for(n, &links->all)
	{
		struct nic_link *l = container_of(n, struct nic_link, node);

		if (l->ops->forward)
			l->ops->forward(l, links->in, LINK_RX, clock_ns());
	}
}
