/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault_spec.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static void every_key_is_understood(void **state)
{
	struct fault_spec s;
	char err[160] = "";

	(void)state;
	assert_int_equal(
		fault_parse(&s,
			    "drop=0.01,dup=0.001,reorder=1,"
			    "delay=100us:0.1,corrupt=0.000001,nth=5,nth=7,seed=42",
			    err, sizeof(err)),
		0);
	for (int dir = 0; dir < FAULT_DIRS; dir++) {
		const struct fault_rules *r = &s.group[0].rules[dir];

		assert_int_equal(r->drop, 10000);
		assert_int_equal(r->dup, 1000);
		assert_int_equal(r->reorder, 1000000);
		assert_int_equal(r->delay, 100000);
		assert_int_equal(r->delay_ns, 100000);
		assert_int_equal(r->corrupt, 1);
		assert_int_equal(r->nth[0], 5);
		assert_int_equal(r->nth[1], 7);
		assert_int_equal(r->nth[2], 0);
	}
	assert_int_equal(s.seed, 42);
	assert_string_equal(err, "");
}

static void a_prefix_names_one_direction(void **state)
{
	struct fault_spec s;
	char err[160];

	(void)state;
	assert_int_equal(fault_parse(&s, "tx:drop=0.5,rx:delay=2ms,rx:nth=1,dup=1", err,
				     sizeof(err)),
			 0);
	assert_int_equal(s.group[0].rules[FAULT_TX].drop, 500000);
	assert_int_equal(s.group[0].rules[FAULT_RX].drop, 0);
	assert_int_equal(s.group[0].rules[FAULT_TX].delay, 0);
	assert_int_equal(s.group[0].rules[FAULT_RX].delay, 1000000);
	assert_int_equal(s.group[0].rules[FAULT_RX].delay_ns, 2000000);
	assert_int_equal(s.group[0].rules[FAULT_TX].nth[0], 0);
	assert_int_equal(s.group[0].rules[FAULT_RX].nth[0], 1);
	assert_int_equal(s.group[0].rules[FAULT_TX].dup, 1000000);
	assert_int_equal(s.group[0].rules[FAULT_RX].dup, 1000000);
	assert_int_equal(s.seed, 1);
}

static void the_newer_keys_are_understood(void **state)
{
	static const uint8_t v4[16] = { [10] = 0xff, 0xff, 10, 0, 0, 2 };
	const struct fault_rules *r;
	struct fault_spec s;
	char err[256] = "";

	(void)state;
	assert_int_equal(fault_parse(&s,
				     "burst=0.01:0.25:0.9:0.001,delay=2ms~300us,ecn=0.5,"
				     "tx:rate=100mbit:64k;qp=0x12ab,peer=10.0.0.2,"
				     "opcode=send+ack,at=2s,for=500ms,every=5s,drop=1;"
				     "peer=fe80::1,dup=1;peer=lid:7,dup=1",
				     err, sizeof(err)),
			 0);
	assert_int_equal(s.groups, 4);
	r = &s.group[0].rules[FAULT_TX];
	assert_int_equal(r->burst.to_bad, 10000);
	assert_int_equal(r->burst.to_good, 250000);
	assert_int_equal(r->burst.lost_bad, 900000);
	assert_int_equal(r->burst.lost_good, 1000);
	assert_int_equal(r->delay_ns, 2000000);
	assert_int_equal(r->jitter_ns, 300000);
	assert_int_equal(r->delay, 1000000);
	assert_int_equal(r->ecn, 500000);
	assert_int_equal(r->rate, 100000000);
	assert_int_equal(r->queue, 65536);
	assert_int_equal(s.group[0].rules[FAULT_RX].rate, 0);
	assert_true(s.group[1].has_qp && s.group[1].qp == 0x12ab);
	assert_true(s.group[1].has_ip);
	assert_memory_equal(s.group[1].ip, v4, 16);
	assert_int_equal(s.group[1].ops, FAULT_SEND | FAULT_ACK);
	assert_int_equal(s.group[1].at, 2000000000);
	assert_int_equal(s.group[1].len, 500000000);
	assert_int_equal(s.group[1].every, 5000000000);
	assert_int_equal(s.group[2].ip[0], 0xfe);
	assert_true(s.group[3].has_lid && s.group[3].lid == 7);
	assert_true(fault_is_any(&s));
	assert_int_equal(fault_parse(&s, "qp=5,at=1s,drop=0", err, sizeof(err)), 0);
	assert_false(fault_is_any(&s));
}

