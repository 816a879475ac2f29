/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_svc.c - the service thread: it reads the events of all sockets' ids, as
 * that is when QPs follow, and accepts for those that listen. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "abi/rsocket.h"
#include "sys/fd.h"

#define EXIT_NS 10000000000u

enum { WAITING_MAX = 1024, CLOSING_MS = 5 };

pthread_mutex_t accept_lock = PTHREAD_MUTEX_INITIALIZER;

/* --- listeners -------------------------------------------------------------------------- */

/* accept_lock held. */
static void ready(struct rsock *child)
{
	list_del(&child->node);
	list_add_tail(&child->listener->ready, &child->node);
	child->settled = true;
	rsock_wake(child->listener);
}

/* A child that nobody has yet goes to those that can be had, or, if it has come
 * to nothing, away: true, its last count is the caller's to put. */
static bool settle(struct rsock *rs, bool up)
{
	struct rsock *listener, *more = NULL;

	pthread_mutex_lock(&accept_lock);
	listener = rs->listener;
	if (!listener || rs->settled) {
		pthread_mutex_unlock(&accept_lock);
		return false;
	}
	if (up) {
		ready(rs);
	} else {
		list_del(&rs->node);
		rs->listener = NULL;
		more = rsock_hold(listener) ? listener : NULL;
	}
	pthread_mutex_unlock(&accept_lock);
	if (more) {
		rsock_accept_more(more);
		rsock_put(more);
	}
	return !up;
}

static int accept_now(struct rsock *child)
{
	struct rdma_conn_param param;
	uint8_t data[RS_CONN_SIZE];
	int rc;

	if (child->state != RSOCK_WAITING)	/* the client has given up */
		return -ECONNABORTED;
	rc = rsock_ep_create(child);
	if (rc) {
		rdma_reject(child->id, NULL, 0);
		return rc;
	}
	rs_start(&child->s, &child->peer);
	child->state = RSOCK_CONNECTING;
	rsock_format(child, &param, data);
	return rdma_accept(child->id, &param);
}

static int count(const struct list *l)
{
	int n = 0;

	list_for(at, l)
		n++;
	return n;
}

/* Counted; NULL: nobody waits, or may be accepted. */
static struct rsock *next_to_accept(struct rsock *rs)
{
	struct rsock *child = NULL;

	pthread_mutex_lock(&accept_lock);
	if (!list_empty(&rs->waiting) &&
	    count(&rs->ready) + count(&rs->accepting) < rs->backlog) {
		child = container_of(rs->waiting.next, struct rsock, node);
		atomic_fetch_add(&child->refs, 1);
		list_del(&child->node);
		list_add_tail(&rs->accepting, &child->node);
	}
	pthread_mutex_unlock(&accept_lock);
	return child;
}

/* Under no lock of ours but perhaps the listener's: verbs are called. */
void rsock_accept_more(struct rsock *rs)
{
	struct rsock *child;
	int rc;

	while ((child = next_to_accept(rs))) {
		pthread_mutex_lock(&child->lock);
		rc = accept_now(child);
		if (rc)
			rsock_fail(child, ECONNABORTED);
		pthread_mutex_unlock(&child->lock);
		if (rc && settle(child, false))
			rsock_put(child);
		rsock_put(child);
	}
}

/* It costs little until it is accepted: no QP, no buffers. */
static struct rsock *make_child(struct rsock *listener, struct rdma_cm_event *ev)
{
	const struct rdma_conn_param *p = &ev->param.conn;
	struct rs_conn peer;
	struct rsock *rs;

	if (!rs_conn_parse(p->private_data, p->private_data_len, &peer) ||
	    rsock_new(listener->domain, SOCK_STREAM, &rs))
		return NULL;
	pthread_mutex_lock(&listener->lock);
	rs->rcvbuf = listener->rcvbuf;
	rs->sndbuf = listener->sndbuf;
	rs->sq_size = listener->sq_size;
	rs->rq_size = listener->rq_size;
	rs->inline_size = listener->inline_size;
	rs->iomaps = listener->iomaps;
	rs->nodelay = listener->nodelay;
	rs->linger = listener->linger;
	rs->keepalive = listener->keepalive;
	rs->keep_idle = listener->keep_idle;
	rs->keep_interval = listener->keep_interval;
	rs->keep_count = listener->keep_count;
	pthread_mutex_unlock(&listener->lock);
	rs->id = ev->id;
	rs->id->context = rs;
	rs->passive = true;
	rs->peer = peer;
	rs->state = RSOCK_WAITING;
	return rs;
}

