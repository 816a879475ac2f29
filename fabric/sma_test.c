/* SPDX-License-Identifier: BSD-2-Clause */
/* What the subnet management agent answers, and what it accepts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/fix.h"
#include "sys/rand.h"

static struct port_info port_get(uint32_t mod, uint16_t lid)
{
	struct smp smp = { 0 };
	struct port_info pi;

	assert_int_equal(fix_lid(&world, METHOD_GET, ATTR_PORT_INFO, mod, lid, &smp),
			 MAD_OK);
	attr_get(&attr_port_info, smp.data, &pi);
	return pi;
}

static int port_set(uint32_t mod, uint16_t lid, const struct port_info *pi)
{
	struct smp smp = { 0 };

	attr_put(&attr_port_info, smp.data, pi);
	return fix_lid(&world, METHOD_SET, ATTR_PORT_INFO, mod, lid, &smp);
}

static void t_node_description(void **state)
{
	struct smp smp = { 0 };

	(void)state;
	assert_int_equal(fix_lid(&world, METHOD_GET, ATTR_NODE_DESC, 0, 3, &smp), MAD_OK);
	assert_string_equal((char *)smp.data, "H-b");
	assert_int_equal(fix_lid(&world, METHOD_SET, ATTR_NODE_DESC, 0, 3, &smp),
			 MAD_BAD_ATTR);
}

/* Attributes that do not exist, or not for this kind of node, or in another version. */
static void t_refused(void **state)
{
	static const struct {
		uint8_t method;
		uint16_t attr;
		uint32_t mod;
		uint16_t lid;
		int status;
	} rows[] = {
		{ METHOD_GET, 0x0013, 0, 1, MAD_BAD_ATTR },
		{ METHOD_GET, ATTR_SWITCH_INFO, 0, 3, MAD_BAD_ATTR },
		{ METHOD_GET, ATTR_LFT, 0, 3, MAD_BAD_ATTR },
		{ METHOD_GET, ATTR_SM_INFO, 0, 1, MAD_BAD_ATTR },
		{ METHOD_SET, ATTR_NODE_INFO, 0, 1, MAD_BAD_ATTR },
		{ METHOD_GET, ATTR_PORT_INFO, 5, 1, MAD_BAD_FIELD },
		{ METHOD_GET, ATTR_PORT_INFO, 3, 3, MAD_BAD_FIELD },
		{ METHOD_GET, ATTR_LFT, LFT_CAP / 64, 1, MAD_BAD_FIELD },
		{ METHOD_GET, ATTR_MFT, 32, 1, MAD_BAD_FIELD },
		{ METHOD_GET, ATTR_MFT, 1u << 28, 1, MAD_BAD_FIELD },
		{ METHOD_GET, ATTR_PKEY_TABLE, 4, 3, MAD_BAD_FIELD },
		{ METHOD_GET, ATTR_PKEY_TABLE, 1 << 16 | 1, 1, MAD_BAD_FIELD },
		{ METHOD_GET, ATTR_PKEY_TABLE, 5 << 16, 1, MAD_BAD_FIELD },
		{ METHOD_GET, ATTR_SL2VL, 5, 1, MAD_BAD_FIELD },
		{ METHOD_GET, ATTR_SL2VL, 5 << 8, 1, MAD_BAD_FIELD },
		{ METHOD_GET, ATTR_VL_ARB, 2 << 16 | 1, 1, MAD_BAD_FIELD },
		{ METHOD_GET, ATTR_VL_ARB, 0, 3, MAD_BAD_FIELD },
		{ METHOD_GET, ATTR_GUID_INFO, GUIDS / 8, 3, MAD_BAD_FIELD },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct smp smp = { 0 };

		if (fix_lid(&world, rows[i].method, rows[i].attr, rows[i].mod,
			    rows[i].lid, &smp) != rows[i].status)
			fail_msg("row %u: 0x%x", i, get_be16(smp.h.status));
	}
}

