/* SPDX-License-Identifier: BSD-2-Clause */
/* users_test.c - a fabric and its programs in a user namespace where their user has no
 * number, so that other users look the same. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include "fabric/port/message.h"
#include "fabric/port/server.h"
#include "sys/users_testing.h"

enum { US = 5, THEM = 6, LET_IN = 0, TURNED_AWAY = 1, WENT_WRONG = 2 };

static char name[PLUG_NAME];
static int alive[2]; /* a pipe: serving processes end when its write end is closed */

static struct sockaddr_un address(socklen_t *len)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "urnic/fabric/%d/%s",
			 USERS_HIDDEN, name);

	*len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);
	return a;
}

static int end_of(int rc)
{
	return rc == 0 ? LET_IN : rc == -EACCES ? TURNED_AWAY : WENT_WRONG;
}

/* Returns what does() returns when run as user uid; hidden: in a user namespace that maps
 * no user. */
static int as_user(uid_t uid, bool hidden, int (*does)(int), int arg)
{
	pid_t pid = fork(), inner;

	if (pid)
		return users_wait(pid);
	users_become(uid);
	inner = hidden ? users_fork_hidden() : 0;
	if (inner == 0)
		_exit(does(arg));
	_exit(inner < 0 ? USERS_CANNOT : users_wait(inner));
}

/* Runs serves() in another process; returns true if that process is serving. */
static bool start(uid_t uid, bool hidden, int (*serves)(int ready))
{
	int ready[2];
	char byte;
	pid_t pid;
	bool ok;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	if (pid == 0) {
		close(ready[0]);
		close(alive[1]);
		_exit(as_user(uid, hidden, serves, ready[1]));
	}
	close(ready[1]);
	ok = read(ready[0], &byte, 1) == 1;
	close(ready[0]);
	return ok;
}

static int fabric(int ready)
{
	static const char text[] = "Switch 1 \"sw\"\n[1] \"H-a\"[1]\n\nCa 1 \"H-a\"\n";
	struct plug_server *s;
	struct topo topo;
	char err[TOPO_ERR];

	if (topo_parse(&topo, "t", text, strlen(text), err) ||
	    plug_server_new(&s, name, &topo) || write(ready, "", 1) != 1)
		return WENT_WRONG;
	close(ready);
	return plug_serve(s, alive[0]);
}

/* Anybody can listen at an abstract address, and give a fabric's answers. */
static int squatter(int ready)
{
	struct plug_ca ca = { .ports = 1 };
	socklen_t len;
	struct sockaddr_un a = address(&len);
	int listener = socket(AF_UNIX, SOCK_SEQPACKET, 0), fd;
	struct pollfd p[2] = { { .fd = listener, .events = POLLIN },
			       { .fd = alive[0], .events = POLLIN } };

	if (bind(listener, (struct sockaddr *)&a, len) || listen(listener, 8) ||
	    write(ready, "", 1) != 1)
		return WENT_WRONG;
	close(ready);
	while (poll(p, 2, -1) > 0 && !p[1].revents) {
		fd = accept(listener, NULL, NULL);
		(void)plug_say(fd, PLUG_CA_IS, &ca, sizeof(ca), -1, true);
	}
	return 0;
}

static int asks_fabric(int arg)
{
	const struct plug_request req = { .op = PLUG_CA, .hca = "a" };
	struct plug_ca ca;
	struct msg m = { .type = 0 };
	socklen_t len;
	struct sockaddr_un a = address(&len);
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);

	(void)arg;
	if (connect(fd, (struct sockaddr *)&a, len))
		return WENT_WRONG;
	(void)plug_say(fd, PLUG_REQUEST, &req, sizeof(req), -1, true);
	poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, -1);
	(void)msg_recv(fd, &plug_table, 0, &ca, sizeof(ca), &m, false);
	return m.type == PLUG_CA_IS ? LET_IN : TURNED_AWAY;
}

static int asks_at_all(int arg)
{
	struct plug_ca ca;

	(void)arg;
	return end_of(plug_ca(name, "a", &ca));
}

static int begin(void **state)
{
	(void)state;
	snprintf(name, sizeof(name), "users-%d", getpid());
	return pipe(alive);
}

static int end(void **state)
{
	(void)state;
	close(alive[0]);
	close(alive[1]);
	while (waitpid(-1, NULL, 0) > 0)
		;
	return 0;
}

static void started(uid_t uid, bool hidden, int (*serves)(int))
{
	if (users_can_hide() && start(uid, hidden, serves))
		return;
	fprintf(stderr, "SKIPPED: no other users, or no user namespaces, here\n");
	skip();
}

/* The kernel shows the process both other users as 65534, which is also its own uid. */
static void a_fabric_lets_its_user_in(void **state)
{
	(void)state;
	started(US, true, fabric);
	assert_int_equal(as_user(THEM, false, asks_fabric, 0), TURNED_AWAY);
	assert_int_equal(as_user(0, false, asks_fabric, 0), TURNED_AWAY);
	assert_int_equal(as_user(US, false, asks_fabric, 0), LET_IN);
	assert_int_equal(as_user(US, true, asks_at_all, 0), LET_IN);
}

static void a_program_asks_its_user(void **state)
{
	(void)state;
	started(US, false, squatter);
	assert_int_equal(as_user(US, true, asks_at_all, 0), LET_IN);
}

static void a_program_asks_nobody_else(void **state)
{
	(void)state;
	started(THEM, false, squatter);
	assert_int_equal(as_user(US, true, asks_at_all, 0), TURNED_AWAY);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_fabric_lets_its_user_in, begin, end),
		cmocka_unit_test_setup_teardown(a_program_asks_its_user, begin, end),
		cmocka_unit_test_setup_teardown(a_program_asks_nobody_else, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
