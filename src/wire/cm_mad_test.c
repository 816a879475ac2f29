/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "wire/cm_ip.h"
#include "wire/cm_mad.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"
#include "wire/icrc.h"

/* --- messages that Linux sent --------------------------------------------- */

struct seen {
	unsigned n;
	struct cm_msg m[16];
	uint32_t psn[2]; /* of the first request to the client, to the server */
};

enum { SERVER = 0x11 }; /* the last byte of its address, .11 or ::11 */

static void note_first(struct seen *s, const struct ib_pkt *pkt, uint8_t to)
{
	uint32_t *psn = &s->psn[to == 11 || to == SERVER];

	if (ib_is_request(pkt->op) && *psn == UINT32_MAX)
		*psn = pkt->f.psn;
}

/* The MAD in a frame of a capture, or NULL. */
static const uint8_t *mad_of(struct seen *s, const uint8_t *f, size_t len,
			     size_t *mad_len)
{
	size_t ip = f[12] == 0x08 ? 20 : 40;
	const uint8_t *udp = f + 14 + ip;
	struct ib_pkt pkt;
	size_t n;

	if (len < 14 + ip + 8 || udp[2] << 8 != (4791 & 0xff00) ||
	    udp[3] != (4791 & 0xff))
		return NULL;
	n = (size_t)(udp[4] << 8 | udp[5]) - 8;
	if (ib_parse(&pkt, udp + 8, n - ICRC_LEN))
		return NULL;
	if (pkt.f.dest_qp != QP_GSI) {
		note_first(s, &pkt, f[14 + ip - 1]);
		return NULL;
	}
	assert_int_equal(pkt.f.qkey, QKEY_GSI);
	*mad_len = pkt.payload_len;
	return pkt.payload;
}

/* Every CM message of the capture is rebuilt from its fields, byte for byte. */
static void rebuild(const char *name, struct seen *seen)
{
	static uint8_t frame[1 << 16];
	uint8_t built[MAD_LEN];
	uint32_t head[6], rec[4];
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/tests/captures/rxe-rdmacm-%s.pcap",
		 getenv("URNIC_SOURCE_ROOT"), name);
	f = fopen(path, "rb");
	assert_non_null(f);
	seen->n = 0;
	seen->psn[0] = seen->psn[1] = UINT32_MAX;
	assert_int_equal(fread(head, sizeof(head), 1, f), 1);
	while (fread(rec, sizeof(rec), 1, f) == 1) {
		const uint8_t *mad;
		size_t len;

		assert_true(rec[2] <= sizeof(frame));
		assert_int_equal(fread(frame, rec[2], 1, f), 1);
		mad = mad_of(seen, frame, rec[2], &len);
		if (!mad)
			continue;
		assert_true(seen->n < 16);
		assert_int_equal(cm_mad_parse(&seen->m[seen->n], mad, len), 0);
		cm_mad_build(built, &seen->m[seen->n++]);
		assert_memory_equal(built, mad, MAD_LEN);
	}
	fclose(f);
}

static void types_are(const struct seen *s, const enum cm_type *types, unsigned n)
{
	assert_int_equal(s->n, n);
	for (unsigned i = 0; i < n; i++)
		assert_int_equal(s->m[i].type, types[i]);
}

static const enum cm_type connection[] = { CM_REQ, CM_REP, CM_RTU, CM_DREQ, CM_DREP };

static void a_request_is_understood(const struct cm_msg *m, bool v6)
{
	static const uint8_t v4[4] = { 10, 77, 1, 12 };
	struct cm_ip ip;
	uint8_t again[CM_IP_HDR];

	assert_int_equal(m->service_id, cm_service_id(0x0106, 7174));
	assert_int_equal(cm_service_port(m->service_id), 7174);
	assert_int_equal(cm_service_space(m->service_id), 0x0106);
	assert_int_equal(m->remote_timeout, 0x14);
	assert_int_equal(m->local_timeout, 0x14);
	assert_int_equal(m->retry_count, 7);
	assert_int_equal(m->rnr_retry, 7);
	assert_int_equal(m->mtu, 3);
	assert_int_equal(m->max_cm_retries, 15);
	assert_int_equal(m->pkey, 0xffff);
	assert_int_equal(m->path.slid, 0xffff);
	assert_int_equal(m->path.hop_limit, 64);
	assert_int_equal(m->path.ack_timeout, 0x13);
	assert_int_equal(m->resources, 1);
	assert_int_equal(m->depth, 1);

	assert_int_equal(cm_ip_parse(&ip, m->private, cm_private_len(CM_REQ)), 0);
	assert_int_equal(ip.v6, v6);
	assert_memory_equal(ip.src, m->path.sgid, 16);
	assert_memory_equal(ip.dst, m->path.dgid, 16);
	if (!v6)
		assert_memory_equal(ip.src + 12, v4, 4);
	/* The flow label is computed from the ports. */
	assert_int_equal(m->path.flow_label, (ip.src_port * 31u + 7174u) & 0xfffff);
	cm_ip_build(again, &ip);
	assert_memory_equal(again, m->private, CM_IP_HDR);
}

static void rping(void **state)
{
	struct seen s;

	(void)state;
	rebuild("rping", &s);
	types_are(&s, connection, 5);
	a_request_is_understood(&s.m[0], false);
	assert_int_equal(s.m[1].remote_id, s.m[0].local_id);
	assert_int_equal(s.m[1].ack_delay, 15);
	assert_int_equal(s.m[2].remote_id, s.m[1].local_id);
	assert_int_equal(s.m[3].qpn, s.m[1].qpn);
	/* The client's QP begins with the PSN of the REP, the server's with that of the
	 * REQ. */
	assert_int_equal(s.psn[1], s.m[1].psn);
	assert_int_equal(s.psn[0], s.m[0].psn);
	rebuild("rping-ipv6", &s);
	types_are(&s, connection, 5);
	a_request_is_understood(&s.m[0], true);
}

