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
enum { ALL_MAX = 64, EACH_MAX = 16, TRIES_MAX = 8 };

struct later {
	struct list node; /* host->later */
	uid_t uid;
	pid_t pid;
	uint64_t since, at;
	unsigned tries;
	size_t len;
	_Alignas(8) uint8_t buf[];
};

static struct later *later_of(struct list *node)
{
	return container_of(node, struct later, node);
}

/* Waits on. A look caused by an answer, which may be another process's, does not count
 * as a try. */
static void wait_on(struct host *h, struct later *l)
{
	if (l->at)
		l->tries++;
	l->at = clock_ns() + ((uint64_t)AGAIN_NS << l->tries);
	host_set_alarm(h, l->at);
}

/* Keeps a copy of the datagram. Returns false if there is no room. */
static bool keep_copy(struct host *h, uid_t uid, pid_t pid, const void *buf, size_t len)
{
	struct later *l;
	unsigned all = 0, each = 0;

	list_for(node, &h->later)
	{
		all++;
		each += later_of(node)->uid == uid;
	}
	l = all < ALL_MAX && each < EACH_MAX ? malloc(sizeof(*l) + len) : NULL;
	if (!l)
		return false;
	*l = (struct later){ .uid = uid, .pid = pid, .since = clock_ns(), .len = len };
	memcpy(l->buf, buf, len);
	list_add_tail(&h->later, &l->node);
	wait_on(h, l);
	return true;
}

static bool waits(const struct host *h, uid_t uid, pid_t pid)
{
	list_for(node, &h->later)
	{
		const struct later *l = later_of(node);

		if (l->uid == uid && l->pid == pid)
			return true;
	}
	return false;
}

void host_take_dgram(struct host *h, uid_t uid, pid_t pid, void *buf, size_t len)
{
	int rc = waits(h, uid, pid) ? -EAGAIN
				    : host_judge_dgram(h, uid, pid, buf, len, clock_ns());

	if (rc == -EAGAIN && !keep_copy(h, uid, pid, buf, len))
		h->stats.refused++;
}

void host_later_now(struct host *h)
{
	list_for(node, &h->later) later_of(node)->at = 0;
	if (!list_empty(&h->later))
		host_set_alarm(h, clock_ns());
}

/* Judges the datagram. Returns false if it has to wait on. */
static bool judge_again(struct host *h, struct later *l)
{
	int rc = host_judge_dgram(h, l->uid, l->pid, l->buf, l->len, l->since);

	if (rc == -EAGAIN && l->tries < TRIES_MAX)
		return false;
	h->stats.refused += rc == -EAGAIN;
	free(l);
	return true;
}

void host_later_judge(struct host *h)
{
	uint64_t now = clock_ns();
	struct list all, *node;

	list_init(&all);
	while (node = h->later.next, node != &h->later) {
		list_del(node);
		list_add_tail(&all, node);
	}
	while (node = all.next, node != &all) {
		struct later *l = later_of(node);
		bool behind = waits(h, l->uid, l->pid);

		list_del(node);
		if (!behind && l->at <= now && judge_again(h, l))
			continue;
		list_add_tail(&h->later, node);
		if (!behind && l->at <= now)
			wait_on(h, l);
		else if (!behind)
			host_set_alarm(h, l->at);
	}
}

void host_later_free(struct host *h)
{
	list_for_safe(node, &h->later) free(later_of(node));
	list_init(&h->later);
}
