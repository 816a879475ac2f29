/* SPDX-License-Identifier: BSD-2-Clause */
/* server.c - the loop of a fabric's process, and its clock; see server.h. */
#include "fabric/port/server.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "fabric/port/address.h"
#include "fabric/port/server_own.h"
#include "sys/clock.h"
#include "sys/fd.h"
#include "sys/msg.h"

enum { BACKLOG = 1024, EVENTS = 64, CLOSES_NS = 100000000 };

static void deliver_mad(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	struct plug_server *s = ctx;

	if (!service_deliver(s, node, port, pkt))
		umad_input(s->umad, node, port, pkt);
}

static void readable(void *ctx, void *owner)
{
	struct plug_server *s = ctx;
	struct plug_conn *c = owner;

	if (!c->full && list_empty(&c->ready))
		list_add_tail(&s->ready, &c->ready);
}

static void crosses(void *ctx, uint32_t node, uint8_t port, uint8_t vl,
		    const struct mad_pkt *pkt)
{
	struct plug_server *s = ctx;

	if (!list_empty(&s->captures))
		capture_packet(s, node, port, vl, pkt);
}

static enum fabric_take take_packet(void *ctx, uint32_t node, uint8_t port,
				    const struct mad_pkt *pkt)
{
	return attach_take(ctx, node, port, pkt);
}

static void late(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	attach_late(ctx, node, port, pkt);
}

static void data_done(void *ctx, struct fabric_data *d)
{
	(void)ctx;
	attach_done(d);
}

static const struct fabric_ops fabric_ops = { .deliver = deliver_mad,
					      .take = take_packet,
					      .late = late,
					      .done = data_done,
					      .crosses = crosses };
static const struct umad_ops umad_ops = { .readable = readable };

static int do_listen(struct plug_server *s, const char *name)
{
	struct sockaddr_un a;
	struct epoll_event ev = { .events = EPOLLIN, .data.ptr = &s->listen_watch };
	socklen_t len;
	uid_t owner;
	int rc = plug_address(name, s->user.uid, &a, &len, &owner);

	if (rc || owner != s->user.uid)
		return -EINVAL;
	s->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	s->epoll = epoll_create1(EPOLL_CLOEXEC);
	msg_refuse_fds(s->listener); /* until plugged_in() has checked the user */
	if (s->listener < 0 || s->epoll < 0 ||
	    bind(s->listener, (struct sockaddr *)&a, len) ||
	    listen(s->listener, BACKLOG) ||
	    epoll_ctl(s->epoll, EPOLL_CTL_ADD, s->listener, &ev))
		return -errno;
	return 0;
}

/* Raises the limit of descriptors: each port that a program has open takes one here. */
static void more_descriptors(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) == 0) {
		lim.rlim_cur = lim.rlim_max;
		setrlimit(RLIMIT_NOFILE, &lim);
	}
}

int plug_server_new(struct plug_server **out, const char *name, const struct topo *t)
{
	struct plug_server *s = calloc(1, sizeof(*s));
	int rc;

	if (!s)
		return -ENOMEM;
	s->topo = t;
	s->epoll = s->listener = -1;
	s->listen_watch.kind = WATCH_LISTEN;
	s->stop_watch.kind = WATCH_STOP;
	list_init(&s->fresh);
	list_init(&s->files);
	list_init(&s->issms);
	list_init(&s->controls);
	list_init(&s->captures);
	list_init(&s->attaches);
	list_init(&s->services);
	list_init(&s->dead);
	list_init(&s->ready);
	list_init(&s->leaving);
	user_open(&s->user);
	more_descriptors();
	rc = do_listen(s, name);
	if (!rc)
		rc = fabric_new(&s->fabric, t, &fabric_ops, s);
	if (!rc)
		rc = umad_new(&s->umad, s->fabric, &umad_ops, s);
	if (rc) {
		plug_server_free(s);
		return rc;
	}
	*out = s;
	return 0;
}

void plug_server_control(struct plug_server *s, plug_answer *fn, void *ctx)
{
	s->answer = fn;
	s->answer_ctx = ctx;
}

static void free_dead(struct plug_server *s)
{
	list_for_safe(node, &s->dead)
		plugged_free(container_of(node, struct plug_conn, node));
}

static void end_all(struct plug_server *s, struct list *l)
{
	list_for_safe(node, l) plugged_end(s, container_of(node, struct plug_conn, node));
}

