/* SPDX-License-Identifier: BSD-2-Clause */
/* wire_rows.c - the table: what is wrong, and what each side must see. */
#include "wire.h"

#define A_ERR .state = IBV_QPS_ERR
#define RETRIED                                                                          \
	WC(RETRY_EXC_ERR), V_TIMEOUT, A_ERR,                                             \
		.log = "%A: .*work request 0x1 to QP .*did not answer"
#define NOT_READY                                                                        \
	WC(RNR_RETRY_EXC_ERR), V_RNR, A_ERR,                                             \
		.log = "%A: .*work request 0x1 to QP %B.*no receive posted"
#define SAYS_INVALID                                                                     \
	WC(REM_INV_REQ_ERR), V_REM_INVALID, A_ERR,                                       \
		.log = "%A: .*work request 0x[12] to QP %B.*request is invalid"
#define SAYS_ACCESS                                                                      \
	WC(REM_ACCESS_ERR), V_REM_ACCESS, A_ERR,                                         \
		.log = "%A: .*work request 0x1 to QP %B.*rkey, range or access"
#define SAYS_OPERATION                                                                   \
	WC(REM_OP_ERR), V_REM_OPERATION, A_ERR,                                          \
		.log = "%A: .*work request 0x1 to QP %B.*could not carry"
#define INVALID(why)                                                                     \
	.state = IBV_QPS_ERR, .event = EV(QP_REQ_ERR),                                   \
	.log = "%B: .* from QP %A.*, PSN .*" why

/* --- attributes ---------------------------------------------------------- */

static void short_timeout(struct ibv_qp_attr *a, bool is_b)
{
	(void)is_b;
	a->timeout = 12; /* 16.8 ms */
	a->retry_cnt = 2;
}

static void no_retry(struct ibv_qp_attr *a, bool is_b)
{
	(void)is_b;
	a->timeout = 13; /* 33.6 ms */
	a->retry_cnt = 0;
}

/* The peer says: in 10.24 ms. */
#define RNR(n)                                                                           \
	static void rnr_##n(struct ibv_qp_attr *a, bool is_b)                            \
	{                                                                                \
		(void)is_b;                                                              \
		a->min_rnr_timer = 20;                                                   \
		a->rnr_retry = n;                                                        \
	}
/* clang-format off */
RNR(0) RNR(1) RNR(2) RNR(3) RNR(4) RNR(5) RNR(6)
	/* clang-format on */

	static void one_read_in(struct ibv_qp_attr *a, bool is_b)
{
	a->max_rd_atomic = 8;
	a->max_dest_rd_atomic = is_b ? 1 : 8;
}

static void no_read_in(struct ibv_qp_attr *a, bool is_b)
{
	a->max_dest_rd_atomic = is_b ? 0 : 8;
}

static void no_read_out(struct ibv_qp_attr *a, bool is_b)
{
	a->max_rd_atomic = is_b ? 8 : 0;
}

/* --- rows ---------------------------------------------------------------- */

