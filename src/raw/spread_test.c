/* SPDX-License-Identifier: BSD-2-Clause */
/* QPs that spread frames over the queues of a table: what is refused, and which queue
 * gets which frame. */
#include "raw/fix.h"

enum { QUEUES = 4 };

/* The key that Microsoft publishes to verify the hash of RSS. */
static uint8_t key[RSS_KEY] = {
	0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67,
	0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0, 0xca, 0x2b, 0xcb,
	0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30,
	0xf2, 0x0c, 0x6a, 0x42, 0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
};

static struct wq *queue[QUEUES];
static struct wq_table *table;

static int set_up(void **state)
{
	struct ibv_wq *queues[QUEUES];
	struct ibv_rwq_ind_table_init_attr how = { .log_ind_tbl_size = 2,
						   .ind_tbl = queues };

	begin(state);
	if (t.tap < 0)
		return 0;
	for (int i = 0; i < QUEUES; i++) {
		struct ibv_wq_init_attr a = { .wq_type = IBV_WQT_RQ,
					      .max_wr = 4,
					      .max_sge = 1,
					      .pd = &t.pd->ibv,
					      .cq = (struct ibv_cq *)&t.rcq->ex };
		struct ibv_wq_attr ready = { .attr_mask = IBV_WQ_ATTR_STATE,
					     .wq_state = IBV_WQS_RDY };

		assert_int_equal(wq_create(&t.ctx, &a, &queue[i]), 0);
		assert_int_equal(wq_modify(queue[i], &ready, t.now), 0);
		queues[i] = &queue[i]->ibv;
	}
	assert_int_equal(wq_table_create(&t.ctx, &how, &table), 0);
	return 0;
}

static int tear_down(void **state)
{
	if (t.tap >= 0) {
		assert_int_equal(wq_table_destroy(table), 0);
		for (int i = 0; i < QUEUES; i++)
			assert_int_equal(wq_destroy(queue[i]), 0);
	}
	return end(state);
}

static struct ibv_qp_init_attr_ex attr_of_qp(void)
{
	return (struct ibv_qp_init_attr_ex){
		.qp_context = &t,
		.qp_type = IBV_QPT_RAW_PACKET,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_IND_TABLE |
			     IBV_QP_INIT_ATTR_RX_HASH,
		.pd = &t.pd->ibv,
		.rwq_ind_tbl = &table->ibv,
		.rx_hash_conf = { .rx_hash_function = IBV_RX_HASH_FUNC_TOEPLITZ,
				  .rx_hash_key_len = RSS_KEY,
				  .rx_hash_key = key,
				  .rx_hash_fields_mask = IBV_RX_HASH_SRC_IPV4 |
							 IBV_RX_HASH_DST_IPV4 |
							 IBV_RX_HASH_SRC_PORT_TCP |
							 IBV_RX_HASH_DST_PORT_TCP },
	};
}

static struct qp *make_spread(void)
{
	const struct ibv_qp_init_attr_ex a = attr_of_qp();
	struct qp *qp;

	assert_int_equal(spread_create(&t.ctx, &a, &qp), 0);
	return qp;
}

static void what_is_refused(void **state)
{
	enum { ROWS = 15 };
	struct {
		struct ibv_qp_init_attr_ex a;
		int rc;
	} row[ROWS];
	struct qp *qp = NULL;

	(void)state;
	need_tap();
	for (int i = 0; i < ROWS; i++) {
		row[i].a = attr_of_qp();
		row[i].rc = i < 9 ? -EINVAL : -EOPNOTSUPP;
	}
	row[0].a.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_PD;
	row[1].a.comp_mask &= ~(uint32_t)IBV_QP_INIT_ATTR_RX_HASH;
	row[2].a.pd = NULL;
	row[3].a.rwq_ind_tbl = NULL;
	row[4].a.cap.max_recv_wr = 1;
	row[5].a.cap.max_recv_sge = 1;
	row[6].a.srq = (struct ibv_srq *)&t;
	row[7].a.rx_hash_conf.rx_hash_key_len = RSS_KEY - 1;
	row[8].a.rx_hash_conf.rx_hash_key = NULL;
	row[9].a.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	row[10].a.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
	row[10].a.create_flags = IBV_QP_CREATE_SCATTER_FCS;
	row[11].a.cap.max_send_wr = 1;
	row[12].a.rx_hash_conf.rx_hash_function = 0;
	row[13].a.rx_hash_conf.rx_hash_fields_mask |= IBV_RX_HASH_IPSEC_SPI;
	row[14].a.rx_hash_conf.rx_hash_fields_mask |= IBV_RX_HASH_INNER;
	for (int i = 0; i < ROWS; i++)
		assert_int_equal(spread_create(&t.ctx, &row[i].a, &qp), row[i].rc);
	assert_null(qp);
	assert_int_equal(table->users, 0);
}