void plug_server_free(struct plug_server *s)
{
	if (!s)
		return;
	end_all(s, &s->fresh);
	end_all(s, &s->files);
	end_all(s, &s->issms);
	end_all(s, &s->controls);
	end_all(s, &s->captures);
	end_all(s, &s->attaches);
	end_all(s, &s->services);
	free_dead(s);
	group_free(s);
	umad_free(s->umad);
	fabric_free(s->fabric);
	if (s->listener >= 0)
		close(s->listener);
	if (s->epoll >= 0)
		close(s->epoll);
	free(s);
}

static int by_pid(const void *a, const void *b)
{
	const pid_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

unsigned plug_server_programs(const struct plug_server *s)
{
	const struct list *at[] = { &s->files, &s->issms, &s->attaches, &s->services };
	size_t n = 0, all = 0, programs = 0;
	pid_t *pid;

	for (size_t i = 0; i < sizeof(at) / sizeof(at[0]); i++)
		list_for(node, at[i]) all++;
	pid = calloc(all + 1, sizeof(*pid));
	for (size_t i = 0; pid && i < sizeof(at) / sizeof(at[0]); i++)
		list_for(node, at[i]) pid[n++] =
			container_of(node, struct plug_conn, node)->pid;
	if (pid)
		qsort(pid, n, sizeof(*pid), by_pid);
	for (size_t i = 0; i < n; i++)
		programs += i == 0 || pid[i] != pid[i - 1];
	free(pid);
	return (unsigned)programs;
}

/* Ends connections whose first request has not come in time. */
static void silent(struct plug_server *s)
{
	list_for_safe(node, &s->fresh)
	{
		struct plug_conn *c = container_of(node, struct plug_conn, node);

		if (c->deadline > s->now)
			break; /* s->fresh is in the order of deadlines */
		plugged_end(s, c);
	}
}

/* The earliest deadline of all parts, in ns of clock_ns(); NEVER: there is none. */
static uint64_t next_time(const struct plug_server *s)
{
	uint64_t at = fabric_next(s->fabric), umad = umad_next(s->umad);

	if (umad < at)
		at = umad;
	if (group_next(s) < at)
		at = group_next(s);
	if (!list_empty(&s->fresh)) {
		uint64_t d =
			container_of(s->fresh.next, struct plug_conn, node)->deadline;

		if (d < at)
			at = d;
	}
	return at;
}

/* Milliseconds until the next deadline, rounded up; 0: it has passed; -1: none. */
static int timeout(struct plug_server *s)
{
	uint64_t at = next_time(s), now = clock_ns(), ms;

	if (!plugged_closes(s) && at > now + CLOSES_NS)
		at = now + CLOSES_NS;
	if (at == NEVER)
		return -1;
	if (at <= now)
		return 0;
	ms = (at - now + 999999) / 1000000;
	return ms < 1000000 ? (int)ms : 1000000;
}

/* Returns false if the server is to stop. */
static bool event(struct plug_server *s, const struct epoll_event *ev)
{
	struct watch *w = ev->data.ptr;
	struct plug_conn *c;

	switch (w->kind) {
	case WATCH_STOP:
		return false;
	case WATCH_LISTEN:
		plugged_in(s);
		break;
	case WATCH_CONN:
		c = container_of(w, struct plug_conn, sock);
		if (c->kind != CONN_DEAD)
			plugged_event(s, c, ev->events);
		break;
	case WATCH_PIPE:
		c = container_of(w, struct plug_conn, pipe);
		if (c->kind == CONN_ISSM)
			issm_look(s, c);
		break;
	}
	return true;
}

/* Runs the model up to s->now, then sends programs what it has for them. */
static void run_model(struct plug_server *s)
{
	issm_look_all(s);
	umad_run(s->umad, s->now);
	group_run(s);
	(void)attach_run(s);
	fabric_run(s->fabric, s->now);
	attach_flush(s);
	while (!list_empty(&s->ready))
		plugged_flush(s, container_of(s->ready.next, struct plug_conn, ready));
	capture_flush_all(s);
	silent(s);
	free_dead(s);
}

int plug_serve(struct plug_server *s, int stop)
{
	struct epoll_event ev[EVENTS] = {
		{ .events = EPOLLIN, .data.ptr = &s->stop_watch },
	};
	bool on = true;

	if (epoll_ctl(s->epoll, EPOLL_CTL_ADD, stop, ev))
		return -errno;
	while (on) {
		int n;

		attach_sleeps(s, true);
		n = epoll_wait(s->epoll, ev, EVENTS, attach_has(s) ? 0 : timeout(s));
		attach_sleeps(s, false);
		if (n < 0 && errno != EINTR)
			return -errno;
		s->now = clock_ns();
		for (int i = 0; i < n && on; i++)
			on = event(s, &ev[i]);
		run_model(s);
	}
	return 0;
}
