/* SPDX-License-Identifier: BSD-2-Clause */
/* Servers and clients as threads of one process, each with its own channel. Port 0: any
 * free ports. */
#include <arpa/inet.h>
#include <pthread.h>

#include "cm.h"

enum { PAIRS = 4, CYCLES = 100 };

struct side {
	const char *ip;
	unsigned port;
	struct rdma_cm_id *listener;
};

static void *serve(void *arg)
{
	const struct side *s = arg;

	cycles_accept(s->listener, CYCLES);
	return NULL;
}

static void *ask(void *arg)
{
	const struct side *s = arg;

	MUST(cycles_ask(s->ip, s->port, CYCLES) == 0);
	return NULL;
}

int threads(const char *ip, unsigned port)
{
	pthread_t server[PAIRS], client[PAIRS];
	struct side side[PAIRS];

	for (unsigned i = 0; i < PAIRS; i++) {
		struct rdma_cm_id *l =
			cm_listener(cm_channel(), ip, port ? port + i : 0, 16);

		side[i] = (struct side){ ip, ntohs(rdma_get_src_port(l)), l };
	}
	for (unsigned i = 0; i < PAIRS; i++) {
		MUST(pthread_create(&server[i], NULL, serve, &side[i]) == 0);
		MUST(pthread_create(&client[i], NULL, ask, &side[i]) == 0);
	}
	for (unsigned i = 0; i < PAIRS; i++) {
		MUST(pthread_join(client[i], NULL) == 0);
		MUST(pthread_join(server[i], NULL) == 0);
	}
	return 0;
}
