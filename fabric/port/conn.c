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
#include "sys/rights.h"
#include "sys/user.h"

enum { ROOM = sizeof(((struct plug_server *)0)->room) };
static const uint64_t patience = 10000000000; /* ns; for the first request to come */

static bool watch(struct plug_server *s, struct plug_conn *c, int op)
{
	struct epoll_event ev = {
		.events = EPOLLIN | (c->full ? EPOLLOUT : 0),
		.data.ptr = &c->sock,
	};

	return epoll_ctl(s->epoll, op, c->fd, &ev) == 0;
}

bool plugged_watch(struct plug_server *s, struct plug_conn *c)
{
	return watch(s, c, EPOLL_CTL_MOD);
}

static void take(struct plug_server *s, int fd, uid_t uid, pid_t pid)
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
	if (!watch(s, c, EPOLL_CTL_ADD))
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
	rights_allow(fd);
	take(s, fd, uid, pid);
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
		rc = message_send_any(c->fd, NULL, 0, msg, len, true);
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
	if (c->full != was && !watch(s, c, EPOLL_CTL_MOD))
		plugged_end(s, c);
}

/* Reads one message; if there are more, epoll reports the connection again.  Most
 * programs send one request and wait for the answer, so looking for another message first
 * would be a wasted system call. */
static void read_one(struct plug_server *s, struct plug_conn *c)
{
	uint8_t *msg = s->room;
	struct plug_request req;
	int passed = -1;
	long n = message_recv(c->fd, c->uid, msg, ROOM, &passed, 0);

	if (n == -EWOULDBLOCK)
		return;
	if (n == sizeof(req) && c->kind == CONN_NEW) {
		memcpy(&req, msg, sizeof(req));
		plug_first(s, c, &req, passed);
	} else if (n > 0 && n <= ROOM && c->kind == CONN_FILE) {
		plug_said(s, c, msg, (size_t)n, passed);
	} else if (n > 0 && n <= ROOM && c->kind == CONN_CONTROL && passed < 0) {
		plug_asked(s, c, msg, (size_t)n);
	} else if (n != sizeof(uint32_t) || c->kind != CONN_ATTACHED || passed >= 0) {
		if (n > 0)
			log_info(
				"fabric: process %d sent %ld bytes where no such message "
				"may come: its connection is closed",
				(int)c->pid, n);
		closer_put(c->uid, passed);
		plugged_end(s, c);
	} /* else: a kick */
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