/* A text of another process opens no file; the sender puts the file's lines into it. */
static void a_file_becomes_text(void **state)
{
	char path[] = "/tmp/fault_specXXXXXX", spec[64], to[256], err[256];
	const char *const lines = "# QP PSN ITERATION WHAT\n\n"
				  "flow1 +4 1 drop\n 0x12 77 * corrupt response\n";
	int fd = mkstemp(path);
	struct fault_spec s;

	(void)state;
	assert_int_equal(write(fd, lines, strlen(lines)), strlen(lines));
	close(fd);
	snprintf(spec, sizeof(spec), "drop=0.1,events=%s;dup=1", path);
	assert_int_equal(fault_parse(&s, spec, err, sizeof(err)), 0);
	assert_int_equal(s.events, 2);
	assert_int_equal(s.groups, 2);
	assert_int_equal(fault_parse_closed(&s, spec, err, sizeof(err)), -EINVAL);
	assert_int_equal(fault_rewrite(to, sizeof(to), spec, FAULT_FILES_IN, err,
				       sizeof(err)),
			 0);
	assert_string_equal(to, "drop=0.1,event=flow1:+4:1:drop,"
				"event=0x000012:77:*:corrupt:response;dup=1");
	assert_int_equal(fault_parse_closed(&s, to, err, sizeof(err)), 0);
	assert_int_equal(s.events, 2);
	assert_true(s.event[1].response && s.event[1].qp == 0x12);
	snprintf(spec, sizeof(spec), "rx:events=%s", path);
	assert_int_equal(fault_rewrite(to, sizeof(to), spec, FAULT_FILES_IN, err,
				       sizeof(err)),
			 0);
	assert_int_equal(fault_parse_closed(&s, to, err, sizeof(err)), 0);
	assert_true(s.events == 2 && s.event[1].not_tx && !s.event[1].not_rx);
	assert_int_equal(fault_rewrite(to, 40, spec, FAULT_FILES_IN, err, sizeof(err)),
			 -E2BIG);
	unlink(path);
	assert_int_equal(fault_rewrite(to, sizeof(to), spec, FAULT_FILES_IN, err,
				       sizeof(err)),
			 -EINVAL);
	assert_non_null(strstr(err, path));
}

