/* SPDX-License-Identifier: BSD-2-Clause */
/* Sockets whose life is cut short: closed while they connect, forked in the
 * middle of things, left by longjmp(), never accepted. */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../lab/count.h"
#include "rs.h"

static const char *ip;
static unsigned port;
static atomic_bool over, closed;

/* Accepts until no client is left: one that finds the backlog full waits until there is
 * room. */
static void *accepts(void *arg)
{
	int l = *(int *)arg;

	while (!closed) {
		int fd = raccept(l, NULL, NULL);

		if (fd >= 0)
			MUST(!rclose(fd));
	}
	return NULL;
}

static void *connects(void *arg)
{
	struct sockaddr_storage a = rs_address(ip, port);

	(void)arg;
	while (!over) {
		int fd = rsocket(a.ss_family, SOCK_STREAM, 0);

		(void)rconnect(fd, (struct sockaddr *)&a, rs_len(&a));
		MUST(!rclose(fd));
	}
	return NULL;
}

static void until_it_is_over(int seconds, void (*step)(void), int clients)
{
	int l = rs_listen(ip, port, 64);
	struct timeval end, now;
	pthread_t t[4];

	over = closed = false;
	MUST(!pthread_create(&t[0], NULL, accepts, &l));
	for (int i = 0; i < clients; i++)
		MUST(!pthread_create(&t[1 + i], NULL, connects, NULL));
	gettimeofday(&end, NULL);
	end.tv_sec += seconds;
	do {
		step();
		gettimeofday(&now, NULL);
	} while (timercmp(&now, &end, <));
	over = true;
	for (int i = 0; i < clients; i++)
		MUST(!pthread_join(t[1 + i], NULL));
	closed = true;
	MUST(!rshutdown(l, SHUT_RDWR)); /* wakes the thread that accepts */
	MUST(!pthread_join(t[0], NULL));
	MUST(!rclose(l));
}

static void fork_once(void)
{
	int status;
	pid_t pid = fork();

	MUST(pid >= 0);
	if (!pid)
		_exit(0);
	MUST(waitpid(pid, &status, 0) == pid);
	usleep(500);
}

static void close_while_connecting(void)
{
	struct sockaddr_storage a = rs_address(ip, port);
	int fd = rsocket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);

	(void)rconnect(fd, (struct sockaddr *)&a, rs_len(&a));
	usleep((unsigned)rand() % 400);
	MUST(!rclose(fd));
}

static int descriptors(void)
{
	return (int)count_entries("/proc/self/fd");
}

/* The engine thread frees closed sockets when it comes to them. */
static bool are_fewer_than(int n)
{
	for (int i = 0; i < WAIT_MS && descriptors() >= n; i++)
		usleep(1000);
	return descriptors() < n;
}

/* More clients than the backlog: they cost no descriptors, and all are served. (On iWARP
 * each is a TCP connection, until the client closes.) */
static void a_full_backlog(void)
{
	enum { CLIENTS = 60 };
	struct sockaddr_storage a = rs_address(ip, port);
	int l = rs_listen(ip, port, 1), before, c[CLIENTS], at = 0;

	for (int i = 0; i < CLIENTS; i++) {
		c[i] = rsocket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
		MUST(rconnect(c[i], (struct sockaddr *)&a, rs_len(&a)) < 0 ||
		     errno == EINPROGRESS);
	}
	usleep(200000);
	before = descriptors();
	for (int i = 0; i < CLIENTS; i++) {
		int s = raccept(l, NULL, NULL);

		MUST(s >= 0);
		MUST(rwrite(s, "x", 1) == 1 && !rclose(s));
	}
	if (!getenv("URNIC_DEVICES"))
		MUST(are_fewer_than(before + 10));
	while (at < CLIENTS) {
		char x;

		MUST(rs_poll(c[at], POLLIN, WAIT_MS) & POLLIN);
		MUST(rread(c[at], &x, 1) == 1 && x == 'x');
		MUST(!rclose(c[at++]));
	}
	MUST(!rclose(l));
}

/* Clients that are never accepted go when they close. */
static void clients_that_give_up(void)
{
	struct sockaddr_storage a = rs_address(ip, port);
	int l = rs_listen(ip, port, 1), c[20], before = 0;

	for (int i = 0; i < 20; i++) {
		c[i] = rsocket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0);
		(void)rconnect(c[i], (struct sockaddr *)&a, rs_len(&a));
	}
	usleep(200000);
	before = descriptors();
	for (int i = 0; i < 20; i++)
		MUST(!rclose(c[i]));
	MUST(are_fewer_than(before - 19));
	MUST(!rclose(l));
}

