/* SPDX-License-Identifier: BSD-2-Clause */
#include <arpa/inet.h>
#include <string.h>

#include "rs.h"

struct sockaddr_storage rs_address(const char *ip, unsigned port)
{
	struct sockaddr_storage a = { 0 };
	struct sockaddr_in *in = (void *)&a;
	struct sockaddr_in6 *in6 = (void *)&a;

	if (strchr(ip, ':')) {
		in6->sin6_family = AF_INET6;
		in6->sin6_port = htons((uint16_t)port);
		MUST(inet_pton(AF_INET6, ip, &in6->sin6_addr) == 1);
	} else {
		in->sin_family = AF_INET;
		in->sin_port = htons((uint16_t)port);
		MUST(inet_pton(AF_INET, ip, &in->sin_addr) == 1);
	}
	return a;
}

socklen_t rs_len(const struct sockaddr_storage *a)
{
	return a->ss_family == AF_INET ? sizeof(struct sockaddr_in)
				       : sizeof(struct sockaddr_in6);
}

int rs_listen(const char *ip, unsigned port, int backlog)
{
	struct sockaddr_storage a = rs_address(ip, port);
	int fd = rsocket(a.ss_family, SOCK_STREAM, 0);

	MUST(fd >= 0);
	MUST(!rbind(fd, (struct sockaddr *)&a, rs_len(&a)));
	MUST(!rlisten(fd, backlog));
	return fd;
}

int rs_connect(const char *ip, unsigned port)
{
	struct sockaddr_storage a = rs_address(ip, port);
	int fd = rsocket(a.ss_family, SOCK_STREAM, 0);

	MUST(fd >= 0);
	MUST(!rconnect(fd, (struct sockaddr *)&a, rs_len(&a)));
	return fd;
}

void rs_pair(const char *ip, unsigned port, int ends[2])
{
	int l = rs_listen(ip, port, 1);

	ends[0] = rs_connect(ip, port);
	ends[1] = raccept(l, NULL, NULL);
	MUST(ends[1] >= 0);
	MUST(!rclose(l));
}

short rs_poll(int fd, short events, int ms)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n = rpoll(&p, 1, ms);

	MUST(n >= 0 && n == (p.revents != 0));
	return p.revents;
}
