/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_wait.c - when a socket is ready, and waiting until it is. */
#include <string.h>

#include "abi/rsocket.h"

enum { QUICK_US = 200 };

/* To wake a thread takes 50 us or so; then its peer, too, has gone to sleep, and
 * each message costs as much.  So who would have had an answer by looking a little
 * longer does so the next time. */
static _Thread_local bool quick = true;

uint64_t rsock_spin(void)
{
	uint64_t us = rsock_defaults()->polling_us;

	return (us && quick && us < QUICK_US ? QUICK_US : us) * 1000;
}

void rsock_slept(uint64_t ns)
{
	quick = ns < QUICK_US * 1000;
}

static bool has_child(struct rsock *rs)
{
	bool any;

	pthread_mutex_lock(&accept_lock);
	any = !list_empty(&rs->ready);
	pthread_mutex_unlock(&accept_lock);
	return any;
}

bool rsock_readable(struct rsock *rs)
{
	if (rs->state == RSOCK_LISTENING)
		return has_child(rs);
	return rs->state >= RSOCK_UP && (rs->s.unread || rs->read_end);
}

/* A write would not wait: it may fail. */
bool rsock_writable(struct rsock *rs)
{
	if (rs->state == RSOCK_DOWN || (rs->state == RSOCK_UP && rs->write_end))
		return true;
	return rs->state == RSOCK_UP && rs_room(&rs->s, SIZE_MAX);
}

static short io_events(struct rsock *rs)
{
	return (short)((rsock_readable(rs) ? POLLIN | POLLRDNORM : 0) |
		       (rsock_writable(rs) ? POLLOUT | POLLWRNORM : 0));
}

short rsock_events(struct rsock *rs, short asked)
{
	short ev = io_events(rs);

	asked &= POLLIN | POLLRDNORM | POLLOUT | POLLWRNORM;
	if (!asked || (ev & asked) != asked) {
		rsock_progress(rs);
		ev = io_events(rs);
	}
	if (rs->closed)
		return POLLNVAL;
	if (rs->state >= RSOCK_UP && rs->read_end)
		ev |= POLLRDHUP;
	/* Programs take these for the end, before they have read what came. */
	if (rs->s.unread && !rs->read_shut)
		return ev;
	if (rs->state >= RSOCK_UP && rs->read_end && rs->write_end)
		ev |= POLLHUP;
	if (rs->state == RSOCK_NEW || rs->state == RSOCK_BOUND)
		ev |= POLLOUT | POLLHUP;
	if (rs->err)
		ev |= POLLERR;
	return ev;
}

/* Sleeps once; -EINTR, or 0. */
static int sleep_once(struct rsock *rs, bool (*ready)(struct rsock *), bool for_space,
		      int ms)
{
	struct rsock_sleeper *sl;
	int rc = rsock_sleeper(1, &sl);
	struct pollfd p[2];

	if (rc)
		return rc;
	rsock_wait_begin(sl, rs);
	rsock_arm(rs, for_space);
	rsock_progress(rs);
	if (!ready(rs) && !rs->closed) {
		p[0] = (struct pollfd){ .fd = sl->efd, .events = POLLIN };
		p[1] = (struct pollfd){ .fd = rs->sleep_fd, .events = POLLIN };
		pthread_mutex_unlock(&rs->lock);
		rc = poll(p, 2, ms) < 0 ? -errno : 0;
		pthread_mutex_lock(&rs->lock);
	}
	rsock_wait_end(sl);
	rsock_take_events(rs);
	return rc;
}

static int left(uint64_t end, int ms)
{
	uint64_t now = rsock_now();

	if (ms < 0)
		return -1;
	return now >= end ? 0 : (int)((end - now + 999999) / 1000000);
}

int rsock_wait(struct rsock *rs, bool (*ready)(struct rsock *), bool nonblock,
	       bool for_space, int ms)
{
	uint64_t begin = 0, end = 0;

	for (;;) {
		uint64_t now;
		int rc;

		if (!rs->closed && !ready(rs))
			rsock_progress(rs);
		if (rs->closed)
			return -EBADF;
		if (ready(rs))
			return 0;
		if (nonblock)
			return -EAGAIN;
		now = rsock_now();
		if (!begin) {
			begin = now;
			end = now + (uint64_t)(ms > 0 ? ms : 0) * 1000000;
		}
		if (ms >= 0 && now >= end)
			return -ETIMEDOUT;
		if (now - begin < rsock_spin() && rs->state == RSOCK_UP)
			continue;
		rc = sleep_once(rs, ready, for_space, left(end, ms));
		if (rc)
			return rc;
		rsock_slept(rsock_now() - begin);
	}
}
