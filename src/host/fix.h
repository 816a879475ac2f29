/* SPDX-License-Identifier: BSD-2-Clause */
/* fix.h - for tests: several processes of one host, as seen by host/, within one
 * process. */
#ifndef HOST_FIX_H
#define HOST_FIX_H

#include <dirent.h>
#include <poll.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "host/host.h"
#include "host/msg.h"
#include "net/ip_addr.h"
#include "sys/netns_testing.h"

static bool have_netns;

static inline void need_netns(void)
{
	if (!have_netns)
		skip();
}

static inline unsigned open_fds(void)
{
	DIR *dir = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(dir))
		n++;
	closedir(dir);
	return n;
}

/* In a child: reports by a pipe that it is ready, and waits to be killed. */
static inline _Noreturn void stay_ready(const int ready[2])
{
	(void)!write(ready[1], "", 1);
	for (;;)
		pause();
}

static inline void wait_ready(const int ready[2])
{
	char byte;

	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
}

/* a process, as far as host/ goes */
struct side {
	struct host *host;
	unsigned got, gone;
	uint16_t gone_slot;
	struct dgram last;
	uint8_t data[8192];
};

static inline void on_datagram(void *arg, const struct dgram *d)
{
	struct side *s = arg;

	s->got++;
	s->last = *d;
	memcpy(s->data, d->iov[0].iov_base,
	       d->len < sizeof(s->data) ? d->len : sizeof(s->data));
}

static inline void on_gone(void *arg, uint16_t slot)
{
	struct side *s = arg;

	s->gone++;
	s->gone_slot = slot;
}

static const struct host_ops ops = { .datagram = on_datagram, .gone = on_gone };

static inline void begin(struct side *s)
{
	memset(s, 0, sizeof(*s));
	assert_int_equal(host_open(&s->host, &ops, s), 0);
}

/* Messages as they are sent. */
struct sent_hello {
	struct msg_head head;
	struct msg_hello body;
};

struct sent_dgram {
	struct msg_head head;
	struct msg_dgram body;
};

static inline void put_proved(struct sent_hello *m, uint16_t slot,
			      const struct msg_proof *proof)
{
	m->head = msg_head(&host_table, HOST_HELLO);
	msg_put_hello(&m->body, slot, proof);
}

/* Builds the greeting of a process without proof. */
static inline void put_hello(struct sent_hello *m, uint16_t slot)
{
	put_proved(m, slot, &(struct msg_proof){ { 0 } });
}

static inline void run(struct side *s)
{
	struct pollfd p = { .fd = host_fd(s->host), .events = POLLIN };

	for (int i = 0; i < 1000 && poll(&p, 1, 0) > 0; i++)
		host_run(s->host);
}

/* Sleeps until there is something to do, and does it. */
static inline void run_next(struct side *s)
{
	poll(&(struct pollfd){ .fd = host_fd(s->host), .events = POLLIN }, 1, -1);
	host_run(s->host);
}

/* Runs until the n-th datagram has come. */
static inline void run_until(struct side *s, unsigned n)
{
	while (s->got < n)
		run_next(s);
}

static inline int forward(struct side *from, uint16_t slot, const char *text)
{
	struct iovec iov[2] = { { (void *)(uintptr_t)text, 2 },
				{ (void *)(uintptr_t)(text + 2), strlen(text) - 2 } };
	struct dgram d = {
		.ip_id = 12, .len = (uint32_t)strlen(text), .iovcnt = 2, .iov = iov
	};

	*ip_of(&d) = (struct ip_addr){
		.from = { .ip = { [15] = 1 }, .port = 49999 },
		.to = { .ip = { [15] = 2 }, .port = 4791 },
		.ifindex = 3,
		.tclass = 5,
		.ttl = 60,
	};
	return host_forward(from->host, slot, &d);
}

/* Makes room for many descriptors and for names, which belong to the network namespace.
 * If possible uses a namespace of its own, where no other process interferes. */
static inline void enter(void)
{
	struct rlimit lim;

	getrlimit(RLIMIT_NOFILE, &lim);
	lim.rlim_cur = lim.rlim_max < 8192 ? lim.rlim_max : 8192;
	setrlimit(RLIMIT_NOFILE, &lim);
	have_netns = netns_enter();
	(void)!unshare(CLONE_NEWNET);
}

#endif