/* clang-format off */
const struct wire_row fixed_rows[] = {
	/* A good request must succeed; otherwise the other rows prove nothing. */
	{ "good_send", .op = IBV_WR_SEND, .a = { OK }, .b = { OK } },
	{ "good_write", .op = IBV_WR_RDMA_WRITE, .a = { OK } },
	{ "good_write_imm", .op = IBV_WR_RDMA_WRITE_WITH_IMM,
	  .a = { OK }, .b = { OK } },
	{ "good_read", .op = IBV_WR_RDMA_READ, .a = { OK } },
	{ "good_cmp_swap", .op = IBV_WR_ATOMIC_CMP_AND_SWP, .a = { OK } },
	{ "good_fetch_add", .op = IBV_WR_ATOMIC_FETCH_AND_ADD, .a = { OK } },
	{ "good_atomic_write", .op = IBV_WR_ATOMIC_WRITE, .length = 8, .a = { OK } },
	{ "good_uc_send", IBV_QPT_UC, IBV_WR_SEND, .a = { OK },
	  .b = { OK } },
	{ "good_uc_write", IBV_QPT_UC, IBV_WR_RDMA_WRITE, .a = { OK } },
	{ "good_ud_send", IBV_QPT_UD, IBV_WR_SEND, .a = { OK },
	  .b = { OK } },

	/* --- the QP does not allow it --- */
	{ "write_not_enabled", .op = IBV_WR_RDMA_WRITE, .no_right = IBV_ACCESS_REMOTE_WRITE,
	  .a = { SAYS_INVALID }, .b = { INVALID("qp_access_flags") } },
	{ "write_imm_not_enabled", .op = IBV_WR_RDMA_WRITE_WITH_IMM,
	  .no_right = IBV_ACCESS_REMOTE_WRITE,
	  .a = { SAYS_INVALID }, .b = { INVALID("qp_access_flags") } },
	{ "read_not_enabled", .op = IBV_WR_RDMA_READ, .no_right = IBV_ACCESS_REMOTE_READ,
	  .a = { SAYS_INVALID }, .b = { INVALID("qp_access_flags") } },
	{ "cmp_swap_not_enabled", .op = IBV_WR_ATOMIC_CMP_AND_SWP,
	  .no_right = IBV_ACCESS_REMOTE_ATOMIC,
	  .a = { SAYS_INVALID }, .b = { INVALID("qp_access_flags") } },
	{ "fetch_add_not_enabled", .op = IBV_WR_ATOMIC_FETCH_AND_ADD,
	  .no_right = IBV_ACCESS_REMOTE_ATOMIC,
	  .a = { SAYS_INVALID }, .b = { INVALID("qp_access_flags") } },

	{ "atomic_write_not_enabled", .op = IBV_WR_ATOMIC_WRITE, .length = 8,
	  .no_right = IBV_ACCESS_REMOTE_WRITE,
	  .a = { SAYS_INVALID }, .b = { INVALID("qp_access_flags") } },

	/* --- the request breaks a rule --- */
	{ "atomic_write_misaligned", .op = IBV_WR_ATOMIC_WRITE, .length = 8, .skew = 4,
	  .a = { SAYS_INVALID }, .b = { INVALID("aligned") } },
	{ "atomic_write_none_allowed", .op = IBV_WR_ATOMIC_WRITE, .length = 8,
	  .attr = no_read_in,
	  .a = { SAYS_INVALID }, .b = { INVALID("max_dest_rd_atomic") } },
	{ "atomic_write_none_outgoing", .op = IBV_WR_ATOMIC_WRITE, .length = 8,
	  .attr = no_read_out,
	  .a = { WC(LOC_QP_OP_ERR), V_LOCAL_OPERATION, A_ERR,
		 .log = "%A: .*work request 0x1.*not possible" } },
	{ "cmp_swap_misaligned", .op = IBV_WR_ATOMIC_CMP_AND_SWP, .skew = 4,
	  .a = { SAYS_INVALID }, .b = { INVALID("aligned") } },
	{ "fetch_add_misaligned", .op = IBV_WR_ATOMIC_FETCH_AND_ADD, .skew = 1,
	  .a = { SAYS_INVALID }, .b = { INVALID("aligned") } },
	{ "reads_above_max_dest", .op = IBV_WR_RDMA_READ, .length = 8192, .count = 8,
	  .attr = one_read_in, .a = { SAYS_INVALID }, .b = { INVALID("max_dest_rd_atomic") } },
	{ "read_none_allowed", .op = IBV_WR_RDMA_READ, .attr = no_read_in,
	  .a = { SAYS_INVALID }, .b = { INVALID("max_dest_rd_atomic") } },
	{ "fetch_add_none_allowed", .op = IBV_WR_ATOMIC_FETCH_AND_ADD, .attr = no_read_in,
	  .a = { SAYS_INVALID }, .b = { INVALID("max_dest_rd_atomic") } },
	{ "read_none_outgoing", .op = IBV_WR_RDMA_READ, .attr = no_read_out,
	  .a = { WC(LOC_QP_OP_ERR), V_LOCAL_OPERATION, A_ERR,
		 .log = "%A: .*work request 0x1.*not possible" } },
	{ "cmp_swap_none_outgoing", .op = IBV_WR_ATOMIC_CMP_AND_SWP, .attr = no_read_out,
	  .a = { WC(LOC_QP_OP_ERR), V_LOCAL_OPERATION, A_ERR,
		 .log = "%A: .*work request 0x1.*not possible" } },
	{ "send_inv_of_nothing", .op = IBV_WR_SEND_WITH_INV, .inv_wrong = true,
	  .attr = short_timeout, .a = { RETRIED }, /* 9.9.3, class J: no NAK */
	  .b = { WC(REM_INV_REQ_ERR), V_INVALIDATE, A_ERR, .log = "%B.*cannot be invalidated" } },

	/* --- longer than the receive --- */
	{ "send_too_long", .op = IBV_WR_SEND, .length = 65, .recv_length = 64,
	  .a = { SAYS_INVALID },
	  .b = { WC(LOC_LEN_ERR), V_LOCAL_LENGTH, A_ERR, .log = "%B: .*longer than the receive" } },
	{ "send_too_long_in_a_later_packet", .op = IBV_WR_SEND, .length = 4000,
	  .recv_length = 3999, .a = { SAYS_INVALID },
	  .b = { WC(LOC_LEN_ERR), V_LOCAL_LENGTH, A_ERR, .log = "%B: .*longer than the receive" } },
	{ "send_just_fits", .op = IBV_WR_SEND, .length = 4000, .recv_length = 4000,
	  .a = { OK }, .b = { OK } },
	{ "uc_send_too_long", IBV_QPT_UC, IBV_WR_SEND, 65, .recv_length = 64,
	  .a = { OK }, .b = { .log = "%B: .*longer than the receive.*dropped" } },
	{ "ud_send_too_long", IBV_QPT_UD, IBV_WR_SEND, 65, .recv_length = 40 + 64,
	  .a = { OK }, .b = { .log = "%B: .*longer than the receive; dropped" } },

	/* --- no receive --- */
	{ "rnr_retry_0", .op = IBV_WR_SEND, .no_recv = true, .attr = rnr_0,
	  .a = { NOT_READY }, .max_ms = 2000 },
	{ "rnr_retry_1", .op = IBV_WR_SEND, .no_recv = true, .attr = rnr_1,
	  .a = { NOT_READY }, .min_ms = 10, .max_ms = 2000 },
	{ "rnr_retry_2", .op = IBV_WR_SEND, .no_recv = true, .attr = rnr_2,
	  .a = { NOT_READY }, .min_ms = 20, .max_ms = 2000 },
	{ "rnr_retry_3", .op = IBV_WR_SEND, .no_recv = true, .attr = rnr_3,
	  .a = { NOT_READY }, .min_ms = 30, .max_ms = 2000 },
	{ "rnr_retry_4", .op = IBV_WR_SEND, .no_recv = true, .attr = rnr_4,
	  .a = { NOT_READY }, .min_ms = 40, .max_ms = 2000 },
	{ "rnr_retry_5", .op = IBV_WR_SEND, .no_recv = true, .attr = rnr_5,
	  .a = { NOT_READY }, .min_ms = 50, .max_ms = 2000 },
	{ "rnr_retry_6", .op = IBV_WR_SEND, .no_recv = true, .attr = rnr_6,
	  .a = { NOT_READY }, .min_ms = 60, .max_ms = 2000 },
	{ "rnr_of_write_imm", .op = IBV_WR_RDMA_WRITE_WITH_IMM, .no_recv = true,
	  .attr = rnr_1, .a = { NOT_READY }, .min_ms = 10 },
	{ "rnr_of_send_inv", .op = IBV_WR_SEND_WITH_INV, .no_recv = true,
	  .attr = rnr_0, .a = { NOT_READY } },
	{ "uc_no_receive", IBV_QPT_UC, IBV_WR_SEND, .no_recv = true, .a = { OK },
	  .b = { .log = "%B: .*no receive is posted" } },
	{ "ud_no_receive", IBV_QPT_UD, IBV_WR_SEND, .no_recv = true, .a = { OK },
	  .b = { .log = "%B: .*no receive is posted" } },

	/* --- nobody answers --- */
	{ "peer_gone", .op = IBV_WR_SEND, .peer = PEER_GONE, .attr = short_timeout,
	  .a = { RETRIED }, .min_ms = 3 * 16, .max_ms = 2000 },
	{ "peer_gone_read", .op = IBV_WR_RDMA_READ, .peer = PEER_GONE, .attr = short_timeout,
	  .a = { RETRIED }, .min_ms = 3 * 16, .max_ms = 2000 },
	{ "peer_gone_fetch_add", .op = IBV_WR_ATOMIC_FETCH_AND_ADD, .peer = PEER_GONE,
	  .attr = short_timeout, .a = { RETRIED }, .min_ms = 3 * 16, .max_ms = 2000 },
	{ "peer_gone_no_retry", .op = IBV_WR_RDMA_WRITE, .peer = PEER_GONE, .attr = no_retry,
	  .a = { RETRIED }, .min_ms = 33, .max_ms = 2000 },
	{ "peer_in_reset", .op = IBV_WR_SEND, .peer = PEER_RESET, .attr = short_timeout,
	  .a = { RETRIED }, .b.state = IBV_QPS_RESET, .min_ms = 3 * 16 },
	{ "peer_in_init", .op = IBV_WR_SEND, .peer = PEER_INIT, .attr = short_timeout,
	  .a = { RETRIED }, .b.state = IBV_QPS_INIT, .min_ms = 3 * 16 },
	{ "peer_in_error", .op = IBV_WR_SEND, .peer = PEER_ERR, .attr = short_timeout,
	  .a = { RETRIED }, .b = { WC(WR_FLUSH_ERR), V_FLUSHED, A_ERR }, .min_ms = 3 * 16 },
	{ "uc_peer_gone", IBV_QPT_UC, IBV_WR_SEND, .peer = PEER_GONE, .a = { OK } },
	{ "ud_peer_gone", IBV_QPT_UD, IBV_WR_SEND, .peer = PEER_GONE, .a = { OK } },

	/* --- UC and UD: silence --- */
	{ "ud_wrong_qkey", IBV_QPT_UD, IBV_WR_SEND, .qkey_xor = 1, .a = { OK },
	  .b = { .log = "%B: .* from QP %A.*another than the QP's; dropped" } },
	{ "ud_above_mtu", IBV_QPT_UD, IBV_WR_SEND, 5000,
	  .a = { WC(LOC_LEN_ERR), V_TOO_LONG, IBV_QPS_SQE,
		 .log = "%A: .*5000 bytes, work request 0x1.*longer than the transport" } },
	{ "uc_write_not_enabled", IBV_QPT_UC, IBV_WR_RDMA_WRITE,
	  .no_right = IBV_ACCESS_REMOTE_WRITE, .a = { OK },
	  .b = { .log = "%B: .*qp_access_flags" } },
};
/* clang-format on */
const unsigned fixed_count = COUNT(fixed_rows);