/* True: ev->id is to be destroyed. */
static bool on_request(struct rdma_cm_event *ev)
{
	struct rsock *listener = ev->listen_id->context, *rs = NULL;
	bool room;

	pthread_mutex_lock(&accept_lock);
	room = count(&listener->waiting) < WAITING_MAX;
	pthread_mutex_unlock(&accept_lock);
	if (room)
		rs = make_child(listener, ev);
	if (!rs) {
		rdma_reject(ev->id, NULL, 0);
		return true;
	}
	pthread_mutex_lock(&accept_lock);
	rs->listener = listener;
	list_add_tail(&listener->waiting, &rs->node);
	pthread_mutex_unlock(&accept_lock);
	rsock_accept_more(listener);
	return false;
}

/* --- connections -------------------------------------------------------------------------- */

static int error_of(const struct rdma_cm_event *ev)
{
	switch ((int)ev->event) {
	case RDMA_CM_EVENT_REJECTED:
		return ECONNREFUSED;
	case RDMA_CM_EVENT_UNREACHABLE:
		return ev->status == -ENETUNREACH ? ENETUNREACH : ETIMEDOUT;
	default:
		return ev->status < 0 ? -ev->status : ECONNRESET;
	}
}

static void on_established(struct rsock *rs, const struct rdma_cm_event *ev)
{
	const struct rdma_conn_param *p = &ev->param.conn;
	struct rs_conn peer;

	if (rs->state != RSOCK_CONNECTING)
		return;
	if (rs->passive) {			/* on_request() has parsed it */
		rs->state = RSOCK_UP;
	} else if (rs_conn_parse(p->private_data, p->private_data_len, &peer)) {
		rs_start(&rs->s, &peer);
		rs->state = RSOCK_UP;
	} else {
		rsock_fail(rs, ECONNREFUSED);
	}
	rs->was_up = rs->state == RSOCK_UP;
	rsock_progress(rs);			/* publishes the second half */
	rsock_wake(rs);
}

/* What it has sent is here already. */
static void on_end(struct rsock *rs, int err)
{
	rsock_progress(rs);
	rsock_fail(rs, err);
}

/* True: rs is to be put, when the event is acknowledged. */
static bool on_event(struct rsock *rs, const struct rdma_cm_event *ev)
{
	bool up;

	pthread_mutex_lock(&rs->lock);
	switch ((int)ev->event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		on_established(rs, ev);
		break;
	case RDMA_CM_EVENT_REJECTED: case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_CONNECT_ERROR: case RDMA_CM_EVENT_DISCONNECTED:
		on_end(rs, error_of(ev));
		break;
	default:
		pthread_mutex_unlock(&rs->lock);
		return false;
	}
	up = rs->was_up;
	pthread_mutex_unlock(&rs->lock);
	return settle(rs, up);
}

/* --- the thread ---------------------------------------------------------------------------- */

static pthread_mutex_t start_lock = PTHREAD_MUTEX_INITIALIZER;
static struct rdma_event_channel *channel;		/* under start_lock */
static int kick = -1;					/* an eventfd: look at keeping */
static atomic_bool keeping;

/* A WRITE of nothing in keep_idle seconds: where nobody answers the QP fails. */
static void keep(struct rsock *rs)
{
	uint64_t idle = (uint64_t)(rs->keep_idle ? rs->keep_idle : RSOCK_KEEP_IDLE);
	struct rs_write w;

	if (!rsock_is_stream(rs) || pthread_mutex_trylock(&rs->lock))
		return;				/* it is in use */
	rsock_progress(rs);
	if (rs->keepalive && rs->state == RSOCK_UP && !rs->said_bye && !rs->peer_gone &&
	    rsock_now() - rs->kept >= idle * 1000000000u && rs_may_control(&rs->s)) {
		rs->kept = rsock_now();
		rs_send_keepalive(&rs->s, &w);
		(void)rsock_post(rs, &w, NULL);
	}
	pthread_mutex_unlock(&rs->lock);
}

