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
 * that came in before that reading are judged by it.
 */
#include <errno.h>
#include <string.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "host/host.h"
#include "host/host_own.h"
#include "host/name.h"
#include "sys/clock.h"
#include "sys/log.h"

enum { TRIES_MAX = 8 }; /* tries after which the wait grows no longer */

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

static void wait_for_alarm(struct host *h, struct host_conn *c, uint16_t slot)
{
	uint64_t at = clock_ns() + ((uint64_t)AGAIN_NS << c->tries);

	if (slot > SLOT_NAMED && reserve_due(&h->reserve) > at)
		at = reserve_due(&h->reserve);
	if (c->tries < TRIES_MAX)
		c->tries++;
	c->claimed = slot;
	c->judge_at = at;
	list_add_tail(&h->waiting, &c->wait);
	host_set_alarm(h, at);
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
	int rc = host_owns(h, slot, c->since, &uid, c->pid,
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
	c->since = clock_ns();
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
	wait_for_alarm(h, c, slot);
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
	/* Greetings that wait may be waiting for this connection's answer. */
	list_for(n, &h->waiting)
	{
		struct host_conn *w = container_of(n, struct host_conn, wait);

		if (w->claimed != slot)
			continue;
		w->judge_at = 0;
		host_set_alarm(h, clock_ns());
	}
	host_later_now(h);
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
		wait_for_alarm(h, c, slot);
	}
}

void host_judge(struct host *h)
{
	const struct itimerspec none = { 0 };
	uint64_t now = clock_ns();
	struct list all;

	timerfd_settime(h->alarm_fd, 0, &none, NULL);
	h->alarm_at = NEVER;
	host_hear_again(h);
	host_later_judge(h);
	list_init(&all);
	while (!list_empty(&h->waiting)) {
		struct list *n = h->waiting.next;

		list_del(n);
		list_add_tail(&all, n);
	}
	while (!list_empty(&all)) {
		struct host_conn *c = container_of(all.next, struct host_conn, wait);

		list_del(&c->wait);
		if (c->judge_at > now) {
			list_add_tail(&h->waiting, &c->wait);
			host_set_alarm(h, c->judge_at);
		} else {
			judge_again(h, c);
		}
	}
}