static void ucmatose(void **state)
{
	struct seen s;

	(void)state;
	rebuild("ucmatose", &s);
	types_are(&s, connection, 5);
}

static void udaddy(void **state)
{
	static const enum cm_type sidr[] = { CM_SIDR_REQ, CM_SIDR_REP };
	struct seen s;

	(void)state;
	rebuild("udaddy", &s);
	types_are(&s, sidr, 2);
	assert_int_equal(cm_service_space(s.m[0].service_id), 0x0111);
	assert_int_equal(s.m[1].remote_id, s.m[0].local_id);
	assert_int_equal(s.m[1].qkey, 0x01234567);
	assert_int_equal(s.m[1].service_id, s.m[0].service_id);
	assert_int_equal(s.m[1].reason, CM_SIDR_OK);
}

static void reject(void **state)
{
	static const enum cm_type rejected[] = { CM_REQ, CM_REJ };
	struct seen s;

	(void)state;
	rebuild("reject", &s);
	types_are(&s, rejected, 2);
	assert_int_equal(s.m[1].reason, CM_REJ_INVALID_SERVICE);
	assert_int_equal(s.m[1].about, CM_ABOUT_REQ);
	assert_int_equal(s.m[1].local_id, 0);
	assert_int_equal(s.m[1].remote_id, s.m[0].local_id);
}

/* --- messages that nobody sends ------------------------------------------- */

static void header_is_checked(void **state)
{
	static const struct {
		unsigned at;
		uint8_t wrong;
	} rows[] = {
		{ 0, 2 }, { 1, 3 }, { 2, 1 }, { 3, 0x83 }, { 17, 0x1b }, { 16, 1 },
	};
	struct cm_msg m = { .type = CM_RTU, .local_id = 1 }, out = { .tid = 77 };
	uint8_t mad[MAD_LEN];

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		cm_mad_build(mad, &m);
		mad[rows[i].at] = rows[i].wrong;
		assert_int_equal(cm_mad_parse(&out, mad, MAD_LEN), -EPROTO);
	}
	cm_mad_build(mad, &m);
	assert_int_equal(cm_mad_parse(&out, mad, MAD_LEN - 1), -EPROTO);
	assert_int_equal(cm_mad_parse(&out, mad, MAD_LEN + 1), -EPROTO);
	assert_int_equal(out.tid, 77);
	assert_int_equal(cm_mad_parse(&out, mad, MAD_LEN), 0);
	assert_int_equal(out.type, CM_RTU);
}

/* Each bit of a message belongs to one field at most: a message parsed from random bytes
 * and built again parses to the same. */
static void fields_do_not_overlap(void **state)
{
	uint8_t mad[MAD_LEN], again[MAD_LEN];
	struct cm_msg m, n;

	(void)state;
	srand(1);
	for (unsigned type = 0; type < CM_TYPES; type++) {
		for (int round = 0; round < 200; round++) {
			m = (struct cm_msg){ .type = (enum cm_type)type };
			cm_mad_build(mad, &m);
			for (unsigned i = MAD_HDR; i < MAD_LEN; i++)
				mad[i] = (uint8_t)rand();
			assert_int_equal(cm_mad_parse(&m, mad, MAD_LEN), 0);
			cm_mad_build(again, &m);
			assert_int_equal(cm_mad_parse(&n, again, MAD_LEN), 0);
			assert_memory_equal(&m, &n, sizeof(m));
		}
	}
}

static void pieces_of_a_vendor_id(void **state)
{
	static const enum cm_type types[] = { CM_REQ, CM_REP, CM_SIDR_REP };
	uint8_t mad[MAD_LEN];

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct cm_msg m = { .type = types[i],
				    .vendor_id = 0x123456,
				    .attr_mod = 0xabcd };

		cm_mad_build(mad, &m);
		m.vendor_id = 0;
		assert_int_equal(cm_mad_parse(&m, mad, MAD_LEN), 0);
		assert_int_equal(m.vendor_id, 0x123456);
		assert_int_equal(m.attr_mod, 0xabcd);
	}
}

static void ip_header_is_checked(void **state)
{
	struct cm_ip ip = { .v6 = true, .src_port = 7 };
	uint8_t at[CM_IP_HDR];

	(void)state;
	cm_ip_build(at, &ip);
	assert_int_equal(cm_ip_parse(&ip, at, CM_IP_HDR - 1), -EPROTO);
	at[1] = 0x50;
	assert_int_equal(cm_ip_parse(&ip, at, CM_IP_HDR), -EPROTO);
	at[1] = 0x40;
	at[0] = 0x10;
	assert_int_equal(cm_ip_parse(&ip, at, CM_IP_HDR), -EPROTO);
	at[0] = 0;
	assert_int_equal(cm_ip_parse(&ip, at, CM_IP_HDR), 0);
	assert_false(ip.v6);
	assert_int_equal(ip.src[10], 0xff);
	assert_int_equal(cm_service_space(UINT64_C(1) << 63 | 0x01061c06), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(rping),
		cmocka_unit_test(ucmatose),
		cmocka_unit_test(udaddy),
		cmocka_unit_test(reject),
		cmocka_unit_test(header_is_checked),
		cmocka_unit_test(fields_do_not_overlap),
		cmocka_unit_test(pieces_of_a_vendor_id),
		cmocka_unit_test(ip_header_is_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
