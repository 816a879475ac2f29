/* SPDX-License-Identifier: BSD-2-Clause */
/* The promises of rsocket(7), and of the socket calls that it follows, within one
 * process. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "rs.h"

static const char *ip;
static unsigned port;
static char big[1 << 20], back[1 << 20];

static void nonblock(int fd, int on)
{
	MUST(!rfcntl(fd, F_SETFL, on ? O_NONBLOCK : 0));
	MUST((rfcntl(fd, F_GETFL) & O_NONBLOCK) == (on ? O_NONBLOCK : 0));
}

/* The client is connected before the server accepts, as with TCP. */
static void connecting_needs_no_accept(void)
{
	int l = rs_listen(ip, port, 2), a = rs_connect(ip, port), b;
	struct sockaddr_storage name, peer;
	socklen_t n = sizeof(name), m = sizeof(peer);

	MUST(rs_poll(l, POLLIN, WAIT_MS) == POLLIN);
	b = raccept(l, (struct sockaddr *)&peer, &m);
	MUST(b >= 0 && m == rs_len(&peer));
	MUST(!rgetsockname(a, (struct sockaddr *)&name, &n) && n == m);
	MUST(!memcmp(&name, &peer, m));
	n = sizeof(name);
	MUST(!rgetpeername(a, (struct sockaddr *)&name, &n));
	MUST(((struct sockaddr_in *)&name)->sin_port == htons((uint16_t)port));
	nonblock(l, 1);
	MUST(raccept(l, NULL, NULL) < 0 && errno == EAGAIN);
	MUST(!rclose(a) && !rclose(b) && !rclose(l));
	MUST(rclose(l) < 0 && errno == EBADF);
}

/* A wildcard of IPv6 takes IPv4, too, and shows IPv4 addresses as IPv6 ones. */
static void both_families(void)
{
	int l, c, s;
	struct sockaddr_in6 peer;
	socklen_t n = sizeof(peer);

	if (strchr(ip, ':'))
		return;
	l = rs_listen("::", port, 1);
	c = rs_connect(ip, port);
	s = raccept(l, (struct sockaddr *)&peer, &n);
	MUST(s >= 0 && n == sizeof(peer) && peer.sin6_family == AF_INET6);
	MUST(IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr));
	n = sizeof(peer);
	MUST(!rgetsockname(s, (struct sockaddr *)&peer, &n));
	MUST(IN6_IS_ADDR_V4MAPPED(&peer.sin6_addr) &&
	     peer.sin6_port == htons((uint16_t)port));
	MUST(!rclose(c) && !rclose(s) && !rclose(l));
}

static void nobody_listens(void)
{
	struct sockaddr_storage a = rs_address(ip, port + 1);
	int fd = rsocket(a.ss_family, SOCK_STREAM, 0), err;
	socklen_t n = sizeof(err);

	MUST(rconnect(fd, (struct sockaddr *)&a, rs_len(&a)) < 0);
	MUST(errno == ECONNREFUSED);
	nonblock(fd, 1);
	MUST(rconnect(fd, (struct sockaddr *)&a, rs_len(&a)) < 0);
	if (errno == EINPROGRESS) {
		MUST(rs_poll(fd, POLLOUT, WAIT_MS) & POLLERR);
		MUST(!rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n));
		MUST(err == ECONNREFUSED);
	}
	MUST(rsend(fd, "x", 1, 0) < 0);
	MUST(!rclose(fd));
}

