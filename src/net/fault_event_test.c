/* SPDX-License-Identifier: BSD-2-Clause */
#include "net/fault_event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "wire/ib_hdr.h"
#include "wire/ib_opcode.h"

static void lines_are_understood(void **state)
{
	struct fault_event e;
	char text[64];

	(void)state;
	assert_null(fault_event_parse(&e, " 0x12 \t100 2 drop\n", ' '));
	assert_int_equal(e.qp, 0x12);
	assert_int_equal(e.psn, 100);
	assert_int_equal(e.iteration, 2);
	assert_int_equal(e.what, FAULT_DROP);
	assert_false(e.is_flow || e.relative || e.response);
	assert_null(fault_event_parse(&e, "flow3:+0:*:ecn:response", ':'));
	assert_true(e.is_flow && e.relative && e.response && e.qp == 3 && !e.iteration);
	assert_int_equal(fault_event_write(text, sizeof(text), &e, ' '), 23);
	assert_string_equal(text, "flow3 +0 * ecn response");
	assert_null(fault_event_parse(&e, "* 0xffffff 1 reorder", ' '));
	assert_int_equal(e.qp, 0);
}

static void what_is_wrong_is_refused(void **state)
{
	static const char *const bad[] = {
		"",
		"1",
		"1 2 3",
		"1 2 3 melt",
		"0 2 3 drop",
		"flow0 2 3 drop",
		"1 -2 3 drop",
		"1 2 0 drop",
		"1 2 3 drop x",
		"1 2 70000 drop",
		"1 0x1000000 1 drop",
		"flow 1 1 drop",
		"1 2 3 drop response more",
		"0x 1 1 drop",
	};
	struct fault_event e = { .qp = 99 };

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		if (!fault_event_parse(&e, bad[i], ' '))
			fail_msg("'%s' is taken", bad[i]);
		assert_int_equal(e.qp, 99);
	}
}

static void a_wrong_line_of_a_file_is_named(void **state)
{
	char path[] = "/tmp/fault_eventXXXXXX", err[128];
	const char *const text = "# a comment\n1 1 1 drop\n\n1 1 drop\n";
	struct fault_event v[2];
	unsigned n = 0;
	int fd = mkstemp(path);

	(void)state;
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
	assert_true(fault_events_read(path, v, &n, 2, err, sizeof(err)) < 0);
	assert_non_null(strstr(err, "line 4"));
	n = 0;
	assert_true(fault_events_read(path, v, &n, 0, err, sizeof(err)) < 0);
	assert_non_null(strstr(err, "too many"));
	unlink(path);
	assert_true(fault_events_read("/tmp", v, &n, 2, err, sizeof(err)) < 0);
}

/* A comment may be long; a file without lines is no list. */
static void long_lines_of_a_file(void **state)
{
	char path[] = "/tmp/fault_eventXXXXXX", text[1024], err[128];
	struct fault_event v[2];
	unsigned n = 0;
	int fd = mkstemp(path);

	(void)state;
	memset(text, 'x', sizeof(text));
	memcpy(text, " #", 2);
	assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	assert_int_equal(write(fd, "\n1 1 1 drop", 11), 11);
	assert_int_equal(fault_events_read(path, v, &n, 2, err, sizeof(err)), 0);
	assert_int_equal(n, 1);
	assert_int_equal(write(fd, text + 2, sizeof(text) - 2), sizeof(text) - 2);
	assert_true(fault_events_read(path, v, &n, 2, err, sizeof(err)) < 0);
	assert_non_null(strstr(err, "line 2: it is too long"));
	close(fd);
	unlink(path);
	assert_true(fault_events_read("/dev/zero", v, &n, 2, err, sizeof(err)) < 0);
	assert_non_null(strstr(err, "no text"));
}

static const struct fault_flow *pass(struct fault_flows *f, uint32_t qp, uint32_t psn,
				     enum ib_kind kind, struct fault_step *step)
{
	struct bth bth = { .opcode = ib_opcode(IB_RC, kind, IB_ONLY, IB_NONE) };
	struct fault_step scratch;

