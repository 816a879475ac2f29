/* SPDX-License-Identifier: BSD-2-Clause */
/* UD: datagrams with a GRH in front, Q_Keys, multicast. */
#include "ib/fix.h"
#include "verbs/device.h"
#include "verbs/device_testing.h"

#include "sys/log_testing.h"

static struct ah *to(struct fix *f, int side, const uint8_t gid[16])
{
	struct ibv_ah_attr a = { .is_global = 1,
				 .port_num = 1,
				 .grh = { .sgid_index = f->conf.ipv6 ? 0 : 1,
					  .hop_limit = 17,
					  .traffic_class = 0x60 } };
	struct ah *ah;

	memcpy(a.grh.dgid.raw, gid, 16);
	assert_int_equal(ah_create(f->s->node[side].pd, &f->s->node[side].ctx, &a, &ah),
			 0);
	return ah;
}

static struct ah *to_peer(struct fix *f)
{
	return to(f, 0, device_gid(f->s->node[1].dev, f->conf.ipv6 ? 0 : 1).raw);
}

static void post(struct fix *f, struct ah *ah, uint32_t len, uint32_t qkey,
		 enum ibv_wr_opcode op)
{
	struct ibv_sge sge = sim_sge(f->mr[0], 0, len);
	struct ibv_send_wr wr = {
		.wr_id = 1,
		.opcode = op,
		.sg_list = &sge,
		.num_sge = 1,
		.send_flags = IBV_SEND_SIGNALED,
		.imm_data = 0x12345678,
		.wr.ud = { &ah->ibv, f->p.qp[1]->qpn, qkey },
	};

	sim_send(f->p.qp[0], &wr);
}

static void over_ipv4(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UD, NULL);
	struct ah *ah = to_peer(f);
	const uint8_t *grh = f->mem[1];
	struct ibv_wc wc;

	(void)state;
	fix_recv(f, 9, 0, 1041);
	post(f, ah, 1001, 0x11111111, IBV_WR_SEND_WITH_IMM);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	wc = fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	assert_int_equal(wc.byte_len, 1041);
	assert_int_equal(wc.wc_flags, IBV_WC_GRH | IBV_WC_WITH_IMM);
	assert_int_equal(wc.src_qp, f->p.qp[0]->qpn);
	assert_int_equal(wc.imm_data, 0x12345678);
	assert_memory_equal(f->mem[1] + 40, f->mem[0], 1001);
	assert_int_equal(grh[20], 0x45);
	assert_int_equal(grh[21], 0x60);
	assert_memory_equal(grh + 32, "\x0a\0\0\1\x0a\0\0\2", 8);
	assert_int_equal(f->log[0].f.qkey, 0x11111111);
	assert_int_equal(f->log[0].f.pad, 3);
	assert_int_equal(f->log[0].f.opcode, 0x65);
	fix_quiet(f);
	assert_int_equal(fix_count(f, 1, NULL), 0);
	assert_int_equal(ah_destroy(ah), 0);
	fix_close(f);
}

static void over_ipv6(void **state)
{
	struct sim_conf c = { .ipv6 = true };
	struct fix *f = fix_open(IBV_QPT_UD, &c);
	struct ah *ah = to_peer(f);

	(void)state;
	fix_recv(f, 9, 0, 140);
	post(f, ah, 100, 0x11111111, IBV_WR_SEND);
	assert_int_equal(fix_wc(f, 1, 9, IBV_WC_SUCCESS).byte_len, 140);
	assert_int_equal(f->mem[1][0] >> 4, 6);
	assert_memory_equal(f->mem[1] + 8, device_gid(f->s->node[0].dev, 0).raw, 16);
	assert_memory_equal(f->mem[1] + 24, device_gid(f->s->node[1].dev, 0).raw, 16);
	assert_int_equal(ah_destroy(ah), 0);
	fix_close(f);
}

static void qkeys(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UD, NULL);
	struct ah *ah = to_peer(f);

	(void)state;
	fix_recv(f, 9, 0, 140);
	post(f, ah, 100, 0x22222222, IBV_WR_SEND);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_quiet(f);
	fix_no_wc(f, 1);
	assert_int_equal(ib_counter(&f->s->node[1].core, IB_RX_QKEY), 1);
	assert_int_equal(f->p.qp[1]->dev->qkey_violations, 1);
	post(f, ah, 100, 0x80000000, IBV_WR_SEND); /* the QP's own Q_Key */
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	assert_int_equal(ah_destroy(ah), 0);
	fix_close(f);
}

