/* SPDX-License-Identifier: BSD-2-Clause */
/* A peer that ends without closing its socket, or with data that nobody has read. */
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "rs.h"

enum { DATA = 100000 };

int deaths_serve(const char *ip, unsigned port, const char *how)
{
	static char data[DATA];
	int l = rs_listen(ip, port, 1), fd = raccept(l, NULL, NULL);

	MUST(fd >= 0);
	memset(data, 'd', sizeof(data));
	MUST(rsend(fd, data, sizeof(data), 0) == DATA);
	if (!strcmp(how, "kill")) {
		usleep(100000);
		kill(getpid(), SIGKILL);
	}
	if (!strcmp(how, "close"))
		MUST(!rclose(fd));
	return 0; /* exit() disconnects, too */
}

/* Prints the bytes that came, and how the connection ended. */
int deaths_ask(const char *ip, unsigned port)
{
	static char data[DATA];
	int fd = rs_connect(ip, port), on = 1;
	ssize_t n, all = 0;

	/* The death of a process of another host is noticed only by a keepalive. */
	MUST(!rsetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on)));
	MUST(!rsetsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &on, sizeof(on)));

	usleep(300000);
	while ((n = rrecv(fd, data, 3000, 0)) > 0)
		all += n;
	printf("%zd %s", all,
	       n == 0		     ? "end"
	       : errno == ECONNRESET ? "reset"
	       : errno == ETIMEDOUT  ? "timeout"
				     : "?");
	MUST(rs_poll(fd, POLLIN, 0) & POLLHUP);
	MUST(rwrite(fd, "x", 1) < 0);
	printf(" %s\n", errno == EPIPE ? "pipe" : "?");
	MUST(!rclose(fd));
	return 0;
}
