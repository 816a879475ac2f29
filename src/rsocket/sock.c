/* SPDX-License-Identifier: BSD-2-Clause */
/* sock.c - see sock.h. */
#include "rsocket/sock.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "rsocket/format.h"
#include "sys/held.h"
#include "sys/sockaddr.h"

/* --- what a new socket has ----------------------------------------------- */

enum { MEM = 1 << 17, QUEUE = 384, INLINE = 64, POLLING_US = 10 };

static uint32_t from_file(const char *folder, const char *name, uint32_t value,
			  uint32_t min, uint32_t max)
{
	char path[256];
	FILE *f;
	unsigned v;

	snprintf(path, sizeof(path), "%s/%s", folder, name);
	f = fopen(path, "re");
	if (!f)
		return value;
	if (fscanf(f, "%u", &v) == 1)
		value = v < min ? min : v < max ? v : max;
	fclose(f);
	return value;
}

void rsock_defaults_read(const char *folder, struct rsock_defaults *out)
{
	*out = (struct rsock_defaults){
		.sizes = {
			.rcvbuf = from_file(folder, "mem_default", MEM, 2,
					    RSOCK_BUFFER_MAX),
			.sndbuf = from_file(folder, "wmem_default", MEM, 1,
					    RSOCK_BUFFER_MAX),
			.sq = (uint16_t)from_file(folder, "sqsize_default", QUEUE, 2,
						  RSOCK_QUEUE_MAX),
			.rq = (uint16_t)from_file(folder, "rqsize_default", QUEUE, 2,
						  RSOCK_QUEUE_MAX),
			.inline_size = from_file(folder, "inline_default", INLINE, 0,
						 RSOCK_INLINE_MAX),
			.iomaps = from_file(folder, "iomap_size", 0, 0,
					    RSOCK_IOMAPS_MAX),
		},
		.polling_us = from_file(folder, "polling_time", POLLING_US, 0, 1000000),
	};
}

static struct rsock_defaults defaults;

static void read_defaults(void)
{
	rsock_defaults_read("/etc/rdma/rsocket", &defaults);
}

const struct rsock_defaults *rsock_defaults(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, read_defaults);
	return &defaults;
}

/* --- descriptors --------------------------------------------------------- */

enum { STEP = 256 };

static pthread_mutex_t table_lock = PTHREAD_MUTEX_INITIALIZER;
/* Both under lock. A fork may come without the lock (held_fork()), and its child reads
 * them, so at each moment the table has room for size entries. */
static struct rsock_entry **_Atomic table;
static _Atomic int table_size;
static _Atomic unsigned forks;

void rsock_entry_init(struct rsock_entry *e, void (*free)(struct rsock_entry *e))
{
	e->fd = -1;
	e->free = free;
	e->forks = atomic_load(&forks);
	atomic_init(&e->refs, 1);
}

bool rsock_entry_forked(const struct rsock_entry *e)
{
	return e->forks != atomic_load(&forks);
}

/* Makes the table reach to fd. lock is held. */
static int grow_table(int fd)
{
	int wanted = (fd / STEP + 1) * STEP;
	struct rsock_entry **more, **old = table;

	if (fd < table_size)
		return 0;
	more = calloc((size_t)wanted, sizeof(*more));
	if (!more)
		return -ENOMEM;
	if (old)
		memcpy(more, old, (size_t)table_size * sizeof(*more));
	table = more;
	table_size = wanted;
	free(old);
	return 0;
}

int rsock_entry_publish(struct rsock_entry *e)
{
	int fd = eventfd(0, EFD_CLOEXEC), rc;

	if (fd < 0)
		return -errno;
	pthread_mutex_lock(&table_lock);
	rc = grow_table(fd);
	if (!rc) {
		e->fd = fd;
		table[fd] = e;
	}
	pthread_mutex_unlock(&table_lock);
	if (rc)
		close(fd);
	return rc ? rc : fd;
}

struct rsock_entry *rsock_entry_find(int fd)
{
	struct rsock_entry *e = NULL;

	pthread_mutex_lock(&table_lock);
	if (fd >= 0 && fd < table_size && table[fd]) {
		e = table[fd];
		atomic_fetch_add(&e->refs, 1);
	}
	pthread_mutex_unlock(&table_lock);
	return e;
}

struct rsock_entry *rsock_entry_withdraw(int fd)
{
	struct rsock_entry *e = NULL;

	pthread_mutex_lock(&table_lock);
	if (fd >= 0 && fd < table_size) {
		e = table[fd];
		table[fd] = NULL;
	}
	pthread_mutex_unlock(&table_lock);
	if (e) {
		e->fd = -1;
		close(fd);
	}
	return e;
}

