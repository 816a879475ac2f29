/* SPDX-License-Identifier: BSD-2-Clause */
/* Packets through the subnet: directed routes, LIDs, both of them, links and loops. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "fabric/fix.h"
#include "sys/clock.h"

static struct node_info node_info(const struct smp *smp)
{
	struct node_info n;

	attr_get(&attr_node_info, smp->data, &n);
	return n;
}

/* A directed route without a hop leads to the adapter itself; then to each node of the
 * line, and back. */
static void t_directed(void **state)
{
	struct smp smp = { 0 };
	struct node_info n;
	struct fix x;

	(void)state;
	fix_start(&x, fix_line);
	assert_int_equal(FIX_DR(&x, METHOD_GET, ATTR_NODE_INFO, 0, &smp), MAD_OK);
	n = node_info(&smp);
	assert_int_equal(n.type, TOPO_CA);
	assert_int_equal(n.local_port, 1);
	assert_true(n.port_guid == n.guid + 1);
	assert_int_equal(x.got[0].pkt.slid, LID_PERMISSIVE);
	assert_int_equal(smp.h.hop_ptr, 0);

	assert_int_equal(FIX_DR(&x, METHOD_GET, ATTR_NODE_INFO, 0, &smp, 1), MAD_OK);
	n = node_info(&smp);
	assert_int_equal(n.type, TOPO_SWITCH);
	assert_true(n.guid == x.t.node[0].guid && n.port_guid == n.guid);
	assert_int_equal(n.local_port, 1);

	assert_int_equal(FIX_DR(&x, METHOD_GET, ATTR_NODE_INFO, 0, &smp, 1, 2, 2, 17),
			 MAD_OK);
	n = node_info(&smp);
	assert_int_equal(n.type, TOPO_CA);
	assert_true(n.guid == x.t.node[fix_node(&x, "H-b")].guid);
	assert_int_equal(smp.h.hop_ptr, 0);
	assert_int_equal(smp.back[2], 1);
	assert_int_equal(x.n, 1);
	fix_end(&x);
}

/* Ports that do not exist or are not linked; an adapter does not forward. */
static void t_directed_nowhere(void **state)
{
	struct smp smp = { 0 };
	struct fix x;

	(void)state;
	fix_start(&x, fix_line);
	assert_int_equal(FIX_DR(&x, METHOD_GET, ATTR_NODE_INFO, 0, &smp, 2), -1);
	assert_int_equal(FIX_DR(&x, METHOD_GET, ATTR_NODE_INFO, 0, &smp, 1, 3), -1);
	assert_int_equal(FIX_DR(&x, METHOD_GET, ATTR_NODE_INFO, 0, &smp, 1, 0), -1);
	assert_int_equal(FIX_DR(&x, METHOD_GET, ATTR_NODE_INFO, 0, &smp, 1, 200), -1);
	assert_int_equal(FIX_DR(&x, METHOD_GET, ATTR_NODE_INFO, 0, &smp, 1, 2, 2, 17, 1),
			 -1);
	assert_int_equal(x.n, 0);
	fix_end(&x);
}

static void t_by_lid(void **state)
{
	struct smp smp = { 0 };
	struct fix x;

	(void)state;
	fix_start(&x, fix_line);
	assert_int_equal(fix_lid(&x, METHOD_GET, ATTR_NODE_INFO, 0, 2, &smp), -1);
	fix_manage(&x);
	for (uint16_t lid = 1; lid <= 5; lid++) {
		assert_int_equal(fix_lid(&x, METHOD_GET, ATTR_NODE_INFO, 0, lid, &smp),
				 MAD_OK);
		assert_true(node_info(&smp).guid == x.t.node[lid - 1].guid);
		assert_int_equal(x.got[0].pkt.slid, lid);
	}
	assert_int_equal(fix_lid(&x, METHOD_GET, ATTR_NODE_INFO, 0, 6, &smp), -1);
	assert_int_equal(fix_lid(&x, METHOD_GET, ATTR_NODE_INFO, 0, 0xc000, &smp), -1);
	fix_end(&x);
}