static void what_does_not_fit(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UD, NULL);
	struct ah *ah = to_peer(f);

	(void)state;
	post(f, ah, 100, 0x11111111, IBV_WR_SEND); /* no receive is posted */
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_quiet(f);
	fix_recv(f, 9, 0, 139);
	post(f, ah, 100, 0x11111111, IBV_WR_SEND); /* too long by one */
	fix_quiet(f);
	fix_no_wc(f, 1);
	post(f, ah, 99, 0x11111111, IBV_WR_SEND); /* the receive is still posted */
	assert_int_equal(fix_wc(f, 1, 9, IBV_WC_SUCCESS).byte_len, 139);
	assert_int_equal(ib_counter(&f->s->node[1].core, IB_RX_UD_DROPPED), 2);
	assert_int_equal(ah_destroy(ah), 0);
	fix_close(f);
}

static unsigned lines_of(const char *text, const char *what)
{
	unsigned n = 0;

	for (; (text = strstr(text, what)); text++)
		n++;
	return n;
}

/* Each reason once, and of what follows a line a second: anybody may send datagrams. */
static void a_flood_does_not_fill_the_log(void **state)
{
	enum { FLOOD = 100, FEW = 10 };
	struct fix *f = fix_open(IBV_QPT_UD, NULL);
	struct ib_fields p = {
		.opcode = ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_NONE),
		.dest_qp = f->p.qp[1]->qpn,
		.pkey = PKEY_DEFAULT,
		.qkey = 0x11111111,
		.src_qp = 5,
	};
	char text[FLOOD * 256];

	(void)state;
	LOGGED(
		text, "info", for (int i = 0; i < FLOOD; i++) {
			p.qkey = i % 2 ? 0x11111111 : 0x22222222;
			sim_inject(f->s, 0, &p, NULL, 0);
			fix_quiet(f);
		});
	assert_in_range(lines_of(text, "no receive is posted; dropped"), 1, FEW);
	assert_in_range(lines_of(text, "another than the QP's; dropped"), 1, FEW);
	assert_int_equal(ib_counter(&f->s->node[1].core, IB_RX_UD_DROPPED), FLOOD / 2);
	fix_close(f);
}

static void receive_of_an_srq_ends_in_error(void **state)
{
	(void)state;
	fix_srq_receive_fails(IBV_QPT_UD,
			      (struct ib_fields){
				      .opcode =
					      ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_NONE),
				      .qkey = 0x11111111,
				      .src_qp = 5,
			      },
			      60, 24);
}

static void longer_than_the_mtu(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UD, NULL);
	struct ah *ah = to_peer(f);

	(void)state;
	fix_recv(f, 9, 0, 8000);
	post(f, ah, 4096, 0x11111111, IBV_WR_SEND);
	fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	post(f, ah, 4097, 0x11111111, IBV_WR_SEND);
	fix_wc(f, 0, 1, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(f->p.qp[0]->state, IBV_QPS_SQE);
	fix_recv(f, 10, 0, 8000); /* a peer that ignores the MTU */
	sim_inject(f->s, 0,
		   &(struct ib_fields){
			   .opcode = ib_opcode(IB_UD, IB_SEND, IB_ONLY, IB_NONE),
			   .pkey = 0xffff,
			   .dest_qp = f->p.qp[1]->qpn,
			   .qkey = 0x11111111,
			   .src_qp = 5,
		   },
		   f->mem[0], 4100);
	fix_quiet(f);
	fix_no_wc(f, 1);
	assert_int_equal(ib_counter(&f->s->node[1].core, IB_RX_UD_DROPPED), 1);
	assert_int_equal(ah_destroy(ah), 0);
	fix_close(f);
}

