/* SPDX-License-Identifier: BSD-2-Clause */
/* receive.c - takes in what other processes send: see host.h, host.c. */
#include <assert.h>
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "host/host.h"
#include "host/host_own.h"
#include "sys/cancel.h"
#include "sys/clock.h"
#include "sys/closer.h"
#include "sys/fd.h"
#include "sys/log.h"

/* Limits of one host_run(). */
enum { RUN_EVENTS = 32, RUN_ACCEPT = 16, RUN_MSGS = 16 };

void host_accept_foreign(struct host *h, const uid_t *uids, unsigned n)
{
	assert(n <= 2);
	h->nholders = 0;
	for (unsigned i = 0; i < n; i++)
		if (!user_is_hidden(&h->user, uids[i]))
			h->holders[h->nholders++] = uids[i];
}

static bool is_holder(const struct host *h, uid_t uid)
{
	for (unsigned i = 0; i < h->nholders; i++)
		if (h->holders[i] == uid)
			return true;
	return false;
}

/* May this sender forward datagrams? A process that forwards can claim any sender for
 * them. */
static bool may_forward(const struct host *h, uid_t uid, pid_t pid)
{
	return user_is_ours(&h->user, uid, pid) || is_holder(h, uid);
}

void host_garbage(struct host *h, struct host_conn *c)
{
	h->stats.refused++;
	if (log_level >= LOG_INFO && log_allowed(&h->said_garbage))
		log_info("process %d of user %u sent what is no message of this "
			 "version of urnic: its connection is closed",
			 (int)c->pid, (unsigned)c->uid);
	host_conn_close(h, c);
}

static void refuse_sender(struct host *h, uid_t uid, pid_t pid)
{
	h->stats.refused++;
	/* The last datagrams from the former holder of the UDP port may come this way,
	 * too, so this is no warning. */
	if (log_level >= LOG_INFO && log_allowed(&h->said_stranger))
		log_info("process %d of user %u forwards datagrams, but only "
			 "processes of user %u%s may: dropped",
			 (int)pid, (unsigned)uid, (unsigned)h->user.uid,
			 h->nholders ? " and of the user that has the UDP port" : "");
}

static void deliver_dgram(struct host *h, const struct dgram *d)
{
	h->stats.received++;
	h->ops->datagram(h->arg, d);
}

int host_judge_dgram(struct host *h, uid_t uid, pid_t pid, void *buf, size_t len,
		     uint64_t since)
{
	struct msg_proof proof;
	struct dgram d;
	uint16_t slot;
	int rc = 0;

	if (msg_get_hello(buf, len, &slot, &proof) ||
	    msg_get_dgram((uint8_t *)buf + sizeof(struct msg_hello),
			  len - sizeof(struct msg_hello), &d)) {
		h->stats.refused++;
		return 0;
	}
	/* After setuid() the slot tells whose process it is. */
	if (!may_forward(h, uid, pid))
		rc = host_owns(h, slot, since, &uid, pid, &proof);
	if (rc == -EAGAIN)
		return rc;
	if (!rc && may_forward(h, uid, pid))
		deliver_dgram(h, &d);
	else
		refuse_sender(h, uid, pid);
	return 0;
}

/* Handles a message for another room from c's process. */
static void pass_message(struct host *h, struct host_conn *c, struct msg *m)
{
	struct host_said s = {
		.type = (enum host_type)m->type,
		.slot = c->slot,
		.uid = c->uid,
		.pid = c->pid,
		.buf = m->body,
		.len = m->len,
		.fd = { m->fd[0], m->fd[1] },
		.msg = m,
	};
	const struct host_conn *owner = h->by_slot[c->slot];

	static_assert(MSG_FDS == 2, "all of them");
	/* A connection may outlive its process's hold on the slot. A process that sends
	 * HOST_XRC may have this one write to its memory. */
	if (!owner || owner->uid != c->uid || owner->pid != c->pid || !h->ops->said ||
	    (m->type == HOST_XRC && c->foreign)) {
		h->stats.refused++;
		return;
	}
	h->ops->said(h->arg, &s);
	memcpy(m->fd, s.fd, sizeof(s.fd));
}

static void take_dgram(struct host *h, struct host_conn *c, const struct msg *m)
{
	struct dgram d;

	if (msg_get_dgram(h->buf, m->len, &d))
		host_garbage(h, c);
	else if (!c->foreign || is_holder(h, c->uid))
		deliver_dgram(h, &d);
	else
		refuse_sender(h, c->uid, c->pid);
}

