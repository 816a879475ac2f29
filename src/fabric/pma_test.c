/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/fix.h"

static uint8_t mad[MAD_SIZE];

/* At a port of the switch (or of H-b), not through the links: what is asked is
 * not counted, then. */
static int ask(uint32_t node, uint8_t method, uint16_t attr, uint8_t select,
	       uint16_t counters, uint32_t counters2)
{
	struct mad_hdr *h = (struct mad_hdr *)mad;

	memset(mad, 0, sizeof(mad));
	*h = (struct mad_hdr){ .base_version = 1,
			       .class = MAD_PERF,
			       .class_version = 1,
			       .method = method,
			       .attr = be16(attr) };
	if (attr == ATTR_PORT_COUNTERS)
		attr_put(&attr_port_counters, mad + 64,
			 &(struct port_counters){ .select = select,
						  .counters = counters,
						  .counters2 = (uint8_t)counters2 });
	else
		attr_put(&attr_port_counters_ext, mad + 64,
			 &(struct port_counters_ext){ .select = select,
						      .counters = counters,
						      .counters2 = counters2 });
	if (!pma_answer(&world.f->node[node].port[1], mad))
		return -1;
	assert_int_equal(h->method, METHOD_GET_RESP);
	return get_be16(h->status);
}

static struct port_counters counters(uint32_t node, uint8_t select)
{
	struct port_counters c;

	assert_int_equal(ask(node, METHOD_GET, ATTR_PORT_COUNTERS, select, 0, 0), 0);
	attr_get(&attr_port_counters, mad + 64, &c);
	assert_int_equal(c.select, select);
	return c;
}

static struct port_counters_ext extended(uint32_t node, uint8_t select)
{
	struct port_counters_ext c;

	assert_int_equal(ask(node, METHOD_GET, ATTR_PORT_COUNTERS_EXT, select, 0, 0), 0);
	attr_get(&attr_port_counters_ext, mad + 64, &c);
	return c;
}

/* Short counters stop at their maximum, long ones go on. */
static void t_get(void **state)
{
	struct port_counters_ext *c = &world.f->node[0].port[2].count;

	(void)state;
	c->xmit_data = 0x100000007;
	c->link_downed = 300;
	c->rcv_errors = 70000;
	c->xmit_pkts = 12;
	assert_int_equal(counters(0, 2).xmit_data, UINT32_MAX);
	assert_int_equal(counters(0, 2).link_downed, 255);
	assert_int_equal(counters(0, 2).rcv_errors, 65535);
	assert_int_equal(counters(0, 2).xmit_pkts, 12);
	assert_true(extended(0, 2).xmit_data == 0x100000007);
	assert_int_equal(extended(0, 2).rcv_errors, 70000);
	assert_int_equal(counters(0, 1).xmit_pkts, 0);
}

static void t_all_ports(void **state)
{
	(void)state;
	for (unsigned i = 0; i <= 4; i++)
		world.f->node[0].port[i].count.xmit_pkts = 10 + i;
	assert_int_equal(counters(0, 0xff).xmit_pkts, 11 + 12 + 13 + 14);
	assert_int_equal(extended(0, 0xff).xmit_pkts, 11 + 12 + 13 + 14);
	assert_int_equal(counters(0, 0).xmit_pkts, 10);
	assert_int_equal(ask(0, METHOD_SET, ATTR_PORT_COUNTERS, 0xff, 1 << 14, 0), 0);
	assert_int_equal(counters(0, 0xff).xmit_pkts, 0);
	assert_int_equal(counters(0, 0).xmit_pkts, 10);
}

/* A Set clears what it names. */
static void t_set(void **state)
{
	struct port_counters_ext *c = &world.f->node[2].port[1].count;

	(void)state;
	c->xmit_data = c->rcv_data = c->xmit_wait = c->symbol_errors = 5;
	assert_int_equal(ask(2, METHOD_SET, ATTR_PORT_COUNTERS, 1, 1 << 12, 1), 0);
	assert_int_equal(c->xmit_data, 0);
	assert_int_equal(c->xmit_wait, 0);
	assert_int_equal(c->rcv_data, 5);
	assert_int_equal(ask(2, METHOD_SET, ATTR_PORT_COUNTERS_EXT, 1, 1 << 1, 1), 0);
	assert_int_equal(c->rcv_data, 0);
	assert_int_equal(c->symbol_errors, 0);
}

static void t_refused(void **state)
{
	struct mad_hdr *h = (struct mad_hdr *)mad;

	(void)state;
	assert_int_equal(ask(0, METHOD_GET, ATTR_PORT_COUNTERS, 5, 0, 0), MAD_BAD_FIELD);
	assert_int_equal(ask(2, METHOD_GET, ATTR_PORT_COUNTERS, 0xff, 0, 0),
			 MAD_BAD_FIELD);
	assert_int_equal(ask(2, METHOD_GET, 0x4711, 1, 0, 0), MAD_BAD_ATTR);
	assert_int_equal(ask(2, METHOD_SET, ATTR_CLASS_PORT_INFO, 1, 0, 0), MAD_BAD_ATTR);
	assert_int_equal(ask(2, METHOD_GET_RESP, ATTR_PORT_COUNTERS, 1, 0, 0), -1);
	assert_int_equal(ask(0, METHOD_GET, ATTR_CLASS_PORT_INFO, 0, 0, 0), 0);
	assert_int_equal(mad[66], 0x13);
	assert_int_equal(ask(2, METHOD_GET, ATTR_CLASS_PORT_INFO, 0, 0, 0), 0);
	assert_int_equal(mad[66], 0x12);
	h->class_version = 2;
	h->method = METHOD_GET;
	assert_true(pma_answer(&world.f->node[2].port[1], mad));
	assert_int_equal(get_be16(h->status), MAD_BAD_VERSION);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fix_open, fix_close)
	const struct CMUnitTest tests[] = {
		TEST(t_get),
		TEST(t_all_ports),
		TEST(t_set),
		TEST(t_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
