/* SPDX-License-Identifier: BSD-2-Clause */
/* rsocket_opt.c - options, and fcntl. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "abi/rsocket.h"

enum { BUFFER_MAX = 1 << 28, QUEUE_MAX = 8192, INLINE_MAX = 256, IOMAPS_MAX = 0x7f00 };

static bool has_buffers(const struct rsock *rs)
{
	return rs->rbuf.at != NULL;
}

static uint32_t clamp(int v, uint32_t min, uint32_t max)
{
	return v < 0 || (uint32_t)v > max ? max : (uint32_t)v < min ? min : (uint32_t)v;
}

/* --- setting ---------------------------------------------------------------------------- */

static int set_socket(struct rsock *rs, int name, int v)
{
	switch (name) {
	case SO_SNDBUF:			/* once there is one it stays as it is */
		if (!has_buffers(rs))
			rs->sndbuf = clamp(v, 1024, BUFFER_MAX);
		return 0;
	case SO_RCVBUF:
		if (!has_buffers(rs))
			rs->rcvbuf = clamp(v, 1024, BUFFER_MAX);
		return 0;
	case SO_REUSEADDR:
		rs->reuse = v;
		if (rs->id)
			rdma_set_option(rs->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR,
					&v, sizeof(v));
		return 0;
	case SO_KEEPALIVE:
		rs->keepalive = v;
		rs->kept = rsock_now();
		if (v)
			rsock_keep_alive();
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
		rs->nodelay = v;
		return 0;
	case TCP_KEEPIDLE:
		if (v < 1 || v > 32767)
			return -EINVAL;
		rs->keep_idle = v;
		return 0;
	case TCP_KEEPINTVL:
		rs->keep_interval = v;
		return 0;
	case TCP_KEEPCNT:
		rs->keep_count = v;
		return 0;
	case TCP_MAXSEG:
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

static int set_rdma(struct rsock *rs, int name, int v)
{
	if (has_buffers(rs))
		return -EINVAL;
	switch (name) {
	case RDMA_SQSIZE:
		rs->sq_size = (uint16_t)clamp(v, 2, QUEUE_MAX);
		return 0;
	case RDMA_RQSIZE:
		rs->rq_size = (uint16_t)clamp(v, 2, QUEUE_MAX);
		return 0;
	case RDMA_INLINE:
		rs->inline_size = clamp(v, 0, INLINE_MAX);
		return 0;
	case RDMA_IOMAPSIZE:
		rs->iomaps = rs_unscale(rs_scale(clamp(v, 0, IOMAPS_MAX)));
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

/* A route is InfiniBand's: Ethernet has its own. */
static int set_option(struct rsock *rs, int level, int name, const void *val,
		      socklen_t len)
{
	int v;

	if (level == SOL_RDMA && name == RDMA_ROUTE)
		return -EOPNOTSUPP;
	if (level == SOL_SOCKET && name == SO_LINGER) {
		if (len < sizeof(rs->linger))
			return -EINVAL;
		memcpy(&rs->linger, val, sizeof(rs->linger));
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

EXPORT int rsetsockopt(int socket, int level, int optname, const void *optval,
		       socklen_t optlen)
{
	struct rsock *rs = rsock_get(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = set_option(rs, level, optname, optval, optlen);
	/* Broadcast, TTL and the like are the UDP socket's. */
	if (!rsock_is_stream(rs) && level != SOL_RDMA && (!rc || rc == -ENOPROTOOPT))
		rc = rsock_dgram_option(rs, level, optname, optval, optlen);
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	return cma_result(rc);
}

/* --- getting ----------------------------------------------------------------------------- */

static int get_socket(struct rsock *rs, int name, int *v)
{
	switch (name) {
	case SO_SNDBUF:			/* as much as Linux says: twice */
		*v = (int)rs->sndbuf * 2;
		return 0;
	case SO_RCVBUF:
		*v = (int)rs->rcvbuf * 2;
		return 0;
	case SO_REUSEADDR:
		*v = rs->reuse;
		return 0;
	case SO_KEEPALIVE:
		*v = rs->keepalive;
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
		rsock_progress(rs);
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
		*v = rs->nodelay;
		return 0;
	case TCP_KEEPIDLE:
		*v = rs->keep_idle ? rs->keep_idle : RSOCK_KEEP_IDLE;
		return 0;
	case TCP_KEEPINTVL:
		*v = rs->keep_interval ? rs->keep_interval : 75;
		return 0;
	case TCP_KEEPCNT:
		*v = rs->keep_count ? rs->keep_count : 9;
		return 0;
	case TCP_MAXSEG:		/* a path MTU, at most */
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
		*v = rs->sq_size;
		return 0;
	case RDMA_RQSIZE:
		*v = rs->rq_size;
		return 0;
	case RDMA_INLINE:
		*v = (int)rs->inline_size;
		return 0;
	case RDMA_IOMAPSIZE:
		*v = (int)rs->iomaps;
		return 0;
	default:
		return -ENOPROTOOPT;
	}
}

/* What there is of it: programs want to know whether a connection stands. */
static int get_tcp_info(struct rsock *rs, void *val, socklen_t *len)
{
	struct tcp_info info = {
		.tcpi_state = TCP_CLOSE, .tcpi_snd_mss = 4096, .tcpi_rcv_mss = 4096,
		.tcpi_rcv_space = rs->rcvbuf * 2,
	};

	rsock_progress(rs);
	if (rs->state == RSOCK_LISTENING)
		info.tcpi_state = TCP_LISTEN;
	else if (rs->state == RSOCK_CONNECTING)
		info.tcpi_state = TCP_SYN_SENT;
	else if (rs->state == RSOCK_UP && !(rs->read_end && rs->write_end))
		info.tcpi_state = rs->read_end ? TCP_CLOSE_WAIT :
				  rs->write_end ? TCP_FIN_WAIT2 : TCP_ESTABLISHED;
	if (*len > sizeof(info))
		*len = sizeof(info);
	memcpy(val, &info, *len);
	return 0;
}

static int get_option(struct rsock *rs, int level, int name, void *val, socklen_t *len)
{
	int v = 0, rc;

	if (level == IPPROTO_TCP && name == TCP_INFO && rsock_is_stream(rs))
		return get_tcp_info(rs, val, len);

	if (level == SOL_SOCKET && name == SO_LINGER) {
		if (*len < sizeof(rs->linger))
			return -EINVAL;
		memcpy(val, &rs->linger, sizeof(rs->linger));
		*len = sizeof(rs->linger);
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

EXPORT int rgetsockopt(int socket, int level, int optname, void *optval,
		       socklen_t *optlen)
{
	struct rsock *rs = rsock_get(socket);
	int rc;

	if (!rs)
		return -1;
	pthread_mutex_lock(&rs->lock);
	rc = optval && optlen ? get_option(rs, level, optname, optval, optlen) : -EFAULT;
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	return cma_result(rc);
}

/* --- fcntl ---------------------------------------------------------------------------------- */

EXPORT int rfcntl(int socket, int cmd, ...)
{
	struct rsock *rs = rsock_get(socket);
	va_list args;
	int rc, arg = 0;

	if (!rs)
		return -1;
	va_start(args, cmd);
	if (cmd == F_SETFL || cmd == F_SETFD)
		arg = va_arg(args, int);
	va_end(args);
	pthread_mutex_lock(&rs->lock);
	switch (cmd) {
	case F_GETFL:
		rc = O_RDWR | (rs->nonblock ? O_NONBLOCK : 0);
		break;
	case F_SETFL:
		rs->nonblock = arg & O_NONBLOCK;
		rc = 0;
		break;
	case F_GETFD: case F_SETFD:	/* the number's own */
		rc = fcntl(rs->fd, cmd, arg);
		if (rc < 0)
			rc = -errno;
		break;
	default:
		rc = -EINVAL;
	}
	pthread_mutex_unlock(&rs->lock);
	rsock_put(rs);
	return cma_result(rc);
}
