/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "ib/ib.h"
#include "ib/ib_qp.h"
#include "ib/sim.h"
#include "sys/mark.h"
#include "wire/ib_hdr.h"
#include "wire/ib_pkt.h"

static void says(uint8_t opcode, size_t len, const char *want)
{
	uint8_t bytes[64] = { 0 };
	struct bth *bth = (struct bth *)bytes;
	struct dgram d = {
		.len = (uint32_t)len, .iovcnt = 1, .iov = &d.one, .one = { bytes, len }
	};
	char text[128];

	bth->opcode = opcode;
	bth->dest_qp = be24(0xa01);
	bth->psn = be24(0xffffff);
	ib_describe(&d, text, sizeof(text));
	assert_string_equal(text, want);
}

static void packets(void **state)
{
	(void)state;
	says(0x04, 40, "RC SEND_ONLY to QP 0x000a01, PSN 16777215, 40 bytes");
	says(0x11, 20, "RC ACK to QP 0x000a01, PSN 16777215, 20 bytes");
	says(0x2a, 40, "UC WRITE_ONLY to QP 0x000a01, PSN 16777215, 40 bytes");
	says(0x64, 40, "UD SEND_ONLY to QP 0x000a01, PSN 16777215, 40 bytes");
	says(0x81, 32, "CNP to QP 0x000a01, PSN 16777215, 32 bytes");
}

/* Opcodes without a meaning, unknown services, less than a BTH. */
static void others(void **state)
{
	(void)state;
	says(0x1f, 40, "opcode 0x1f to QP 0x000a01, PSN 16777215, 40 bytes");
	says(0xe4, 40, "opcode 0xe4 to QP 0x000a01, PSN 16777215, 40 bytes");
	says(0x04, 12, "RC SEND_ONLY to QP 0x000a01, PSN 16777215, 12 bytes");
	says(0x04, 11, "no BTH, 11 bytes");
}

/* --- QPs ------------------------------------------------------------------- */

static const struct sim_conf conf = { .timeout = 10, .retry_cnt = 5, .rnr_retry = 6 };

static void a_connected_qp(void **state)
{
	struct sim *s = sim_open(&conf);
	struct sim_pair p = sim_pair(s, IBV_QPT_RC, &conf);
	const struct ib_req *r = &((const struct ib_qp *)p.qp[0]->tp.state)->req;
	char want[128], text[512], cut[20];

	(void)state;
	ib_describe_qp(p.qp[0], text, sizeof(text));
	ib_describe_qp(p.qp[0], cut, sizeof(cut));
	assert_memory_equal(cut, text, sizeof(cut) - 1);
	assert_int_equal(cut[sizeof(cut) - 1], '\0');
	mark_drop(text);
	snprintf(
		want, sizeof(want),
		"oldest PSN without an ACK %u, next %u, never sent %u; bytes in flight 0, "
		"retries left 5, RNR 6; ",
		r->s.una, r->at.psn, r->at.max_psn);
	assert_memory_equal(text, want, strlen(want));
	sim_unpair(s, &p);
	sim_close(s);
}

static void a_qp_of_datagrams(void **state)
{
	struct sim *s = sim_open(&conf);
	struct sim_pair p = sim_pair(s, IBV_QPT_UD, &conf);
	char want[64], text[256];

	(void)state;
	ib_describe_qp(p.qp[0], text, sizeof(text));
	mark_drop(text);
	snprintf(want, sizeof(want), "next PSN %u",
		 ((const struct ib_qp *)p.qp[0]->tp.state)->req.at.psn);
	assert_string_equal(text, want);
	sim_unpair(s, &p);
	sim_close(s);
}

static void names_peer(const struct sim_conf *c, const char *fmt, bool global)
{
	struct sim *s = sim_open(c);
	struct sim_pair p = sim_pair(s, IBV_QPT_RC, c);
	char want[IB_PEER_LEN], text[IB_PEER_LEN];

	p.qp[0]->attr.ah_attr.is_global = global;
	if (global && c->infiniband)
		p.qp[0]->attr.ah_attr.grh.dgid.raw[15] = 7;
	snprintf(want, sizeof(want), fmt, p.qp[1]->qpn, p.qp[0]->attr.ah_attr.dlid);
	assert_string_equal(ib_peer_text(ib_qp(p.qp[0]), text), want);
	sim_unpair(s, &p);
	sim_close(s);
}

static void the_other_end(void **state)
{
	const struct sim_conf v6 = { .ipv6 = true }, ib = { .infiniband = true };

	(void)state;
	names_peer(&conf, "QP 0x%06x at 10.0.0.2", true);
	names_peer(&v6, "QP 0x%06x at fe80::2", true);
	names_peer(&ib, "QP 0x%06x at LID %u", false);
	names_peer(&ib, "QP 0x%06x at LID %u, GID ::7", true);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(packets),	  cmocka_unit_test(others),
		cmocka_unit_test(a_connected_qp), cmocka_unit_test(a_qp_of_datagrams),
		cmocka_unit_test(the_other_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
