/* SPDX-License-Identifier: BSD-2-Clause */
/* asker_fix.h - processes that ask, for tests. */
#ifndef DRIVER_ASKER_FIX_H
#define DRIVER_ASKER_FIX_H

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/asker.h"
#include "sys/netns_testing.h"
#include "sys/users_testing.h"

static void on_datagram(void *arg, const struct dgram *d)
{
	(void)arg, (void)d;
}

static void on_gone(void *arg, uint16_t slot)
{
	(void)arg, (void)slot;
}

static const struct host_ops deaf = { .datagram = on_datagram, .gone = on_gone };

/* What a process that asks expects as its answer. */
struct expected {
	uint32_t serial;
	int error;
};

static void on_answer(void *arg, struct host_said *s)
{
	const struct expected *e = arg;
	struct host_answer head;

	if (s->type == HOST_ANSWER)
		_exit(msg_get_answer(s->msg, &head) || head.serial != e->serial ||
		      head.error != e->error);
}

/* Writes its slot, and waits for an answer. Its exit status is 0 if that is as
 * expected. */
static void reader(int out, struct expected e)
{
	static const struct host_ops with = { on_datagram, on_gone, on_answer };
	struct host *host;
	uint16_t slot;

	if (host_open(&host, &with, &e))
		_exit(USERS_CANNOT);
	slot = host_slot(host);
	(void)!write(out, &slot, sizeof(slot));
	for (;;) {
		poll(&(struct pollfd){ .fd = host_fd(host), .events = POLLIN }, 1, -1);
		host_run(host);
	}
}

static pid_t start_reader(struct expected e, uint16_t *slot)
{
	int out[2];
	pid_t pid;

	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (pid == 0)
		reader(out[1], e);
	assert_int_equal(read(out[0], slot, sizeof(*slot)), sizeof(*slot));
	close(out[0]);
	close(out[1]);
	return pid;
}

static struct host *host_with(uint16_t slot)
{
	struct host *host;

	assert_int_equal(host_open(&host, &deaf, NULL), 0);
	assert_int_equal(host_connect(host, slot), 0);
	return host;
}

#endif
