/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.c - the connections of a process, and how many each user may have.
 *
 * A connection that this process made to a slot leads to the slot's owner. One that
 * another process made to this one claims a slot in its greeting (greet.c). The claim
 * holds if the kernel names the same process as the slot's owner; the connection is then
 * used to send as well. If both sides connected at once there are two.
 */
#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "host/host.h"
#include "host/host_own.h"
#include "host/name.h"
#include "sys/alloc.h"
#include "sys/clock.h"
#include "sys/closer.h"
#include "sys/user.h"

enum {
	OWN_MAX = 2048,
	FOREIGN_MAX = 2 * SLOT_LAST,
	STRANGERS_MAX = 64,
};

/* --- how many -------------------------------------------------------------------- */

/* Limits other users' connections: anybody may connect, and must not use up the
 * program's descriptors. */
static unsigned foreign_max(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) || lim.rlim_cur / 2 >= FOREIGN_MAX)
		return FOREIGN_MAX;
	return (unsigned)lim.rlim_cur / 2;
}

static unsigned *count_of(struct host *h, const struct host_conn *c)
{
	if (!c->foreign)
		return &h->nown;
	return c->stranger ? &h->nstrangers : &h->nforeign;
}

static unsigned count_user(const struct list *conns, uid_t uid)
{
	unsigned n = 0;

	list_for(node, conns) n += container_of(node, struct host_conn, node)->uid == uid;
	return n;
}

/* A user may have as many connections as are then left to all others. */
static bool has_room(const struct host *h, uid_t uid, bool foreign)
{
	if (!foreign)
		return h->nown < OWN_MAX;
	return h->nforeign + count_user(&h->conns, uid) < h->foreign_max;
}

/* Closes the oldest stranger of the user who has most. */
static void close_a_stranger(struct host *h)
{
	struct host_conn *victim = NULL;
	unsigned most = 0;

	list_for(node, &h->strangers)
	{
		struct host_conn *c = container_of(node, struct host_conn, node);
		unsigned n = count_user(&h->strangers, c->uid);

		if (n > most) {
			most = n;
			victim = c;
		}
	}
	if (victim) {
		h->stats.refused++;
		host_conn_close(h, victim);
	}
}

/* --- from the first to the last -------------------------------------------------- */

void host_conns_init(struct host *h)
{
	h->foreign_max = foreign_max();
	list_init(&h->conns);
	list_init(&h->strangers);
	list_init(&h->dead);
	list_init(&h->waiting);
}

bool host_watch(struct host *h, int fd, void *who, bool on)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = who };

	return epoll_ctl(h->epfd, on ? EPOLL_CTL_ADD : EPOLL_CTL_DEL, fd, &ev) == 0;
}

/* Accepts descriptors on c or refuses them, as far as the kernel can. */
static void set_rights(struct host *h, struct host_conn *c)
{
	bool foreign_ones = c->slot && h->takes_fds[c->slot];

	if (!c->foreign || foreign_ones)
		msg_allow_fds(c->fd);
	else if (c->took_fds)
		msg_refuse_fds(c->fd);
	c->took_fds |= foreign_ones;
}

void host_take_fds(struct host *h, uint16_t slot, bool on)
{
	if (h->takes_fds[slot] == on)
		return;
	h->takes_fds[slot] = on;
	list_for(node, &h->conns)
	{
		struct host_conn *c = container_of(node, struct host_conn, node);

		if (c->slot == slot && c->foreign)
			set_rights(h, c);
	}
}

bool host_conn_watch(struct host *h, struct host_conn *c, bool on)
{
	if (on && c->unheard)
		return true; /* host_hear_again() adds it later */
	return host_watch(h, c->fd, c, on);
}

/* Watches or ignores new connections and services. Returns false if epoll refuses; then
 * none is watched. */
static bool hear_anybody(struct host *h, bool on)
{
	bool done = host_watch(h, h->listen_fd, NULL, on);

	if (h->services.epfd >= 0)
		done &= host_watch(h, h->services.epfd, &h->services, on);
	if (on && !done)
		hear_anybody(h, false);
	else
		h->deaf = !on;
	return done;
}

