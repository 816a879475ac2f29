/* SPDX-License-Identifier: BSD-2-Clause */
/* fabric_pcap.c - urnic fabric pcap: writes the packets that cross links of a running
 * fabric to a pcapng file, with link type ERF, since tshark does not read InfiniBand's.
 */
#include <argp.h>
#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fabric/port/plug.h"
#include "fabric_cmd.h"
#include "net/pcapng.h"
#include "options.h"
#include "urnic.h"
#include "wire/erf.h"

enum { MESSAGE = 65536, AFTER_STOP = 256, FAILED = 1 };

struct options {
	const char *name, *word[3];
	unsigned words;
	unsigned long count; /* packets; 0: until the user interrupts */
};

static const struct argp_option options[] = {
	{ "fabric", 'F', "NAME", 0, "the fabric; default: URNIC_FABRIC", 0 },
	{ "count", 'c', "N", 0, "end after N packets", 0 },
	{ 0 },
};

static bool parse_number(const char *text, unsigned long *out)
{
	char *end;

	errno = 0;
	*out = strtoul(text, &end, 10);
	return !errno && *text >= '0' && *text <= '9' && !*end;
}

static error_t parse_option(int opt, char *arg, struct argp_state *state)
{
	struct options *o = state->input;

	switch (opt) {
	case 'F':
		o->name = arg;
		return 0;
	case 'c':
		if (!parse_number(arg, &o->count) || !o->count)
			argp_error(state, "expected a number of packets, not '%s'", arg);
		return 0;
	case ARGP_KEY_ARG:
		if (o->words == 3)
			argp_error(state, "'%s' is one word too many", arg);
		o->word[o->words++] = arg;
		return 0;
	case ARGP_KEY_END:
		if (!o->words)
			argp_error(state, "no file is named");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static void write_head(FILE *to)
{
	uint8_t head[PCAPNG_SECTION_MAX + PCAPNG_INTERFACE_MAX];
	size_t n = pcapng_section(head);

	n += pcapng_interface(head + n, PCAPNG_IB, NULL);
	fwrite(head, n, 1, to);
}

static void write_record(FILE *to, const struct erf *h, const uint8_t *bytes)
{
	static uint8_t block[MESSAGE + PCAPNG_EPB_MORE];

	fwrite(block, pcapng_record(block, bytes, get_be16(h->rlen), 0, erf_time(h)), 1,
	       to);
}

/* A capture's counts; lost: packets for which the fabric had no room. */
struct done {
	unsigned long packets, lost, max;
};

/* Writes the records of a message; false: the message does not hold whole records. */
static bool write_records(FILE *to, const uint8_t *msg, size_t n, struct done *done)
{
	while (n && (!done->max || done->packets < done->max)) {
		struct erf h;

		if (n < sizeof(h))
			return false;
		memcpy(&h, msg, sizeof(h));
		if (get_be16(h.rlen) < sizeof(h) || get_be16(h.rlen) > n)
			return false;
		write_record(to, &h, msg);
		done->packets++;
		done->lost += get_be16(h.lost);
		msg += get_be16(h.rlen);
		n -= get_be16(h.rlen);
	}
	return fflush(to) == 0;
}

/* Captures until max packets are there, the fabric ends, or the user interrupts; then it
 * also takes what the fabric still holds.  Returns 0 or -errno. */
static int capture(int fd, int stop, FILE *to, struct done *done)
{
	static uint8_t msg[MESSAGE];
	struct pollfd p[2] = { { .fd = fd, .events = POLLIN },
			       { .fd = stop, .events = POLLIN } };

	unsigned left =
		AFTER_STOP; /* messages to read after a stop: all that a fabric holds */

	while ((!done->max || done->packets < done->max) && left) {
		size_t need;
		long n;

		if (poll(p, 2, -1) < 0 && errno != EINTR)
			return -errno;
		n = plug_recv(fd, msg, sizeof(msg), &need);
		if (n == -EWOULDBLOCK && p[1].revents)
			return 0;
		left -= !!p[1].revents;
		if (n == -EWOULDBLOCK)
			continue;
		if (n < 0)
			return (int)n;
		if (!write_records(to, msg, (size_t)n, done))
			return ferror(to) ? -errno : -EPROTO;
	}
	return 0;
}

int fabric_capture(const char *who, const char *fabric, const char *node, uint32_t port,
		   const char *file, unsigned long max)
{
	struct done done = { .max = max };
	int stop = fabric_stop_signals(), rc, fd = plug_capture(fabric, node, port);
	FILE *to;

	if (fd < 0) {
		fprintf(stderr, "%s: fabric %s: %s\n", who, fabric, fabric_why(fd));
		return FAILED;
	}
	to = strcmp(file, "-") == 0 ? stdout : fopen(file, "we");
	if (!to) {
		fprintf(stderr, "%s: %s: %s\n", who, file, strerror(errno));
		return FAILED;
	}
	write_head(to);
	fflush(to);
	fprintf(stderr, "%s: the capture has begun; Ctrl-C ends it\n", who);
	rc = stop < 0 ? -errno : capture(fd, stop, to, &done);
	if (fclose(to) && !rc)
		rc = -errno;
	close(fd);
	if (rc == -EPIPE) /* the reader has left */
		rc = 0;
	fprintf(stderr, "%s: %lu packets, %lu lost%s%s\n", who, done.packets, done.lost,
		rc ? ": " : "", rc ? fabric_why(rc) : "");
	return rc && rc != -EIO ? FAILED : 0;
}

static int capture_packets(const struct options *o, uint32_t port)
{
	return fabric_capture("urnic fabric pcap", o->name,
			      o->words > 1 ? o->word[1] : "", port, o->word[0], o->count);
}

int cmd_fabric_pcap(int argc, char **argv)
{
	static const struct argp argp = {
		.options = options,
		.parser = parse_option,
		.args_doc = "FILE [NODE [PORT]]",
		.doc = "Capture the packets that cross the links of a running fabric, "
		       "of one node, or of one port, in both directions; a packet "
		       "that crosses several links is captured at each.  tshark reads "
		       "FILE, whose link type is ERF; - is standard output.\vIt ends "
		       "when it is interrupted, or the fabric ends.",
	};
	struct options o = { 0 };
	unsigned long port = 0;

	options_parse(&argp, argc, argv, 0, &o);
	if (o.words == 3 && (!parse_number(o.word[2], &port) || !port || port > 254)) {
		fprintf(stderr,
			"urnic fabric pcap: expected the number of a port, not '%s'\n",
			o.word[2]);
		return EXIT_USAGE;
	}
	o.name = fabric_named(o.name);
	return o.name ? capture_packets(&o, (uint32_t)port) : EXIT_USAGE;
}
