/* SPDX-License-Identifier: BSD-2-Clause */
/* Servers and clients as threads of one process, each with its own channel.  Port
 * 0: some that no other such process has. */
#include <pthread.h>
#include <unistd.h>

#include "cm.h"

enum { PAIRS = 4, CYCLES = 100 };

struct side {
	const char *ip;
	unsigned port;
};

static void *serve(void *arg)
{
	const struct side *s = arg;

	MUST(cycles_serve(s->ip, s->port, CYCLES) == 0);
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

	if (!port)
		port = 20000 + (unsigned)getpid() % 10000 * PAIRS;
	for (unsigned i = 0; i < PAIRS; i++) {
		side[i] = (struct side){ ip, port + i };
		MUST(pthread_create(&server[i], NULL, serve, &side[i]) == 0);
	}
	usleep(300000); /* all listen */
	for (unsigned i = 0; i < PAIRS; i++)
		MUST(pthread_create(&client[i], NULL, ask, &side[i]) == 0);
	for (unsigned i = 0; i < PAIRS; i++) {
		MUST(pthread_join(client[i], NULL) == 0);
		MUST(pthread_join(server[i], NULL) == 0);
	}
	return 0;
}
