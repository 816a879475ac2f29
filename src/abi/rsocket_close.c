/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_close.c - rshutdown() and rclose(), and what is left behind. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "abi/rsocket.h"

enum { CLOSE_MS = 10000 };

static bool can_control(struct rsock *rs)
{
	return rs->state != RSOCK_UP || rs_may_control(&rs->s);
}

static bool all_sent(struct rsock *rs)
{
	return rsock_all_sent(rs);
}

static int say(struct rsock *rs, enum rs_control what, int ms)
{
	struct rs_write w;
	int rc;

	do
		rc = rsock_wait(rs, can_control, false, true, ms);
	while (rc == -EINTR);
	if (rc || rs->state != RSOCK_UP)
		return rc;
	rs_send_control(&rs->s, what, &w);
	return rsock_post(rs, &w, NULL);
}

void rsock_bye(struct rsock *rs, int ms)
{
	if (rs->state != RSOCK_UP)
		return;
	rs->read_end = rs->write_end = true;
	rsock_wake(rs);
	if (!rs->said_bye && !rs->peer_gone && say(rs, RS_DISCONNECT, ms))
		return;
	rs->said_bye = true;
	while (rsock_wait(rs, all_sent, false, true, ms) == -EINTR)
		;
}

static int do_shutdown(struct rsock *rs, int how)
{
	bool was = rs->write_end;

	if (!rsock_is_stream(rs))
		return how >= SHUT_RD && how <= SHUT_RDWR ? 0 : -EINVAL;
	if (how != SHUT_RD && how != SHUT_WR && how != SHUT_RDWR)
		return -EINVAL;
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
		return say(rs, RS_DISCONNECT, -1);
	}
	return was ? 0 : say(rs, RS_SHUTDOWN, -1);
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

EXPORT int rclose(int socket)
{
	struct rsock *rs = rsock_withdraw(socket);
	int ms = CLOSE_MS;

	if (!rs)
		return cma_result(-EBADF);
	if (!rsock_forked(rs)) {
		pthread_mutex_lock(&rs->lock);
		if (rs->linger.l_onoff)
			ms = rs->linger.l_linger * 1000;
		if (ms)
			rsock_bye(rs, ms);
		rs->closed = true;
		rsock_wake(rs);
		pthread_mutex_unlock(&rs->lock);
	}
	rsock_put(rs);
	return 0;
}

static void free_children(struct rsock *rs)
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

/* In a child of fork only the descriptor is ours. */
void rsock_free(struct rsock *rs)
{
	struct rdma_cm_id *id = rs->id;

	if (rs->fd >= 0)
		close(rs->fd);
	if (!rsock_forked(rs)) {
		if (!rsock_is_stream(rs))
			rsock_dgram_free(rs);
		if (id && rs->state == RSOCK_WAITING)
			rdma_reject(id, NULL, 0);
		else if (id && rs->state >= RSOCK_UP)
			rdma_disconnect(id);
		pthread_mutex_lock(&rs->lock);	/* an event may be read now */
		rsock_ep_destroy(rs);
		pthread_mutex_unlock(&rs->lock);
		if (id)
			rdma_destroy_id(id);
		free_children(rs);
		pthread_mutex_destroy(&rs->lock);
	}
	free(rs);
}
