/* SPDX-License-Identifier: BSD-2-Clause */
/* dump_ask_test.c - which process may ask for a dump. */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cmocka.h>

#include "driver/dump.h"
#include "sys/netns_testing.h"
#include "sys/users_testing.h"
#include "verbs/core.h"

enum { NOBODY = 65534 };

static void on_datagram(void *arg, const struct dgram *d)
{
	(void)arg, (void)d;
}

static void on_gone(void *arg, uint16_t slot)
{
	(void)arg, (void)slot;
}

static const struct host_ops ops = { .datagram = on_datagram, .gone = on_gone };

/* A process that writes its slot, and becomes another user when it reads a byte. */
static void asker(int in, int out)
{
	struct host *host;
	uint16_t slot;
	char byte;

	if (host_open(&host, &ops, NULL))
		_exit(USERS_CANNOT);
	slot = host_slot(host);
	(void)!write(out, &slot, sizeof(slot));
	(void)!read(in, &byte, 1);
	users_become(NOBODY);
	(void)!write(out, "", 1);
	(void)!read(in, &byte, 1);
	_exit(0);
}

static unsigned asked(struct host *host, uint16_t slot)
{
	struct core core = { .slot = 1 };
	struct host_said said = { .slot = slot };
	struct dumper d;
	unsigned askers;

	dumper_init(&d, &core, NULL, host);
	dump_ask(&d, &said, 0);
	askers = d.askers;
	dumper_fini(&d);
	return askers;
}

/* The asking process has the user that it has now: a daemon that opened its device as
 * root and gave root up gets no dump of root's keys. */
static void who_asks_is_of_this_user_now(void **state)
{
	int in[2], out[2];
	struct host *host;
	uint16_t slot;
	char byte;
	pid_t pid;

	(void)state;
	if (geteuid() || !netns_enter()) {
		fprintf(stderr, "SKIPPED: cannot become another user\n");
		skip();
	}
	assert_int_equal(pipe(in), 0);
	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (pid == 0) {
		close(in[1]);
		asker(in[0], out[1]);
	}
	close(out[1]);
	assert_int_equal(read(out[0], &slot, sizeof(slot)), sizeof(slot));
	assert_int_equal(host_open(&host, &ops, NULL), 0);
	assert_int_equal(asked(host, slot), 1);
	assert_int_equal(write(in[1], "", 1), 1);
	assert_int_equal(read(out[0], &byte, 1), 1);
	assert_int_equal(asked(host, slot), 0);
	host_close(host);
	close(in[1]);
	assert_int_equal(users_wait(pid), 0);
}

/* Writes its slot, and waits for an answer. Its exit status is 0 if that is -EMFILE. */
static void on_text(void *arg, struct host_said *s)
{
	int error;
	size_t len;

	(void)arg;
	if (s->type == HOST_DUMP_TEXT)
		_exit(dump_read(s, &error, &len) || error != -EMFILE);
}

static void reader(int out)
{
	static const struct host_ops with = { on_datagram, on_gone, on_text };
	struct host *host;
	uint16_t slot;

	if (host_open(&host, &with, NULL))
		_exit(USERS_CANNOT);
	slot = host_slot(host);
	(void)!write(out, &slot, sizeof(slot));
	for (;;) {
		poll(&(struct pollfd){ .fd = host_fd(host), .events = POLLIN }, 1, -1);
		host_run(host);
	}
}

/* The process has no descriptor for the memory that the text is to lie in: the asker is
 * told so. */
static void there_is_no_descriptor(void **state)
{
	struct core core = { .slot = 1 };
	struct rlimit was, none;
	struct dumper d;
	struct host *host;
	uint16_t slot;
	int out[2];
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(out), 0);
	pid = fork();
	if (pid == 0)
		reader(out[1]);
	assert_int_equal(read(out[0], &slot, sizeof(slot)), sizeof(slot));
	assert_int_equal(host_open(&host, &ops, NULL), 0);
	assert_int_equal(host_connect(host, slot), 0);
	dumper_init(&d, &core, NULL, host);
	d.text.out = open_memstream(&d.memory, &d.len);
	d.text.kind = UINT_MAX; /* the text is complete */
	fputs("text", d.text.out);
	d.asker[d.askers++] = slot;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	none = (struct rlimit){ 0, was.rlim_max };
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	d.source.ops->run(&d.source, 0);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	assert_int_equal(users_wait(pid), 0);
	dumper_fini(&d);
	host_close(host);
	close(out[0]);
	close(out[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(who_asks_is_of_this_user_now),
		cmocka_unit_test(there_is_no_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
