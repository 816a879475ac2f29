/* SPDX-License-Identifier: BSD-2-Clause */
/* greet.c - a process that connected says which slot is its own.
 *
 *                 a greeting
 *   connected ----------------> judged --- confirmed ---> proven
 *                                | ^   \-- denied ------> heard, but not believed
 *                 cannot be said v | the alarm
 *                               waits
 *
 * While a greeting waits nothing of its connection is taken in, and the connection
 * is not looked at: it costs nothing until the alarm.  For a slot of the reserve the
 * alarm comes when the kernel's list may be read again (reserve.h); all greetings
 * that came in before that reading are judged by it.  Datagrams for services wait in
 * the same list.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "host/host.h"
#include "host/host_own.h"
#include "host/name.h"
#include "sys/alloc.h"
#include "sys/clock.h"
#include "sys/log.h"

enum { WAIT_TRIES = 8 }; /* the wait grows no longer then; a datagram is dropped */

void host_set_alarm(struct host *h, uint64_t at)
{
	struct itimerspec t = { .it_value = { .tv_sec = (time_t)(at / 1000000000),
					      .tv_nsec = (long)(at % 1000000000) } };

	if (at >= h->alarm_at)
		return;
	h->alarm_at = at;
	timerfd_settime(h->alarm_fd, TFD_TIMER_ABSTIME, &t, NULL);
}

bool host_has_alarm(const struct host *h)
{
	return h->alarm_at != NEVER;
}

/* --- what waits ------------------------------------------------------------------- */

/* `slot` decides how soon w can be judged. The wait doubles with each try. A look caused
 * by an answer (at == 0), which may be another process's, does not count as one. */
static void wait_on(struct host *h, struct host_wait *w, uint16_t slot)
{
	if (w->at && w->tries < WAIT_TRIES)
		w->tries++;
	w->at = clock_ns() + ((uint64_t)AGAIN_NS << w->tries);
	if (slot > SLOT_NAMED && reserve_due(&h->reserve) > w->at)
		w->at = reserve_due(&h->reserve);
	list_add_tail(&h->waiting, &w->node);
	host_set_alarm(h, w->at);
}

/* --- greetings ------------------------------------------------------------------- */

static void wait_greeted(struct host *h, struct host_conn *c, uint16_t slot)
{
	c->claimed = slot;
	wait_on(h, &c->wait, slot);
}

static void deny(struct host *h, const struct host_conn *c, uint16_t slot, int why)
{
	h->stats.refused++;
	/* A process that ended meanwhile did not lie, even if another has its slot
	 * now. */
	if (why != -ESRCH && !host_conn_has_ended(c) && log_allowed(&h->said_claim))
		log_warn("process %d of user %u says that slot %u is its own, but "
			 "the kernel does not confirm it%s: its messages are ignored",
			 (int)c->pid, (unsigned)c->uid, slot,
			 c->pid ? "" : " (it is in another pid namespace)");
}

static void confirm(struct host *h, struct host_conn *c, uint16_t slot, uid_t uid)
{
	if (!host_conn_prove(h, c, slot, uid)) {
		h->stats.refused++;
		host_conn_close(h, c);
		return;
	}
	if (h->by_slot[slot])
		return; /* this connection is for receiving only */
	h->by_slot[slot] = c;
	h->unreached[slot].rc = 0;
}

/* Judges the claim of slot. Returns false if that cannot be done now. */
static bool judge_claim(struct host *h, struct host_conn *c, uint16_t slot)
{
	uid_t uid = c->uid;
	int rc = host_owns(h, slot, c->wait.since, &uid, c->pid,
			   c->greeter == c->pid ? &c->proof : NULL);

	if (rc == -EAGAIN)
		return false;
	if (rc)
		deny(h, c, slot, rc);
	else
		confirm(h, c, slot, uid);
	return true;
}

int host_greet(struct host *h, int fd)
{
	struct msg_hello hello;
	struct iovec iov = { &hello, sizeof(hello) };

	msg_put_hello(&hello, h->slot, &h->proof);
	return msg_send(fd, &host_table, HOST_HELLO, &iov, 1, NULL, 0, false);
}

