/* SPDX-License-Identifier: BSD-2-Clause */
/* os_fix.c - time and sleeping of fix.h, and the calls that tests make. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "rsocket/fix.h"
#include "rsocket/os.h"
#include "rsocket/rsocket.h"
#include "rsocket/service_thread.h"
#include "rsocket/streamep.h"

struct fix fix;

/* --- time ---------------------------------------------------------------- */

/* Each look at the clock takes some time, so that a loop that polls for a time ends. */
uint64_t rsock_now(void)
{
	return fix.now += 100;
}

static int look(struct pollfd *fds, nfds_t n)
{
	int some = poll(fds, n, 0);

	return some < 0 ? -errno : some;
}

void fix_service(void)
{
	static bool inside;

	if (!fix.thread || inside)
		return;
	inside = true;
	for (int i = 0; i < 16; i++)
		assert_int_equal(rsock_service_turn(0), 0);
	inside = false;
}

/* What happens while a call sleeps: everything on its way arrives, and the service thread
 * runs; then comes what the test has planned; then time passes. */
int rsock_sleep(struct pollfd *fds, nfds_t n, int64_t ns)
{
	uint64_t end = fix.now + (ns > 0 ? (uint64_t)ns : 0);
	int some = look(fds, n);

	if (some || !ns)
		return some;
	for (fix.slept++;;) {
		if (!fix.hold)
			fix_deliver();
		if (!fix.thread_stopped)
			fix_service();
		some = look(fds, n);
		if (some)
			return some;
		if (fix.nasleep) {
			void (*call)(void) = fix.asleep[0];

			fix.nasleep--;
			memmove(fix.asleep, fix.asleep + 1,
				fix.nasleep * sizeof(fix.asleep[0]));
			call();
			continue;
		}
		assert_true(ns >= 0); /* otherwise it would sleep for ever */
		if (fix.now >= end)
			return 0;
		/* Steps of 1 ms, as the service thread has its own times. */
		fix.now = end - fix.now > RSOCK_MS ? fix.now + RSOCK_MS : end;
	}
}

int rsock_thread(void *(*run)(void *), void *arg)
{
	(void)run;
	(void)arg;
	if (!fix_may_make())
		return -ENOMEM;
	fix.thread = true;
	return 0;
}

/* --- beginning ----------------------------------------------------------- */

bool fix_may_make(void)
{
	fix.made++;
	if (fix.making)
		fix.making();
	if (!fix.fail || --fix.fail)
		return true;
	errno = ENOMEM;
	return false;
}

void fix_fail(unsigned n)
{
	fix.fail = n;
}

/* The service thread's channel stays for the next test, as it does in a process. */
int fix_begin(void **state)
{
	bool thread = fix.thread;

	(void)state;
	fix = (struct fix){ .now = 1000 * RSOCK_S, .thread = thread };
	fix_verbs_begin();
	return 0;
}

int fix_end(void **state)
{
	(void)state;
	fix.hold = fix.deaf = fix.thread_stopped = false;
	fix_service();
	assert_int_equal(fix.qps, 0);
	assert_int_equal(fix.cqs, 0);
	assert_int_equal(fix.channels, 0);
	assert_int_equal(fix.mrs, 0);
	assert_int_equal(fix.ahs, 0);
	assert_int_equal(fix.ids, 0);
	return 0;
}

/* --- calls of rsocket.h -------------------------------------------------- */

struct sockaddr_in fix_addr(uint8_t host, uint16_t port)
{
	return (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(0x7f000000u | host),
	};
}

int fix_listen(struct sockaddr_in *a, int backlog)
{
	int fd = rsocket_open(AF_INET, SOCK_STREAM, 0);
	socklen_t len = sizeof(*a);

	assert_true(fd >= 0);
	*a = fix_addr(1, 0);
	assert_int_equal(rsocket_bind(fd, (struct sockaddr *)a, sizeof(*a)), 0);
	assert_int_equal(rsocket_listen(fd, backlog), 0);
	assert_int_equal(rsocket_name(fd, false, (struct sockaddr *)a, &len), 0);
	return fd;
}

void fix_pair(int ends[2])
{
	struct sockaddr_in a;
	int listener = fix_listen(&a, 1);

	ends[0] = rsocket_open(AF_INET, SOCK_STREAM, 0);
	assert_true(ends[0] >= 0);
	assert_int_equal(rsocket_connect(ends[0], (struct sockaddr *)&a, sizeof(a)), 0);
	ends[1] = rsocket_accept(listener, NULL, NULL);
	assert_true(ends[1] >= 0);
	assert_int_equal(rsocket_close(listener), 0);
}

ssize_t fix_send(int fd, const void *buf, size_t len, int flags)
{
	const struct iovec iov = { (void *)(uintptr_t)buf, len };

	return rsocket_send(fd, &iov, 1, flags, NULL, 0);
}

ssize_t fix_receive(int fd, void *buf, size_t len, int flags)
{
	const struct iovec iov = { buf, len };

	return rsocket_receive(fd, &iov, 1, &flags, NULL, NULL);
}

int fix_nonblock(int fd, bool on)
{
	return rsocket_fcntl(fd, F_SETFL, on ? O_NONBLOCK : 0);
}

short fix_poll(int fd, short events)
{
	struct pollfd p = { .fd = fd, .events = events };

	assert_true(rsocket_poll(&p, 1, 0) >= 0);
	return p.revents;
}

struct rsock *fix_sock(int fd)
{
	struct rsock_entry *e = rsock_entry_find(fd);

	assert_non_null(e);
	rsock_entry_put(e);
	return rsock_of(e);
}

struct rsock_stream *fix_stream(int fd)
{
	return rsock_stream_of(fix_sock(fd));
}

void fix_when_asleep(void (*call)(void))
{
	assert_true(fix.nasleep < sizeof(fix.asleep) / sizeof(fix.asleep[0]));
	fix.asleep[fix.nasleep++] = call;
}
