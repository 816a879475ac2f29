/* SPDX-License-Identifier: BSD-2-Clause */
/* Slots when somebody has bound all names, and has claimed all numbers of the
 * reserve. */
#include "host/reserve.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "host/claim.h"
#include "host/fix.h"
#include "host/name.h"
#include "sys/clock.h"
#include "sys/user.h"
#include "sys/users_testing.h"

enum {
	NOBODY = 65534,
	THIRD = 1,
	FIRST = SLOT_NAMED + 1,
	NUMBERS = SLOT_LAST - SLOT_NAMED,
	CLAIMS_MAX = 4,
};

static struct reserve known;

/* --- children ------------------------------------------------------------ */

struct child {
	pid_t pid;
	int from;
	int to;
};

/* Behaves like a kernel without sock_diag for unix sockets. */
static void without_diag(void)
{
	/* clang-format off */
	struct sock_filter f[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_socket, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AF_NETLINK, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPROTONOSUPPORT),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	/* clang-format on */
	struct sock_fprog prog = { sizeof(f) / sizeof(f[0]), f };

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &prog))
		_exit(4);
}

/* Forks a child that runs fn as uid, with pipes to and from it. */
static struct child start(uid_t uid, void (*fn)(int in, int out, int arg), int arg)
{
	int to[2], from[2];
	struct child c;

	assert_int_equal(pipe2(to, O_CLOEXEC), 0);
	assert_int_equal(pipe2(from, O_CLOEXEC), 0);
	c.pid = users_fork();
	if (c.pid == 0) {
		close(to[1]);
		close(from[0]);
		if (uid)
			users_become(uid);
		fn(to[0], from[1], arg);
		_exit(0);
	}
	close(to[0]);
	close(from[1]);
	c.to = to[1];
	c.from = from[0];
	return c;
}

static int hear(const struct child *c)
{
	int n = -1;

	return read(c->from, &n, sizeof(n)) == sizeof(n) ? n : -1;
}

static void tell(int fd, int n)
{
	if (write(fd, &n, sizeof(n)) != sizeof(n))
		_exit(1);
}

static void stop_child(struct child *c)
{
	kill(c->pid, SIGKILL);
	waitpid(c->pid, NULL, 0);
	close(c->from);
	close(c->to);
}

static void listen_or_die(const char *name, int backlog)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
	socklen_t len =
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(name));

	memcpy(a.sun_path + 1, name, strlen(name));
	if (fd < 0 || bind(fd, (struct sockaddr *)&a, len) || listen(fd, backlog))
		_exit(2);
	if (backlog)
		return;
	/* One connection waits, so that the kernel lets nobody in after it. */
	if (connect(socket(AF_UNIX, SOCK_SEQPACKET, 0), (struct sockaddr *)&a, len))
		_exit(3);
}

/* Binds all names and, for each number, `claims` claims, or one claim whose backlog is
 * full (-1). */
static void squat(int in, int out, int claims)
{
	char name[NAME_MAX_LEN];
	int more;

	for (int i = SLOT_FIRST; i <= SLOT_NAMED; i++) {
		snprintf(name, sizeof(name), "urnic/%d", i);
		listen_or_die(name, 8);
	}
	for (int i = FIRST; i <= SLOT_LAST; i++)
		for (int k = 0; k < (claims < 0 ? 1 : claims); k++) {
			snprintf(name, sizeof(name), "urnic/%d/%016x", i, 7 * k + i);
			listen_or_die(name, claims < 0 ? 0 : 8);
		}
	tell(out, 0);
	(void)!read(in, &more, sizeof(more));
}

static struct child start_squatter(int claims)
{
	struct child c = start(geteuid() == 0 ? NOBODY : 0, squat, claims);

	assert_int_equal(hear(&c), 0);
	return c;
}

/* A process with a slot: writes its slot, then sends a datagram to each slot that it
 * reads and writes the result. When it reads 0, it writes how many datagrams have
 * come. */