static void take_message(struct host *h, struct host_conn *c, struct msg *m)
{
	if (!c->greeted) {
		host_greeted(h, c, m);
		return;
	}
	switch ((enum host_type)m->type) {
	case HOST_HELLO:
		if (!host_answered(h, c, m))
			host_garbage(h, c);
		break;
	case HOST_DGRAM:
		take_dgram(h, c, m);
		break;
	case HOST_PIPE:
	case HOST_MAP:
	case HOST_ASK:
	case HOST_ANSWER:
	case HOST_XRC:
		pass_message(h, c, m);
		break;
	case HOST_SERVICE:
	case HOST_TYPES:
		host_garbage(h, c);
		break;
	}
}

/* Has c's process sent more descriptors than it may? Every offer of a pipe brings
 * one. */
static bool brings_too_many(struct host_conn *c, unsigned n)
{
	enum { FDS_MAX = 4 };

	c->fds += n;
	return c->foreign && c->fds > FDS_MAX;
}

static void conn_run(struct host *h, struct host_conn *c)
{
	struct msg m;

	/* The connection may have been closed because of another one in the same run. */
	for (int i = 0; i < RUN_MSGS && c->fd >= 0 && !c->claimed; i++) {
		bool foreign = c->foreign;
		int rc;

		if (c->foreign && closer_is_full_of(c->uid)) {
			host_stop_hearing(h, c);
			return;
		}
		rc = msg_recv(c->fd, &host_table, c->uid, h->buf, sizeof(h->buf), &m,
			      false);
		if (rc == -EAGAIN)
			return;
		if (rc == -EIO)
			host_conn_close(h, c);
		else if (rc || brings_too_many(c, m.fds))
			host_garbage(h, c);
		else
			take_message(h, c, &m);
		msg_drop(&m, foreign);
	}
}

/* No descriptor is left to accept a connection, which would keep the listening socket
 * readable: closes the spare one for a moment. */
static bool accept_and_refuse(struct host *h)
{
	int fd;

	if (log_allowed(&h->said_fds))
		log_warn("no descriptors left (ulimit -n): other processes of this "
			 "host cannot connect");
	h->stats.refused++;
	if (h->spare_fd < 0)
		return false;
	close(h->spare_fd);
	fd = accept4(h->listen_fd, NULL, NULL, SOCK_CLOEXEC);
	if (fd >= 0)
		closer_hang_up(fd);
	h->spare_fd = eventfd(0, EFD_CLOEXEC);
	return fd >= 0;
}

static void accept_some(struct host *h)
{
	for (int i = 0; i < RUN_ACCEPT && !closer_is_full(); i++) {
		int fd = accept4(h->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			if (!host_conn_new(h, fd_raise(fd), 0))
				h->stats.refused++;
			continue;
		}
		if (errno != EMFILE && errno != ENFILE)
			return;
		if (!accept_and_refuse(h))
			return;
	}
}

bool host_run(struct host *h)
{
	struct epoll_event ev[RUN_EVENTS];
	/* A raw system call, because libc's wrapper is a cancellation point. */
	int n = (int)syscall(SYS_epoll_pwait, h->epfd, ev, RUN_EVENTS, 0, NULL, 0), was;

	if (n <= 0)
		return false;
	was = cancel_hold();
	for (int i = 0; i < n; i++) {
		if (ev[i].data.ptr == &h->services)
			services_run(h);
		else if (ev[i].data.ptr == &h->alarm_fd)
			host_judge(h);
		else if (ev[i].data.ptr)
			conn_run(h, ev[i].data.ptr);
		else
			accept_some(h);
	}
	if (!closer_try_again())
		host_set_alarm(h, clock_ns() + UNHEARD_NS);
	if (closer_is_full())
		host_stop_hearing(h, NULL);
	host_bury(h);
	cancel_let(was);
	return true;
}

void host_look(struct host *h, uint16_t slot)
{
	struct host_conn *c = slot <= SLOT_LAST ? h->by_slot[slot] : NULL;
	int was;

	if (!c || !host_conn_has_ended(c))
		return;
	was = cancel_hold();
	conn_run(h, c); /* the last messages come first */
	if (h->by_slot[slot] == c)
		host_let_slot_go(h, c);
	cancel_let(was);
}
