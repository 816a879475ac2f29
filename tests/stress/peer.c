/* SPDX-License-Identifier: BSD-2-Clause */
#include "peer.h"

#include <err.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static int connect_to(const struct addrinfo *ai)
{
	const struct timespec pause = { .tv_nsec = 20000000 };

	for (int i = 0; i < 500; i++) {
		int s = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (s < 0)
			err(1, "socket");
		if (connect(s, ai->ai_addr, ai->ai_addrlen) == 0)
			return s;
		close(s);
		nanosleep(&pause, NULL);
	}
	errx(1, "nobody listens there");
}

static int accept_one(const struct addrinfo *ai)
{
	int one = 1, off = 0, s, conn;

	s = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s < 0)
		err(1, "socket");
	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (ai->ai_family == AF_INET6)
		setsockopt(s, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (bind(s, ai->ai_addr, ai->ai_addrlen) || listen(s, 1))
		err(1, "listen");
	conn = accept(s, NULL, NULL);
	if (conn < 0)
		err(1, "accept");
	close(s);
	return conn;
}

int peer_meet(const char *host, const char *port)
{
	struct addrinfo hints = {
		.ai_socktype = SOCK_STREAM, .ai_flags = host ? 0 : AI_PASSIVE,
		.ai_family = host ? AF_UNSPEC : AF_INET6,
	}, *ai;
	int rc = getaddrinfo(host, port, &hints, &ai), s;

	if (rc)
		errx(1, "%s: %s", host ? host : "listen", gai_strerror(rc));
	s = host ? connect_to(ai) : accept_one(ai);
	freeaddrinfo(ai);
	return s;
}

void peer_swap(int sock, const void *mine, void *theirs, size_t n)
{
	if (send(sock, mine, n, MSG_NOSIGNAL) != (ssize_t)n)
		err(1, "control connection");
	if (recv(sock, theirs, n, MSG_WAITALL) != (ssize_t)n)
		errx(1, "the peer has gone");
}
