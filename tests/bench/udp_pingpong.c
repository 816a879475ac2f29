// SPDX-License-Identifier: BSD-2-Clause
/* udp_pingpong.c - what the sockets alone take: half the round trip of a small
 * datagram, the yardstick for ib_send_lat and ib_write_lat.
 *
 *   spin     each side spins on a non-blocking recv
 *   helper   a thread blocks in recv and writes a word; the program spins on
 *            that word, as ib_write_lat spins on its buffer
 *
 * udp_pingpong spin|helper ROUNDS LOCAL PEER [start]
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 18700, BYTES = 32 };

static int sock;
static struct sockaddr_in peer;
static _Atomic uint64_t word;

static void put(uint64_t n)
{
	char buf[BYTES] = { 0 };

	memcpy(buf, &n, sizeof(n));
	if (sendto(sock, buf, sizeof(buf), 0, (void *)&peer, sizeof(peer)) < 0 &&
	    errno != ECONNREFUSED)
		err(1, "sendto");
}

static uint64_t take(int flags)
{
	char buf[BYTES];
	uint64_t n;
	ssize_t got;

	do
		got = recv(sock, buf, sizeof(buf), flags);
	while (got < 0 && (errno == EAGAIN || errno == ECONNREFUSED || errno == EINTR));
	if (got != BYTES)
		err(1, "recv");
	memcpy(&n, buf, sizeof(n));
	return n;
}

static void *helper(void *arg)
{
	for (;;)
		atomic_store_explicit(&word, take(0), memory_order_release);
	return arg;
}

static void wait_for(uint64_t n, int helped)
{
	if (!helped) {
		while (take(MSG_DONTWAIT) != n)
			;
	} else {
		while (atomic_load_explicit(&word, memory_order_acquire) != n)
			;
	}
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
	struct sockaddr_in local = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int helped, rounds, starts;
	struct timespec t0, t1;
	pthread_t thread;
	double *us;

	if (argc < 5)
		errx(1, "usage: udp_pingpong spin|helper ROUNDS LOCAL PEER [start]");
	helped = !strcmp(argv[1], "helper");
	rounds = atoi(argv[2]);
	starts = argc > 5;
	peer = local;
	inet_pton(AF_INET, argv[3], &local.sin_addr);
	inet_pton(AF_INET, argv[4], &peer.sin_addr);
	sock = socket(AF_INET, SOCK_DGRAM, 0);
	if (sock < 0 || bind(sock, (void *)&local, sizeof(local)))
		err(1, "bind");
	if (helped)
		pthread_create(&thread, NULL, helper, NULL);
	us = calloc((size_t)rounds, sizeof(*us));
	if (!us)
		err(1, "memory");
	for (int i = 0; i < rounds; i++) {
		uint64_t n = (uint64_t)i + 1;

		clock_gettime(CLOCK_MONOTONIC, &t0);
		if (starts)
			put(n);
		wait_for(n, helped);
		if (!starts)
			put(n);
		clock_gettime(CLOCK_MONOTONIC, &t1);
		us[i] = ((double)(t1.tv_sec - t0.tv_sec) * 1e9 +
			 (double)(t1.tv_nsec - t0.tv_nsec)) / 2e3;
	}
	qsort(us, (size_t)rounds, sizeof(*us), by_value);
	if (starts)
		printf("%.2f\n", us[rounds / 2]);
	return 0;
}
