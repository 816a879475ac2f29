/* SPDX-License-Identifier: BSD-2-Clause */
/* The lines about listeners and iWARP's connections, in pieces.  (For RoCE's see
 * ib_cm_test.c.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cm/iw_fix.h"
#include "sys/mark.h"

enum { AT_ONCE = 64 }; /* lines of a piece */

/* Returns the whole text, to be freed; *pieces: in how many it came. */
static char *describe(struct cm *cm, unsigned *pieces)
{
	struct cm_place at = { 0 };
	char *text;
	size_t len;
	FILE *out = open_memstream(&text, &len);

	for (*pieces = 1; cm_describe(cm, &at, out); ++*pieces)
		;
	assert_int_equal(fclose(out), 0);
	mark_drop(text);
	return text;
}

static unsigned count(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

static void a_connection_at_both_ends(void **state)
{
	char *text, want[96];
	unsigned pieces;

	(void)state;
	fx_connect();
	text = describe(fx.cm[0], &pieces);
	snprintf(want, sizeof(want),
		 "connection (iWARP) to 127.0.0.1, port %u: established, active; QP "
		 "0x%06x\n",
		 fx.service.port, fx.p.qp[0]->qpn);
	assert_string_equal(text, want);
	free(text);
	text = describe(fx.cm[1], &pieces);
	assert_int_equal(count(text, ": established, passive; QP "), 1);
	assert_int_equal(count(text, "listener port "), 1);
	free(text);
}

static void a_request_that_waits(void **state)
{
	unsigned pieces;
	char *text;

	(void)state;
	fx_ask(fx.service.port, "ask");
	fx_wait(&fx.listener, 1);
	text = describe(fx.cm[0], &pieces);
	assert_int_equal(count(text, ": MPA request sent, active"), 1);
	free(text);
	text = describe(fx.cm[1], &pieces);
	assert_int_equal(count(text, ": MPA request received, passive"), 1);
	assert_int_equal(count(text, "listening, requests that wait 1 of 4\n"), 1);
	free(text);
	fx_take(0);
}

static void many_listeners_come_in_pieces(void **state)
{
	enum { MANY = 2 * AT_ONCE + 1 };
	struct cm_listener *l[MANY];
	unsigned pieces, before;
	char *text;

	(void)state;
	free(describe(fx.cm[0], &before));
	for (int i = 0; i < MANY; i++) {
		struct cm_service s = fx.service;

		s.port = 0;
		assert_int_equal(cm_bind(fx.cm[0], &s, &l[i]), 0);
	}
	text = describe(fx.cm[0], &pieces);
	assert_int_equal(count(text, "listener port "), MANY);
	assert_int_equal(count(text, ": bound, "), MANY);
	assert_int_equal(pieces, before + 2);
	free(text);
	for (int i = 0; i < MANY; i++)
		cm_unbind(fx.cm[0], l[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_fx(a_connection_at_both_ends),
		cmocka_unit_test_fx(a_request_that_waits),
		cmocka_unit_test_fx(many_listeners_come_in_pieces),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