/* Blocks of tables: a Set changes the entries of its block, and no others. */
static void t_tables(void **state)
{
	static const struct {
		uint16_t attr;
		uint32_t mod, other;
		uint16_t lid;
		unsigned bytes;
	} rows[] = {
		{ ATTR_LFT, 3, 4, 1, 64 },
		{ ATTR_MFT, 31, 30, 1, 64 },
		{ ATTR_PKEY_TABLE, 3, 2, 3, 64 },
		{ ATTR_PKEY_TABLE, 4 << 16, 3 << 16, 1, 64 },
		{ ATTR_SL2VL, 3 << 8 | 4, 4 << 8 | 3, 1, 8 },
		{ ATTR_SL2VL, 0, 0, 3, 8 },
		{ ATTR_VL_ARB, 1 << 16 | 2, 3 << 16 | 2, 1, 16 },
		{ ATTR_VL_ARB, 3 << 16, 1 << 16, 3, 16 },
		{ ATTR_GUID_INFO, 1, 2, 3, 64 },
	};
	struct prng r;

	(void)state;
	rand_seed(&r, 5);
	for (unsigned i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
		struct smp smp = { 0 }, before = { 0 }, after = { 0 };
		uint8_t data[SMP_DATA];

		for (unsigned k = 0; k < SMP_DATA; k++)
			data[k] = (uint8_t)rand_u64(&r);
		fix_lid(&world, METHOD_GET, rows[i].attr, rows[i].other, rows[i].lid,
			&before);
		memcpy(smp.data, data, SMP_DATA);
		assert_int_equal(fix_lid(&world, METHOD_SET, rows[i].attr, rows[i].mod,
					 rows[i].lid, &smp),
				 MAD_OK);
		memset(data + rows[i].bytes, 0, SMP_DATA - rows[i].bytes);
		assert_memory_equal(smp.data, data, SMP_DATA);
		memset(smp.data, 0xee, SMP_DATA);
		assert_int_equal(fix_lid(&world, METHOD_GET, rows[i].attr, rows[i].mod,
					 rows[i].lid, &smp),
				 MAD_OK);
		assert_memory_equal(smp.data, data, SMP_DATA);
		if (rows[i].mod == rows[i].other)
			continue;
		fix_lid(&world, METHOD_GET, rows[i].attr, rows[i].other, rows[i].lid,
			&after);
		assert_memory_equal(before.data, after.data, SMP_DATA);
	}
}

static void t_guid_0_stays(void **state)
{
	struct smp smp = { 0 };
	be64_t guid = be64(world.f->node[2].port[1].guid);

	(void)state;
	assert_int_equal(fix_lid(&world, METHOD_SET, ATTR_GUID_INFO, 0, 3, &smp), MAD_OK);
	assert_memory_equal(smp.data, &guid, 8);
}

static void t_switch_info(void **state)
{
	struct switch_info si;
	struct smp smp = { 0 };

	(void)state;
	world.f->node[0].si.state_change = 1;
	assert_int_equal(fix_lid(&world, METHOD_GET, ATTR_SWITCH_INFO, 0, 1, &smp),
			 MAD_OK);
	attr_get(&attr_switch_info, smp.data, &si);
	assert_int_equal(si.lft_cap, LFT_CAP);
	assert_int_equal(si.state_change, 1);
	si.lft_top = 77;
	si.lifetime = 18;
	si.mft_cap = 1;
	si.state_change = 0;
	attr_put(&attr_switch_info, smp.data, &si);
	assert_int_equal(fix_lid(&world, METHOD_SET, ATTR_SWITCH_INFO, 0, 1, &smp),
			 MAD_OK);
	attr_get(&attr_switch_info, smp.data, &si);
	assert_int_equal(si.lft_top, 77);
	assert_int_equal(si.lifetime, 18);
	assert_int_equal(si.mft_cap, MFT_CAP);
	assert_int_equal(si.state_change, 1);
	si.state_change = 1;
	attr_put(&attr_switch_info, smp.data, &si);
	assert_int_equal(fix_lid(&world, METHOD_SET, ATTR_SWITCH_INFO, 0, 1, &smp),
			 MAD_OK);
	attr_get(&attr_switch_info, smp.data, &si);
	assert_int_equal(si.state_change, 0);
	si.lft_top = LFT_CAP;
	attr_put(&attr_switch_info, smp.data, &si);
	assert_int_equal(fix_lid(&world, METHOD_SET, ATTR_SWITCH_INFO, 0, 1, &smp),
			 MAD_BAD_FIELD);
	assert_int_equal(world.f->node[0].si.lft_top, 77);
}

/* One invalid field makes the agent refuse the whole Set. */
static void t_port_info_refused(void **state)
{
	struct port_info was = port_get(0, 3);
#define BAD(field, value)                                                                \
	do {                                                                             \
		struct port_info pi = was, now;                                          \
		uint8_t a[64], b[64];                                                    \
		pi.state = PORT_NOP;                                                     \
		pi.phys_state = PHYS_NOP;                                                \
		pi.sm_sl = 9;                                                            \
		pi.field = value;                                                        \
		assert_int_equal(port_set(1, 3, &pi), MAD_BAD_FIELD);                    \
		now = port_get(0, 3);                                                    \
		attr_put(&attr_port_info, a, &was);                                      \
		attr_put(&attr_port_info, b, &now);                                      \
		assert_memory_equal(a, b, sizeof(a));                                    \
	} while (0)

	(void)state;
	BAD(lid, 0);
	BAD(lid, 0xc000);
	BAD(sm_lid, 0xffff);
	BAD(sm_lid, 0);
	BAD(mtu, 6);
	BAD(oper_vls, 5);
	BAD(width_enabled, 32);
	BAD(speed_enabled, 8);
	BAD(state, PORT_INIT);
	BAD(state, PORT_ARMED); /* the port is active */
	BAD(state, 5);
	BAD(phys_state, PHYS_TRAINING);
	BAD(down_default, PHYS_DISABLED);
#undef BAD
}

