/* SPDX-License-Identifier: BSD-2-Clause */
/* The table of messages between programs and a fabric; sys/msg_test.c tests what carries
 * them. */
#include "fabric/port/message.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

static void every_type_has_a_row(void **state)
{
	(void)state;
	assert_int_equal(plug_table.types, PLUG_TYPES);
	assert_null(plug_table.row[0].name);
	for (unsigned i = PLUG_REQUEST; i < PLUG_TYPES; i++)
		assert_non_null(plug_table.row[i].name);
}

static void a_body_and_a_descriptor(void **state)
{
	uint32_t status = 17, got = 0;
	struct msg m;
	int ends[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends), 0);
	assert_int_equal(plug_say(ends[0], PLUG_STATUS, &status, sizeof(status), ends[0],
				  false),
			 0);
	assert_int_equal(plug_say(ends[0], PLUG_KICK, NULL, 0, -1, false), 0);
	assert_int_equal(msg_recv(ends[1], &plug_table, 0, &got, sizeof(got), &m, false),
			 0);
	assert_int_equal(m.type, PLUG_STATUS);
	assert_int_equal(m.fds, 1);
	assert_int_equal(got, 17);
	msg_drop(&m, false);
	assert_int_equal(msg_recv(ends[1], &plug_table, 0, &got, sizeof(got), &m, false),
			 0);
	assert_int_equal(m.type, PLUG_KICK);
	assert_int_equal(m.fds, 0);
	close(ends[0]);
	close(ends[1]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_type_has_a_row),
		cmocka_unit_test(a_body_and_a_descriptor),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