void host_stop_hearing(struct host *h, struct host_conn *c)
{
	if (c && !c->unheard) {
		host_conn_watch(h, c, false);
		c->unheard = true;
	}
	if (!c && !h->deaf)
		hear_anybody(h, false);
	host_set_alarm(h, clock_ns() + UNHEARD_NS);
}

static void hear_all(struct host *h, struct list *conns)
{
	list_for(node, conns)
	{
		struct host_conn *c = container_of(node, struct host_conn, node);

		if (!c->unheard)
			continue;
		c->unheard = closer_is_full_of(c->uid) || !host_watch(h, c->fd, c, true);
		if (c->unheard)
			host_set_alarm(h, clock_ns() + UNHEARD_NS);
	}
}

/* Finds a connection that has ended while it is not read, and so unnoticed. */
static struct host_conn *ended_unheard(struct host *h)
{
	list_for(node, &h->conns)
	{
		struct host_conn *c = container_of(node, struct host_conn, node);

		if (c->unheard && c->slot && h->by_slot[c->slot] == c &&
		    host_conn_has_ended(c))
			return c;
	}
	return NULL;
}

/* Its slot may be another process's now.  What c has still to read is dropped. */
void host_let_slot_go(struct host *h, const struct host_conn *c)
{
	h->by_slot[c->slot] = NULL;
	h->ops->gone(h->arg, c->slot);
}

/* Releases the slots of such connections, so that other processes may have them. */
static void let_slots_go(struct host *h)
{
	struct host_conn *c;

	while ((c = ended_unheard(h)))
		host_let_slot_go(h, c);
}

void host_hear_again(struct host *h)
{
	let_slots_go(h);
	hear_all(h, &h->conns);
	hear_all(h, &h->strangers);
	if (!h->deaf)
		return;
	if (closer_is_full() || !hear_anybody(h, true))
		host_stop_hearing(h, NULL);
}

struct host_conn *host_conn_new(struct host *h, int fd, uint16_t slot)
{
	struct host_conn *c = turn_alloc(sizeof(*c));

	if (!c || user_of_peer(fd, &c->uid, &c->pid))
		goto fail;
	c->fd = fd;
	list_init(&c->wait.node);
	c->wait.conn = c;
	c->slot = slot;
	c->foreign = !user_is_ours(&h->user, c->uid, c->pid);
	c->stranger = !slot && c->foreign;
	if (c->stranger && h->nstrangers >= STRANGERS_MAX)
		close_a_stranger(h);
	if (!c->stranger && !has_room(h, c->uid, c->foreign))
		goto fail;
	if (!host_conn_watch(h, c, true))
		goto fail;
	set_rights(h, c);
	*count_of(h, c) += 1;
	list_add_tail(c->stranger ? &h->strangers : &h->conns, &c->node);
	return c;
fail:
	turn_free(c);
	closer_hang_up(fd);
	return NULL;
}

bool host_conn_prove(struct host *h, struct host_conn *c, uint16_t slot, uid_t uid)
{
	bool foreign = !user_is_ours(&h->user, uid, c->pid);

	assert(c->fd >= 0);
	if ((c->stranger || c->foreign != foreign) && !has_room(h, uid, foreign))
		return false;
	*count_of(h, c) -= 1;
	c->slot = slot;
	c->uid = uid;
	c->foreign = foreign;
	c->stranger = false;
	set_rights(h, c);
	*count_of(h, c) += 1;
	list_del(&c->node);
	list_add_tail(&h->conns, &c->node);
	return true;
}

/* A process of this user could do us any harm anyway, so its connection is simply
 * closed. */
void host_conn_hang_up(struct host_conn *c)
{
	if (c->foreign)
		closer_hang_up(c->fd);
	else
		close(c->fd);
	c->fd = -1;
}