/* --- the product of operations and spoiled keys -------------------------- */

static const char *const key_name[KEYS] = {
	[KEY_ZERO] = "zero",
	[KEY_UNKNOWN] = "unknown",
	[KEY_GENERATION] = "wrong_generation",
	[KEY_STALE] = "stale",
	[KEY_BELOW] = "below",
	[KEY_ABOVE] = "above",
	[KEY_WRAP] = "wrap",
	[KEY_OTHER_PD] = "other_pd",
	[KEY_NO_ACCESS] = "no_access",
	[KEY_UNMAPPED] = "unmapped",
};

static const char *const key_log[KEYS] = {
	[KEY_ZERO] = "key unknown",
	[KEY_UNKNOWN] = "key unknown",
	[KEY_GENERATION] = "key unknown",
	[KEY_STALE] = "key unknown",
	[KEY_BELOW] = "range outside",
	[KEY_ABOVE] = "range outside",
	[KEY_WRAP] = "range outside",
	[KEY_OTHER_PD] = "protection domain differs",
	[KEY_NO_ACCESS] = "access not granted",
};

enum where { AT_REMOTE, AT_LOCAL, AT_RECV };

static const struct {
	const char *name;
	enum ibv_qp_type type;
	enum ibv_wr_opcode op;
	enum where where;
	bool only_read; /* local memory that is only read, so it need not be writable */
} ops[] = {
	{ "write", IBV_QPT_RC, IBV_WR_RDMA_WRITE, AT_REMOTE, false },
	{ "write_imm", IBV_QPT_RC, IBV_WR_RDMA_WRITE_WITH_IMM, AT_REMOTE, false },
	{ "read", IBV_QPT_RC, IBV_WR_RDMA_READ, AT_REMOTE, false },
	{ "cmp_swap", IBV_QPT_RC, IBV_WR_ATOMIC_CMP_AND_SWP, AT_REMOTE, false },
	{ "fetch_add", IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, AT_REMOTE, false },
	{ "atomic_write", IBV_QPT_RC, IBV_WR_ATOMIC_WRITE, AT_REMOTE, false },
	{ "uc_write", IBV_QPT_UC, IBV_WR_RDMA_WRITE, AT_REMOTE, false },
	{ "send_from", IBV_QPT_RC, IBV_WR_SEND, AT_LOCAL, true },
	{ "write_from", IBV_QPT_RC, IBV_WR_RDMA_WRITE, AT_LOCAL, true },
	{ "read_into", IBV_QPT_RC, IBV_WR_RDMA_READ, AT_LOCAL, false },
	{ "fetch_add_into", IBV_QPT_RC, IBV_WR_ATOMIC_FETCH_AND_ADD, AT_LOCAL, false },
	{ "uc_send_from", IBV_QPT_UC, IBV_WR_SEND, AT_LOCAL, true },
	{ "ud_send_from", IBV_QPT_UD, IBV_WR_SEND, AT_LOCAL, true },
	{ "receive_into", IBV_QPT_RC, IBV_WR_SEND, AT_RECV, false },
	{ "uc_receive_into", IBV_QPT_UC, IBV_WR_SEND, AT_RECV, false },
	{ "ud_receive_into", IBV_QPT_UD, IBV_WR_SEND, AT_RECV, false },
};