/* A route by LID to sw2 and then by the directed part to H-b, and the same way back. */
static void t_lid_then_directed(void **state)
{
	struct mad_pkt pkt = { .dlid = 2 };
	struct smp smp = { .h = { .base_version = 1,
				  .class = MAD_SM_DR,
				  .class_version = 1,
				  .method = METHOD_GET,
				  .hop_count = 2,
				  .attr = be16(ATTR_NODE_INFO) },
			   .initial = { 0, 2, 17 } };
	struct fix x;

	(void)state;
	fix_start(&x, fix_line);
	fix_manage(&x);
	smp.dr_slid = be16(4);
	smp.dr_dlid = be16(LID_PERMISSIVE);
	memcpy(pkt.mad, &smp, sizeof(smp));
	assert_int_equal(fabric_send(x.f, x.at, 1, &pkt), 0);
	fabric_run(x.f, x.now);
	assert_int_equal(x.n, 1);
	memcpy(&smp, x.got[0].pkt.mad, sizeof(smp));
	assert_int_equal(get_be16(smp.h.status), SMP_RETURN);
	assert_true(node_info(&smp).guid == x.t.node[fix_node(&x, "H-b")].guid);
	assert_int_equal(x.got[0].pkt.slid, 2);
	assert_int_equal(x.got[0].pkt.dlid, 4);
	fix_end(&x);
}

/* A directed route to sw1, then by LID to H-b; and directed parts at both ends. */
static void t_directed_then_lid(void **state)
{
	struct mad_pkt pkt = { .slid = LID_PERMISSIVE, .dlid = LID_PERMISSIVE };
	struct smp smp = { .h = { .base_version = 1,
				  .class = MAD_SM_DR,
				  .class_version = 1,
				  .method = METHOD_GET,
				  .hop_count = 1,
				  .attr = be16(ATTR_NODE_INFO) },
			   .initial = { 0, 1 } };
	struct fix x;

	(void)state;
	fix_start(&x, fix_line);
	fix_manage(&x);
	smp.dr_slid = be16(LID_PERMISSIVE);
	smp.dr_dlid = be16(5);
	memcpy(pkt.mad, &smp, sizeof(smp));
	assert_int_equal(fabric_send(x.f, x.at, 1, &pkt), 0);
	fabric_run(x.f, x.now);
	assert_int_equal(x.n, 1);
	memcpy(&smp, x.got[0].pkt.mad, sizeof(smp));
	assert_true(node_info(&smp).guid == x.t.node[fix_node(&x, "H-b")].guid);
	assert_int_equal(smp.h.hop_ptr, 0);

	smp.h.method = METHOD_GET;
	smp.h.status = be16(0);
	smp.h.hop_ptr = 0;
	smp.initial[1] = 2;
	smp.dr_slid = be16(4);
	pkt.dlid = 1;
	pkt.slid = 0;
	x.n = 0;
	memcpy(pkt.mad, &smp, sizeof(smp));
	assert_int_equal(fabric_send(x.f, x.at, 1, &pkt), 0);
	fabric_run(x.f, x.now);
	assert_int_equal(x.n, 1);
	assert_int_equal(x.got[0].node, x.at);
	fix_end(&x);
}

static void send_perf(struct fix *x, uint16_t dlid, uint16_t pkey)
{
	struct mad_pkt pkt = { .dlid = dlid,
			       .dqpn = QP_GSI,
			       .sqpn = QP_GSI,
			       .qkey = QKEY_GSI,
			       .pkey = pkey };
	struct mad_hdr h = { .base_version = 1,
			     .class = MAD_PERF,
			     .class_version = 1,
			     .method = METHOD_GET,
			     .attr = be16(ATTR_PORT_COUNTERS) };

	memcpy(pkt.mad, &h, sizeof(h));
	pkt.mad[65] = 1;
	x->n = 0;
	assert_int_equal(fabric_send(x->f, x->at, 1, &pkt), 0);
	fabric_run(x->f, x->now);
}