	bth.dest_qp = be24(qp);
	bth.psn = be24(psn);
	return fault_flow_step(f, &bth, step ? step : &scratch);
}

/* Going back to a PSN begins the next iteration; requests and responses are apart. */
static void iterations_are_counted(void **state)
{
	static const struct {
		uint32_t psn;
		unsigned iteration;
	} row[] = {
		{ 0xfffffe, 1 }, { 0xffffff, 1 }, { 0, 1 }, { 1, 1 }, { 0xffffff, 2 },
		{ 0, 2 },	 { 1, 2 },	  { 2, 2 }, { 2, 3 }, { 3, 3 },
	};
	static struct fault_flows f;

	(void)state;
	f = (struct fault_flows){ 0 };
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		const struct fault_flow *flow = pass(&f, 5, row[i].psn, IB_SEND, NULL);

		assert_int_equal(flow->iteration, row[i].iteration);
		assert_int_equal(pass(&f, 5, 1000 + (uint32_t)i, IB_ACK, NULL)->iteration,
				 1);
	}
	assert_int_equal(f.n, 2);
}

static void a_step_is_undone(void **state)
{
	static struct fault_flows f;
	struct fault_step step;

	(void)state;
	f = (struct fault_flows){ 0 };
	assert_int_equal(pass(&f, 5, 10, IB_SEND, &step)->number, 1);
	fault_flow_back(&f, &step);
	assert_int_equal(f.n, 0);
	assert_int_equal(pass(&f, 6, 10, IB_SEND, &step)->number, 1);
	pass(&f, 6, 10, IB_SEND, &step);
	fault_flow_back(&f, &step);
	assert_int_equal(pass(&f, 6, 11, IB_SEND, NULL)->iteration, 1);
	/* QP 1 takes no number. */
	assert_int_equal(pass(&f, 1, 11, IB_SEND, NULL)->number, 0);
	assert_int_equal(pass(&f, 7, 11, IB_SEND, NULL)->number, 2);
}

static void too_many_flows_are_not_counted(void **state)
{
	static struct fault_flows f;

	(void)state;
	f = (struct fault_flows){ 0 };
	for (uint32_t i = 0; i < FAULT_FLOWS_MAX; i++)
		assert_non_null(pass(&f, 2 + i, 0, IB_SEND, NULL));
	assert_null(pass(&f, 1000, 0, IB_SEND, NULL));
	assert_non_null(pass(&f, 2, 1, IB_SEND, NULL));
}

static void an_event_hits_its_packet(void **state)
{
	static const struct {
		const char *event;
		bool hits;
	} row[] = {
		{ "5 102 1 drop", true },     { "5 102 * drop", true },
		{ "* 102 1 drop", true },     { "flow1 +2 1 drop", true },
		{ "6 102 1 drop", false },    { "5 103 1 drop", false },
		{ "5 102 2 drop", false },    { "flow2 +2 1 drop", false },
		{ "flow1 +1 1 drop", false }, { "5 102 1 drop response", false },
	};
	const struct fault_flow flow = {
		.qp = 5, .first = 100, .last = 102, .number = 1, .iteration = 1
	};
	struct fault_event e;

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		assert_null(fault_event_parse(&e, row[i].event, ' '));
		if (fault_event_hits(&e, &flow) != row[i].hits)
			fail_msg("%s", row[i].event);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_understood),
		cmocka_unit_test(what_is_wrong_is_refused),
		cmocka_unit_test(a_wrong_line_of_a_file_is_named),
		cmocka_unit_test(long_lines_of_a_file),
		cmocka_unit_test(iterations_are_counted),
		cmocka_unit_test(a_step_is_undone),
		cmocka_unit_test(too_many_flows_are_not_counted),
		cmocka_unit_test(an_event_hits_its_packet),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
