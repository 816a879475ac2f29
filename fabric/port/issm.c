/* SPDX-License-Identifier: BSD-2-Clause */
/* issm.c - finds out whether a port's issm path is open.  The path leads to the write end
 * of a pipe that has no reader, so poll() says POLLERR.  A process that opens the path
 * becomes a reader, and POLLERR goes away. */
#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fabric/port/server.h"
#include "fabric/port/server_own.h"

static bool has_reader(int fd)
{
	struct pollfd p = { .fd = fd };

	return poll(&p, 1, 0) >= 0 && !(p.revents & (POLLERR | POLLNVAL));
}

/* Sets the port's IsSM if any of its issm paths is open, and clears it otherwise. */
static void tell_sm(struct plug_server *s, const struct plug_conn *c)
{
	bool is = false;

	list_for(node, &s->issms)
	{
		const struct plug_conn *o = container_of(node, struct plug_conn, node);

		is |= o->ca == c->ca && o->port == c->port && o->is_open;
	}
	fabric_set_sm(s->fabric, c->ca, c->port, is, s->now);
}

void issm_look(struct plug_server *s, struct plug_conn *c)
{
	bool is = has_reader(c->pipe_fd);

	if (is == c->is_open)
		return;
	c->is_open = is;
	tell_sm(s, c);
}

void issm_look_all(struct plug_server *s)
{
	list_for(node, &s->issms)
	{
		struct plug_conn *c = container_of(node, struct plug_conn, node);

		if (!c->is_open)
			issm_look(s, c);
	}
}

bool issm_begin(struct plug_server *s, struct plug_conn *c, int pipe_fd)
{
	struct epoll_event ev = { .events = EPOLLET, .data.ptr = &c->pipe };
	struct stat st;

	if (pipe_fd < 0 || fstat(pipe_fd, &st) || !S_ISFIFO(st.st_mode) ||
	    epoll_ctl(s->epoll, EPOLL_CTL_ADD, pipe_fd, &ev))
		return false;
	c->pipe_fd = pipe_fd;
	return true;
}

void issm_end(struct plug_server *s, struct plug_conn *c)
{
	/* The program still has the pipe open, so closing this descriptor alone would
	 * leave the pipe in the epoll set. */
	epoll_ctl(s->epoll, EPOLL_CTL_DEL, c->pipe_fd, NULL);
	close(c->pipe_fd);
	c->pipe_fd = -1;
	if (!c->is_open)
		return;
	c->is_open = false;
	tell_sm(s, c);
}