static void work(int in, int out, int no_diag)
{
	struct side s;
	int slot, rc;

	if (no_diag)
		without_diag();
	memset(&s, 0, sizeof(s));
	if (host_open(&s.host, &ops, &s)) {
		tell(out, 0);
		_exit(0);
	}
	host_accept_foreign(s.host, (uid_t[]){ 0, THIRD }, 2);
	tell(out, host_slot(s.host));
	for (;;) {
		struct pollfd p[2] = { { .fd = in, .events = POLLIN },
				       { .fd = host_fd(s.host), .events = POLLIN } };

		poll(p, 2, -1);
		if (p[1].revents)
			host_run(s.host);
		if (!p[0].revents)
			continue;
		if (read(in, &slot, sizeof(slot)) != sizeof(slot))
			break;
		do
			rc = slot ? forward(&s, (uint16_t)slot, "hello") : (int)s.got;
		while (rc == -EAGAIN);
		tell(out, rc);
	}
	host_close(s.host);
}

static int command(const struct child *c, int n)
{
	assert_int_equal(write(c->to, &n, sizeof(n)), sizeof(n));
	return hear(c);
}

static void expect_got(const struct child *c, int n)
{
	while (command(c, 0) < n)
		sched_yield();
	assert_int_equal(command(c, 0), n);
}

/* --- opening ------------------------------------------------------------- */

static void opens_and_works(int claims)
{
	const uid_t uid[] = { 0, THIRD, 0, THIRD };
	struct child squatter, c[4];
	int slot[4];

	need_netns();
	if (geteuid())
		skip();
	squatter = start_squatter(claims);
	for (int i = 0; i < 4; i++) {
		c[i] = start(uid[i], work, 0);
		slot[i] = hear(&c[i]);
		assert_in_range(slot[i], FIRST, SLOT_LAST);
		for (int k = 0; k < i; k++)
			assert_int_not_equal(slot[i], slot[k]);
	}
	for (int i = 0; i < 4; i++)
		for (int k = 0; k < 4; k++)
			if (i != k)
				assert_int_equal(command(&c[i], slot[k]), 0);
	for (int i = 0; i < 4; i++)
		expect_got(&c[i], 3);
	/* A slot is free as soon as its process has ended. */
	stop_child(&c[0]);
	while (!claims && command(&c[1], slot[0]) != -ESRCH)
		sched_yield();
	for (int i = 1; i < 4; i++)
		stop_child(&c[i]);
	stop_child(&squatter);
}

static void test_all_names_are_squatted(void **state)
{
	(void)state;
	opens_and_works(0);
}

static void test_and_all_numbers_are_claimed(void **state)
{
	(void)state;
	opens_and_works(1);
	opens_and_works(CLAIMS_MAX);
}

/* Without sock_diag there is no reserve; the rest works. */
static void test_without_diag(void **state)
{
	struct child named, squatter, late;

	(void)state;
	need_netns();
	if (geteuid())
		skip();
	named = start(THIRD, work, 1);
	assert_in_range(hear(&named), SLOT_FIRST, SLOT_NAMED);
	assert_int_equal(command(&named, 1000), -ESRCH);
	stop_child(&named);
	squatter = start_squatter(0);
	late = start(THIRD, work, 1);
	assert_int_equal(hear(&late), 0);
	stop_child(&late);
	stop_child(&squatter);
}

/* A squatter that accepts nobody does not show which user it is. */
static void test_and_the_claimants_do_not_answer(void **state)
{
	struct child squatter, root, root2, third;
	int slot;

	(void)state;
	need_netns();
	if (geteuid())
		skip();
	squatter = start_squatter(-1);
	root = start(0, work, 0);
	root2 = start(0, work, 0);
	third = start(THIRD, work, 0);
	slot = hear(&root);
	assert_in_range(slot, FIRST, SLOT_LAST);
	assert_in_range(hear(&root2), FIRST, SLOT_LAST);
	assert_in_range(hear(&third), FIRST, SLOT_LAST);
	assert_int_equal(command(&root2, slot), 0);
	assert_int_equal(command(&third, slot), 0);
	expect_got(&root, 2);
	stop_child(&root);
	stop_child(&root2);
	stop_child(&third);
	stop_child(&squatter);
}

/* Many processes open at the same time: each gets a number of its own. */
static void test_openers_at_once(void **state)
{
	enum { N = 40 };
	struct child squatter, c[N];
	bool used[SLOT_LAST + 1] = { false };

	(void)state;
	need_netns();
	squatter = start_squatter(0);
	for (int i = 0; i < N; i++)
		c[i] = start(geteuid() ? 0 : THIRD, work, 0);
	for (int i = 0; i < N; i++) {
		int slot = hear(&c[i]);

		assert_in_range(slot, FIRST, SLOT_LAST);
		assert_false(used[slot]);
		used[slot] = true;
	}
	for (int i = 0; i < N; i++)
		stop_child(&c[i]);
	stop_child(&squatter);
}

