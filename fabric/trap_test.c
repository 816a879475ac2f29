/* SPDX-License-Identifier: BSD-2-Clause */
/* Traps are sent to the subnet manager again and again, until it represses them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/fix.h"
#include "sys/clock.h"

static const uint64_t interval = 4096ull << 18;

static void run(uint64_t ns)
{
	world.n = 0;
	fabric_run(world.f, world.now += ns);
}

static struct notice got(struct smp *smp)
{
	struct notice n;

	assert_int_equal(world.n, 1);
	assert_int_equal(world.got[0].node, world.at);
	memcpy(smp, world.got[0].pkt.mad, sizeof(*smp));
	assert_int_equal(smp->h.method, METHOD_TRAP);
	assert_int_equal(get_be16(smp->h.attr), ATTR_NOTICE);
	attr_get(&attr_notice, smp->data, &n);
	return n;
}

static void repress(struct smp *smp)
{
	struct mad_pkt pkt = { .dlid = world.got[0].pkt.slid };

	smp->h.method = METHOD_TRAP_REPRESS;
	memcpy(pkt.mad, smp, sizeof(*smp));
	assert_int_equal(fabric_send(world.f, world.at, 1, &pkt), 0);
	run(0);
	assert_int_equal(world.n, 0);
}

static void t_link(void **state)
{
	struct smp smp;
	struct notice n;
	uint64_t tid;

	(void)state;
	assert_int_equal(fabric_cable(world.f, 0, 2, false, world.now), 0);
	run(0);
	n = got(&smp);
	assert_int_equal(n.trap, 128);
	assert_int_equal(n.generic, 1);
	assert_int_equal(n.type, 1);
	assert_int_equal(n.producer, TOPO_SWITCH);
	assert_int_equal(n.issuer, 1);
	assert_int_equal(smp.data[11], 1);
	tid = get_be64(smp.h.tid);

	run(interval - 1);
	assert_int_equal(world.n, 0);
	run(1);
	got(&smp);
	assert_int_equal(get_be64(smp.h.tid), tid);

	/* A TrapRepress with another TID changes nothing. */
	smp.h.tid = be64(tid + 1);
	repress(&smp);
	run(interval);
	got(&smp);
	repress(&smp);
	run(interval);
	assert_int_equal(world.n, 0);
	assert_true(fabric_next(world.f) == NEVER);
}

static void t_cap_mask(void **state)
{
	struct smp smp;
	struct notice n;

	(void)state;
	fabric_set_sm(world.f, 2, 1, true, world.now);
	run(0);
	n = got(&smp);
	assert_int_equal(n.trap, 144);
	assert_int_equal(n.type, 4);
	assert_int_equal(n.producer, TOPO_CA);
	assert_int_equal(smp.data[13], 3);
	assert_int_equal(smp.data[19] & CAP_SM, CAP_SM);
	fabric_set_sm(world.f, 2, 1, true, world.now);
	run(0);
	assert_int_equal(world.n, 0);
	/* A change that happens before the trap was repressed changes the trap, which is
	 * sent at its regular time. */
	fabric_set_sm(world.f, 2, 1, false, world.now);
	run(0);
	assert_int_equal(world.n, 0);
	run(interval);
	got(&smp);
	assert_int_equal(smp.data[19] & CAP_SM, 0);
}

static void t_mkey(void **state)
{
	struct smp smp = { 0 };

	(void)state;
	world.f->node[2].port[1].pi.mkey = 1;
	smp.mkey = be64(0x77);
	memset(smp.data, 0, sizeof(smp.data));
	assert_int_equal(FIX_DR(&world, METHOD_SET, ATTR_PORT_INFO, 1, &smp, 1, 2), -1);
	assert_int_equal(got(&smp).trap, 256);
	assert_int_equal(smp.data[16], METHOD_SET);
	assert_int_equal(smp.data[19], ATTR_PORT_INFO);
	assert_int_equal(smp.data[23], 1);
	assert_int_equal(smp.data[31], 0x77);
	assert_int_equal(smp.data[33], 0x82);
	assert_int_equal(smp.data[34], 1);
	assert_int_equal(smp.data[35], 1);
}

/* A switch that enforces partitions sends traps about packets that it drops, where they
 * come in and where they go out, until the traps are repressed. */
static void t_switch_pkey(void **state)
{
	struct mad_pkt pkt = { .pkey = 0x8005, .sl = 3, .sqpn = 1, .dqpn = 1, .dlid = 2 };
	struct fab_port *port = world.f->node[0].port;
	struct smp smp = { 0 };

	(void)state;
	assert_true(port[0].pi.cap_mask & CAP_SWITCH_PKEY_TRAP);
	world.f->node[2].port[1].pkey[1] = 0x8005;
	port[2].pi.enforce_in = 1;
	fabric_send(world.f, 2, 1, &pkt);
	run(0);
	assert_int_equal(got(&smp).trap, 259);
	assert_int_equal(got(&smp).type, 2);
	assert_int_equal(got(&smp).producer, 2);
	assert_int_equal(smp.data[11], 0x3f);
	assert_int_equal(smp.data[13], 3); /* SLID and DLID of the packet */
	assert_int_equal(smp.data[15], 2);
	assert_int_equal(smp.data[16] << 8 | smp.data[17], 0x8005);
	assert_int_equal(smp.data[18] >> 4, 3);
	assert_int_equal(smp.data[21], 1);
	assert_int_equal(smp.data[59], 1); /* LID of the switch, and number of the port */
	assert_int_equal(smp.data[60], 2);
	assert_int_equal(port[2].count.rcv_constraint, 1);
	port[2].pi.enforce_in = 0;
	port[1].pi.enforce_out = 1;
	fabric_send(world.f, 2, 1, &pkt);
	run(0);
	assert_int_equal(world.n, 0); /* before its time */
	run(interval);
	got(&smp);
	assert_int_equal(smp.data[60], 1);
	assert_int_equal(port[1].count.xmit_constraint, 1);
}

/* Two traps are pending: they are sent in turn, one at a time. */
static void t_two(void **state)
{
	struct smp smp = { 0 };
	unsigned last = 0;

	(void)state;
	world.f->node[2].port[1].pi.mkey = 1;
	fabric_set_sm(world.f, 2, 1, true, world.now);
	run(0);
	assert_int_equal(FIX_DR(&world, METHOD_SET, ATTR_PORT_INFO, 1, &smp, 1, 2), -1);
	for (unsigned i = 0; i < 6; i++) {
		struct notice n;

		run(interval);
		n = got(&smp);
		assert_true(n.trap == 144 || n.trap == 256);
		assert_int_not_equal(n.trap, last);
		last = n.trap;
	}
}

/* Without a subnet manager nothing is sent, and nothing is kept for later. */
static void t_no_manager(void **state)
{
	(void)state;
	world.f->node[0].port[0].pi.sm_lid = 0;
	assert_int_equal(fabric_cable(world.f, 0, 2, false, world.now), 0);
	run(0);
	assert_int_equal(world.n, 0);
	assert_true(fabric_next(world.f) == NEVER);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fix_open, fix_close)
	const struct CMUnitTest tests[] = {
		TEST(t_link),	     TEST(t_cap_mask), TEST(t_mkey),
		TEST(t_switch_pkey), TEST(t_two),      TEST(t_no_manager),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
