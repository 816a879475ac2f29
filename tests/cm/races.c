/* SPDX-License-Identifier: BSD-2-Clause */
/* Ids and multicast groups that are destroyed while other threads read their events. */
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "cm.h"

enum { READERS = 2, ROUNDS = 2000, CONTEXT = 0x5ca1ab1e };

static struct rdma_event_channel *ch;
static atomic_bool stop;
static atomic_uint joined;

static void *reader(void *arg)
{
	struct pollfd p = { .fd = ch->fd, .events = POLLIN };
	struct rdma_cm_event *ev;

	(void)arg;
	while (!atomic_load(&stop)) {
		if (poll(&p, 1, 10) != 1)
			continue;
		if (rdma_get_cm_event(ch, &ev))
			break; /* the last token: no event was left */
		if (ev->event == RDMA_CM_EVENT_MULTICAST_JOIN) {
			MUST((uintptr_t)ev->param.ud.private_data == CONTEXT);
			MUST(ev->param.ud.qkey == RDMA_UDP_QKEY);
			joined++;
		}
		MUST(rdma_ack_cm_event(ev) == 0);
	}
	return NULL;
}

/* Half of the groups are left by a call, the other half with their id, sooner or
 * later. */
static void one(const char *ip, unsigned i)
{
	struct sockaddr_storage a = cm_address(ip, 0), g = cm_address("239.1.2.3", 0);
	struct rdma_cm_id *id;

	MUST(rdma_create_id(ch, &id, NULL, RDMA_PS_UDP) == 0);
	MUST(rdma_bind_addr(id, (struct sockaddr *)&a) == 0);
	MUST(rdma_join_multicast(id, (struct sockaddr *)&g, (void *)CONTEXT) == 0);
	for (volatile unsigned k = 0; k < i % 50 * 200; k++)
		;
	if (i & 1)
		MUST(rdma_leave_multicast(id, (struct sockaddr *)&g) == 0);
	MUST(rdma_destroy_id(id) == 0);
}

int races(const char *ip)
{
	pthread_t t[READERS];

	ch = cm_channel();
	for (int i = 0; i < READERS; i++)
		MUST(pthread_create(&t[i], NULL, reader, NULL) == 0);
	for (unsigned i = 0; i < ROUNDS; i++)
		one(ip, i);
	MUST(joined > 0);
	atomic_store(&stop, true);
	/* A reader may have seen a token whose event was taken back. */
	for (int i = 0; i < READERS; i++)
		pthread_cancel(t[i]);
	for (int i = 0; i < READERS; i++)
		MUST(pthread_join(t[i], NULL) == 0);
	rdma_destroy_event_channel(ch);
	return 0;
}