static void remote_seen(struct wire_row *r, enum key key)
{
	static char log[160];

	r->rkey = key;
	if (r->type == IBV_QPT_UC) {
		r->a = (struct seen){ OK };
		r->b = (struct seen){ 0 };
	} else if (key != KEY_UNMAPPED) {
		r->a = (struct seen){ SAYS_ACCESS };
		r->b = (struct seen){ .state = IBV_QPS_ERR, .event = EV(QP_ACCESS_ERR) };
	} else {
		r->a = (struct seen){ SAYS_OPERATION };
		r->b = (struct seen){ .state = IBV_QPS_ERR, .event = EV(QP_ACCESS_ERR) };
	}
	if (r->op == IBV_WR_RDMA_WRITE_WITH_IMM) {
		r->b.wc = WC(LOC_ACCESS_ERR); /* 11.6.2 */
		r->b.verr = V_REQ_ACCESS;
	}
	if (key == KEY_UNMAPPED) {
		r->b.log = r->op == IBV_WR_RDMA_READ ? "%B: .*memory is gone"
						     : "%B: .*not mapped";
		return;
	}
	snprintf(log, sizeof(log), "%%B: .* from QP %%A.*, PSN .*: %s", key_log[key]);
	r->b.log = log;
}

static void local_seen(struct wire_row *r, enum key key, bool recv)
{
	static char log[160];
	struct seen *here = recv ? &r->b : &r->a;

	*here = (struct seen){
		.wc = WC(LOC_PROT_ERR),
		.verr = key == KEY_UNMAPPED ? V_LOCAL_FAULT : V_LOCAL_KEY,
		.state = r->type == IBV_QPT_RC || recv ? IBV_QPS_ERR : IBV_QPS_SQE,
	};
	if (recv) {
		r->recv_key = key;
		/* exactly as long as the message needs, since the key is checked for
		 * that length */
		r->recv_length = r->type == IBV_QPT_UD ? 40 + 64 : 64;
		r->a = r->type == IBV_QPT_RC ? (struct seen){ SAYS_OPERATION }
					     : (struct seen){ OK };
	} else {
		r->lkey = key;
	}
	if (key == KEY_UNMAPPED)
		snprintf(log, sizeof(log), "%s: .*no longer mapped", recv ? "%B" : "%A");
	else
		snprintf(log, sizeof(log),
			 "%s: lkey 0x[0-9a-f]{8}, [0-9]+ bytes at .*: %s",
			 recv ? "%B" : "%A", key_log[key]);
	here->log = log;
}

/* Returns one row at a time: the next call overwrites it. */
const struct wire_row *product_row(unsigned i)
{
	static struct wire_row r;
	static char name[64];

	for (size_t k = 0; k < COUNT(ops); k++) {
		for (int key = KEY_GOOD + 1; key < KEYS; key++) {
			if (key == KEY_NO_ACCESS && ops[k].only_read)
				continue;
			if (i--)
				continue;
			snprintf(name, sizeof(name), "%s_%s", ops[k].name, key_name[key]);
			r = (struct wire_row){ .name = name,
					       .type = ops[k].type,
					       .op = ops[k].op };
			if (ops[k].where == AT_REMOTE)
				remote_seen(&r, (enum key)key);
			else
				local_seen(&r, (enum key)key, ops[k].where == AT_RECV);
			return &r;
		}
	}
	return NULL;
}
