/* SPDX-License-Identifier: BSD-2-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/fix.h"
#include "wire/bits.h"

static uint8_t mad[MAD_SIZE];

/* Makes mad a request to the PMA, without data; returns its header. */
static const struct mad_hdr *request(uint8_t method, uint16_t attr)
{
	const struct mad_hdr h = { .base_version = 1,
				   .class = MAD_PERF,
				   .class_version = 1,
				   .method = method,
				   .attr = be16(attr) };

	memset(mad, 0, sizeof(mad));
	memcpy(mad, &h, sizeof(h));
	return (const struct mad_hdr *)mad;
}

/* Asks the PMA of a port of the switch (or of H-b) directly, not through links, so that
 * the request is not counted. */
static int ask(uint32_t node, uint8_t method, uint16_t attr, uint8_t select,
	       uint16_t counters, uint32_t counters2)
{
	const struct mad_hdr *h = request(method, attr);

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

/* Short counters stop at their maximum; extended ones go on. */
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

/* A Set clears the counters that it selects. */
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

/* Returns counter i of an attribute that breaks another counter down. */
static unsigned long detail(uint32_t node, uint8_t select, uint16_t attr, unsigned i,
			    unsigned bits)
{
	assert_int_equal(ask(node, METHOD_GET, attr, select, 0, 0), 0);
	assert_int_equal(mad[65], select);
	return bits_get(mad + 64, 32 + i * bits, bits);
}

static void t_details(void **state)
{
	struct port_detail *d = &world.f->node[0].port[2].detail;

	(void)state;
	for (unsigned i = 0; i < 6; i++)
		d->rcv[i] = 10 + i;
	d->xmit[3] = 70000;
	world.f->node[0].port[1].detail.xmit[3] = 5;
	d->xmit_sl[15] = 0x100000000;
	d->rcv_sl[0] = 7;
	d->xmit_wait[7] = 70000;
	for (unsigned i = 0; i < 6; i++)
		assert_int_equal(detail(0, 2, ATTR_RCV_ERROR_DETAILS, i, 16), 10 + i);
	assert_int_equal(detail(0, 2, ATTR_RCV_ERROR_DETAILS, 6, 16), 0);
	assert_int_equal(detail(0, 2, ATTR_XMIT_DISCARD_DETAILS, 3, 16), 65535);
	assert_int_equal(detail(0, 1, ATTR_XMIT_DISCARD_DETAILS, 3, 16), 5);
	assert_int_equal(detail(0, 2, ATTR_XMIT_DATA_SL, 15, 32), UINT32_MAX);
	assert_int_equal(detail(0, 2, ATTR_VL_XMIT_WAIT, 7, 16), 65535);
	assert_int_equal(detail(0, 2, ATTR_VL_XMIT_WAIT, 15, 16), 0);
	assert_int_equal(detail(0, 0xff, ATTR_RCV_DATA_SL, 0, 32), 7);
	/* A Set clears the counters that it selects. */
	assert_int_equal(ask(0, METHOD_SET, ATTR_RCV_ERROR_DETAILS, 2, 1 << 5 | 1, 0), 0);
	assert_int_equal(bits_get(mad + 64, 32, 16), 0);
	assert_int_equal(d->rcv[0] + d->rcv[5], 0);
	assert_int_equal(d->rcv[1], 11);
	assert_int_equal(ask(0, METHOD_SET, ATTR_XMIT_DATA_SL, 0xff, 0xffff, 0), 0);
	assert_int_equal(d->xmit_sl[15], 0);
	assert_int_equal(d->rcv_sl[0], 7);
	assert_int_equal(ask(0, METHOD_GET, ATTR_RCV_DATA_SL, 5, 0, 0), MAD_BAD_FIELD);
}

/* The cause of each dropped packet, and the counter that counts it. */
static void t_causes(void **state)
{
	struct fab_port *a = &world.f->node[1].port[1];
	struct fab_port *in = &world.f->node[0].port[1], *out = in + 1;
	struct mad_pkt pkt = { .pkey = 0xffff, .sl = 3, .dqpn = 1, .dlid = 3 };

	(void)state;
	a->detail = in->detail = out->detail = (struct port_detail){ 0 };
	a->count = in->count = out->count = (struct port_counters_ext){ 0 };
	fabric_send(world.f, 1, 1, &pkt); /* a valid packet */
	pkt.dlid = 77;
	fabric_send(world.f, 1, 1, &pkt);
	fabric_run(world.f, world.now);
	assert_int_equal(in->detail.rcv[RCV_DLID_MAPPING], 1);
	world.f->node[0].lft[3] = 1;
	pkt.dlid = 3;
	fabric_send(world.f, 1, 1, &pkt);
	fabric_run(world.f, world.now);
	assert_int_equal(in->detail.rcv[RCV_LOOPING], 1);
	world.f->node[0].lft[3] = 2;
	out->sl2vl[1][1] = 0xff;
	fabric_send(world.f, 1, 1, &pkt);
	fabric_run(world.f, world.now);
	assert_int_equal(in->detail.rcv[RCV_VL_MAPPING], 1);
	assert_int_equal(in->count.rcv_relay, 3);
	pkt.sl = 4;
	out->pi.state = PORT_INIT;
	fabric_send(world.f, 1, 1, &pkt);
	fabric_run(world.f, world.now);
	assert_int_equal(out->detail.xmit[XMIT_INACTIVE], 1);
	assert_int_equal(out->count.xmit_discards, 1);
	assert_int_equal(a->detail.xmit_sl[3], 4 * a->count.xmit_data / 5);
	assert_int_equal(a->detail.xmit_sl[4], a->count.xmit_data / 5);
	assert_int_equal(in->detail.rcv_sl[3], a->detail.xmit_sl[3]);
	assert_int_equal(out->detail.xmit_sl[3], out->count.xmit_data);
}

/* Sends a Set or Get of PortSamplesControl that selects counters 1 to 5 and an unknown
 * one, or a Get of PortSamplesResult; mad has the answer. */
static int sample(uint8_t method, uint16_t attr, uint8_t select, uint32_t start,
		  uint32_t interval, uint16_t tag)
{
	const struct mad_hdr *h = request(method, attr);

	attr_put(&attr_port_samples, mad + 64,
		 &(struct port_samples){ .select = select,
					 .start = start,
					 .interval = interval,
					 .tag = tag });
	for (unsigned i = 0; i < 6; i++)
		bits_put(mad + 64, 304 + i * 16, 16, i < 5 ? i + 1 : 0x4711);
	assert_true(pma_answer(&world.f->node[0].port[1], mad));
	return get_be16(h->status);
}

static unsigned status_of_samples(void)
{
	struct port_samples c;

	assert_int_equal(sample(METHOD_GET, ATTR_SAMPLES_CONTROL, 2, 0, 0, 0), 0);
	attr_get(&attr_port_samples, mad + 64, &c);
	assert_int_equal(c.tick, 249); /* a tick of 1 us */
	assert_int_equal(c.width, 4);
	return c.status;
}

static unsigned long result(unsigned i)
{
	assert_int_equal(sample(METHOD_GET, ATTR_SAMPLES_RESULT, 0, 0, 0, 0), 0);
	assert_int_equal(bits_get(mad + 64, 0, 16), 0xbeef);
	return bits_get(mad + 64, 32 + i * 32, 32);
}

static void after(uint64_t ns)
{
	world.now += ns;
	fabric_run(world.f, world.now);
}

/* The result is what the selected counters have grown by from SampleStart on, during
 * SampleInterval. */
static void t_samples(void **state)
{
	struct port_counters_ext *c = &world.f->node[0].port[2].count;

	(void)state;
	after(0);
	assert_int_equal(status_of_samples(), 0);
	*c = (struct port_counters_ext){ .xmit_data = 1000 };
	assert_int_equal(sample(METHOD_SET, ATTR_SAMPLES_CONTROL, 2, 50, 100, 0xbeef), 0);
	assert_int_equal(bits_get(mad + 64, 304 + 4 * 16, 16), 5);
	assert_int_equal(status_of_samples(), 1);
	c->xmit_data += 7; /* before the sample begins */
	after(49999);
	assert_int_equal(status_of_samples(), 1);
	assert_true(fabric_next(world.f) == world.now + 1);
	after(1);
	assert_int_equal(status_of_samples(), 2);
	c->xmit_data += 10;
	c->rcv_data += 20;
	c->xmit_pkts += 0x100000000;
	c->rcv_pkts += 40;
	c->xmit_wait += 50;
	world.f->node[0].port[1].count.xmit_data += 5; /* a counter of another port */
	/* A sample cannot be started before the last one is done. */
	assert_int_equal(sample(METHOD_SET, ATTR_SAMPLES_CONTROL, 1, 0, 1, 0xdead), 0);
	assert_int_equal(mad[65], 2);
	after(99999);
	assert_int_equal(status_of_samples(), 2);
	assert_int_equal(result(0), 0);
	after(1);
	assert_int_equal(status_of_samples(), 0);
	c->xmit_data += 7; /* after the sample */
	assert_int_equal(result(0), 10);
	assert_int_equal(result(1), 20);
	assert_int_equal(result(2), UINT32_MAX);
	assert_int_equal(result(3), 40);
	assert_int_equal(result(4), 50);
	assert_int_equal(result(5), 0);
	assert_int_equal(result(14), 0);
}

/* All ports of the switch sample at the same time; a counter is cleared meanwhile. */
static void t_samples_at_once(void **state)
{
	(void)state;
	assert_int_equal(sample(METHOD_SET, ATTR_SAMPLES_RESULT, 0, 0, 0, 0),
			 MAD_BAD_ATTR);
	assert_int_equal(sample(METHOD_SET, ATTR_SAMPLES_CONTROL, 5, 0, 1, 0),
			 MAD_BAD_FIELD);
	for (unsigned i = 1; i <= 4; i++)
		world.f->node[0].port[i].count = (struct port_counters_ext){ 0 };
	world.f->node[0].port[3].count.rcv_pkts = 100;
	assert_int_equal(sample(METHOD_SET, ATTR_SAMPLES_CONTROL, 0xff, 0, 1, 0xbeef), 0);
	assert_int_equal(status_of_samples(), 2);
	for (unsigned i = 1; i <= 4; i++)
		world.f->node[0].port[i].count.xmit_data += i;
	world.f->node[0].port[3].count.rcv_pkts = 3;
	after(PMA_TICK);
	assert_int_equal(result(0), 1 + 2 + 3 + 4);
	assert_int_equal(result(3), 3);
	/* A sample that runs when the fabric ends is freed with it. */
	assert_int_equal(sample(METHOD_SET, ATTR_SAMPLES_CONTROL, 0xff, 1, 1, 0xbeef), 0);
}

/* Optional attributes of 16.1.4 that the PMA does not have, and that ClassPortInfo does
 * not claim: by opcode, of flow control packets, of the physical layer, of congestion
 * control. */
static const uint16_t optional[] = {
	0x0017, 0x0018, 0x0019, 0x001a, 0x001b, 0x001e, 0x001f,
	0x0030, 0x0031, 0x0032, 0x0033, 0x0034, 0x0035,
};

static void t_refused(void **state)
{
	struct mad_hdr *h = (struct mad_hdr *)mad;

	(void)state;
	assert_int_equal(ask(0, METHOD_GET, ATTR_PORT_COUNTERS, 5, 0, 0), MAD_BAD_FIELD);
	assert_int_equal(ask(2, METHOD_GET, ATTR_PORT_COUNTERS, 0xff, 0, 0),
			 MAD_BAD_FIELD);
	assert_int_equal(ask(2, METHOD_GET, 0x4711, 1, 0, 0), MAD_BAD_ATTR);
	for (unsigned i = 0; i < sizeof(optional) / sizeof(optional[0]); i++)
		assert_int_equal(ask(2, METHOD_GET, optional[i], 1, 0, 0), MAD_BAD_ATTR);
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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(t_get, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(t_all_ports, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(t_set, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(t_details, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(t_causes, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(t_refused, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(t_samples, fix_open, fix_close),
		cmocka_unit_test_setup_teardown(t_samples_at_once, fix_open, fix_close),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