void host_greeted(struct host *h, struct host_conn *c, const struct msg *m)
{
	uint16_t slot;

	c->greeted = true;
	c->greeter = m->pid;
	c->wait.since = clock_ns();
	if (m->type != HOST_HELLO || msg_get_hello(m->body, m->len, &slot, &c->proof) ||
	    slot == h->slot) {
		host_garbage(h, c);
		return;
	}
	c->answered = true;
	/* A process that has ended gets no answer, but what it sent before counts. */
	if (host_greet(h, c->fd) == -EAGAIN) {
		host_conn_close(h, c);
		return;
	}
	name_hide_senders(c->fd);
	if (judge_claim(h, c, slot))
		return;
	host_conn_watch(h, c, false);
	wait_greeted(h, c, slot);
}

bool host_answered(struct host *h, struct host_conn *c, const struct msg *m)
{
	struct msg_proof proof;
	uint16_t slot;

	if (c->answered || msg_get_hello(m->body, m->len, &slot, &proof) ||
	    slot != c->slot)
		return false;
	c->answered = true;
	c->proof = proof;
	host_judge_soon(h); /* greetings may be waiting for this answer */
	return true;
}

static void judge_again(struct host *h, struct host_conn *c)
{
	uint16_t slot = c->claimed;

	c->claimed = 0;
	if (judge_claim(h, c, slot)) {
		if (c->fd >= 0 && !host_conn_watch(h, c, true))
			host_conn_close(h, c);
	} else if (host_conn_has_ended(c)) {
		host_conn_close(h, c);
	} else {
		wait_greeted(h, c, slot);
	}
}

/* --- datagrams for services ------------------------------------------------------- */

/* After setuid() its slot decides whose a datagram is, and the slot's owner may not have
 * answered. They keep their order. */

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
	l = all < ALL_MAX && each < EACH_MAX ? turn_alloc(sizeof(*l) + len) : NULL;
	if (!l)
		return false;
	*l = (struct later){
		.wait.since = clock_ns(), .uid = uid, .pid = pid, .len = len
	};
	memcpy(l->buf, buf, len);
	wait_on(h, &l->wait, 0);
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

/* Does a datagram of w's sender wait, too? It comes first. */
static bool is_behind(const struct host *h, const struct host_wait *w)
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

/* Judges w, a datagram, and frees it, or lets it wait on. */
static void judge_dgram(struct host *h, struct host_wait *w)
{
	struct later *l = container_of(w, struct later, wait);
	int rc = host_judge_dgram(h, l->uid, l->pid, l->buf, l->len, w->since);

	if (rc == -EAGAIN && w->tries < WAIT_TRIES) {
		wait_on(h, w, 0);
		return;
	}
	h->stats.refused += rc == -EAGAIN;
	turn_free(l);
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

/* --- judging ---------------------------------------------------------------------- */

void host_judge_soon(struct host *h)
{
	list_for(n, &h->waiting) container_of(n, struct host_wait, node)->at = 0;
	if (!list_empty(&h->waiting))
		host_set_alarm(h, clock_ns());
}

void host_judge(struct host *h)
{
	const struct itimerspec none = { 0 };
	uint64_t now = clock_ns();
	struct list all;

	timerfd_settime(h->alarm_fd, 0, &none, NULL);
	h->alarm_at = NEVER;
	host_hear_again(h);
	list_take(&all, &h->waiting);
	while (!list_empty(&all)) {
		struct host_wait *w = container_of(all.next, struct host_wait, node);

		list_del(&w->node);
		if (w->at <= now && w->conn) {
			judge_again(h, w->conn);
		} else if (w->at > now || is_behind(h, w)) {
			list_add_tail(&h->waiting, &w->node);
			host_set_alarm(h, w->at > now ? w->at : NEVER);
		} else {
			judge_dgram(h, w);
		}
	}
}
