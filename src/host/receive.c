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

#include "host/fds.h"
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
	const struct msg_proof *said = buf;
	struct dgram d;
	uint16_t slot;
	int rc = 0;

	if (len < sizeof(*said) || msg_get_dgram((uint8_t *)buf + sizeof(*said),
						 len - sizeof(*said), &d, &slot)) {
		h->stats.refused++;
		return 0;
	}
	/* After setuid() the slot tells whose process it is. */
	if (!may_forward(h, uid, pid) && slot)
		rc = host_owns(h, slot, since, &uid, pid, said);
	if (rc == -EAGAIN)
		return rc;
	if (!rc && may_forward(h, uid, pid))
		deliver_dgram(h, &d);
	else
		refuse_sender(h, uid, pid);
	return 0;
}

/* Handles a message for local/ from c's process. */
static void pass_message(struct host *h, struct host_conn *c, size_t len,
			 struct fds_got *got)
{
	struct host_said s = {
		.slot = c->slot,
		.uid = c->uid,
		.pid = c->pid,
		.buf = h->buf + sizeof(struct msg_local),
		.len = len - sizeof(struct msg_local),
		.fd = { got->fd[0], got->fd[1] },
	};

	const struct host_conn *owner = h->by_slot[c->slot];

	static_assert(HOST_FDS == 2, "all of them");
	/* A connection may outlive its process's hold on the slot. */
	if (!owner || owner->uid != c->uid || owner->pid != c->pid || !h->ops->said) {
		h->stats.refused++;
		return;
	}
	h->ops->said(h->arg, &s);
	memcpy(got->fd, s.fd, sizeof(s.fd));
}

/* Handles a message that c's process sent by host_pass(). A process allowed to do that
 * may have this process write to its memory. */
static void take_passed(struct host *h, struct host_conn *c, size_t len)
{
	const struct host_conn *owner = h->by_slot[c->slot];
	const struct host_said s = {
		.slot = c->slot,
		.uid = c->uid,
		.pid = c->pid,
		.buf = h->buf + sizeof(struct msg_local),
		.len = len - sizeof(struct msg_local),
		.fd = { -1, -1 },
	};

	if (c->foreign || !owner || owner->uid != c->uid || owner->pid != c->pid ||
	    s.len > HOST_PASS_MAX || !h->ops->passed)
		h->stats.refused++;
	else
		h->ops->passed(h->arg, &s);
}

static void take_message(struct host *h, struct host_conn *c, size_t len,
			 struct fds_got *got)
{
	const struct msg_local *said = (void *)h->buf;
	struct dgram d;
	uint16_t slot;

	if (!c->greeted) {
		host_greeted(h, c, h->buf, len, got->pid);
		return;
	}
	if (len >= sizeof(*said) && len <= sizeof(*said) + HOST_SAY_MAX &&
	    said->version == MSG_VERSION && said->type == MSG_LOCAL) {
		pass_message(h, c, len, got);
		return;
	}
	if (len >= sizeof(*said) && said->version == MSG_VERSION &&
	    said->type == MSG_PASSED) {
		take_passed(h, c, len);
		return;
	}
	if (host_answered(h, c, h->buf, len))
		return;
	if (msg_get_dgram(h->buf, len, &d, &slot))
		host_garbage(h, c);
	else if (!c->foreign || is_holder(h, c->uid))
		deliver_dgram(h, &d);
	else
		refuse_sender(h, c->uid, c->pid);
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
	struct fds_got got;

	/* The connection may have been closed because of another one in the same run. */
	for (int i = 0; i < RUN_MSGS && c->fd >= 0 && !c->claimed; i++) {
		bool foreign = c->foreign;
		ssize_t n;

		if (c->foreign && closer_is_full_of(c->uid)) {
			host_stop_hearing(h, c);
			return;
		}
		n = fds_recv(c->fd, c->uid, h->buf, sizeof(h->buf), &got);
		if (n < 0 && (errno == EAGAIN || errno == EINTR))
			return;
		/* Reported once, if the peer ended with something unread; the messages
		 * that it sent follow. */
		if (n < 0 && errno == ECONNRESET)
			continue;
		if (n <= 0)
			host_conn_close(h, c);
		else if (brings_too_many(c, got.n))
			host_garbage(h, c);
		else /* truncated: refused for its length */
			take_message(h, c, (size_t)n, &got);
		fds_let_go(&got, foreign);
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