/* One user can have all numbers; each of the user's processes gets another one. */
static void test_all_of_the_reserve(void **state)
{
	static int fd[NUMBERS];
	bool used[SLOT_LAST + 1] = { false };
	uint16_t slot;

	(void)state;
	need_netns();
	reserve_init(&known, geteuid());
	for (int i = 0; i < NUMBERS; i++) {
		fd[i] = reserve_listen(&known, &slot);
		assert_true(fd[i] >= 0);
		assert_in_range(slot, FIRST, SLOT_LAST);
		assert_false(used[slot]);
		used[slot] = true;
	}
	assert_int_equal(reserve_listen(&known, &slot), -EADDRNOTAVAIL);
	for (int i = 0; i < NUMBERS; i++)
		close(fd[i]);
	fd[0] = reserve_listen(&known, &slot);
	assert_true(fd[0] >= 0);
	close(fd[0]);
}

/* --- finding ------------------------------------------------------------- */

/* Finds the owner of slot as soon as the list of sockets may be read. */
static int find(uint16_t slot)
{
	uint64_t since = known.read_at + 1;
	int fd;

	while ((fd = reserve_connect(&known, slot, since)) == -EAGAIN)
		sched_yield();
	return fd;
}

/* A name in the list may look like several lines, or like anything else. */
static void test_a_name_proves_nothing(void **state)
{
	/* clang-format off */
	static const char *const bad[] = {
		"urnic/1000", "urnic/1000/", "urnic/1000/123", "urnic/1000/xyz",
		"urnic/1000/00000000000000001", "urnic/99999999999/0000000000000001",
		"urnic/-1/0000000000000001", "urnic/5/0000000000000001",
		"urnic/1000/0000000000000001 ", "x @urnic/1000/0000000000000002",
		"\n0: 2 0 00010000 5 1 7 @urnic/1000/0000000000000003\n",
		"urnic/1000/0000000000000004\n", "\n", "urnic/%s%n/1",
	};
	/* clang-format on */
	int fd[sizeof(bad) / sizeof(bad[0])], own;
	uint16_t slot;

	(void)state;
	need_netns();
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct sockaddr_un a = { .sun_family = AF_UNIX };

		memcpy(a.sun_path + 1, bad[i], strlen(bad[i]));
		fd[i] = socket(AF_UNIX, SOCK_SEQPACKET, 0);
		assert_int_equal(bind(fd[i], (struct sockaddr *)&a,
				      (socklen_t)(offsetof(struct sockaddr_un, sun_path) +
						  1 + strlen(bad[i]))),
				 0);
		assert_int_equal(listen(fd[i], 8), 0);
	}
	reserve_init(&known, geteuid());
	assert_int_equal(find(1000), -ESRCH);
	reserve_init(&known, geteuid());
	own = reserve_listen(&known, &slot);
	assert_true(own >= 0);
	close(find(slot));
	close(own);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		close(fd[i]);
}

/* Returns a socket by which user uid claims slot. */
static int claim_as(uid_t uid, uint16_t slot, uint64_t tag)
{
	const struct claim c = { .slot = slot, .tag = tag };
	int fd;

	assert_int_equal(seteuid(uid), 0);
	fd = claim_listen(&c);
	assert_int_equal(seteuid(0), 0);
	assert_in_range(fd, 0, INT_MAX);
	return fd;
}

static uid_t uid_of(int fd)
{
	uid_t uid = (uid_t)-1;
	pid_t pid;

	assert_true(fd >= 0);
	assert_int_equal(user_of_peer(fd, &uid, &pid), 0);
	close(fd);
	return uid;
}

/* Several sockets claim a number: the strongest claim has it, however many other claims
 * there are; when it has gone the next strongest has it. */
static void test_the_strongest_has_the_number(void **state)
{
	enum { FLOOD = 500 };
	static int fd[FLOOD];
	int own;

	(void)state;
	need_netns();
	if (geteuid())
		skip();
	reserve_init(&known, 0);
	own = claim_as(0, 1000, 5);
	for (int i = 0; i < FLOOD; i++) {
		fd[i] = claim_as(NOBODY, 1000, 100 + (uint64_t)i);
		if (i % 2)
			shutdown(fd[i], SHUT_RDWR);
	}
	assert_int_equal(uid_of(find(1000)), 0);
	close(own);
	assert_int_equal(uid_of(find(1000)), NOBODY);
	for (int i = 0; i < FLOOD; i++)
		close(fd[i]);
	assert_int_equal(find(1000), -ESRCH);
}