static void nothing_is_no_fault(void **state)
{
	struct fault_spec s, none = { .seed = 1, .groups = 1 };
	char err[160];

	(void)state;
	assert_int_equal(fault_parse(&s, "", err, sizeof(err)), 0);
	assert_false(fault_is_any(&s));
	assert_memory_equal(&s, &none, sizeof(s));
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *spec, *names;
	} bad[] = {
		{ "dropp=0.1", "did you mean drop?" },
		{ "bursts=0.1", "did you mean burst?" },
		{ "xyzzy=1", "there are drop, burst" },
		{ "burst=0.1", "burst wants two to four" },
		{ "burst=0.1:0.5:2", "burst wants" },
		{ "burst=0.1:0.5:1:0:0", "burst wants" },
		{ "delay=1ms~", "delay wants" },
		{ "delay=1ms~2ms", "delay wants" },
		{ "rate=100", "rate wants" },
		{ "rate=1bit", "rate wants" },
		{ "rate=1mbit:", "rate wants" },
		{ "rate=1mbit:0", "rate wants" },
		{ "rate=99999999gbit", "rate wants" },
		{ "qp=0", "qp wants" },
		{ "qp=0x1000000", "qp wants" },
		{ "tx:qp=5", "both directions" },
		{ "peer=10.0.0", "peer wants" },
		{ "peer=lid:0", "peer wants" },
		{ "peer=lid:65536", "peer wants" },
		{ "opcode=sned", "opcode wants" },
		{ "opcode=send+", "opcode wants" },
		{ "opcode=", "opcode wants" },
		{ "at=5", "at wants" },
		{ "for=0s", "for wants" },
		{ "every=1s", "how long each time?" },
		{ "for=2s,every=1s", "longer" },
		{ "event=1:2:3", "event wants" },
		{ "event=1:2:0:drop", "event wants" },
		{ "events=/nowhere/x", "/nowhere/x: No such file" },
		{ "drop=1;", "a group (;) is empty" },
		{ ";drop=1", "a group (;) is empty" },
		{ "a=1;b=1", "a=1" },
		{ "at=1s", "has no fault of packets" },
		{ "drop=1;qp=5,seed=3", "has no fault of packets" },
		{ "dup=1;dup=1;dup=1;dup=1;dup=1;dup=1;dup=1;dup=1;dup=1",
		  "more than 8" },
		{ "seed=1,dro=1", "no fault is called dro" },
		{ "drop", "'drop' is not KEY=VALUE" },
		{ "drop=", "drop wants a probability" },
		{ "drop=2", "'drop=2'" },
		{ "drop=1.1", "drop wants" },
		{ "drop=-0.1", "drop wants" },
		{ "drop=0,1", "'1' is not KEY=VALUE" },
		{ "drop=0.1x", "drop=0.1x" },
		{ "delay=100", "delay wants TIME" },
		{ "delay=100us:", "delay wants TIME" },
		{ "delay=100us:3", "delay wants TIME" },
		{ "delay=1001s", "delay wants TIME" },
		{ "delay=99999999999999999999s", "delay wants TIME" },
		{ "nth=0", "nth wants" },
		{ "nth=18446744073709551616", "nth wants" },
		{ "rx:seed=1", "both directions" },
		{ "seed=x", "seed wants a number" },
		{ "drop=1,", "ends with a comma" },
		{ ",drop=1", "'' is not KEY=VALUE" },
		{ "up:drop=1", "up:drop" },
		{ "tx:", "'tx:' is not KEY=VALUE" },
		{ "nth=1,nth=1,nth=1,nth=1,nth=1,nth=1,nth=1,nth=1,nth=1,nth=1,"
		  "nth=1,nth=1,nth=1,nth=1,nth=1,nth=1,nth=2",
		  "'nth=2'" },
	};
	struct fault_spec s = { .seed = 99 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		char err[512] = "";

		if (fault_parse(&s, bad[i].spec, err, sizeof(err)) != -EINVAL)
			fail_msg("'%s' is taken", bad[i].spec);
		if (!strstr(err, bad[i].names))
			fail_msg("'%s': '%s'", bad[i].spec, err);
		assert_int_equal(s.seed, 99);
	}
}

static void a_link_that_keeps_order_has_some(void **state)
{
	static const char *const bad[] = { "dup=0.1",
					   "rx:reorder=0.1",
					   "tx:delay=1ms:0.5",
					   "drop=0.1,dup=0.000001",
					   "qp=1,dup=0;reorder=0.1",
					   "event=*:1:1:dup" };
	struct fault_spec s = { .seed = 99 };
	char err[256] = "";

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		assert_int_equal(fault_parse_ordered(&s, bad[i], err, sizeof(err)),
				 -EINVAL);
		assert_non_null(strstr(err, "keep order"));
		assert_non_null(strstr(err, bad[i]));
	}
	assert_int_equal(fault_parse_ordered(&s, "drip=1", err, sizeof(err)), -EINVAL);
	assert_non_null(strstr(err, "drip"));
	assert_int_equal(s.seed, 99);
	assert_int_equal(fault_parse_ordered(&s, "drop=0.1,tx:corrupt=1,nth=3,delay=1ms",
					     err, sizeof(err)),
			 0);
	assert_int_equal(s.group[0].rules[FAULT_TX].corrupt, 1000000);
	assert_int_equal(s.group[0].rules[FAULT_RX].delay_ns, 1000000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_key_is_understood),
		cmocka_unit_test(a_prefix_names_one_direction),
		cmocka_unit_test(the_newer_keys_are_understood),
		cmocka_unit_test(a_file_becomes_text),
		cmocka_unit_test(nothing_is_no_fault),
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(a_link_that_keeps_order_has_some),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
