/* SPDX-License-Identifier: BSD-2-Clause */
/* conn.c - the fabric's end of one connection from a program. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fabric/port/address.h"
#include "fabric/port/message.h"
#include "fabric/port/server.h"
#include "fabric/port/server_own.h"
#include "sys/closer.h"
#include "sys/log.h"
#include "sys/user.h"

static const uint64_t patience = 10000000000; /* ns; for the first request to come */

static bool watch_conn(struct plug_server *s, struct plug_conn *c, int op)
{
	struct epoll_event ev = {
		.events = EPOLLIN | (c->full ? EPOLLOUT : 0),
		.data.ptr = &c->sock,
	};

	return epoll_ctl(s->epoll, op, c->fd, &ev) == 0;
}

bool plugged_watch(struct plug_server *s, struct plug_conn *c)
{
	return watch_conn(s, c, EPOLL_CTL_MOD);
}

static void take_conn(struct plug_server *s, int fd, uid_t uid, pid_t pid)
{
	struct plug_conn *c = calloc(1, sizeof(*c));

	if (!c) {
		close(fd);
		return;
	}
	*c = (struct plug_conn){ .sock = { WATCH_CONN },
				 .pipe = { WATCH_PIPE },
				 .fd = fd,
				 .uid = uid,
				 .pid = pid,
				 .deadline = s->now + patience,
				 .pipe_fd = -1 };
	list_init(&c->ready);
	list_init(&c->groups);
	list_add_tail(&s->fresh, &c->node);
	if (!watch_conn(s, c, EPOLL_CTL_ADD))
		plugged_end(s, c);
}

/* Stops or resumes accepting.  The fabric stops when it has no free descriptor, or when
 * too many descriptors of other users wait to be closed; new connections stay in the
 * backlog. */
static void listen_or_not(struct plug_server *s, bool deaf)
{
	struct epoll_event ev = { .events = deaf ? 0 : EPOLLIN,
				  .data.ptr = &s->listen_watch };

	if (s->deaf != deaf && epoll_ctl(s->epoll, EPOLL_CTL_MOD, s->listener, &ev) == 0)
		s->deaf = deaf;
}

static bool is_let_in(const struct plug_server *s, uid_t uid, pid_t pid)
{
	return user_is_of(&s->user, s->user.uid, uid, pid) ||
	       user_is_of(&s->user, 0, uid, pid);
}

void plugged_in(struct plug_server *s)
{
	uid_t uid;
	pid_t pid;
	int fd;

	if (closer_is_full()) {
		s->behind = true;
		listen_or_not(s, true);
		return;
	}
	fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		if (errno == EMFILE || errno == ENFILE || errno == ENOMEM ||
		    errno == ENOBUFS)
			listen_or_not(s, true);
		return;
	}
	if (user_of_peer(fd, &uid, &pid) || !is_let_in(s, uid, pid)) {
		log_info("fabric: process %d of user %u is refused: this fabric is"
			 " user %u's",
			 (int)pid, uid, s->user.uid);
		closer_hang_up(fd);
		return;
	}
	msg_allow_fds(fd);
	take_conn(s, fd, uid, pid);
}

bool plugged_closes(struct plug_server *s)
{
	bool works = closer_try_again();

	if (s->behind && !closer_is_full()) {
		s->behind = false;
		listen_or_not(s, false);
	}
	return works && !s->behind;
}

void plugged_end(struct plug_server *s, struct plug_conn *c)
{
	if (c->kind == CONN_DEAD)
		return;
	list_del(&c->ready);
	if (c->file)
		umad_close(c->file);
	c->file = NULL;
	capture_end(c);
	attach_end(c);
	group_end(s, c);
	if (c->pipe_fd >= 0)
		issm_end(s, c);
	close(c->fd);
	list_del(&c->node);
	c->kind = CONN_DEAD;
	list_add_tail(&s->dead, &c->node);
	listen_or_not(s, false);
}

/* Sends the file's messages until the socket is full. */
void plugged_flush(struct plug_server *s, struct plug_conn *c)
{
	const void *msg;
	size_t len;
	bool was = c->full;
	int rc = 0;

	list_del(&c->ready);
	while (!rc && (msg = umad_peek(c->file, &len))) {
		rc = plug_say(c->fd, PLUG_MAD, msg, len, -1, false);
		if (rc && rc != -EAGAIN && rc != -EIO)
			rc = 0; /* no memory to send the message: it is lost */
		if (!rc)
			umad_pop(c->file);
	}
	if (rc == -EIO) {
		plugged_end(s, c);
		return;
	}
	c->full = rc == -EAGAIN;
	if (c->full != was && !watch_conn(s, c, EPOLL_CTL_MOD))
		plugged_end(s, c);
}

/* Handles a message.  Returns false if none of its type may come on c. */
static bool take_message(struct plug_server *s, struct plug_conn *c, struct msg *m)
{
	switch (c->kind) {
	case CONN_NEW:
		if (m->type == PLUG_REQUEST)
			plug_first(s, c, m);
		return m->type == PLUG_REQUEST;
	case CONN_FILE:
		if (m->type == PLUG_MAD)
			plug_mad(s, c, m);
		else if (m->type == PLUG_AGENT && m->fd[0] >= 0)
			plug_agent(c, m);
		else
			return false;
		return true;
	case CONN_CONTROL: /* a request that lies in memory is no urnic's */
		if (m->type == PLUG_TEXT && m->memory < 0)
			plug_asked(s, c, m);
		return m->type == PLUG_TEXT && m->memory < 0;
	case CONN_ATTACHED:
		return m->type == PLUG_KICK;
	case CONN_ISSM:
	case CONN_CAPTURE:
	case CONN_SERVICE:
	case CONN_DEAD:
		break;
	}
	return false;
}

/* Reads one message; if there are more, epoll reports the connection again.  Most
 * programs send one request and wait for the answer, so looking for another message first
 * would be a wasted system call. */
static void read_one(struct plug_server *s, struct plug_conn *c)
{
	struct msg m;
	int rc =
		msg_recv(c->fd, &plug_table, c->uid, s->room, sizeof(s->room), &m, false);

	if (rc == -EPROTONOSUPPORT && c->kind == CONN_NEW) {
		plug_refuse(s, c, -EPROTO);
	} else if (rc == -EIO) {
		plugged_end(s, c);
	} else if (rc != -EAGAIN && (rc || !take_message(s, c, &m))) {
		log_info("fabric: process %d sent %zu bytes where no such message may "
			 "come: its connection is closed",
			 (int)c->pid, m.len);
		plugged_end(s, c);
	}
	msg_drop(&m, true);
}

void plugged_event(struct plug_server *s, struct plug_conn *c, uint32_t events)
{
	if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
		read_one(s, c);
	if (events & EPOLLOUT && c->kind == CONN_FILE)
		plugged_flush(s, c);
	if (events & EPOLLOUT && c->kind == CONN_CAPTURE)
		capture_flush(s, c);
}

void plugged_free(struct plug_conn *c)
{
	list_del(&c->node);
	free(c);
}
