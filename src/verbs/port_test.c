/* SPDX-License-Identifier: BSD-2-Clause */
/* The changes reported between two states of a port. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "verbs/port.h"

static const struct port was = {
	.active = true,
	.lid = 3,
	.sm_lid = 1,
	.pkeys = 2,
	.gids = 2,
	.pkey = { 0xffff, 0x8001 },
	.gid = { { .used = true, .gid.raw = { 0xfe, 0x80, [15] = 3 } } },
};

static void nothing_new(void **state)
{
	struct port now = was;

	(void)state;
	assert_int_equal(port_changes(&was, &now), 0);
	now.active_mtu = IBV_MTU_4096; /* no event reports the MTU */
	now.speed = 4;
	assert_int_equal(port_changes(&was, &now), 0);
}

static void each_alone(void **state)
{
	struct port now = was;

	(void)state;
	now.active = false;
	assert_int_equal(port_changes(&was, &now), PORT_DOWN);
	assert_int_equal(port_changes(&now, &was), PORT_UP);
	now = was;
	now.lid = 4;
	assert_int_equal(port_changes(&was, &now), PORT_LID);
	now = was;
	now.lmc = 1;
	assert_int_equal(port_changes(&was, &now), PORT_LID);
	now = was;
	now.sm_lid = 2;
	assert_int_equal(port_changes(&was, &now), PORT_SM);
	now = was;
	now.pkey[1] = 1;
	assert_int_equal(port_changes(&was, &now), PORT_PKEY);
	now = was;
	now.pkeys = 1;
	assert_int_equal(port_changes(&was, &now), PORT_PKEY);
	now = was;
	now.gid[0].gid.raw[15] = 4;
	assert_int_equal(port_changes(&was, &now), PORT_GID);
	now = was;
	now.gid[1] = now.gid[0];
	assert_int_equal(port_changes(&was, &now), PORT_GID);
	now = was;
	now.reregisters++;
	assert_int_equal(port_changes(&was, &now), PORT_REREGISTER);
	now = was;
	now.gid[0].used = false;
	assert_int_equal(port_changes(&was, &now), PORT_GID);
}

static void all_at_once(void **state)
{
	const struct port gone = { 0 };
	const unsigned all = port_changes(&was, &gone);
	enum { EVENTS = 7 };
	static const enum ibv_event_type event[EVENTS] = {
		IBV_EVENT_PORT_ERR,    IBV_EVENT_LID_CHANGE, IBV_EVENT_SM_CHANGE,
		IBV_EVENT_PKEY_CHANGE, IBV_EVENT_GID_CHANGE, IBV_EVENT_CLIENT_REREGISTER,
		IBV_EVENT_PORT_ACTIVE,
	};

	(void)state;
	assert_int_equal(all, PORT_DOWN | PORT_LID | PORT_SM | PORT_PKEY | PORT_GID);
	assert_int_equal(PORT_CHANGES, 1 << EVENTS);
	for (unsigned i = 0; i < EVENTS; i++)
		assert_int_equal(port_event((enum port_change)(1u << i)), event[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_new),
		cmocka_unit_test(each_alone),
		cmocka_unit_test(all_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