static void multicast(void **state)
{
	static const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
	struct fix *f = fix_open(IBV_QPT_UD, NULL);
	struct sim_pair other = sim_pair(f->s, IBV_QPT_UD, &f->conf);
	struct ah *ah = to(f, 0, group.raw);
	struct ibv_sge sge[2] = { sim_sge(f->mr[0], 0, 50), sim_sge(f->mr[1], 500, 90) };
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = sge,
		.num_sge = 1,
		.wr.ud = { &ah->ibv, 0xffffff, 0x11111111 },
	};
	struct ibv_wc wc;

	(void)state;
	assert_int_equal(mcast_attach(f->p.qp[1], &group), 0);
	assert_int_equal(mcast_attach(other.qp[1], &group), 0);
	fix_recv(f, 9, 0, 90);
	sim_recv(other.qp[1], 10, &sge[1], 1);
	sim_send(f->p.qp[0], &wr);
	assert_int_equal(fix_wc(f, 1, 9, IBV_WC_SUCCESS).byte_len, 90);
	assert_true(sim_wait(f->s, other.cq[1], SEC, &wc));
	assert_int_equal(wc.wr_id, 10);
	assert_memory_equal(f->mem[1] + 40, f->mem[0], 50);
	assert_memory_equal(f->mem[1] + 540, f->mem[0], 50);
	assert_int_equal(mcast_detach(other.qp[1], &group), 0);
	sim_recv(other.qp[1], 10, &sge[1], 1);
	fix_recv(f, 9, 0, 90);
	sim_send(f->p.qp[0], &wr);
	fix_wc(f, 1, 9, IBV_WC_SUCCESS);
	fix_quiet(f);
	assert_int_equal(cq_poll(other.cq[1], 1, &wc), 0);
	wr.wr.ud.remote_qpn = f->p.qp[1]->qpn; /* the member's own number */
	fix_recv(f, 9, 0, 90);
	sim_send(f->p.qp[0], &wr);
	fix_quiet(f);
	assert_int_equal(cq_poll(f->p.cq[1], 1, &wc), 0);
	assert_int_equal(ib_counter(&f->s->node[1].core, IB_RX_NO_ADDR), 1);
	assert_int_equal(mcast_detach(f->p.qp[1], &group), 0);
	assert_int_equal(ah_destroy(ah), 0);
	sim_unpair(f->s, &other);
	fix_close(f);
}

/* A QP that does not want its own packets, and another host's QP of the same number. */
static void own_multicast_is_blocked(void **state)
{
	static const union ibv_gid group = { .raw = { [10] = 0xff, 0xff, 239, 1, 2, 3 } };
	struct fix *f = fix_open(IBV_QPT_UD, NULL);
	struct ah *ah = to(f, 0, group.raw);
	struct ibv_sge sge = sim_sge(f->mr[0], 0, 50);
	struct ibv_send_wr wr = {
		.opcode = IBV_WR_SEND,
		.sg_list = &sge,
		.num_sge = 1,
		.wr.ud = { &ah->ibv, 0xffffff, 0x11111111 },
	};
	struct qp *qp = f->p.qp[1];
	const uint32_t qpn = qp->qpn;

	(void)state;
	assert_int_equal(mcast_attach(qp, &group), 0);
	qp->qpn = f->p.qp[0]->qpn; /* as if it were the sender */
	for (int own = 0; own < 2; own++) {
		if (own)
			qp->dev->port.gid[1].gid = device_gid(f->s->node[0].dev, 1);
		for (int blocked = 0; blocked < 2; blocked++) {
			qp->create_flags =
				blocked ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
			fix_recv(f, 9, 0, 90);
			sim_send(f->p.qp[0], &wr);
			if (own && blocked) {
				fix_quiet(f);
				fix_no_wc(f, 1);
			} else {
				fix_wc(f, 1, 9, IBV_WC_SUCCESS);
			}
		}
	}
	qp->qpn = qpn;
	assert_int_equal(mcast_detach(qp, &group), 0);
	assert_int_equal(ah_destroy(ah), 0);
	fix_close(f);
}

static void taken_back_is_not_lost(void **state)
{
	struct fix *f = fix_open(IBV_QPT_UD, NULL);
	struct ah *ah = to_peer(f);

	(void)state;
	f->s->take_every = 2;
	for (unsigned i = 0; i < 100; i++) {
		fix_recv(f, i, 0, 540);
		post(f, ah, 500, 0x11111111, IBV_WR_SEND);
	}
	for (unsigned i = 0; i < 100; i++) {
		fix_wc(f, 1, i, IBV_WC_SUCCESS);
		fix_wc(f, 0, 1, IBV_WC_SUCCESS);
	}
	assert_int_equal(ah_destroy(ah), 0);
	fix_close(f);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(over_ipv4),
		cmocka_unit_test(over_ipv6),
		cmocka_unit_test(qkeys),
		cmocka_unit_test(what_does_not_fit),
		cmocka_unit_test(a_flood_does_not_fill_the_log),
		cmocka_unit_test(receive_of_an_srq_ends_in_error),
		cmocka_unit_test(longer_than_the_mtu),
		cmocka_unit_test(multicast),
		cmocka_unit_test(own_multicast_is_blocked),
		cmocka_unit_test(taken_back_is_not_lost),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