/* MADs of QP1 need active links and a common partition, and are counted at both ends. */
static void t_qp1(void **state)
{
	struct fabric_port_view a, s;
	struct fix x;

	(void)state;
	fix_start(&x, fix_two);
	fix_manage(&x);
	send_perf(&x, 3, PKEY_DEFAULT);
	assert_int_equal(x.n, 1);
	assert_int_equal(x.got[0].pkt.mad[3], METHOD_GET_RESP);
	assert_true(fabric_port(x.f, x.at, 1, &a));
	assert_true(fabric_port(x.f, 0, 1, &s));
	assert_int_equal(a.count->xmit_pkts, 1);
	assert_int_equal(a.count->rcv_pkts, 1);
	assert_int_equal(s.count->rcv_pkts, 1);
	assert_int_equal(s.count->xmit_data, 72);
	assert_int_equal(a.count->rcv_data, 72);

	send_perf(&x, 3, 0x8001);
	assert_int_equal(x.n, 1); /* trap 257 to the subnet manager */
	assert_int_equal(x.got[0].pkt.mad[3], METHOD_TRAP);
	assert_int_equal(x.f->node[2].port[1].pi.pkey_violations, 1);

	x.f->node[0].port[2].pi.state = PORT_ARMED;
	send_perf(&x, 3, PKEY_DEFAULT);
	assert_int_equal(x.n, 0);
	assert_true(fabric_port(x.f, 0, 2, &s));
	assert_int_equal(s.count->xmit_discards, 1);
	fix_end(&x);
}

/* The agents of a full member answer a limited member with a P_Key that the limited
 * member accepts; two limited members do not hear each other. */
static void t_limited_members(void **state)
{
	struct fix x;

	(void)state;
	fix_start(&x, fix_two);
	fix_manage(&x);
	x.f->node[x.at].port[1].pkey[0] = PKEY_DEFAULT & ~PKEY_FULL;
	send_perf(&x, 3, PKEY_DEFAULT & ~PKEY_FULL);
	assert_int_equal(x.n, 1);
	assert_int_equal(x.got[0].pkt.mad[3], METHOD_GET_RESP);
	assert_int_equal(x.got[0].pkt.pkey, PKEY_DEFAULT);
	assert_int_equal(x.f->node[x.at].port[1].pi.pkey_violations, 0);

	x.f->node[0].port[1].pkey[0] = PKEY_DEFAULT & ~PKEY_FULL;
	x.f->node[0].port[1].pi.enforce_in = 1; /* the switch enforces partitions */
	x.f->node[0].port[1].pi.enforce_out = 1;
	send_perf(&x, 3, PKEY_DEFAULT & ~PKEY_FULL);
	assert_int_equal(x.n, 1);
	assert_int_equal(x.got[0].pkt.pkey, PKEY_DEFAULT);
	assert_int_equal(x.f->node[0].port[1].count.rcv_constraint, 0);
	send_perf(&x, 3, 0x8001);
	assert_int_equal(x.n, 1); /* trap 259 */
	assert_int_equal(x.got[0].pkt.mad[3], METHOD_TRAP);
	assert_int_equal(x.f->node[0].port[1].count.rcv_constraint, 1);

	x.f->node[2].port[1].pkey[0] = PKEY_DEFAULT & ~PKEY_FULL;
	send_perf(&x, 3, PKEY_DEFAULT & ~PKEY_FULL);
	assert_int_equal(x.got[0].pkt.mad[3], METHOD_TRAP);
	assert_int_equal(x.f->node[2].port[1].pi.pkey_violations, 1);
	fix_end(&x);
}

/* Forwarding tables that lead in a circle do not stop the fabric. */
static void t_loop(void **state)
{
	struct smp smp = { 0 };
	struct fix x;

	(void)state;
	fix_start(&x, fix_line);
	fix_manage(&x);
	x.f->node[0].lft[5] = 2;
	x.f->node[1].lft[5] = 1; /* out by the port that the packet came in by: dropped */
	assert_int_equal(fix_lid(&x, METHOD_GET, ATTR_NODE_INFO, 0, 5, &smp), -1);
	assert_int_equal(x.f->node[1].port[1].count.rcv_relay, 1);
	fix_end(&x);

	fix_start(&x, "Switch 3 \"a\"\n[1] \"b\"[2]\n[2] \"c\"[1]\n[3] \"h\"[1]\n\n"
		      "Switch 2 \"b\"\n[1] \"c\"[2]\n\nSwitch 2 \"c\"\n\nCa 1 \"h\"\n");
	fix_manage(&x);
	for (unsigned i = 0; i < 3; i++) {
		x.f->node[i].si.lft_top = 99;
		x.f->node[i].lft[99] = 1;
	}
	x.f->node[2].lft[99] = 2;
	x.f->node[1].lft[99] = 1;
	x.f->node[2].lft[99] = 1;
	assert_int_equal(fix_lid(&x, METHOD_GET, ATTR_NODE_INFO, 0, 99, &smp), -1);
	assert_true(fabric_next(x.f) == NEVER);
	fix_end(&x);
}