bool rsock_entry_hold(struct rsock_entry *e)
{
	unsigned n = atomic_load(&e->refs);

	while (n && !atomic_compare_exchange_weak(&e->refs, &n, n + 1))
		;
	return n;
}

void rsock_entry_put(struct rsock_entry *e)
{
	if (atomic_fetch_sub(&e->refs, 1) == 1)
		e->free(e);
}

void rsock_entry_each(void (*call)(struct rsock_entry *e))
{
	int n;

	pthread_mutex_lock(&table_lock);
	n = table_size;
	pthread_mutex_unlock(&table_lock);
	for (int fd = 0; fd < n; fd++) {
		struct rsock_entry *e = rsock_entry_find(fd);

		if (!e)
			continue;
		if (!rsock_entry_forked(e))
			call(e);
		rsock_entry_put(e);
	}
}

bool rsock_table_lock(void)
{
	return held_fork(&table_lock);
}

void rsock_table_unlock(void)
{
	pthread_mutex_unlock(&table_lock);
}

void rsock_table_forked(void)
{
	pthread_mutex_init(&table_lock, NULL);
	atomic_fetch_add(&forks, 1);
}

/* --- sockets ------------------------------------------------------------- */

/* The lock is recursive: programs leave our calls by longjmp() out of a signal handler,
 * and then call us again as they end (iperf3). */
static void init_lock(pthread_mutex_t *lock)
{
	pthread_mutexattr_t attr;

	pthread_mutexattr_init(&attr);
	pthread_mutexattr_settype(&attr, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(lock, &attr);
	pthread_mutexattr_destroy(&attr);
}

static void free_entry(struct rsock_entry *e)
{
	rsock_of(e)->kind->free(rsock_of(e));
}

void rsock_init(struct rsock *rs, const struct rsock_kind *kind, int domain, int type)
{
	*rs = (struct rsock){
		.kind = kind,
		.domain = domain,
		.type = type,
		.sleep_fd = -1,
		.opt.sizes = rsock_defaults()->sizes,
	};
	rsock_entry_init(&rs->entry, free_entry);
	rsock_waitq_init(&rs->waitq);
	list_init(&rs->closing);
	init_lock(&rs->lock);
}

void rsock_fini(struct rsock *rs)
{
	if (!rsock_forked(rs))
		pthread_mutex_destroy(&rs->lock);
	free(rs);
}

bool rsock_fits(const struct rsock *rs, const struct sockaddr *a, socklen_t len)
{
	return a && len >= sizeof(sa_family_t) && a->sa_family == rs->domain &&
	       len >= sockaddr_len(a);
}

void rsock_tell(const struct rsock *rs, const struct sockaddr *a, struct sockaddr *out,
		socklen_t *len)
{
	struct sockaddr_in6 mapped = { .sin6_family = AF_INET6,
				       .sin6_port = htons(sockaddr_port(a)) };
	socklen_t has;

	if (!out || !len)
		return;
	if (rs->domain == AF_INET6 && a->sa_family == AF_INET) {
		sockaddr_ip(a, mapped.sin6_addr.s6_addr);
		a = (const struct sockaddr *)&mapped;
	}
	has = sockaddr_len(a);
	memcpy(out, a, *len < has ? *len : has);
	*len = has;
}

static uint32_t clamp_option(int v, uint32_t min, uint32_t max)
{
	return v < 0 || (uint32_t)v > max ? max : (uint32_t)v < min ? min : (uint32_t)v;
}

/* --- setting options ----------------------------------------------------- */

static int set_socket(struct rsock *rs, int name, int v)
{
	switch (name) {
	case SO_SNDBUF: /* without effect once the buffer exists */
		if (!rs->sizes_fixed)
			rs->opt.sizes.sndbuf = clamp_option(v, 1024, RSOCK_BUFFER_MAX);
		return 0;
	case SO_RCVBUF:
		if (!rs->sizes_fixed)
			rs->opt.sizes.rcvbuf = clamp_option(v, 1024, RSOCK_BUFFER_MAX);
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
		rs->opt.sizes.sq = (uint16_t)clamp_option(v, 2, RSOCK_QUEUE_MAX);
		return 0;
	case RDMA_RQSIZE:
		rs->opt.sizes.rq = (uint16_t)clamp_option(v, 2, RSOCK_QUEUE_MAX);
		return 0;
	case RDMA_INLINE:
		rs->opt.sizes.inline_size = clamp_option(v, 0, RSOCK_INLINE_MAX);
		return 0;
	case RDMA_IOMAPSIZE:
		rs->opt.sizes.iomaps =
			rs_unscale(rs_scale(clamp_option(v, 0, RSOCK_IOMAPS_MAX)));
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

/* --- getting options ----------------------------------------------------- */

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
