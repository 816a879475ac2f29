/* SPDX-License-Identifier: BSD-2-Clause */
/* Every byte that Linux's siw sent in tests/captures is an MPA hello or an FPDU that
 * parses and is rebuilt byte for byte from its values; and our setup, given the same
 * requests, answers as siw did.  URNIC_SOURCE_ROOT leads to the directory. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "iwarp/iwarp.h"
#include "wire/ddp.h"
#include "wire/mpa.h"
#include "wire/rdmap.h"

enum {
	ETH_LEN = 14,
	ETH_IP4 = 0x0800,
	ETH_IP6 = 0x86dd,
	STREAM_MAX = 1 << 17,
	STREAMS = 8
};

/* The totals of all captures; none may be skipped. */
enum { HELLOS = 30, FPDUS = 318, BYTES = 123684 };

/* One direction of a connection. */
struct stream {
	uint32_t ports; /* from, to */
	uint32_t seq;	/* next expected */
	size_t n;
	uint8_t data[STREAM_MAX];
};

static struct stream stream[STREAMS];
static unsigned hellos, fpdus, bytes;
static bool crc_agreed;

static unsigned get16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

static uint32_t get32(const uint8_t *p)
{
	return (uint32_t)get16(p) << 16 | get16(p + 2);
}

static struct stream *stream_of(uint32_t ports)
{
	for (int i = 0; i < STREAMS; i++) {
		if (stream[i].ports == 0)
			stream[i].ports = ports;
		if (stream[i].ports == ports)
			return &stream[i];
	}
	fail_msg("too many connections");
	return NULL;
}

static void add(uint32_t ports, uint32_t seq, bool syn, const uint8_t *p, size_t n)
{
	struct stream *s = stream_of(ports);

	if (syn)
		s->seq = seq + 1;
	if (n == 0 || seq + n == s->seq) /* a retransmission */
		return;
	assert_int_equal(seq, s->seq);
	assert_true(s->n + n <= STREAM_MAX);
	memcpy(s->data + s->n, p, n);
	s->n += n;
	s->seq += (uint32_t)n;
}

static void add_frame(const uint8_t *f, size_t len)
{
	const uint8_t *ip = f + ETH_LEN, *tcp, *end;

	assert_true(len >= ETH_LEN + 40);
	if (get16(f + 12) == ETH_IP4 && ip[0] == 0x45 && ip[9] == 6) {
		tcp = ip + 20;
		end = ip + get16(ip + 2);
	} else if (get16(f + 12) == ETH_IP6 && ip[6] == 6) {
		tcp = ip + 40;
		end = ip + 40 + get16(ip + 4);
	} else {
		return;
	}
	assert_true(end <= f + len);
	add(get32(tcp), get32(tcp + 4), tcp[13] & 2, tcp + (tcp[12] >> 4) * 4,
	    (size_t)(end - tcp) - (tcp[12] >> 4) * 4u);
}

static void read_capture(const char *path)
{
	static uint8_t frame[1 << 16];
	uint32_t head[6], rec[4];
	FILE *f = fopen(path, "rb");

	if (!f)
		fail_msg("cannot open %s", path);
	memset(stream, 0, sizeof(stream));
	assert_int_equal(fread(head, sizeof(head), 1, f), 1);
	assert_int_equal(head[5], 1); /* LINKTYPE_ETHERNET */
	while (fread(rec, sizeof(rec), 1, f) == 1) {
		assert_true(rec[2] <= sizeof(frame) && rec[2] == rec[3]);
		assert_int_equal(fread(frame, rec[2], 1, f), 1);
		add_frame(frame, rec[2]);
	}
	fclose(f);
}

static size_t check_hello(const uint8_t *at, size_t n)
{
	uint8_t built[MPA_HELLO_MAX];
	size_t len = mpa_hello_need(at, n);
	struct mpa_hello h;

	assert_true(len >= MPA_HELLO_LEN && len <= n);
	assert_int_equal(mpa_hello_parse(&h, at, len), 0);
	assert_int_equal(mpa_hello_build(built, &h), len);
	assert_memory_equal(built, at, len);
	crc_agreed = h.flags & MPA_CRC;
	hellos++;
	return len;
}

static size_t rebuild_body(uint8_t *at, unsigned opcode, const uint8_t *body, size_t n)
{
	struct rdmap_read r;

	if (opcode == RDMAP_READ_REQUEST) {
		assert_int_equal(n, RDMAP_READ_LEN);
		rdmap_read_parse(&r, body);
		rdmap_read_build(at, &r);
		return RDMAP_READ_LEN;
	}
	memcpy(at, body, n);
	return n;
}