/* What a subnet manager sets at a new port, and the fields that it cannot change. */
static void t_port_info(void **state)
{
	struct port_info pi, was;

	(void)state;
	world.f->node[2].port[1].pi.state = PORT_INIT;
	was = pi = port_get(0, 3);
	pi.state = PORT_ARMED;
	pi.phys_state = PHYS_NOP;
	pi.mkey_lease = 7;
	pi.mtu = 4;
	pi.oper_vls = 3;
	pi.subnet_timeout = 17;
	pi.vl_cap = pi.mtu_cap = pi.guid_cap = 1;
	pi.cap_mask = 0;
	pi.width_active = pi.width_supported = 1;
	pi.width_enabled = pi.speed_enabled = 0;
	assert_int_equal(port_set(1, 3, &pi), MAD_OK);
	pi = port_get(1, 3);
	assert_int_equal(pi.state, PORT_ARMED);
	assert_int_equal(pi.phys_state, PHYS_LINK_UP);
	assert_int_equal(pi.mtu, 4);
	assert_int_equal(pi.oper_vls, 3);
	assert_int_equal(pi.mkey_lease, 7);
	assert_int_equal(pi.subnet_timeout, 17);
	assert_int_equal(pi.vl_cap, was.vl_cap);
	assert_int_equal(pi.mtu_cap, was.mtu_cap);
	assert_int_equal(pi.guid_cap, was.guid_cap);
	assert_int_equal(pi.cap_mask, was.cap_mask);
	assert_int_equal(pi.width_active, was.width_active);
	assert_int_equal(pi.width_supported, was.width_supported);
	assert_int_equal(pi.width_enabled, was.width_enabled);
	assert_int_equal(pi.speed_enabled, was.speed_enabled);
	pi.state = PORT_ACTIVE;
	pi.phys_state = PHYS_NOP;
	pi.reregister = 1;
	assert_int_equal(port_set(1, 3, &pi), MAD_OK);
	pi = port_get(1, 3);
	assert_int_equal(pi.state, PORT_ACTIVE);
	assert_int_equal(pi.reregister, 0);
}

/* What ibportstate does: disable a port, then enable it; the port at the other end goes
 * down and comes up with it. */
static void t_disable(void **state)
{
	struct port_info pi = port_get(2, 1);
	struct fabric_port_view far;

	(void)state;
	assert_true(fabric_port(world.f, 2, 1, &far));
	pi.state = PORT_DOWN;
	pi.phys_state = PHYS_DISABLED;
	assert_int_equal(port_set(2, 1, &pi), MAD_OK);
	assert_int_equal(far.info->state, PORT_DOWN);
	assert_int_equal(far.info->phys_state, PHYS_POLLING);
	pi = port_get(2, 1);
	assert_int_equal(pi.phys_state, PHYS_DISABLED);
	assert_true(world.f->node[0].si.state_change);
	pi.state = PORT_NOP;
	pi.phys_state = PHYS_POLLING;
	assert_int_equal(port_set(2, 1, &pi), MAD_OK);
	assert_int_equal(far.info->state, PORT_INIT);
	pi = port_get(2, 1);
	assert_int_equal(pi.state, PORT_INIT);
	assert_int_equal(pi.phys_state, PHYS_LINK_UP);

	pi.state = PORT_DOWN; /* the port trains again at once */
	pi.phys_state = PHYS_NOP;
	world.f->node[0].port[2].pi.state = world.f->node[2].port[1].pi.state =
		PORT_ACTIVE;
	assert_int_equal(port_set(2, 1, &pi), MAD_OK);
	assert_int_equal(far.info->state, PORT_INIT);
}

/* The answer to a Set tells a subnet manager which M_Key the port has now. */
static void t_mkey_set(void **state)
{
	struct smp smp = { 0 };
	struct port_info pi;

	(void)state;
	assert_int_equal(FIX_DR(&world, METHOD_GET, ATTR_PORT_INFO, 1, &smp, 1, 2), 0);
	attr_get(&attr_port_info, smp.data, &pi);
	pi.mkey = 0x1234;
	pi.mkey_protect = 2;
	pi.state = pi.phys_state = 0;
	attr_put(&attr_port_info, smp.data, &pi);
	assert_int_equal(FIX_DR(&world, METHOD_SET, ATTR_PORT_INFO, 1, &smp, 1, 2), 0);
	attr_get(&attr_port_info, smp.data, &pi);
	assert_int_equal(pi.mkey, 0x1234);
	smp.mkey = be64(0x1234);
	assert_int_equal(FIX_DR(&world, METHOD_GET, ATTR_PORT_INFO, 1, &smp, 1, 2), 0);
	attr_get(&attr_port_info, smp.data, &pi);
	assert_int_equal(pi.mkey, 0x1234);
}

