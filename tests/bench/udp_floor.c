/* SPDX-License-Identifier: BSD-2-Clause */
/* udp_floor.c - what UDP leaves to a protocol that copies and has a CRC: the
 * yardstick for WRITEs over RoCE.  Segments of SEGMENT bytes of payload, with as many
 * more as BTH and ICRC have, go out by GSO and come in by GRO; each is copied and
 * gets or proves its CRC at either end.  One of 64 segments is acknowledged, which the
 * sender reads and does not wait for; nothing is sent again.  Prints what arrived well,
 *in Gb/s of payload.
 *
 *	udp_floor send|recv LOCAL PEER SEGMENT SECONDS
 *
 * The sender ends when the receiver has.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <isa-l/crc.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "bench.h"

enum { PORT = 18790, HEAD = 12, CRC = 4, MOST = 65000, MESSAGE = 65536, SEGMENTS = 64 };
enum { ACK_EVERY = 64, ACK = 20 }; /* segments for an ACK, and its bytes */

static uint8_t wire[1 << 16], user[2 * MESSAGE];

static int open_socket(char **v)
{
	struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	int s = socket(AF_INET, SOCK_DGRAM, 0);

	must(s >= 0 && inet_pton(AF_INET, v[2], &at.sin_addr) == 1 &&
		     !bind(s, (struct sockaddr *)&at, sizeof(at)),
	     v[2]);
	must(inet_pton(AF_INET, v[3], &at.sin_addr) == 1 &&
		     !connect(s, (struct sockaddr *)&at, sizeof(at)),
	     v[3]);
	return s;
}

static void send_all(int s, size_t segment)
{
	const size_t whole = HEAD + segment + CRC;
	size_t n = MOST / whole, at = 0, asked = 0;
	uint8_t ack[ACK];
	int gso = (int)whole;
	uint32_t crc;

	n = n < SEGMENTS ? n : SEGMENTS;
	must(!setsockopt(s, IPPROTO_UDP, UDP_SEGMENT, &gso, sizeof(gso)), "GSO");
	for (;;) {
		for (size_t i = 0; i < n; i++, at = (at + segment) % MESSAGE) {
			uint8_t *p = wire + i * whole;

			memcpy(p + HEAD, user + at, segment);
			crc = crc32_gzip_refl(0, p, HEAD + segment);
			memcpy(p + HEAD + segment, &crc, CRC);
		}
		if (send(s, wire, n * whole, 0) < 0) {
			if (errno == ECONNREFUSED)
				return;
			must(errno == ENOBUFS || errno == EAGAIN, "send");
		}
		for (asked += n; asked >= ACK_EVERY; asked -= ACK_EVERY)
			if (recv(s, ack, sizeof(ack), MSG_DONTWAIT) < 0 &&
			    errno == ECONNREFUSED)
				return;
	}
}

/* n more segments have come. */
static void acknowledge(int s, size_t n)
{
	static const uint8_t ack[ACK];
	static size_t owed;

	for (owed += n; owed >= ACK_EVERY; owed -= ACK_EVERY)
		must(send(s, ack, sizeof(ack), MSG_DONTWAIT) > 0 ||
			     errno == ECONNREFUSED || errno == EAGAIN || errno == ENOBUFS,
		     "ACK");
}

/* Returns how many bytes were payload that arrived unchanged. */
static size_t take(const uint8_t *p, size_t len, size_t segment)
{
	static size_t at;
	size_t good = 0;
	uint32_t crc;

	for (; len >= HEAD + segment + CRC; p += HEAD + segment + CRC) {
		len -= HEAD + segment + CRC;
		memcpy(&crc, p + HEAD + segment, CRC);
		if (crc32_gzip_refl(0, p, HEAD + segment) != crc)
			continue;
		memcpy(user + at, p + HEAD, segment);
		at = (at + segment) % MESSAGE;
		good += segment;
	}
	return good;
}

static double recv_all(int s, size_t segment, double seconds)
{
	int gro = 1, room = 8 << 20;
	double began = 0, now = 0, good = 0;
	ssize_t n;

	must(!setsockopt(s, IPPROTO_UDP, UDP_GRO, &gro, sizeof(gro)), "GRO");
	setsockopt(s, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	do {
		n = recv(s, wire, sizeof(wire), MSG_DONTWAIT);
		if (n < 0 && (errno == EAGAIN || errno == ECONNREFUSED)) {
			now = began > 0 ? clock_ns(CLOCK_MONOTONIC) : 0;
			continue;
		}
		must(n >= 0, "recv");
		good += (double)take(wire, (size_t)n, segment);
		acknowledge(s, (size_t)n / (HEAD + segment + CRC));
		now = clock_ns(CLOCK_MONOTONIC);
		if (began <= 0) /* the first datagram starts the clock */
			began = now, good = 0;
	} while (now - began < seconds * 1e9);
	return good * 8 / (now - began);
}

int main(int argc, char **argv)
{
	size_t segment;
	int s;

	if (argc != 6)
		errx(2, "usage: udp_floor send|recv LOCAL PEER SEGMENT SECONDS");
	segment = strtoul(argv[4], NULL, 0);
	if (segment == 0 || segment > 8192)
		errx(2, "segments of 1 to 8192 bytes");
	s = open_socket(argv);
	if (*argv[1] == 's')
		send_all(s, segment);
	else
		printf("%.3f\n", recv_all(s, segment, strtod(argv[5], NULL)));
	return 0;
}