bool host_conn_has_ended(const struct host_conn *c)
{
	struct pollfd p = { .fd = c->fd };

	return poll(&p, 1, 0) > 0 && p.revents & POLLHUP;
}

void host_conn_close(struct host *h, struct host_conn *c)
{
	uint16_t slot = c->slot;

	if (c->fd < 0)
		return;
	c->claimed = 0;
	list_del(&c->wait.node);
	/* close() is not enough: a forked copy of this process may hold the connection
	 * open. */
	host_conn_watch(h, c, false);
	host_conn_hang_up(c);
	*count_of(h, c) -= 1;
	list_del(&c->node);
	list_add_tail(&h->dead, &c->node);
	if (slot && h->by_slot[slot] == c) {
		h->by_slot[slot] = NULL;
		h->ops->gone(h->arg, slot);
	}
}

void host_bury(struct host *h)
{
	list_for_safe(n, &h->dead)
	{
		list_del(n);
		free(container_of(n, struct host_conn, node));
	}
}

/* --- ours to others -------------------------------------------------------------- */

/* Greets on fd, which leads to slot's process, and takes fd over. */
static int greet_slot(struct host *h, uint16_t slot, int fd, struct host_conn **out)
{
	struct host_conn *c;

	if (host_greet(h, fd)) {
		closer_hang_up(fd);
		return -ESRCH;
	}
	c = host_conn_new(h, fd, slot);
	if (!c)
		return -EAGAIN;
	c->greeted = true;
	h->by_slot[slot] = c;
	*out = c;
	return 0;
}

/* Remembers a failed try: each costs a few system calls, and packets may come for slots
 * that no process has. */
static int note_failure(struct host *h, uint16_t slot, int rc)
{
	uint64_t until = clock_ns() + AGAIN_NS;

	if (rc == -EAGAIN && slot > SLOT_NAMED && reserve_due(&h->reserve) > until)
		until = reserve_due(&h->reserve);
	h->unreached[slot].rc = rc;
	h->unreached[slot].until = until;
	return rc;
}

int host_conn_get(struct host *h, uint16_t slot, struct host_conn **out)
{
	int rc;

	if (slot < SLOT_FIRST || slot > SLOT_LAST || slot == h->slot)
		return -ESRCH;
	*out = h->by_slot[slot];
	if (*out)
		return 0;
	if (h->unreached[slot].rc && clock_ns() < h->unreached[slot].until)
		return h->unreached[slot].rc;
	rc = host_reach(h, slot);
	if (rc >= 0)
		rc = greet_slot(h, slot, rc, out);
	if (rc)
		return note_failure(h, slot, rc == -EAGAIN ? rc : -ESRCH);
	h->unreached[slot].rc = 0;
	return 0;
}

int host_connect(struct host *h, uint16_t slot)
{
	struct host_conn *c;

	return host_conn_get(h, slot, &c);
}

/* Connects to the process that has slot's name now, if it is user uid's. */
static bool connect_if(struct host *h, uint16_t slot, uid_t uid)
{
	struct host_conn *c = h->by_slot[slot];
	uid_t owner;
	pid_t pid;
	int fd;

	if (c)
		return c->uid == uid;
	fd = slot > SLOT_NAMED ? -ESRCH : name_connect(slot);
	if (fd < 0)
		return false;
	if (user_of_peer(fd, &owner, &pid) == 0 && owner == uid)
		return greet_slot(h, slot, fd, &c) == 0;
	closer_hang_up(fd);
	return false;
}

uint16_t host_connect_user(struct host *h, uid_t uid)
{
	uint16_t slot;
	struct host_conn *c;
	int fd;

	if (user_is_hidden(&h->user, uid))
		return 0;
	for (slot = SLOT_FIRST; slot <= SLOT_LAST; slot++)
		if (slot != h->slot && connect_if(h, slot, uid))
			return slot;
	fd = reserve_connect_user(&h->reserve, uid, &slot);
	return fd >= 0 && greet_slot(h, slot, fd, &c) == 0 ? slot : 0;
}
