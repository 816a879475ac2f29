/* SPDX-License-Identifier: BSD-2-Clause */
/* later.c - datagrams for services whose sender cannot be judged yet: after setuid() its
 * slot decides, and the slot's owner has not answered. They keep their order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "host/host.h"
#include "host/host_own.h"
#include "sys/clock.h"

/* At most ALL_MAX wait, EACH_MAX of one user, so that no user can fill the list
 * alone. */
enum { ALL_MAX = 64, EACH_MAX = 16 };

struct later {
	struct host_wait wait;
	uid_t uid;
	pid_t pid;
	size_t len;
	_Alignas(8) uint8_t buf[];
};

static const struct later *later_of(const struct list *node)
{
	return container_of(node, const struct later, wait.node);
}

static bool is_datagram(const struct list *node)
{
	return !container_of(node, const struct host_wait, node)->conn;
}

/* Keeps a copy of the datagram. Returns false if there is no room. */
static bool keep_copy(struct host *h, uid_t uid, pid_t pid, const void *buf, size_t len)
{
	struct later *l;
	unsigned all = 0, each = 0;

	list_for(node, &h->waiting)
	{
		if (!is_datagram(node))
			continue;
		all++;
		each += later_of(node)->uid == uid;
	}
	l = all < ALL_MAX && each < EACH_MAX ? malloc(sizeof(*l) + len) : NULL;
	if (!l)
		return false;
	*l = (struct later){
		.wait.since = clock_ns(), .uid = uid, .pid = pid, .len = len
	};
	memcpy(l->buf, buf, len);
	host_wait(h, &l->wait, 0);
	return true;
}

static bool one_waits(const struct host *h, uid_t uid, pid_t pid)
{
	list_for(node, &h->waiting)
	{
		if (is_datagram(node) && later_of(node)->uid == uid &&
		    later_of(node)->pid == pid)
			return true;
	}
	return false;
}

bool host_is_behind(const struct host *h, const struct host_wait *w)
{
	const struct later *l = later_of(&w->node);

	return one_waits(h, l->uid, l->pid);
}

void host_take_dgram(struct host *h, uid_t uid, pid_t pid, void *buf, size_t len)
{
	int rc = one_waits(h, uid, pid)
			 ? -EAGAIN
			 : host_judge_dgram(h, uid, pid, buf, len, clock_ns());

	if (rc == -EAGAIN && !keep_copy(h, uid, pid, buf, len))
		h->stats.refused++;
}

void host_judge_later(struct host *h, struct host_wait *w)
{
	struct later *l = container_of(w, struct later, wait);
	int rc = host_judge_dgram(h, l->uid, l->pid, l->buf, l->len, w->since);

	if (rc == -EAGAIN && w->tries < WAIT_TRIES) {
		host_wait(h, w, 0);
		return;
	}
	h->stats.refused += rc == -EAGAIN;
	free(l);
}

void host_later_free(struct host *h)
{
	list_for_safe(node, &h->waiting)
	{
		if (!is_datagram(node))
			continue;
		list_del(node);
		free(container_of(node, struct later, wait.node));
	}
}