static size_t check_fpdu(const uint8_t *at, size_t n)
{
	uint8_t built[MPA_FPDU_MAX];
	size_t ulpdu, len, body;
	const struct rdmap_op *op;
	struct ddp d;
	int hdr;

	assert_true(n >= 2);
	ulpdu = get16(at);
	len = mpa_fpdu_len(ulpdu);
	assert_true(len <= n);
	hdr = ddp_parse(&d, at + 2, ulpdu);
	assert_true(hdr > 0);
	assert_int_equal(d.version, DDP_VERSION);
	assert_int_equal(rdmap_version(d.ulp), RDMAP_VERSION);
	op = rdmap_op(rdmap_opcode(d.ulp));
	assert_non_null(op);
	assert_int_equal(op->tagged, d.tagged);
	if (!d.tagged)
		assert_int_equal(op->queue, d.qn);

	built[0] = (uint8_t)(ulpdu >> 8);
	built[1] = (uint8_t)ulpdu;
	body = 2 + ddp_build(built + 2, &d);
	assert_int_equal(body, 2 + hdr);
	body += rebuild_body(built + body, rdmap_opcode(d.ulp), at + body,
			     ulpdu - (size_t)hdr);
	/* siw's pad is not always 0; its CRC covers what is there. */
	memcpy(built + body, at + body, mpa_pad(ulpdu));
	memset(built + len - MPA_CRC_LEN, 0, MPA_CRC_LEN);
	if (crc_agreed)
		mpa_crc_put(mpa_crc(MPA_CRC_START, built, len - MPA_CRC_LEN),
			    built + len - MPA_CRC_LEN);
	assert_memory_equal(built, at, len);
	fpdus++;
	return len;
}

static void check_stream(const struct stream *s)
{
	size_t at = 0;

	if (s->n)
		at = check_hello(s->data, s->n);
	while (at < s->n)
		at += check_fpdu(s->data + at, s->n - at);
	bytes += (unsigned)s->n;
}

static const char *captures(void)
{
	static char dir[4096];
	const char *root = getenv("URNIC_SOURCE_ROOT");

	snprintf(dir, sizeof(dir), "%s/tests/captures", root ? root : ".");
	return dir;
}

static void every_byte_is_rebuilt(void **state)
{
	const char *dir = captures();
	char path[4096 + 256 + 1];
	struct dirent *e;
	DIR *d;

	(void)state;
	d = opendir(dir);
	if (!d)
		fail_msg("no %s: URNIC_SOURCE_ROOT is not set right", dir);
	while ((e = readdir(d))) {
		if (strncmp(e->d_name, "siw-", 4))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		read_capture(path);
		/* The reply tells whether the connection has CRCs; the request need
		 * not. */
		for (int i = 0; i < STREAMS; i++)
			check_stream(&stream[i]);
	}
	closedir(d);
	assert_int_equal(hellos, HELLOS);
	assert_int_equal(fpdus, FPDUS);
	assert_int_equal(bytes, BYTES);
}

/* What both ends of each connection were configured to want: siw's module parameters, the
 * program's depths. */
/* clang-format off */
static const struct {
	const char *file;
	unsigned n;
	struct iw_offer want[2];
} told[] = {
#define V2 .revision = 2
	{ "rping", 1, { { V2, .ird = 1, .ord = 1 } } },
	{ "rping-ipv6", 1, { { V2, .ird = 1, .ord = 1 } } },
	{ "rping-crc", 1, { { V2, .crc = true, .ird = 1, .ord = 1 } } },
	{ "rping-crc-p2p", 1, { { V2, .crc = true, .ird = 1, .ord = 1,
				  .rtr = MPA_RTR_WRITE | MPA_RTR_READ } } },
	{ "rping-mpav1", 1, { { .revision = 1 } } },
	{ "send", 2, { { V2 }, { V2 } } },
	{ "write", 2, { { V2 }, { V2 } } },
	{ "write-mtu4200", 2, { { V2 }, { V2 } } },
	{ "write-crc", 2, { { V2, .crc = true }, { V2, .crc = true } } },
	{ "read", 2, { { V2 }, { V2, .ird = 128, .ord = 128 } } },
#undef V2
};
/* clang-format on */

static void as_said(struct iw_setup *s, const struct stream *said)
{
	struct iovec v = iw_setup_out(s);

	assert_true(v.iov_len >= MPA_HELLO_LEN && v.iov_len <= said->n);
	assert_memory_equal(v.iov_base, said->data, v.iov_len);
	assert_int_equal(mpa_hello_need(said->data, said->n), v.iov_len);
}

static void same_setup(struct iw_offer want, const struct stream *request,
		       const struct stream *reply)
{
	static struct iw_setup s;
	struct iovec v;

	assert_int_equal(iw_setup_start(&s, &want), 0);
	as_said(&s, request);
	iw_setup_listen(&s);
	for (size_t at = 0; (v = iw_setup_room(&s)).iov_len; at += v.iov_len) {
		memcpy(v.iov_base, request->data + at, v.iov_len);
		iw_setup_received(&s, v.iov_len);
	}
	want.rtr = 0;
	assert_int_equal(iw_setup_accept(&s, &want), 0);
	as_said(&s, reply);
}

static void we_say_what_siw_said(void **state)
{
	unsigned n = 0;

	(void)state;
	for (size_t i = 0; i < sizeof(told) / sizeof(told[0]); i++) {
		char path[4096 + 64];

		snprintf(path, sizeof(path), "%s/siw-%s.pcap", captures(), told[i].file);
		read_capture(path);
		for (unsigned j = 0; j < told[i].n; j++, n += 2)
			same_setup(told[i].want[j], &stream[2 * j], &stream[2 * j + 1]);
	}
	assert_int_equal(n, HELLOS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_byte_is_rebuilt),
		cmocka_unit_test(we_say_what_siw_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
