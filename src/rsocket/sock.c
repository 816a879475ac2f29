/* SPDX-License-Identifier: BSD-2-Clause */
/* sock.c - see sock.h. */
#include "rsocket/sock.h"

#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "sys/sockaddr.h"

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
