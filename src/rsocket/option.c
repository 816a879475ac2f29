/* SPDX-License-Identifier: BSD-2-Clause */
/* option.c - see option.h. */
#include "rsocket/option.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <string.h>

#include "rsocket/format.h"

static uint32_t clamp(int v, uint32_t min, uint32_t max)
{
	return v < 0 || (uint32_t)v > max ? max : (uint32_t)v < min ? min : (uint32_t)v;
}

/* --- setting ------------------------------------------------------------- */

static int set_socket(struct rsock *rs, int name, int v)
{
	switch (name) {
	case SO_SNDBUF: /* without effect once the buffer exists */
		if (!rs->sizes_fixed)
			rs->opt.sizes.sndbuf = clamp(v, 1024, RSOCK_BUFFER_MAX);
		return 0;
	case SO_RCVBUF:
		if (!rs->sizes_fixed)
			rs->opt.sizes.rcvbuf = clamp(v, 1024, RSOCK_BUFFER_MAX);
		return 0;
	case SO_REUSEADDR:
		rs->reuse = v;
		return 0;
	case SO_KEEPALIVE:
		rs->opt.keepalive = v;
		return 0;
	case SO_OOBINLINE:
		rs->oob_inline = v;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int set_tcp(struct rsock *rs, int name, int v)
{
	switch (name) {
	case TCP_NODELAY:
		rs->opt.nodelay = v;
		return 0;
	case TCP_KEEPIDLE:
		if (v < 1 || v > 32767)
			return -EINVAL;
		rs->opt.keep_idle = v;
		return 0;
	case TCP_KEEPINTVL:
		rs->opt.keep_interval = v;
		return 0;
	case TCP_KEEPCNT:
		rs->opt.keep_count = v;
		return 0;
	case TCP_MAXSEG:
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int set_rdma(struct rsock *rs, int name, int v)
{
	if (rs->sizes_fixed)
		return -EINVAL;
	switch (name) {
	case RDMA_SQSIZE:
		rs->opt.sizes.sq = (uint16_t)clamp(v, 2, RSOCK_QUEUE_MAX);
		return 0;
	case RDMA_RQSIZE:
		rs->opt.sizes.rq = (uint16_t)clamp(v, 2, RSOCK_QUEUE_MAX);
		return 0;
	case RDMA_INLINE:
		rs->opt.sizes.inline_size = clamp(v, 0, RSOCK_INLINE_MAX);
		return 0;
	case RDMA_IOMAPSIZE:
		rs->opt.sizes.iomaps =
			rs_unscale(rs_scale(clamp(v, 0, RSOCK_IOMAPS_MAX)));
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int set_v6only(struct rsock *rs, int v)
{
	if (rs->domain != AF_INET6)
		return -ENOPROTOOPT;
	if (rs->state != RSOCK_NEW)
		return -EINVAL;
	rs->v6only = v;
	return 0;
}

/* RDMA_ROUTE is refused: it is for InfiniBand, and Ethernet has routes of its own. */
int rsock_option_set(struct rsock *rs, int level, int name, const void *val,
		     socklen_t len)
{
	int v;

	if (level == SOL_RDMA && name == RDMA_ROUTE)
		return -EOPNOTSUPP;
	if (level == SOL_SOCKET && name == SO_LINGER) {
		if (len < sizeof(rs->opt.linger))
			return -EINVAL;
		memcpy(&rs->opt.linger, val, sizeof(rs->opt.linger));
		return 0;
	}
	if (!val || len < sizeof(v))
		return -EINVAL;
	memcpy(&v, val, sizeof(v));
	switch (level) {
	case SOL_SOCKET:
		return set_socket(rs, name, v);
	case IPPROTO_TCP:
		return set_tcp(rs, name, v);
	case IPPROTO_IPV6:
		return name == IPV6_V6ONLY ? set_v6only(rs, v) : -ENOPROTOOPT;
	case SOL_RDMA:
		return set_rdma(rs, name, v);
	default:
		return -ENOPROTOOPT;
	}
}

/* --- getting ------------------------------------------------------------- */

static int get_socket(struct rsock *rs, int name, int *v)
{
	switch (name) {
	case SO_SNDBUF: /* twice the size that was set, as in Linux */
		*v = (int)rs->opt.sizes.sndbuf * 2;
		return 0;
	case SO_RCVBUF:
		*v = (int)rs->opt.sizes.rcvbuf * 2;
		return 0;
	case SO_REUSEADDR:
		*v = rs->reuse;
		return 0;
	case SO_KEEPALIVE:
		*v = rs->opt.keepalive;
		return 0;
	case SO_OOBINLINE:
		*v = rs->oob_inline;
		return 0;
	case SO_TYPE:
		*v = rs->type;
		return 0;
	case SO_ACCEPTCONN:
		*v = rs->state == RSOCK_LISTENING;
		return 0;
	case SO_DOMAIN:
		*v = rs->domain;
		return 0;
	case SO_ERROR:
		*v = rs->err;
		rs->err = 0;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int get_tcp(const struct rsock *rs, int name, int *v)
{
	switch (name) {
	case TCP_NODELAY:
		*v = rs->opt.nodelay;
		return 0;
	case TCP_KEEPIDLE:
		*v = rs->opt.keep_idle ? rs->opt.keep_idle : RSOCK_KEEP_IDLE;
		return 0;
	case TCP_KEEPINTVL:
		*v = rs->opt.keep_interval ? rs->opt.keep_interval : 75;
		return 0;
	case TCP_KEEPCNT:
		*v = rs->opt.keep_count ? rs->opt.keep_count : 9;
		return 0;
	case TCP_MAXSEG: /* the largest path MTU */
		*v = 4096;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int get_rdma(const struct rsock *rs, int name, int *v)
{
	switch (name) {
	case RDMA_SQSIZE:
		*v = rs->opt.sizes.sq;
		return 0;
	case RDMA_RQSIZE:
		*v = rs->opt.sizes.rq;
		return 0;
	case RDMA_INLINE:
		*v = (int)rs->opt.sizes.inline_size;
		return 0;
	case RDMA_IOMAPSIZE:
		*v = (int)rs->opt.sizes.iomaps;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

int rsock_option_get(struct rsock *rs, int level, int name, void *val, socklen_t *len)
{
	int v = 0, rc;

	if (level == SOL_SOCKET && name == SO_LINGER) {
		if (*len < sizeof(rs->opt.linger))
			return -EINVAL;
		memcpy(val, &rs->opt.linger, sizeof(rs->opt.linger));
		*len = sizeof(rs->opt.linger);
		return 0;
	}
	if (*len < sizeof(v))
		return -EINVAL;
	if (level == SOL_SOCKET)
		rc = get_socket(rs, name, &v);
	else if (level == IPPROTO_TCP)
		rc = get_tcp(rs, name, &v);
	else if (level == SOL_RDMA)
		rc = get_rdma(rs, name, &v);
	else if (level == IPPROTO_IPV6 && name == IPV6_V6ONLY)
		rc = (v = rs->v6only, 0);
	else
		rc = -ENOPROTOOPT;
	if (rc)
		return rc;
	memcpy(val, &v, sizeof(v));
	*len = sizeof(v);
	return 0;
}