static sigjmp_buf away;

static void jump(int sig)
{
	(void)sig;
	siglongjmp(away, 1);
}

static __attribute__((noinline)) void use_the_stack(void)
{
	volatile char b[16384];

	memset((void *)(uintptr_t)b, 'A', sizeof(b));
}

/* A read is left by longjmp(), as iperf3 does; then exit() disconnects. */
static void jump_out_of_a_read(void)
{
	struct itimerval soon = { .it_value = { 0, 100000 } };
	static int e[2];
	char x;

	rs_pair(ip, port, e);
	signal(SIGALRM, jump);
	if (!sigsetjmp(away, 1)) {
		setitimer(ITIMER_REAL, &soon, NULL);
		(void)rread(e[1], &x, 1);
		exit(1); /* not reached */
	}
	use_the_stack();
	MUST(rwrite(e[0], "y", 1) == 1 && rread(e[1], &x, 1) == 1 && x == 'y');
	signal(SIGALRM, jump);
	if (!sigsetjmp(away, 1)) {
		setitimer(ITIMER_REAL, &soon, NULL);
		(void)rread(e[1], &x, 1);
	}
	use_the_stack();
}

/* After a failed attempt to connect: the error is reported once, the address stays, and
 * no old error remains. */
static void another_attempt(void)
{
	struct sockaddr_storage a = rs_address(ip, port), me = rs_address(ip, port + 1),
				got;
	int fd = rsocket(a.ss_family, SOCK_STREAM | SOCK_NONBLOCK, 0), l, s;
	socklen_t n = sizeof(got);
	char x;

	MUST(!rbind(fd, (struct sockaddr *)&me, rs_len(&me)));
	MUST(rconnect(fd, (struct sockaddr *)&a, rs_len(&a)) < 0 && errno == EINPROGRESS);
	MUST(rs_poll(fd, POLLOUT, WAIT_MS) & POLLERR);
	l = rs_listen(ip, port, 1);
	MUST(rconnect(fd, (struct sockaddr *)&a, rs_len(&a)) < 0 &&
	     errno == ECONNREFUSED);
	MUST(!rgetsockname(fd, (struct sockaddr *)&got, &n) && !memcmp(&got, &me, n));
	MUST(rconnect(fd, (struct sockaddr *)&a, rs_len(&a)) < 0 && errno == EINPROGRESS);
	MUST(rs_poll(fd, POLLOUT, WAIT_MS) == POLLOUT);
	s = raccept(l, NULL, NULL);
	MUST(s >= 0 && !rclose(s));
	MUST(rs_poll(fd, POLLIN, WAIT_MS) & POLLIN);
	MUST(rread(fd, &x, 1) == 0);
	MUST(!rclose(fd) && !rclose(l));
}

/* A peer that does not acknowledge does not hold up a close. */
static void nobody_waits_for_a_stopped_peer(void)
{
	static char big[200000];
	struct timeval from, to, took;
	int l = rs_listen(ip, port, 1), fd;
	pid_t pid = fork();

	MUST(pid >= 0);
	if (!pid) {
		fd = rs_connect(ip, port);
		MUST(rread(fd, big, 1) == 1);
		raise(SIGSTOP);
		_exit(0);
	}
	fd = raccept(l, NULL, NULL);
	MUST(fd >= 0);
	MUST(!rfcntl(fd, F_SETFL, O_NONBLOCK));
	MUST(rwrite(fd, "x", 1) == 1);
	MUST(waitpid(pid, NULL, WUNTRACED) == pid);
	(void)rwrite(fd, big, sizeof(big));
	gettimeofday(&from, NULL);
	MUST(!rclose(fd));
	gettimeofday(&to, NULL);
	timersub(&to, &from, &took);
	MUST(took.tv_sec == 0);
	kill(pid, SIGKILL);
	MUST(waitpid(pid, NULL, 0) == pid);
	MUST(!rclose(l));
}

static void forks(void)
{
	until_it_is_over(3, fork_once, 3);
}

static void closes(void)
{
	until_it_is_over(3, close_while_connecting, 0);
}

int lives(const char *address, unsigned number)
{
	/* clang-format off */
	static void (*const all[])(void) = {
		another_attempt, a_full_backlog, clients_that_give_up,
		nobody_waits_for_a_stopped_peer, closes, forks, jump_out_of_a_read,
	};
	/* clang-format on */

	ip = address;
	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		port = number + 2 * (unsigned)i;
		all[i]();
		fprintf(stderr, "%zu ", i);
	}
	return 0;
}
