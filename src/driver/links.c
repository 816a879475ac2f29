/* SPDX-License-Identifier: BSD-2-Clause */
/* links.c - see links.h. */
#include "driver/links.h"

#include <assert.h>
#include <errno.h>

#include "driver/engine.h"
#include "ib/ib.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "verbs/core.h"

static struct nic_link *link_of(struct source *s)
{
	return container_of(s, struct nic_link, source);
}

/* --- a link as a source ------------------------------------------------------ */

static int receive(struct nic_link *l, uint64_t now)
{
	struct dgram *in = l->links->in;
	int n = l->link->ops->recv(l->link, in, LINK_RX, now);

	if (n > 0)
		ib_input_all(l->links->core, in, (unsigned)n, now);
	return n;
}

static void link_input(struct source *s, struct source_got *got, uint64_t now)
{
	struct nic_link *l = link_of(s);
	bool calls = !l->ops->is_idle || !l->ops->is_idle(l);
	int n, was = calls ? cancel_hold() : 0;

	n = receive(l, now);
	if (calls)
		cancel_let(was);
	if (n < 0)
		got->broken = true;
	else
		got->n += (unsigned)n;
}

static uint64_t link_deadline(struct source *s, uint64_t now)
{
	struct link *link = link_of(s)->link;

	(void)now;
	return link->ops->deadline(link);
}

static unsigned link_fds(struct source *s, struct source_fd *fd)
{
	struct nic_link *l = link_of(s);

	return l->ops->fds ? l->ops->fds(l, fd) : 0;
}

static void link_forked(struct source *s)
{
	struct nic_link *l = link_of(s);

	if (l->ops->forked)
		l->ops->forked(l);
}

static const struct source_ops source_ops = {
	SOURCE_SOCKETS,	 .input = link_input,	.deadline = link_deadline,
	.fds = link_fds, .forked = link_forked,
};

/* --- one over memory ---------------------------------------------------------- */

static void ring_input(struct source *s, struct source_got *got, uint64_t now)
{
	unsigned was = got->n;

	link_input(s, got, now);
	got->one_sided |= got->n != was;
}

static bool ring_hot(struct source *s)
{
	return link_of(s)->ops->has(link_of(s));
}

static void ring_watched(struct source *s)
{
	link_of(s)->ops->sleeps(link_of(s), true);
}

static void ring_left(struct source *s)
{
	link_of(s)->ops->sleeps(link_of(s), false);
}

static void ring_told(struct source *s)
{
	link_of(s)->ops->told(link_of(s));
}

static const struct source_ops ring_ops = {
	SOURCE_RINGS,	 .input = ring_input,	  .deadline = link_deadline,
	.hot = ring_hot, .watched = ring_watched, .left = ring_left,
	.fds = link_fds, .told = ring_told,	  .forked = link_forked,
};

/* --- all of them ------------------------------------------------------------- */

void links_init(struct links *links, struct core *core)
{
	links->core = core;
	list_init(&links->all);
}

void links_add(struct links *links, struct nic_link *l)
{
	assert(!l->ops->has == !l->ops->sleeps && !l->ops->has == !l->ops->told);
	l->source = (struct source){ .ops = l->ops->has ? &ring_ops : &source_ops,
				     .rang = -1 };
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
