/* SPDX-License-Identifier: BSD-2-Clause */
/* sock_pingpong.c - what the sockets alone take: half the round trip of a small
 * message, the yardstick for ib_send_lat and ib_write_lat.
 *
 *   spin     each side spins on a non-blocking recv
 *   block    each side sleeps in recv
 *   helper   a thread sleeps in recv and writes a word; the program spins on
 *            that word, as ib_write_lat spins on its buffer
 *   ack      spins, and acknowledges what comes before it answers, as RC does
 *
 * sock_pingpong [-s BYTES] udp|tcp spin|block|helper|ack ROUNDS LOCAL PEER [start]
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

enum { PORT = 18700, LEAST = sizeof(uint64_t), MOST = 8 << 20 };

static const uint64_t ACK = 1ull << 63;

static char from[MOST], to[MOST];
static size_t bytes = 32;
static int sock;
static _Atomic uint64_t word;

static void put(uint64_t n)
{
	memcpy(from, &n, sizeof(n));
	for (size_t at = 0; at < bytes;) {
		ssize_t did = send(sock, from + at, bytes - at, 0);

		if (did < 0 && errno != ECONNREFUSED)
			err(1, "send");
		at += did < 0 ? 0 : (size_t)did;
	}
}

static uint64_t take(int flags)
{
	uint64_t n;

	for (size_t at = 0; at < bytes;) {
		ssize_t got = recv(sock, to + at, bytes - at, flags);

		if (got == 0)
			pthread_exit(NULL); /* TCP: the peer of the helper has ended */
		if (got < 0 && errno != EAGAIN && errno != ECONNREFUSED && errno != EINTR)
			err(1, "recv");
		at += got < 0 ? 0 : (size_t)got;
	}
	memcpy(&n, to, sizeof(n));
	return n;
}

static void *helper(void *arg)
{
	for (;;)
		atomic_store_explicit(&word, take(0), memory_order_release);
	return arg;
}

static void wait_for(uint64_t n, const char *how)
{
	if (*how != 'h') {
		while (take(*how == 'b' ? 0 : MSG_DONTWAIT) != n)
			;
		if (*how == 'a')
			put(n | ACK);
	} else {
		while (atomic_load_explicit(&word, memory_order_acquire) != n)
			;
	}
}

static void open_udp(const struct sockaddr_in *local, const struct sockaddr_in *peer)
{
	sock = socket(AF_INET, SOCK_DGRAM, 0);
	if (sock < 0 || bind(sock, (void *)local, sizeof(*local)) ||
	    connect(sock, (void *)peer, sizeof(*peer)))
		err(1, "UDP");
}

static void open_tcp(const struct sockaddr_in *local, const struct sockaddr_in *peer,
		     int starts)
{
	int one = 1, s = socket(AF_INET, SOCK_STREAM, 0);

	setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (starts) {
		while (connect(s, (void *)peer, sizeof(*peer))) {
			if (errno != ECONNREFUSED)
				err(1, "connect");
			close(s);
			usleep(10000);
			s = socket(AF_INET, SOCK_STREAM, 0);
		}
		sock = s;
	} else if (bind(s, (void *)local, sizeof(*local)) || listen(s, 1) ||
		   (sock = accept(s, NULL, NULL)) < 0) {
		err(1, "accept");
	}
	setsockopt(sock, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

int main(int argc, char **argv)
{
	struct sockaddr_in local = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct sockaddr_in peer = local;
	int rounds, starts;
	pthread_t thread;
	double *us;

	if (argc > 2 && !strcmp(argv[1], "-s")) {
		bytes = strtoul(argv[2], NULL, 0);
		argv += 2;
		argc -= 2;
	}
	if (argc < 6 || bytes < LEAST || bytes > MOST)
		errx(1,
		     "usage: sock_pingpong [-s BYTES] udp|tcp spin|block|helper|ack ROUNDS "
		     "LOCAL PEER [start]");
	rounds = atoi(argv[3]);
	starts = argc > 6;
	inet_pton(AF_INET, argv[4], &local.sin_addr);
	inet_pton(AF_INET, argv[5], &peer.sin_addr);
	if (*argv[1] == 'u')
		open_udp(&local, &peer);
	else
		open_tcp(&local, &peer, starts);
	if (*argv[2] == 'h')
		pthread_create(&thread, NULL, helper, NULL);
	us = calloc((size_t)rounds, sizeof(*us));
	if (!us)
		err(1, "memory");
	for (int i = 0; i < rounds; i++) {
		uint64_t n = (uint64_t)i + 1;
		double began = clock_ns(CLOCK_MONOTONIC);

		if (starts)
			put(n);
		wait_for(n, argv[2]);
		if (!starts)
			put(n);
		us[i] = (clock_ns(CLOCK_MONOTONIC) - began) / 2e3;
	}
	if (starts)
		printf("%.2f\n", median(us, rounds));
	return 0;
}