/* A nonblocking send takes as many bytes as there is room for; exactly these arrive. */
static void partial_sends(void)
{
	size_t sent = 0, got = 0;
	int e[2];

	rs_pair(ip, port, e);
	MUST(rrecv(e[1], back, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	MUST(rs_poll(e[1], POLLIN, 0) == 0);
	for (size_t i = 0; i < sizeof(big); i++)
		big[i] = (char)(i * 31 + i / 997);
	nonblock(e[0], 1);
	for (;;) {
		ssize_t n = rsend(e[0], big + sent, sizeof(big) - sent, 0);

		if (n < 0)
			MUST(errno == EAGAIN);
		if (n < 0 && !(rs_poll(e[0], POLLOUT, 20) & POLLOUT))
			break;
		sent += n < 0 ? 0 : (size_t)n;
	}
	MUST(sent > 100000 && sent < sizeof(big));
	while (got < sent) {
		ssize_t n = rrecv(e[1], back + got, 7777, 0);

		MUST(n > 0);
		got += (size_t)n;
	}
	MUST(!memcmp(big, back, sent));
	MUST(rs_poll(e[0], POLLOUT, WAIT_MS) & POLLOUT);
	MUST(!rclose(e[0]) && !rclose(e[1]));
}

static void flags_and_vectors(void)
{
	struct iovec in[3] = { { (char[]){ "ab" }, 2 },
			       { NULL, 0 },
			       { (char[]){ "cde" }, 3 } };
	char x[4], y[4];
	struct iovec out[2] = { { x, 1 }, { y, 4 } };
	struct msghdr msg = { .msg_iov = out, .msg_iovlen = 2 };
	int e[2];

	rs_pair(ip, port, e);
	MUST(rwritev(e[0], in, 3) == 5);
	MUST(rrecv(e[1], y, 2, MSG_PEEK) == 2 && !memcmp(y, "ab", 2));
	MUST(rrecvmsg(e[1], &msg, MSG_WAITALL) == 5);
	MUST(x[0] == 'a' && !memcmp(y, "bcde", 4));
	MUST(rwrite(e[1], "12345", 5) == 5);
	MUST(rreadv(e[0], out, 2) == 5 && x[0] == '1' && y[3] == '5');
	MUST(rsend(e[0], "x", 1, MSG_OOB) < 0 && errno == EOPNOTSUPP);
	MUST(!rclose(e[0]) && !rclose(e[1]));
}

static void half_close(void)
{
	int e[2];

	rs_pair(ip, port, e);
	MUST(rwrite(e[0], "last", 4) == 4);
	MUST(!rshutdown(e[0], SHUT_WR));
	MUST(rwrite(e[0], "x", 1) < 0 && errno == EPIPE);
	MUST(rread(e[1], back, 10) == 4);
	MUST(rs_poll(e[1], POLLIN, WAIT_MS) == POLLIN);
	MUST(rread(e[1], back, 10) == 0 && rread(e[1], back, 10) == 0);
	MUST(rwrite(e[1], "more", 4) == 4);
	MUST(rread(e[0], back, 10) == 4);
	MUST(!rshutdown(e[1], SHUT_WR));
	MUST(rread(e[0], back, 10) == 0);
	MUST(rs_poll(e[0], POLLIN, WAIT_MS) & POLLHUP);
	MUST(!rclose(e[0]) && !rclose(e[1]));
}

/* Data that was sent before a close arrives, and then the end of the stream. */
static void close_with_data_under_way(void)
{
	ssize_t n, got = 0;
	int e[2];

	rs_pair(ip, port, e);
	MUST(rsend(e[0], big, 200000, 0) == 200000);
	MUST(!rclose(e[0]));
	while ((n = rrecv(e[1], back + got, 5000, 0)) > 0)
		got += n;
	MUST(n == 0 && got == 200000 && !memcmp(big, back, 200000));
	MUST(rs_poll(e[1], POLLIN | POLLOUT, 0) & POLLHUP);
	MUST(rwrite(e[1], "x", 1) < 0 && errno == EPIPE);
	MUST(!rclose(e[1]));
}

static void options(void)
{
	struct linger linger = { 1, 2 }, l2;
	int fd = rsocket(AF_INET6, SOCK_STREAM, 0), v = 300000, e[2];
	socklen_t n = sizeof(v);
	struct tcp_info info;
	/* clang-format off */
	static const struct { int level, name, value; } set[] = {
		{ SOL_SOCKET, SO_REUSEADDR, 1 }, { SOL_SOCKET, SO_KEEPALIVE, 1 },
		{ IPPROTO_TCP, TCP_NODELAY, 1 }, { IPPROTO_IPV6, IPV6_V6ONLY, 1 },
		{ SOL_RDMA, RDMA_SQSIZE, 100 }, { SOL_RDMA, RDMA_RQSIZE, 50 },
		{ SOL_RDMA, RDMA_INLINE, 100 }, { SOL_RDMA, RDMA_IOMAPSIZE, 7 },
	};
	/* clang-format on */

	MUST(fd >= 0);
	MUST(!rsetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &v, n));
	v = 0;
	MUST(!rgetsockopt(fd, SOL_SOCKET, SO_RCVBUF, &v, &n) && v == 600000);
	for (size_t i = 0; i < sizeof(set) / sizeof(set[0]); i++) {
		v = set[i].value;
		MUST(!rsetsockopt(fd, set[i].level, set[i].name, &v, n));
		v = -1;
		MUST(!rgetsockopt(fd, set[i].level, set[i].name, &v, &n));
		MUST(v == set[i].value);
	}
	MUST(!rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
	n = sizeof(l2);
	MUST(!rgetsockopt(fd, SOL_SOCKET, SO_LINGER, &l2, &n) && l2.l_linger == 2);
	MUST(rsetsockopt(fd, SOL_SOCKET, 9999, &v, sizeof(v)) < 0);
	MUST(!rclose(fd));
	rs_pair(ip, port, e);
	n = sizeof(info);
	MUST(!rgetsockopt(e[0], IPPROTO_TCP, TCP_INFO, &info, &n));
	MUST(n == sizeof(info) && info.tcpi_state == TCP_ESTABLISHED);
	v = 10; /* refused: the socket is connected */
	MUST(rsetsockopt(e[0], SOL_RDMA, RDMA_SQSIZE, &v, sizeof(v)) < 0);
	MUST(!rclose(e[0]) && !rclose(e[1]));
}

static void polling_with_others(void)
{
	struct timeval tv = { 5, 0 };
	int e[2], p[2];
	fd_set in;

	rs_pair(ip, port, e);
	MUST(!pipe(p));
	struct pollfd fds[] = { { e[1], POLLIN, 0 }, { p[0], POLLIN, 0 }, { -1, 0, 0 } };

	MUST(rpoll(fds, 3, 30) == 0);
	MUST(write(p[1], "x", 1) == 1);
	MUST(rpoll(fds, 3, WAIT_MS) == 1 && !fds[0].revents && fds[1].revents == POLLIN);
	MUST(rwrite(e[0], "x", 1) == 1);
	while (rpoll(fds, 3, WAIT_MS) != 2)
		;
	MUST(fds[0].revents == POLLIN);
	MUST(read(p[0], back, 1) == 1);
	FD_ZERO(&in);
	FD_SET(e[1], &in);
	FD_SET(p[0], &in);
	MUST(rselect((e[1] > p[0] ? e[1] : p[0]) + 1, &in, NULL, NULL, &tv) == 1);
	MUST(FD_ISSET(e[1], &in) && !FD_ISSET(p[0], &in));
	close(p[0]);
	close(p[1]);
	MUST(!rclose(e[0]) && !rclose(e[1]));
}

/* More descriptors than rpoll() keeps on the stack; one is ready. */
static void polling_many(void)
{
	enum { MANY = 900 };
	static struct pollfd fds[MANY + 2];
	int e[2], p[2];

	rs_pair(ip, port, e);
	MUST(!pipe(p));
	for (int i = 0; i < MANY; i++)
		fds[i] = (struct pollfd){ i % 3 ? p[0] : e[0], POLLIN, 0 };
	fds[MANY] = (struct pollfd){ e[1], POLLIN, 0 };
	MUST(rpoll(fds, MANY + 1, 10) == 0);
	MUST(rwrite(e[0], "x", 1) == 1);
	MUST(rpoll(fds, MANY + 1, WAIT_MS) == 1 && fds[MANY].revents == POLLIN);
	MUST(rread(e[1], back, 10) == 1);
	MUST(write(p[1], "x", 1) == 1);
	MUST(rpoll(fds, MANY + 1, WAIT_MS) == MANY / 3 * 2);
	close(p[0]);
	close(p[1]);
	MUST(!rclose(e[0]) && !rclose(e[1]));
}

/* --- threads ------------------------------------------------------------- */

static void *reads_all(void *arg)
{
	int fd = *(int *)arg;
	size_t got = 0;

	while (got < 3000000) {
		ssize_t n = rrecv(fd, back, 9000, 0);

		MUST(n > 0);
		got += (size_t)n;
	}
	return NULL;
}

static void *writes_all(void *arg)
{
	int fd = *(int *)arg;

	for (int i = 0; i < 300; i++)
		MUST(rsend(fd, big, 10000, 0) == 10000);
	return NULL;
}

static void *polls(void *arg)
{
	int fd = *(int *)arg;

	MUST(rs_poll(fd, POLLHUP, WAIT_MS) & POLLHUP);
	return NULL;
}

/* On either end a reader, a writer and a thread that polls. */
static void threads_share_a_socket(void)
{
	pthread_t t[5];
	int e[2];

	rs_pair(ip, port, e);
	MUST(!pthread_create(&t[0], NULL, polls, &e[1]));
	for (int i = 0; i < 2; i++) {
		MUST(!pthread_create(&t[1 + i], NULL, reads_all, &e[i]));
		MUST(!pthread_create(&t[3 + i], NULL, writes_all, &e[i]));
	}
	for (int i = 1; i < 5; i++)
		MUST(!pthread_join(t[i], NULL));
	MUST(!rclose(e[0]));
	MUST(!pthread_join(t[0], NULL));
	MUST(!rclose(e[1]));
}

/* --- iomaps, fork -------------------------------------------------------- */

static void direct_placement(void)
{
	static char target[10000];
	struct sockaddr_storage a = rs_address(ip, port);
	int l = rs_listen(ip, port, 1), c, s, v = 4;
	off_t at;

	c = rsocket(a.ss_family, SOCK_STREAM, 0);
	MUST(!rsetsockopt(c, SOL_RDMA, RDMA_IOMAPSIZE, &v, sizeof(v)));
	MUST(!rconnect(c, (struct sockaddr *)&a, rs_len(&a)));
	s = raccept(l, NULL, NULL);
	at = riomap(s, target, sizeof(target), PROT_WRITE, 0, -1);
	MUST(at >= 0);
	MUST(riomap(c, big, 100, PROT_WRITE, 0, -1) < 0); /* s has not asked for iomaps */
	MUST(rwrite(s, "!", 1) == 1 && rread(c, back, 1) == 1);
	MUST(riowrite(c, big + 3, 5000, at + 70, 0) == 5000);
	MUST(riowrite(c, big, 1, at + 10000, 0) == (size_t)-1);
	MUST(rwrite(c, "!", 1) == 1 && rread(s, back, 1) == 1);
	MUST(!memcmp(target + 70, big + 3, 5000));
	MUST(!riounmap(s, target, sizeof(target)));
	MUST(rwrite(s, "!", 1) == 1 && rread(c, back, 1) == 1);
	MUST(riowrite(c, big, 1, at, 0) == (size_t)-1);
	MUST(!rclose(c) && !rclose(s) && !rclose(l));
}

static void fork_leaves_the_parent_alone(void)
{
	int e[2], status;
	pid_t pid;

	rs_pair(ip, port, e);
	pid = fork();
	MUST(pid >= 0);
	if (!pid) {
		int f[2];

		MUST(rwrite(e[0], "x", 1) < 0 && errno == EIO);
		MUST(!rclose(e[0]) && !rclose(e[1]));
		rs_pair(ip, port + 1, f);
		MUST(rwrite(f[0], "child", 5) == 5 && rread(f[1], back, 10) == 5);
		MUST(!rclose(f[0]) && !rclose(f[1]));
		exit(0);
	}
	MUST(waitpid(pid, &status, 0) == pid && status == 0);
	MUST(rwrite(e[0], "parent", 6) == 6 && rread(e[1], back, 10) == 6);
	MUST(!rclose(e[0]) && !rclose(e[1]));
}

int rules(const char *address, unsigned number)
{
	/* clang-format off */
	static void (*const all[])(void) = {
		connecting_needs_no_accept, both_families, nobody_listens, partial_sends,
		flags_and_vectors, half_close, close_with_data_under_way, options,
		polling_with_others, polling_many, threads_share_a_socket, direct_placement,
		fork_leaves_the_parent_alone,
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
