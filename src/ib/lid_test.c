/* SPDX-License-Identifier: BSD-2-Clause */
/* An InfiniBand port, which only its attributes make one: LIDs, no GRH, MTU 4096, a table
 * of P_Keys. */
#include "ib/fix.h"

#include "net/lid_addr.h"
#include "sys/rand.h"
#include "verbs/device.h"
#include "verbs/device_testing.h"

static const struct sim_conf conf = {
	.infiniband = true,
	.path_mtu = IBV_MTU_4096,
	.pkey_index = 1,
};

static uint64_t counter(const struct fix *f, enum ib_counter c)
{
	return ib_counter(&f->s->node[1].core, c);
}

static struct lid_addr *path(struct fix *f, int side)
{
	return (struct lid_addr *)&f->p.qp[side]->path.addr;
}

static void two_qps_talk(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);

	(void)state;
	assert_int_equal(path(f, 0)->slid, device_lid(f->s->node[0].dev));
	assert_int_equal(path(f, 0)->dlid, device_lid(f->s->node[1].dev));
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 3 * 4096, 0);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_same(f, 0, 3 * 4096);
	fix_recv(f, 9, 20000, 5000);
	fix_post(f, IBV_WR_SEND, 2, 20000, 5000, 0);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_same(f, 20000, 5000);
	assert_int_equal(fix_saw(f, 0, 0, "WRITE_FIRST", 0)->payload, 4096);
	assert_int_equal(f->log[0].f.pkey, 0x8005);
	fix_close(f);
}

static void packets_of_others_are_dropped(void **state)
{
	struct fix *f = fix_open(IBV_QPT_RC, &conf);

	(void)state;
	path(f, 0)->slid += 1; /* LMC 1: a LID of the same port, but not the path's */
	fix_post(f, IBV_WR_RDMA_WRITE, 1, 0, 10, 0);
	sim_run(f->s, MS);
	assert_true(counter(f, IB_RX_NO_ADDR) > 0);
	path(f, 0)->slid -= 1;
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	f->s->node[0].dev->pkey[1] = 0x8006; /* another partition */
	fix_post(f, IBV_WR_RDMA_WRITE, 2, 0, 10, 0);
	sim_run(f->s, MS);
	assert_true(counter(f, IB_RX_PKEY) > 0);
	f->s->node[0].dev->pkey[1] = 0x8005;
	fix_wc(f, 0, 2, IBV_WC_SUCCESS);
	fix_close(f);
}

static struct ah *to_peer(struct fix *f, uint8_t grh, uint16_t dlid)
{
	struct sim_node *n = &f->s->node[0];
	struct ibv_ah_attr a = { .is_global = grh,
				 .port_num = 1,
				 .dlid = dlid,
				 .sl = 3,
				 .grh = { .hop_limit = 5 } };
	struct ah *ah = NULL;

	a.grh.dgid = device_gid(f->s->node[1].dev, 0);
	assert_int_equal(ah_create(n->pd, &n->ctx, &a, &ah), 0);
	return ah;
}

static void post_to(struct fix *f, struct ah *ah)
{
	struct ibv_sge sge = sim_sge(f->mr[0], 0, 100);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.wr.ud = { &ah->ibv, f->p.qp[1]->qpn, 0x11111111 },
	};

	sim_send(f->p.qp[0], &wr);
}

static void datagrams_need_no_grh(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UD, &conf);
	const uint16_t lid = device_lid(f->s->node[1].dev);
	struct ibv_wc wc;

	(void)state;
	for (int grh = 0; grh < 2; grh++) {
		struct ah *ah = to_peer(f, (uint8_t)grh, (uint16_t)(lid + 1));

		fix_recv(f, 7, 0, 140);
		post_to(f, ah);
		wc = fix_wc(f, 1, 7, IBV_WC_SUCCESS);
		assert_int_equal(wc.byte_len, 140);
		assert_int_equal(wc.wc_flags, grh ? IBV_WC_GRH : 0);
		assert_int_equal(wc.slid, device_lid(f->s->node[0].dev));
		assert_int_equal(wc.dlid_path_bits, 1);
		assert_int_equal(wc.sl, 3);
		assert_int_equal(wc.pkey_index, 1);
		assert_memory_equal(f->mem[1] + 40, f->mem[0], 100);
		assert_int_equal(f->mem[1][0], grh ? 0x60 : 0);
		assert_int_equal(ah_destroy(ah), 0);
	}
	fix_close(f);
}

