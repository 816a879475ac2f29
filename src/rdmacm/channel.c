/* SPDX-License-Identifier: BSD-2-Clause */
/* channel.c - see channel.h. */
#include "rdmacm/channel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>

#include "sys/ack_wait.h"
#include "sys/fd.h"
#include "sys/held.h"
#include "sys/log.h"

/* The innermost lock but for that of the table of live objects: no other is taken under
 * it. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void cma_channels_forked(void)
{
	pthread_mutex_init(&lock, NULL);
}

struct cma_channel *cma_channel_new(void)
{
	struct cma_channel *ch = calloc(1, sizeof(*ch));

	if (!ch) {
		errno = ENOMEM;
		return NULL;
	}
	ch->ch.fd = fd_raise(eventfd(0, EFD_SEMAPHORE | EFD_CLOEXEC));
	if (ch->ch.fd < 0) {
		free(ch);
		return NULL;
	}
	list_init(&ch->events);
	live_add(&ch->live, LIVE_CM_CHANNEL, NULL);
	return ch;
}

void cma_channel_free(struct cma_channel *ch)
{
	pthread_mutex_lock(&lock); /* cma_channel_has() looks at both under it */
	live_del(&ch->live);
	pthread_mutex_unlock(&lock);
	list_for_safe(n, &ch->events) free(container_of(n, struct cma_event, node));
	close(ch->ch.fd);
	free(ch);
}

void cma_source_open(struct cma_source *s, struct cma_channel *ch)
{
	*s = (struct cma_source){ .channel = ch, .pid = pid_own() };
	pthread_cond_init(&s->changed, NULL);
}

void cma_source_close(struct cma_source *s)
{
	if (cma_source_is_mine(s))
		pthread_cond_destroy(&s->changed);
}

/* --- tokens: lock held --------------------------------------------------- */

