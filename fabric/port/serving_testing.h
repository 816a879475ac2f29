/* SPDX-License-Identifier: BSD-2-Clause */
/* serving_testing.h - for tests: a fabric that a thread of the test serves, under the
 * name test-PID. */
#ifndef FABRIC_PORT_SERVING_TESTING_H
#define FABRIC_PORT_SERVING_TESTING_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "fabric/port/plug.h"
#include "fabric/port/server.h"

static struct topo topo;
static struct plug_server *server;
static pthread_t thread;
static int stop;
static char name[PLUG_NAME];

static void *serve(void *arg)
{
	(void)arg;
	plug_serve(server, stop);
	return NULL;
}

/* Starts the fabric.  fn answers control requests (plug_control()), with &topo as its
 * ctx; NULL: control connections are refused. */
static inline void begin_to_serve(const char *topology, plug_answer *fn)
{
	char err[TOPO_ERR];

	snprintf(name, sizeof(name), "test-%d", getpid());
	assert_int_equal(topo_parse(&topo, "t", topology, strlen(topology), err), 0);
	topo_give_addresses(&topo, name);
	assert_int_equal(plug_server_new(&server, name, &topo), 0);
	if (fn)
		plug_server_control(server, fn, &topo);
	stop = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
}

/* A cmocka teardown: stops the thread and frees the fabric. */
static inline int end(void **state)
{
	uint64_t one = 1;

	(void)state;
	assert_int_equal(write(stop, &one, sizeof(one)), sizeof(one));
	pthread_join(thread, NULL);
	plug_server_free(server);
	topo_free(&topo);
	close(stop);
	return 0;
}

#endif