/* A hostile process can hide a socket from a reading of the list, by closing a socket
 * that stands before it in the list during the reading. */
static void test_a_reading_that_lacks_the_owner(void **state)
{
	int own, weaker;

	(void)state;
	need_netns();
	if (geteuid())
		skip();
	reserve_init(&known, 0);
	own = claim_as(0, 1000, 5);
	weaker = claim_as(NOBODY, 1000, 6);
	assert_int_equal(uid_of(find(1000)), 0);
	known.at[1000 - RESERVE_FIRST].seen = false;
	assert_int_equal(uid_of(reserve_connect(&known, 1000, known.read_at)), 0);
	assert_true(known.at[1000 - RESERVE_FIRST].seen);
	/* The owner is not asked all the time either. */
	known.at[1000 - RESERVE_FIRST].seen = false;
	known.check_not_before = NEVER;
	assert_int_equal(reserve_connect(&known, 1000, known.read_at), -EAGAIN);
	assert_int_equal(reserve_due(&known), NEVER);
	/* It has gone in truth: */
	known.check_not_before = 0;
	close(own);
	assert_int_equal(uid_of(reserve_connect(&known, 1000, known.read_at)), NOBODY);
	known.at[1000 - RESERVE_FIRST].seen = false;
	known.check_not_before = 0;
	close(weaker);
	assert_int_equal(reserve_connect(&known, 1000, known.read_at), -ESRCH);
}

/* Between two readings of the list a number is known if no stronger claim can have come
 * since the last one. */
static void test_before_the_next_reading(void **state)
{
	int root, own, other, fd;
	uint64_t later;
	pid_t pid;
	uid_t uid;

	(void)state;
	need_netns();
	if (geteuid())
		skip();
	reserve_init(&known, THIRD);
	root = claim_as(0, 900, 1);
	own = claim_as(THIRD, 901, 1);
	other = claim_as(NOBODY, 902, 1);
	assert_int_equal(uid_of(find(902)), NOBODY);
	known.not_before = NEVER;
	later = known.read_at + 1;
	assert_int_equal(uid_of(reserve_connect(&known, 900, later)), 0);
	assert_int_equal(uid_of(reserve_connect(&known, 901, later)), THIRD);
	assert_int_equal(reserve_connect(&known, 902, later), -EAGAIN);
	assert_int_equal(reserve_connect(&known, 903, later), -EAGAIN);
	assert_int_equal(reserve_connect(&known, 903, known.read_at), -ESRCH);
	/* The owner of a number stays the same after setuid(). */
	assert_int_equal(seteuid(NOBODY), 0);
	assert_int_equal(uid_of(reserve_connect(&known, 901, later)), THIRD);
	assert_int_equal(reserve_connect(&known, 902, later), -EAGAIN);
	assert_int_equal(seteuid(0), 0);
	fd = reserve_connect(&known, 902, known.read_at);
	assert_int_equal(user_of_peer(fd, &uid, &pid), 0);
	assert_int_equal(uid, NOBODY);
	assert_int_equal(pid, getpid());
	close(fd);
	close(root);
	close(own);
	close(other);
}

static void test_strength(void **state)
{
	unsigned mine = 0;

	(void)state;
	for (uint16_t slot = FIRST; slot <= SLOT_LAST; slot++) {
		assert_true(claim_strength(0, slot) > claim_strength(1000, slot));
		mine += claim_strength(1000, slot) > claim_strength(1001, slot);
	}
	assert_in_range(mine, NUMBERS / 3, NUMBERS * 2 / 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_all_names_are_squatted),
		cmocka_unit_test(test_and_all_numbers_are_claimed),
		cmocka_unit_test(test_without_diag),
		cmocka_unit_test(test_and_the_claimants_do_not_answer),
		cmocka_unit_test(test_openers_at_once),
		cmocka_unit_test(test_all_of_the_reserve),
		cmocka_unit_test(test_a_name_proves_nothing),
		cmocka_unit_test(test_the_strongest_has_the_number),
		cmocka_unit_test(test_a_reading_that_lacks_the_owner),
		cmocka_unit_test(test_before_the_next_reading),
		cmocka_unit_test(test_strength),
	};

	enter();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