static void add_token(int fd)
{
	static const uint64_t one = 1;

	while (write(fd, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* Takes the token of an event that was in the list, so there is a token: read() does not
 * block either. */
static void drop_token(int fd)
{
	uint64_t one;

	if (fd_try_token(fd) == -EOPNOTSUPP)
		while (read(fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
}

/* --- adding and reading events ------------------------------------------- */

int cma_put(struct cma_source *s, struct cma_event *e)
{
	bool stopped;

	e->source = s;
	pthread_mutex_lock(&lock);
	stopped = s->stopped;
	if (!stopped) {
		list_add_tail(&s->channel->events, &e->node);
		add_token(s->channel->ch.fd);
	}
	pthread_mutex_unlock(&lock);
	if (!stopped)
		return 0;
	free(e);
	return -ECANCELED;
}

struct cma_event *cma_take(struct cma_channel *ch)
{
	struct cma_event *e = NULL;

	pthread_mutex_lock(&lock);
	if (!list_empty(&ch->events)) {
		e = container_of(ch->events.next, struct cma_event, node);
		list_del(&e->node);
		drop_token(ch->ch.fd);
		e->source->got++;
		e->source->busy++;
	} else {
		fd_try_token(ch->ch.fd); /* a token left by the other process of a fork */
	}
	pthread_mutex_unlock(&lock);
	return e;
}

void cma_looked_at(struct cma_event *e)
{
	pthread_mutex_lock(&lock);
	e->source->busy--;
	e->group = NULL;
	pthread_cond_broadcast(&e->source->changed);
	pthread_mutex_unlock(&lock);
}

void cma_done(struct cma_event *e)
{
	live_del(&e->live);
	pthread_mutex_lock(&lock);
	e->source->done++;
	pthread_cond_broadcast(&e->source->changed);
	pthread_mutex_unlock(&lock);
	free(e);
}

bool cma_channel_has(struct cma_channel *ch)
{
	const void *owner;
	bool has;

	pthread_mutex_lock(&lock);
	has = !live_find(&ch->live, LIVE_CM_CHANNEL, &owner) || !list_empty(&ch->events);
	pthread_mutex_unlock(&lock);
	return has;
}

int cma_channel_blocks(const struct cma_channel *ch)
{
	int flags = fcntl(ch->ch.fd, F_GETFL);

	if (flags < 0)
		return -errno;
	return flags & O_NONBLOCK ? -EAGAIN : 0;
}

/* poll(), not read(): a thread that is cancelled in read() could take a token with it. */
int cma_channel_wait(struct cma_channel *ch)
{
	struct pollfd p = { .fd = ch->ch.fd, .events = POLLIN };
	struct held self;
	int rc;

	self = held_sleep();
	rc = poll(&p, 1, -1) < 0 ? -errno : 0;
	held_wake(self);
	return rc ? rc : p.revents & POLLNVAL ? -EBADF : 0;
}

/* --- names -------------------------------------------------------------- */

const char *cma_event_name(enum rdma_cm_event_type event)
{
	/* clang-format off */
	static const char *const names[] = {
#define NAME(e) [e] = #e
		NAME(RDMA_CM_EVENT_ADDR_RESOLVED), NAME(RDMA_CM_EVENT_ADDR_ERROR),
		NAME(RDMA_CM_EVENT_ROUTE_RESOLVED), NAME(RDMA_CM_EVENT_ROUTE_ERROR),
		NAME(RDMA_CM_EVENT_CONNECT_REQUEST),
		NAME(RDMA_CM_EVENT_CONNECT_RESPONSE),
		NAME(RDMA_CM_EVENT_CONNECT_ERROR), NAME(RDMA_CM_EVENT_UNREACHABLE),
		NAME(RDMA_CM_EVENT_REJECTED), NAME(RDMA_CM_EVENT_ESTABLISHED),
		NAME(RDMA_CM_EVENT_DISCONNECTED), NAME(RDMA_CM_EVENT_DEVICE_REMOVAL),
		NAME(RDMA_CM_EVENT_MULTICAST_JOIN),
		NAME(RDMA_CM_EVENT_MULTICAST_ERROR), NAME(RDMA_CM_EVENT_ADDR_CHANGE),
		NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT), NAME(RDMA_CM_EVENT_ADDRINFO_RESOLVED),
		NAME(RDMA_CM_EVENT_ADDRINFO_ERROR), NAME(RDMA_CM_EVENT_USER),
#undef NAME
	};
	/* clang-format on */

	return (unsigned)event < sizeof(names) / sizeof(names[0]) ? names[event]
								  : "UNKNOWN EVENT";
}

/* --- taking events back: lock held --------------------------------------- */

static void unlink_events(struct cma_source *s, const struct cma_group *group,
			  struct list *into)
{
	list_for_safe(n, &s->channel->events)
	{
		struct cma_event *e = container_of(n, struct cma_event, node);

		if (e->source != s || (group && e->group != group))
			continue;
		list_del(n);
		list_add_tail(into, n);
		if (cma_source_is_mine(s))
			drop_token(s->channel->ch.fd);
	}
}

static void wait_looked_at(struct cma_source *s)
{
	while (s->busy && cma_source_is_mine(s))
		pthread_cond_wait(&s->changed, &lock);
}

/* The names of the events of a source that the program has. */
struct missing {
	const struct cma_source *source;
	size_t n;
	char names[256];
};

static void add_name(struct live *l, void *arg)
{
	const struct cma_event *e = container_of(l, struct cma_event, live);
	struct missing *m = arg;

	if (e->source == m->source && m->n < sizeof(m->names))
		m->n += (size_t)snprintf(m->names + m->n, sizeof(m->names) - m->n, "%s%s",
					 m->n ? ", " : "", cma_event_name(e->ev.event));
}

static void say_wait(const struct cma_source *s, const char *call)
{
	struct missing m = { .source = s };
	uint64_t at = 0;

	while (live_next(LIVE_CM_EVENT, &at, UINT_MAX, add_name, &m))
		;
	log_hint("%s waits: the program has read %u events of the id and acknowledged %u "
		 "(rdma_ack_cm_event): %s",
		 call, s->got, s->done, m.names);
}

static void wait_acked(struct cma_source *s, const char *call)
{
	struct ack_wait wait = { 0 };

	while (s->got != s->done && cma_source_is_mine(s))
		if (ack_wait(&wait, &s->changed, &lock))
			say_wait(s, call);
}

/* --- taking events back -------------------------------------------------- */

void cma_take_back(struct cma_source *s, const struct cma_group *group,
		   struct list *unread)
{
	pthread_mutex_lock(&lock);
	unlink_events(s, group, unread);
	wait_looked_at(s);
	pthread_mutex_unlock(&lock);
}

void cma_source_stop(struct cma_source *s, struct list *unread)
{
	pthread_mutex_lock(&lock);
	s->stopped = true;
	unlink_events(s, NULL, unread);
	wait_looked_at(s);
	pthread_mutex_unlock(&lock);
}

void cma_wait_acked(struct cma_source *s)
{
	pthread_mutex_lock(&lock);
	wait_acked(s, "rdma_destroy_id");
	pthread_mutex_unlock(&lock);
}

void cma_source_move(struct cma_source *s, struct cma_channel *to)
{
	struct list mine;

	list_init(&mine);
	pthread_mutex_lock(&lock);
	unlink_events(s, NULL, &mine);
	list_for_safe(n, &mine)
	{
		list_del(n);
		list_add_tail(&to->events, n);
		add_token(to->ch.fd);
	}
	s->channel = to;
	wait_acked(s, "rdma_migrate_id");
	pthread_mutex_unlock(&lock);
}