static void a_qp_keeps_its_table(void **state)
{
	struct qp *one, *two;

	(void)state;
	need_tap();
	one = make_spread();
	two = make_spread();
	assert_ptr_equal(one->ex.qp_base.qp_context, &t);
	assert_null(one->ex.qp_base.send_cq);
	assert_null(one->ex.qp_base.recv_cq);
	assert_int_equal(wq_table_destroy(table), -EBUSY);
	assert_int_equal(qp_destroy(one), 0);
	assert_int_equal(wq_table_destroy(table), -EBUSY);
	assert_int_equal(qp_destroy(two), 0);
}

/* It receives from the beginning on. */
static void there_are_no_states(void **state)
{
	struct qp *qp;

	(void)state;
	need_tap();
	qp = make_spread();
	assert_int_equal(modify(qp, IBV_QPS_INIT, IBV_QP_PORT, 0), -EOPNOTSUPP);
	assert_int_equal(qp->state, IBV_QPS_RESET);
	assert_int_equal(qp_destroy(qp), 0);
}

static struct flow *take_all(struct qp *qp)
{
	struct ibv_flow_attr a = { .type = IBV_FLOW_ATTR_ALL_DEFAULT,
				   .size = sizeof(a),
				   .port = 1 };
	struct flow *f;

	assert_int_equal(flow_create(qp, &a, &f), 0);
	return f;
}

/* A TCP segment without data. */
static struct frame segment(const uint8_t src[4], const uint8_t dst[4], uint16_t from,
			    uint16_t to)
{
	struct frame f = { .len = LEN };
	uint8_t *ip = f.bytes + 14, *tcp = ip + 20;

	memcpy(f.bytes, (uint8_t[14]){ 2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 9, 8, 0 }, 14);
	ip[0] = 0x45;
	ip[3] = 40;
	ip[8] = 64;
	ip[9] = 6;
	memcpy(ip + 12, src, 4);
	memcpy(ip + 16, dst, 4);
	tcp[0] = (uint8_t)(from >> 8), tcp[1] = (uint8_t)from;
	tcp[2] = (uint8_t)(to >> 8), tcp[3] = (uint8_t)to;
	tcp[12] = 0x50;
	return f;
}

/* The published hashes of these connections are 0x51ccc178, 0xc626b0ea and 0xafc7327f; a
 * frame that has no field of the hash goes to the first queue. */
static void the_hash_chooses_the_queue(void **state)
{
	static const struct {
		uint8_t src[4], dst[4];
		uint16_t from, to;
		int queue;
	} row[] = {
		{ { 66, 9, 149, 187 }, { 161, 142, 100, 80 }, 2794, 1766, 0 },
		{ { 199, 92, 111, 2 }, { 65, 69, 140, 83 }, 14230, 4739, 2 },
		{ { 38, 27, 205, 30 }, { 209, 142, 163, 6 }, 48228, 2217, 3 },
	};
	const struct frame none = make(2, 1);
	struct flow *flow;
	struct qp *qp;

	(void)state;
	need_tap();
	qp = make_spread();
	flow = take_all(qp);
	for (int i = 0; i < QUEUES; i++) {
		post_recv(queue[i]->qp, (uint64_t)i, LEN);
		post_recv(queue[i]->qp, (uint64_t)i, LEN);
	}
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		struct frame f = segment(row[i].src, row[i].dst, row[i].from, row[i].to);

		put(&f);
		take_in(1);
		expect(t.rcq, (uint64_t)row[i].queue, IBV_WC_SUCCESS, LEN);
		assert_memory_equal(t.mem + row[i].queue * 256, f.bytes, LEN);
		nothing(t.rcq);
	}
	put(&none);
	take_in(1);
	expect(t.rcq, 0, IBV_WC_SUCCESS, LEN);
	flow_destroy(flow);
	assert_int_equal(qp_destroy(qp), 0);
}

/* Frames of a queue that is not ready are dropped, and its receives stay. */
static void a_queue_that_is_not_ready(void **state)
{
	struct ibv_wq_attr a = { .attr_mask = IBV_WQ_ATTR_STATE };
	const struct frame f = make(2, 1);
	struct flow *flow;
	struct qp *qp;

	(void)state;
	need_tap();
	qp = make_spread();
	flow = take_all(qp);
	a.wq_state = IBV_WQS_RESET;
	assert_int_equal(wq_modify(queue[0], &a, t.now), 0);
	put(&f);
	take_in(1);
	nothing(t.rcq);
	a.wq_state = IBV_WQS_RDY;
	assert_int_equal(wq_modify(queue[0], &a, t.now), 0);
	post_recv(queue[0]->qp, 7, LEN);
	put(&f);
	take_in(1);
	expect(t.rcq, 7, IBV_WC_SUCCESS, LEN);
	flow_destroy(flow);
	assert_int_equal(qp_destroy(qp), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_refused, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_qp_keeps_its_table, set_up, tear_down),
		cmocka_unit_test_setup_teardown(there_are_no_states, set_up, tear_down),
		cmocka_unit_test_setup_teardown(the_hash_chooses_the_queue, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(a_queue_that_is_not_ready, set_up,
						tear_down),
	};

	make_tap();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
