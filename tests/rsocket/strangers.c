/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagram sockets whose UDP sockets get datagrams from strangers. */
#include <arpa/inet.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rs.h"

enum { PEERS = 4096 }; /* number of peers that a socket remembers */

static const char *ip;
static unsigned port;

/* Sends a datagram in the form of rsockets from a port of the stranger's (0: any). */
static bool stranger(unsigned from, bool data, const char *body)
{
	struct sockaddr_storage me = rs_address(ip, from), to = rs_address(ip, port);
	bool v6 = me.ss_family == AF_INET6;
	uint8_t m[64] = { 0x55,		0x55, 0x55, 0x55, v6 ? 6 : 4, data ? 0 : 7,
			  v6 ? 28 : 16, 0,    0,    0x12, 0x34,	      0x56 };
	size_t n = m[6];
	int s = socket(me.ss_family, SOCK_DGRAM, 0);
	bool ok = !bind(s, (struct sockaddr *)&me, rs_len(&me));

	memcpy(m + n, body, strlen(body));
	n += strlen(body);
	if (ok)
		MUST(sendto(s, m, n, 0, (struct sockaddr *)&to, rs_len(&to)) ==
		     (ssize_t)n);
	close(s);
	return ok;
}

static int bound(void)
{
	struct sockaddr_storage a = rs_address(ip, port);
	int fd = rsocket(a.ss_family, SOCK_DGRAM, 0);

	MUST(fd >= 0 && !rbind(fd, (struct sockaddr *)&a, rs_len(&a)));
	return fd;
}

/* As many strangers as a socket remembers, and one more, while the socket sends to the
 * first peer. */
static void more_than_are_remembered(void)
{
	int fd = bound(), n = 0;
	struct sockaddr_storage first = { 0 };
	char x[8];

	for (unsigned p = 20000; n < PEERS; p++) {
		if (!stranger(p, false, ""))
			continue;
		if (!n++)
			first = rs_address(ip, p);
		(void)rrecv(fd, x, sizeof(x), MSG_DONTWAIT);
	}
	for (int i = 0; i < 100; i++)
		(void)rrecv(fd, x, sizeof(x), MSG_DONTWAIT);
	MUST(stranger(0, false, ""));
	MUST(rsendto(fd, "hello", 5, 0, (struct sockaddr *)&first, rs_len(&first)) == 5);
	MUST(!rclose(fd));
}

static void of_a_connected_socket_only_the_peers(void)
{
	struct sockaddr_storage peer = rs_address(ip, port + 1), far, got;
	int fd = bound();
	socklen_t n = sizeof(got);
	char x[8];

	/* Datagrams that came before the connect, and after it. */
	MUST(stranger(0, true, "evil"));
	MUST(rs_poll(fd, POLLIN, WAIT_MS) == POLLIN);
	MUST(!rconnect(fd, (struct sockaddr *)&peer, rs_len(&peer)));
	MUST(stranger(0, true, "evil"));
	MUST(rs_poll(fd, POLLIN, 50) == 0);
	MUST(rrecv(fd, x, sizeof(x), MSG_DONTWAIT) < 0 && errno == EAGAIN);
	MUST(stranger(port + 1, true, "good"));
	MUST(rs_poll(fd, POLLIN, WAIT_MS) == POLLIN);
	MUST(rrecv(fd, x, sizeof(x), 0) == 4 && !memcmp(x, "good", 4));
	/* A connect that fails changes nothing. */
	far = strchr(ip, ':') ? rs_address("2001:db8::1", 5) : rs_address("192.0.2.1", 5);
	MUST(rconnect(fd, (struct sockaddr *)&far, rs_len(&far)) < 0);
	MUST(!rgetpeername(fd, (struct sockaddr *)&got, &n) && !memcmp(&got, &peer, n));
	MUST(!rclose(fd));
}

static void a_failed_connect_connects_to_nobody(void)
{
	struct sockaddr_storage peer = rs_address(ip, port + 1), far;
	int fd = bound();

	far = strchr(ip, ':') ? rs_address("2001:db8::1", 5) : rs_address("192.0.2.1", 5);
	MUST(rsendto(fd, "1", 1, 0, (struct sockaddr *)&peer, rs_len(&peer)) == 1);
	MUST(rconnect(fd, (struct sockaddr *)&far, rs_len(&far)) < 0);
	MUST(rsend(fd, "secret", 6, 0) < 0 && errno == EDESTADDRREQ);
	/* Options of the UDP socket. */
	MUST(!rsetsockopt(fd, SOL_SOCKET, SO_BROADCAST, &(int){ 1 }, sizeof(int)));
	MUST(rsetsockopt(fd, SOL_SOCKET, 9999, &(int){ 1 }, sizeof(int)) < 0);
	MUST(!rclose(fd));
}

static long resident_kib(void)
{
	long all = 0, resident = 0;
	FILE *f = fopen("/proc/self/statm", "r");

	MUST(f && fscanf(f, "%ld %ld", &all, &resident) == 2);
	fclose(f);
	return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

/* Empty datagrams cost memory, too. */
static void empty_datagrams(void)
{
	int fd = bound();
	long before = resident_kib();

	for (int i = 0; i < 40000; i++) {
		MUST(stranger(0, true, ""));
		MUST(rs_poll(fd, POLLOUT, 0) & POLLOUT);
	}
	MUST(resident_kib() - before < 2048);
	MUST(!rclose(fd));
}

/* The port is free when both parent and child have closed the socket. */
static void a_child_closes(void)
{
	int fd = bound(), status;
	int p[2], closed[2];
	pid_t pid;
	char x;

	MUST(!pipe(p) && !pipe(closed));
	pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		close(p[1]);
		_exit(rclose(fd) || write(closed[1], "", 1) != 1 || read(p[0], &x, 1));
	}
	close(p[0]);
	MUST(read(closed[0], &x, 1) == 1);
	MUST(!rclose(fd));
	fd = bound();
	MUST(!rclose(fd));
	close(p[1]);
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
}

int strangers(const char *address, unsigned number)
{
	ip = address;
	port = number;
	of_a_connected_socket_only_the_peers();
	a_failed_connect_connects_to_nobody();
	a_child_closes();
	more_than_are_remembered();
	empty_datagrams();
	return 0;
}