/* start_lock held. */
static void wake_thread(void)
{
	static const uint64_t one = 1;

	while (kick >= 0 && write(kick, &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

void rsock_keep_alive(void)
{
	if (atomic_exchange(&keeping, true))
		return;
	pthread_mutex_lock(&start_lock);
	wake_thread();
	pthread_mutex_unlock(&start_lock);
}

/* --- those that are closed, but not all they have sent is acknowledged --------------------- */

static struct list closing = { &closing, &closing };	/* under start_lock */
static atomic_uint nclosing;

void rsock_close_later(struct rsock *rs)
{
	pthread_mutex_lock(&start_lock);
	list_add_tail(&closing, &rs->node);
	atomic_fetch_add(&nclosing, 1);
	wake_thread();
	pthread_mutex_unlock(&start_lock);
}

static bool is_over(struct rsock *rs)
{
	bool over;

	pthread_mutex_lock(&rs->lock);
	rsock_progress(rs);
	over = rsock_is_over(rs) || rsock_now() >= rs->close_end;
	pthread_mutex_unlock(&rs->lock);
	return over;
}

static void close_some(void)
{
	struct list mine;

	list_init(&mine);
	pthread_mutex_lock(&start_lock);
	list_for_safe(n, &closing) {
		list_del(n);
		list_add_tail(&mine, n);
	}
	pthread_mutex_unlock(&start_lock);
	list_for_safe(n, &mine) {
		struct rsock *rs = container_of(n, struct rsock, node);

		if (!is_over(rs))
			continue;
		list_del(n);
		rsock_put(rs);
		atomic_fetch_sub(&nclosing, 1);
	}
	pthread_mutex_lock(&start_lock);
	list_for_safe(n, &mine) {
		list_del(n);
		list_add_tail(&closing, n);
	}
	pthread_mutex_unlock(&start_lock);
}

/* --- the thread's loop ---------------------------------------------------------------------- */

static void handle(struct rdma_cm_event *ev)
{
	struct rdma_cm_id *gone = NULL;
	struct rsock *put = NULL, *rs = ev->id->context;

	if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST)
		gone = on_request(ev) ? ev->id : NULL;
	else if (on_event(rs, ev))
		put = rs;
	rdma_ack_cm_event(ev);
	if (gone)
		rdma_destroy_id(gone);
	if (put)
		rsock_put(put);
}

static void *serve(void *arg)
{
	struct rdma_event_channel *ch = arg;
	struct pollfd p[2] = { { ch->fd, POLLIN, 0 }, { kick, POLLIN, 0 } };
	uint64_t tick = rsock_now();
	struct rdma_cm_event *ev;

	for (;;) {
		if (poll(p, 2, atomic_load(&nclosing) ? CLOSING_MS :
			       atomic_load(&keeping) ? 1000 : -1) < 0) {
			if (errno != EINTR)
				return NULL;
			continue;
		}
		if (p[1].revents)
			rsock_clear(kick);
		if (atomic_load(&nclosing))
			close_some();
		if (p[0].revents) {
			if (!rdma_get_cm_event(ch, &ev))
				handle(ev);
			else if (errno != EINTR && errno != EAGAIN)
				return NULL;
		}
		if (atomic_load(&keeping) && rsock_now() - tick >= 1000000000u) {
			rsock_each(keep);
			tick = rsock_now();
		}
	}
}

static int start(struct rdma_event_channel *ch)
{
	pthread_attr_t attr;
	sigset_t all, old;
	pthread_t t;
	int rc;

	sigfillset(&all);
	sigdelset(&all, SIGSEGV);
	sigdelset(&all, SIGBUS);
	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	rc = pthread_create(&t, &attr, serve, ch);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	pthread_attr_destroy(&attr);
	return -rc;
}

/* Sockets that the program leaves open at its end: what they have sent is to
 * arrive. */
static unsigned unfinished;			/* of the thread that ends the program */

static void say_bye(struct rsock *rs)
{
	if (!rsock_is_stream(rs) || pthread_mutex_trylock(&rs->lock))
		return;				/* a thread that was left has it */
	rsock_farewell(rs);
	rsock_progress(rs);
	unfinished += !rsock_is_over(rs);
	pthread_mutex_unlock(&rs->lock);
}

static void at_exit(void)
{
	uint64_t end = rsock_now() + EXIT_NS;

	do {
		unfinished = atomic_load(&nclosing);
		rsock_each(say_bye);
		if (unfinished)
			usleep(200);
	} while (unfinished && rsock_now() < end);
}

static void forking(void)
{
	pthread_mutex_lock(&start_lock);
}

static void parent(void)
{
	pthread_mutex_unlock(&start_lock);
}

/* The thread is not here, nor what the channel was for. */
static void child(void)
{
	channel = NULL;
	list_init(&closing);
	atomic_store(&nclosing, 0);
	pthread_mutex_unlock(&start_lock);
}

int rsock_service(struct rdma_event_channel **out)
{
	static bool watching;
	int rc = 0;

	pthread_mutex_lock(&start_lock);
	if (!channel) {
		struct rdma_event_channel *ch = rdma_create_event_channel();

		kick = fd_raise(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
		rc = ch && kick >= 0 ? start(ch) : -errno;
		if (!rc)
			channel = ch;
		else if (ch)
			rdma_destroy_event_channel(ch);
		if (!rc && !watching) {
			pthread_atfork(forking, parent, child);
			watching = !atexit(at_exit);
		}
	}
	*out = channel;
	pthread_mutex_unlock(&start_lock);
	return rc;
}
