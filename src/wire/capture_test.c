/* SPDX-License-Identifier: BSD-2-Clause */
/* Every RoCE packet that Linux's rdma_rxe sent in tests/captures parses, has the ICRC
 * that we compute, and is rebuilt byte for byte from its field values.  URNIC_SOURCE_ROOT
 * leads to the directory. */
#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/aeth.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"
#include "wire/icrc.h"

enum {
	PACKETS = 792, /* in all captures; none may be skipped */
	ROCE_PORT = 4791,
	ETH_LEN = 14,
	ETH_IP4 = 0x0800,
	ETH_IP6 = 0x86dd,
};

/* A packet, extracted from its frame. */
struct roce {
	struct icrc_path path;
	bool v4;
	uint16_t ip_id;
	const uint8_t *bth;
	size_t len; /* BTH to ICRC */
};

static unsigned get16(const uint8_t *p)
{
	return (unsigned)p[0] << 8 | p[1];
}

/* Returns false if the frame is not RoCE v2. */
static bool roce_of_frame(struct roce *r, const uint8_t *f, size_t len)
{
	const uint8_t *ip = f + ETH_LEN, *udp;

	*r = (struct roce){ .v4 = get16(f + 12) == ETH_IP4 };
	if (len < ETH_LEN + 40)
		return false;
	if (r->v4 && ip[0] == 0x45 && ip[9] == 17) {
		static const uint8_t mapped[12] = { [10] = 0xff, 0xff };

		memcpy(r->path.src, mapped, 12);
		memcpy(r->path.dst, mapped, 12);
		memcpy(r->path.src + 12, ip + 12, 4);
		memcpy(r->path.dst + 12, ip + 16, 4);
		r->ip_id = (uint16_t)get16(ip + 4);
		udp = ip + 20;
	} else if (get16(f + 12) == ETH_IP6 && ip[6] == 17) {
		memcpy(r->path.src, ip + 8, 16);
		memcpy(r->path.dst, ip + 24, 16);
		udp = ip + 40;
	} else {
		return false;
	}
	r->path.sport = (uint16_t)get16(udp);
	r->path.dport = (uint16_t)get16(udp + 2);
	if (r->path.dport != ROCE_PORT)
		return false;
	r->bth = udp + 8;
	r->len = get16(udp + 4) - 8u;
	assert_true(r->len > ICRC_LEN);
	assert_true(r->bth + r->len <= f + len);
	return true;
}

/* Calls fn for each RoCE packet of a pcap file (Ethernet, either precision, this host's
 * byte order).  Returns their number. */
static int each_packet(const char *path, void (*fn)(const struct roce *r))
{
	static uint8_t frame[1 << 16];
	uint32_t head[6], rec[4];
	FILE *f = fopen(path, "rb");
	struct roce r;
	int n = 0;

	if (!f)
		fail_msg("cannot open %s", path);
	assert_int_equal(fread(head, sizeof(head), 1, f), 1);
	assert_true(head[0] == 0xa1b2c3d4 || head[0] == 0xa1b23c4d);
	assert_int_equal(head[5], 1); /* LINKTYPE_ETHERNET */
	while (fread(rec, sizeof(rec), 1, f) == 1) {
		assert_true(rec[2] <= sizeof(frame) && rec[2] == rec[3]);
		assert_int_equal(fread(frame, rec[2], 1, f), 1);
		if (!roce_of_frame(&r, frame, rec[2]))
			continue;
		fn(&r);
		n++;
	}
	fclose(f);
	return n;
}

static int each_capture(void (*fn)(const struct roce *r))
{
	const char *root = getenv("URNIC_SOURCE_ROOT");
	char dir[4096], path[4096 + 256 + 1];
	struct dirent *e;
	int n = 0;
	DIR *d;

#ifdef URNIC_SOURCE_ROOT
	if (!root)
		root = URNIC_SOURCE_ROOT;
#endif
	snprintf(dir, sizeof(dir), "%s/tests/captures", root ? root : ".");
	d = opendir(dir);
	if (!d)
		fail_msg("no %s: URNIC_SOURCE_ROOT is not set right", dir);
	while ((e = readdir(d))) {
		if (!strstr(e->d_name, ".pcap"))
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		n += each_packet(path, fn);
	}
	closedir(d);
	return n;
}

static void check_icrc(const struct roce *r)
{
	size_t n = r->len - ICRC_LEN;

	assert_int_equal(icrc_start(&r->path, r->ip_id, r->len, r->bth, n),
			 icrc_get(r->bth + n));
}

static void every_icrc_is_right(void **state)
{
	(void)state;
	assert_int_equal(each_capture(check_icrc), PACKETS);
}

static void check_solve(const struct roce *r)
{
	size_t n = r->len - ICRC_LEN;
	uint32_t with0 = icrc_start(&r->path, 0, r->len, r->bth, n);
	uint16_t id;

	if (!r->v4)
		return;
	assert_true(icrc_solve_ip_id(with0, icrc_get(r->bth + n), icrc_after_id(r->len),
				     &id));
	assert_int_equal(id, r->ip_id);
}

static void every_identification_is_solved_for(void **state)
{
	(void)state;
	assert_int_equal(each_capture(check_solve), PACKETS);
}

static void check_rebuild(const struct roce *r)
{
	uint8_t built[9000];
	size_t n = r->len - ICRC_LEN, len;
	struct ib_pkt pkt;
	uint32_t crc;

	assert_true(r->len <= sizeof(built));
	assert_int_equal(ib_parse(&pkt, r->bth, n), 0);
	if (ib_has(&pkt, IB_AETH))
		assert_true(aeth_valid(pkt.f.syndrome));
	len = ib_build(built, &pkt.f);
	assert_ptr_equal(pkt.payload, r->bth + len);

	crc = icrc_start(&r->path, r->ip_id, r->len, built, len);
	crc = icrc_add(crc, pkt.payload, pkt.payload_len);
	memcpy(built + len, pkt.payload, pkt.payload_len);
	len += pkt.payload_len;
	memset(built + len, 0, pkt.f.pad);
	crc = icrc_add(crc, built + len, pkt.f.pad);
	len += pkt.f.pad;
	icrc_end(crc, built + len);
	len += ICRC_LEN;

	assert_int_equal(len, r->len);
	assert_memory_equal(built, r->bth, len);
}

static void every_packet_is_rebuilt_from_its_fields(void **state)
{
	(void)state;
	assert_int_equal(each_capture(check_rebuild), PACKETS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_icrc_is_right),
		cmocka_unit_test(every_identification_is_solved_for),
		cmocka_unit_test(every_packet_is_rebuilt_from_its_fields),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
