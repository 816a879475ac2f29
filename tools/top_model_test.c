/* SPDX-License-Identifier: BSD-2-Clause */
/* top_model_test.c - dumps read, rates, order, filter, and lines of any width. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "top_model.h"

#define QP(number, posted, bytes)                                                        \
	"qp {number=" number "}: {type=RC} {state=RTS} on {device=roce_lo}, "            \
	"{way=local} to QP {peer_qp=0x000777} at {peer=127.0.0.1}\n"                     \
	"    send queue: {sends=3} of {send_size=16}\n"                                  \
	"    requests: posted {posted=" posted "}, completed {completed=" posted "};"    \
	" received {received=0}; by {by=ring}: sent {sent_bytes=" bytes "}\n"

static struct seen of(uint64_t at_ms, const char *text)
{
	struct seen l = { .at = at_ms * 1000000 };
	char *copy = strdup(text);

	assert_int_equal(seen_parse(&l, 100, copy), 0);
	free(copy);
	l.process = calloc(1, sizeof(*l.process));
	l.process[0] = (struct seen_process){ .pid = 100, .ours = true, .name = "fio" };
	l.processes = 1;
	return l;
}

static void a_dump_is_read(void **state)
{
	struct seen l =
		of(0, "slot {slot=4}\ncq {handle=1}: entries {entries=7}\n"
		      "    {posted=9}\n" QP("0x000401", "1000",
					    "64000") "qp {number=0x000402}: {lock=busy}\n"
						     "more: {count=3} of {kind=qp}\n");

	(void)state;
	assert_int_equal(l.qps, 2);
	assert_string_equal(l.qp[0].number, "0x000401");
	assert_string_equal(l.qp[0].type, "RC");
	assert_string_equal(l.qp[0].by, "ring");
	assert_string_equal(l.qp[0].peer_qp, "0x000777");
	assert_int_equal(l.qp[0].n[SEEN_POSTED], 1000);
	assert_int_equal(l.qp[0].n[SEEN_SENT_BYTES], 64000);
	assert_true(l.qp[0].has[SEEN_SENDS]);
	assert_false(l.qp[0].has[SEEN_WINDOW]);
	assert_true(l.qp[1].busy);
	assert_string_equal(l.qp[1].number, "0x000402");
	seen_free(&l);
}

/* Whatever a process answers. */
static void a_dump_is_nonsense(void **state)
{
	static const char *const texts[] = {
		"",
		"qp",
		"qp \n",
		"qp {",
		"qp {=}{}{number=",
		"qp {number=0123456789012345678901234567890123456789}\n",
		"qp {posted=99999999999999999999999}\n    {posted=-1}\n",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		struct seen l = of(0, texts[i]);

		seen_free(&l);
	}
}

static void rates_are_differences(void **state)
{
	const struct top_view view = { .key = TOP_RATE };
	struct seen before = of(1000, QP("0x000401", "1000", "64000")),
		    now = of(1500,
			     QP("0x000401", "1100", "74000") QP("0x000402", "5000", "1"));
	struct top_row *rows;
	size_t n = top_rows(&now, &before, &view, &rows);

	(void)state;
	assert_int_equal(n, 2);
	assert_string_equal(rows[0].qp->number, "0x000401");
	assert_false(rows[0].fresh);
	assert_int_equal(rows[0].rate, 200);
	assert_int_equal(rows[0].bytes, 20000);
	assert_true(rows[1].fresh); /* it was not there before */
	assert_int_equal(rows[1].rate, 0);
	free(rows);
	seen_free(&now);
	now = of(1500, QP("0x000401", "10", "74000")); /* another QP of that number */
	n = top_rows(&now, &before, &view, &rows);
	assert_int_equal(n, 1);
	assert_true(rows[0].fresh);
	free(rows);
	n = top_rows(&now, NULL, &view, &rows);
	assert_int_equal(n, 1);
	assert_true(rows[0].fresh);
	free(rows);
	seen_free(&now);
	seen_free(&before);
}

static void rows_are_ordered_and_chosen(void **state)
{
	struct top_view view = { .key = TOP_BYTES };
	struct seen before = of(0, QP("0x000401", "0", "0") QP("0x000402", "0", "0")
					   QP("0x000403", "0", "0")),
		    now = of(1000, QP("0x000401", "5", "10") QP("0x000402", "9", "30")
					   QP("0x000403", "7", "20"));
	static const struct {
		enum top_key key;
		bool reverse;
		char first;
	} want[] = {
		{ TOP_BYTES, false, '2' }, { TOP_BYTES, true, '1' },
		{ TOP_RATE, false, '2' },  { TOP_QP, false, '1' },
		{ TOP_QP, true, '3' },	   { TOP_AGAIN, false, '1' },
		{ TOP_DEPTH, true, '1' },
	};
	struct top_row *rows;

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(*want); i++) {
		view.key = want[i].key;
		view.reverse = want[i].reverse;
		assert_int_equal(top_rows(&now, &before, &view, &rows), 3);
		assert_int_equal(rows[0].qp->number[7], want[i].first);
		free(rows);
	}
	strcpy(view.filter, "000403");
	assert_int_equal(top_rows(&now, &before, &view, &rows), 1);
	free(rows);
	strcpy(view.filter, "FIO");
	assert_int_equal(top_rows(&now, &before, &view, &rows), 3);
	free(rows);
	strcpy(view.filter, "no such");
	assert_int_equal(top_rows(&now, &before, &view, &rows), 0);
	free(rows);
	seen_free(&now);
	seen_free(&before);
}

