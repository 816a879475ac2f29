/* SPDX-License-Identifier: BSD-2-Clause */
/* backlog.c - see backlog.h. */
#include "rsocket/backlog.h"

#include <pthread.h>

#include "sys/held.h"

static pthread_mutex_t backlogs_lock = PTHREAD_MUTEX_INITIALIZER;

bool rsock_backlogs_lock(void)
{
	return held_fork(&backlogs_lock);
}

void rsock_backlogs_unlock(void)
{
	pthread_mutex_unlock(&backlogs_lock);
}

void rsock_backlogs_forked(void)
{
	pthread_mutex_init(&backlogs_lock, NULL);
}

void rsock_backlog_init(struct rsock_backlog *b, struct rsock_entry *owner)
{
	list_init(&b->waiting);
	list_init(&b->accepting);
	list_init(&b->ready);
	b->max = 0;
	b->owner = owner;
}

void rsock_child_init(struct rsock_child *c, struct rsock_entry *owner)
{
	*c = (struct rsock_child){ .owner = owner };
	list_init(&c->node);
}

static int count_children(const struct list *l)
{
	int n = 0;

	list_for(at, l) n++;
	return n;
}

static struct rsock_child *first_child(const struct list *l)
{
	return list_empty(l) ? NULL : container_of(l->next, struct rsock_child, node);
}

void rsock_backlog_limit(struct rsock_backlog *b, int max)
{
	pthread_mutex_lock(&backlogs_lock);
	b->max = max < 1 ? 1 : max > RSOCK_BACKLOG_MAX ? RSOCK_BACKLOG_MAX : max;
	pthread_mutex_unlock(&backlogs_lock);
}

bool rsock_backlog_has_room(struct rsock_backlog *b)
{
	bool room;

	pthread_mutex_lock(&backlogs_lock);
	room = count_children(&b->waiting) < RSOCK_WAITING_MAX;
	pthread_mutex_unlock(&backlogs_lock);
	return room;
}

void rsock_backlog_add(struct rsock_backlog *b, struct rsock_child *c)
{
	pthread_mutex_lock(&backlogs_lock);
	c->of = b;
	list_add_tail(&b->waiting, &c->node);
	pthread_mutex_unlock(&backlogs_lock);
}

struct rsock_child *rsock_backlog_next(struct rsock_backlog *b)
{
	struct rsock_child *c = NULL;

	pthread_mutex_lock(&backlogs_lock);
	if (count_children(&b->ready) + count_children(&b->accepting) < b->max)
		c = first_child(&b->waiting);
	if (c) {
		atomic_fetch_add(&c->owner->refs, 1);
		list_del(&c->node);
		list_add_tail(&b->accepting, &c->node);
	}
	pthread_mutex_unlock(&backlogs_lock);
	return c;
}

bool rsock_backlog_any_ready(struct rsock_backlog *b)
{
	bool any;

	pthread_mutex_lock(&backlogs_lock);
	any = !list_empty(&b->ready);
	pthread_mutex_unlock(&backlogs_lock);
	return any;
}

struct rsock_child *rsock_backlog_take(struct rsock_backlog *b)
{
	struct rsock_child *c;

	pthread_mutex_lock(&backlogs_lock);
	c = first_child(&b->ready);
	if (c) {
		list_del(&c->node);
		c->of = NULL;
	}
	pthread_mutex_unlock(&backlogs_lock);
	return c;
}

void rsock_backlog_give_back(struct rsock_backlog *b, struct rsock_child *c)
{
	pthread_mutex_lock(&backlogs_lock);
	c->of = b;
	list_add_tail(b->ready.next, &c->node); /* before the first */
	pthread_mutex_unlock(&backlogs_lock);
}

void rsock_backlog_empty(struct rsock_backlog *b, struct list *out)
{
	struct list *const lists[] = { &b->waiting, &b->accepting, &b->ready };

	pthread_mutex_lock(&backlogs_lock);
	for (int i = 0; i < 3; i++)
		list_for_safe(n, lists[i])
		{
			container_of(n, struct rsock_child, node)->of = NULL;
			list_del(n);
			list_add_tail(out, n);
		}
	pthread_mutex_unlock(&backlogs_lock);
}

bool rsock_child_settle(struct rsock_child *c, bool made, struct rsock_backlog **listener)
{
	struct rsock_backlog *b;
	bool waited;

	pthread_mutex_lock(&backlogs_lock);
	b = c->of;
	waited = b && !c->settled;
	if (waited) {
		*listener = rsock_entry_hold(b->owner) ? b : NULL;
		list_del(&c->node);
		if (made)
			list_add_tail(&b->ready, &c->node);
		else
			c->of = NULL;
		c->settled = made;
	}
	pthread_mutex_unlock(&backlogs_lock);
	return waited;
}
