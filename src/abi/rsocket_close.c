/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_close.c - rshutdown() and rclose(), and what is left behind. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/rsocket.h"

/* As long as rclose() may take where the program did not say (SO_LINGER); the
 * service thread does the rest. */
enum { BRIEF_MS = 20, IWARP_MS = 1, LATER_MS = 10000, LINGER_MAX = 100000 };

/* What has completed is at the peer.  Not so on iWARP: TCP has it, and loses it if
 * something comes after we have closed.  So there the peer has to close, too. */
bool rsock_is_over(struct rsock *rs)
{
	if (rs->state != RSOCK_UP)
		return true;
	return !rs->due && !rs->s.data_out && !rs->s.control_out &&
	       (!rs->messages.at || rs->peer_gone);
}

void rsock_farewell(struct rsock *rs)
{
	if (rs->state != RSOCK_UP)
		return;
	rs->read_end = rs->write_end = true;
	rsock_wake(rs);
	if (rs->said_bye || rs->peer_gone)
		return;
	rs->said_bye = true;
	rsock_say(rs, RS_DISCONNECT);
}

bool rsock_bye(struct rsock *rs, int ms)
{
	uint64_t end = rsock_now() + (uint64_t)ms * 1000000, now;
	int rc;

	rsock_farewell(rs);
	do {
		now = rsock_now();
		rc = rsock_wait(rs, rsock_is_over, false, true,
				now < end ? (int)((end - now + 999999) / 1000000) : 0);
	} while (rc == -EINTR);
	return !rc;
}

static int do_shutdown(struct rsock *rs, int how)
{
	bool was = rs->write_end;

	if (!rsock_is_stream(rs))
		return how >= SHUT_RD && how <= SHUT_RDWR ? 0 : -EINVAL;
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
	if (rs->state == RSOCK_LISTENING && how != SHUT_WR) {
		rsock_stop_listening(rs);
		return 0;
	}
	if (rs->state != RSOCK_UP && !rs->was_up)
		return -ENOTCONN;
	if (how != SHUT_WR)
		rs->read_end = rs->read_shut = true;
	if (how == SHUT_RD || rs->state != RSOCK_UP)
		return 0;
	rs->write_end = true;
	rsock_wake(rs);
	if (rs->peer_gone || rs->said_bye)
		return 0;
	if (rs->read_end) {
		rs->said_bye = true;
		rsock_say(rs, RS_DISCONNECT);
	} else if (!was) {
		rsock_say(rs, RS_SHUTDOWN);
	}
	return 0;
}

EXPORT int rshutdown(int socket, int how)
{
	struct rsock *rs = rsock_get(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = do_shutdown(rs, how);
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	return cma_result(rc);
}

static int linger_ms(const struct rsock *rs)
{
	int s = rs->linger.l_linger;

	return (s < 0 || s > LINGER_MAX ? LINGER_MAX : s) * 1000;
}

/* True: something is under way yet. */
static bool do_close(struct rsock *rs)
{
	bool later = false;

	pthread_mutex_lock(&rs->lock);
	if (!rs->linger.l_onoff)
		later = rs->state == RSOCK_UP &&
			!rsock_bye(rs, rs->messages.at ? IWARP_MS : BRIEF_MS);
	else if (rs->linger.l_linger)
		(void)rsock_bye(rs, linger_ms(rs));
	rs->closed = true;
	rs->close_end = rsock_now() + LATER_MS * 1000000ull;
	rsock_wake(rs);
	pthread_mutex_unlock(&rs->lock);
	return later;
}

EXPORT int rclose(int socket)
{
	struct rsock *rs = rsock_withdraw(socket);

	if (!rs)
		return cma_result(-EBADF);
	if (rs->fd >= 0)
		close(rs->fd);
	rs->fd = -1;
	if (!rsock_forked(rs) && do_close(rs))
		rsock_close_later(rs);
	else
		rsock_put(rs);
	return 0;
}

void rsock_free_children(struct rsock *rs)
{
	struct list *const lists[] = { &rs->waiting, &rs->accepting, &rs->ready };
	struct list all;

	list_init(&all);
	pthread_mutex_lock(&accept_lock);
	for (int i = 0; i < 3; i++)
		list_for_safe(n, lists[i]) {
			container_of(n, struct rsock, node)->listener = NULL;
			list_del(n);
			list_add_tail(&all, n);
		}
	pthread_mutex_unlock(&accept_lock);
	list_for_safe(n, &all)
		rsock_put(container_of(n, struct rsock, node));
}

/* In a child of fork only the descriptors are ours. */
void rsock_free(struct rsock *rs)
{
	struct rdma_cm_id *id = rs->id;

	if (rs->fd >= 0)
		close(rs->fd);
	if (!rsock_is_stream(rs))
		rsock_dgram_free(rs);
	if (!rsock_forked(rs)) {
		if (id)		/* from here on no event moves the QP */
			cma_stop(cma_of(id));
		if (id && rs->state == RSOCK_WAITING)
			rdma_reject(id, NULL, 0);
		else if (id && rs->state >= RSOCK_UP)
			rdma_disconnect(id);
		pthread_mutex_lock(&rs->lock);	/* an event may be read now */
		rsock_ep_destroy(rs);
		pthread_mutex_unlock(&rs->lock);
		if (id)
			rdma_destroy_id(id);
		rsock_free_children(rs);
		pthread_mutex_destroy(&rs->lock);
	}
	free(rs);
}