/* Counts each packet that crosses a link, and checks its VL. Packets that the link does
 * not take are not seen. */
static unsigned crossed;

static void crosses(void *ctx, uint32_t node, uint8_t port, uint8_t vl,
		    const struct mad_pkt *pkt)
{
	uint8_t frame[FABRIC_FRAME];

	(void)ctx;
	assert_int_equal(vl, pkt->dqpn ? 3 : 15);
	assert_int_equal(node, crossed % 2 ? 0 : 1);
	assert_int_equal(port, crossed % 2 ? 2 : 1);
	assert_int_equal(fabric_frame(frame, vl, pkt), pkt->grh ? 330 : 290);
	assert_int_equal(frame[0], vl << 4);
	assert_int_equal(frame[1], pkt->sl << 4 | (pkt->grh ? 3 : 2));
	crossed++;
}

static void deliver(void *ctx, uint32_t node, uint8_t port, const struct mad_pkt *pkt)
{
	(void)node;
	(void)port;
	(void)pkt;
	++*(unsigned *)ctx;
}

static void t_crosses(void **state)
{
	static const struct fabric_ops ops = { .deliver = deliver, .crosses = crosses };
	unsigned delivered = 0;
	struct mad_pkt pkt = {
		.pkey = 0xffff, .sl = 3, .sqpn = 1, .dqpn = 1, .dlid = 3, .mad = { 1, 3 }
	};
	struct fabric *f;
	struct fix x;

	(void)state;
	fix_start(&x, fix_two);
	fix_manage(&x);
	/* the same subnet, managed, with other operations */
	f = x.f;
	f->ops = &ops;
	f->ctx = &delivered;
	crossed = 0;
	fabric_send(f, 1, 1, &pkt);
	fabric_run(f, x.now);
	pkt.grh = true;
	fabric_send(f, 1, 1, &pkt);
	fabric_run(f, x.now);
	assert_int_equal(crossed, 4);
	assert_int_equal(delivered, 2);
	f->node[0].port[2].pi.state = PORT_INIT;
	crossed = 0;
	fabric_send(f, 1, 1, &pkt);
	fabric_run(f, x.now);
	assert_int_equal(crossed, 1);
	assert_int_equal(delivered, 2);
	fix_end(&x);
}

/* Pulls a cable: both ends go down, and the switch sends a trap; then plugs it in
 * again. */
static void t_cable(void **state)
{
	struct fabric_port_view v;
	struct smp smp = { 0 };
	struct fix x;

	(void)state;
	fix_start(&x, fix_two);
	assert_int_equal(fabric_cable(x.f, 0, 2, false, x.now), 0);
	assert_true(fabric_port(x.f, 2, 1, &v));
	assert_int_equal(v.info->state, PORT_DOWN);
	assert_int_equal(v.info->phys_state, PHYS_POLLING);
	assert_true(x.f->node[0].si.state_change);
	assert_int_equal(FIX_DR(&x, METHOD_GET, ATTR_NODE_INFO, 0, &smp, 1, 2), -1);
	assert_int_equal(fabric_cable(x.f, 2, 1, true, x.now), 0);
	assert_int_equal(v.info->state, PORT_INIT);
	assert_int_equal(v.info->width_active, 2);
	assert_int_equal(fabric_rate(v.info), 1000);
	assert_int_equal(FIX_DR(&x, METHOD_GET, ATTR_NODE_INFO, 0, &smp, 1, 2), MAD_OK);
	assert_int_not_equal(fabric_cable(x.f, 0, 3, false, x.now), 0);
	fix_end(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(t_directed),
		cmocka_unit_test(t_directed_nowhere),
		cmocka_unit_test(t_by_lid),
		cmocka_unit_test(t_lid_then_directed),
		cmocka_unit_test(t_directed_then_lid),
		cmocka_unit_test(t_qp1),
		cmocka_unit_test(t_limited_members),
		cmocka_unit_test(t_loop),
		cmocka_unit_test(t_crosses),
		cmocka_unit_test(t_cable),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