/* So many would take minutes if each were compared with all of the look before. */
static void many_find_themselves(void **state)
{
	enum { MANY = 1 << 18 };
	const struct top_view view = { .key = TOP_QP };
	struct seen before = { .at = 0, .qps = MANY }, now = { .at = 1000000000 };
	struct top_row *rows;

	(void)state;
	now.qps = MANY;
	before.qp = calloc(MANY, sizeof(*before.qp));
	now.qp = calloc(MANY, sizeof(*now.qp));
	assert_non_null(before.qp);
	assert_non_null(now.qp);
	for (unsigned i = 0; i < MANY; i++) {
		struct seen_qp *was = &before.qp[MANY - 1 - i], *is = &now.qp[i];

		is->pid = (pid_t)(1 + i % 3);
		snprintf(is->number, sizeof(is->number), "0x%06x", i);
		*was = *is;
		is->n[SEEN_POSTED] = i;
	}
	alarm(60);
	assert_int_equal(top_rows(&now, &before, &view, &rows), MANY);
	alarm(0);
	for (unsigned i = 0; i < MANY; i++) {
		assert_false(rows[i].fresh);
		assert_int_equal(rows[i].per_s[SEEN_POSTED], i);
	}
	free(rows);
	seen_free(&now);
	seen_free(&before);
}

static void expect_number(double n, const char *want)
{
	char text[8];

	top_number(text, n);
	assert_string_equal(text, want);
}

static void numbers_have_five_characters(void **state)
{
	char text[8];

	(void)state;
	expect_number(0, "0");
	expect_number(0.2, "1");
	expect_number(9999, "9999");
	expect_number(10000, "10.0k");
	expect_number(99949, "99.9k");
	expect_number(99951, "100k");
	expect_number(999499, "999k");
	expect_number(999501, "1.00M");
	expect_number(1.234e9, "1.23G");
	expect_number(-5, "0");
	for (double n = 1; n < 1e18; n *= 1.01) {
		top_number(text, n);
		assert_in_range(strlen(text), 1, 5);
	}
}

static void lines_have_any_width(void **state)
{
	const struct top_view view = { .key = TOP_RATE };
	struct seen l = of(0, QP("0x000401", "1000", "64000"));
	char text[512];
	struct top_row *rows;

	(void)state;
	assert_int_equal(top_rows(&l, NULL, &view, &rows), 1);
	for (size_t width = 0; width < 300; width++) {
		memset(text, '#', sizeof(text));
		top_head(text, width);
		assert_int_equal(strlen(text), width);
		top_line(text, width, &rows[0]);
		assert_int_equal(strlen(text), width);
		for (unsigned i = 0; top_detail(text, width, &rows[0], i); i++)
			assert_int_equal(strlen(text), width);
		top_summary(text, width, &l, rows, 1);
		assert_int_equal(strlen(text), width);
		assert_int_equal(text[width + 1], '#');
	}
	top_line(text, 20, &rows[0]);
	assert_string_equal(text, "    100 000401     0");
	top_head(text, 20);
	assert_string_equal(text, "    PID QP     REQ/S");
	top_line(text, 300, &rows[0]);
	assert_non_null(strstr(text, "fio"));
	assert_non_null(strstr(text, "127.0.0.1 0x000777"));
	free(rows);
	seen_free(&l);
}

static void who_does_not_answer_is_named(void **state)
{
	struct seen_process p = { .pid = 7, .uid = 1000, .name = "spdk" };
	char text[81];

	(void)state;
	top_excuse(text, 80, &p);
	assert_non_null(strstr(text, "7 spdk: of user 1000"));
	p.ours = true;
	p.error = -ETIMEDOUT;
	top_excuse(text, 80, &p);
	assert_non_null(strstr(text, "is it stopped?"));
	p.error = -ESRCH;
	top_excuse(text, 80, &p);
	assert_non_null(strstr(text, "has ended"));
	p.error = 0;
	top_excuse(text, 80, &p);
	assert_string_equal(text, "");
	for (unsigned i = 0; top_nothing(text, 20, i); i++)
		assert_int_equal(strlen(text), 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_dump_is_read),
		cmocka_unit_test(a_dump_is_nonsense),
		cmocka_unit_test(rates_are_differences),
		cmocka_unit_test(rows_are_ordered_and_chosen),
		cmocka_unit_test(many_find_themselves),
		cmocka_unit_test(numbers_have_five_characters),
		cmocka_unit_test(lines_have_any_width),
		cmocka_unit_test(who_does_not_answer_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
