/* SPDX-License-Identifier: BSD-2-Clause */
/* bind.c - see bind.h. */
#include "rsocket/bind.h"

#include <errno.h>
#include <string.h>

#include "rsocket/service.h"
#include "sys/sockaddr.h"

int rsock_bind_make_id(struct rsock_stream *st)
{
	struct rdma_event_channel *ch;
	int yes = 1, rc;

	if (st->id)
		return 0;
	rc = rsock_service(&ch);
	if (rc)
		return rc;
	if (rdma_create_id(NULL, &st->id, st, RDMA_PS_TCP))
		return -errno;
	if (st->sock.reuse)
		rdma_set_option(st->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes,
				sizeof(yes));
	if (st->sock.v6only)
		rdma_set_option(st->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &yes,
				sizeof(yes));
	return 0;
}

int rsock_bind_to_service(struct rsock_stream *st)
{
	struct rdma_event_channel *ch;
	int rc = rsock_service(&ch);

	if (!rc && rdma_migrate_id(st->id, ch))
		rc = -errno;
	return rc;
}

int rsock_bind(struct rsock *rs, const struct sockaddr *addr, socklen_t len)
{
	struct rsock_stream *st = rsock_stream_of(rs);
	struct sockaddr_storage a = { 0 };
	int rc;

	(void)len; /* checked by the caller */
	if (rs->state != RSOCK_NEW)
		return -EINVAL;
	rc = rsock_bind_make_id(st);
	if (rc)
		return rc;
	memcpy(&a, addr, sockaddr_len(addr));
	if (rdma_bind_addr(st->id, (struct sockaddr *)&a))
		return -errno;
	rs->state = RSOCK_BOUND;
	st->bound = true;
	addr = rdma_get_local_addr(st->id);
	memcpy(&st->local, addr, sockaddr_len(addr));
	return 0;
}

int rsock_name(struct rsock *rs, bool peer, struct sockaddr *a, socklen_t *len)
{
	struct sockaddr_storage none = { .ss_family = (sa_family_t)rs->domain };
	struct rsock_stream *st = rsock_stream_of(rs);

	if (peer && rs->state != RSOCK_UP && !st->was_up)
		return -ENOTCONN;
	if (!st->id || rs->state == RSOCK_NEW)
		rsock_tell(rs, (struct sockaddr *)&none, a, len);
	else
		rsock_tell(rs,
			   peer ? rdma_get_peer_addr(st->id)
				: rdma_get_local_addr(st->id),
			   a, len);
	return 0;
}
