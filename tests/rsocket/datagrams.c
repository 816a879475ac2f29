/* SPDX-License-Identifier: BSD-2-Clause */
/* Datagrams between two sockets of a process. */
#include <arpa/inet.h>
#include <string.h>

#include "rs.h"

static void ping(int from, int to, const struct sockaddr_storage *a, size_t len,
		 struct sockaddr_storage *source)
{
	static char out[20000], in[20001];
	socklen_t n = sizeof(*source);
	ssize_t got;

	memset(out, (int)len, len);
	MUST(rsendto(from, out, len, 0, (const struct sockaddr *)a, rs_len(a)) ==
	     (ssize_t)len);
	MUST(rs_poll(to, POLLIN, WAIT_MS) == POLLIN);
	got = rrecvfrom(to, in, sizeof(in), 0, (struct sockaddr *)source, &n);
	MUST(got == (ssize_t)len && n == rs_len(a) && !memcmp(in, out, len));
}

int datagrams(const char *ip, unsigned port)
{
	struct sockaddr_storage a = rs_address(ip, port), source,
				me = rs_address(ip, port + 1);
	int s = rsocket(a.ss_family, SOCK_DGRAM, 0),
	    c = rsocket(a.ss_family, SOCK_DGRAM, 0);
	char x[4];

	MUST(s >= 0 && c >= 0);
	MUST(!rbind(s, (struct sockaddr *)&a, rs_len(&a)));
	MUST(!rbind(c, (struct sockaddr *)&me, rs_len(&me)));
	MUST(rrecv(s, x, 1, MSG_DONTWAIT) < 0 && errno == EAGAIN);
	/* The first datagrams go by UDP, later ones from QP to QP, and one is too long
	 * for that. */
	for (int i = 0; i < 50; i++) {
		ping(c, s, &a, i == 25 ? 19000 : (size_t)i * 10, &source);
		MUST(!memcmp(&source, &me, rs_len(&me)));
		ping(s, c, &source, (size_t)i, &source);
	}
	MUST(!rconnect(c, (struct sockaddr *)&a, rs_len(&a)));
	MUST(rsend(c, "abcd", 4, 0) == 4);
	MUST(rs_poll(s, POLLIN, WAIT_MS) == POLLIN);
	MUST(rrecv(s, x, 2, MSG_PEEK | MSG_TRUNC) == 4);
	MUST(rrecv(s, x, 2, 0) == 2 && x[1] == 'b');
	MUST(rs_poll(s, POLLIN, 0) == 0);
	MUST(!rclose(s) && !rclose(c));
	return 0;
}
