/* SPDX-License-Identifier: BSD-2-Clause */
/* service_thread.c - see service_thread.h. */
#include "rsocket/service_thread.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rsocket/wait.h"
#include "sys/fd.h"
#include "sys/held.h"

/* How long exit() waits for the program's last data. */
#define EXIT_NS	   (10 * RSOCK_S)
#define CLOSING_NS (5 * RSOCK_MS) /* interval of looks at the closing sockets */

static pthread_mutex_t service_lock = PTHREAD_MUTEX_INITIALIZER;
/* The service thread's channel; made under lock. */
static struct rdma_event_channel *channel;
static int kick = -1; /* eventfd that makes the thread look anew */
static uint64_t ticked;

static atomic_bool keeping;
static struct list closing = { &closing, &closing }; /* under lock */
static atomic_uint nclosing;

static void wake_thread(void) /* lock held */
{
	if (kick >= 0)
		rsock_eventfd_set(kick);
}

void rsock_service_keep_alive(void)
{
	if (atomic_exchange(&keeping, true))
		return;
	pthread_mutex_lock(&service_lock);
	wake_thread();
	pthread_mutex_unlock(&service_lock);
}

void rsock_service_close(struct rsock *rs)
{
	pthread_mutex_lock(&service_lock);
	list_add_tail(&closing, &rs->closing);
	atomic_fetch_add(&nclosing, 1);
	wake_thread();
	pthread_mutex_unlock(&service_lock);
}

/* --- the thread's turn --------------------------------------------------- */

static void move_all(struct list *from, struct list *to)
{
	list_for_safe(n, from)
	{
		list_del(n);
		list_add_tail(to, n);
	}
}

static void look_at_closing(void)
{
	struct list mine;

	list_init(&mine);
	pthread_mutex_lock(&service_lock);
	move_all(&closing, &mine);
	pthread_mutex_unlock(&service_lock);
	list_for_safe(n, &mine)
	{
		struct rsock *rs = container_of(n, struct rsock, closing);

		if (!rs->kind->is_over(rs))
			continue;
		list_del(n);
		rsock_put(rs);
		atomic_fetch_sub(&nclosing, 1);
	}
	pthread_mutex_lock(&service_lock);
	move_all(&mine, &closing);
	pthread_mutex_unlock(&service_lock);
}

static void handle_event(struct rdma_cm_event *ev)
{
	struct rdma_cm_id *id = ev->id;
	struct rsock *rs = id->context;
	enum rsock_after after = rs->kind->event(rs, ev);

	rdma_ack_cm_event(ev);
	if (after == RSOCK_AFTER_DESTROY_ID)
		rdma_destroy_id(id);
	if (after == RSOCK_AFTER_PUT)
		rsock_put(rs);
}

static int read_event(void)
{
	struct rdma_cm_event *ev;

	if (!rdma_get_cm_event(channel, &ev))
		handle_event(ev);
	else if (errno != EINTR && errno != EAGAIN)
		return -errno;
	return 0;
}

static void tick_socket(struct rsock_entry *e)
{
	if (rsock_of(e)->kind->tick)
		rsock_of(e)->kind->tick(rsock_of(e));
}

static int64_t sleep_ns(int64_t ns)
{
	int64_t mine = atomic_load(&nclosing)  ? (int64_t)CLOSING_NS
		       : atomic_load(&keeping) ? (int64_t)RSOCK_S
					       : RSOCK_FOREVER;

	return ns < 0 ? mine : mine < 0 || ns < mine ? ns : mine;
}

int rsock_service_turn(int64_t ns)
{
	struct pollfd p[2] = { { .fd = channel->fd, .events = POLLIN },
			       { .fd = kick, .events = POLLIN } };
	int rc = rsock_sleep(p, 2, sleep_ns(ns));

	if (rc < 0)
		return rc == -EINTR ? 0 : rc;
	if (p[1].revents)
		rsock_eventfd_clear(kick);
	if (atomic_load(&nclosing))
		look_at_closing();
	rc = p[0].revents ? read_event() : 0;
	if (atomic_load(&keeping) && rsock_now() - ticked >= RSOCK_S) {
		rsock_entry_each(tick_socket);
		ticked = rsock_now();
	}
	return rc;
}

static void *serve_events(void *arg)
{
	(void)arg;
	while (!rsock_service_turn(RSOCK_FOREVER))
		;
	return NULL;
}

/* --- the program's end --------------------------------------------------- */

static unsigned unfinished; /* used by the thread that ends the program */

static void end_one(struct rsock_entry *e)
{
	const struct rsock_kind *kind = rsock_of(e)->kind;

	unfinished += kind->at_exit && kind->at_exit(rsock_of(e));
}

/* exit() waits until data of sockets that the program left open has arrived. */
static void wait_at_exit(void)
{
	uint64_t end = rsock_now() + EXIT_NS;

	do {
		unfinished = atomic_load(&nclosing);
		rsock_entry_each(end_one);
		if (unfinished)
			(void)rsock_sleep(NULL, 0, RSOCK_MS / 5);
	} while (unfinished && rsock_now() < end);
}

/* --- starting the thread ------------------------------------------------- */

static _Thread_local bool has_lock __attribute__((tls_model("initial-exec")));

static void take_service_lock(void)
{
	has_lock = held_fork(&service_lock);
}

static void give_service_lock(void)
{
	if (has_lock)
		pthread_mutex_unlock(&service_lock);
}

void rsock_service_forked(void)
{
	channel = NULL;
	kick = -1;
	list_init(&closing);
	atomic_store(&nclosing, 0);
	pthread_mutex_init(&service_lock, NULL);
}

/* Opening the channel has registered the NIC's fork handlers, so ours, registered later,
 * run before them. That is the right order, as devices are opened with our lock held. A
 * fork that comes while the channel is opened does not wait for our lock; its child makes
 * everything anew all the same (rsock_service_forked()). */
static void watch_fork_and_exit(void)
{
	static bool watching;

	if (watching)
		return;
	watching = true;
	(void)pthread_atfork(take_service_lock, give_service_lock, NULL);
	(void)atexit(wait_at_exit);
}

static int start_service(void) /* lock held */
{
	int rc;

	channel = rdma_create_event_channel();
	if (!channel)
		return -errno;
	kick = fd_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
	ticked = rsock_now();
	rc = kick < 0 ? -errno : rsock_thread(serve_events, NULL);
	if (!rc) {
		watch_fork_and_exit();
		return 0;
	}
	if (kick >= 0)
		close(kick);
	kick = -1;
	rdma_destroy_event_channel(channel);
	channel = NULL;
	return rc;
}

int rsock_service(struct rdma_event_channel **out)
{
	int rc = 0;

	pthread_mutex_lock(&service_lock);
	if (!channel)
		rc = start_service();
	*out = channel;
	pthread_mutex_unlock(&service_lock);
	return rc;
}