/* The rule of 10.9.3, written otherwise than in pkey_match(). */
static bool may_talk(uint16_t a, uint16_t b)
{
	return a % 0x8000 == b % 0x8000 && a % 0x8000 != 0 &&
	       (a >= 0x8000 || b >= 0x8000);
}

static uint16_t draw_pkey(struct prng *r)
{
	return (uint16_t)(rand_below(r, 3) | rand_below(r, 2) << 15);
}

static void partitions_by_chance(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UD, &conf);
	struct device *dev[2] = { f->s->node[0].dev, f->s->node[1].dev };
	struct ah *ah = to_peer(f, 0, device_lid(dev[1]));
	uint32_t refused = 0;
	struct prng r;

	(void)state;
	rand_seed(&r, 25);
	fix_recv(f, 7, 0, 140);
	for (unsigned i = 0; i < 500; i++) {
		const uint16_t a = draw_pkey(&r), b = draw_pkey(&r);

		dev[0]->pkey[1] = a;
		dev[1]->pkey[1] = b;
		post_to(f, ah);
		fix_wc(f, 0, 0, IBV_WC_SUCCESS);
		if (may_talk(a, b)) {
			fix_wc(f, 1, 7, IBV_WC_SUCCESS);
			fix_recv(f, 7, 0, 140);
		} else {
			refused++;
			fix_quiet(f);
			fix_no_wc(f, 1);
		}
		assert_int_equal(dev[1]->pkey_violations, refused);
		assert_int_equal(counter(f, IB_RX_PKEY), refused);
	}
	assert_true(refused > 100 && refused < 450);
	assert_int_equal(ah_destroy(ah), 0);
	fix_close(f);
}

static void datagrams_for_other_ports_are_dropped(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UD, &conf);
	struct ah *ah = to_peer(f, 0, (uint16_t)(device_lid(f->s->node[1].dev) + 2));

	(void)state;
	fix_recv(f, 7, 0, 140);
	post_to(f, ah);
	fix_quiet(f);
	fix_no_wc(f, 1);
	assert_int_equal(counter(f, IB_RX_NO_ADDR), 1);
	assert_int_equal(ah_destroy(ah), 0);
	fix_close(f);
}

static void what_leads_nowhere_is_refused(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UD, &conf);
	struct sim_node *n = &f->s->node[0];
	struct ibv_ah_attr a = { .port_num = 1 };
	struct port port = device_port(n->dev);
	struct ah *ah;

	(void)state;
	assert_int_equal(ah_create(n->pd, &n->ctx, &a, &ah), -EINVAL); /* LID 0 */
	a.dlid = 0xffff;
	assert_int_equal(ah_create(n->pd, &n->ctx, &a, &ah), -EINVAL);
	a.dlid = 0xc000; /* a group, without a GRH */
	assert_int_equal(ah_create(n->pd, &n->ctx, &a, &ah), -EINVAL);
	a.dlid = 9;
	port.lid = 0; /* no subnet manager has been here */
	assert_int_equal(device_fill(n->dev, &port), PORT_LID);
	assert_int_equal(ah_create(n->pd, &n->ctx, &a, &ah), -EINVAL);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(two_qps_talk),
		cmocka_unit_test(packets_of_others_are_dropped),
		cmocka_unit_test(datagrams_need_no_grh),
		cmocka_unit_test(partitions_by_chance),
		cmocka_unit_test(datagrams_for_other_ports_are_dropped),
		cmocka_unit_test(what_leads_nowhere_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
