/* SPDX-License-Identifier: BSD-2-Clause */
/* tcp_cycles.c - what TCP alone takes to connect, say a word each way and part:
 * the yardstick for connection setup.  Prints cycles a second.
 *
 * tcp_cycles serve|ask ADDRESS PORT CYCLES
 */
#include <arpa/inet.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

enum { WORD = 64 };

static void say(int fd)
{
	char word[WORD] = { 0 };

	if (write(fd, word, WORD) != WORD)
		err(1, "write");
}

static void hear(int fd)
{
	char word[WORD];

	if (recv(fd, word, WORD, MSG_WAITALL) != WORD)
		err(1, "recv");
}

static void serve(const struct sockaddr_in *a, int cycles)
{
	int l = socket(AF_INET, SOCK_STREAM, 0), one = 1, fd;

	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(l, (const void *)a, sizeof(*a)) || listen(l, 16))
		err(1, "listen");
	while (cycles--) {
		char end;

		fd = accept(l, NULL, NULL);
		if (fd < 0)
			err(1, "accept");
		hear(fd);
		say(fd);
		(void)!read(fd, &end, 1);
		close(fd);
	}
}

/* Ends the connection by RST, which leaves no port in TIME-WAIT. */
static void ask(const struct sockaddr_in *a, int cycles)
{
	const struct linger now = { .l_onoff = 1 };
	double began = clock_ns(CLOCK_MONOTONIC);

	for (int i = 0; i < cycles; i++) {
		int fd = socket(AF_INET, SOCK_STREAM, 0);

		if (connect(fd, (const void *)a, sizeof(*a)))
			err(1, "connect");
		say(fd);
		hear(fd);
		setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
		close(fd);
	}
	printf("%.0f\n", cycles * 1e9 / (clock_ns(CLOCK_MONOTONIC) - began));
}

int main(int argc, char **argv)
{
	struct sockaddr_in a = { .sin_family = AF_INET };

	if (argc != 5 || inet_pton(AF_INET, argv[2], &a.sin_addr) != 1)
		errx(1, "usage: tcp_cycles serve|ask ADDRESS PORT CYCLES");
	a.sin_port = htons((uint16_t)atoi(argv[3]));
	if (*argv[1] == 's')
		serve(&a, atoi(argv[4]));
	else
		ask(&a, atoi(argv[4]));
	return 0;
}