/* 14.2.4: requests without the right M_Key. */
static void t_mkey(void **state)
{
	struct port_info *pi = &world.f->node[2].port[1].pi;
	struct smp smp = { 0 };

	(void)state;
	pi->mkey = 0x1234;
	pi->mkey_lease = 3;
	/* Without a subnet manager's LID no trap is sent. */
	world.f->node[2].port[1].pi.sm_lid = 0;
	assert_int_equal(fix_lid(&world, METHOD_GET, ATTR_PORT_INFO, 0, 3, &smp), MAD_OK);
	assert_int_equal(smp.data[7], 0x34);
	assert_int_equal(fix_lid(&world, METHOD_SET, ATTR_PKEY_TABLE, 0, 3, &smp), -1);
	pi->mkey_protect = 1;
	assert_int_equal(fix_lid(&world, METHOD_GET, ATTR_PORT_INFO, 0, 3, &smp), MAD_OK);
	assert_int_equal(smp.data[7], 0);
	pi->mkey_protect = 2;
	assert_int_equal(fix_lid(&world, METHOD_GET, ATTR_PORT_INFO, 0, 3, &smp), -1);
	assert_int_equal(pi->mkey_violations, 2);
	smp.mkey = be64(0x1234);
	assert_int_equal(fix_lid(&world, METHOD_GET, ATTR_PORT_INFO, 0, 3, &smp), MAD_OK);
	assert_int_equal(smp.data[7], 0x34);

	/* The lease began with the violation, and the right M_Key ended it; here it
	 * begins again and runs out. */
	assert_true(fabric_next(world.f) == UINT64_MAX);
	smp.mkey = be64(0);
	assert_int_equal(fix_lid(&world, METHOD_GET, ATTR_PORT_INFO, 0, 3, &smp), -1);
	assert_true(fabric_next(world.f) == world.now + 3000000000);
	world.now += 3000000000;
	fabric_run(world.f, world.now);
	assert_int_equal(pi->mkey_protect, 0);
	assert_int_equal(fix_lid(&world, METHOD_GET, ATTR_PORT_INFO, 0, 3, &smp), MAD_OK);
}

/* Random SMPs: answered or not, and the subnet still works afterwards. */
static void t_random(void **state)
{
	struct smp smp;
	struct prng r;

	(void)state;
	rand_seed(&r, 17);
	for (unsigned n = 0; n < 100000; n++) {
		struct mad_pkt pkt = { .dlid = (uint16_t)rand_below(&r, 5),
				       .sl = (uint8_t)rand_below(&r, 16) };

		for (unsigned i = 0; i < MAD_SIZE; i++)
			pkt.mad[i] = rand_below(&r, 4) ? 0 : (uint8_t)rand_u64(&r);
		pkt.mad[0] = pkt.mad[2] = 1;
		pkt.mad[1] = rand_below(&r, 2) ? MAD_SM_DR : MAD_SM_LID;
		pkt.mad[3] = (uint8_t)rand_below(&r, 8);
		pkt.mad[7] = (uint8_t)rand_below(&r, 4);
		pkt.mad[16] = 0;
		pkt.mad[17] = (uint8_t)(0x10 + rand_below(&r, 12));
		if (rand_below(&r, 2))
			memset(pkt.mad + 32, 0xff, 4);
		for (unsigned i = 128; i < 136; i++)
			pkt.mad[i] = (uint8_t)rand_below(&r, 4);
		assert_int_equal(fabric_send(world.f, world.at, world.port, &pkt), 0);
		fabric_run(world.f, world.now += 1000);
	}
	memset(&smp, 0, sizeof(smp));
	world.f->node[1].port[1].pi.mkey = 0;
	assert_int_equal(FIX_DR(&world, METHOD_GET, ATTR_NODE_DESC, 0, &smp), MAD_OK);
}

int main(void)
{
#define TEST(t) cmocka_unit_test_setup_teardown(t, fix_open, fix_close)
	const struct CMUnitTest tests[] = {
		TEST(t_node_description), TEST(t_refused),     TEST(t_tables),
		TEST(t_guid_0_stays),	  TEST(t_switch_info), TEST(t_port_info_refused),
		TEST(t_port_info),	  TEST(t_disable),     TEST(t_mkey),
		TEST(t_mkey_set),	  TEST(t_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
